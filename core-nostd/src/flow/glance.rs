//! A quick look at a frame: the fields and the name of the packets that are most of the traffic, each header read once.
//!
//! What it does not take it leaves to [`Packet::parse`]; what it takes, it sees as that does.

use super::fields::{Fields, NdnKind};
use super::lookup::Probe;
use super::packet::Packet;
use super::table::FlowTable;
use crate::ndn::NDN_PORT;
use crate::node::PortId;
use crate::wire::{ETHERNET_HEADER_OCTETS, IP_PROTOCOL_UDP};
use heapless::Vec;

/// Octets of Ethernet, IPv4 without options and UDP.
pub(super) const PLAIN_OCTETS: usize = 42;

/// Places to look for rules that are worked out ahead. With more kinds of rule in table 0, frames take their time.
const MAX_PROBES: usize = 16;

/// What is known of a frame before its rule is.
#[derive(Debug)]
pub(super) struct Glance {
    pub(super) fields: Fields,
    /// Where the name's TLV-VALUE is in the frame.
    name_at: u16,
    name_octets: u16,
    /// Whether it is UDP over IPv4 without options, not a fragment, in Ethernet without tags.
    pub(super) is_plain: bool,
    /// Whether the frame needs more than a look-up: it is malformed, a fragment, or an Interest without a Nonce.
    pub(super) needs_care: bool,
    pub(super) probes: Vec<Probe, MAX_PROBES>,
}

impl Glance {
    pub(super) const NONE: Self = Self {
        fields: Fields::NONE,
        name_at: 0,
        name_octets: 0,
        is_plain: false,
        needs_care: true,
        probes: Vec::new(),
    };

    /// Looks at a frame, and works out where its rule in table 0 may be.
    #[inline]
    pub(super) fn take(&mut self, frame: &[u8], port: PortId, tables: &mut FlowTable<'_>) {
        self.probes.clear();
        self.needs_care = !(self.read_plain(frame, port) || self.read_any(frame, port));
        if self.needs_care {
            return;
        }
        if self.name_octets == 0 {
            tables.prefixes.clear();
        } else {
            let octets = frame.get(usize::from(self.name_at)..).unwrap_or_default();
            let name_octets = usize::from(self.name_octets);
            tables.prefixes.set(octets, name_octets, tables.depth, tables.secret);
        }
        for probe in tables.probes(0, &self.fields) {
            tables.expect_bucket(probe.hash);
            if self.probes.push(probe).is_err() {
                self.needs_care = true;
                return;
            }
        }
    }

    /// The name's TLV-VALUE, or nothing.
    #[inline]
    pub(super) fn name<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        let name = frame.get(usize::from(self.name_at)..).unwrap_or_default();
        name.get(..usize::from(self.name_octets)).unwrap_or_default()
    }

    /// Takes a plain datagram with an Interest or with anything that is no named-data packet. False when it is something else.
    #[inline]
    fn read_plain(&mut self, frame: &[u8], port: PortId) -> bool {
        let Some(head) = frame.first_chunk::<PLAIN_OCTETS>() else { return false };
        let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
        let ip = &head[ETHERNET_HEADER_OCTETS..];
        let (total_octets, udp_octets) =
            (usize::from(word(head[16], head[17])), usize::from(word(head[38], head[39])));
        // IPv4 with a header of 20 octets; neither MF nor an offset.
        let is_plain = word(head[12], head[13]) == 0x0800
            && ip[0] == 0x45
            && head[20] & 0x3f == 0
            && head[21] == 0
            && head[23] == IP_PROTOCOL_UDP
            && total_octets >= PLAIN_OCTETS - ETHERNET_HEADER_OCTETS
            && total_octets + ETHERNET_HEADER_OCTETS <= frame.len();
        if !is_plain {
            return false;
        }
        let (source_port, destination_port) = (word(head[34], head[35]), word(head[36], head[37]));
        self.is_plain = true;
        self.name_octets = 0;
        let mut ndn_kind = NdnKind::None;
        if source_port == NDN_PORT || destination_port == NDN_PORT {
            let end = PLAIN_OCTETS - 8 + udp_octets;
            if udp_octets < 8 || udp_octets > total_octets - 20 {
                return false;
            }
            let payload = frame.get(PLAIN_OCTETS..end).unwrap_or_default();
            let Some(name_octets) = quick_interest(payload) else { return false };
            self.name_at = PLAIN_OCTETS as u16 + 4;
            self.name_octets = name_octets;
            ndn_kind = NdnKind::Interest;
        }
        // Whole words, because words are what is hashed and compared next.
        let [p, q, r, s] = (u32::from(port.0) + 1).to_ne_bytes();
        let [e, f] = 0x0800u16.to_ne_bytes();
        let ([i, j], [k, l]) = (source_port.to_ne_bytes(), destination_port.to_ne_bytes());
        self.fields = Fields::from_words([
            [p, q, r, s, e, f, IP_PROTOCOL_UDP, ndn_kind as u8],
            [i, j, k, l, 0, 0, head[15] >> 2, head[15] & 3],
            [head[30], head[31], head[32], head[33], 0, 0, 0, 0],
            [0; 8],
            [head[26], head[27], head[28], head[29], 0, 0, 0, 0],
            [0; 8],
            [head[0], head[1], head[2], head[3], head[4], head[5], 0, 0],
            [head[6], head[7], head[8], head[9], head[10], head[11], 0, 0],
            [0; 8],
            [0; 8],
            [0; 8],
        ]);
        true
    }

    /// Takes any frame that a look-up is enough for.
    fn read_any(&mut self, frame: &[u8], port: PortId) -> bool {
        let Ok(packet) = Packet::parse(frame, port) else { return false };
        if packet.piece.is_some() || packet.ndn_error.is_some() || packet.lacks_nonce {
            return false;
        }
        self.is_plain = false;
        self.fields = packet.fields;
        let name = packet.name.map_or(&[][..], |name| name.value());
        let at = name.as_ptr().addr().wrapping_sub(frame.as_ptr().addr());
        (self.name_at, self.name_octets) = (at as u16, name.len() as u16);
        frame.len() <= usize::from(u16::MAX)
    }
}

