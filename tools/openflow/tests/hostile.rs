//! Controllers that mean harm, over real sockets: after each of them the switch answers and forwards as before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod host;

use heddle_core::node::PortId;
use heddle_openflow::client::Client;
use heddle_openflow::driver::Settings;
use heddle_openflow::{Body, Experiment, FlowMod, Framer, Match, Message, PortNumber, Role};
use host::switch::to;
use host::{Host, LONG, address, until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = (8 + body.len()) as u16;
    [&[4, kind][..], &len.to_be_bytes(), &[0, 0, 0, 7], body].concat()
}

fn experiment(kind: u32, body: &[u8]) -> Vec<u8> {
    message(4, &[&0x6666_6666u32.to_be_bytes(), &kind.to_be_bytes(), body].concat())
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn encoded(body: Body) -> Vec<u8> {
    Message::new(7, body).encode().unwrap()
}

/// A flow-mod that adds a flow with this match and these instructions, as octets.
fn flow_mod(matching: &[u8], instructions: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend([0, 0, 0, 0, 0, 0, 0, 9]);
    body.extend([0xff; 12]);
    body.extend([0; 4]);
    body.extend(matching);
    body.extend(instructions);
    message(14, &body)
}

const ANY: [u8; 8] = [0, 1, 0, 4, 0, 0, 0, 0];

/// What is sent, and the (type, code) of the error that has to be among the answers; none where there is nothing to be wrong.
type Case = (&'static str, Vec<u8>, Option<(u16, u16)>);

fn cases() -> Vec<Case> {
    let after_hello = |octets: Vec<u8>| [HELLO.to_vec(), octets].concat();
    let hex = |text: &str| hex::decode(text).unwrap();
    // Apply-actions in whose list an action claims to reach beyond it, and one that claims no length.
    let nested = |action: &[u8]| {
        let len = (8 + action.len()) as u16;
        [&[0, 4][..], &len.to_be_bytes(), &[0; 4], action].concat()
    };
    // A group whose only bucket claims no length.
    let group = |bucket: &[u8]| message(15, &[&[0, 0, 0, 0, 0, 0, 0, 1][..], bucket].concat());
    let part = |offset: u32, total: u32, octets: usize| {
        experiment(3, &[numbers(&[1, total, offset]), vec![0x55; octets]].concat())
    };
    let features = |body: &[u8]| message(18, &[&[0, 12, 0, 0, 0, 0, 0, 0][..], body].concat());
    let roles = (0..3000u64).flat_map(|generation| {
        let role = if generation % 2 == 0 { Role::Master } else { Role::Slave };
        encoded(Body::RoleRequest(role, generation))
    });
    vec![
        (
            "a hello whose element has no length",
            hex("04000010000000130001000000000010"),
            Some((1, 6)),
        ),
        ("a hello of another version", vec![2, 0, 0, 8, 0, 0, 0, 1], Some((0, 0))),
        ("a request before hello", message(5, &[]), Some((0, 0))),
        (
            "a version that was not agreed on",
            after_hello(vec![5, 5, 0, 8, 0, 0, 0, 1]),
            Some((1, 0)),
        ),
        ("a header of no length", after_hello(vec![4, 2, 0, 0, 0, 0, 0, 1]), Some((1, 6))),
        ("a header of seven octets", after_hello(vec![4, 2, 0, 7, 0, 0, 0, 1]), Some((1, 6))),
        (
            "a request of another protocol",
            after_hello(b"GET / HTTP/1.1\r\n".repeat(2000)),
            Some((1, 0)),
        ),
        ("half a message and the end", after_hello(message(14, &[0; 40])[..30].to_vec()), None),
        (
            "a match of no length",
            after_hello(flow_mod(&[0, 1, 0, 0, 0, 0, 0, 0], &[])),
            Some((4, 1)),
        ),
        (
            "a match beyond the message",
            after_hello(flow_mod(&[0, 1, 0xff, 0xff, 0, 0, 0, 0], &[])),
            Some((4, 1)),
        ),
        (
            "an instruction of no length",
            after_hello(flow_mod(&ANY, &[0, 4, 0, 0, 0, 0, 0, 0])),
            Some((3, 7)),
        ),
        ("an action of no length", after_hello(flow_mod(&ANY, &nested(&[0; 8]))), Some((2, 1))),
        (
            "an action beyond its list",
            after_hello(flow_mod(&ANY, &nested(&[0, 0, 0xff, 0xf8, 0, 0, 0, 1]))),
            Some((2, 1)),
        ),
        (
            "a set-field in a set-field",
            after_hello(flow_mod(
                &ANY,
                &nested(&[0, 25, 0, 16, 0x80, 0, 0x0a, 2, 0, 25, 0, 16, 0x80, 0, 0, 0]),
            )),
            Some((2, 13)),
        ),
        (
            "a list of 8000 actions",
            after_hello(flow_mod(&ANY, &nested(&[0, 24, 0, 8, 0, 0, 0, 0].repeat(7000)))),
            Some((2, 7)),
        ),
        (
            "a tunnel action that is too short",
            after_hello(flow_mod(&ANY, &nested(&hex("ffff001048444c450001000100000000")))),
            Some((2, 1)),
        ),
        ("a bucket of no length", after_hello(group(&[0; 16])), Some((6, 12))),
        (
            "a name that is none",
            after_hello(flow_mod(&hex("0001000cffff200848444c450805616200000000")[..16], &[])),
            Some((4, 1)),
        ),
        (
            "more of a name that never began",
            after_hello(flow_mod(&hex("0001000effff220648444c4508000000"), &[])),
            Some((4, 9)),
        ),
        (
            "a PUT that lies about its length",
            after_hello(experiment(0, &[numbers(&[1, 0xffff_ffff]), vec![0; 64]].concat())),
            Some((1, 6)),
        ),
        (
            "a PUT of program 4294967295",
            after_hello(experiment(0, &numbers(&[u32::MAX, 0]))),
            Some((0xffff, 5)),
        ),
        ("a part beyond its program", after_hello(part(10, 20, 100)), Some((1, 6))),
        ("parts of a program of 4 GiB", after_hello(part(0, u32::MAX, 60_000)), Some((0xffff, 4))),
        (
            "a flood of first parts",
            after_hello((0..100).flat_map(|_| part(0, 1 << 20, 60_000)).collect()),
            None,
        ),
        (
            "parts in no order",
            after_hello([part(0, 1000, 10), part(5, 1000, 10), part(900, 1000, 10)].concat()),
            Some((0xffff, 3)),
        ),
        (
            "a parameter with more octets than it has",
            after_hello(experiment(4, &numbers(&[1, 1, 1000]))),
            Some((1, 6)),
        ),
        ("an experimenter's message without one", after_hello(message(4, &[])), Some((1, 6))),
        ("a storm of roles", after_hello(roles.collect()), None),
        (
            "roles of old generations",
            after_hello(
                [
                    encoded(Body::RoleRequest(Role::Master, 1 << 40)),
                    encoded(Body::RoleRequest(Role::Master, 5)),
                ]
                .concat(),
            ),
            Some((11, 0)),
        ),
        ("table features of no length", after_hello(features(&[0; 64])), Some((1, 6))),
        (
            "a request that goes on for ever",
            after_hello(message(18, &[0, 13, 0, 1, 0, 0, 0, 0]).repeat(2000)),
            Some((1, 13)),
        ),
        (
            "a multipart type that is none",
            after_hello(message(18, &[0x77, 0x77, 0, 0, 0, 0, 0, 0])),
            Some((1, 2)),
        ),
        (
            "requests for everything, a thousand times",
            after_hello((0..1000).flat_map(|_| message(18, &[0, 12, 0, 0, 0, 0, 0, 0])).collect()),
            None,
        ),
        (
            "a packet of no port",
            after_hello(message(13, &[&[0xff; 4][..], &[0; 12]].concat())),
            Some((1, 11)),
        ),
        (
            "a packet with actions beyond it",
            after_hello(message(
                13,
                &[&[0xff; 4][..], &1u32.to_be_bytes(), &[0xff, 0xf0], &[0; 6]].concat(),
            )),
            Some((1, 6)),
        ),
        (
            "an answer that nobody asked for",
            after_hello(message(19, &[0, 13, 0, 0, 0, 0, 0, 0])),
            Some((1, 1)),
        ),
        (
            "echoes of the greatest length",
            after_hello((0..50).flat_map(|_| message(2, &vec![0x41; 65_527])).collect()),
            None,
        ),
    ]
}

/// Sends, says that this is all, and reads what the switch says until it closes.
fn attack(host: &Host, octets: &[u8]) -> Vec<Message> {
    let mut stream = TcpStream::connect(host.addresses[0]).unwrap();
    let mut reader = stream.try_clone().unwrap();
    reader.set_read_timeout(Some(LONG)).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut framer, mut said) = (Framer::default(), Vec::new());
        let mut octets = vec![0; 1 << 16];
        // The end, or that the switch has closed before it was told everything.
        while let Ok(count @ 1..) = reader.read(&mut octets) {
            framer.push(&octets[..count]);
            while let Some(message) = framer.next_message().unwrap() {
                said.push(Message::decode(message).unwrap());
            }
        }
        said
    });
    // The switch may close before it has read all.
    let _ = stream.write_all(octets).and_then(|()| stream.shutdown(Shutdown::Write));
    answers.join().unwrap()
}

