//! Several servers behind one address: every flow stays with its server, whatever address its client has, and new flows are spread.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{
    Active, Config, Connect, Endpoint, Event, Flow, FlowId, IdCipher, IdContent, Identity, Memory,
    ModernError, PathAddress, Pattern, Sent, Steerer, Steering,
};
use heddle_core::node::Instant;

const SHARED: [u8; 32] = [9; 32];
const ID_KEY: [u8; 32] = [77; 32];
const SERVERS: [u16; 3] = [1, 7, 40_000];
const CLIENTS: usize = 24;
const OCTETS: usize = 40_000;

fn identity() -> Identity {
    Identity { pre_shared: Some(SHARED), ..Identity::default() }
}

/// A server of that number, or a client.
fn endpoint(server: Option<u16>, seed: u8) -> Endpoint<'static> {
    let flows = if server.is_some() { CLIENTS } else { 1 };
    let active = || {
        Active::new(
            vec![0; 16_384].leak(),
            vec![0; 16_384].leak(),
            vec![Sent::default(); 128].leak(),
        )
    };
    let memory = Memory {
        flows: (0..flows).map(|_| Flow::new()).collect::<Vec<_>>().leak(),
        timers: vec![0; flows].leak(),
        actives: (0..flows).map(|_| active()).collect::<Vec<_>>().leak(),
        budgets: vec![0; 256].leak(),
    };
    let config = Config {
        identity: identity(),
        patterns: if server.is_some() { &[Pattern::PreShared] } else { &[] },
        id_key: if server.is_some() { ID_KEY } else { [seed; 32] },
        server: server.unwrap_or(0),
        streams: u8::from(server.is_some()),
        ..Config::default()
    };
    Endpoint::new(config, memory, [seed; 32], Instant::from_nanos(1))
}

struct Client {
    endpoint: Endpoint<'static>,
    flow: FlowId,
    written: usize,
    /// The server that its first datagram went to.
    server: Option<usize>,
}

fn address(client: usize, move_number: usize) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, move_number as u8, client as u8];
    PathAddress { local: 0, port: 5000 + move_number as u16, ip }
}

#[test]
fn flows_stay_with_their_servers_over_losses_and_changes_of_address() {
    let steerer = Steerer::new(&ID_KEY);
    let virtual_address = address(255, 255);
    let mut servers: Vec<_> =
        SERVERS.iter().enumerate().map(|(at, &number)| endpoint(Some(number), at as u8)).collect();
    let start = Instant::from_nanos(1_000_000_000);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            let mut endpoint = endpoint(None, 100 + at as u8);
            let connect =
                Connect { pattern: Pattern::PreShared, identity: identity(), keep_alive_s: 3600 };
            let flow = endpoint.connect(start, virtual_address, connect).unwrap();
            Client { endpoint, flow, written: 0, server: None }
        })
        .collect();
    let mut got = [0; SERVERS.len()];
    let (mut buffer, mut octets) = ([0; 2000], [0; 4096]);
    let mut random = 1u64;
    let mut lost = move || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) % 100 < 5
    };
    let mut moves = 0;
    for millisecond in 1..60_000 {
        let now = Instant::from_nanos(1_000_000_000 + millisecond * 1_000_000);
        // Everybody is somewhere else from now on, and the servers learn it from what comes.
        moves = (millisecond / 7) as usize % 200;
        for (at, client) in clients.iter_mut().enumerate() {
            while client.endpoint.poll().is_some() {}
            if client.written == 0 {
                // There is no stream before the handshake is done.
                let _ = client.endpoint.open_stream(client.flow);
            }
            let rest = &[at as u8; OCTETS][client.written..];
            if let Ok(written) = client.endpoint.write(client.flow, 0, rest) {
                client.written += written;
            }
            while let Some(sent) = client.endpoint.transmit(now, &mut buffer) {
                let datagram = &mut buffer[..sent.octets];
                let steering = steerer.steer(datagram).unwrap();
                let server = steering.server_of(&SERVERS).unwrap();
                assert_eq!(*client.server.get_or_insert(server), server, "client {at}");
                if !lost() {
                    servers[server].handle(now, address(at, moves), datagram, false).unwrap();
                }
            }
        }
        for (server, got) in servers.iter_mut().zip(&mut got) {
            while let Some((flow, event)) = server.poll() {
                if event == Event::Readable {
                    while let Ok(Some(count @ 1..)) = server.read(flow, 0, &mut octets) {
                        *got += count;
                    }
                }
            }
            while let Some(sent) = server.transmit(now, &mut buffer) {
                let client = &mut clients[usize::from(sent.path.ip[15])];
                let datagram = &mut buffer[..sent.octets];
                assert!(steerer.steer(datagram).is_err(), "not what a client sends");
                // Who has moved on gets nothing at its old address.
                if !lost() && usize::from(sent.path.ip[14]) == moves {
                    client.endpoint.handle(now, virtual_address, datagram, false).unwrap();
                }
            }
        }
        if got.iter().sum::<usize>() == CLIENTS * OCTETS {
            break;
        }
    }
    assert!(moves > 1, "addresses have changed in between");
    assert_eq!(got.iter().sum::<usize>(), CLIENTS * OCTETS);
    assert!(got.iter().all(|got| *got > 0), "each server has flows: {got:?}");
}

