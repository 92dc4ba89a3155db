//! Streams and listeners with the shapes of `std::net`.

use crate::driver::{Endpoint, Settings, Shared, State, Status, now};
use crate::restored::{Rewound, gone};
use crate::socket::{address_of, path_of};
use heddle_core::dtp::modern::{
    CloseReason, Connect, FlowId, Identity, ModernError, Pattern, StreamError,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The stream of a flow that these types carry.
pub(crate) const STREAM: u32 = 0;

/// An address that does not answer gets a rival after this (RFC 8305, 5).
const RIVAL_AFTER: Duration = Duration::from_millis(250);

/// For how long a client waits for a place for another flow.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// How a client knows its server.
#[derive(Clone)]
pub enum Trust {
    /// By its public key.
    Key([u8; 32]),
    /// By a key that both hold.
    PreShared([u8; 32]),
    /// By the key that it shows, if this function says so.
    Ask(Arc<dyn Fn([u8; 32]) -> bool + Send + Sync>),
}

/// Opens streams.
#[derive(Clone)]
pub struct Connector {
    endpoint: Endpoint,
    /// How the server is known.
    pub trust: Trust,
    /// This client's own private key, for servers that let in by key.
    pub private: Option<[u8; 32]>,
    /// The keep-alive to ask for.
    pub keep_alive: Duration,
}

impl Connector {
    /// A connector with a socket of its own.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn new(trust: Trust) -> io::Result<Self> {
        Self::with_settings(trust, &Settings::default())
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn with_settings(trust: Trust, settings: &Settings) -> io::Result<Self> {
        let endpoint = Endpoint::start(None, settings)?;
        let keep_alive = Duration::from_secs(24 * 3600);
        Ok(Self { endpoint, trust, private: None, keep_alive })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Begins a flow; `changed` is told when something happens to it.
    fn begin(&self, address: SocketAddr, changed: &Arc<Condvar>) -> io::Result<FlowId> {
        let (pattern, server, pre_shared) = match (&self.trust, self.private) {
            (Trust::Key(key), None) => (Pattern::KnownServer, Some(*key), None),
            (Trust::Key(key), Some(_)) => (Pattern::KnownServerClientKey, Some(*key), None),
            (Trust::PreShared(key), _) => (Pattern::PreShared, None, Some(*key)),
            (Trust::Ask(_), _) => (Pattern::UnknownServer, None, None),
        };
        let identity = Identity { private: self.private, server, pre_shared };
        let keep_alive_s = u32::try_from(self.keep_alive.as_secs()).unwrap_or(u32::MAX);
        let connect = Connect { pattern, identity, keep_alive_s };
        let patience = Instant::now() + BUSY_PATIENCE;
        let (mut state, flow) = loop {
            let mut state = self.endpoint.shared().lock();
            if let Some(failed) = &state.failed {
                return Err(io::Error::other(failed.clone()));
            }
            match state.endpoint.connect(now(), path_of(address), connect.clone()) {
                Ok(flow) => break (state, flow),
                // Flows that say goodbye still have their places.
                Err(ModernError::NoActive | ModernError::TableFull)
                    if Instant::now() < patience =>
                {
                    drop(state);
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    let message = format!("cannot open a flow: {}", error.name());
                    return Err(io::Error::other(message));
                }
            }
        };
        let changed = Arc::clone(changed);
        state.flows.insert(flow, Status { held: true, changed, ..Status::default() });
        drop(state);
        self.endpoint.shared().ring();
        Ok(flow)
    }

    /// Opens a stream to whichever of the addresses answers first; each further one is tried a quarter of a second after the one before.
    ///
    /// # Errors
    /// Those of name resolution and sockets; [`ErrorKind::TimedOut`] when nobody answers, [`ErrorKind::PermissionDenied`] when the server's key is not trusted.
    pub fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<DtpStream> {
        let mut waiting = interleaved(addresses.to_socket_addrs()?.collect()).into_iter();
        let shared = self.endpoint.shared();
        let mut rivals: Vec<Held> = Vec::new();
        let mut error = io::Error::new(ErrorKind::InvalidInput, "no address");
        let mut next = Instant::now();
        let changed = Arc::new(Condvar::new());
        loop {
            if rivals.is_empty() || Instant::now() >= next {
                match waiting.next() {
                    Some(address) => {
                        rivals.push(Held {
                            shared: Arc::clone(shared),
                            endpoint: self.endpoint.clone(),
                            flow: self.begin(address, &changed)?,
                        });
                        next = Instant::now() + RIVAL_AFTER;
                    }
                    None if rivals.is_empty() => return Err(error),
                    None => {}
                }
            }
            let mut state = shared.lock();
            let mut winner = None;
            let mut gone = Vec::new();
            for (place, rival) in rivals.iter().enumerate() {
                match self.progress(&mut state, rival.flow) {
                    Ok(true) => winner = Some(place),
                    Ok(false) => {}
                    Err(why) => {
                        error = why;
                        gone.push(place);
                    }
                }
            }
            if winner.is_none() && gone.is_empty() {
                let wait = match waiting.len() {
                    0 => RIVAL_AFTER,
                    _ => next.saturating_duration_since(Instant::now()),
                };
                waits(&mut state, &rivals, 1);
                let (mut state, _) =
                    changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
                waits(&mut state, &rivals, -1);
                continue;
            }
            drop(state);
            if let Some(place) = winner {
                let held = rivals.swap_remove(place);
                held.shared.ring();
                return Ok(DtpStream::new(held));
            }
            gone.into_iter().rev().for_each(|place| drop(rivals.swap_remove(place)));
        }
    }

    /// Whether a flow is open by now; asks the application about a key on the way.
    fn progress(&self, state: &mut State, flow: FlowId) -> io::Result<bool> {
        let Some(status) = state.flows.get_mut(&flow) else {
            return Err(closed(CloseReason::Local));
        };
        if let Some(key) = status.server_key.take() {
            let trusted = matches!(&self.trust, Trust::Ask(ask) if ask(key));
            if !trusted {
                let message = "the server's key is not trusted";
                return Err(io::Error::new(ErrorKind::PermissionDenied, message));
            }
            // It has just been asked.
            let _ = state.endpoint.trust(flow);
            self.endpoint.shared().ring();
        }
        let Some(status) = state.flows.get(&flow) else { return Ok(false) };
        if let Some(reason) = status.closed {
            return Err(closed(reason));
        }
        if status.connected {
            return match state.endpoint.open_stream(flow) {
                Ok(_) => Ok(true),
                Err(error) => Err(io::Error::other(format!("no stream: {}", error.name()))),
            };
        }
        Ok(false)
    }
}

/// Notes that a thread waits for all of the flows, or does no longer.
fn waits(state: &mut State, rivals: &[Held], by: isize) {
    for rival in rivals {
        if let Some(status) = state.flows.get_mut(&rival.flow) {
            status.waiting = status.waiting.saturating_add_signed(by);
        }
    }
}

/// IPv6 and IPv4 in turn, beginning with what the system put first.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut mixed = Vec::new();
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            return mixed;
        }
        mixed.extend(a.into_iter().chain(b));
    }
}

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
    endpoint: Endpoint,
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
    fn new(held: Held) -> Self {
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

/// Takes streams that clients open.
#[derive(Clone)]
pub struct DtpListener(Endpoint);

impl DtpListener {
    /// A listener at `address`. The settings need keys and patterns.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn bind(address: SocketAddr, settings: &Settings) -> io::Result<Self> {
        Endpoint::start(Some(address), settings).map(Self)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_address()
    }

    fn try_accept(&self, state: &mut State) -> Option<io::Result<(DtpStream, SocketAddr)>> {
        if let Some(failed) = &state.failed {
            return Some(Err(io::Error::other(failed.clone())));
        }
        let flow = state.incoming.pop_front()?;
        if let Some(status) = state.flows.get_mut(&flow) {
            status.held = true;
        }
        let peer = state.endpoint.path(flow).map(address_of)?;
        Some(Ok((DtpStream::of(&self.0, flow), peer)))
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// When the endpoint's thread has failed.
    pub fn accept(&self) -> io::Result<(DtpStream, SocketAddr)> {
        let shared = self.0.shared();
        let mut state = shared.lock();
        loop {
            if let Some(result) = self.try_accept(&mut state) {
                return result;
            }
            state = shared.accepted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for a client for a while, and gives nothing when none has come.
    ///
    /// # Errors
    /// When the endpoint's thread has failed.
    pub fn accept_within(&self, patience: Duration) -> io::Result<Option<(DtpStream, SocketAddr)>> {
        let shared = self.0.shared();
        let end = Instant::now() + patience;
        let mut state = shared.lock();
        loop {
            if let Some(result) = self.try_accept(&mut state) {
                return result.map(Some);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let woken = shared.accepted.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn poll_accept(
        &self,
        context: &Context<'_>,
    ) -> Poll<io::Result<(DtpStream, SocketAddr)>> {
        let mut state = self.0.shared().lock();
        match self.try_accept(&mut state) {
            Some(result) => Poll::Ready(result),
            None => {
                state.accept_wakers.push(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The clients that come, one after the other.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<DtpStream>> + '_ {
        std::iter::from_fn(|| Some(self.accept().map(|(stream, _)| stream)))
    }
}
