//! The thread between the kernel and the protocol.

use crate::keeper::{Keeper, Opened};
use crate::live::LivePhase;
use crate::netlink::Changes;
use crate::outlet::{Outcome, Outlet, SendCounters};
use crate::socket::{BATCH, Udp, address_of};
use crate::tickets::Ids;
use heddle_core::dtp::modern as core;
use heddle_core::dtp::modern::{
    Active, CloseReason, Config, Congestion, Counter, Event, Flow, FlowId, Identity, Memory,
    ModernError, PathAddress, Pattern, Phase, Sent, Suite,
};
use heddle_core::node::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use zeroize::Zeroizing;

/// The largest datagram that goes over an Ethernet of 1500 octets with IPv6.
const DATAGRAM: u16 = 1452;

/// Octets that one call may hand to the kernel.
const GSO_OCTETS: usize = 60_000;

/// After a change of the network flows that wait are probed again at these times: a link that is up may not carry anything yet.
const AFTER_CHANGE: [Duration; 4] = [
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
];

/// What an endpoint is made with.
#[derive(Clone)]
pub struct Settings {
    /// Flows that there may be at a time.
    pub flows: usize,
    /// Flows that may do something at a time.
    pub actives: usize,
    /// Octets of the buffers of an active flow, each way.
    pub buffer: usize,
    /// Control of congestion.
    pub congestion: Congestion,
    /// The longest keep-alive that is granted to clients.
    pub keep_alive_cap: Duration,
    /// Octets of the largest datagram.
    pub datagram: u16,
    /// Flows that one address may have.
    pub flows_of_address: u16,
    /// This end's keys: a server needs one.
    pub identity: Identity,
    /// How clients may know the server; none for an endpoint that takes no flows.
    pub patterns: Vec<Pattern>,
    /// The clients that are let in by their key.
    pub authorized: Vec<[u8; 32]>,
    /// Messages keep their boundaries on flows whose peer wants it too: [`crate::DtpStream::send_message`].
    pub boundaries: bool,
    /// Where tickets are kept, so that flows outlive the process; nothing for nowhere. A directory serves one process at a time.
    pub tickets: Option<PathBuf>,
    /// What a server behind a steering middlebox has in its connection ids; nothing for a server that stands alone.
    pub steered: Option<Steered>,
}

/// How a steering middlebox tells one of its servers by the ids of its flows ([`heddle_core::dtp::modern::Steerer`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
    /// This server's number; no other one behind the middlebox has it.
    pub number: u16,
    /// The key of the connection ids, which the middlebox and all its servers share. Flows out of tickets must have been made with the same
    /// number and key.
    pub id_key: Zeroizing<[u8; 32]>,
}

impl Default for Settings {
    /// For a client.
    fn default() -> Self {
        Self {
            flows: 16,
            actives: 8,
            buffer: 4 << 20,
            congestion: Congestion::Cubic,
            keep_alive_cap: Duration::from_secs(7 * 24 * 3600),
            datagram: DATAGRAM,
            flows_of_address: 256,
            identity: Identity::default(),
            patterns: Vec::new(),
            authorized: Vec::new(),
            boundaries: false,
            tickets: None,
            steered: None,
        }
    }
}

/// What the application should know of a flow.
#[derive(Default)]
pub(crate) struct Status {
    pub connected: bool,
    pub suspended: bool,
    pub closed: Option<CloseReason>,
    pub server_key: Option<[u8; 32]>,
    pub changed: Arc<Condvar>,
    /// Threads that wait for it.
    pub waiting: usize,
    pub wakers: Vec<Waker>,
    /// A stream of the application's stands for it.
    pub held: bool,
    /// What the application had noted with the ticket that the flow comes from.
    pub note: Option<Vec<u8>>,
}

