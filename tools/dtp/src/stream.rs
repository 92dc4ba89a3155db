//! Streams with the shape of `std::net::TcpStream`.

use crate::endpoint::Endpoint;
use crate::restored::{Rewound, gone};
use crate::shared::{Shared, State};
use crate::socket::address_of;
use heddle_core::dtp::modern::{CloseReason, FlowId, StreamError};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The stream of a flow that these types carry.
pub(crate) const STREAM: u32 = 0;

/// What a closed flow means to who reads or writes.
pub(crate) fn closed(reason: CloseReason) -> io::Error {
    let (kind, what) = match reason {
        CloseReason::Local => (ErrorKind::NotConnected, "this end has closed the flow".into()),
        CloseReason::Peer(reason) => {
            (ErrorKind::ConnectionReset, format!("the peer has closed the flow (reason {reason})"))
        }
        CloseReason::Timeout => (ErrorKind::TimedOut, "the server does not answer".into()),
        CloseReason::Expired => {
            // Not a time-out: those are of reads and writes that may be tried again.
            let what = "the network was away for longer than the keep-alive";
            (ErrorKind::ConnectionAborted, what.into())
        }
        CloseReason::Evicted => {
            (ErrorKind::ConnectionAborted, "the flow had to make room for others".into())
        }
        CloseReason::Protocol(error) => {
            (ErrorKind::ConnectionAborted, format!("the peer broke the protocol: {}", error.name()))
        }
    };
    io::Error::new(kind, what)
}

/// A flow that the application holds.
pub(crate) struct Held {
    pub shared: Arc<Shared>,
    /// Keeps the thread alive.
    pub endpoint: Endpoint,
    pub flow: FlowId,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // What was written still goes out; the thread forgets the flow then.
        let gone = match state.flows.get_mut(&self.flow) {
            Some(status) => {
                status.held = false;
                status.closed.is_some()
            }
            None => true,
        };
        if gone {
            state.flows.remove(&self.flow);
            state.endpoint.forget(self.flow);
        } else {
            state.endpoint.close(self.flow, 0);
        }
        drop(state);
        self.shared.ring();
    }
}

/// A reliable stream that outlives its network.
pub struct DtpStream {
    pub(crate) held: Held,
    /// The application can write again what it has written.
    pub(crate) rewinding: AtomicBool,
    pub(crate) ended: AtomicBool,
    /// This end's direction is at its end.
    finished: AtomicBool,
    /// Nanoseconds; 0 for none.
    pub(crate) read_timeout: AtomicU64,
    pub(crate) write_timeout: AtomicU64,
}

impl DtpStream {
    pub(crate) fn new(held: Held) -> Self {
        Self {
            held,
            rewinding: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            read_timeout: AtomicU64::new(0),
            write_timeout: AtomicU64::new(0),
        }
    }

    /// The stream of a flow that is held.
    pub(crate) fn of(endpoint: &Endpoint, flow: FlowId) -> Self {
        let shared = Arc::clone(endpoint.shared());
        Self::new(Held { shared, endpoint: endpoint.clone(), flow })
    }

    /// What a restart means to who reads or writes.
    fn rewound(&self, state: &mut State) -> Option<io::Error> {
        if !self.rewinding.load(Ordering::Acquire) {
            let waits = state.endpoint.must_write_again(self.held.flow, STREAM);
            if waits {
                state.endpoint.close(self.held.flow, 0);
                self.held.shared.ring();
            }
            return waits.then(gone);
        }
        let offset = state.endpoint.resume_offset(self.held.flow, STREAM)?;
        // The end has to be said again too.
        self.finished.store(false, Ordering::Release);
        Some(Rewound { offset }.error())
    }

    /// The endpoint that the stream lives on.
    pub fn endpoint(&self) -> &Endpoint {
        &self.held.endpoint
    }

