//! The fields of packets that rules match.

use crate::wire::{EtherType, MacAddress};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// In [`Fields::vlan_id`]: the frame has a VLAN tag (OFPVID_PRESENT of OpenFlow 1.3).
pub const VLAN_PRESENT: u16 = 0x1000;

/// Words that [`Fields`] are.
pub(super) const FIELD_WORDS: usize = size_of::<Fields>() / 8;

/// The fields of a packet, or their masks: a bit is compared where the mask has a one. What a packet has not is zero, so a
/// rule names the protocol that gives a field its meaning, as OpenFlow's prerequisites demand.
#[repr(C)]
#[derive(
    Copy, Clone, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
pub struct Fields {
    // Those that most rules name come first: a rule's first fields share a cache line with its counters.
    /// The port it came in on, as OpenFlow counts them: from 1.
    pub in_port: u32,
    /// EtherType, behind VLAN tags.
    pub ether_type: u16,
    /// IP protocol or next header, behind IPv6 extension headers.
    pub ip_protocol: u8,
    /// The kind of named-data packet: a value of [`NdnKind`].
    pub ndn_kind: u8,
    /// Source port of UDP, TCP or SCTP.
    pub source_port: u16,
    /// Destination port of UDP, TCP or SCTP.
    pub destination_port: u16,
    /// VLAN identifier and [`VLAN_PRESENT`].
    pub vlan_id: u16,
    /// Differentiated services, six bits.
    pub dscp: u8,
    /// Explicit congestion notification, two bits.
    pub ecn: u8,
    /// IP destination: 16 octets of IPv6, or 4 of IPv4 and zeros.
    pub ip_destination: [u8; 16],
    /// IP source, like the destination.
    pub ip_source: [u8; 16],
    /// Ethernet destination.
    pub ethernet_destination: MacAddress,
    /// Traffic class of the outermost MPLS entry.
    pub mpls_class: u8,
    /// 1 when the outermost MPLS entry is the last.
    pub mpls_bottom: u8,
    /// Ethernet source.
    pub ethernet_source: MacAddress,
    /// VLAN priority.
    pub vlan_priority: u8,
    /// Always zero.
    pub reserved: u8,
    /// Label of the outermost MPLS entry.
    pub mpls_label: u32,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// What earlier tables wrote.
    pub metadata: u64,
    /// The key of the tunnel that the packet came in by (GRE key or VXLAN network), once it has been decapsulated.
    pub tunnel_id: u64,
}

/// What [`Fields::ndn_kind`] can be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NdnKind {
    /// Not a named-data packet, or a malformed one.
    None = 0,
    /// An Interest.
    Interest = 1,
    /// A Data.
    Data = 2,
    /// A Nack.
    Nack = 3,
    /// A link packet with no packet in it.
    Idle = 4,
    /// A fragment that is not the first of its packet.
    LaterFragment = 5,
}

impl Fields {
    /// No field.
    pub const NONE: Self = zerocopy::transmute!([0u64; FIELD_WORDS]);

    /// The fields as words, in no order that matters.
    pub(super) const fn words(&self) -> &[u64; FIELD_WORDS] {
        zerocopy::transmute_ref!(self)
    }

    /// Fields from their octets, eight at a time.
    #[inline]
    pub(super) fn from_words(octets: [[u8; 8]; FIELD_WORDS]) -> Self {
        zerocopy::transmute!(octets.map(u64::from_ne_bytes))
    }

    /// These fields where `mask` has ones, and zeros elsewhere.
    #[must_use]
    pub fn masked(&self, mask: &Self) -> Self {
        let mut words = [0; FIELD_WORDS];
        for ((word, field), bits) in words.iter_mut().zip(self.words()).zip(mask.words()) {
            *word = field & bits;
        }
        zerocopy::transmute!(words)
    }

    /// An IPv4 address in the place of an IP address.
    pub const fn ipv4(address: [u8; 4]) -> [u8; 16] {
        let [a, b, c, d] = address;
        [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    }

    /// The EtherType as its own type.
    pub const fn ether_type(&self) -> EtherType {
        EtherType(self.ether_type)
    }
}
