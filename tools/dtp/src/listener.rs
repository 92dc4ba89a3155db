//! Taking the streams that clients open.

use crate::endpoint::Endpoint;
use crate::settings::Settings;
use crate::shared::State;
use crate::socket::address_of;
use crate::stream::DtpStream;
use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

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
