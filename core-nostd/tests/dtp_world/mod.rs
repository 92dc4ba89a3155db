//! The simulated world: a client, a server, and a network between them that does its worst.

use heddle_core::dtp::modern::{
    Active, CloseReason, Config, Congestion, Connect, Counter, Endpoint, Event, Flow, FlowId,
    Identity, Memory, ModernError, PathAddress, Pattern, Sent, StreamError, Transmit, public_key,
};
use heddle_core::node::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// Octets of each stream from the client, and of each answer.
    pub up: Vec<usize>,
    pub down: Vec<usize>,
    pub pattern: Pattern,
    pub suites: u8,
    pub congestion: Congestion,
    pub datagram: u16,
    pub buffer: usize,
    pub loss: f64,
    pub duplicate: f64,
    pub corrupt: f64,
    pub reorder: f64,
    pub delay_ms: f64,
    pub rate: f64,
    /// Start and length in seconds.
    pub outages: Vec<(f64, f64)>,
    pub flips: Vec<f64>,
    pub new_address_after_outage: bool,
    /// The platform tells of changes.
    pub events: bool,
    /// When the client's clock jumps, and by how many seconds.
    pub jumps: Vec<(f64, f64)>,
    /// When the server loses all it knows.
    pub server_restarts: Option<f64>,
    pub keep_alive_s: u32,
}

impl Scenario {
    /// A good network.
    pub fn calm(seed: u64) -> Self {
        Self {
            seed,
            up: vec![100_000],
            down: vec![100_000],
            pattern: Pattern::KnownServer,
            suites: 1,
            congestion: Congestion::Cubic,
            datagram: 1200,
            buffer: 1 << 16,
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            delay_ms: 10.0,
            rate: 10e6,
            outages: vec![],
            flips: vec![],
            new_address_after_outage: false,
            events: true,
            jumps: vec![],
            server_restarts: None,
            keep_alive_s: 24 * 3600,
        }
    }

    pub fn random(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1234);
        let streams = 1 + rng.below(4) as usize;
        let size = |rng: &mut Rng| match rng.below(4) {
            0 => rng.below(100) as usize,
            1 => rng.below(20_000) as usize,
            _ => rng.below(200_000) as usize,
        };
        let hard = rng.unit();
        let mut chance = |most: f64| if rng.chance(0.5) { rng.unit() * most * hard } else { 0.0 };
        let (loss, duplicate, corrupt, reorder) =
            (chance(0.25), chance(0.2), chance(0.1), chance(0.3));
        let patterns = [
            Pattern::KnownServer,
            Pattern::KnownServerClientKey,
            Pattern::UnknownServer,
            Pattern::PreShared,
        ];
        let pattern = patterns[rng.below(4) as usize];
        let outages = (0..rng.below(3))
            .map(|_| {
                let length = match rng.below(3) {
                    0 => rng.unit(),
                    1 => rng.unit() * 60.0,
                    _ => rng.unit() * 4000.0,
                };
                (rng.unit() * 3.0, length)
            })
            .collect();
        Self {
            seed,
            up: (0..streams).map(|_| size(&mut rng)).collect(),
            down: (0..streams).map(|_| size(&mut rng)).collect(),
            pattern,
            suites: 1 + rng.below(3) as u8,
            congestion: if rng.chance(0.5) { Congestion::Cubic } else { Congestion::Bbr },
            datagram: 1200 + rng.below(300) as u16,
            buffer: 1 << (14 + rng.below(4)),
            loss,
            duplicate,
            corrupt,
            reorder,
            delay_ms: 0.1 + rng.unit() * rng.unit() * 300.0,
            rate: 1e5 * 1000f64.powf(rng.unit()),
            outages,
            flips: (0..rng.below(4)).map(|_| rng.unit() * 5.0).collect(),
            new_address_after_outage: rng.chance(0.5),
            events: rng.chance(0.5),
            jumps: (0..rng.below(2))
                .map(|_| (rng.unit() * 4.0, rng.unit() * 200.0 - 100.0))
                .collect(),
            server_restarts: rng.chance(0.06).then(|| rng.unit() * 2.0),
            keep_alive_s: if rng.chance(0.2) { 60 + rng.below(600) as u32 } else { 24 * 3600 },
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Complete,
    /// An end was told why it ended.
    Ended(CloseReason),
}

const CLIENT_KEY: [u8; 32] = [3; 32];
const SERVER_KEY: [u8; 32] = [5; 32];
const SHARED_KEY: [u8; 32] = [9; 32];
const ALL: [Pattern; 4] = [
    Pattern::KnownServer,
    Pattern::KnownServerClientKey,
    Pattern::UnknownServer,
    Pattern::PreShared,
];

pub fn address(host: u8, port: u16) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host];
    PathAddress { local: 0, port, ip }
}

