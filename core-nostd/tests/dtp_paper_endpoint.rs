//! Two endpoints of the `paper` suite against each other over a network that loses, repeats and delays packets, and changes addresses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, octets};
use heddle_core::dtp::modern::PathAddress;
use heddle_core::dtp::paper::{
    Active, ClientKey, CloseReason, Config, DATAGRAM_OCTETS, Endpoint, Event, Flow, Memory,
    PaperError, PrivateKey, PublicKey,
};
use heddle_core::node::Instant;
use std::time::Duration;

fn memory(flows: usize) -> Memory<'static> {
    let buffer = |octets: usize| -> &'static mut [u8] { vec![0; octets].leak() };
    let actives: Vec<_> = (0..4).map(|_| Active::new(buffer(1 << 16), buffer(32_767))).collect();
    Memory {
        flows: (0..flows).map(|_| Flow::new()).collect::<Vec<_>>().leak(),
        timers: vec![0; flows].leak(),
        actives: actives.leak(),
        index: vec![0; 2 * flows].leak(),
    }
}

fn key() -> ClientKey<'static> {
    let case = cases("dtp/oaep.jsonl").into_iter().find(|case| octets(case, "n").len() == 256);
    let case = case.unwrap();
    let modulus: &'static [u8] = octets(&case, "n").leak();
    let public = PublicKey::new(modulus, &octets(&case, "e")).unwrap();
    let private = PrivateKey::new(&public, &octets(&case, "d")).unwrap();
    ClientKey { public, private: Box::leak(Box::new(private)) }
}

fn address(last: u8) -> PathAddress {
    let mut ip = [0; 16];
    ip[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, last]);
    PathAddress { local: 0, port: 7777, ip }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO.after(Duration::from_millis(ms))
}

fn octet(i: usize) -> u8 {
    (i * 167 % 251) as u8
}

struct Run {
    loss_percent: u64,
    first_sequence: Option<u32>,
    outage_ms: std::ops::Range<u64>,
    moves: bool,
}

/// An upload of `total` octets that the server answers with one octet; gives when both ends were done, in ms, and what the server was told.
fn upload(seed: u64, total: usize, run: &Run, key: ClientKey<'static>) -> (u64, Vec<Event>) {
    let mut random = seed.wrapping_mul(2) + 1;
    let mut draw = move || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let config = Config { first_sequence: run.first_sequence, ..Config::default() };
    let client_config = Config { key: Some(key), ..config.clone() };
    let server_config = Config { serves: true, ..config };
    let mut client = Endpoint::new(client_config, memory(4), [seed as u8; 32], at(0));
    let mut server = Endpoint::new(server_config, memory(4), [!seed as u8; 32], at(0));
    let flow = client.connect(at(0), address(2)).unwrap();
    let mut accepted = None;
    let (mut written, mut read, mut reply, mut told) = (0, 0, 0, Vec::new());
    let (mut client_closed, mut server_closed, mut finished) = (None, None, false);
    let mut wire: Vec<(u64, bool, PathAddress, Vec<u8>)> = Vec::new();
    let mut buffer = [0; DATAGRAM_OCTETS];
    for ms in 0..600_000 {
        let now = at(ms);
        let moved = run.moves && ms >= run.outage_ms.end;
        if ms == run.outage_ms.end && ms > 0 {
            client.network_changed(now);
        }
        let mut due = Vec::new();
        wire.retain(|packet| {
            let here = packet.0 <= ms;
            if here {
                due.push(packet.clone());
            }
            !here
        });
        for (_, to_server, path, datagram) in due {
            let end = if to_server { &mut server } else { &mut client };
            let _ = end.handle(now, path, &datagram);
        }
        let chunk: Vec<u8> = (written..total.min(written + 4096)).map(octet).collect();
        written += client.write(now, flow, &chunk);
        if written == total && !finished {
            client.finish(now, flow);
            finished = true;
        }
        while let Some((handle, event)) = server.poll() {
            accepted.get_or_insert(handle);
            told.push(event);
            if let Event::Closed(reason) = event {
                server_closed = Some(reason);
            }
        }
        if let Some(handle) = accepted {
            let mut out = [0; 3000];
            loop {
                let octets = server.read(now, handle, &mut out);
                assert!(out[..octets].iter().zip(read..).all(|(&o, i)| o == octet(i)));
                read += octets;
                if octets == 0 {
                    break;
                }
            }
            if server.at_end(handle) && reply == 0 {
                reply = server.write(now, handle, b"!");
                server.finish(now, handle);
            }
        }
        while let Some((_, event)) = client.poll() {
            if let Event::Closed(reason) = event {
                client_closed = Some(reason);
            }
        }
        for to_server in [true, false] {
            let end = if to_server { &mut client } else { &mut server };
            while let Some(sent) = end.transmit(now, &mut buffer) {
                let here = if moved { address(9) } else { address(1) };
                let lost = run.outage_ms.contains(&ms) || draw() % 100 < run.loss_percent;
                if lost || !to_server && sent.path != here {
                    continue;
                }
                let from = if to_server { here } else { address(2) };
                let datagram = buffer[..sent.octets].to_vec();
                if draw() % 100 < run.loss_percent {
                    wire.push((ms + 20, to_server, from, datagram.clone()));
                }
                wire.push((ms + 5 + draw() % 2, to_server, from, datagram));
            }
        }
        if client_closed.is_some() && server_closed.is_some() {
            let mut out = [0; 10];
            assert_eq!(client.read(now, flow, &mut out), 1);
            assert_eq!((read, client_closed), (total, Some(CloseReason::Finished)));
            assert_eq!(server_closed, Some(CloseReason::Finished));
            return (ms, told);
        }
    }
    panic!("seed {seed}: {read} of {total} octets, {client_closed:?}, {server_closed:?}");
}

