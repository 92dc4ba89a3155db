//! Flows of DTP's `modern` suite whose ends are killed at any moment and go on from their tickets, in simulated time.
//!
//! A disk keeps what was synced and no more. Every run comes from a seed, which a failure names; `DTP_SEEDS` sets how many are run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{
    Active, CloseReason, Config, Connect, Counter, Endpoint, Event, Flow, FlowId, Identity, Memory,
    ModernError, PathAddress, Pattern, Phase, Sent, StreamError, TICKET_OCTETS, Ticket,
};
use heddle_core::node::Instant;

const SHARED: [u8; 32] = [9; 32];
const STREAM: u32 = 0;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn address(host: u8, port: u16) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host];
    PathAddress { local: 0, port, ip }
}

/// The octet that an end sends at an offset.
fn octet(from_server: bool, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8).wrapping_mul(7) ^ (u64::from(from_server) * 55)) as u8
}

fn leak<T>(items: Vec<T>) -> &'static mut [T] {
    items.leak()
}

/// What outlives a process.
#[derive(Clone, Default)]
struct Disk {
    ticket: Option<[u8; TICKET_OCTETS]>,
    /// Octets received that were synced.
    stored: u64,
    boots: u32,
}

struct End {
    is_server: bool,
    endpoint: Endpoint<'static>,
    flow: Option<FlowId>,
    address: PathAddress,
    /// Octets that the application gives, has given, and has read.
    size: u64,
    written: u64,
    read: u64,
    buffer: usize,
    disk: Disk,
    /// The highest packet number that any process of this end has used.
    numbers: Option<u64>,
    /// Octets of streams that had to be given again.
    again: u64,
    failed: Option<String>,
    closed: Option<CloseReason>,
}

fn endpoint(is_server: bool, buffer: usize, boots: u32, now: u64) -> Endpoint<'static> {
    let active = || {
        Active::new(
            leak(vec![0; buffer]),
            leak(vec![0; buffer]),
            leak(vec![Sent::default(); buffer / 200 + 64]),
        )
    };
    let memory = Memory {
        flows: leak((0..4).map(|_| Flow::new()).collect()),
        timers: leak(vec![0; 4]),
        actives: leak((0..2).map(|_| active()).collect()),
        budgets: leak(vec![0; 64]),
    };
    let mut seed = [u8::from(is_server); 32];
    seed[..4].copy_from_slice(&boots.to_be_bytes());
    let config = Config {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: if is_server { &[Pattern::PreShared] } else { &[] },
        id_key: [u8::from(is_server) + 1; 32],
        streams: u8::from(is_server),
        generation: boots << 16,
        ..Config::default()
    };
    Endpoint::new(config, memory, seed, Instant::from_nanos(now))
}

impl End {
    fn new(is_server: bool, size: u64, buffer: usize, now: u64) -> Self {
        Self {
            is_server,
            endpoint: endpoint(is_server, buffer, 0, now),
            flow: None,
            address: address(if is_server { 1 } else { 2 }, 4433),
            size,
            written: 0,
            read: 0,
            buffer,
            disk: Disk::default(),
            numbers: None,
            again: 0,
            failed: None,
            closed: None,
        }
    }

    /// Syncs what was read, then writes a ticket that says so.
    fn commit(&mut self) {
        let Some(ticket) = self.flow.and_then(|flow| self.endpoint.ticket(flow)) else { return };
        self.disk.stored = self.read;
        self.disk.ticket = Some(ticket.to_octets());
    }

    /// The process is gone and another begins. `deaths` of it die between the write of the ticket and its use.
    fn restart(&mut self, now: u64, deaths: u32) {
        self.disk.boots += 1;
        self.endpoint = endpoint(self.is_server, self.buffer, self.disk.boots, now);
        let Some(octets) = self.disk.ticket else {
            self.flow = None;
            return;
        };
        let mut ticket = Ticket::from_octets(&octets).unwrap();
        let restore = |end: &mut Self, ticket: &Ticket| {
            end.endpoint.restore(Instant::from_nanos(now), ticket)
        };
        assert!(octets[1] & 4 != 0 || restore(self, &ticket) == Err(ModernError::Sequence));
        for _ in 0..=deaths {
            ticket = ticket.count_up().unwrap();
            self.disk.ticket = Some(ticket.to_octets());
        }
        self.flow = Some(restore(self, &ticket).unwrap());
        assert_eq!(restore(self, &ticket), Err(ModernError::TableFull), "a place holds one flow");
        // What was stored beyond the ticket comes again.
        self.read = ticket.delivered(STREAM).unwrap_or(0);
        assert!(self.read <= self.disk.stored);
        self.written = u64::MAX;
    }