    /// Where the peer is now.
    ///
    /// # Errors
    /// [`ErrorKind::NotConnected`] when the flow is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let path = self.held.shared.lock().endpoint.path(self.held.flow);
        path.map(address_of).ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// The address of this end's socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.held.shared.address
    }

    /// Whether the stream waits for the network.
    pub fn is_suspended(&self) -> bool {
        let state = self.held.shared.lock();
        state.flows.get(&self.held.flow).is_some_and(|status| status.suspended)
    }

    /// For how long silence is borne.
    pub fn keep_alive(&self) -> Duration {
        let seconds = self.held.shared.lock().endpoint.keep_alive_s(self.held.flow);
        Duration::from_secs(seconds.unwrap_or(0).into())
    }

    /// Octets written that the peer has.
    pub fn acknowledged(&self) -> Option<u64> {
        self.held.shared.lock().endpoint.acknowledged(self.held.flow, STREAM)
    }

    /// How long a read waits; nothing for as long as it takes.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.read_timeout.store(nanoseconds(timeout), Ordering::Relaxed);
    }

    /// How long a write waits; nothing for as long as it takes.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.write_timeout.store(nanoseconds(timeout), Ordering::Relaxed);
    }

    /// Ends this end's direction: the peer reads the end of the stream. [`Shutdown::Read`] changes nothing, as what comes is not asked for.
    ///
    /// # Errors
    /// [`ErrorKind::NotConnected`] when the flow is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how == Shutdown::Read {
            return Ok(());
        }
        if self.finished.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut state = self.held.shared.lock();
        let result = state.endpoint.finish(self.held.flow, STREAM);
        self.held.shared.ring();
        match result {
            Err(StreamError::Rewound) => {
                self.finished.store(false, Ordering::Release);
                Err(self.rewound(&mut state).unwrap_or_else(gone))
            }
            other => other.map_err(|_| ErrorKind::NotConnected.into()),
        }
    }

    /// Breaks the stream off: the peer's reads and writes fail with the reason, whatever was still on its way.
    pub fn abort(&self, reason: u32) {
        let mut state = self.held.shared.lock();
        // A flow that is gone needs no reset.
        let _ = state.endpoint.reset(self.held.flow, STREAM, reason);
        state.endpoint.close(self.held.flow, reason);
        drop(state);
        self.held.shared.ring();
    }

    /// Reads if there is something; nothing when one would have to wait.
    fn try_read(&self, state: &mut State, out: &mut [u8]) -> Option<io::Result<usize>> {
        if out.is_empty() || self.ended.load(Ordering::Acquire) {
            return Some(Ok(0));
        }
        let closed_reason = state.flows.get(&self.held.flow).and_then(|status| status.closed);
        match state.endpoint.read(self.held.flow, STREAM, out) {
            Ok(Some(count)) if count > 0 => {
                if state.endpoint.is_ready() {
                    // The peer may send more.
                    self.held.shared.ring();
                }
                Some(Ok(count))
            }
            Ok(None) => {
                self.ended.store(true, Ordering::Release);
                Some(Ok(0))
            }
            Err(StreamError::Reset) => Some(Err(ErrorKind::ConnectionReset.into())),
            Ok(Some(_)) | Err(_) => {
                self.nothing_to_read(state, closed_reason).map(|ended| ended.map(|()| 0))
            }
        }
    }

    /// What it means that there is nothing to read: to wait, or that nothing will come.
    pub(crate) fn nothing_to_read(
        &self,
        state: &mut State,
        closed_reason: Option<CloseReason>,
    ) -> Option<io::Result<()>> {
        match closed_reason {
            None if state.endpoint.must_write_again(self.held.flow, STREAM) => {
                self.rewound(state).map(Err)
            }
            // A peer that has closed has sent all that it had.
            Some(CloseReason::Local) => Some(Ok(())),
            Some(reason) => Some(Err(closed(reason))),
            None if state.failed.is_some() => Some(Err(ErrorKind::BrokenPipe.into())),
            None => None,
        }
    }

    fn try_write(&self, state: &mut State, octets: &[u8]) -> Option<io::Result<usize>> {
        if octets.is_empty() {
            return Some(Ok(0));
        }
        if let Some(error) = self.cannot_write(state) {
            return Some(Err(error));
        }
        match state.endpoint.write(self.held.flow, STREAM, octets) {
            Ok(0) => None,
            Ok(count) => {
                self.held.shared.ring();
                Some(Ok(count))
            }
            Err(error) => self.write_refused(state, error).map(Err),
        }
    }

    /// Why nothing can be written any more.
    pub(crate) fn cannot_write(&self, state: &State) -> Option<io::Error> {
        if self.finished.load(Ordering::Acquire) {
            return Some(ErrorKind::BrokenPipe.into());
        }
        state.flows.get(&self.held.flow)?.closed.map(closed)
    }

    /// What a refused write means; nothing when it is to be tried again.
    pub(crate) fn write_refused(&self, state: &mut State, error: StreamError) -> Option<io::Error> {
        match error {
            StreamError::Finished => Some(ErrorKind::BrokenPipe.into()),
            StreamError::Rewound => self.rewound(state),
            // Before the client's first packet the stream is not there yet; no active part may be free.
            StreamError::NoStream | StreamError::Busy => None,
            _ => Some(ErrorKind::NotConnected.into()),
        }
    }

    pub(crate) fn wait<T>(
        &self,
        timeout: &AtomicU64,
        mut attempt: impl FnMut(&mut State) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let timeout = Duration::from_nanos(timeout.load(Ordering::Relaxed));
        let end = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        let mut state = self.held.shared.lock();
        loop {
            if let Some(result) = attempt(&mut state) {
                return result;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            let Some(status) = state.flows.get_mut(&self.held.flow) else {
                return Err(ErrorKind::NotConnected.into());
            };
            status.waiting += 1;
            let changed = Arc::clone(&status.changed);
            // Looked at again every so often: a flow that found no active part free is not told when one is.
            let left = left.unwrap_or(Duration::MAX).min(Duration::from_millis(500));
            state = changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(status) = state.flows.get_mut(&self.held.flow) {
                status.waiting = status.waiting.saturating_sub(1);
            }
        }
    }

    pub(crate) fn poll_with<T>(
        &self,
        context: &Context<'_>,
        attempt: impl FnOnce(&mut State) -> Option<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.held.shared.lock();
        if let Some(result) = attempt(&mut state) {
            return Poll::Ready(result);
        }
        match state.flows.get_mut(&self.held.flow) {
            Some(status) => {
                if !status.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    status.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            None => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        }
    }

    pub(crate) fn poll_read(
        &self,
        context: &Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |state| self.try_read(state, out))
    }

    pub(crate) fn poll_write(
        &self,
        context: &Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |state| self.try_write(state, octets))
    }
}

fn nanoseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1))
}

impl Read for &DtpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.wait(&self.read_timeout, |state| self.try_read(state, out))
    }
}

impl Write for &DtpStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.wait(&self.write_timeout, |state| self.try_write(state, octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for DtpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&*self).read(out)
    }
}

impl Write for DtpStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        (&*self).write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
