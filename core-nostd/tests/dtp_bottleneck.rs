//! One flow of DTP's `modern` suite through a bottleneck with a queue, in simulated time: what it carries, and what it sends in vain.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "most of it is the simulation's")]
mod dtp_world;

use dtp_world::{Rng, Store, address};
use heddle_core::dtp::modern::{
    Config, Congestion, Connect, Counter, Endpoint, Event, FlowId, Identity, Memory, Pattern,
};
use heddle_core::node::Instant;
use std::collections::VecDeque;

const SHARED: [u8; 32] = [9; 32];

/// Octets of an Ethernet frame around a datagram.
const AROUND: f64 = 42.0;

struct Line {
    bits_per_s: f64,
    delay_ns: u64,
    queue_ns: u64,
    loss: f64,
    /// The platforms of both ends say so often that something about their networks has changed.
    changes_ns: u64,
}

/// What became of an upload.
#[derive(Debug)]
struct Outcome {
    seconds: f64,
    /// The part of the line's capacity that the file was.
    used: f64,
    sent: u64,
    dropped: u64,
    lost: u64,
    spuriously_lost: u64,
}

fn endpoint(memory: Memory<'_>, is_server: bool, congestion: Congestion) -> Endpoint<'_> {
    let config = Config {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: if is_server { &[Pattern::PreShared] } else { &[] },
        id_key: [u8::from(is_server) + 1; 32],
        streams: u8::from(is_server),
        datagram_octets: 1452,
        congestion,
        ..Config::default()
    };
    Endpoint::new(config, memory, [u8::from(is_server); 32], Instant::from_nanos(1))
}

/// Carries `octets` up and gives what it took.
fn upload(line: &Line, congestion: Congestion, octets: usize, seed: u64) -> Outcome {
    let mut stores = [Store::new(2, 1, 4 << 20), Store::new(2, 1, 4 << 20)];
    let [client_store, server_store] = &mut stores;
    let (mut client_actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { actives: &mut client_actives, flows, timers, budgets };
    let mut client = endpoint(memory, false, congestion);
    let (mut server_actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { actives: &mut server_actives, flows, timers, budgets };
    let mut server = endpoint(memory, true, congestion);

    let mut rng = Rng(seed);
    let begin = 1_000_000_000u64;
    let mut now = begin;
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    let mut next_change = begin + line.changes_ns;
    let (mut busy_until, mut dropped, mut sent_packets) = (0u64, 0, 0);
    let identity = Identity { pre_shared: Some(SHARED), ..Identity::default() };
    let connect = Connect { pattern: Pattern::PreShared, identity, keep_alive_s: 3600 };
    let flow = client.connect(Instant::from_nanos(now), address(1, 4433), connect).unwrap();
    let (mut written, mut got) = (0, 0);
    let mut stream = None;
    let mut buffer = vec![0; 1 << 16];
    let data = vec![0x5a; 1 << 16];
    while got < octets {
        while let Some((_, event)) = client.poll() {
            match event {
                Event::Answered => stream = client.open_stream(flow).ok(),
                Event::Closed(reason) => panic!("the flow is gone: {reason:?}"),
                _ => {}
            }
        }
        if let Some(stream) = stream {
            while written < octets {
                let most = data.len().min(octets - written);
                let count = client.write(flow, stream, &data[..most]).unwrap();
                written += count;
                if count == 0 {
                    break;
                }
            }
        }
        while let Some((flow, event)) = server.poll() {
            let flow: FlowId = flow;
            if event == Event::Readable {
                while let Ok(Some(count @ 1..)) = server.read(flow, 0, &mut buffer) {
                    got += count;
                }
            }
        }
        let time = Instant::from_nanos(now);
        if now >= next_change {
            next_change = now + line.changes_ns;
            client.network_changed(time);
            server.network_changed(time);
        }
        while let Some(sent) = client.transmit(time, &mut buffer[..1500]) {
            sent_packets += 1;
            let begins = busy_until.max(now);
            if begins - now > line.queue_ns {
                dropped += 1;
                continue;
            }
            let takes = (sent.octets as f64 + AROUND) * 8e9 / line.bits_per_s;
            busy_until = begins + takes as u64;
            if rng.chance(line.loss) {
                dropped += 1;
                continue;
            }
            up.push_back((busy_until + line.delay_ns, buffer[..sent.octets].to_vec()));
        }
        while let Some(sent) = server.transmit(time, &mut buffer[..1500]) {
            if !rng.chance(line.loss) {
                down.push_back((now + line.delay_ns, buffer[..sent.octets].to_vec()));
            }
        }
        let first = |way: &VecDeque<(u64, Vec<u8>)>| way.front().map_or(u64::MAX, |(at, _)| *at);
        let due = |endpoint: &mut Endpoint| endpoint.deadline().map_or(u64::MAX, Instant::as_nanos);
        let next = first(&up).min(first(&down)).min(due(&mut client)).min(due(&mut server));
        now = next.max(now + 20_000);
        assert!(now - begin < 3_600_000_000_000, "{got} octets within an hour");
        let time = Instant::from_nanos(now);
        for (way, endpoint, from) in [(&mut up, &mut server, 2), (&mut down, &mut client, 1)] {
            while way.front().is_some_and(|(at, _)| *at <= now) {
                let (_, mut datagram) = way.pop_front().unwrap();
                let _ = endpoint.handle(time, address(from, 4433), &mut datagram, false);
            }
        }
    }
    let seconds = (now - begin) as f64 / 1e9;
    Outcome {
        seconds,
        used: octets as f64 * 8.0 / seconds / line.bits_per_s,
        sent: sent_packets,
        dropped,
        lost: client.counter(Counter::Lost),
        spuriously_lost: client.counter(Counter::SpuriouslyLost),
    }
}

#[test]
fn a_small_file_through_a_slow_line_is_sent_about_once() {
    let line = Line {
        bits_per_s: 3e6,
        delay_ns: 10_000_000,
        queue_ns: 100_000_000,
        loss: 0.0,
        changes_ns: 100_000_000,
    };
    let outcome = upload(&line, Congestion::Cubic, 770_000, 1);
    assert_eq!(outcome.spuriously_lost, 0, "{outcome:?}");
    assert_eq!(outcome.lost, outcome.dropped, "{outcome:?}");
    // Slow start ends before the queue has overflowed by a window.
    assert!(outcome.dropped * 25 < outcome.sent, "{outcome:?}");
    assert!(outcome.used > 0.89, "{outcome:?}");
    assert!(outcome.seconds < 2.4, "{outcome:?}");
}

#[test]
fn bbr_bears_one_loss_in_a_hundred() {
    let line = Line {
        bits_per_s: 1e8,
        delay_ns: 25_000_000,
        queue_ns: 100_000_000,
        loss: 0.01,
        changes_ns: u64::MAX / 2,
    };
    for seed in 1..4 {
        let outcome = upload(&line, Congestion::Bbr, 30_000_000, seed);
        println!("{outcome:?}");
        assert!(outcome.used > 0.75, "{outcome:?}");
    }
}
