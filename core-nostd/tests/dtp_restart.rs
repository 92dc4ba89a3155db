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

/// Streams of a transfer at most.
const STREAMS: usize = 3;

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

/// The octet that an end sends at an offset of a stream.
fn octet(from_server: bool, stream: u32, offset: u64) -> u8 {
    let which = u64::from(from_server) * 55 ^ u64::from(stream) * 101;
    (offset.wrapping_mul(31) ^ (offset >> 8).wrapping_mul(7) ^ which) as u8
}

fn leak<T>(items: Vec<T>) -> &'static mut [T] {
    items.leak()
}

/// What outlives a process.
#[derive(Clone, Default)]
struct Disk {
    ticket: Option<[u8; TICKET_OCTETS]>,
    /// Octets received of each stream that were synced, and its end.
    stored: [(u64, bool); STREAMS],
    boots: u32,
}

/// A stream as the application sees it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
struct Line {
    /// Octets that it gives, and has given; nothing of it as long as it is not known where the peer stands.
    size: u64,
    written: Option<u64>,
    finished: bool,
    read: u64,
    ended: bool,
    /// What this end had not stored the peer no longer has.
    reset: bool,
}

struct End {
    is_server: bool,
    endpoint: Endpoint<'static>,
    flow: Option<FlowId>,
    address: PathAddress,
    lines: Vec<Line>,
    /// The application says where its directions end.
    finishes: bool,
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
        actives: leak(vec![active()]),
        budgets: leak(vec![0; 64]),
    };
    let mut seed = [u8::from(is_server); 32];
    seed[..4].copy_from_slice(&boots.to_be_bytes());
    let config = Config {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: if is_server { &[Pattern::PreShared] } else { &[] },
        id_key: [u8::from(is_server) + 1; 32],
        streams: if is_server { STREAMS as u8 } else { 0 },
        generation: boots << 16,
        ..Config::default()
    };
    Endpoint::new(config, memory, seed, Instant::from_nanos(now))
}

