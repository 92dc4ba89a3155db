//! UDP headers (RFC 768).

use super::{Checksum, Ipv4Addr, WireError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16};

/// Octets of a UDP header.
pub const UDP_HEADER_OCTETS: usize = 8;

/// UDP's number in the protocol field of IP.
pub const IP_PROTOCOL_UDP: u8 = 17;

/// The header of a UDP datagram.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct UdpHeader {
    source_port: U16,
    destination_port: U16,
    len: U16,
    checksum: U16,
}

impl UdpHeader {
    /// A header of these values; `len` counts header and payload.
    pub fn new(source_port: u16, destination_port: u16, len: u16, checksum: u16) -> Self {
        Self {
            source_port: U16::new(source_port),
            destination_port: U16::new(destination_port),
            len: U16::new(len),
            checksum: U16::new(checksum),
        }
    }

    /// The destination port.
    pub fn destination_port(&self) -> u16 {
        self.destination_port.get()
    }

    /// Cuts the datagram that `octets` begin with to the length that its header tells.
    ///
    /// # Errors
    /// [`WireError::UdpLen`] when that length is below 8 octets or more than there is.
    pub fn datagram(octets: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        let (header, _) = Self::ref_from_prefix(octets).map_err(|_| WireError::UdpLen)?;
        let len = usize::from(header.len.get());
        if len < UDP_HEADER_OCTETS {
            return Err(WireError::UdpLen);
        }
        Ok((header, octets.get(..len).ok_or(WireError::UdpLen)?))
    }
}

/// Whether the checksum of a whole datagram (header and payload) is right, or absent (0), with its IPv4 pseudo-header.
pub fn udp_checksum_is_right(source: Ipv4Addr, destination: Ipv4Addr, datagram: &[u8]) -> bool {
    let Ok((header, _)) = UdpHeader::ref_from_prefix(datagram) else { return false };
    header.checksum.get() == 0
        || Checksum::new()
            .with(&source)
            .with(&destination)
            .with_word(u16::from(IP_PROTOCOL_UDP))
            .with_word(datagram.len() as u16)
            .with(datagram)
            .finish()
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_cut_to_its_length() {
        let octets = [0, 1, 0, 2, 0, 9, 0, 0, 0xaa, 0xbb];
        let (header, datagram) = UdpHeader::datagram(&octets).unwrap();
        assert_eq!((header.destination_port(), datagram.len()), (2, 9));
    }

    #[test]
    fn a_length_that_lies_is_an_error() {
        for len in [0, 7, 11] {
            let octets = [0, 1, 0, 2, 0, len, 0, 0, 0xaa, 0xbb];
            assert_eq!(UdpHeader::datagram(&octets).err(), Some(WireError::UdpLen), "{len}");
        }
    }

    #[test]
    fn checksums_of_right_wrong_and_absent() {
        let (source, destination) = ([10, 0, 0, 1], [239, 1, 1, 1]);
        let mut datagram = [0x13, 0x88, 0x13, 0x89, 0, 10, 0, 0, 1, 2];
        assert!(udp_checksum_is_right(source, destination, &datagram));
        let sum = Checksum::new()
            .with(&source)
            .with(&destination)
            .with_word(17)
            .with_word(10)
            .with(&datagram)
            .finish();
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        assert!(udp_checksum_is_right(source, destination, &datagram));
        datagram[9] ^= 4;
        assert!(!udp_checksum_is_right(source, destination, &datagram));
    }
}