#[test]
fn uploads_arrive_whole_over_lossy_networks_and_over_the_wrap() {
    let key = key();
    for seed in 0..20 {
        let first_sequence = [None, Some(0), Some(u32::MAX - 30_000)][seed as usize % 3];
        let run = Run { loss_percent: seed % 5, first_sequence, outage_ms: 0..0, moves: false };
        upload(seed, 200_000, &run, key);
    }
}

#[test]
fn an_outage_and_a_new_address_end_no_flow() {
    let key = key();
    for seed in 0..4 {
        let run =
            |outage_ms, moves| Run { loss_percent: 0, first_sequence: None, outage_ms, moves };
        let (whole, _) = upload(seed, 1_000_000, &run(0..0, false), key);
        let (outage, _) = upload(seed, 1_000_000, &run(100..20_100, false), key);
        let (moved, told) = upload(seed, 1_000_000, &run(100..20_100, true), key);
        assert!(told.contains(&Event::Moved), "{told:?}");
        assert!(outage < whole + 20_500, "{outage} ms, {whole} without an outage");
        assert!(moved < whole + 20_500, "{moved} ms, {whole} without an outage");
    }
}

#[test]
fn a_flood_of_syns_takes_bounded_places() {
    let key = key();
    let config = Config { serves: true, ..Config::default() };
    let mut server = Endpoint::new(config, memory(64), [3; 32], at(0));
    let client_config = Config { key: Some(key), ..Config::default() };
    let (mut buffer, mut sent, mut received) = ([0; DATAGRAM_OCTETS], 0, 0);
    for round in 0..200u64 {
        let mut client = Endpoint::new(client_config.clone(), memory(1), [round as u8; 32], at(0));
        client.connect(at(round), address(2)).unwrap();
        let syn = client.transmit(at(round), &mut buffer).unwrap();
        let from = address((round % 100) as u8 + 100);
        let result = server.handle(at(round), from, &buffer[..syn.octets]);
        assert!(matches!(result, Ok(()) | Err(PaperError::AddressBudget)), "{result:?}");
        received += syn.octets;
        while let Some(answer) = server.transmit(at(round), &mut buffer) {
            sent += answer.octets;
        }
        assert!(server.unproven() <= 64 && sent <= 3 * received);
        assert_eq!(server.poll(), None, "the application hears of proven clients alone");
    }
    assert_eq!(server.unproven(), 64);
}
