//! What hostile controllers and hostile packets can do to a switch: nothing. After each of them it forwards and answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::controlled::{
    Bench, flow, output, program, set_ipv4_destination, under, verdict, with_controlled,
};
use common::{config, datagram, interest, start, udp, until};
use heddle_openflow::{
    Action, Body, Bucket, GroupCommand, GroupId, GroupMod, GroupType, Message, NO_BUFFER,
    PacketOut, PortNumber,
};

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

/// Flows that fit.
const MAX_FLOWS: usize = 16;

#[test]
fn hostile_controllers_and_packets_leave_the_switch_forwarding() {
    let (eal, pool) = start(1, 128);
    let config = config("[0]", &format!("max_flows = {MAX_FLOWS}\npacket_in_queue = 16"));
    let stats = with_controlled(
        &eal,
        &pool,
        &config,
        |_| {},
        |bench| {
            let mut client = bench.client();
            let actions = vec![set_ipv4_destination([192, 0, 2, 9]), Action::DecNwTtl, output(3)];
            client.change(Body::FlowMod(flow(9, vec![under(&["ok"])], actions))).unwrap();
            still_works(bench, "nobody");
            let controllers = hostile_controllers();
            assert!(controllers.len() >= 16);
            for (what, octets) in controllers {
                // It may be told off, or be let go before it has said all.
                let connection = say(bench, &octets);
                still_works(bench, what);
                drop(connection);
            }
            many_connections(bench);
            hostile_programs(bench);
            too_many_flows(bench);
            let packets = hostile_packets();
            assert!(packets.len() >= 16);
            for (what, frame) in packets {
                bench.hosts[0].send(&frame);
                still_works(bench, what);
            }
            random_packets(bench);
        },
    );
    assert_eq!(pool.in_use(), 0, "every mbuf came home");
    for counter in [
        "flow_frame_too_short",
        "flow_header_len",
        "flow_ttl_expired",
        "flow_no_match",
        "control_refused",
        "control_too_many",
        "program_faults",
    ] {
        assert!(stats.counters[counter] > 0, "{counter}: {}", stats.tables());
    }
}

/// Forwards a packet, which is changed on the way, and answers another controller.
fn still_works(bench: &mut Bench, what: &str) {
    let [a, _, c] = &mut bench.hosts;
    a.send(&interest(&["ok", "1"]));
    let mut got = Vec::new();
    until(&format!("a packet after {what}"), || {
        // Odd packets may have gone the same way.
        got.extend(c.received());
        got.iter().any(|frame| frame.get(30..34) == Some(&[192, 0, 2, 9]))
    });
    bench.client().barrier().unwrap_or_else(|error| panic!("after {what}: {error}"));
}

/// Says hello and more on a connection of its own, which is still open.
fn say(bench: &Bench, octets: &[u8]) -> TcpStream {
    let mut connection = TcpStream::connect(bench.address).unwrap();
    connection.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    // The switch may close before all is said.
    let _ = connection.write_all(octets);
    connection
}

fn after_hello(octets: &[u8]) -> Vec<u8> {
    [&HELLO[..], octets].concat()
}

/// A message with some octets put in the place of others.
fn spoilt(body: Body, at: usize, octets: &[u8]) -> Vec<u8> {
    let mut message = Message::new(5, body).encode().unwrap();
    message[at..at + octets.len()].copy_from_slice(octets);
    after_hello(&message)
}

fn message(body: Body) -> Vec<u8> {
    after_hello(&Message::new(5, body).encode().unwrap())
}