#[test]
fn every_attack_leaves_the_switch_answering_and_forwarding() {
    let host = Host::listening();
    let mut operator = host.connect();
    operator.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap();
    let cases = cases();
    assert!(cases.len() >= 32);
    let mut wrong = Vec::new();
    for (what, octets, wanted) in cases {
        let said = attack(&host, &octets);
        let errors: Vec<(u16, u16)> = said
            .iter()
            .filter_map(|message| match &message.body {
                Body::Error { refusal, .. } => Some((refusal.error_type, refusal.code)),
                _ => None,
            })
            .collect();
        match wanted {
            Some(error) if errors.contains(&error) => {}
            None if errors.is_empty() => {}
            _ => wrong.push(format!("{what}: {wanted:?} is not among {errors:?}")),
        }
        operator.barrier().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(host.forward(), Some(PortId(1)), "{what}");
        host.connect().barrier().unwrap();
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(operator.programs().unwrap(), []);
    until("nobody but the operator is left", || host.on(|driver, _| driver.connections()) == 1);
}

#[test]
fn a_crowd_that_comes_and_goes_leaves_nothing_behind() {
    let settings = Settings {
        listen: vec![address("tcp:127.0.0.1:0")],
        max_connections: 16,
        hello_limit: Duration::from_secs(1),
        ..Settings::default()
    };
    let host = Host::new(settings, 64);
    let mut operator = host.connect();
    operator.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap();
    for round in 0..300 {
        let mut stream = TcpStream::connect(host.addresses[0]).unwrap();
        if round % 3 != 0 {
            // The switch may have closed already.
            let _ = stream.write_all(&HELLO[..round % 9]);
        }
        if round % 50 == 0 {
            operator.barrier().unwrap();
        }
    }
    until("all are gone", || host.on(|driver, _| driver.connections()) == 1);
    assert_eq!(host.forward(), Some(PortId(1)));
    // Those who come now find room.
    let mut clients: Vec<Client> = (0..15).map(|_| host.connect()).collect();
    clients.iter_mut().for_each(|client| client.barrier().unwrap());
}

#[test]
fn who_takes_the_mastery_does_not_keep_the_others_from_looking() {
    let host = Host::listening();
    let (mut good, mut bad) = (host.connect(), host.connect());
    good.role(Role::Master, 1).unwrap();
    bad.role(Role::Master, 2).unwrap();
    // Now a slave: it sees everything, changes nothing, and takes the mastery back.
    assert_eq!(good.port_stats(PortNumber::ANY).unwrap().len(), 3);
    good.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap_err();
    let put = good.put_program(1, b"\x7fELF").unwrap_err();
    assert_eq!(put.refusal().map(|refusal| (refusal.error_type, refusal.code)), Some((1, 10)));
    good.role(Role::Master, 3).unwrap();
    bad.flow_mod(FlowMod::delete_all(255, Match::default())).unwrap_err();
    good.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap();
    // Half a program of one is nothing of the other's.
    let part = |offset| Experiment::PutPart {
        program: 1,
        total_len: 8,
        offset,
        octets: b"\x7fELF".to_vec(),
    };
    good.request(Body::Experimenter(part(0))).unwrap();
    let other = host.connect().request(Body::Experimenter(part(4))).unwrap_err();
    assert_eq!(other.refusal(), Some(Experiment::BAD_PART));
    good.request(Body::Experimenter(part(4))).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
}
