//! Instructions that most rules have, in a form that is carried out at once: new addresses and ports for a datagram over IPv4, and where it goes.

use super::action::{Action, ActionSet, Output, SetField};
use super::glance::PLAIN_OCTETS;
use super::instructions::Instructions;
use crate::node::PortId;

/// What one or two dozen instructions of the processor do to a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The port it leaves on; nothing for the one that it came in on.
    pub(super) output: Option<PortId>,
    /// Bits of [`changes`].
    changes: u8,
    ethernet_destination: [u8; 6],
    ethernet_source: [u8; 6],
    source: [u8; 4],
    destination: [u8; 4],
    source_port: [u8; 2],
    destination_port: [u8; 2],
    ttl: u8,
}

/// What is changed, a bit for each.
mod changes {
    pub const ETHERNET_DESTINATION: u8 = 1;
    pub const ETHERNET_SOURCE: u8 = 1 << 1;
    pub const SOURCE: u8 = 1 << 2;
    pub const DESTINATION: u8 = 1 << 3;
    pub const SOURCE_PORT: u8 = 1 << 4;
    pub const DESTINATION_PORT: u8 = 1 << 5;
    pub const SET_TTL: u8 = 1 << 6;
    pub const DECREMENT_TTL: u8 = 1 << 7;
    pub const TTL: u8 = SET_TTL | DECREMENT_TTL;
    /// Those of IP and UDP.
    pub const IP: u8 = !(ETHERNET_DESTINATION | ETHERNET_SOURCE);
}

impl Rewrite {
    /// The same as the instructions for a frame that no table has written a set for; nothing when they do more than this can.
    pub(super) fn of(instructions: &Instructions) -> Option<Self> {
        if instructions.goto_table.is_some() {
            return None;
        }
        let mut set = ActionSet::default();
        let actions = if instructions.write.is_empty() {
            instructions.apply.as_slice()
        } else if instructions.apply.is_empty() && set.write(&instructions.write) {
            set.in_order()
        } else {
            return None;
        };
        let (last, changes) = actions.split_last()?;
        let output = match last {
            Action::Output(Output::Port(port)) => Some(*port),
            Action::Output(Output::InPort) => None,
            _ => return None,
        };
        let mut rewrite = Self {
            output,
            changes: 0,
            ethernet_destination: [0; 6],
            ethernet_source: [0; 6],
            source: [0; 4],
            destination: [0; 4],
            source_port: [0; 2],
            destination_port: [0; 2],
            ttl: 0,
        };
        for change in changes {
            rewrite.add(change)?;
        }
        Some(rewrite)
    }

    fn add(&mut self, action: &Action) -> Option<()> {
        let change = match action {
            Action::SetField(SetField::EthernetDestination(address)) => {
                self.ethernet_destination = *address;
                changes::ETHERNET_DESTINATION
            }
            Action::SetField(SetField::EthernetSource(address)) => {
                self.ethernet_source = *address;
                changes::ETHERNET_SOURCE
            }
            Action::SetField(SetField::Ipv4Source(address)) => {
                self.source = *address;
                changes::SOURCE
            }
            Action::SetField(SetField::Ipv4Destination(address)) => {
                self.destination = *address;
                changes::DESTINATION
            }
            Action::SetField(SetField::UdpSource(port)) => {
                self.source_port = port.to_be_bytes();
                changes::SOURCE_PORT
            }
            Action::SetField(SetField::UdpDestination(port)) => {
                self.destination_port = port.to_be_bytes();
                changes::DESTINATION_PORT
            }
            Action::SetTtl(ttl) if self.changes & changes::DECREMENT_TTL == 0 => {
                self.ttl = *ttl;
                changes::SET_TTL
            }
            Action::DecrementTtl if self.changes & changes::TTL == 0 => changes::DECREMENT_TTL,
            _ => return None,
        };
        self.changes |= change;
        Some(())
    }

    /// Changes a frame. False, and the frame as it was, when it is not one that this can change: `is_plain` says that it is UDP over
    /// IPv4 without options.
    #[inline]
    pub(super) fn apply(&self, frame: &mut [u8], is_plain: bool) -> bool {
        let is_there = |change| self.changes & change != 0;
        if self.changes == 0 {
            return true;
        }
        let Some(head) = frame.first_chunk_mut::<PLAIN_OCTETS>() else { return false };
        let is_ip = is_there(changes::IP);
        if is_ip && (!is_plain || (is_there(changes::DECREMENT_TTL) && head[22] <= 1)) {
            return false;
        }
        if is_there(changes::ETHERNET_DESTINATION) {
            head[0..6].copy_from_slice(&self.ethernet_destination);
        }
        if is_there(changes::ETHERNET_SOURCE) {
            head[6..12].copy_from_slice(&self.ethernet_source);
        }
        if !is_ip {
            return true;
        }
        // RFC 1624: HC' = ~(~HC + ~m + m'), for the sums of IPv4's header and of the datagram.
        let (mut header, mut datagram) = (0, 0);
        if is_there(changes::TTL) {
            let ttl = if is_there(changes::SET_TTL) { self.ttl } else { head[22] - 1 };
            let protocol = head[23];
            header += replace([head[22], protocol], [ttl, protocol]);
            head[22] = ttl;
        }
        if is_there(changes::SOURCE) {
            let old = [head[26], head[27], head[28], head[29]];
            datagram += replace_address(old, self.source);
            head[26..30].copy_from_slice(&self.source);
        }
        if is_there(changes::DESTINATION) {
            let old = [head[30], head[31], head[32], head[33]];
            datagram += replace_address(old, self.destination);
            head[30..34].copy_from_slice(&self.destination);
        }
        header += datagram;
        if is_there(changes::SOURCE_PORT) {
            datagram += replace([head[34], head[35]], self.source_port);
            head[34..36].copy_from_slice(&self.source_port);
        }
        if is_there(changes::DESTINATION_PORT) {
            datagram += replace([head[36], head[37]], self.destination_port);
            head[36..38].copy_from_slice(&self.destination_port);
        }
        [head[24], head[25]] = corrected([head[24], head[25]], header);
        let sum = [head[40], head[41]];
        if sum != [0, 0] {
            [head[40], head[41]] = match corrected(sum, datagram) {
                // Zero says that there is none (RFC 768).
                [0, 0] => [0xff, 0xff],
                other => other,
            };
        }
        true
    }
}

/// `~m + m'` for one word.
#[inline]
const fn replace(old: [u8; 2], new: [u8; 2]) -> u32 {
    (!u16::from_be_bytes(old)) as u32 + u16::from_be_bytes(new) as u32
}

/// The same for the two words of an address.
#[inline]
const fn replace_address(old: [u8; 4], new: [u8; 4]) -> u32 {
    let (old, new) = (!u32::from_be_bytes(old), u32::from_be_bytes(new));
    (old >> 16) + (old & 0xffff) + (new >> 16) + (new & 0xffff)
}

/// The checksum after its words have changed by so much.
#[inline]
const fn corrected(sum: [u8; 2], change: u32) -> [u8; 2] {
    let sum = (!u16::from_be_bytes(sum)) as u32 + change;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_be_bytes()
}
