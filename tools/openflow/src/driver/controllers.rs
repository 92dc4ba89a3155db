//! Controllers that the switch looks for, and what it does without them.

use super::target::State;
use super::{Driver, FailMode};
use crate::datapath::Datapath;
use crate::{Address, Transport};
use mio::net::TcpStream;
use std::io::{self, ErrorKind};
use std::time::Instant;

impl Driver {
    /// Makes the attempts whose time has come.
    pub(super) fn reach_controllers(&mut self, now: Instant) {
        for at in 0..self.targets.len() {
            let Some(target) = self.targets.get_mut(at) else { continue };
            if matches!(target.state, State::Waiting(when) if now >= when) {
                let waker = self.waker.clone();
                // A wait that is not ended ends by itself.
                target.resolve(move || drop(waker.wake()));
            }
            let State::Resolving(told) = &target.state else { continue };
            let found = match told.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => continue,
                Err(error) => Err(io::Error::other(error)),
                Ok(found) => found,
            };
            let address = target.address.clone();
            let connected = found.and_then(|found| {
                let socket = target.choose(&found).ok_or(ErrorKind::NotFound)?;
                TcpStream::connect(socket)
            });
            let tls = match (&self.tls, address.transport) {
                (Some(tls), Transport::Tls) => {
                    tls.connecting(&address.host).map(|tls| Some(tls.into()))
                }
                _ => Ok(None),
            };
            let begun = match (connected, tls) {
                (Ok(stream), Ok(tls)) => self.begin(stream, tls, address.to_string(), Some(at)),
                (Err(error), _) => self.note_failure(&address, &error.to_string()),
                (_, Err(error)) => self.note_failure(&address, &error.to_string()),
            };
            let Some(target) = self.targets.get_mut(at) else { continue };
            match begun {
                Some(token) => target.state = State::Connected(token),
                None => {
                    target.fail(&self.settings);
                }
            }
        }
    }

    fn note_failure(&mut self, address: &Address, why: &str) -> Option<usize> {
        self.counters.unreachable += 1;
        self.log.warn(|| format!("cannot reach controller {address}: {why}"));
        None
    }

    pub(super) fn check_fail_mode(&mut self, now: Instant, datapath: &mut dyn Datapath) {
        let is_there = self.controllers().any(|(_, is_there)| is_there);
        if is_there || self.targets.is_empty() || self.settings.fail_mode == FailMode::Secure {
            self.alone_since = None;
            if self.is_standalone {
                self.is_standalone = false;
                datapath.set_standalone(false);
                self.log.info(|| {
                    "a controller is there again: the switch goes by its flows".to_owned()
                });
            }
            return;
        }
        let since = *self.alone_since.get_or_insert(now);
        if !self.is_standalone && now.duration_since(since) >= self.settings.fail_after {
            self.is_standalone = true;
            self.counters.standalone += 1;
            datapath.set_standalone(true);
            self.log.warn(|| "no controller is there: the switch floods".to_owned());
        }
    }
}