impl End {
    fn new(is_server: bool, sizes: &[u64], finishes: bool, buffer: usize, now: u64) -> Self {
        let line = |&size| Line { size, written: Some(0), ..Line::default() };
        Self {
            is_server,
            endpoint: endpoint(is_server, buffer, 0, now),
            flow: None,
            address: address(if is_server { 1 } else { 2 }, 4433),
            lines: sizes.iter().map(line).collect(),
            finishes,
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
        for (stored, line) in self.disk.stored.iter_mut().zip(&self.lines) {
            *stored = (line.read, line.ended);
        }
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
        for (index, line) in self.lines.iter_mut().enumerate() {
            // What was stored beyond the ticket comes again. A stream that the ticket does not list was not begun, or is done with.
            let stream = index as u32 * 2;
            let (stored, ended) = self.disk.stored[index];
            let listed = ticket.delivered(stream);
            line.read = listed.unwrap_or(if ended { stored } else { 0 });
            line.ended = ended && line.read == stored;
            assert!(line.read <= stored);
            line.written = None;
            line.finished = false;
        }
    }

    fn work(&mut self, rng: &mut Rng) {
        while let Some((flow, event)) = self.endpoint.poll() {
            match event {
                Event::Incoming => {
                    assert!(self.flow.is_none() || self.flow == Some(flow), "one flow");
                    self.flow = Some(flow);
                }
                Event::Connected => {
                    for _ in 0..self.lines.len() {
                        self.endpoint.open_stream(flow).unwrap();
                    }
                    self.commit();
                }
                // A server that does not know where its client is waits until it hears of it.
                Event::Moved => self.commit(),
                Event::Restarted => {
                    // Streams that are not there any more are done with.
                    let there = self.endpoint.streams(flow);
                    for (stream, line) in (0..).step_by(2).zip(&mut self.lines) {
                        if line.written.is_none() && !there.contains(&Some(stream)) {
                            line.written.get_or_insert(line.size);
                            line.finished = true;
                        }
                    }
                }
                Event::Closed(reason) => {
                    self.closed = Some(reason);
                    self.endpoint.forget(flow);
                }
                _ => {}
            }
        }
        let Some(flow) = self.flow else { return };
        for index in 0..self.lines.len() {
            self.write(flow, index, rng);
            self.read(flow, index);
        }
    }

    fn write(&mut self, flow: FlowId, index: usize, rng: &mut Rng) {
        let stream = index as u32 * 2;
        let line = &mut self.lines[index];
        if let Some(offset) = self.endpoint.resume_offset(flow, stream) {
            self.again += line.written.map_or(0, |written| written.saturating_sub(offset));
            line.written = Some(offset);
            line.finished = false;
        }
        loop {
            let written = line.written.unwrap_or(0);
            let count = (line.size - written).min(1 + rng.below(5000));
            let octets: Vec<u8> =
                (0..count).map(|i| octet(self.is_server, stream, written + i)).collect();
            if count == 0 {
                if self.finishes && !line.finished {
                    line.finished = self.endpoint.finish(flow, stream).is_ok();
                }
                return;
            }
            match self.endpoint.write(flow, stream, &octets) {
                Ok(0) | Err(StreamError::Busy | StreamError::NoStream) => return,
                Ok(count) => line.written = Some(written + count as u64),
                // After a restart the peer had all.
                Err(StreamError::Finished) if line.written.is_none() => {
                    line.written = Some(line.size);
                    line.finished = true;
                }
                // It opens still, or is closed.
                Err(StreamError::NoFlow | StreamError::Finished) => return,
                Err(error) => panic!("write: {error:?}"),
            }
        }
    }

    fn read(&mut self, flow: FlowId, index: usize) {
        let stream = index as u32 * 2;
        let line = &mut self.lines[index];
        let mut buffer = [0; 3000];
        loop {
            match self.endpoint.read(flow, stream, &mut buffer) {
                Ok(Some(0)) | Err(StreamError::NoStream | StreamError::NoFlow) => return,
                Ok(None) => {
                    line.ended = true;
                    return;
                }
                Ok(Some(count)) => {
                    for &got in &buffer[..count] {
                        if got != octet(!self.is_server, stream, line.read) {
                            self.failed.get_or_insert(format!("a wrong octet at {}", line.read));
                        }
                        line.read += 1;
                    }
                }
                Err(StreamError::Reset) => {
                    line.reset = true;
                    return;
                }
                other => panic!("read: {other:?}"),
            }
        }
    }

    /// Whether everything was given: octets and ends.
    fn has_written(&self) -> bool {
        let done =
            |line: &Line| line.written == Some(line.size) && (line.finished || !self.finishes);
        self.lines.iter().all(done)
    }

    /// Octets read of all streams.
    fn read_octets(&self) -> u64 {
        self.lines.iter().map(|line| line.read).sum()
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
    /// No packet comes through before.
    out_until: u64,
    /// Something is planned for then.
    next_kill: u64,
    packets: Vec<(u64, usize, PathAddress, Vec<u8>)>,
}

impl World {
    fn new(seed: u64, sizes: [&[u64]; 2], finishes: bool, buffer: usize, loss: u64) -> Self {
        let now = 1_000_000_000_000;
        let client = End::new(false, sizes[0], finishes, buffer, now);
        let server = End::new(true, sizes[1], finishes, buffer, now);
        let (out_until, next_kill) = (0, u64::MAX);
        let (ends, rng) = ([client, server], Rng(seed));
        let mut world = Self { ends, now, rng, loss, out_until, next_kill, packets: vec![] };
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
                    let is_out = self.now < self.out_until;
                    if is_out
                        || self.rng.chance(self.loss)
                        || sent.path != self.ends[1 - place].address
                    {
                        continue;
                    }
                    let at = self.now + 5_000_000 + self.rng.below(3_000_000);
                    let copies = 1 + u64::from(self.rng.chance(self.loss / 2));
                    for _ in 0..copies {
                        let mut datagram = out[..sent.octets].to_vec();
                        if self.rng.chance(self.loss / 4) {
                            let bit = self.rng.below(datagram.len() as u64 * 8) as usize;
                            datagram[bit / 8] ^= 1 << (bit % 8);
                        }
                        self.packets.push((at, 1 - place, from, datagram));
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
        [(client, server), (server, client)].into_iter().all(|(reader, writer)| {
            reader.lines.iter().zip(&writer.lines).all(|(got, given)| {
                let ended = got.ended || !reader.finishes;
                got.reset || got.read == given.size && ended
            })
        })
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
    let (mut restarts, mut again, mut resets) = (0, 0, 0);
    for seed in first..first + number("DTP_SEEDS").unwrap_or(60) {
        let mut rng = Rng(seed ^ 0x77);
        let streams = 1 + rng.below(STREAMS as u64);
        let mut sizes = || (0..streams).map(|_| rng.below(400_000 / streams)).collect::<Vec<_>>();
        let sizes = [sizes(), sizes()];
        let finishes = rng.chance(50);
        let buffer = 4096 << rng.below(5);
        let loss = [0, 5, 20][rng.below(3) as usize];
        let mut world = World::new(seed, [&sizes[0], &sizes[1]], finishes, buffer, loss);
        let connected = world.run(60, |world| world.ends.iter().all(|end| end.flow.is_some()));
        assert!(connected, "seed {seed}");
        world.ends[1].commit();
        let has_ticket = world.run(60, |world| world.ends[0].disk.ticket.is_some());
        assert!(has_ticket, "seed {seed}");
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
                if rng.chance(20) {
                    world.out_until = now + rng.below(100) * 1_000_000_000;
                }
            }
            kills == 0 && world.all_read() && world.ends.iter().all(End::has_written)
        });
        world.check(seed);
        let phase = |end: &End| end.flow.and_then(|flow| end.endpoint.phase(flow));
        let states = world.ends.each_ref().map(|end| (&end.lines, phase(end), end.closed));
        assert!(finished, "seed {seed}: {states:?}");
        again += world.ends.iter().map(|end| end.again).sum::<u64>();
        // Who lets go of a stream as soon as all is acknowledged cannot give it again.
        let lines = world.ends.iter().flat_map(|end| &end.lines);
        let reset = lines.filter(|line| line.reset).count();
        assert!(reset == 0 || finishes, "seed {seed}");
        resets += reset;
        let flow = world.ends[0].flow.unwrap();
        world.out_until = 0;
        world.ends[0].endpoint.close(flow, 7);
        world.run(100, |world| world.ends.iter().all(|end| end.closed.is_some()));
        world.check(seed);
        let [client, server] = &world.ends;
        let states = [client, server].map(|end| (&end.lines, end.closed));
        let closed = client.closed == Some(CloseReason::Local);
        assert!(closed && world.all_read(), "seed {seed}: {states:?}");
        // Each of the few repetitions of the news may be lost; the server's keep-alive ends the flow then.
        let heard = server.closed == Some(CloseReason::Peer(7));
        assert!(heard || world.loss > 5, "seed {seed}: {:?}", server.closed);
    }
    println!("{restarts} restarts, {again} octets given again, {resets} streams reset");
}

/// A transfer in its middle.
fn in_the_middle(seed: u64) -> World {
    let mut world = World::new(seed, [&[300_000], &[300_000]], false, 1 << 14, 0);
    assert!(world.run(60, |world| world.ends.iter().all(|end| end.read_octets() > 50_000)));
    world.ends.iter_mut().for_each(End::commit);
    world
}

#[test]
fn an_old_ticket_and_one_that_serves_twice_are_refused() {
    let mut world = in_the_middle(1);
    let old = world.ends[0].disk.clone();
    let now = world.now;
    world.ends[0].restart(now, 0);
    let goes_on = |world: &mut World| world.ends.iter().all(|end| end.read_octets() > 100_000);
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
    let half = world.run(60, |world| world.ends.iter().all(|end| end.read_octets() > 150_000));
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
    let mut world = World::new(6, [&[1000], &[1000]], false, 1 << 14, 0);
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
    world.ends[0].disk.stored[0].0 = 1000;
    world.ends[0].restart(now, 0);
    world.ends[0].lines[0].size = 5000;
    world.ends[1].lines[0].size = 5000;
    assert!(world.run(60, World::is_read), "a sleeping peer wakes up for it");
    world.check(6);
}

impl World {
    fn is_read(&mut self) -> bool {
        self.all_read()
    }
}