    fn work(&mut self, rng: &mut Rng) {
        while let Some((flow, event)) = self.endpoint.poll() {
            match event {
                Event::Incoming => {
                    assert!(self.flow.is_none() || self.flow == Some(flow), "one flow");
                    self.flow = Some(flow);
                }
                Event::Connected => {
                    self.endpoint.open_stream(flow).unwrap();
                    self.commit();
                }
                // A server that does not know where its client is waits until it hears of it.
                Event::Moved => self.commit(),
                Event::Closed(reason) => {
                    self.closed = Some(reason);
                    self.endpoint.forget(flow);
                }
                _ => {}
            }
        }
        let Some(flow) = self.flow else { return };
        if let Some(offset) = self.endpoint.resume_offset(flow, STREAM) {
            self.again += self.written.min(self.size).saturating_sub(offset);
            self.written = offset;
        }
        while self.written < self.size {
            let count = (self.size - self.written).min(1 + rng.below(5000));
            let octets: Vec<u8> =
                (0..count).map(|i| octet(self.is_server, self.written + i)).collect();
            match self.endpoint.write(flow, STREAM, &octets) {
                Ok(0) | Err(StreamError::Busy | StreamError::NoStream) => break,
                Ok(count) => self.written += count as u64,
                // It opens still, or is closed.
                Err(StreamError::NoFlow) => break,
                Err(error) => panic!("write: {error:?}"),
            }
        }
        let mut buffer = [0; 3000];
        loop {
            match self.endpoint.read(flow, STREAM, &mut buffer) {
                Ok(Some(0) | None) | Err(StreamError::NoStream) => break,
                Ok(Some(count)) => {
                    for &got in &buffer[..count] {
                        if got != octet(!self.is_server, self.read) {
                            self.failed.get_or_insert(format!("a wrong octet at {}", self.read));
                        }
                        self.read += 1;
                    }
                }
                // It opens still, or is closed.
                Err(StreamError::NoFlow) => break,
                other => panic!("read: {other:?}"),
            }
        }
    }

    /// Checks that the numbers of packets only go up, whichever process sends them.
    fn check_numbers(&mut self) {
        let Some(next) = self.flow.and_then(|flow| self.endpoint.next_number(flow)) else { return };
        if self.numbers.is_some_and(|highest| next < highest) {
            self.failed.get_or_insert(format!("number {next} after {:?}", self.numbers));
        }
        self.numbers = Some(next);
    }
}

struct World {
    ends: [End; 2],
    now: u64,
    rng: Rng,
    loss: u64,
    /// Something is planned for then.
    next_kill: u64,
    packets: Vec<(u64, usize, PathAddress, Vec<u8>)>,
}

impl World {
    fn new(seed: u64, sizes: [u64; 2], buffer: usize, loss: u64) -> Self {
        let now = 1_000_000_000_000;
        let client = End::new(false, sizes[0], buffer, now);
        let server = End::new(true, sizes[1], buffer, now);
        let mut world = Self {
            ends: [client, server],
            now,
            rng: Rng(seed),
            loss,
            next_kill: u64::MAX,
            packets: vec![],
        };
        let identity = Identity { pre_shared: Some(SHARED), ..Identity::default() };
        let connect = Connect { pattern: Pattern::PreShared, identity, keep_alive_s: 24 * 3600 };
        let to = world.ends[1].address;
        let flow = world.ends[0].endpoint.connect(Instant::from_nanos(now), to, connect).unwrap();
        world.ends[0].flow = Some(flow);
        world
    }

