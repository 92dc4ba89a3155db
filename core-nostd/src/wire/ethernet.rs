//! Ethernet II headers.

use super::Ipv4Addr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16};

/// Octets of an Ethernet header without a tag.
pub const ETHERNET_HEADER_OCTETS: usize = 14;

/// An Ethernet address.
pub type MacAddress = [u8; 6];

/// Values of the EtherType field.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
}

/// The header of an Ethernet II frame.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct EthernetHeader {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    ether_type: U16,
}

impl EthernetHeader {
    /// A header of these values.
    pub fn new(destination: MacAddress, source: MacAddress, ether_type: EtherType) -> Self {
        Self { destination, source, ether_type: U16::new(ether_type.0) }
    }

    /// The EtherType field.
    pub fn ether_type(&self) -> EtherType {
        EtherType(self.ether_type.get())
    }
}

/// The Ethernet address of an IPv4 multicast group: 01:00:5e and its low 23 bits (RFC 1112, 6.4).
pub const fn multicast_mac(group: Ipv4Addr) -> MacAddress {
    [0x01, 0x00, 0x5e, group[1] & 0x7f, group[2], group[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_address_keeps_its_low_23_bits() {
        assert_eq!(multicast_mac([239, 129, 2, 3]), [0x01, 0x00, 0x5e, 0x01, 2, 3]);
    }
}