/// The octet of a stream at an offset.
fn octet(stream: u32, down: bool, offset: u64) -> u8 {
    (offset.wrapping_mul(31)
        ^ (offset >> 8).wrapping_mul(7)
        ^ (u64::from(stream) * 101)
        ^ (u64::from(down) * 55)) as u8
}

/// An application: it writes what it must on each stream, reads what comes, and checks it.
struct App {
    down: bool,
    /// Written so far and in the end, by stream.
    out: BTreeMap<u32, (u64, u64, bool)>,
    /// Read so far, and whether the end has come.
    got: BTreeMap<u32, (u64, bool)>,
    flow: Option<FlowId>,
    closed: Option<CloseReason>,
}

impl App {
    fn new(down: bool) -> Self {
        Self { down, out: BTreeMap::new(), got: BTreeMap::new(), flow: None, closed: None }
    }

    fn work(
        &mut self,
        endpoint: &mut Endpoint,
        sizes: &[usize],
        rng: &mut Rng,
    ) -> Result<(), String> {
        let Some(flow) = self.flow else { return Ok(()) };
        let streams: Vec<u32> = endpoint.streams(flow).into_iter().flatten().collect();
        for stream in streams {
            let size = sizes.get(stream as usize / 2).copied().unwrap_or(0) as u64;
            self.out.entry(stream).or_insert((0, size, false));
            let known = self.got.entry(stream).or_insert((0, false));
            let mut buffer = [0; 5000];
            loop {
                let most = 1 + rng.below(5000) as usize;
                match endpoint.read(flow, stream, &mut buffer[..most]) {
                    Ok(Some(0)) | Err(StreamError::NoStream) => break,
                    Ok(None) => {
                        known.1 = true;
                        break;
                    }
                    Ok(Some(count)) => {
                        for &got in &buffer[..count] {
                            if got != octet(stream, !self.down, known.0) {
                                return Err(format!(
                                    "a wrong octet at {} of stream {stream}",
                                    known.0
                                ));
                            }
                            known.0 += 1;
                        }
                    }
                    Err(StreamError::NoFlow) => break,
                    Err(error) => return Err(format!("read: {error:?}")),
                }
            }
        }
        for (&stream, (written, size, finished)) in &mut self.out {
            while written < size {
                let count = (*size - *written).min(1 + rng.below(9000)) as usize;
                let octets: Vec<u8> =
                    (0..count as u64).map(|i| octet(stream, self.down, *written + i)).collect();
                match endpoint.write(flow, stream, &octets) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => *written += count as u64,
                }
            }
            if written == size && !*finished && endpoint.finish(flow, stream).is_ok() {
                *finished = true;
            }
        }
        Ok(())
    }

    fn got_all(&self, sizes: &[usize]) -> bool {
        sizes
            .iter()
            .enumerate()
            .all(|(index, &size)| self.got.get(&(index as u32 * 2)) == Some(&(size as u64, true)))
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: u64,
    order: u64,
    to_server: bool,
    from: (u8, u16),
    to: (u8, u16),
    octets: Vec<u8>,
}

