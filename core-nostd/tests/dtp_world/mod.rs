//! The simulated world: a client, a server, and a network between them that does its worst.

mod app;
mod scenario;

use app::App;
pub use scenario::{Kill, Scenario};

use heddle_core::dtp::modern::{
    Active, CloseReason, Config, Connect, Counter, Endpoint, Event, Flow, Identity, Memory,
    ModernError, PathAddress, Pattern, Sent, Transmit, public_key,
};
use heddle_core::node::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Complete,
    /// Everything has come but streams of which an end that died had acknowledged more than it had stored; it was told.
    Reset,
    /// An end was told why it ended.
    Ended(CloseReason),
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    pub outcome: Outcome,
    /// Processes that went on from tickets.
    pub restarts: u32,
    /// Of when which packet was sent: two runs with the same number were the same.
    pub digest: u64,
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

/// An endpoint with its memory, for as long as `then` uses it.
fn with_endpoint<T>(
    scenario: &Scenario,
    server: bool,
    process: u32,
    now: Instant,
    then: impl FnOnce(&mut Endpoint) -> T,
) -> T {
    let authorized = [public_key(&CLIENT_KEY)];
    let mut store = Store::new(8, 4, scenario.buffer);
    let (mut actives, flows, timers, budgets) = store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let role = if server {
        server_config(&authorized)
    } else {
        Config { id_key: [0x11; 32], ..Config::default() }
    };
    let config = Config {
        suites: scenario.suites | 1,
        datagram_octets: scenario.datagram,
        congestion: scenario.congestion,
        generation: process << 16,
        ..role
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&scenario.seed.to_le_bytes());
    seed[24..28].copy_from_slice(&process.to_le_bytes());
    seed[31] = u8::from(server);
    then(&mut Endpoint::new(config, memory, seed, now))
}

pub fn run(scenario: &Scenario, trace: bool) -> Result<Played, String> {
    let mut world = World::new(scenario, trace);
    let start = Instant::from_nanos(world.now);
    with_endpoint(scenario, false, 0, start, |client| {
        with_endpoint(scenario, true, 0, start, |server| {
            let connect = connect(scenario.pattern, scenario.keep_alive_s);
            let flow = client.connect(start, address(1, 4444), connect);
            world.client.flow = Some(flow.map_err(|error| format!("connect: {error:?}"))?);
            live(&mut world, client, server)
        })
    })?;
    let outcome = world.judge()?;
    Ok(Played { outcome, restarts: world.restarts, digest: world.digest })
}

/// Plays on, and puts others in the place of processes that die, until all is done.
fn live(world: &mut World, client: &mut Endpoint, server: &mut Endpoint) -> Result<(), String> {
    match world.play(client, server)? {
        Some(kill) => replace(world, &kill, client, server),
        None => Ok(()),
    }
}

/// Puts another endpoint in the place of each that is killed, and plays on.
fn replace(
    world: &mut World,
    kill: &Kill,
    client: &mut Endpoint,
    server: &mut Endpoint,
) -> Result<(), String> {
    let scenario = world.scenario;
    if kill.client {
        let rest = Kill { client: false, ..kill.clone() };
        // Without a ticket it would have to begin anew, as other runs do.
        if !world.client.disk.has_ticket(world.now) {
            return replace(world, &rest, client, server);
        }
        world.client.disk.processes += 1;
        let (process, now) = (world.client.disk.processes, world.client_now());
        return with_endpoint(scenario, false, process, now, |client| {
            world.log("the client's process is another");
            world.restarts += 1;
            world.client.restart(client, now, kill.deaths)?;
            if kill.moves {
                world.flip(client);
            }
            replace(world, &rest, client, server)
        });
    }
    if kill.server {
        let rest = Kill { server: false, ..kill.clone() };
        let (has_ticket, now) =
            (world.server.disk.has_ticket(world.now), Instant::from_nanos(world.now));
        if kill.loses_all {
            // Another process answers at its address.
            let processes = world.server.disk.processes;
            world.server = App::new(true, scenario.finishes);
            world.server.disk.processes = processes;
            world.forgotten = true;
        } else if !has_ticket {
            return replace(world, &rest, client, server);
        }
        world.server.disk.processes += 1;
        let process = world.server.disk.processes;
        return with_endpoint(scenario, true, process, now, |server| {
            world.log("the server's process is another");
            if !kill.loses_all {
                world.restarts += 1;
                world.server.restart(server, now, kill.deaths)?;
            }
            replace(world, &rest, client, server)
        });
    }
    live(world, client, server)
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
    /// The server has lost a flow that the client has.
    forgotten: bool,
    restarts: u32,
    digest: u64,
    next_ticket: u64,
    actions: Vec<(u64, Action)>,
    clock_offset: i64,
}