pub(crate) struct State {
    pub endpoint: core::Endpoint<'static>,
    pub flows: HashMap<FlowId, Status>,
    pub incoming: VecDeque<FlowId>,
    /// A client's flows out of tickets that nobody has taken.
    pub restored: VecDeque<FlowId>,
    pub accept_wakers: Vec<Waker>,
    /// The thread has ended, for that reason.
    pub failed: Option<String>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub accepted: Condvar,
    bell: OwnedFd,
    rung: AtomicBool,
    stop: AtomicBool,
    pub address: SocketAddr,
    pub keeper: Option<Keeper>,
    sending: SendCounters,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread: there is something to send.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It can only fail when it has been rung 2^64 times.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// The time as the protocol counts it: it goes on while the machine sleeps.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A line about a flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The flow's place and the count of flows in that place.
    pub id: (u32, u32),
    /// Where the peer is.
    pub peer: SocketAddr,
    /// Where it is in its life.
    pub phase: Phase,
    /// For how long silence is borne.
    pub keep_alive: Duration,
    /// How often this end and the peer have restarted since the flow was opened.
    pub restarts: (u32, u32),
    /// Octets of the stream that the peer has acknowledged; nothing while the flow sleeps.
    pub acknowledged: Option<u64>,
}

impl FlowReport {
    pub(crate) fn live_phase(&self) -> LivePhase {
        match self.phase {
            Phase::Free | Phase::Opening | Phase::Asking | Phase::Unproven => LivePhase::Opening,
            Phase::Open if self.acknowledged.is_none() => LivePhase::Asleep,
            Phase::Open => LivePhase::Active,
            Phase::Suspended => LivePhase::Suspended,
            _ => LivePhase::Closing,
        }
    }
}

/// An endpoint with its thread, which ends when the last handle is gone.
#[derive(Clone)]
pub struct Endpoint(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.ring();
    }
}

impl Endpoint {
    /// Starts an endpoint at `address`, or wherever the system likes.
    ///
    /// # Errors
    /// Those of sockets, of the system's generator, and of the directory of tickets.
    pub fn start(address: Option<SocketAddr>, settings: &Settings) -> io::Result<Self> {
        let socket = match address {
            Some(address) => Udp::bind(address)?,
            None => Udp::any()?,
        };
        let local = socket.local_address()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let is_server = !settings.patterns.is_empty();
        let tickets = settings.tickets.as_deref();
        let mut tickets = tickets.map(|path| Opened::new(path, is_server)).transpose()?;
        let ids = tickets.as_ref().map_or_else(Ids::new, |tickets| Ok(tickets.ids.clone()))?;
        let mut state = State {
            endpoint: endpoint(settings, &ids)?,
            flows: HashMap::new(),
            incoming: VecDeque::new(),
            restored: VecDeque::new(),
            accept_wakers: Vec::new(),
            failed: None,
        };
        if let Some(tickets) = &mut tickets {
            tickets.restore(&mut state)?;
        }
        let (keeper, tasks) = Keeper::new();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            accepted: Condvar::new(),
            bell,
            rung: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            address: local,
            keeper: tickets.is_some().then_some(keeper),
            sending: SendCounters::default(),
        });
        if let Some(tickets) = tickets {
            tickets.start(tasks, &shared)?;
        }
        let worker = Worker {
            shared: Arc::clone(&shared),
            outlet: Outlet::new(socket, address.map(|_| local)),
            // A machine without netlink does with probes.
            changes: Changes::new().ok(),
            is_up: true,
            changed: None,
        };
        std::thread::Builder::new().name("dtp".into()).spawn(move || worker.run())?;
        Ok(Self(Arc::new(Handle { shared })))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The address of the socket.
    pub fn local_address(&self) -> SocketAddr {
        self.0.shared.address
    }

    /// The flows that live.
    pub fn flows(&self) -> Vec<FlowReport> {
        let state = self.0.shared.lock();
        let report = |flow: FlowId| {
            Some(FlowReport {
                id: (flow.slot(), flow.generation()),
                peer: address_of(state.endpoint.path(flow)?),
                phase: state.endpoint.phase(flow)?,
                keep_alive: Duration::from_secs(state.endpoint.keep_alive_s(flow)?.into()),
                restarts: state.endpoint.restarts(flow)?,
                acknowledged: state.endpoint.acknowledged(flow, crate::stream::STREAM),
            })
        };
        state.endpoint.flows().filter_map(report).collect()
    }

    /// Waits until no flow has anything left to say, for as long as `patience` at most, and gives whether that is so. Nobody speaks for a process that
    /// has ended, so one that has just let its streams go calls this first.
    pub fn wait_idle(&self, patience: Duration) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(2);
        let end = std::time::Instant::now() + patience;
        while !says_nothing(&self.0.shared.lock().endpoint) {
            if std::time::Instant::now() > end {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// What has been counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let state = self.0.shared.lock();
        let counters = Counter::ALL.iter().map(|&c| (c.name(), state.endpoint.counter(c)));
        let drops = ModernError::ALL.iter().map(|&e| (e.name(), state.endpoint.drops(e)));
        counters.chain(drops).chain(self.0.shared.sending.list()).collect()
    }
}

