//! Endpoints: how one is made, and what it tells of its flows.

use crate::driver::{Worker, says_nothing};
use crate::keeper::{Keeper, Opened};
use crate::live::LivePhase;
use crate::netlink::Changes;
use crate::outlet::{Outlet, SendCounters};
use crate::settings::Settings;
use crate::shared::{Shared, State, now};
use crate::socket::{Udp, address_of};
use crate::tickets::Ids;
use heddle_core::dtp::modern as core;
use heddle_core::dtp::modern::{
    Active, Config, Counter, Flow, FlowId, Memory, ModernError, Phase, Sent, Suite,
};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

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
            received: (now(), 0, 0),
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