#[derive(Clone, Debug)]
enum Action {
    Flip,
    OutageEnds,
    Jump(i64),
    Forget,
    Kill(Kill),
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
        actions.extend(scenario.server_restarts.map(|when| (at(when), Action::Forget)));
        let kills = scenario.kills.iter();
        actions.extend(kills.map(|kill| (at(kill.at_s), Action::Kill(kill.clone()))));
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
            client: App::new(false, scenario.finishes),
            server: App::new(true, scenario.finishes),
            opened: 0,
            closing: false,
            forgotten: false,
            restarts: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            next_ticket: start,
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
        for value in [self.now, octets.len() as u64, u64::from(to_server)] {
            self.digest = (self.digest ^ value).wrapping_mul(0x0100_0000_01b3);
        }
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

    /// Plays until both are done, an end is gone, or processes die (then which).
    fn play(
        &mut self,
        client: &mut Endpoint,
        server: &mut Endpoint,
    ) -> Result<Option<Kill>, String> {
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
                (self.client.is_over, self.server.is_over) = (true, true);
                self.log("the client closes");
                client.close(self.client.flow.unwrap(), 7);
            }
            self.commit(client, server);
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
                    Action::Forget => return Ok(Some(Kill::of_all_of_the_server())),
                    // One that has closed the flow and dies would have nothing to do.
                    Action::Kill(_) if self.closing || self.client.closed.is_some() => {}
                    Action::Kill(kill) => return Ok(Some(kill)),
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

    /// Has tickets written now and then, if anybody is to die.
    fn commit(&mut self, client: &Endpoint, server: &Endpoint) {
        if self.scenario.kills.is_empty() || self.now < self.next_ticket {
            return;
        }
        let wait = self.rng.unit() * self.scenario.ticket_every_s;
        self.next_ticket = self.now + (wait * 1e9) as u64;
        // The application opens its streams before it has the first ticket written.
        if self.rng.chance(0.5) && self.opened == self.scenario.up.len() {
            self.client.commit(client, self.now, &mut self.rng);
        } else {
            self.server.commit(server, self.now, &mut self.rng);
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
            "client {:?} {}, server {:?} {}, lost {}, {:?}",
            phase(&self.client, client),
            self.client.state(),
            phase(&self.server, server),
            self.server.state(),
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
            let has_resets = self.client.has_resets() || self.server.has_resets();
            return Ok(if has_resets { Outcome::Reset } else { Outcome::Complete });
        }
        let longest = self.scenario.outages.iter().map(|outage| outage.1).fold(0.0, f64::max);
        let excused = match reason {
            CloseReason::Expired => {
                self.forgotten
                    || longest + 150.0 > f64::from(self.scenario.keep_alive_s.min(24 * 3600)) / 2.0
            }
            // A handshake takes a few tries; there was not enough network for them while the client waited.
            CloseReason::Timeout => self.forgotten || self.network_to_open() < 10.0,
            _ => false,
        };
        if excused {
            Ok(Outcome::Ended(reason))
        } else {
            Err(format!("ended by {reason:?} without need, complete: {complete}"))
        }
    }
}