#[test]
fn what_is_no_packet_of_a_client_is_told_apart() {
    let steerer = Steerer::new(&ID_KEY);
    assert_eq!(steerer.steer(&[]), Err(ModernError::Truncated));
    for first in [0x82, 0x83, 0x84, 0x00, 0xff, 0x45] {
        let datagram = [first; 1200];
        let kind = steerer.steer(&datagram);
        let expected = if first == 0x45 { ModernError::UnknownFlow } else { ModernError::Kind };
        assert_eq!(kind, Err(expected), "{first:#x}");
    }
    assert_eq!(steerer.steer(&[0x81; 1199]), Err(ModernError::InitialTooShort));
    assert_eq!(steerer.steer(&[0x40; 40]), Err(ModernError::Truncated));
    let content = IdContent { server: 9, slot: 1, generation: 2, sequence: 3 };
    let packet = |key| [&[0x40][..], &IdCipher::new(key).seal(content), &[0; 40]].concat();
    assert_eq!(steerer.steer(&packet(&ID_KEY)), Ok(Steering::Server(9)));
    assert_eq!(steerer.steer(&packet(&[1; 32])), Err(ModernError::UnknownFlow));
    assert_eq!(Steering::Server(9).server_of(&SERVERS), None, "its server is not there");
    assert_eq!(Steering::New(5).server_of(&[]), None);
    // Who has restarted shows its server's id in its Initial.
    let mut initial = vec![0x81; 1200];
    initial[4..20].copy_from_slice(&IdCipher::new(&ID_KEY).seal(content));
    assert_eq!(steerer.steer(&initial), Ok(Steering::Server(9)));
}

#[test]
fn new_flows_are_spread_and_a_lost_server_moves_its_own_alone() {
    let steerer = Steerer::new(&ID_KEY);
    let mut counts = [0; SERVERS.len()];
    for number in 0..3000u32 {
        let mut initial = vec![0x81; 1200];
        initial[20..24].copy_from_slice(&number.to_be_bytes());
        let steering = steerer.steer(&initial).unwrap();
        // The destination and the token of a repeated Initial may be others.
        initial[4..20].fill(number as u8);
        initial[36..].fill(7);
        assert_eq!(steerer.steer(&initial), Ok(steering));
        let server = steering.server_of(&SERVERS).unwrap();
        counts[server] += 1;
        if server < 2 {
            assert_eq!(steering.server_of(&SERVERS[..2]), Some(server), "it need not move");
        }
    }
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
}