/// The memory of an endpoint.
pub struct Store {
    pub flows: Vec<Flow>,
    pub timers: Vec<u32>,
    pub budgets: Vec<u16>,
    send: Vec<Vec<u8>>,
    receive: Vec<Vec<u8>>,
    sent: Vec<Vec<Sent>>,
}

impl Store {
    pub fn new(flows: usize, actives: usize, buffer: usize) -> Self {
        Self {
            flows: (0..flows).map(|_| Flow::new()).collect(),
            timers: vec![0; flows],
            budgets: vec![0; 1024],
            send: vec![vec![0; buffer]; actives],
            receive: vec![vec![0; buffer]; actives],
            sent: vec![vec![Sent::default(); (buffer / 200).max(64)]; actives],
        }
    }

    pub fn actives(&mut self) -> (Vec<Active<'_>>, &mut [Flow], &mut [u32], &mut [u16]) {
        let parts = self.send.iter_mut().zip(&mut self.receive).zip(&mut self.sent);
        let actives =
            parts.map(|((send, receive), sent)| Active::new(send, receive, sent)).collect();
        (actives, &mut self.flows, &mut self.timers, &mut self.budgets)
    }
}

pub fn server_config<'a>(authorized: &'a [[u8; 32]]) -> Config<'a> {
    Config {
        identity: Identity {
            private: Some(SERVER_KEY),
            server: None,
            pre_shared: Some(SHARED_KEY),
        },
        patterns: &ALL,
        authorized,
        id_key: [0x51; 32],
        streams: 4,
        ..Config::default()
    }
}

pub fn connect(pattern: Pattern, keep_alive_s: u32) -> Connect {
    let identity = Identity {
        private: Some(CLIENT_KEY),
        server: Some(public_key(&SERVER_KEY)),
        pre_shared: Some(SHARED_KEY),
    };
    Connect { pattern, identity, keep_alive_s }
}

pub fn run(scenario: &Scenario, trace: bool) -> Result<Outcome, String> {
    let authorized = [public_key(&CLIENT_KEY)];
    let mut stores = [0; 2].map(|_| Store::new(8, 4, scenario.buffer));
    let [client_store, server_store] = &mut stores;
    let (mut client_actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { flows, timers, actives: &mut client_actives, budgets };
    let config = Config {
        suites: scenario.suites | 1,
        id_key: [0x11; 32],
        datagram_octets: scenario.datagram,
        congestion: scenario.congestion,
        ..Config::default()
    };
    let start = 1_000_000_000_000u64;
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&scenario.seed.to_le_bytes());
    let mut client = Endpoint::new(config, memory, seed, Instant::from_nanos(start));
    let (mut server_actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { flows, timers, actives: &mut server_actives, budgets };
    let config = Config {
        suites: scenario.suites | 1,
        datagram_octets: scenario.datagram,
        congestion: scenario.congestion,
        ..server_config(&authorized)
    };
    seed[31] = 1;
    let mut server = Endpoint::new(config.clone(), memory, seed, Instant::from_nanos(start));
    let mut world = World::new(scenario, trace);
    let flow = client
        .connect(
            Instant::from_nanos(start),
            address(1, 4444),
            connect(scenario.pattern, scenario.keep_alive_s),
        )
        .map_err(|error| format!("connect: {error:?}"))?;
    world.client.flow = Some(flow);
    let outcome = world.play(&mut client, &mut server)?;
    if let Some(restart) = outcome {
        // The server's memory is gone; another process answers at its address.
        drop(server);
        let mut store = Store::new(8, 4, scenario.buffer);
        let (mut actives, flows, timers, budgets) = store.actives();
        let memory = Memory { flows, timers, actives: &mut actives, budgets };
        seed[31] = 2;
        let mut server = Endpoint::new(config, memory, seed, Instant::from_nanos(restart));
        world.server = App::new(true);
        world.restarted = true;
        world.play(&mut client, &mut server)?;
    }
    world.judge()
}

struct World<'s> {
    scenario: &'s Scenario,
    trace: bool,
    rng: Rng,
    now: u64,
    start: u64,
    order: u64,
    queue: BinaryHeap<Reverse<Packet>>,
    busy_until: [u64; 2],
    host: u8,
    client: App,
    server: App,
    opened: usize,
    closing: bool,
    restarted: bool,
    actions: Vec<(u64, Action)>,
    clock_offset: i64,
}

