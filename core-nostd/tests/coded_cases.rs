//! The byte cases of CODED IP: what a source, a forwarder and a destination make of given packets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;

use heddle_core::coded::{CodedHeader, CodedNode, Cut, PortSettings, Role, SessionRule, Settings};
use heddle_core::gf::{Field, Gf256};
use heddle_core::node::{Instant, PortId, PortSet, Verdict};
use serde::Deserialize;
use simulator::{Memories, coded_node, receive};
use std::time::Duration;

const HOST: PortId = PortId(0);
const NETWORK: PortId = PortId(1);
const NOW: Instant = Instant::from_nanos(1_000_000_000);

#[derive(Deserialize)]
struct Header {
    protocol: u8,
    session_id: u8,
    gen_size: u8,
    block_len: u8,
}

#[derive(Deserialize)]
struct ArrivalCase {
    packet: usize,
    verdict: String,
}

#[derive(Deserialize)]
struct Recoded {
    of: Vec<usize>,
    packet: String,
}

#[derive(Deserialize)]
struct GenerationCase {
    id: String,
    k: u8,
    block_len_octets: usize,
    header: Header,
    source: std::net::Ipv4Addr,
    group: std::net::Ipv4Addr,
    original: String,
    blocks: Vec<String>,
    packets: Vec<String>,
    arrivals: Vec<ArrivalCase>,
    recoded: Vec<Recoded>,
}

#[derive(Deserialize)]
struct HostilePacket {
    packet: String,
    forwarder: String,
    destination: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct HostileCase {
    id: String,
    packets: Vec<HostilePacket>,
}

fn cases<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = format!("{}/tests/cases/coded/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the case file is in the tree");
    text.lines().map(|line| serde_json::from_str(line).expect("a case is well formed")).collect()
}

/// The packet in an Ethernet frame.
fn frame(packet: &[u8]) -> Vec<u8> {
    [&[1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0][..], packet].concat()
}

fn frame_of(hexadecimal: &str) -> Vec<u8> {
    frame(&hex::decode(hexadecimal).expect("packets are hexadecimal"))
}

fn rule(session_id: u8, group: [u8; 4], role: Role) -> SessionRule {
    SessionRule { session_id, group, source: None, inputs: PortSet::EMPTY, role }
}

fn forwarder() -> Role {
    Role::Forwarder { outputs: PortSet::EMPTY.with(NETWORK) }
}

fn destination() -> Role {
    Role::Destination { cut: Cut::Datagram, deliver: PortSet::EMPTY.with(NETWORK) }
}

fn node(memories: &Memories, rule: SessionRule) -> CodedNode<'_> {
    let settings = Settings { seed: 7, ..Settings::default() };
    coded_node(memories, settings, &[PortSettings::default(); 2], &[rule], 2, 8)
}

/// Takes a coded frame apart and checks that its block is the combination of `blocks` that its vector says.
fn check_combination(id: &str, frame: &[u8], blocks: &[Vec<u8>]) -> CodedHeader {
    let (header, row) = CodedHeader::parse(&frame[34..]).expect("what a node sends is well formed");
    let (vector, block) = row.split_at(blocks.len());
    let mut expected = vec![0; block.len()];
    let sources: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    Gf256::dot(&mut expected, vector, sources.as_slice());
    assert_eq!(block, expected, "{id}: the block is not what its vector says");
    assert!(vector.iter().any(|c| *c != 0), "{id}: an empty combination");
    header
}

fn decode_blocks(case: &GenerationCase) -> Vec<Vec<u8>> {
    case.blocks.iter().map(|block| hex::decode(block).expect("blocks are hexadecimal")).collect()
}

