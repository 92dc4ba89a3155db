//! Ten thousand flows of DTP's `modern` suite over one server, all through one bottleneck, in simulated time: each gets its share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{
    Active, Config, Connect, Endpoint, Event, Flow, FlowId, Identity, Memory, PathAddress, Pattern,
    Sent,
};
use heddle_core::node::Instant;
use std::collections::VecDeque;

const FLOWS: usize = 10_000;
/// Places of the table: in one that is nearly full those that sleep would have to go.
const PLACES: usize = FLOWS + FLOWS / 8;

const SHARED: [u8; 32] = [9; 32];

/// Handshakes that go on at the same time: so few that the server asks for no token.
const OPENING: usize = 8;

/// Of the bottleneck: 10 Gbit/s, or five packets of each flow in a round trip without a queue; the queue holds as much again.
const NANOSECONDS_OF_OCTET: f64 = 0.8;
const DELAY_NS: u64 = 25_000_000;
const QUEUE_NS: u64 = 50_000_000;

/// How long it is looked at, and how long flows may settle before.
const SETTLING_NS: u64 = 500_000_000;
const MEASURED_NS: u64 = 1_000_000_000;

/// What a flow's buffers hold: some times its share, so that it is the network and not the window that limits it.
const BUFFER: usize = 32 << 10;

fn address(host: u8) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host];
    PathAddress { local: 0, port: 4433, ip }
}

fn endpoint(is_server: bool) -> Endpoint<'static> {
    let (send, receive) = if is_server { (BUFFER, 64) } else { (64, BUFFER) };
    let actives: Vec<Active> = (0..FLOWS)
        .map(|_| {
            let sent = vec![Sent::default(); 128];
            Active::new(vec![0; send].leak(), vec![0; receive].leak(), sent.leak())
        })
        .collect();
    let memory = Memory {
        flows: (0..PLACES).map(|_| Flow::new()).collect::<Vec<_>>().leak(),
        timers: vec![0; PLACES].leak(),
        actives: actives.leak(),
        budgets: vec![0; 64].leak(),
    };
    let config = Config {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: if is_server { &[Pattern::PreShared] } else { &[] },
        id_key: [u8::from(is_server) + 1; 32],
        streams: u8::from(!is_server),
        ..Config::default()
    };
    Endpoint::new(config, memory, [u8::from(is_server); 32], Instant::from_nanos(1))
}

/// Datagrams on their way, by when they come.
type Way = VecDeque<(u64, Vec<u8>)>;

struct World {
    client: Endpoint<'static>,
    server: Endpoint<'static>,
    up: Way,
    down: Way,
    /// Until when the bottleneck is busy with what is in its queue.
    busy_until: u64,
    now: u64,
    /// The server's flows that have something to send.
    sources: Vec<FlowId>,
    opened: usize,
    /// Octets that came, by the flow's place.
    got: Vec<u64>,
    drops: u64,
}

impl World {
    fn new() -> Self {
        Self {
            client: endpoint(false),
            server: endpoint(true),
            up: Way::new(),
            down: Way::new(),
            busy_until: 0,
            now: 1_000_000_000,
            sources: Vec::new(),
            opened: 0,
            got: vec![0; FLOWS],
            drops: 0,
        }
    }

    fn apps(&mut self) {
        let mut buffer = [0; BUFFER];
        while let Some((flow, event)) = self.client.poll() {
            match event {
                Event::Connected => self.opened += 1,
                Event::Readable => {
                    while let Ok(Some(count @ 1..)) = self.client.read(flow, 1, &mut buffer) {
                        self.got[flow.slot() as usize] += count as u64;
                    }
                }
                Event::Closed(reason) => panic!("a flow is gone: {reason:?}"),
                _ => {}
            }
        }
        while let Some((flow, event)) = self.server.poll() {
            match event {
                Event::Incoming => self.sources.push(flow),
                Event::Writable => self.fill(flow),
                Event::Closed(reason) => panic!("a flow is gone: {reason:?}"),
                _ => {}
            }
        }
    }

