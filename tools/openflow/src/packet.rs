//! Packets to and from the controller (OpenFlow 1.3.5, 7.3.7 and 7.4.1).

use crate::port::PortNumber;
use crate::wire::{Reader, Write};
use crate::{Action, Match, Refusal};

/// Why the controller gets a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No other flow matched.
    NoMatch = 0,
    /// A flow says so.
    Action = 1,
    /// Its TTL has run out.
    InvalidTtl = 2,
}

/// A packet for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Where the switch keeps it, or [`crate::NO_BUFFER`].
    pub buffer: u32,
    /// Octets of the whole packet.
    pub total_len: u16,
    /// Why.
    pub reason: Reason,
    /// The table of the flow.
    pub table: u8,
    /// The flow's cookie.
    pub cookie: u64,
    /// Where it came in, and what else is known.
    pub matching: Match,
    /// Its first octets, or all.
    pub data: Vec<u8>,
}

impl PacketIn {
    /// The port that it came in on.
    pub fn in_port(&self) -> Option<PortNumber> {
        let octets = self.matching.exact(crate::Field::InPort)?.try_into().ok()?;
        Some(PortNumber(u32::from_be_bytes(octets)))
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (buffer, total_len) = (reader.u32()?, reader.u16()?);
        let reason = match reader.u8()? {
            0 => Reason::NoMatch,
            1 => Reason::Action,
            2 => Reason::InvalidTtl,
            _ => return Err(Refusal::BAD_TYPE),
        };
        let (table, cookie, matching) = (reader.u8()?, reader.u64()?, Match::decode(reader)?);
        reader.skip(2)?;
        let data = reader.all().to_vec();
        Ok(Self { buffer, total_len, reason, table, cookie, matching, data })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.buffer);
        out.u16(self.total_len);
        out.u8(self.reason as u8);
        out.u8(self.table);
        out.u64(self.cookie);
        self.matching.encode(out);
        // So that what follows the Ethernet header is aligned.
        out.zeros(2);
        out.put(&self.data);
    }
}

/// A packet from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Where the switch keeps it, or [`crate::NO_BUFFER`].
    pub buffer: u32,
    /// Where it counts as having come in; a port, or [`PortNumber::CONTROLLER`].
    pub in_port: PortNumber,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// The packet, when the switch does not keep it.
    pub data: Vec<u8>,
}

impl PacketOut {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (buffer, in_port) = (reader.u32()?, PortNumber(reader.u32()?));
        let actions_len = reader.u16()?;
        reader.skip(6)?;
        if !in_port.is_output() {
            return Err(Refusal::BAD_PORT);
        }
        let actions = Action::decode_all(reader.take(actions_len.into())?)?;
        Ok(Self { buffer, in_port, actions, data: reader.all().to_vec() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut actions = Vec::new();
        Action::encode_all(&self.actions, &mut actions);
        out.u32(self.buffer);
        out.u32(self.in_port.0);
        out.u16(actions.len() as u16);
        out.zeros(6);
        out.put(&actions);
        out.put(&self.data);
    }
}
