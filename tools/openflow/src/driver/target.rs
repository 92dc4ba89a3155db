//! A controller that the switch connects to, again and again.

use super::Settings;
use crate::Address;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How far the switch has got with a controller.
pub(super) enum State {
    /// The next attempt is made then.
    Waiting(Instant),
    /// Its name is being looked up.
    Resolving(Receiver<std::io::Result<Vec<SocketAddr>>>),
    /// This connection is there, or on its way.
    Connected(usize),
}

pub(super) struct Target {
    pub address: Address,
    pub state: State,
    /// How long the switch waits after the next failure.
    delay: Duration,
    /// Attempts so far: they go through the addresses in turn.
    attempts: usize,
}

impl Target {
    pub(super) fn new(address: Address, settings: &Settings) -> Self {
        let state = State::Waiting(Instant::now());
        Self { address, state, delay: settings.min_delay, attempts: 0 }
    }

    /// Looks the name up, on a thread of its own: that can take long. `wake` is called at the end.
    pub(super) fn resolve(&mut self, wake: impl FnOnce() + Send + 'static) {
        let (tell, told) = channel();
        self.state = State::Resolving(told);
        // Nothing to look up.
        if let Ok(ip) = self.address.host.parse::<IpAddr>() {
            // The receiver is there: it was made above.
            let _ = tell.send(Ok(vec![SocketAddr::new(ip, self.address.port)]));
            return;
        }
        let address = self.address.clone();
        let look_up = move || {
            // The target may be gone by then.
            let _ = tell.send(address.resolve());
            wake();
        };
        // Without a thread the sender is dropped, which counts as a failure.
        let _ = std::thread::Builder::new().name("resolver".to_owned()).spawn(look_up);
    }

    /// The address to try now.
    pub(super) fn choose(&mut self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let at = self.attempts.checked_rem(addresses.len())?;
        self.attempts = self.attempts.wrapping_add(1);
        addresses.get(at).copied()
    }

    /// An attempt has come to nothing, or the connection has ended: the wait grows from time to time and is never quite the same, so that
    /// the switches of a controller that comes back do not come all at once.
    pub(super) fn fail(&mut self, settings: &Settings) -> Duration {
        let wait = self.delay.mul_f64(rand::random_range(0.5..1.0));
        self.delay = (self.delay * 2).min(settings.max_delay);
        self.state = State::Waiting(Instant::now() + wait);
        wait
    }

    /// Both sides have said hello.
    pub(super) fn succeed(&mut self, settings: &Settings) {
        self.delay = settings.min_delay;
    }
}
