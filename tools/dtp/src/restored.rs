//! Streams that outlive the process: what an application says of what it keeps, and what it is told after a restart.

use crate::connector::Connector;
use crate::listener::DtpListener;
use crate::shared::now;
use crate::socket::path_of;
use crate::stream::{DtpStream, STREAM, closed};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After a restart of either end this end must write again from `offset` on: octets that the peer does not have, and that this end no longer holds. Reads and writes of a
/// stream that was told [`DtpStream::set_rewinding`] fail once with this; of other streams they fail for good, as the octets are gone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The place in what this end has written since the flow was opened.
    pub offset: u64,
}

impl std::fmt::Display for Rewound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "an end has restarted: write again from octet {} on", self.offset)
    }
}

impl std::error::Error for Rewound {}

impl Rewound {
    /// What an error of a read or a write says about it.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    pub(crate) fn error(self) -> io::Error {
        io::Error::other(self)
    }
}

/// The octets that the peer misses are nowhere any more.
pub(crate) fn gone() -> io::Error {
    let what = "an end has restarted, and octets that were on their way are gone";
    io::Error::new(ErrorKind::ConnectionAborted, what)
}

impl DtpStream {
    /// Says that what was read up to octet `received` is kept, whatever becomes of this process, and that `note` is what the application wants to find then.
    /// The flow has a ticket on the disk when this returns; the peer will be asked for nothing before `received`. Without [`crate::Settings::tickets`] it does nothing.
    ///
    /// # Errors
    /// Those of files, [`ErrorKind::NotConnected`] when the flow is gone.
    pub fn commit(&self, received: u64, note: &[u8]) -> io::Result<()> {
        match &self.held.shared.keeper {
            Some(keeper) => keeper.commit(self.held.flow, received, note),
            None => Ok(()),
        }
    }

    /// Whether tickets are kept here.
    pub fn keeps_tickets(&self) -> bool {
        self.held.shared.keeper.is_some()
    }

    /// The application can write again what it has written before, so it wants to be told from where on ([`Rewound`]).
    pub fn set_rewinding(&self, rewinding: bool) {
        self.rewinding.store(rewinding, Ordering::Release);
    }

    /// What the application has noted with the ticket that the flow comes from; nothing for a flow that was opened in this process.
    pub fn note(&self) -> Option<Vec<u8>> {
        self.held.shared.lock().flows.get(&self.held.flow)?.note.clone()
    }

    /// Octets read so far, since the flow was opened.
    pub fn received(&self) -> Option<u64> {
        let state = self.held.shared.lock();
        Some(state.endpoint.ticket(self.held.flow)?.delivered(STREAM).unwrap_or(0))
    }

    /// How often this end and the peer have restarted since the flow was opened.
    pub fn restarts(&self) -> Option<(u32, u32)> {
        self.held.shared.lock().endpoint.restarts(self.held.flow)
    }

    /// The flow's place and the count of flows in that place, which stay the same after a restart of this end.
    pub fn flow_id(&self) -> (u32, u32) {
        (self.held.flow.slot(), self.held.flow.generation())
    }

    /// Of a stream out of a ticket: waits until the peer has answered, and gives the octet from which on this end must write again; nothing when the peer has all, and the end.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], and those of a flow that is gone.
    pub fn await_peer(&self, timeout: Duration) -> io::Result<Option<u64>> {
        let mut rewound = None;
        let timeout = AtomicU64::new(timeout.as_nanos() as u64);
        self.wait(&timeout, |state| {
            let flow = self.held.flow;
            if let Some(reason) = state.flows.get(&flow).and_then(|status| status.closed) {
                return Some(Err(closed(reason)));
            }
            if state.endpoint.is_resuming(flow) {
                return None;
            }
            rewound = state.endpoint.resume_offset(flow, STREAM);
            Some(Ok(0))
        })?;
        Ok(rewound)
    }

    /// The peer is to be found at that address, if the flow still looks for it.
    pub fn redirect(&self, address: SocketAddr) {
        let mut state = self.held.shared.lock();
        if state.endpoint.is_resuming(self.held.flow) {
            state.endpoint.set_path(now(), self.held.flow, path_of(address));
        }
        drop(state);
        self.held.shared.ring();
    }

    /// Whether the flow comes from a ticket and the peer has not answered yet.
    pub fn is_resuming(&self) -> bool {
        self.held.shared.lock().endpoint.is_resuming(self.held.flow)
    }

    /// Ends the flow without a word to the peer, which is known to have forgotten it.
    pub(crate) fn give_up(&self) {
        self.held.shared.lock().endpoint.give_up(self.held.flow);
        self.held.shared.ring();
    }

    /// Whether the flow is gone.
    pub fn is_closed(&self) -> bool {
        let state = self.held.shared.lock();
        state.flows.get(&self.held.flow).is_none_or(|status| status.closed.is_some())
    }
}

impl Connector {
    /// The next stream that a ticket of an earlier process has brought back; it waits for the server's answer like one that waits for its network.
    pub fn resume(&self) -> Option<DtpStream> {
        let mut state = self.endpoint().shared().lock();
        let flow = state.restored.pop_front()?;
        state.flows.get_mut(&flow)?.held = true;
        drop(state);
        Some(DtpStream::of(self.endpoint(), flow))
    }
}

impl DtpListener {
    /// How many streams out of tickets wait to be accepted. They come before those of new clients; [`DtpStream::note`] tells them apart.
    pub fn restored(&self) -> usize {
        let state = self.endpoint().shared().lock();
        let flows = state.incoming.iter().filter_map(|flow| state.flows.get(flow));
        flows.filter(|status| status.note.is_some()).count()
    }
}
