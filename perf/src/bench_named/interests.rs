//! Interests of three components over UDP and IPv4, and the prefixes that match them.

use heddle_core::ndn::{NDN_PORT, write_number};
use heddle_core::wire::{
    Checksum, ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, IP_PROTOCOL_UDP,
    IPV4_HEADER_OCTETS, Ipv4Fields, Ipv4Flags, Ipv4Header, UDP_HEADER_OCTETS, UdpHeader,
};
use zerocopy::IntoBytes;

/// Where the Ethernet and IP addresses are before a switch rewrites them.
const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 0, 2];

/// Where the eight digits of the prefix's number are in the name.
const DIGITS_AT: usize = 2 + 6 + 2;

/// The TLV-VALUE of the name `/island/%08x/cam`, the prefix of this number.
pub fn name(number: u32) -> Vec<u8> {
    let digits = format!("{number:08x}");
    [&b"\x08\x06island\x08\x08"[..], digits.as_bytes(), b"\x08\x03cam"].concat()
}

/// An Interest in a frame, whose name can be changed.
pub struct Interest {
    frame: Vec<u8>,
    digits_at: usize,
}

impl Interest {
    /// One with MustBeFresh, Nonce and InterestLifetime.
    pub fn new() -> Self {
        let name = name(0);
        let mut value = element(7, &name);
        value.extend_from_slice(b"\x12\x00\x0a\x04\x01\x02\x03\x04\x0c\x02\x0f\xa0");
        let interest = element(5, &value);
        let udp_octets = UDP_HEADER_OCTETS + interest.len();
        let ip = Ipv4Fields {
            traffic_class: 0,
            identification: 1,
            flags: Ipv4Flags::DONT_FRAGMENT,
            ttl: 64,
            protocol: IP_PROTOCOL_UDP,
            source: SOURCE,
            destination: DESTINATION,
        };
        let mut frame = Vec::new();
        let [destination, source] = MAC;
        frame.extend_from_slice(
            EthernetHeader::new(destination, source, EtherType::IPV4).as_bytes(),
        );
        frame.extend_from_slice(Ipv4Header::new(ip, udp_octets).as_bytes());
        frame
            .extend_from_slice(UdpHeader::new(NDN_PORT, NDN_PORT, udp_octets as u16, 0).as_bytes());
        let headers_octets = frame.len();
        frame.extend_from_slice(&interest);
        let digits_at = headers_octets + 4 + DIGITS_AT;
        Self { frame, digits_at }
    }

    /// Octets of the frame.
    pub fn octets(&self) -> usize {
        self.frame.len()
    }

    /// The frame whose name has the prefix of this number, with a right checksum.
    pub fn named(&mut self, number: u32) -> &[u8] {
        let digit = |at: usize| match (number >> (28 - 4 * at) & 15) as u8 {
            low @ 0..10 => b'0' + low,
            high => b'a' + high - 10,
        };
        for (at, place) in self.frame.iter_mut().skip(self.digits_at).take(8).enumerate() {
            *place = digit(at);
        }
        let at = ETHERNET_HEADER_OCTETS + IPV4_HEADER_OCTETS;
        if let Some(datagram) = self.frame.get_mut(at..) {
            let octets = datagram.len() as u16;
            if let Some(sum) = datagram.get_mut(6..8) {
                sum.fill(0);
            }
            let sum = Checksum::new()
                .with(&SOURCE)
                .with(&DESTINATION)
                .with_word(IP_PROTOCOL_UDP.into())
                .with_word(octets)
                .with(datagram)
                .finish();
            if let Some(place) = datagram.get_mut(6..8) {
                place.copy_from_slice(&sum.to_be_bytes());
            }
        }
        &self.frame
    }
}

fn element(kind: u64, value: &[u8]) -> Vec<u8> {
    let mut header = [0; 18];
    let left = write_number(kind, &mut header)
        .and_then(|rest| write_number(value.len() as u64, rest))
        .map_or(0, |rest| rest.len());
    [header.get(..18 - left).unwrap_or_default(), value].concat()
}