    fn fill(&mut self, flow: FlowId) {
        // More than there is ever room for, so that the end of that is told.
        let octets = [0x5a; BUFFER + 1];
        self.server.write(flow, 1, &octets).unwrap();
    }

    /// Sends what there is to send, and goes on to the next thing that happens, or to `until`.
    fn step(&mut self, until: u64) {
        self.apps();
        let now = Instant::from_nanos(self.now);
        let mut buffer = [0; 1500];
        while let Some(sent) = self.client.transmit(now, &mut buffer) {
            self.up.push_back((self.now + DELAY_NS, buffer[..sent.octets].to_vec()));
        }
        while let Some(sent) = self.server.transmit(now, &mut buffer) {
            let begins = self.busy_until.max(self.now);
            if begins - self.now > QUEUE_NS {
                self.drops += 1;
                continue;
            }
            self.busy_until = begins + (sent.octets as f64 * NANOSECONDS_OF_OCTET) as u64;
            self.down.push_back((self.busy_until + DELAY_NS, buffer[..sent.octets].to_vec()));
        }
        let due = |endpoint: &mut Endpoint| endpoint.deadline().map_or(until, Instant::as_nanos);
        let first = |way: &Way| way.front().map_or(until, |(at, _)| *at);
        let next = due(&mut self.client).min(due(&mut self.server));
        let next = next.min(first(&self.up)).min(first(&self.down)).min(until);
        // In steps of 20 microseconds: what comes within one is looked at together.
        self.now = next.max(self.now + 20_000);
        let now = Instant::from_nanos(self.now);
        for (way, endpoint, from) in
            [(&mut self.up, &mut self.server, 2), (&mut self.down, &mut self.client, 1)]
        {
            while way.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, mut datagram) = way.pop_front().unwrap();
                endpoint.handle(now, address(from), &mut datagram, false).unwrap();
            }
        }
    }

    fn open_all(&mut self) {
        let identity = Identity { pre_shared: Some(SHARED), ..Identity::default() };
        let connect = Connect { pattern: Pattern::PreShared, identity, keep_alive_s: 3600 };
        let mut begun = 0;
        while self.opened < FLOWS || self.sources.len() < FLOWS {
            while begun < FLOWS && begun - self.opened.min(self.sources.len()) < OPENING {
                let now = Instant::from_nanos(self.now);
                self.client.connect(now, address(1), connect.clone()).unwrap();
                begun += 1;
            }
            self.step(u64::MAX);
        }
    }

    fn run(&mut self, nanoseconds: u64) {
        let end = self.now + nanoseconds;
        while self.now < end {
            self.step(end);
        }
    }
}

/// Jain's index: 1 when all have the same, 1/n when one has all.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn ten_thousand_flows_share_a_bottleneck() {
    let mut world = World::new();
    world.open_all();
    for flow in world.sources.clone() {
        assert_eq!(world.server.open_stream(flow), Ok(1));
        world.fill(flow);
    }
    world.run(SETTLING_NS);
    let before = std::mem::take(&mut world.got);
    world.got = before.clone();
    world.run(MEASURED_NS);
    let shares: Vec<f64> =
        world.got.iter().zip(&before).map(|(after, before)| (after - before) as f64).collect();
    let total: f64 = shares.iter().sum();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let (index, mean) = (jain(&shares), total / FLOWS as f64);
    let use_of_link = total * NANOSECONDS_OF_OCTET / MEASURED_NS as f64;
    println!(
        "Jain index {index:.4}, mean {mean:.0} octets, least {least:.0}, {:.1} % of the bottleneck, {} drops",
        use_of_link * 100.0,
        world.drops,
    );
    assert!(index >= 0.95, "Jain index {index}");
    assert!(least >= mean / 10.0, "a flow starves: {least} octets where the mean is {mean}");
    assert!(use_of_link >= 0.8, "the bottleneck is used: {use_of_link}");
}