#[test]
fn a_source_cuts_datagrams_as_the_cases_do() {
    let memories = Memories::new();
    for case in cases::<GenerationCase>("generations.jsonl") {
        let role = Role::Source {
            cut: Cut::Datagram,
            generation_size: case.k,
            redundancy: 2,
            udp_port: None,
            outputs: PortSet::EMPTY.with(NETWORK),
        };
        let mut source = node(&memories, rule(case.header.session_id, case.group.octets(), role));
        let (verdict, sent) = receive(&mut source, NOW, HOST, &frame_of(&case.original));
        assert_eq!(verdict, Verdict::Consumed, "{}", case.id);
        assert_eq!(sent.len(), usize::from(case.k) + 2, "{}", case.id);
        let blocks = decode_blocks(&case);
        let original = hex::decode(&case.original).unwrap();
        for (port, packet) in sent {
            assert_eq!(port, NETWORK);
            let header = check_combination(&case.id, &packet, &blocks);
            assert_eq!(header.protocol, case.header.protocol);
            assert_eq!(header.gen_size, case.header.gen_size);
            assert_eq!(header.block_len_units, case.header.block_len);
            assert_eq!(header.block_octets(), case.block_len_octets);
            let ip = &packet[14..34];
            assert_eq!(ip[9], 253);
            assert_eq!(ip[8], original[8] - 1, "{}: one hop", case.id);
            assert_eq!(ip[12..20], original[12..20], "{}: addresses", case.id);
            assert_eq!(ip[4..6], original[4..6], "{}: identification", case.id);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), packet.len() - 14);
        }
    }
}

#[test]
fn a_destination_gives_the_original_back() {
    let memories = Memories::new();
    for case in cases::<GenerationCase>("generations.jsonl") {
        let mut edge =
            node(&memories, rule(case.header.session_id, case.group.octets(), destination()));
        let mut delivered = Vec::new();
        for arrival in &case.arrivals {
            let (verdict, sent) =
                receive(&mut edge, NOW, HOST, &frame_of(&case.packets[arrival.packet]));
            let taken = verdict == Verdict::Consumed;
            assert_eq!(taken, arrival.verdict == "innovative", "{}: {verdict:?}", case.id);
            delivered.extend(sent);
        }
        assert_eq!(delivered.len(), 1, "{}", case.id);
        let (original, got) = (hex::decode(&case.original).unwrap(), &delivered[0].1[14..]);
        assert_eq!(got.len(), original.len(), "{}", case.id);
        // The hops on the way have changed the TTL and with it the checksum; the identification is that of one of the packets.
        assert_eq!(got[..4], original[..4], "{}", case.id);
        assert_eq!(got[6..8], original[6..8], "{}", case.id);
        assert_eq!(got[9], original[9], "{}", case.id);
        assert_eq!(got[12..], original[12..], "{}", case.id);
        assert_eq!(case.source.octets(), got[12..16]);
    }
}

#[test]
fn a_forwarder_recodes_what_it_holds() {
    let memories = Memories::new();
    for case in cases::<GenerationCase>("generations.jsonl") {
        let blocks = decode_blocks(&case);
        for recoded in &case.recoded {
            let expected = frame_of(&recoded.packet);
            check_combination(&case.id, &expected, &blocks);
            let mut relay =
                node(&memories, rule(case.header.session_id, case.group.octets(), forwarder()));
            let mut last = None;
            for index in &recoded.of {
                let (verdict, sent) =
                    receive(&mut relay, NOW, HOST, &frame_of(&case.packets[*index]));
                assert_eq!(verdict, Verdict::Forward(NETWORK), "{}: recoded in place", case.id);
                assert_eq!(sent.len(), 1, "{}: one packet for an innovative arrival", case.id);
                last = sent.into_iter().next();
            }
            let (_, packet) = last.expect("each case recodes something");
            check_combination(&case.id, &packet, &blocks);
            // All but the vector and the block is settled.
            assert_eq!(packet.len(), expected.len(), "{}", case.id);
            assert_eq!(packet[14..18], expected[14..18], "{}", case.id);
            assert_eq!(packet[20..24], expected[20..24], "{}: flags, TTL, protocol", case.id);
            assert_eq!(packet[26..42], expected[26..42], "{}: addresses, coded header", case.id);
        }
    }
}

