//! What the application does with flows.

use super::flow::{Flow, NONE, Phase};
use super::{CloseReason, Endpoint, FlowHandle, PaperError};
use crate::dtp::modern::PathAddress;
use crate::node::Instant;

impl Endpoint<'_> {
    fn known(&self, flow: FlowHandle) -> Option<&Flow> {
        self.flows
            .get(flow.slot as usize)
            .filter(|found| found.generation == flow.generation && found.phase != Phase::Free)
    }

    /// Opens a flow to the server at `path`.
    ///
    /// # Errors
    /// [`PaperError::KeySize`] without a key in the configuration, [`PaperError::TableFull`] or [`PaperError::NoActive`].
    pub fn connect(&mut self, now: Instant, path: PathAddress) -> Result<FlowHandle, PaperError> {
        self.now = self.now.max(now);
        self.config.key.ok_or(PaperError::KeySize)?;
        let mut id = 0;
        while id == 0 || self.search(id).1.is_some() {
            id = u32::from_be_bytes(self.random.array());
        }
        let slot = self.take_flow(id).ok_or(PaperError::TableFull)?;
        if self.activate(slot).is_none() {
            self.free(slot);
            return Err(PaperError::NoActive);
        }
        let first = self.first_sequence();
        let now = self.now;
        let flow = self.flows.get_mut(slot as usize).ok_or(PaperError::TableFull)?;
        flow.phase = Phase::Opening;
        flow.path = path;
        (flow.unacknowledged, flow.next, flow.retry_at) = (first, first, now);
        let generation = flow.generation;
        self.wake_at(slot, now);
        Ok(FlowHandle { slot, generation })
    }

    pub(super) fn first_sequence(&mut self) -> u64 {
        let random = u32::from_be_bytes(self.random.array());
        u64::from(self.config.first_sequence.unwrap_or(random))
    }

    /// Where a flow is in its life.
    pub fn phase(&self, flow: FlowHandle) -> Option<Phase> {
        self.known(flow).map(|flow| flow.phase)
    }

    /// The keep-alive that was granted, in seconds.
    pub fn keep_alive_s(&self, flow: FlowHandle) -> Option<u32> {
        self.known(flow).map(|flow| flow.keep_alive_s)
    }

    /// Where the peer is.
    pub fn path(&self, flow: FlowHandle) -> Option<PathAddress> {
        self.known(flow).map(|flow| flow.path)
    }

    /// Takes as many octets to send as there is room for, and gives how many: 0 too for a flow that takes no more.
    pub fn write(&mut self, now: Instant, flow: FlowHandle, octets: &[u8]) -> usize {
        self.now = self.now.max(now);
        let open = self.known(flow).is_some_and(|flow| {
            matches!(flow.phase, Phase::Open | Phase::Opening) && !flow.fin_queued
        });
        if !open || self.activate(flow.slot).is_none() {
            return 0;
        }
        let Some((state, active)) = self.pair(flow.slot) else { return 0 };
        let size = active.send.len().max(1);
        let taken = octets.len().min(active.send.len() - active.send_octets.min(active.send.len()));
        let at = (active.send_start + active.send_octets) % size;
        let (first, second) = octets.split_at(taken).0.split_at(taken.min(size - at));
        for (at, part) in [(at, first), (0, second)] {
            if let Some(place) = active.send.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        active.send_octets += taken;
        state.wants_room |= taken < octets.len();
        let now = self.now;
        self.wake_at(flow.slot, now);
        taken
    }

    /// Copies what has come in order to `out` and gives how much; 0 with [`Endpoint::at_end`] is the end.
    pub fn read(&mut self, now: Instant, flow: FlowHandle, out: &mut [u8]) -> usize {
        self.now = self.now.max(now);
        let now = self.now;
        if self.known(flow).is_none() {
            return 0;
        }
        let Some((state, active)) = self.pair(flow.slot) else { return 0 };
        let before = active.room();
        let octets = out.len().min(active.unread);
        let size = active.receive.len().max(1);
        let (first, second) =
            out.split_at_mut(octets).0.split_at_mut(octets.min(size - active.read_at % size));
        for (at, part) in [(active.read_at, first), (0, second)] {
            if let Some(place) = active.receive.get(at..at + part.len()) {
                part.copy_from_slice(place);
            }
        }
        active.read_at = (active.read_at + octets) % size;
        active.unread -= octets;
        // The peer may stand still until it hears of the room.
        if before < size / 2 && active.room() >= size / 2 {
            state.acknowledge_at = now;
            self.wake_at(flow.slot, now);
        }
        octets
    }

    /// Whether the peer has finished and everything was read.
    pub fn at_end(&self, flow: FlowHandle) -> bool {
        self.known(flow).is_some_and(|flow| {
            let unread = self.actives.get(flow.active as usize).map_or(0, |active| active.unread);
            flow.peer_fin && unread == 0
        })
    }

    /// No more is written: a FIN follows what was.
    pub fn finish(&mut self, now: Instant, flow: FlowHandle) {
        self.now = self.now.max(now);
        if self.known(flow).is_some() && self.activate(flow.slot).is_some() {
            if let Some(state) = self.flows.get_mut(flow.slot as usize) {
                state.fin_queued = true;
            }
            let now = self.now;
            self.wake_at(flow.slot, now);
        }
    }

    /// Gives a flow up at once; the peer keeps it until its keep-alive is over.
    pub fn give_up(&mut self, flow: FlowHandle) {
        if self.known(flow).is_some() {
            self.end(flow.slot, CloseReason::Local);
        }
    }

    /// Frees the place of a flow that is closed, with what was not read.
    pub fn forget(&mut self, flow: FlowHandle) {
        if self.known(flow).is_some_and(|flow| flow.phase == Phase::Closed) {
            self.free(flow.slot);
        }
    }

    /// The network has changed or is back: every flow says so to its peer at once.
    pub fn network_changed(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        for slot in (0..NONE).take(self.flows.len()) {
            let Some(flow) = self.flows.get_mut(slot as usize) else { return };
            match flow.phase {
                Phase::Open if flow.next != flow.unacknowledged => flow.retry_at = now,
                Phase::Open => flow.probe_at = now,
                Phase::Opening => flow.retry_at = now,
                _ => continue,
            }
            flow.timeouts = flow.timeouts.min(1);
            self.wake_at(slot, now);
        }
    }
}
