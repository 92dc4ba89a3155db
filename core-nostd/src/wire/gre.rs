//! Generic routing encapsulation (RFC 2784, keys of RFC 2890).

use super::EtherType;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16};

/// GRE's number in the protocol field of IP.
pub const IP_PROTOCOL_GRE: u8 = 47;

/// Octets of a GRE header without options.
pub const GRE_HEADER_OCTETS: usize = 4;

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

impl EtherType {
    /// Whole Ethernet frames in GRE (RFC 7637 and before).
    pub const ETHERNET_BRIDGING: Self = Self(0x6558);
}

/// The part of a GRE header that is always there.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct GreHeader {
    flags: U16,
    protocol: U16,
}

impl GreHeader {
    /// A header before a packet of this type, with room for a key or none.
    pub fn new(protocol: EtherType, has_key: bool) -> Self {
        Self { flags: U16::new(if has_key { KEY } else { 0 }), protocol: U16::new(protocol.0) }
    }

    /// What is carried.
    pub fn protocol(&self) -> EtherType {
        EtherType(self.protocol.get())
    }

    /// Octets of the header with its options, or nothing for a version or an option that RFC 2784 and RFC 2890 do not have.
    pub fn octets(&self) -> Option<usize> {
        let flags = self.flags.get();
        if flags & (ROUTING | VERSION) != 0 {
            return None;
        }
        let options = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones();
        Some(GRE_HEADER_OCTETS + 4 * options as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_the_header_longer() {
        let octets = |flags: u16| {
            let [a, b] = flags.to_be_bytes();
            GreHeader::read_from_bytes(&[a, b, 8, 0]).unwrap().octets()
        };
        assert_eq!(octets(0), Some(4));
        assert_eq!(octets(0x2000), Some(8));
        assert_eq!(octets(0xb000), Some(16));
        assert_eq!((octets(1), octets(0x4000)), (None, None));
        assert_eq!(GreHeader::new(EtherType::IPV4, true).as_bytes(), [0x20, 0, 8, 0]);
    }
}
