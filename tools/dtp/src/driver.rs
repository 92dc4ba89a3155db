//! The thread between the kernel and the protocol.

use crate::netlink::Changes;
use crate::outlet::{Outcome, Outlet};
use crate::shared::{Shared, Status, now};
use crate::socket::{BATCH, Udp};
use heddle_core::dtp::modern as core;
use heddle_core::dtp::modern::{CloseReason, Event, FlowId, PathAddress, Phase};
use heddle_core::node::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar};
use std::task::Waker;
use std::time::Duration;

/// Octets that one call may hand to the kernel.
const GSO_OCTETS: usize = 60_000;

/// Datagrams that follow each other more closely than this are waited for when a wake-up has brought many, so that the next one serves many too: as
/// NICs moderate their interrupts. Above so many octets of one wake-up the next is not put off.
const MANY_DATAGRAMS: usize = 8;
const MODERATION: Duration = Duration::from_millis(1);
const PLENTY_OCTETS: usize = 128 << 10;

/// After a change of the network flows that wait are probed again at these times: a link that is up may not carry anything yet.
const AFTER_CHANGE: [Duration; 4] = [
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
];

pub(crate) struct Worker {
    pub shared: Arc<Shared>,
    pub outlet: Outlet<Udp>,
    pub changes: Option<Changes>,
    pub is_up: bool,
    /// When the network last changed, and how many probes have followed.
    pub changed: Option<(Instant, usize)>,
    /// When datagrams last came, how many, and their octets.
    pub received: (Instant, usize, usize),
}

/// Datagrams of one size to one place.
struct Train {
    path: PathAddress,
    segment: usize,
    octets: usize,
}

impl Worker {
    pub fn run(mut self) {
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
        self.moderate(wait);
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

    /// Lets datagrams gather while many come, for no longer than `most`.
    fn moderate(&self, most: Duration) {
        let (when, datagrams, octets) = self.received;
        let since = now().since(when);
        if datagrams >= MANY_DATAGRAMS && octets < PLENTY_OCTETS && since < MODERATION {
            std::thread::sleep((MODERATION - since).min(most));
        }
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
        let (mut datagrams, mut octets) = (0, 0);
        for _ in 0..8 {
            let mut state = None;
            let shared = &self.shared;
            let result = self.outlet.socket.receive(buffers, |path, datagram, marked| {
                let state = state.get_or_insert_with(|| shared.lock());
                datagrams += 1;
                octets += datagram.len();
                if let Err(reason) = state.endpoint.handle(now(), path, datagram, marked) {
                    tracing::trace!(?path, reason = reason.name(), "dropped");
                }
            });
            if result.is_err() {
                // Errors of earlier sends turn up here too; the protocol's timers deal with them.
                break;
            }
        }
        self.received = (now(), datagrams, octets);
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
pub(crate) fn says_nothing(endpoint: &core::Endpoint<'_>) -> bool {
    let is_silent = |flow: FlowId| {
        matches!(endpoint.phase(flow), None | Some(Phase::Closed | Phase::Suspended))
    };
    endpoint.flows().all(is_silent)
}

fn notify(status: &mut Status) {
    status.changed.notify_all();
    status.wakers.drain(..).for_each(Waker::wake);
}