/// The octets of an Interest's name, when the Interest is of the most common form: alone, every type and length of one octet, nothing but
/// Name, CanBePrefix, MustBeFresh, Nonce, InterestLifetime and HopLimit, no digest in its name, nothing wrong with it.
#[inline]
fn quick_interest(octets: &[u8]) -> Option<u16> {
    let [0x05, length, 0x07, name_octets, value @ ..] = octets else { return None };
    if *length >= 0xfd || usize::from(*length) + 2 != octets.len() || *name_octets == 0 {
        return None;
    }
    let (name, mut rest) = value.split_at_checked(usize::from(*name_octets))?;
    let mut components = name;
    // Types 1 and 2 are digests, 0 is none, and from 0xfd on there is more of the type or the length.
    while let [kind @ 3..=0xfc, component_octets @ 0..=0xfc, after @ ..] = components {
        let _ = kind;
        components = after.get(usize::from(*component_octets)..)?;
    }
    if !components.is_empty() {
        return None;
    }
    if let [0x21, 0, after @ ..] = rest {
        rest = after;
    }
    if let [0x12, 0, after @ ..] = rest {
        rest = after;
    }
    let [0x0a, 4, _, _, _, _, after @ ..] = rest else { return None };
    rest = after;
    if let [0x0c, octets @ (1 | 2 | 4 | 8), after @ ..] = rest {
        rest = after.get(usize::from(*octets)..)?;
    }
    if let [0x22, 1, hops @ 1..=255, after @ ..] = rest {
        let _ = hops;
        rest = after;
    }
    rest.is_empty().then_some((*name_octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Frames near those that it takes: an Interest over UDP with any octet changed, cut or added.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let elements = proptest::sample::subsequence(
            vec![
                &b"\x21\x00"[..],
                b"\x12\x00",
                b"\x0a\x04\x01\x02\x03\x04",
                b"\x0c\x02\x03\xe8",
                b"\x22\x01\x07",
                b"\xfc\x01x",
            ],
            0..=6,
        );
        let component =
            (prop_oneof![Just(8u8), any::<u8>()], proptest::collection::vec(any::<u8>(), 0..12));
        let changes = proptest::collection::vec((0usize..120, any::<u8>()), 0..3);
        let names = proptest::collection::vec(component, 0..5);
        (names, elements, changes, any::<[u16; 2]>(), any::<bool>(), 0usize..12).prop_map(
            |(components, elements, changes, ports, is_named, padding)| {
                let name: Vec<u8> = components
                    .iter()
                    .flat_map(|(kind, value)| [&[*kind, value.len() as u8], &value[..]].concat())
                    .collect();
                let value = [&[7, name.len() as u8], &name[..], &elements.concat()].concat();
                let interest = [&[5, value.len() as u8], &value[..]].concat();
                let udp = 8 + interest.len() as u16;
                let port = if is_named { 6363 } else { ports[1] };
                let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0xb9];
                frame.extend_from_slice(&(20 + udp).to_be_bytes());
                frame.extend_from_slice(&[0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                frame.extend_from_slice(&ports[0].to_be_bytes());
                frame.extend_from_slice(&port.to_be_bytes());
                frame.extend_from_slice(&udp.to_be_bytes());
                frame.extend_from_slice(&[0, 0]);
                frame.extend_from_slice(&interest);
                frame.resize(frame.len() + padding, 0);
                for (at, octet) in changes {
                    if let Some(place) = frame.get_mut(at) {
                        *place = octet;
                    }
                }
                frame
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn it_sees_what_the_whole_parser_sees(frame in frames()) {
            let mut glance = Glance::NONE;
            if glance.read_plain(&frame, PortId(3)) {
                let packet = Packet::parse(&frame, PortId(3)).unwrap();
                prop_assert_eq!(glance.fields, packet.fields);
                prop_assert_eq!(packet.layout.network, 14);
                prop_assert_eq!((packet.layout.ip, packet.layout.transport), (Some(14), Some(34)));
                prop_assert!(packet.piece.is_none() && packet.ndn_error.is_none());
                prop_assert!(!packet.lacks_nonce);
                let name = packet.name.map_or(&[][..], |name| name.value());
                prop_assert_eq!(glance.name(&frame), name);
            }
        }
    }

    #[test]
    fn it_takes_the_most_common_interests() {
        for interest in [
            &b"\x05\x0d\x07\x05\x08\x03tno\x0a\x04abcd"[..],
            b"\x05\x18\x07\x05\x08\x03tno\x21\x00\x12\x00\x0a\x04abcd\x0c\x02\x0f\xa0\x22\x01\x01",
        ] {
            assert_eq!(quick_interest(interest), Some(5));
        }
    }
}