#[derive(Copy, Clone, Debug)]
enum Action {
    Flip,
    OutageEnds,
    Jump(i64),
    Restart,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario, trace: bool) -> Self {
        let start = 1_000_000_000_000u64;
        let at = |seconds: f64| start + (seconds * 1e9) as u64;
        let mut actions: Vec<(u64, Action)> = Vec::new();
        actions.extend(scenario.flips.iter().map(|&when| (at(when), Action::Flip)));
        actions.extend(
            scenario
                .outages
                .iter()
                .map(|&(from, length)| (at(from + length) + 1_000, Action::OutageEnds)),
        );
        actions.extend(
            scenario.jumps.iter().map(|&(when, by)| (at(when), Action::Jump((by * 1e9) as i64))),
        );
        actions.extend(scenario.server_restarts.map(|when| (at(when), Action::Restart)));
        actions.sort_by_key(|action| Reverse(action.0));
        Self {
            scenario,
            trace,
            rng: Rng(scenario.seed ^ 0xabcdef),
            now: start,
            start,
            order: 0,
            queue: BinaryHeap::new(),
            busy_until: [start; 2],
            host: 2,
            client: App::new(false),
            server: App::new(true),
            opened: 0,
            closing: false,
            restarted: false,
            actions,
            clock_offset: 0,
        }
    }

    fn is_out(&self, at: u64) -> bool {
        let at = (at - self.start) as f64 / 1e9;
        self.scenario.outages.iter().any(|&(from, length)| at >= from && at < from + length)
    }

    fn log(&self, what: &str) {
        if self.trace {
            println!("{:12.6} {what}", (self.now - self.start) as f64 / 1e9);
        }
    }

    fn client_now(&self) -> Instant {
        Instant::from_nanos((self.now as i64 + self.clock_offset) as u64)
    }

    fn send(&mut self, to_server: bool, sent: Transmit, octets: &[u8]) {
        let (from, to) = if to_server {
            ((self.host, 1000), (1, 4444))
        } else {
            ((1, 4444), (sent.path.ip[15], sent.path.port))
        };
        let lost = self.rng.chance(self.scenario.loss) || self.is_out(self.now);
        let place = usize::from(to_server);
        self.busy_until[place] = self.busy_until[place].max(self.now)
            + (octets.len() as f64 / self.scenario.rate * 1e9) as u64;
        // A queue of 200 ms at most.
        let queued = self.busy_until[place] - self.now;
        if lost || queued > 200_000_000 {
            self.busy_until[place] -= (octets.len() as f64 / self.scenario.rate * 1e9) as u64;
            self.log(&format!(
                "{} {} octets lost",
                if to_server { "->" } else { "<-" },
                octets.len()
            ));
            return;
        }
        self.log(&format!(
            "{} {} octets to {to:?}",
            if to_server { "->" } else { "<-" },
            octets.len()
        ));
        let copies = 1 + u64::from(self.rng.chance(self.scenario.duplicate));
        for _ in 0..copies {
            let mut octets = octets.to_vec();
            if self.rng.chance(self.scenario.corrupt) {
                let at = self.rng.below(octets.len() as u64) as usize;
                octets[at] ^= 1 << self.rng.below(8);
                if self.rng.chance(0.2) {
                    octets.truncate(at);
                }
            }
            let mut at = self.busy_until[place] + (self.scenario.delay_ms * 1e6) as u64;
            if self.rng.chance(self.scenario.reorder) {
                at += (self.rng.unit() * 2.0 * self.scenario.delay_ms * 1e6) as u64;
            }
            self.order += 1;
            self.queue.push(Reverse(Packet { at, order: self.order, to_server, from, to, octets }));
        }
    }

    /// Plays until both are done, an end is gone, or the server restarts (then the moment).
    fn play(
        &mut self,
        client: &mut Endpoint,
        server: &mut Endpoint,
    ) -> Result<Option<u64>, String> {
        let scenario = self.scenario;
        let mut steps = 0u64;
        loop {
            steps += 1;
            if steps > 3_000_000 {
                return Err(format!(
                    "no end after {steps} steps, {} s",
                    (self.now - self.start) / 1_000_000_000
                ));
            }
            self.events(client, server)?;
            if self.client.flow.is_some() && self.client.closed.is_none() {
                self.open_streams(client);
            }
            self.client.work(client, &scenario.up, &mut self.rng)?;
            self.server.work(server, &scenario.down, &mut self.rng)?;
            if !self.closing
                && self.client.got_all(&scenario.down)
                && self.server.got_all(&scenario.up)
            {
                self.closing = true;
                self.log("the client closes");
                client.close(self.client.flow.unwrap(), 7);
            }
            let mut buffer = [0; 2000];
            let mut sent = 0;
            while let Some(transmit) = client.transmit(self.client_now(), &mut buffer) {
                self.send(true, transmit, &buffer[..transmit.octets]);
                sent += 1;
                if sent > 10_000 {
                    return Err("the client sends without end".into());
                }
            }
            while let Some(transmit) = server.transmit(Instant::from_nanos(self.now), &mut buffer) {
                self.send(false, transmit, &buffer[..transmit.octets]);
                sent += 1;
                if sent > 10_000 {
                    return Err("the server sends without end".into());
                }
            }
            if steps.is_multiple_of(64) && !(client.books_agree() && server.books_agree()) {
                return Err("the octets on their way are miscounted".into());
            }
            self.events(client, server)?;
            let done = |app: &App| app.closed.is_some() || app.flow.is_none();
            if self.client.closed.is_some() && done(&self.server) {
                return Ok(None);
            }
            let client_due = client
                .deadline()
                .map(|due| (due.as_nanos() as i64 - self.clock_offset).max(0) as u64);
            let server_due = server.deadline().map(Instant::as_nanos);
            let packet_due = self.queue.peek().map(|Reverse(packet)| packet.at);
            let action_due = self.actions.last().map(|action| action.0);
            let Some(next) =
                [client_due, server_due, packet_due, action_due].into_iter().flatten().min()
            else {
                return Err(format!(
                    "nothing will ever happen again: {}",
                    self.state(client, server)
                ));
            };
            self.now = self.now.max(next);
            if self.now - self.start > 200_000_000_000_000 {
                return Err(format!(
                    "no end after {} s: {}",
                    (self.now - self.start) / 1_000_000_000,
                    self.state(client, server)
                ));
            }
            while self.actions.last().is_some_and(|action| action.0 <= self.now) {
                let (_, action) = self.actions.pop().unwrap();
                self.log(&format!("{action:?}"));
                match action {
                    Action::Restart => return Ok(Some(self.now)),
                    Action::Jump(by) => self.clock_offset += by,
                    Action::Flip => self.flip(client),
                    Action::OutageEnds => {
                        if scenario.new_address_after_outage {
                            self.flip(client);
                        } else if scenario.events {
                            client.set_interface(self.client_now(), false);
                            client.set_interface(self.client_now(), true);
                        }
                    }
                }
            }
            while self.queue.peek().is_some_and(|Reverse(packet)| packet.at <= self.now) {
                let Reverse(mut packet) = self.queue.pop().unwrap();
                if self.is_out(packet.at) {
                    continue;
                }
                if packet.to_server {
                    let from = address(packet.from.0, packet.from.1);
                    let result = server.handle(
                        Instant::from_nanos(self.now),
                        from,
                        &mut packet.octets,
                        false,
                    );
                    self.log(&format!("server: {result:?}"));
                } else if packet.to == (self.host, 1000) {
                    let from = address(packet.from.0, packet.from.1);
                    let result = client.handle(self.client_now(), from, &mut packet.octets, false);
                    self.log(&format!("client: {result:?}"));
                }
            }
        }
    }

    fn flip(&mut self, client: &mut Endpoint) {
        self.host = if self.host == 250 { 2 } else { self.host + 1 };
        if self.scenario.events {
            client.network_changed(self.client_now());
        }
    }

    fn open_streams(&mut self, client: &mut Endpoint) {
        let flow = self.client.flow.unwrap();
        while self.opened < self.scenario.up.len() {
            match client.open_stream(flow) {
                Ok(_) => self.opened += 1,
                Err(_) => return,
            }
        }
    }

    fn events(&mut self, client: &mut Endpoint, server: &mut Endpoint) -> Result<(), String> {
        while let Some((flow, event)) = client.poll() {
            self.log(&format!("client: {event:?}"));
            match event {
                Event::ServerKey(key) => {
                    if key != public_key(&SERVER_KEY) {
                        return Err("another server's key".into());
                    }
                    client.trust(flow).map_err(|error| format!("trust: {error:?}"))?;
                }
                Event::Closed(reason) => {
                    self.client.work(client, &self.scenario.up, &mut self.rng)?;
                    self.client.closed = Some(reason);
                    client.forget(flow);
                }
                _ => {}
            }
        }
        while let Some((flow, event)) = server.poll() {
            self.log(&format!("server: {event:?}"));
            match event {
                // Only the first flow is played; a handshake that came twice may have made another, which expires.
                Event::Incoming if self.server.flow.is_none() => self.server.flow = Some(flow),
                Event::Closed(reason) if self.server.flow == Some(flow) => {
                    self.server.work(server, &self.scenario.down, &mut self.rng)?;
                    self.server.closed = Some(reason);
                    server.forget(flow);
                }
                Event::Closed(_) => server.forget(flow),
                _ => {}
            }
        }
        Ok(())
    }

    fn state(&self, client: &Endpoint, server: &Endpoint) -> String {
        let phase = |app: &App, endpoint: &Endpoint| app.flow.and_then(|flow| endpoint.phase(flow));
        format!(
            "client {:?} {:?} {:?}, server {:?} {:?} {:?}, lost {}, {:?}",
            phase(&self.client, client),
            self.client.got,
            self.client.out,
            phase(&self.server, server),
            self.server.got,
            self.server.out,
            client.counter(Counter::Lost),
            ModernError::ALL
                .iter()
                .map(|&e| (e.name(), client.drops(e), server.drops(e)))
                .filter(|d| d.1 + d.2 > 0)
                .collect::<Vec<_>>(),
        )
    }

    /// Seconds with a network among those that the client waits for the server's first word, by a clock that may jump.
    fn network_to_open(&self) -> f64 {
        let forward: f64 = self.scenario.jumps.iter().map(|jump| jump.1.max(0.0)).sum();
        let tenths = ((30.0 - forward).max(0.0) * 10.0) as u64;
        let there = (0..tenths).filter(|tenth| !self.is_out(self.start + tenth * 100_000_000));
        there.count() as f64 / 10.0
    }

    fn judge(&self) -> Result<Outcome, String> {
        let complete = self.client.got_all(&self.scenario.down) && self.closing;
        let reason = self.client.closed.ok_or("the client was told nothing")?;
        if complete && matches!(reason, CloseReason::Local | CloseReason::Expired) {
            return Ok(Outcome::Complete);
        }
        let longest = self.scenario.outages.iter().map(|outage| outage.1).fold(0.0, f64::max);
        let excused = match reason {
            CloseReason::Expired => {
                self.restarted
                    || longest + 150.0 > f64::from(self.scenario.keep_alive_s.min(24 * 3600)) / 2.0
            }
            // A handshake takes a few tries; there was not enough network for them while the client waited.
            CloseReason::Timeout => self.restarted || self.network_to_open() < 10.0,
            _ => false,
        };
        if excused {
            Ok(Outcome::Ended(reason))
        } else {
            Err(format!("ended by {reason:?} without need, complete: {complete}"))
        }
    }
}
