//! Signals that ask the testbed to stop: noticed in good time, acted upon only between steps.
//!
//! A default handler would end the process and leave namespaces behind. Ours only notes the wish; whoever waits or
//! works in steps asks [`Shutdown::check`] and returns, and guards take down what was set up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, low_level};

use crate::error::{Error, Result};

/// Whether the user wants to stop. Clones share the answer.
#[derive(Clone, Debug)]
pub struct Shutdown {
    wanted: Arc<AtomicBool>,
    _handlers: Arc<Handlers>,
}

#[derive(Debug)]
struct Handlers(Vec<SigId>);

impl Drop for Handlers {
    fn drop(&mut self) {
        for &handler in &self.0 {
            low_level::unregister(handler);
        }
    }
}

impl Shutdown {
    /// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process.
    ///
    /// # Errors
    /// When the operating system takes no handler.
    pub fn on_signals() -> Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        let mut handlers = Handlers(Vec::new());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let handler = signal_hook::flag::register(signal, Arc::clone(&wanted));
            handlers.0.push(handler.map_err(Error::io("handle signals"))?);
        }
        Ok(Self { wanted, _handlers: Arc::new(handlers) })
    }

    /// No signal is handled; [`Shutdown::request`] is the only way to stop.
    pub fn manual() -> Self {
        Self { wanted: Arc::default(), _handlers: Arc::new(Handlers(Vec::new())) }
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Goes on unless a stop was asked for.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when it was.
    pub fn check(&self) -> Result<()> {
        if self.is_wanted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sleeps for `duration`, in pieces short enough for a person who waits for ^C to work.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when a stop was asked for meanwhile.
    pub fn sleep(&self, mut duration: Duration) -> Result<()> {
        const PIECE: Duration = Duration::from_millis(50);
        while !duration.is_zero() {
            self.check()?;
            let piece = duration.min(PIECE);
            thread::sleep(piece);
            duration -= piece;
        }
        self.check()
    }
}
