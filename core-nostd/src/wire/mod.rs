//! The bytes of packets: headers as plain structs over borrowed octets, and their checksums.
//!
//! Parsing checks lengths once and then hands out views; nothing is copied. Every way in which a
//! packet can be wrong is one [`WireError`], which is also the name of a drop counter.

mod checksum;
mod ethernet;
mod gre;
mod ipv4;
mod ipv6;
mod mpls;
mod udp;
mod vxlan;

pub use checksum::{Checksum, internet_checksum};
pub use ethernet::{ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, MacAddress, multicast_mac};
pub use gre::{GRE_HEADER_OCTETS, GreHeader, IP_PROTOCOL_GRE};
pub use ipv4::{IPV4_HEADER_OCTETS, Ipv4Addr, Ipv4Fields, Ipv4Flags, Ipv4Header, Ipv4Packet};
pub use ipv6::{IPV6_HEADER_OCTETS, Ipv6Addr, Ipv6Header};
pub use mpls::{MPLS_ENTRY_OCTETS, MplsEntry};
pub use udp::{IP_PROTOCOL_UDP, UDP_HEADER_OCTETS, UdpHeader, udp_checksum_is_right};
pub use vxlan::{VXLAN_HEADER_OCTETS, VXLAN_PORT, VxlanHeader};

use crate::named::named_enum;

named_enum! {
    /// Why octets are not the packet that they should be.
    pub enum WireError {
        /// Shorter than an Ethernet header and an IPv4 header.
        FrameTooShort = "frame_too_short",
        /// The IP version is not 4.
        IpVersion = "ip_version",
        /// The IPv4 header length is below 20 octets or beyond the packet (RFC 791, 3.1).
        IpHeaderLen = "ip_header_len",
        /// The IPv4 total length is below the header's or beyond the frame (RFC 791, 3.1).
        IpTotalLen = "ip_total_len",
        /// The IPv4 header checksum is wrong (RFC 1122, 3.2.1.2: silently discard).
        IpChecksum = "ip_checksum",
        /// A fragment: coding needs whole packets.
        Fragment = "ip_fragment",
        /// The IPv4 header has options, which coded packets never carry.
        IpOptions = "ip_options",
        /// The UDP length is below 8 octets or beyond the IP packet (RFC 768).
        UdpLen = "udp_len",
        /// The UDP checksum is wrong (RFC 768). On a virtual link this is mostly a sender with checksum offload on.
        UdpChecksum = "udp_checksum",
    }
}
