//! Captures of running named-data applications: every frame is what its description says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::ndn::{
    FragmentFlow, FragmentFlows, Fragmenter, Link, NDN_ETHER_TYPE, NDN_PORT, Packet, Partial,
    Payload, Piece, Reassembler, first_fragment_name, reassembly_octets,
};
use heddle_core::node::Instant;
use heddle_core::wire::{EtherType, EthernetHeader, Ipv4Packet, UdpHeader};
use serde_json::{Value, json};
use std::time::Duration;
use zerocopy::FromBytes;

const LIFETIME: Duration = Duration::from_millis(500);

fn path(file: &str) -> String {
    format!("{}/tests/cases/ndn/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn json_lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The frames of a capture in the classic format, least significant octet first.
fn frames(file: &str) -> Vec<Vec<u8>> {
    let capture = std::fs::read(path(file)).unwrap();
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    assert!(matches!(word(0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "magic number");
    assert_eq!(word(20), 1, "Ethernet");
    let (mut at, mut frames) = (24, Vec::new());
    while at < capture.len() {
        let len = word(at + 8) as usize;
        assert_eq!(len, word(at + 12) as usize, "the frame is whole");
        frames.push(capture[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// The packet in a frame, and what carries it.
fn packet_octets(frame: &[u8]) -> (&[u8], Link) {
    let (header, rest) = EthernetHeader::ref_from_prefix(frame).unwrap();
    if header.ether_type() == NDN_ETHER_TYPE {
        return (rest, Link::Ethernet);
    }
    assert_eq!(header.ether_type(), EtherType::IPV4);
    let ip = Ipv4Packet::parse(rest).unwrap();
    let (udp, datagram) = UdpHeader::datagram(ip.payload).unwrap();
    assert_eq!(udp.destination_port(), NDN_PORT);
    (&datagram[8..], Link::Datagram)
}

/// What a frame is, in the words of the descriptions.
fn describe(payload: &Payload<'_>) -> Value {
    match payload {
        Payload::Interest(interest) => json!({
            "kind": "interest",
            "name": interest.name.to_string(),
            "nonce": interest.nonce.map(hex::encode),
            "lifetime_ms": interest.lifetime_ms,
            "hop_limit": interest.hop_limit,
            "can_be_prefix": interest.can_be_prefix,
            "must_be_fresh": interest.must_be_fresh,
        }),
        Payload::Data(data) => json!({
            "kind": "data",
            "name": data.name.to_string(),
            "freshness_ms": data.freshness_ms,
            "content_len": data.content.map(<[u8]>::len),
        }),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_frame_is_what_it_is_described_as() {
    for capture in json_lines("pcaps.jsonl") {
        let file = capture["pcap"].as_str().unwrap();
        let described = json_lines(&file.replace(".pcap", ".frames.jsonl"));
        let frames = frames(file);
        assert_eq!(frames.len(), described.len());
        assert_eq!(json!(frames.len()), capture["frames"]);
        let mut partials = vec![Partial::vacant(); 4];
        let mut memory = vec![0; reassembly_octets(4)];
        let mut reassembler = Reassembler::new(&mut partials, &mut memory, LIFETIME).unwrap();
        let mut names = std::collections::HashSet::new();
        let (mut interests, mut data, mut fragments) = (0, 0, 0);
        for (frame, expected) in frames.iter().zip(&described) {
            let (octets, link) = packet_octets(frame);
            let packet = Packet::parse(octets, link).unwrap();
            let (found, name) = match packet.payload {
                Payload::Fragment(piece) => {
                    fragments += 1;
                    let mut found = json!({
                        "kind": "fragment",
                        "sequence": packet.link.sequence,
                        "frag_index": packet.link.index(),
                        "frag_count": packet.link.count(),
                    });
                    let whole = reassembler.take(Instant::ZERO, 0, &packet.link, piece).unwrap();
                    let name = whole.map(|whole| {
                        let description = describe(&whole);
                        found["completes"] = description["kind"].clone();
                        found["name"] = description["name"].clone();
                        data += 1;
                        description["name"].to_string()
                    });
                    (found, name)
                }
                payload => {
                    let found = describe(&payload);
                    if found["kind"] == "interest" {
                        interests += 1
                    } else {
                        data += 1
                    }
                    let name = found["name"].to_string();
                    (found, Some(name))
                }
            };
            let mut expected = expected.clone();
            expected.as_object_mut().unwrap().remove("frame");
            assert_eq!(found, expected, "{file}");
            names.extend(name);
        }
        let counted = json!([interests, data, fragments, names.len()]);
        let told = ["interests", "data", "fragments", "distinct_names"].map(|key| &capture[key]);
        assert_eq!(counted, json!(told), "{file}");
    }
}

/// A switch that only looks at first fragments sends every fragment where the name says.
#[test]
fn fragments_follow_the_name_in_their_first() {
    let described = json_lines("lp-fragments.frames.jsonl");
    let mut name_of_message = std::collections::HashMap::new();
    for frame in &described {
        if let (Some(sequence), Some(name)) = (frame["sequence"].as_u64(), frame["name"].as_str()) {
            name_of_message
                .insert(sequence - frame["frag_index"].as_u64().unwrap(), name.to_owned());
        }
    }
    let mut names = Vec::new();
    let mut places = vec![FragmentFlow::vacant(0usize); 16];
    let mut flows = FragmentFlows::new(&mut places, LIFETIME, 99);
    let mut followed = 0;
    for frame in frames("lp-fragments.pcap") {
        let (octets, link) = packet_octets(&frame);
        let packet = Packet::parse(octets, link).unwrap();
        let Payload::Fragment(fragment) = packet.payload else { continue };
        let piece = Piece::new(3, &packet.link).unwrap();
        let decision = if packet.link.index() == 0 {
            let (is_interest, name) = first_fragment_name(fragment).unwrap();
            assert!(!is_interest);
            names.push(name.to_string());
            flows.begin(Instant::ZERO, piece, names.len() - 1);
            names.len() - 1
        } else {
            followed += 1;
            flows.follow(Instant::ZERO, piece).unwrap()
        };
        let message = packet.link.sequence.unwrap() - packet.link.index();
        assert_eq!(names[decision], name_of_message[&message]);
    }
    assert_eq!((names.len(), followed), (25, 80));
}

/// Packets cut for any MTU come together again, with their link fields on the first fragment.
#[test]
fn packets_cut_anew_come_together_again() {
    let cases = json_lines("data.jsonl").into_iter().chain(json_lines("lp.jsonl"));
    let mut cut = 0;
    for case in cases.filter(|case| case["verdict"] == "accept") {
        let octets = hex::decode(case["hex"].as_str().unwrap()).unwrap();
        let packet = Packet::parse(&octets, Link::Datagram).unwrap();
        let Some(network) = packet.payload.octets() else {
            assert!(Fragmenter::new(&octets, 1500).is_err());
            continue;
        };
        for mtu in (octets.len() / 60 + 160)..(octets.len() / 60 + 170) {
            let fragmenter = Fragmenter::new(&octets, mtu).unwrap();
            let mut partials = vec![Partial::vacant(); 2];
            let mut memory = vec![0; reassembly_octets(2)];
            let mut reassembler = Reassembler::new(&mut partials, &mut memory, LIFETIME).unwrap();
            // The last fragment first: order must not matter.
            for index in (0..fragmenter.count()).rev() {
                let mut out = vec![0xee; mtu];
                let len = fragmenter.write(index, 1000, &mut out).unwrap();
                assert!(fragmenter.write(index, 1000, &mut out.clone()[..len - 1]).is_err());
                let fragment = Packet::parse(&out[..len], Link::Datagram).unwrap();
                assert_eq!(fragment.link.sequence, Some(1000 + u64::from(index)));
                if index == 0 {
                    assert_eq!(fragment.link.pit_token, packet.link.pit_token);
                    assert_eq!(fragment.link.congestion_mark, packet.link.congestion_mark);
                    assert_eq!(fragment.link.nack, packet.link.nack);
                }
                let whole = match fragment.payload {
                    Payload::Fragment(piece) => {
                        cut += 1;
                        reassembler.take(Instant::ZERO, 0, &fragment.link, piece).unwrap()
                    }
                    whole => Some(whole),
                };
                assert_eq!(whole.is_some(), index == 0, "{} at {mtu}", case["id"]);
                if let Some(whole) = whole {
                    assert_eq!(whole.octets(), Some(network), "{} at {mtu}", case["id"]);
                }
            }
            assert!(fragmenter.write(fragmenter.count(), 0, &mut vec![0; mtu]).is_err());
        }
        assert!(Fragmenter::new(&octets, 20).is_err());
    }
    assert!(cut > 300, "{cut} fragments");
}
