//! Asks again where a server is while its flows wait: its address may have changed.

use crate::connector::Connector;
use crate::shared::{Shared, now};
use crate::socket::{address_of, path_of};
use heddle_core::dtp::modern::FlowId;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often it is looked whether flows wait.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Flows have waited for so long when it is first asked, and again after twice the time, up to the most.
const FIRST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(30);

impl Connector {
    /// Keeps to the server's name: while flows of this connector's wait for their network the name is resolved again, and flows whose peer is not at any
    /// of its addresses are taken to one of them. For a connector all of whose flows go to this one server. The old keys hold, so whoever answers at a wrong
    /// address is not listened to.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn follow(&self, name: &str) -> io::Result<()> {
        let name = name.to_owned();
        self.follow_with(move || Ok(name.to_socket_addrs()?.collect()))
    }

    /// The same with a resolver of the caller's.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn follow_with(
        &self,
        resolve: impl Fn() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::downgrade(self.endpoint().shared());
        let follow = move || follow(&shared, &resolve);
        std::thread::Builder::new().name("dtp-resolve".into()).spawn(follow).map(drop)
    }
}

/// Until the endpoint is gone.
fn follow(shared: &Weak<Shared>, resolve: &dyn Fn() -> io::Result<Vec<SocketAddr>>) {
    let mut wait = FIRST;
    let mut next: Option<Instant> = None;
    let mut turn = 0;
    loop {
        std::thread::sleep(LOOK_EVERY);
        {
            let Some(shared) = shared.upgrade() else { return };
            if !shared.lock().flows.values().any(|status| status.suspended) {
                (wait, next) = (FIRST, None);
                continue;
            }
        }
        let due = *next.get_or_insert_with(|| Instant::now() + FIRST);
        if Instant::now() < due {
            continue;
        }
        // Nothing is held meanwhile: it may take long.
        let addresses = resolve().unwrap_or_else(|error| {
            tracing::debug!(%error, "the server's name is not resolved");
            Vec::new()
        });
        wait = (wait * 2).min(MOST);
        next = Some(Instant::now() + wait);
        let Some(shared) = shared.upgrade() else { return };
        turn += 1;
        take(&shared, &addresses, turn);
    }
}

/// Takes flows that wait to one of the addresses, each time to another, unless they are at one of them.
fn take(shared: &Shared, addresses: &[SocketAddr], turn: usize) {
    let Some(address) = turn.checked_rem(addresses.len()).and_then(|at| addresses.get(at)) else {
        return;
    };
    let paths: Vec<_> = addresses.iter().map(|address| path_of(*address)).collect();
    let mut state = shared.lock();
    let waiting = state.flows.iter().filter(|(_, status)| status.suspended);
    let waiting: Vec<FlowId> = waiting.map(|(flow, _)| *flow).collect();
    let mut any = false;
    for flow in waiting {
        let Some(at) = state.endpoint.path(flow) else { continue };
        if !paths.contains(&at) {
            tracing::info!(from = %address_of(at), to = %address, "the server's address has changed");
            state.endpoint.set_path(now(), flow, path_of(*address));
            any = true;
        }
    }
    drop(state);
    if any {
        shared.ring();
    }
}
