//! A connection: how long it may be silent, and its end.

use super::wire::{End, Wire};
use super::{Driver, LINGER};
use crate::agent::ConnectionId;
use crate::{Body, Message};
use std::time::Instant;

/// A controller that reads fewer octets than this within the limit of silence does not count as reading.
const LEAST_READ_OCTETS: u64 = 4096;
/// The transaction of our echo requests.
const ECHO_XID: u32 = 0x6865_6464;

/// A connection.
pub(super) struct Peer {
    pub id: ConnectionId,
    pub wire: Wire,
    pub name: String,
    /// The controller that it was opened to, by its place in the list.
    pub target: Option<usize>,
    /// Whether the socket is connected: one that was opened from here is not at first.
    pub is_connected: bool,
    /// The socket may have something to read, or take something to send.
    pub readable: bool,
    pub since: Instant,
    /// When it was last seen to be there, and what it had said and read by then.
    pub alive: Instant,
    pub messages: u64,
    pub sent: u64,
    pub has_asked_echo: bool,
    /// Whether hello has been said.
    pub is_open: bool,
    /// It is closed once the other side has read all and closed too, or then.
    pub closing: Option<Instant>,
    pub has_said_all: bool,
    /// The other side has said all: it gets its last answers.
    pub has_heard_all: bool,
}

/// Why a connection is let go.
pub(super) enum Loss {
    Ended(End),
    NoHello,
    Silent,
    Slow,
    Refused,
}

impl Driver {
    /// Lets go who has been silent for too long, and asks the others whether they are there.
    pub(super) fn check_times(&mut self, now: Instant) {
        let mut lost = Vec::new();
        for (token, peer) in &mut self.peers {
            let messages = self.agent.messages(peer.id);
            if messages != peer.messages || peer.wire.sent - peer.sent >= LEAST_READ_OCTETS {
                (peer.alive, peer.messages, peer.sent) = (now, messages, peer.wire.sent);
                peer.has_asked_echo = false;
                // A long answer is read to its end.
                if peer.has_heard_all && peer.closing.is_some() {
                    peer.closing = Some(now + LINGER);
                }
            }
            if let Some(end) = peer.closing {
                if now >= end {
                    let loss = match peer.has_heard_all {
                        true => Loss::Ended(End::Finished),
                        false => Loss::Refused,
                    };
                    lost.push((*token, loss));
                }
                continue;
            }
            if !peer.is_open && self.agent.is_open(peer.id) {
                peer.is_open = true;
                if let Some(target) = peer.target.and_then(|at| self.targets.get_mut(at)) {
                    target.succeed(&self.settings);
                    self.counters.connected += 1;
                    self.log.info(|| format!("controller {} is there", peer.name));
                }
            }
            if !peer.is_open {
                if now.duration_since(peer.since) >= self.settings.hello_limit {
                    lost.push((*token, Loss::NoHello));
                }
                continue;
            }
            let silence = now.duration_since(peer.alive);
            if silence >= self.settings.silence_limit {
                lost.push((*token, Loss::Silent));
            } else if silence >= self.settings.echo_interval && !peer.has_asked_echo {
                peer.has_asked_echo = true;
                if let Ok(echo) = Message::new(ECHO_XID, Body::EchoRequest(Vec::new())).encode() {
                    peer.wire.push(&echo);
                }
            }
        }
        for (token, loss) in lost {
            self.lose(token, loss);
        }
    }

    /// Forgets a connection.
    pub(super) fn lose(&mut self, token: usize, loss: Loss) {
        let Some(mut peer) = self.peers.remove(&token) else { return };
        let name = &peer.name;
        let (log, counters) = (&mut self.log, &mut self.counters);
        match &loss {
            // Told with the wait for the next attempt.
            Loss::Ended(End::Closed(_) | End::Finished)
                if peer.target.is_some() && !peer.is_open => {}
            Loss::Ended(End::Finished) => {
                counters.closed += 1;
                log.info(|| format!("{name} has closed its connection"));
            }
            Loss::Ended(End::Closed(why)) => {
                counters.closed += 1;
                log.info(|| format!("the connection to {name} has failed: {why}"));
            }
            Loss::Ended(End::Tls(why)) => {
                counters.tls_failed += 1;
                log.warn(|| format!("no TLS with {name}: {why}"));
            }
            Loss::NoHello => {
                counters.no_hello += 1;
                log.warn(|| format!("{name} has not said hello in time"));
            }
            Loss::Silent => {
                counters.silent += 1;
                log.warn(|| format!("{name} has been silent for too long"));
            }
            Loss::Slow => {
                counters.slow += 1;
                log.warn(|| format!("{name} does not read what it is sent"));
            }
            Loss::Refused => {
                counters.refused += 1;
                log.warn(|| format!("{name} does not speak OpenFlow 1.3 as it should"));
            }
        }
        self.agent.disconnect(peer.id);
        if !matches!(loss, Loss::Ended(_)) && !peer.has_said_all {
            peer.wire.finish();
        }
        // It is closed in any case.
        let _ = self.poll.registry().deregister(&mut peer.wire.stream);
        if let Some(target) = peer.target.and_then(|at| self.targets.get_mut(at)) {
            if !peer.is_open {
                counters.unreachable += 1;
            }
            let wait = target.fail(&self.settings);
            let why = match loss {
                Loss::Ended(End::Closed(why)) => why,
                Loss::Ended(End::Finished) => "it has closed the connection".to_owned(),
                _ => "it was let go".to_owned(),
            };
            let wait_s = wait.as_secs_f64();
            log.warn(|| {
                format!("controller {name} is not there ({why}); next attempt in {wait_s:.1} s")
            });
        }
    }
}