    /// Lets things happen until `done` says so or the time is over; gives whether it did.
    fn run(&mut self, most_s: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + most_s * 1_000_000_000;
        while self.now < end {
            for place in 0..2 {
                let from = self.ends[place].address;
                self.ends[place].work(&mut self.rng);
                let mut out = [0; 1500];
                let now = Instant::from_nanos(self.now);
                while let Some(sent) = self.ends[place].endpoint.transmit(now, &mut out) {
                    self.ends[place].check_numbers();
                    if self.rng.chance(self.loss) || sent.path != self.ends[1 - place].address {
                        continue;
                    }
                    let at = self.now + 5_000_000 + self.rng.below(3_000_000);
                    let copies = 1 + u64::from(self.rng.chance(self.loss / 2));
                    for _ in 0..copies {
                        self.packets.push((at, 1 - place, from, out[..sent.octets].to_vec()));
                    }
                }
                assert!(self.ends[place].endpoint.books_agree());
            }
            if done(self) {
                return true;
            }
            let due = self.ends.iter_mut().filter_map(|end| end.endpoint.deadline());
            let due = due.map(Instant::as_nanos).min().unwrap_or(u64::MAX);
            let packet = self.packets.iter().map(|packet| packet.0).min().unwrap_or(u64::MAX);
            self.now = self.now.max(due.min(packet).min(self.next_kill)).min(end);
            let now = self.now;
            let due: Vec<_> = self.packets.extract_if(.., |packet| packet.0 <= now).collect();
            for (_, to, from, mut datagram) in due {
                let now = Instant::from_nanos(now);
                let _ = self.ends[to].endpoint.handle(now, from, &mut datagram, false);
            }
        }
        self.ends.iter_mut().for_each(|end| end.work(&mut self.rng));
        done(self)
    }

    fn all_read(&self) -> bool {
        let [client, server] = &self.ends;
        client.read == server.size && server.read == client.size
    }

