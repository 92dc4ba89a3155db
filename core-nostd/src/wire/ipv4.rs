//! IPv4 headers (RFC 791).

use super::{Checksum, WireError, internet_checksum};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16};

/// Octets of an IPv4 header without options.
pub const IPV4_HEADER_OCTETS: usize = 20;

/// An IPv4 address, most significant octet first.
pub type Ipv4Addr = [u8; 4];

bitflags::bitflags! {
    /// The flags above the fragment offset, in their places in the 16-bit field.
    #[derive(Copy, Clone, Debug, PartialEq, Eq)]
    pub struct Ipv4Flags: u16 {
        /// Reserved, must be zero.
        const RESERVED = 0x8000;
        /// Don't fragment.
        const DONT_FRAGMENT = 0x4000;
        /// More fragments.
        const MORE_FRAGMENTS = 0x2000;
    }
}

const FRAGMENT_OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header without its options.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct Ipv4Header {
    version_and_ihl: u8,
    /// Differentiated services and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    total_len: U16,
    identification: U16,
    flags_and_offset: U16,
    /// Hops that the packet may still make.
    pub ttl: u8,
    /// What follows the header.
    pub protocol: u8,
    checksum: U16,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// A header without options for a payload of `payload_octets`, its checksum right.
    pub fn new(fields: Ipv4Fields, payload_octets: usize) -> Self {
        let mut header = Self {
            version_and_ihl: 0x45,
            traffic_class: fields.traffic_class,
            total_len: U16::new((IPV4_HEADER_OCTETS + payload_octets) as u16),
            identification: U16::new(fields.identification),
            flags_and_offset: U16::new(fields.flags.bits()),
            ttl: fields.ttl,
            protocol: fields.protocol,
            checksum: U16::ZERO,
            source: fields.source,
            destination: fields.destination,
        };
        header.checksum = U16::new(internet_checksum(header.as_bytes()));
        header
    }

    /// Octets of header and payload.
    pub fn total_len(&self) -> usize {
        usize::from(self.total_len.get())
    }

    /// Octets of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.version_and_ihl & 0x0f) * 4
    }

    /// The identification field.
    pub fn identification(&self) -> u16 {
        self.identification.get()
    }

    /// The flags.
    pub fn flags(&self) -> Ipv4Flags {
        Ipv4Flags::from_bits_truncate(self.flags_and_offset.get())
    }

    /// Whether this is one of several fragments.
    pub fn is_fragment(&self) -> bool {
        self.flags().contains(Ipv4Flags::MORE_FRAGMENTS)
            || self.flags_and_offset.get() & FRAGMENT_OFFSET_MASK != 0
    }

    /// Where this fragment's payload lies in the whole one, in units of 8 octets.
    pub fn fragment_offset(&self) -> u16 {
        self.flags_and_offset.get() & FRAGMENT_OFFSET_MASK
    }

    /// What a copy of this header with other contents starts from.
    pub fn fields(&self) -> Ipv4Fields {
        Ipv4Fields {
            traffic_class: self.traffic_class,
            identification: self.identification(),
            flags: self.flags() & Ipv4Flags::DONT_FRAGMENT,
            ttl: self.ttl,
            protocol: self.protocol,
            source: self.source,
            destination: self.destination,
        }
    }
}

/// The fields of a header that somebody chooses; the others follow from them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// The identification field.
    pub identification: u16,
    /// The flags.
    pub flags: Ipv4Flags,
    /// Hops that the packet may still make.
    pub ttl: u8,
    /// What follows the header.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

/// A whole IPv4 packet that has been checked: version, lengths, checksum, no options, no fragment.
#[derive(Copy, Clone, Debug)]
pub struct Ipv4Packet<'a> {
    /// The header.
    pub header: &'a Ipv4Header,
    /// The payload up to the total length; padding that the link added is cut off.
    pub payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Checks `octets`, which begin with the IP header.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of the header's fields.
    pub fn parse(octets: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) =
            Ipv4Header::ref_from_prefix(octets).map_err(|_| WireError::FrameTooShort)?;
        if header.version_and_ihl >> 4 != 4 {
            return Err(WireError::IpVersion);
        }
        let header_len = header.header_len();
        if header_len < IPV4_HEADER_OCTETS || header_len > octets.len() {
            return Err(WireError::IpHeaderLen);
        }
        let packet = octets.get(..header.total_len()).ok_or(WireError::IpTotalLen)?;
        let (header_octets, payload) =
            packet.split_at_checked(header_len).ok_or(WireError::IpTotalLen)?;
        if Checksum::new().with(header_octets).finish() != 0 {
            return Err(WireError::IpChecksum);
        }
        if header.is_fragment() {
            return Err(WireError::Fragment);
        }
        if header_len != IPV4_HEADER_OCTETS {
            return Err(WireError::IpOptions);
        }
        Ok(Self { header, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> [u8; 24] {
        let fields = Ipv4Fields {
            traffic_class: 0,
            identification: 7,
            flags: Ipv4Flags::DONT_FRAGMENT,
            ttl: 9,
            protocol: 17,
            source: [10, 0, 0, 1],
            destination: [239, 1, 1, 1],
        };
        let mut octets = [0xaa; 24];
        octets[..20].copy_from_slice(Ipv4Header::new(fields, 4).as_bytes());
        octets
    }

    #[test]
    fn a_header_made_here_parses_here() {
        let octets = packet();
        let parsed = Ipv4Packet::parse(&octets).unwrap();
        assert_eq!(parsed.payload, [0xaa; 4]);
        assert_eq!(parsed.header.fields().identification, 7);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let octets = packet();
        for len in 0..octets.len() {
            assert!(Ipv4Packet::parse(&octets[..len]).is_err(), "{len} octets");
        }
    }

    #[test]
    fn every_flipped_header_bit_is_an_error() {
        for bit in 0..20 * 8 {
            let mut octets = packet();
            octets[bit / 8] ^= 1 << (bit % 8);
            assert!(Ipv4Packet::parse(&octets).is_err(), "bit {bit}");
        }
    }
}