fn leak<T>(items: Vec<T>) -> &'static mut [T] {
    items.leak()
}

/// The protocol's endpoint. Its memory is the process's for good: endpoints are few and live as long as it does.
fn endpoint(settings: &Settings, ids: &Ids) -> io::Result<core::Endpoint<'static>> {
    let seed = random()?;
    let packets = settings.buffer / 1000 + 64;
    let actives = (0..settings.actives).map(|_| {
        Active::new(
            leak(vec![0; settings.buffer]),
            leak(vec![0; settings.buffer]),
            leak(vec![Sent::default(); packets]),
        )
    });
    let memory = Memory {
        actives: leak(actives.collect()),
        flows: leak((0..settings.flows).map(|_| Flow::new()).collect()),
        timers: leak(vec![0; settings.flows]),
        budgets: leak(vec![0; (settings.flows * 4).next_power_of_two()]),
    };
    let takes = !settings.patterns.is_empty();
    let (server, id_key) = match &settings.steered {
        Some(steered) => (steered.number, &steered.id_key),
        None => (0, &ids.key),
    };
    let config = Config {
        identity: settings.identity.clone(),
        patterns: leak(settings.patterns.clone()),
        authorized: leak(settings.authorized.clone()),
        suites: suites(),
        id_key: **id_key,
        server,
        generation: ids.boots << 16,
        keep_alive_cap_s: u32::try_from(settings.keep_alive_cap.as_secs()).unwrap_or(u32::MAX),
        datagram_octets: settings.datagram,
        streams: u8::from(takes),
        congestion: settings.congestion,
        boundaries: settings.boundaries,
        flows_of_address: settings.flows_of_address,
        ..Config::default()
    };
    Ok(core::Endpoint::new(config, memory, seed, now()))
}

pub(crate) fn random() -> io::Result<[u8; 32]> {
    let mut octets = [0; 32];
    getrandom::fill(&mut octets).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(octets)
}

/// AES-GCM only where the processor has instructions for it.
fn suites() -> u8 {
    let chacha = Suite::ChaCha20Poly1305.bit();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
    {
        return chacha | Suite::Aes256Gcm.bit();
    }
    chacha
}

struct Worker {
    shared: Arc<Shared>,
    outlet: Outlet<Udp>,
    changes: Option<Changes>,
    is_up: bool,
    /// When the network last changed, and how many probes have followed.
    changed: Option<(Instant, usize)>,
}

/// Datagrams of one size to one place.
struct Train {
    path: PathAddress,
    segment: usize,
    octets: usize,
}

