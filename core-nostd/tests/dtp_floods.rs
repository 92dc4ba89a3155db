//! Who floods a server of DTP's `modern` suite makes it neither grow, nor answer more than it gets, nor forget its clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "for the simulation")]
mod dtp_world;

use dtp_world::{Rng, Store, address, connect, server_config};
use heddle_core::dtp::modern::{
    Config, Counter, Endpoint, Event, FlowId, Memory, ModernError, PathAddress, Pattern, Phase,
};
use heddle_core::node::Instant;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000 + ms * 1_000_000)
}

fn spoofed(number: u32) -> PathAddress {
    let [a, b, c, d] = number.to_be_bytes();
    PathAddress {
        local: 0,
        port: 7,
        ip: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 100 | a, b, c, d],
    }
}

/// Carries datagrams both ways until neither end has any more.
fn exchange(now: Instant, client: &mut Endpoint, server: &mut Endpoint, from: PathAddress) {
    let mut buffer = [0; 2000];
    loop {
        let mut any = false;
        while let Some(sent) = client.transmit(now, &mut buffer) {
            any = true;
            let _ = server.handle(now, from, &mut buffer[..sent.octets], false);
        }
        while let Some(sent) = server.transmit(now, &mut buffer) {
            any = true;
            if sent.path == from {
                let _ = client.handle(now, address(1, 4444), &mut buffer[..sent.octets], false);
            }
        }
        if !any {
            return;
        }
    }
}

/// The flow that has come in, if one has; those that are gone are forgotten.
fn incoming(server: &mut Endpoint) -> Option<FlowId> {
    let mut incoming = None;
    while let Some((flow, event)) = server.poll() {
        match event {
            Event::Incoming => incoming = Some(flow),
            Event::Closed(_) => server.forget(flow),
            _ => {}
        }
    }
    incoming
}

/// A client with a flow that is open at both ends, and the flow at each.
fn established(now: Instant, client: &mut Endpoint, server: &mut Endpoint) -> (FlowId, FlowId) {
    let flow = client.connect(now, address(1, 4444), connect(Pattern::KnownServer, 3600)).unwrap();
    exchange(now, client, server, address(2, 1000));
    let at_server = incoming(server).expect("the flow is open");
    (flow, at_server)
}