#[test]
fn hostile_packets_are_dropped_for_the_right_reason() {
    for case in cases::<HostileCase>("hostile.jsonl") {
        for (role, is_forwarder) in [(forwarder(), true), (destination(), false)] {
            let mut rules = Vec::new();
            for packet in &case.packets {
                let octets = hex::decode(&packet.packet).unwrap();
                let header_len =
                    octets.first().map_or(20, |first| usize::from(first & 15) * 4).max(20);
                let group = octets.get(16..20).map_or([239, 0, 0, 1], |g| g.try_into().unwrap());
                let id = octets.get(header_len + 1).copied().unwrap_or(0);
                let new = rule(id, group, role);
                if !rules.contains(&new) {
                    rules.push(new);
                }
            }
            let memories = Memories::new();
            let settings = Settings { max_generation_size: 255, seed: 7, ..Settings::default() };
            let mut node =
                coded_node(&memories, settings, &[PortSettings::default(); 2], &rules, 4, 16);
            for (index, packet) in case.packets.iter().enumerate() {
                let expected = if is_forwarder { &packet.forwarder } else { &packet.destination };
                let decoded_before = node.counter("generations_decoded");
                let (verdict, _) = receive(&mut node, NOW, HOST, &frame_of(&packet.packet));
                let decoded = node.counter("generations_decoded") != decoded_before;
                let reason = match verdict {
                    Verdict::Drop(reason) => Some(reason.name()),
                    _ => None,
                };
                let what = format!("{} packet {index} at {role:?}: {reason:?}", case.id);
                match expected.as_str() {
                    // With K = 1 a packet that is accepted completes its generation.
                    "accept" => assert!(reason.is_none() || decoded, "{what}"),
                    "drop" => {
                        let wanted = match packet.reason.as_deref().expect("a drop has a reason") {
                            "checksum" => "ip_checksum",
                            "fragment" => "ip_fragment",
                            other => other,
                        };
                        assert_eq!(reason, Some(wanted), "{what}");
                        assert_eq!(
                            node.counter(wanted),
                            Some(count(&case, index, is_forwarder)),
                            "{what}"
                        );
                    }
                    "accept_or_drop" => {}
                    "not_coded" => assert_eq!(reason, Some("not_coded"), "{what}"),
                    // The blocks of these cases are no UDP datagrams, so they are decoded and then not delivered.
                    "generation_complete" => assert!(decoded, "{what}"),
                    other => panic!("{}: an unknown verdict {other}", case.id),
                }
            }
        }
    }
}

/// How often the packet's reason has come up to and including packet `index`.
fn count(case: &HostileCase, index: usize, is_forwarder: bool) -> u64 {
    let verdict =
        |p: &HostilePacket| if is_forwarder { p.forwarder.clone() } else { p.destination.clone() };
    let reason = &case.packets[index].reason;
    case.packets[..=index].iter().filter(|p| verdict(p) == "drop" && p.reason == *reason).count()
        as u64
}

#[test]
fn sessions_end_after_ses_time_out() {
    let memories = Memories::new();
    let case =
        cases::<GenerationCase>("generations.jsonl").into_iter().find(|case| case.k == 3).unwrap();
    let mut edge =
        node(&memories, rule(case.header.session_id, case.group.octets(), destination()));
    receive(&mut edge, NOW, HOST, &frame_of(&case.packets[0]));
    assert_eq!((edge.sessions(), edge.generations()), (1, 1));
    let time_out = Duration::from_secs(180);
    use heddle_core::node::Node;
    assert_eq!(edge.deadline(), Some(NOW.after(time_out)));
    let mut engine = simulator::SimEngine::default();
    edge.poll(NOW.after(time_out - Duration::from_nanos(1)), &mut engine);
    assert_eq!(edge.sessions(), 1);
    edge.poll(NOW.after(time_out), &mut engine);
    assert_eq!((edge.sessions(), edge.generations(), edge.deadline()), (0, 0, None));
    assert_eq!(edge.counter("sessions_timed_out"), Some(1));
}