impl Worker {
    fn run(mut self) {
        let mut buffers: [Vec<u8>; BATCH] = std::array::from_fn(|_| vec![0; 65_536]);
        let mut out = vec![0; 4 * GSO_OCTETS];
        let result = loop {
            if self.shared.stop.load(Ordering::Acquire)
                && says_nothing(&self.shared.lock().endpoint)
            {
                break Ok(());
            }
            if let Err(error) = self.turn(&mut buffers, &mut out) {
                break Err(error);
            }
        };
        let mut state = self.shared.lock();
        if let Err(error) = result {
            tracing::error!(%error, "the endpoint has stopped");
            state.failed = Some(error.to_string());
        }
        state.flows.values_mut().for_each(|status| {
            status.closed.get_or_insert(CloseReason::Local);
            notify(status);
        });
        self.shared.accepted.notify_all();
    }

    fn turn(&mut self, buffers: &mut [Vec<u8>; BATCH], out: &mut [u8]) -> io::Result<()> {
        let more = self.send(out)?;
        let mut due = {
            let mut state = self.shared.lock();
            state.endpoint.deadline()
        };
        if let Some(again) = self.probe_after_change() {
            due = Some(due.map_or(again, |due| due.min(again)));
        }
        let wait = if more {
            Duration::ZERO
        } else {
            due.map_or(Duration::from_secs(60), |due| due.since(now()))
        };
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let (readable, changed) = {
            let mut fds = vec![
                PollFd::new(&self.outlet.socket, PollFlags::IN),
                PollFd::new(&self.shared.bell, PollFlags::IN),
            ];
            if let Some(changes) = &self.changes {
                fds.push(PollFd::from_borrowed_fd(changes.as_fd(), PollFlags::IN));
            }
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
            if is_ready(1) {
                let _ = rustix::io::read(&self.shared.bell, &mut [0u8; 8]);
            }
            (is_ready(0), is_ready(2))
        };
        self.shared.rung.store(false, Ordering::Release);
        if changed && self.changes.as_ref().is_some_and(Changes::take) {
            self.network_changed();
        }
        if readable {
            self.receive(buffers);
        }
        self.tell();
        Ok(())
    }

    fn network_changed(&mut self) {
        tracing::debug!("links, addresses or routes have changed");
        self.changed = Some((now(), 0));
        let mut state = self.shared.lock();
        if !std::mem::replace(&mut self.is_up, true) {
            state.endpoint.set_interface(now(), true);
        } else {
            state.endpoint.network_changed(now());
        }
    }

    /// Probes once more after a change, if it is time; gives when the next time is.
    fn probe_after_change(&mut self) -> Option<Instant> {
        let (changed, probes) = self.changed?;
        let next = AFTER_CHANGE.get(probes).map(|&wait| changed.after(wait));
        let Some(next) = next else {
            self.changed = None;
            return None;
        };
        if next > now() {
            return Some(next);
        }
        self.changed = Some((changed, probes + 1));
        self.shared.lock().endpoint.probe(now());
        Some(now())
    }

    fn receive(&mut self, buffers: &mut [Vec<u8>; BATCH]) {
        // Not for ever: what is to be sent waits meanwhile.
        for _ in 0..8 {
            let mut state = None;
            let shared = &self.shared;
            let result = self.outlet.socket.receive(buffers, |path, datagram, marked| {
                let state = state.get_or_insert_with(|| shared.lock());
                if let Err(reason) = state.endpoint.handle(now(), path, datagram, marked) {
                    tracing::trace!(?path, reason = reason.name(), "dropped");
                }
            });
            if result.is_err() {
                // Errors of earlier sends turn up here too; the protocol's timers deal with them.
                break;
            }
        }
    }