/// An experimenter message of the kind that carries programs.
fn experiment(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u16;
    let head = [&[4, 4][..], &len.to_be_bytes(), &[0, 0, 0, 9], &[0x66; 4], &kind.to_be_bytes()];
    after_hello(&[&head.concat()[..], body].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn hostile_controllers() -> Vec<(&'static str, Vec<u8>)> {
    let any = || Body::FlowMod(flow(1, vec![], vec![output(2)]));
    let group = |id: u32, actions: Vec<Action>| {
        Body::GroupMod(GroupMod {
            command: GroupCommand::Add,
            kind: GroupType::All,
            group: GroupId(id),
            buckets: vec![Bucket {
                weight: 0,
                watch_port: PortNumber::ANY,
                watch_group: GroupId::ANY,
                actions,
            }],
        })
    };
    let packet_out = |in_port: PortNumber, port: u32, data: Vec<u8>| {
        let actions = vec![output(port)];
        message(Body::PacketOut(PacketOut { buffer: NO_BUFFER, in_port, actions, data }))
    };
    let mut noise = 1u64;
    let random: Vec<u8> = (0..60_000).map(|_| next_random(&mut noise)).collect();
    vec![
        ("another protocol", b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n".to_vec()),
        ("the hello of TLS", [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 500]].concat()),
        ("another version", vec![1, 0, 0, 8, 0, 0, 0, 1]),
        ("no hello", Message::new(1, any()).encode().unwrap()),
        ("an element of no octets", vec![4, 0, 0, 16, 0, 0, 0, 0x13, 0, 1, 0, 0, 0, 0, 0, 0x10]),
        ("a message of no octets", after_hello(&[4, 14, 0, 0, 0, 0, 0, 1])),
        ("a message that does not end", after_hello(&[4, 14, 0xff, 0xff, 0, 0, 0, 1])),
        ("half a header", after_hello(&[4, 14, 0])),
        ("random octets", after_hello(&random)),
        // The match is at 48, without fields the instruction at 56, its first action at 64.
        ("a match that is too long", spoilt(any(), 50, &[0xff, 0xff])),
        ("an instruction of no octets", spoilt(any(), 58, &[0, 0])),
        ("an action of no octets", spoilt(any(), 66, &[0, 0])),
        ("an action that is too long", spoilt(any(), 66, &[0xff, 0xf8])),
        ("a bucket of no octets", spoilt(group(1, vec![output(2)]), 16, &[0, 0])),
        ("a group of itself", message(group(2, vec![Action::Group(GroupId(2))]))),
        ("an unknown type", after_hello(&[4, 99, 0, 8, 0, 0, 0, 1])),
        ("a request that is cut off", after_hello(&[4, 18, 0, 10, 0, 0, 0, 1, 0, 1])),
        ("a program shorter than it says", experiment(0, &words(&[1, 0xffff_ffff, 0]))),
        ("a part of a program beyond its end", experiment(3, &words(&[1, 8, 0xffff_fff0, 0, 0]))),
        ("a part of a program of 4 GiB", experiment(3, &words(&[1, 0xffff_ffff, 0, 0, 0]))),
        ("an empty packet", packet_out(PortNumber::CONTROLLER, 2, Vec::new())),
        ("a packet for no port", packet_out(PortNumber(1), 0xffff_ff00, vec![0; 60])),
        ("a packet for nowhere", packet_out(PortNumber(77), 2, vec![0; 60])),
        ("a packet longer than a frame", packet_out(PortNumber::CONTROLLER, 2, vec![0; 60_000])),
    ]
}

/// More connections than the switch takes, all at once.
fn many_connections(bench: &mut Bench) {
    // Those that say nothing make room for others.
    let mute: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(bench.address).unwrap()).collect();
    until("who makes room", || bench.stats().counters["control_no_hello"] > 0);
    still_works(bench, "many connections that say nothing");
    drop(mute);
    until("their end", || bench.stats().gauges["control_connections"] < 16);
    let held: Vec<TcpStream> = (0..100).map(|_| say(bench, &HELLO)).collect();
    until("too many", || bench.stats().counters["control_too_many"] > 0);
    drop(held);
    until("their end", || bench.stats().gauges["control_connections"] < 32);
    still_works(bench, "many connections");
    // One that asks without end and reads nothing: its answers are bounded, and others are heard.
    let mut deaf = TcpStream::connect(bench.address).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let echo = Message::new(1, Body::EchoRequest(vec![0; 60_000])).encode().unwrap();
    let _ = deaf.write(&HELLO);
    for _ in 0..2000 {
        if deaf.write(&echo).is_err() {
            break;
        }
    }
    still_works(bench, "a controller that reads nothing");
    // What it was sent before it was let go.
    let mut octets = [0; 1024];
    let _ = deaf.read(&mut octets);
}

/// Programs that would run for ever, read where they must not, or are none.
fn hostile_programs(bench: &mut Bench) {
    let mut client = bench.client();
    let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
    let for_ever = [&program(1, 0)[..8], &[0x05, 0, 0xff, 0xff, 0, 0, 0, 0], &exit].concat();
    // r0 = *(u64 *)(r1 + 32767), far behind the context.
    let outside = [&[0x79, 0x10, 0xff, 0x7f, 0, 0, 0, 0][..], &exit].concat();
    // r2 = the packet's address; r0 = *(u8 *)(r2 + 20000).
    let behind_packet =
        [&[0x79, 0x12, 32, 0, 0, 0, 0, 0][..], &[0x71, 0x20, 0x20, 0x4e, 0, 0, 0, 0], &exit];
    let behind_packet = behind_packet.concat();
    let mut taken = 0;
    for (what, code) in [
        ("a program that runs for ever", for_ever),
        ("a program that reads outside", outside),
        ("a program that reads behind the packet", behind_packet),
        ("a program without an end", program(1, 0)[..8].to_vec()),
        ("a program that jumps outside", [&[0x05, 0, 0xff, 0x7f, 0, 0, 0, 0][..], &exit].concat()),
        ("a program of no octets", Vec::new()),
        ("a file that is cut off", b"\x7fELF\x02\x01\x01".to_vec()),
    ] {
        // What is not refused can be asked, and has no verdict.
        if client.put_program(3, &code).is_ok() {
            taken += 1;
            client.flow_mod(flow(20, vec![verdict(3, 1)], vec![output(2)])).unwrap();
            client.barrier().unwrap();
            bench.hosts[0].send(&udp(b"for the program"));
        }
        still_works(bench, what);
    }
    let faults = || bench.stats().counters["program_faults"];
    until("faults", || taken == 0 || faults() > 0);
    client
        .change(Body::FlowMod(heddle_openflow::FlowMod::delete(
            0,
            20,
            heddle_openflow::Match { fields: vec![verdict(3, 1)] },
        )))
        .unwrap();
    assert!(bench.hosts[1].received().is_empty(), "none of them matched");
}

/// Flows for which there is no place, and what makes too many kinds of them.
fn too_many_flows(bench: &mut Bench) {
    let mut client = bench.client();
    for number in 0..MAX_FLOWS * 8 {
        let flow = flow(7, vec![under(&["filler", &number.to_string()])], vec![output(2)]);
        client.send(Body::FlowMod(flow)).unwrap();
    }
    client.barrier().unwrap();
    assert_eq!(
        client.flows(heddle_openflow::FlowFilter::covering(Default::default())).unwrap().len(),
        MAX_FLOWS
    );
    still_works(bench, "too many flows");
    let all = vec![under(&["filler"])];
    let delete = heddle_openflow::FlowMod::delete_all(0, heddle_openflow::Match { fields: all });
    client.change(Body::FlowMod(delete)).unwrap();
}

/// An NDN packet in a datagram.
fn ndn(octets: &[u8]) -> Vec<u8> {
    datagram(6363, octets)
}

fn with_octet(mut frame: Vec<u8>, at: usize, octet: u8) -> Vec<u8> {
    frame[at] = octet;
    frame
}

fn hostile_packets() -> Vec<(&'static str, Vec<u8>)> {
    let plain = udp(b"payload");
    let ethernet = |ether_type: [u8; 2], rest: &[u8]| [&plain[..12], &ether_type, rest].concat();
    vec![
        ("one octet", vec![0xff]),
        ("thirteen octets", plain[..13].to_vec()),
        ("no payload", plain[..14].to_vec()),
        ("half an IPv4 header", plain[..24].to_vec()),
        ("an IPv4 header of no words", with_octet(plain.clone(), 14, 0x40)),
        ("an IPv4 header longer than the frame", with_octet(plain.clone(), 14, 0x4f)),
        ("IPv4 of version 7", with_octet(plain.clone(), 14, 0x75)),
        ("an IPv4 length beyond the frame", with_octet(plain.clone(), 16, 0xff)),
        ("an IPv4 length of nothing", with_octet(with_octet(plain.clone(), 16, 0), 17, 0)),
        ("a UDP length of nothing", with_octet(with_octet(plain.clone(), 38, 0), 39, 0)),
        ("a UDP length beyond the packet", with_octet(plain.clone(), 38, 0xff)),
        ("no time to live", with_octet(interest(&["ok", "1"]), 22, 0)),
        ("its last hop", with_octet(interest(&["ok", "1"]), 22, 1)),
        ("half an IPv6 header", ethernet([0x86, 0xdd], &[0x60; 20])),
        (
            "IPv6 headers without end",
            ethernet([0x86, 0xdd], &[&[0x60, 0, 0, 0, 1, 0, 0, 64][..], &[0; 600]].concat()),
        ),
        ("labels without a bottom", ethernet([0x88, 0x47], &[0; 1200])),
        ("tags without end", ethernet([0x81, 0], &[0x81, 0, 0, 1].repeat(300))),
        ("a name of nothing", ndn(&[5, 8, 7, 0, 0x0a, 4, 1, 2, 3, 4])),
        ("a length that is not the shortest", ndn(&[5, 0xfd, 0, 5, 7, 3, 8, 1, b'x'])),
        ("a length of 2^64", ndn(&[5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("a component of type 0", ndn(&[5, 5, 7, 3, 0, 1, b'x'])),
        ("a component beyond the name", ndn(&[5, 5, 7, 3, 8, 200, b'x'])),
        ("a hop limit of two octets", ndn(&[5, 9, 7, 3, 8, 1, b'x', 0x22, 2, 1, 1])),
        (
            "2^40 fragments",
            ndn(&[
                100, 24, 81, 8, 0, 0, 0, 0, 0, 0, 0, 1, 83, 8, 0, 0, 1, 0, 0, 0, 0, 0, 80, 2, 5, 0,
            ]),
        ),
        (
            "fragment 1 of sequence 0",
            ndn(&[100, 21, 81, 8, 0, 0, 0, 0, 0, 0, 0, 0, 82, 1, 1, 83, 1, 2, 80, 3, 5, 1, 0]),
        ),
        ("a link packet in itself", ndn(&[100, 8, 80, 6, 100, 4, 80, 2, 100, 0])),
        ("a frame as long as its buffer", [&plain[..12], &[0xff; 2036]].concat()),
    ]
}

fn next_random(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 56) as u8
}

/// Packets with octets changed and cut off at random, always the same ones.
fn random_packets(bench: &mut Bench) {
    let mut state = 7;
    let originals = [udp(b"payload"), interest(&["ok", "name", "of", "some", "components"])];
    for round in 0..4000usize {
        let mut frame = originals[round % 2].clone();
        for _ in 0..=round % 5 {
            let at = usize::from(next_random(&mut state)) % frame.len();
            frame[at] = next_random(&mut state);
        }
        if round % 3 == 0 {
            frame.truncate(1 + usize::from(next_random(&mut state)) % frame.len());
        }
        bench.hosts[0].send(&frame);
        if round % 256 == 255 {
            still_works(bench, "random packets");
        }
    }
    still_works(bench, "random packets");
}
