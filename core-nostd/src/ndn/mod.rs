//! Named-data packets (NDN packet specification v0.3 and NDNLPv2): strict views over borrowed octets.
//!
//! [`Packet::parse`] takes what a face received, bare or in a link packet, and says what it carries. Decoders in use
//! differ on malformed input; this one follows the text of the specifications, and where it refuses a packet
//! the [`NdnError`] is also the name of a drop counter. Nothing is copied and nothing is allocated.
//!
//! What a switch does with packets that it does not reassemble is in [`FragmentFlows`]: the first fragment shows the
//! name, the others go where the first went. [`Reassembler`] and [`Fragmenter`] are for those who do.

mod data;
mod forward;
mod fragmenter;
mod fragments;
mod interest;
mod lp;
mod name;
mod packet;
mod reassembly;
mod tlv;

pub use data::Data;
pub use forward::{HopLimit, NONCE_ELEMENT_OCTETS, NonceGap, pass_hop, write_with_nonce};
pub use fragmenter::Fragmenter;
pub use fragments::{FragmentFlow, FragmentFlows, Piece};
pub use interest::{DEFAULT_LIFETIME_MS, Interest};
pub use lp::{LpHeader, NackReason};
pub use name::{Component, Components, Name, Names};
pub use packet::{Link, Packet, Payload, first_fragment_name};
pub use reassembly::{MAX_PIECES, Partial, Reassembler, reassembly_octets};
pub use tlv::{Element, Elements, number_octets, write_number};

use crate::named::named_enum;
use crate::wire::{EtherType, MacAddress};

/// The longest packet that any node takes, in octets.
pub const MAX_PACKET_OCTETS: usize = 8800;

/// The UDP and TCP port of named-data forwarders.
pub const NDN_PORT: u16 = 6363;

/// The EtherType of named-data packets.
pub const NDN_ETHER_TYPE: EtherType = EtherType(0x8624);

/// The Ethernet group address of named-data packets.
pub const NDN_MULTICAST_MAC: MacAddress = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];

named_enum! {
    /// Why octets are not a named-data packet, or one that goes no further.
    pub enum NdnError {
        /// The octets end inside the packet.
        Truncated = "ndn_truncated",
        /// An element is longer than the one around it.
        LengthPastEnd = "ndn_length_past_end",
        /// A TLV-TYPE is not in its shortest form.
        NonMinimalType = "ndn_non_minimal_type",
        /// A TLV-LENGTH is not in its shortest form.
        NonMinimalLength = "ndn_non_minimal_length",
        /// TLV-TYPE 0.
        TypeZero = "ndn_type_zero",
        /// A TLV-TYPE above 2^32 - 1.
        TypeTooLarge = "ndn_type_too_large",
        /// Octets after the packet in a datagram, or after the packet in a Fragment.
        TrailingBytes = "ndn_trailing_bytes",
        /// More than [`MAX_PACKET_OCTETS`].
        PacketTooLarge = "ndn_packet_too_large",
        /// Neither an Interest nor a Data nor an LpPacket.
        UnknownPacketType = "ndn_unknown_packet_type",
        /// An element that must be a Name is none.
        NotAName = "ndn_not_a_name",
        /// A component of type 0 or above 65535.
        ComponentTypeRange = "ndn_component_type_range",
        /// A digest component that is not 32 octets long.
        DigestComponentLength = "ndn_digest_component_length",
        /// An Interest or Data without an element.
        NameMissing = "ndn_name_missing",
        /// Something stands before the Name.
        NameNotFirst = "ndn_name_not_first",
        /// A Name of no component.
        EmptyName = "ndn_empty_name",
        /// A critical element that is not known.
        UnknownCritical = "ndn_unknown_critical",
        /// A critical element out of order or for the second time.
        ElementOrder = "ndn_element_order",
        /// CanBePrefix with a value.
        CanBePrefixLength = "ndn_can_be_prefix_length",
        /// MustBeFresh with a value.
        MustBeFreshLength = "ndn_must_be_fresh_length",
        /// A Nonce that is not 4 octets long.
        NonceLength = "ndn_nonce_length",
        /// An InterestLifetime that is not 1, 2, 4 or 8 octets long.
        LifetimeLength = "ndn_lifetime_length",
        /// A HopLimit that is not one octet long.
        HopLimitLength = "ndn_hop_limit_length",
        /// HopLimit 0 on arrival.
        HopLimitZero = "ndn_hop_limit_zero",
        /// The HopLimit allows delivery on this node only.
        HopLimitReached = "ndn_hop_limit_reached",
        /// ApplicationParameters in an Interest whose Name has no digest of them.
        ParamsDigestMissing = "ndn_params_digest_missing",
        /// A ContentType that is not 1, 2, 4 or 8 octets long.
        ContentTypeLength = "ndn_content_type_length",
        /// A FreshnessPeriod that is not 1, 2, 4 or 8 octets long.
        FreshnessLength = "ndn_freshness_length",
        /// A FinalBlockId that is not one component.
        FinalBlockId = "ndn_final_block_id",
        /// A Data without SignatureInfo.
        SignatureInfoMissing = "ndn_signature_info_missing",
        /// A Data without SignatureValue.
        SignatureValueMissing = "ndn_signature_value_missing",
        /// A link field that is not known and may not be ignored.
        LpUnknownCritical = "ndn_lp_unknown_critical",
        /// Link fields that are not in the order of their types, or a field after the Fragment.
        LpFieldOrder = "ndn_lp_field_order",
        /// A link field for the second time.
        LpRepeatedField = "ndn_lp_repeated_field",
        /// A link field's number that is not 1, 2, 4 or 8 octets long.
        LpIntegerLength = "ndn_lp_integer_length",
        /// A Sequence, Ack or TxSequence that is not 8 octets long.
        LpSequenceLength = "ndn_lp_sequence_length",
        /// A NonDiscovery with a value.
        LpNonDiscoveryLength = "ndn_lp_non_discovery_length",
        /// A PitToken that is not 1 to 32 octets long.
        PitTokenLength = "ndn_pit_token_length",
        /// A NackReason that is not 1, 2, 4 or 8 octets long.
        NackReasonLength = "ndn_nack_reason_length",
        /// A Nack that carries a Data.
        NackWithData = "ndn_nack_with_data",
        /// A Fragment holds neither an Interest nor a Data.
        UnexpectedInnerType = "ndn_unexpected_inner_type",
        /// FragIndex is not below FragCount.
        FragmentIndexRange = "ndn_fragment_index_range",
        /// More fragments than the longest packet has octets, or than a [`Reassembler`] follows.
        FragmentCountLimit = "ndn_fragment_count_limit",
        /// One of several fragments without a Sequence.
        FragmentSequenceMissing = "ndn_fragment_sequence_missing",
        /// A Sequence below the FragIndex.
        FragmentSequenceUnderflow = "ndn_fragment_sequence_underflow",
        /// A first fragment that ends before the Name does.
        NameBeyondFragment = "ndn_name_beyond_fragment",
        /// A later fragment of a packet whose first fragment has not been seen.
        FragmentWithoutFirst = "ndn_fragment_without_first",
        /// A fragment that came before.
        FragmentRepeated = "ndn_fragment_repeated",
        /// A fragment whose FragCount differs from that of the others.
        FragmentCountChanged = "ndn_fragment_count_changed",
        /// A fragment of a packet goes no further where only whole packets can be fragmented anew.
        AlreadyFragmented = "ndn_already_fragmented",
        /// No room for the packet: the link's MTU or the buffer is too small.
        NoRoom = "ndn_no_room",
    }
}