    /// Tells the application what has happened. Who waits is woken up only when the lock is free again.
    fn tell(&mut self) {
        let mut waiting: Vec<Arc<Condvar>> = Vec::new();
        let mut wakers: Vec<Waker> = Vec::new();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        while let Some((flow, event)) = state.endpoint.poll() {
            tracing::debug!(?flow, ?event);
            let status = state.flows.entry(flow).or_default();
            match event {
                Event::Incoming => {
                    status.connected = true;
                    state.incoming.push_back(flow);
                    self.shared.accepted.notify_one();
                    wakers.append(&mut state.accept_wakers);
                }
                Event::ServerKey(key) => status.server_key = Some(key),
                Event::Answered | Event::Connected => status.connected = true,
                Event::Suspended => status.suspended = true,
                Event::Resumed => status.suspended = false,
                Event::Moved | Event::Restarted => {
                    if let Some(keeper) = &self.shared.keeper {
                        keeper.refresh(flow);
                    }
                }
                Event::Readable | Event::Writable => {}
                Event::Closed(reason) => {
                    status.closed = Some(reason);
                    if let Some(keeper) = &self.shared.keeper {
                        keeper.remove(flow);
                    }
                }
            }
            if status.waiting > 0 {
                waiting.push(Arc::clone(&status.changed));
            }
            wakers.append(&mut status.wakers);
            if status.closed.is_some() && !status.held && !state.incoming.contains(&flow) {
                state.flows.remove(&flow);
                state.endpoint.forget(flow);
            }
        }
        drop(guard);
        waiting.iter().for_each(|changed| changed.notify_all());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sends what there is; gives whether there may be more at once.
    fn send(&mut self, out: &mut [u8]) -> io::Result<bool> {
        let most = self.outlet.socket.most_segments();
        for _ in 0..4 {
            let mut trains: Vec<Train> = Vec::new();
            let mut used = 0;
            {
                let mut state = self.shared.lock();
                let now = now();
                while let Some(place) = out.get_mut(used..).filter(|place| place.len() > 2048) {
                    let Some(sent) = state.endpoint.transmit(now, place) else { break };
                    used += sent.octets;
                    match trains.last_mut() {
                        // Segments are of one size, but for the last.
                        Some(train)
                            if train.path == sent.path
                                && train.octets.is_multiple_of(train.segment)
                                && sent.octets <= train.segment
                                && train.octets / train.segment < most
                                && train.octets + sent.octets <= GSO_OCTETS =>
                        {
                            train.octets += sent.octets;
                        }
                        _ => trains.push(Train {
                            path: sent.path,
                            segment: sent.octets,
                            octets: sent.octets,
                        }),
                    }
                }
            }
            if trains.is_empty() {
                // What timers have brought about.
                self.tell();
                return Ok(false);
            }
            let mut rest = out.get(..used).unwrap_or(&[]);
            for train in trains {
                let (octets, behind) = rest.split_at_checked(train.octets).unwrap_or((rest, &[]));
                rest = behind;
                self.send_train(train.path, octets, train.segment);
            }
            self.tell();
        }
        Ok(true)
    }

    fn send_train(&mut self, path: PathAddress, octets: &[u8], segment: usize) {
        let counters = &self.shared.sending;
        match self.outlet.send(now(), path, octets, segment, counters) {
            Outcome::Done => {}
            // The kernel will say when there is a route.
            Outcome::NoRoute if self.changes.is_some() => {
                if std::mem::replace(&mut self.is_up, false) {
                    tracing::debug!("no network");
                    self.shared.lock().endpoint.set_interface(now(), false);
                }
            }
            Outcome::NoRoute => {}
            Outcome::Reopened => self.shared.lock().endpoint.network_changed(now()),
        }
    }
}

/// Whether no flow still says goodbye, or anything else.
fn says_nothing(endpoint: &core::Endpoint<'_>) -> bool {
    let is_silent = |flow: FlowId| {
        matches!(endpoint.phase(flow), None | Some(Phase::Closed | Phase::Suspended))
    };
    endpoint.flows().all(is_silent)
}

fn notify(status: &mut Status) {
    status.changed.notify_all();
    status.wakers.drain(..).for_each(Waker::wake);
}
