//! The applications at both ends, and the disks that outlive their processes.

use super::Rng;
use heddle_core::dtp::modern::{CloseReason, Endpoint, FlowId, StreamError, TICKET_OCTETS, Ticket};
use heddle_core::node::Instant;
use std::collections::BTreeMap;

/// The octet of a stream at an offset.
fn octet(stream: u32, down: bool, offset: u64) -> u8 {
    (offset.wrapping_mul(31)
        ^ (offset >> 8).wrapping_mul(7)
        ^ (u64::from(stream) * 101)
        ^ (u64::from(down) * 55)) as u8
}

/// What an application has read of its streams: octets, and whether the end has come.
type Got = BTreeMap<u32, (u64, bool)>;

/// What outlives a process. A file is there whole or not at all, and what was received is synced before the ticket that tells of it.
#[derive(Default)]
pub struct Disk {
    ticket: Option<[u8; TICKET_OCTETS]>,
    stored: Got,
    pub processes: u32,
    /// On its way to the disk: when what was received will be there and when the ticket will be, then both.
    pending: Option<(u64, u64, Got, [u8; TICKET_OCTETS])>,
}

impl Disk {
    /// Lets everything come to the disk that does until then.
    fn settle(&mut self, now: u64) {
        let Some((stored_at, ticket_at, got, ticket)) = &self.pending else { return };
        if *stored_at <= now {
            self.stored.clone_from(got);
        }
        if *ticket_at <= now {
            self.ticket = Some(*ticket);
            self.pending = None;
        }
    }

    /// Whether a process could go on from it.
    pub fn has_ticket(&mut self, now: u64) -> bool {
        self.settle(now);
        self.ticket.is_some()
    }
}

/// How far a direction is that the application writes.
struct Out {
    /// Not known after a restart, until the endpoint says where to go on.
    written: Option<u64>,
    size: u64,
    finished: bool,
}

/// An application: it writes what it must on each stream, reads what comes, and checks it.
pub struct App {
    down: bool,
    /// It ends its directions.
    finishes: bool,
    out: BTreeMap<u32, Out>,
    got: Got,
    /// Streams of which octets that this end had acknowledged were lost with its process, and are nowhere any more.
    reset: Vec<u32>,
    pub flow: Option<FlowId>,
    pub closed: Option<CloseReason>,
    /// Everything has been read, and the flow is closed: a restarted end that does not write its streams again then resets them.
    pub is_over: bool,
    pub disk: Disk,
}

impl App {
    pub fn new(down: bool, finishes: bool) -> Self {
        Self {
            down,
            finishes,
            out: BTreeMap::new(),
            got: Got::new(),
            reset: Vec::new(),
            flow: None,
            closed: None,
            is_over: false,
            disk: Disk::default(),
        }
    }

    /// Begins to write a ticket, behind what was received.
    pub fn commit(&mut self, endpoint: &Endpoint, now: u64, rng: &mut Rng) {
        self.disk.settle(now);
        let ticket = self.flow.and_then(|flow| endpoint.ticket(flow));
        if let (None, Some(ticket)) = (&self.disk.pending, ticket) {
            let stored_at = now + rng.below(10_000_000);
            let ticket_at = stored_at + rng.below(10_000_000);
            let octets = ticket.to_octets();
            self.disk.pending = Some((stored_at, ticket_at, self.got.clone(), octets));
        }
    }

    /// Goes on in another process from what is on the disk.
    pub fn restart(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        deaths: u32,
    ) -> Result<(), String> {
        // What the process was still writing died with it.
        self.disk.pending = None;
        let octets = self.disk.ticket.ok_or("no ticket")?;
        let read = Ticket::from_octets(&octets).map_err(|error| format!("ticket: {error:?}"))?;
        let mut ticket = read;
        for _ in 0..=deaths {
            ticket = ticket.count_up().map_err(|error| format!("count: {error:?}"))?;
            self.disk.ticket = Some(ticket.to_octets());
        }
        let flow = endpoint.restore(now, &ticket).map_err(|error| format!("restore: {error:?}"))?;
        if self.flow != Some(flow) {
            return Err("another flow was restored".into());
        }
        self.out.clear();
        self.got.clone_from(&self.disk.stored);
        for (&stream, (read, ended)) in &mut self.got {
            let stored = *read;
            // What was stored beyond the ticket comes again. A stream that the ticket does not list was not begun, or is done with.
            *read = ticket.delivered(stream).unwrap_or(if *ended { stored } else { 0 });
            *ended &= *read == stored;
            if *read > stored {
                return Err(format!("the ticket tells of more than was stored of {stream}"));
            }
        }
        Ok(())
    }

