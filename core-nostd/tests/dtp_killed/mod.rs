//! Two endpoints whose processes are killed, the disks that outlive them, and the applications that use them.

use heddle_core::dtp::modern::{
    Active, CloseReason, Config, Connect, Endpoint, Event, Flow, FlowId, Identity, Memory,
    ModernError, PathAddress, Pattern, Sent, StreamError, TICKET_OCTETS, Ticket,
};
use heddle_core::node::Instant;

pub const SHARED: [u8; 32] = [9; 32];
pub const STREAM: u32 = 0;

/// Streams of a transfer at most.
pub const STREAMS: usize = 3;

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

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub fn address(host: u8, port: u16) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host];
    PathAddress { local: 0, port, ip }
}

/// The octet that an end sends at an offset of a stream.
pub fn octet(from_server: bool, stream: u32, offset: u64) -> u8 {
    let which = (u64::from(from_server) * 55) ^ (u64::from(stream) * 101);
    (offset.wrapping_mul(31) ^ (offset >> 8).wrapping_mul(7) ^ which) as u8
}

pub fn leak<T>(items: Vec<T>) -> &'static mut [T] {
    items.leak()
}

/// What outlives a process.
#[derive(Clone, Default)]
pub struct Disk {
    pub ticket: Option<[u8; TICKET_OCTETS]>,
    /// Octets received of each stream that were synced, and its end.
    pub stored: [(u64, bool); STREAMS],
    pub boots: u32,
}

/// A stream as the application sees it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Octets that it gives, and has given; nothing of it as long as it is not known where the peer stands.
    pub size: u64,
    pub written: Option<u64>,
    pub finished: bool,
    pub read: u64,
    pub ended: bool,
    /// What this end had not stored the peer no longer has.
    pub reset: bool,
}

pub struct End {
    pub is_server: bool,
    pub endpoint: Endpoint<'static>,
    pub flow: Option<FlowId>,
    pub address: PathAddress,
    pub lines: Vec<Line>,
    /// The application says where its directions end.
    pub finishes: bool,
    pub buffer: usize,
    pub disk: Disk,
    /// The highest packet number that any process of this end has used.
    pub numbers: Option<u64>,
    /// Octets of streams that had to be given again.
    pub again: u64,
    pub failed: Option<String>,
    pub closed: Option<CloseReason>,
}

pub fn endpoint(is_server: bool, buffer: usize, boots: u32, now: u64) -> Endpoint<'static> {
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
    pub fn new(is_server: bool, sizes: &[u64], finishes: bool, buffer: usize, now: u64) -> Self {
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
    pub fn commit(&mut self) {
        let Some(ticket) = self.flow.and_then(|flow| self.endpoint.ticket(flow)) else { return };
        for (stored, line) in self.disk.stored.iter_mut().zip(&self.lines) {
            *stored = (line.read, line.ended);
        }
        self.disk.ticket = Some(ticket.to_octets());
    }

    /// The process is gone and another begins. `deaths` of it die between the write of the ticket and its use.
    pub fn restart(&mut self, now: u64, deaths: u32) {
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

    pub fn work(&mut self, rng: &mut Rng) {
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

    pub fn write(&mut self, flow: FlowId, index: usize, rng: &mut Rng) {
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

    pub fn read(&mut self, flow: FlowId, index: usize) {
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
    pub fn has_written(&self) -> bool {
        let done =
            |line: &Line| line.written == Some(line.size) && (line.finished || !self.finishes);
        self.lines.iter().all(done)
    }

    /// Octets read of all streams.
    pub fn read_octets(&self) -> u64 {
        self.lines.iter().map(|line| line.read).sum()
    }

    /// Checks that the numbers of packets only go up, whichever process sends them.
    pub fn check_numbers(&mut self) {
        let Some(next) = self.flow.and_then(|flow| self.endpoint.next_number(flow)) else { return };
        if self.numbers.is_some_and(|highest| next < highest) {
            self.failed.get_or_insert(format!("number {next} after {:?}", self.numbers));
        }
        self.numbers = Some(next);
    }
}

pub struct World {
    pub ends: [End; 2],
    pub now: u64,
    pub rng: Rng,
    pub loss: u64,
    /// No packet comes through before.
    pub out_until: u64,
    /// Something is planned for then.
    pub next_kill: u64,
    pub packets: Vec<(u64, usize, PathAddress, Vec<u8>)>,
}

impl World {
    pub fn new(seed: u64, sizes: [&[u64]; 2], finishes: bool, buffer: usize, loss: u64) -> Self {
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
    pub fn run(&mut self, most_s: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
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

    pub fn all_read(&self) -> bool {
        let [client, server] = &self.ends;
        [(client, server), (server, client)].into_iter().all(|(reader, writer)| {
            reader.lines.iter().zip(&writer.lines).all(|(got, given)| {
                let ended = got.ended || !reader.finishes;
                got.reset || got.read == given.size && ended
            })
        })
    }

    pub fn check(&self, seed: u64) {
        for end in &self.ends {
            assert_eq!(end.failed, None, "seed {seed}");
        }
    }
}
