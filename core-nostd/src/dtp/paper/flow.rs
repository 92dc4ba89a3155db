//! What a packet means to an established flow.

use super::{DtpOption, Flags, Packet, PaperError, SackBlock};
use core::ops::Range;

/// A sequence number: compared modulo 2^32, so that a flow can carry more than 4 GiB.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SequenceNumber(pub u32);

impl SequenceNumber {
    /// The number that many octets later.
    #[must_use]
    pub const fn add(self, octets: u32) -> Self {
        Self(self.0.wrapping_add(octets))
    }

    /// Octets from `earlier` to here; negative when `earlier` is in fact later. Right within 2^31 octets.
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Whether the number is one of the `octets` from `start` on.
    pub const fn is_within(self, start: Self, octets: u32) -> bool {
        self.0.wrapping_sub(start.0) < octets
    }
}

/// The numbers of an established flow, as one of its ends sees them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The flow's id.
    pub flow_id: u32,
    /// The next octet that is waited for (RCV.NXT).
    pub receive_next: SequenceNumber,
    /// Octets from there on that there is room for (RCV.WND).
    pub receive_window: u32,
    /// The oldest octet that is not acknowledged (SND.UNA).
    pub send_unacknowledged: SequenceNumber,
    /// The next octet to send (SND.NXT).
    pub send_next: SequenceNumber,
    /// Both ends understand SACK.
    pub sack_permitted: bool,
    /// A CHG went out and waits for its RSP.
    pub challenge_outstanding: bool,
    /// A RSP went out and waits for its AUTH.
    pub proof_outstanding: bool,
}

/// What a packet means to the flow that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Data, an acknowledgement, a FIN or several of them.
    Segment {
        /// The octets of the payload that are new and in the window; empty for none.
        new: Range<usize>,
        /// The new octets are the next ones: the application gets them now. Otherwise they wait behind a gap.
        in_order: bool,
        /// Everything in the packet was here before: it is acknowledged again.
        duplicate: bool,
        /// Octets that the packet acknowledges newly; 0 for none, or for an old acknowledgement.
        acknowledged: u32,
        /// It is the peer's FIN, and its number lies in the window.
        fin: bool,
    },
    /// A RST that stands exactly where the next octet would: the flow is gone.
    Close,
    /// A RST elsewhere in the window: it counts only when the peer confirms it (RFC 5961, 3.2), so it is answered with an ACK.
    ChallengeReset,
    /// The peer asks for a proof of this end's address.
    Prove,
    /// The peer offers a proof of its address.
    Proof,
    /// The peer has taken the proof.
    Proven,
}

impl FlowState {
    /// Says what a packet means to this flow, of which `address_proven` says whether it came from the address that the flow is at.
    ///
    /// A segment from another address is judged all the same; its data must not be used before the address is proven.
    ///
    /// # Errors
    /// Why the packet is dropped; it then changes nothing.
    pub fn judge(&self, packet: &Packet, address_proven: bool) -> Result<Accepted, PaperError> {
        packet.check()?;
        if packet.header.flow_id() != self.flow_id {
            return Err(PaperError::UnknownFlow);
        }
        let flags = packet.flags();
        if flags.contains(Flags::SYN) {
            return Err(PaperError::SynOnEstablished);
        }
        if flags.contains(Flags::CHG) {
            return Ok(Accepted::Prove);
        }
        if flags.contains(Flags::RSP) {
            return self
                .challenge_outstanding
                .then_some(Accepted::Proof)
                .ok_or(PaperError::NoChallenge);
        }
        if flags.contains(Flags::RST) {
            return self.judge_reset(packet, address_proven);
        }
        if flags.contains(Flags::AUTH) {
            if !self.proof_outstanding {
                return Err(PaperError::NoChallenge);
            }
            self.acknowledged(packet)?;
            return Ok(Accepted::Proven);
        }
        self.judge_segment(packet)
    }