#[test]
fn a_million_spoofed_handshakes_leave_the_flow_alone() {
    let (mut client_store, mut server_store) =
        (Store::new(4, 2, 1 << 14), Store::new(256, 4, 1 << 14));
    let (mut actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut client = Endpoint::new(Config::default(), memory, [1; 32], at(0));
    let (mut actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut server = Endpoint::new(server_config(&[]), memory, [2; 32], at(0));
    let (flow, at_server) = established(at(0), &mut client, &mut server);
    let stream = client.open_stream(flow).unwrap();

    // One Initial that is right, sent from a million addresses with ids of their own: each costs a handshake or an HMAC.
    let mut other_store = Store::new(4, 2, 1 << 14);
    let (mut actives, flows, timers, budgets) = other_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut other = Endpoint::new(Config::default(), memory, [3; 32], at(0));
    other.connect(at(0), address(1, 4444), connect(Pattern::KnownServer, 3600)).unwrap();
    let mut initial = [0; 2000];
    let octets = other.transmit(at(0), &mut initial).unwrap().octets;

    let (mut received, mut sent, mut buffer, mut got) = (0u64, 0u64, [0; 2000], Vec::new());
    let mut rng = Rng(1);
    for number in 0..1_000_000u32 {
        // 10 microseconds apart: 10 s in all.
        let now = Instant::from_nanos(at(0).as_nanos() + u64::from(number) * 10_000);
        let mut copy = initial;
        if number.is_multiple_of(3) {
            copy[20..28].copy_from_slice(&rng.next().to_be_bytes());
        }
        let _ = server.handle(now, spoofed(number), &mut copy[..octets], false);
        received += octets as u64;
        while let Some(transmit) = server.transmit(now, &mut buffer) {
            if transmit.path == address(2, 1000) {
                let _ = client.handle(now, address(1, 4444), &mut buffer[..transmit.octets], false);
            } else {
                sent += transmit.octets as u64;
            }
        }
        if number.is_multiple_of(1000) {
            assert_eq!(client.write(flow, stream, &number.to_be_bytes()), Ok(4));
            exchange(now, &mut client, &mut server, address(2, 1000));
            let mut out = [0; 64];
            let count = server.read(at_server, stream, &mut out).unwrap().unwrap();
            got.extend_from_slice(&out[..count]);
        }
        assert!(server.unproven() <= 128);
    }
    let expected: Vec<u8> = (0..1_000_000u32).step_by(1000).flat_map(u32::to_be_bytes).collect();
    assert_eq!(got, expected, "the flow goes on as if nothing were");
    assert!(sent <= 3 * received, "{sent} octets for {received}");
    assert!(sent * 10 < received, "tokens are short: {sent} octets for {received}");
    assert!(server.counter(Counter::Retries) > 500_000, "{}", server.counter(Counter::Retries));
    assert!(server.free_flows() >= 256 - 1 - 128);
    assert_eq!(server.drops(ModernError::TableFull), 0);
    // What nobody proved is forgotten.
    server.transmit(at(41_000), &mut buffer);
    assert_eq!((server.unproven(), server.free_flows()), (0, 255));
}

#[test]
fn forged_and_replayed_packets_change_nothing() {
    let (mut client_store, mut server_store) =
        (Store::new(4, 2, 1 << 14), Store::new(16, 4, 1 << 14));
    let (mut actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut client = Endpoint::new(Config::default(), memory, [1; 32], at(0));
    let (mut actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut server = Endpoint::new(server_config(&[]), memory, [2; 32], at(0));
    let (flow, at_server) = established(at(0), &mut client, &mut server);
    let stream = client.open_stream(flow).unwrap();
    client.write(flow, stream, b"hello").unwrap();
    let mut buffer = [0; 2000];
    let mut recorded = Vec::new();
    while let Some(sent) = client.transmit(at(1), &mut buffer) {
        recorded.push(buffer[..sent.octets].to_vec());
        server.handle(at(1), address(2, 1000), &mut buffer[..sent.octets], false).unwrap();
    }
    let mut rng = Rng(5);
    for step in 0..20_000u64 {
        let mut packet = recorded[rng.below(recorded.len() as u64) as usize].clone();
        if step % 2 == 0 {
            let bit = rng.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        // The thief replays from addresses of his own.
        let result =
            server.handle(at(2 + step / 100), spoofed(rng.next() as u32), &mut packet, false);
        assert!(result.is_err());
        while let Some(sent) = server.transmit(at(2 + step / 100), &mut buffer) {
            assert_eq!(sent.path, address(2, 1000), "nothing goes to the thief");
        }
    }
    assert_eq!(server.path(at_server), Some(address(2, 1000)));
    // Nobody answered it meanwhile.
    assert!(matches!(server.phase(at_server), Some(Phase::Open | Phase::Suspended)));
    let mut out = [0; 64];
    assert_eq!(server.read(at_server, stream, &mut out), Ok(Some(5)));
    assert_eq!(server.counter(Counter::Moved), 0);
}

#[test]
fn one_address_gets_its_budget_and_sleepers_make_room() {
    let (mut client_store, mut server_store) =
        (Store::new(64, 64, 1 << 12), Store::new(16, 16, 1 << 12));
    let (mut actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut client = Endpoint::new(Config::default(), memory, [1; 32], at(0));
    let (mut actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let config = Config { flows_of_address: 8, ..server_config(&[]) };
    let mut server = Endpoint::new(config, memory, [2; 32], at(0));
    let open = |now, client: &mut Endpoint, server: &mut Endpoint, from| {
        let flow =
            client.connect(now, address(1, 4444), connect(Pattern::KnownServer, 3600)).unwrap();
        exchange(now, client, server, from);
        let opened = incoming(server);
        if opened.is_none() {
            // It would try again, later and from elsewhere.
            client.close(flow, 0);
        }
        opened
    };
    for number in 0..12 {
        let opened = open(at(number * 100), &mut client, &mut server, address(2, 1000)).is_some();
        assert_eq!(opened, number < 8, "flow {number}");
    }
    assert!(server.drops(ModernError::AddressBudget) >= 4);
    for host in 3..11 {
        let opened =
            open(at(5000 + u64::from(host)), &mut client, &mut server, address(host, 1000));
        assert!(opened.is_some(), "another address: {host}");
    }
    assert_eq!(server.free_flows(), 0);
    // They fall asleep, and their network is gone. Their grants are cut when somebody else needs a place, and they go after the least grant.
    let mut buffer = [0; 2000];
    for ms in (6000..10_000).step_by(100) {
        while server.transmit(at(ms), &mut buffer).is_some() {}
    }
    let mut opened = false;
    for second in 10..200u64 {
        let from = address(99, 1000);
        opened |= second.is_multiple_of(10)
            && open(at(second * 1000), &mut client, &mut server, from).is_some();
        while server.transmit(at(second * 1000), &mut buffer).is_some() {}
    }
    assert!(opened, "room was made");
    assert!(server.counter(Counter::GrantsShrunk) > 0);
}