    fn check(&self, seed: u64) {
        for end in &self.ends {
            assert_eq!(end.failed, None, "seed {seed}");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn ends_that_are_killed_at_any_moment_lose_nothing() {
    let first = number("DTP_FIRST").unwrap_or(0);
    let (mut restarts, mut again) = (0, 0);
    for seed in first..first + number("DTP_SEEDS").unwrap_or(60) {
        let mut rng = Rng(seed ^ 0x77);
        let sizes = [rng.below(400_000), rng.below(400_000)];
        let buffer = 4096 << rng.below(5);
        let mut world = World::new(seed, sizes, buffer, [0, 5, 20][rng.below(3) as usize]);
        let connected = world.run(60, |world| world.ends.iter().all(|end| end.flow.is_some()));
        assert!(connected, "seed {seed}");
        world.ends[1].commit();
        assert!(
            world.run(60, |world| world.ends[0].disk.ticket.is_some()),
            "the client has a ticket"
        );
        let mut kills = 2 + rng.below(6);
        world.next_kill = world.now + rng.below(400) * 1_000_000;
        let finished = world.run(60_000, |world| {
            for end in &mut world.ends {
                // Old tickets are right as well; they only cost more.
                if rng.chance(3) {
                    end.commit();
                }
            }
            if kills > 0 && world.now >= world.next_kill {
                kills -= 1;
                let wait = rng.below(3000) * 1_000_000;
                world.next_kill = if kills == 0 { u64::MAX } else { world.now + wait };
                let now = world.now;
                let which = rng.below(3);
                for place in 0..2 {
                    if which == place || which == 2 {
                        restarts += 1;
                        let deaths = u32::from(rng.chance(20));
                        world.ends[place as usize].restart(now, deaths);
                        if place == 0 && rng.chance(50) {
                            // The client has another port, as a new process has.
                            world.ends[0].address.port += 1;
                        }
                    }
                }
                if rng.chance(30) {
                    world.packets.clear();
                }
            }
            kills == 0 && world.all_read() && world.ends.iter().all(|end| end.written == end.size)
        });
        let states: Vec<_> = world
            .ends
            .iter()
            .map(|end| {
                (
                    end.flow.and_then(|flow| end.endpoint.phase(flow)),
                    end.read,
                    end.written,
                    end.closed,
                )
            })
            .collect();
        world.check(seed);
        assert!(finished, "seed {seed}: {states:?} of {sizes:?}");
        again += world.ends.iter().map(|end| end.again).sum::<u64>();
        let flow = world.ends[0].flow.unwrap();
        world.ends[0].endpoint.close(flow, 7);
        world.run(100, |world| world.ends.iter().all(|end| end.closed.is_some()));
        world.check(seed);
        let [client, server] = &world.ends;
        assert!(client.closed == Some(CloseReason::Local) && world.all_read(), "seed {seed}");
        // Each of the few repetitions of the news may be lost; the server's keep-alive ends the flow then.
        let heard = server.closed == Some(CloseReason::Peer(7));
        assert!(heard || world.loss > 5, "seed {seed}: {:?}", server.closed);
    }
    println!("{restarts} restarts, {again} octets given again");
}

/// A transfer in its middle.
fn in_the_middle(seed: u64) -> World {
    let mut world = World::new(seed, [300_000, 300_000], 1 << 14, 0);
    assert!(world.run(60, |world| world.ends.iter().all(|end| end.read > 50_000)));
    world.ends.iter_mut().for_each(End::commit);
    world
}

#[test]
fn an_old_ticket_and_one_that_serves_twice_are_refused() {
    let mut world = in_the_middle(1);
    let old = world.ends[0].disk.clone();
    let now = world.now;
    world.ends[0].restart(now, 0);
    let goes_on = |world: &mut World| world.ends.iter().all(|end| end.read > 100_000);
    assert!(world.run(60, goes_on));
    let sealed = world.ends[0].numbers;
    // Somebody puts the disk back to what it was: the count has been used, and the peer knows.
    world.ends[0].disk = Disk { boots: 50, ..old };
    let now = world.now;
    world.ends[0].restart(now, 0);
    assert!(world.run(60, |world| world.ends[0].closed.is_some()));
    assert_eq!(world.ends[0].closed, Some(CloseReason::Protocol(ModernError::OldTicket)));
    assert_eq!(world.ends[0].numbers, sealed, "nothing was sealed with the old ticket");
    assert!(world.ends[1].endpoint.drops(ModernError::OldTicket) > 0);
    world.check(1);
}

#[test]
fn a_message_of_a_restart_that_comes_again_changes_nothing() {
    let mut world = in_the_middle(2);
    let now = world.now;
    world.ends[0].restart(now, 0);
    let mut first = [0; 1500];
    let sent = world.ends[0].endpoint.transmit(Instant::from_nanos(now), &mut first).unwrap();
    assert_eq!((sent.octets, first[0], first[2]), (1200, 0x81, 5));
    let from = world.ends[0].address;
    let mut copy = first;
    let at = Instant::from_nanos(now);
    world.ends[1].endpoint.handle(at, from, &mut copy[..1200], false).unwrap();
    // The repetition is the same, octet by octet, and so is the answer.
    let mut answers = Vec::new();
    let mut out = [0; 1500];
    for _ in 0..3 {
        let mut copy = first;
        world.ends[1].endpoint.handle(at, address(77, 7), &mut copy[..1200], false).unwrap();
    }
    while let Some(sent) = world.ends[1].endpoint.transmit(at, &mut out) {
        if out[0] == 0x82 {
            answers.push(out[..sent.octets].to_vec());
        }
    }
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let mut forged = answers[0].clone();
    *forged.last_mut().unwrap() ^= 1;
    let to = world.ends[1].address;
    let error = world.ends[0].endpoint.handle(at, to, &mut forged, false);
    assert_eq!(error, Err(ModernError::Authentication));
    let half = world.run(60, |world| world.ends.iter().all(|end| end.read > 150_000));
    assert!(half, "it goes on");
    // From then on the message is old.
    let later = Instant::from_nanos(world.now);
    let mut copy = first;
    let error = world.ends[1].endpoint.handle(later, from, &mut copy[..1200], false);
    assert_eq!(error, Err(ModernError::OldTicket));
    for bit in [3, 200, 9000] {
        let mut copy = first;
        copy[bit / 8] ^= 1 << (bit % 8);
        assert!(world.ends[1].endpoint.handle(later, from, &mut copy[..1200], false).is_err());
    }
    assert!(world.run(600, |world| world.all_read()));
    assert_eq!(world.ends[1].endpoint.counter(Counter::Restarted), 1);
    world.check(2);
}

#[test]
fn a_server_that_comes_back_is_found_by_a_client_that_has_moved_meanwhile() {
    let mut world = in_the_middle(3);
    world.ends[0].address = address(99, 1234);
    world.packets.clear();
    let now = world.now;
    world.ends[1].restart(now, 0);
    assert!(world.run(600, |world| world.all_read()));
    let flow = world.ends[1].flow.unwrap();
    assert_eq!(world.ends[1].endpoint.restarts(flow), Some((1, 0)));
    assert_eq!(world.ends[1].endpoint.path(flow), Some(address(99, 1234)));
    world.check(3);
}

#[test]
fn a_flood_at_a_flow_that_restarts_is_answered_ten_times_a_second_at_most() {
    let mut world = in_the_middle(4);
    let mut out = [0; 1500];
    // A packet of the flow as a listener on the path has seen it.
    let (mut seen, mut now) = (None, world.now);
    world.run(1, |world| {
        seen = world.packets.iter().find(|packet| packet.1 == 1).map(|packet| packet.3.clone());
        seen.is_some()
    });
    let seen = seen.unwrap();
    world.ends[1].restart(now, 0);
    let mut octets = 0;
    for turn in 0..10_000u64 {
        now += 100_000;
        let mut copy = seen.clone();
        let from = address((turn % 200) as u8, 9);
        let at = Instant::from_nanos(now);
        let error = world.ends[1].endpoint.handle(at, from, &mut copy, false);
        assert_eq!(error, Err(ModernError::OldKeys));
        while let Some(sent) = world.ends[1].endpoint.transmit(at, &mut out) {
            octets += sent.octets;
        }
    }
    assert!(octets <= 11 * 1200, "{octets} octets in a second");
    // And the client comes through all the same.
    world.now = now;
    assert!(world.run(600, |world| world.all_read()));
    world.check(4);
}

#[test]
fn who_does_not_ask_where_to_write_again_is_told_and_the_peer_too() {
    let mut world = in_the_middle(5);
    let now = world.now;
    // The ticket is of the beginning: what the server has sent since is not in its ring any more.
    let mut ticket = world.ends[0].endpoint.ticket(world.ends[0].flow.unwrap()).unwrap();
    ticket.set_delivered(STREAM, 10);
    world.ends[0].disk.ticket = Some(ticket.to_octets());
    world.ends[0].restart(now, 0);
    let flow = world.ends[1].flow.unwrap();
    let mut errors = Vec::new();
    world.ends[1].size = world.ends[1].written;
    // The server's application does nothing; the test stands for it.
    let server = &mut world.ends[1].flow;
    let kept = server.take();
    let restarted = world.run(60, |world| {
        world.ends[1].endpoint.restarts(flow) == Some((0, 1))
            && world.ends[0].endpoint.next_number(world.ends[0].flow.unwrap()).is_some()
    });
    assert!(restarted);
    errors.push(world.ends[1].endpoint.write(flow, STREAM, b"more").unwrap_err());
    errors.push(world.ends[1].endpoint.finish(flow, STREAM).unwrap_err());
    assert_eq!(errors, [StreamError::Rewound; 2]);
    // To close is to say that the rest does not come: no end in good order.
    world.ends[1].endpoint.close(flow, 3);
    world.ends[1].flow = kept;
    let client = world.ends[0].flow.unwrap();
    world.ends[0].flow = None;
    let mut got = None;
    world.run(60, |world| {
        got = match world.ends[0].endpoint.read(client, STREAM, &mut [0; 100]) {
            Ok(Some(_)) => None,
            other => Some(other),
        };
        got.is_some()
    });
    assert_eq!(got, Some(Err(StreamError::Reset)));
}

#[test]
fn a_ticket_is_of_an_open_flow() {
    let mut world = World::new(6, [1000, 1000], 1 << 14, 0);
    let client = world.ends[0].flow.unwrap();
    assert!(world.ends[0].endpoint.ticket(client).is_none(), "the handshake is not done");
    assert!(world.run(60, World::is_read));
    assert_eq!(world.ends[0].endpoint.phase(client), Some(Phase::Open));
    let ticket = world.ends[0].endpoint.ticket(client).unwrap();
    assert_eq!(
        (ticket.flow(), ticket.restarts(), ticket.delivered(STREAM)),
        (client, 0, Some(1000))
    );
    // Nothing happens for a while: the flow sleeps, and its ticket says the same.
    world.run(10, |_| false);
    let asleep = world.ends[0].endpoint.ticket(client).unwrap();
    assert_eq!(asleep.to_octets(), ticket.to_octets());
    let now = world.now;
    world.ends[0].disk.ticket = Some(asleep.to_octets());
    world.ends[0].disk.stored = 1000;
    world.ends[0].restart(now, 0);
    world.ends[0].size = 5000;
    world.ends[1].size = 5000;
    assert!(world.run(60, World::is_read), "a sleeping peer wakes up for it");
    world.check(6);
}

impl World {
    fn is_read(&mut self) -> bool {
        self.all_read()
    }
}