    fn judge_reset(&self, packet: &Packet, address_proven: bool) -> Result<Accepted, PaperError> {
        let sequence = SequenceNumber(packet.header.sequence());
        // An empty window still takes the one RST that is exactly right.
        if !sequence.is_within(self.receive_next, self.receive_window.max(1)) {
            return Err(PaperError::RstOutOfWindow);
        }
        if !address_proven {
            return Err(PaperError::AddressNotProven);
        }
        let exact = sequence == self.receive_next;
        Ok(if exact { Accepted::Close } else { Accepted::ChallengeReset })
    }

    fn judge_segment(&self, packet: &Packet) -> Result<Accepted, PaperError> {
        let acknowledged = self.acknowledged(packet)?;
        let octets = packet.payload.len();
        let taken = packet.sequence_len() as u32;
        let start = SequenceNumber(packet.header.sequence());
        // How far the packet begins before the next octet, and how far after it.
        let ahead = start.since(self.receive_next);
        let old = ahead.min(0).unsigned_abs();
        let gap = ahead.max(0) as u32;
        let duplicate = taken != 0 && old >= taken;
        // An acknowledgement alone is good wherever it stands in or just behind the window.
        let in_window = if taken == 0 {
            gap <= self.receive_window
        } else {
            gap < self.receive_window || duplicate
        };
        if !in_window {
            return Err(PaperError::OutOfWindow);
        }
        let room = self.receive_window.saturating_sub(gap) as usize;
        let first = (old as usize).min(octets);
        let end = octets.min(first.saturating_add(room));
        // The FIN stands behind the payload: it counts only when all of the payload is taken, and not a second time.
        let fin = packet.flags().contains(Flags::FIN) && !duplicate && end == octets && room > 0;
        Ok(Accepted::Segment { new: first..end, in_order: gap == 0, duplicate, acknowledged, fin })
    }

    /// Octets that the packet acknowledges newly. Data packets carry the number without the flag, and it is as good there.
    fn acknowledged(&self, packet: &Packet) -> Result<u32, PaperError> {
        let acknowledgement = SequenceNumber(packet.header.acknowledgement());
        if acknowledgement.since(self.send_next) > 0 {
            return Err(PaperError::Ack);
        }
        Ok(acknowledgement.since(self.send_unacknowledged).max(0) as u32)
    }

    /// The blocks of the packet's SACK options, each with what is wrong with it. The packet counts whatever they are.
    pub fn sack_blocks(
        &self,
        packet: &Packet,
    ) -> impl Iterator<Item = Result<SackBlock, PaperError>> {
        let state = *self;
        packet
            .options()
            .filter_map(|option| match option {
                DtpOption::Sack(blocks) => Some(blocks.iter()),
                _ => None,
            })
            .flatten()
            .map(move |block| state.judge_block(block))
    }

    fn judge_block(&self, block: SackBlock) -> Result<SackBlock, PaperError> {
        let (left, right) = (SequenceNumber(block.left), SequenceNumber(block.right));
        if !self.sack_permitted {
            return Err(PaperError::SackNotPermitted);
        }
        let outstanding = self.send_next.0.wrapping_sub(self.send_unacknowledged.0);
        let octets = right.0.wrapping_sub(left.0);
        let known = |edge: SequenceNumber| {
            edge.is_within(self.send_unacknowledged, outstanding.saturating_add(1))
        };
        if octets == 0 || known(left) && known(right) && octets > outstanding {
            return Err(PaperError::SackInverted);
        }
        // Nor can a block be longer than all that is outstanding, wherever it stands.
        if octets > outstanding || right.since(self.send_next) > 0 {
            return Err(PaperError::SackBeyondSent);
        }
        // A block says what came behind a gap, so it cannot begin where the gap must be.
        if left.since(self.send_unacknowledged) <= 0 {
            return Err(PaperError::SackOld);
        }
        Ok(block)
    }
}
