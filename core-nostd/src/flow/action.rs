//! What can be done with a frame.

use super::tunnel::{Encapsulation, Tunnel};
use crate::node::PortId;
use crate::wire::{Ipv4Addr, Ipv6Addr, MacAddress};
use heapless::Vec;

/// Actions in a list, at most.
pub const MAX_ACTIONS: usize = 16;

/// Where a frame goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Out on this port, unless it came in there (OpenFlow 1.3, 4.5).
    Port(PortId),
    /// Out where it came in.
    InPort,
    /// Out on all ports but the one that it came in on.
    Flood,
    /// To the controller, cut to so many octets.
    Controller {
        /// Octets of the frame that the controller wants.
        max_octets: u16,
    },
}

/// A field and its new value.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum SetField {
    /// Ethernet destination.
    EthernetDestination(MacAddress),
    /// Ethernet source.
    EthernetSource(MacAddress),
    /// IPv4 source.
    Ipv4Source(Ipv4Addr),
    /// IPv4 destination.
    Ipv4Destination(Ipv4Addr),
    /// IPv6 source.
    Ipv6Source(Ipv6Addr),
    /// IPv6 destination.
    Ipv6Destination(Ipv6Addr),
    /// IPv6 flow label, 20 bits.
    FlowLabel(u32),
    /// Differentiated services of IPv4 or IPv6, six bits.
    Dscp(u8),
    /// Explicit congestion notification of IPv4 or IPv6, two bits.
    Ecn(u8),
    /// Source port of UDP.
    UdpSource(u16),
    /// Destination port of UDP.
    UdpDestination(u16),
    /// Label of the outermost MPLS entry, 20 bits.
    MplsLabel(u32),
    /// Traffic class of the outermost MPLS entry, three bits.
    MplsClass(u8),
}

/// One thing to do with a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send it, as it is now.
    Output(Output),
    /// Hand it to a group, as it is now.
    Group(u32),
    /// Change a field, and the checksums that cover it.
    SetField(SetField),
    /// Set the TTL of IPv4 or the hop limit of IPv6.
    SetTtl(u8),
    /// Take one off it; at zero the frame is dropped.
    DecrementTtl,
    /// Take a hop off the HopLimit of an Interest, bare or whole in a link packet; on its last hop it is dropped. Other packets stay as
    /// they are. Without this action a switch passes HopLimits on as they came, as OpenFlow has it of every TTL: the switch is
    /// then a part of the link between two forwarders.
    DecrementHopLimit,
    /// Set the TTL of the outermost MPLS entry.
    SetMplsTtl(u8),
    /// Take one off it; at zero the frame is dropped.
    DecrementMplsTtl,
    /// Copy the TTL from the next header inwards out to the outermost MPLS entry.
    CopyTtlOut,
    /// Copy the TTL of the outermost MPLS entry to the next header inwards.
    CopyTtlIn,
    /// Add an entry outside the label stack, a copy of the outermost one (or label 0 and IP's TTL), with this EtherType.
    PushMpls(u16),
    /// Take the outermost entry off; what is inside has this EtherType.
    PopMpls(u16),
    /// Put the frame, or what it carries, into a packet to the other end of a tunnel.
    Encapsulate(Encapsulation),
    /// Take a packet that has come through a tunnel out of its headers.
    Decapsulate(Tunnel),
}

impl Action {
    /// The place of the action in an action set (OpenFlow 1.3, 5.10).
    const fn rank(&self) -> u8 {
        match self {
            Self::CopyTtlIn => 0,
            Self::PopMpls(_) | Self::Decapsulate(_) => 1,
            Self::PushMpls(_) => 2,
            Self::CopyTtlOut => 3,
            Self::DecrementTtl | Self::DecrementMplsTtl | Self::DecrementHopLimit => 4,
            Self::SetField(_) | Self::SetTtl(_) | Self::SetMplsTtl(_) => 5,
            // A tunnel's headers go around what the set has made of the packet.
            Self::Encapsulate(_) => 6,
            Self::Group(_) => 7,
            Self::Output(_) => 8,
        }
    }

    /// Whether the other action takes this one's place in an action set: the same kind, and the same field.
    fn is_same_kind(&self, other: &Self) -> bool {
        use core::mem::discriminant;
        match (self, other) {
            (Self::SetField(a), Self::SetField(b)) => discriminant(a) == discriminant(b),
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// The actions that tables gather for a frame, one of each kind, carried out when no table follows.
#[derive(Clone, Debug, Default)]
pub struct ActionSet(Vec<Action, MAX_ACTIONS>);

impl ActionSet {
    /// Takes all actions out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds actions, each in the place of one of its kind. Returns false when there are too many.
    #[must_use]
    pub fn write(&mut self, actions: &[Action]) -> bool {
        actions.iter().all(|action| {
            self.0.retain(|old| !old.is_same_kind(action));
            self.0.push(*action).is_ok()
        })
    }

    /// The actions in the order in which they are carried out. A group takes the place of the output.
    pub(super) fn in_order(&mut self) -> &[Action] {
        sort(&mut self.0, |a, b| a.rank() < b.rank());
        if self.0.iter().any(|action| matches!(action, Action::Group(_))) {
            self.0.retain(|action| !matches!(action, Action::Output(_)));
        }
        &self.0
    }
}

/// Sorts a short list that is nearly in order. The library's own sort can panic when told contradictions, and this is for code that cannot.
pub(super) fn sort<T>(list: &mut [T], is_before: impl Fn(&T, &T) -> bool) {
    for end in 1..=list.len() {
        let mut part = list.get_mut(..end).unwrap_or_default();
        while let Some((last, rest)) = part.split_last_mut() {
            match rest.last_mut() {
                Some(before) if is_before(last, before) => core::mem::swap(last, before),
                _ => break,
            }
            part = rest;
        }
    }
}