    pub fn work(
        &mut self,
        endpoint: &mut Endpoint,
        sizes: &[usize],
        rng: &mut Rng,
    ) -> Result<(), String> {
        let Some(flow) = self.flow else { return Ok(()) };
        let streams: Vec<u32> = endpoint.streams(flow).into_iter().flatten().collect();
        for stream in streams {
            let size = sizes.get(stream as usize / 2).copied().unwrap_or(0) as u64;
            let written = (self.disk.processes == 0).then_some(0);
            self.out.entry(stream).or_insert(Out { written, size, finished: false });
            self.read(endpoint, flow, stream, rng)?;
        }
        for (&stream, out) in &mut self.out {
            if let Some(offset) = endpoint.resume_offset(flow, stream) {
                (out.written, out.finished) = (Some(offset), false);
            }
            loop {
                let written = out.written.unwrap_or(0);
                let count = out.size.saturating_sub(written).min(1 + rng.below(9000));
                if count == 0 {
                    break;
                }
                let octets: Vec<u8> =
                    (0..count).map(|i| octet(stream, self.down, written + i)).collect();
                match endpoint.write(flow, stream, &octets) {
                    // A restarted end that must not write yet is told so.
                    Ok(0) | Err(_) => break,
                    Ok(count) => out.written = Some(written + count as u64),
                }
            }
            if self.finishes
                && out.written.unwrap_or(0) == out.size
                && !out.finished
                && endpoint.finish(flow, stream).is_ok()
            {
                out.finished = true;
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        endpoint: &mut Endpoint,
        flow: FlowId,
        stream: u32,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let (read, ended) = self.got.entry(stream).or_insert((0, false));
        let mut buffer = [0; 5000];
        loop {
            let most = 1 + rng.below(5000) as usize;
            match endpoint.read(flow, stream, &mut buffer[..most]) {
                Ok(Some(0)) | Err(StreamError::NoStream | StreamError::NoFlow) => return Ok(()),
                Ok(None) => {
                    *ended = true;
                    return Ok(());
                }
                Ok(Some(count)) => {
                    for &got in &buffer[..count] {
                        if got != octet(stream, !self.down, *read) {
                            return Err(format!("a wrong octet at {read} of stream {stream}"));
                        }
                        *read += 1;
                    }
                }
                Err(StreamError::Reset) if self.is_over => return Ok(()),
                Err(StreamError::Reset) if self.disk.processes > 0 && self.finishes => {
                    if !self.reset.contains(&stream) {
                        self.reset.push(stream);
                    }
                    return Ok(());
                }
                Err(error) => return Err(format!("read: {error:?}")),
            }
        }
    }

    /// Whether it has all octets of all streams, and their ends; or was told that the rest is lost.
    pub fn got_all(&self, sizes: &[usize]) -> bool {
        (0..).step_by(2).zip(sizes).all(|(stream, &size)| {
            let all =
                |&(read, ended): &(u64, bool)| read == size as u64 && (ended || !self.finishes);
            self.reset.contains(&stream) || self.got.get(&stream).is_some_and(all)
        })
    }

    pub fn has_resets(&self) -> bool {
        !self.reset.is_empty()
    }

    pub fn state(&self) -> String {
        let out: Vec<_> = self.out.iter().map(|(stream, out)| (stream, out.written)).collect();
        format!("has read {:?}, reset {:?}, written {out:?}", self.got, self.reset)
    }
}
