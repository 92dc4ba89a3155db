//! Writes tickets while flows live: a thread of its own, since disks are slow and packets do not wait for them.

use crate::shared::{Shared, State, Status, now};
use crate::tickets::{Ids, Store};
use heddle_core::dtp::modern::{FlowId, Role};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// The stream that a ticket's note is about.
const STREAM: u32 = 0;

/// What the keeper is asked for.
pub(crate) enum Task {
    /// The application keeps that many octets, and wants to find its note again.
    Commit { flow: FlowId, received: u64, note: Vec<u8>, done: Sender<io::Result<()>> },
    /// The peer has moved, or an end has restarted.
    Refresh(FlowId),
    /// The flow is gone.
    Remove(FlowId),
}

/// What is known of the disk before the endpoint is made.
pub(crate) struct Opened {
    path: PathBuf,
    /// Nothing until there is something to write, for a client.
    store: Option<Store>,
    pub ids: Ids,
    /// Flows that were restored, with their notes.
    kept: HashMap<FlowId, (u64, Vec<u8>)>,
}

/// The way to the thread.
pub(crate) struct Keeper(Sender<Task>);

impl Opened {
    /// Opens the directory. A client's is made when there is something to write.
    pub fn new(path: &Path, is_server: bool) -> io::Result<Self> {
        let fresh = Ids::new()?;
        let store = if is_server || path.exists() { Some(Store::open(path)?) } else { None };
        let ids = match &store {
            Some(store) => store.begin(&fresh)?,
            None => fresh,
        };
        Ok(Self { path: path.to_owned(), store, ids, kept: HashMap::new() })
    }

    /// Makes the flows again whose tickets are there. Each ticket is counted up on the disk first.
    pub fn restore(&mut self, state: &mut State) -> io::Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        for saved in store.tickets()? {
            let flow = saved.ticket.flow();
            let result = saved.ticket.count_up().map_err(|error| error.name().to_owned()).and_then(
                |ticket| {
                    store.save(&ticket, &saved.note).map_err(|error| error.to_string())?;
                    state.endpoint.restore(now(), &ticket).map_err(|error| error.name().to_owned())
                },
            );
            if let Err(why) = result {
                store.refuse(flow, &why);
                continue;
            }
            let received = saved.ticket.delivered(STREAM).unwrap_or(0);
            tracing::info!(?flow, received, restarts = saved.ticket.restarts() + 1, "restored");
            let status = Status {
                connected: true,
                suspended: true,
                note: Some(saved.note.clone()),
                ..Status::default()
            };
            state.flows.insert(flow, status);
            match saved.ticket.role() {
                Role::Server => state.incoming.push_back(flow),
                Role::Client => state.restored.push_back(flow),
            }
            self.kept.insert(flow, (received, saved.note));
        }
        Ok(())
    }

    /// Starts the thread, which ends with the endpoint.
    pub fn start(self, tasks: Receiver<Task>, shared: &Arc<Shared>) -> io::Result<()> {
        let mut thread = Thread { opened: self, shared: Arc::downgrade(shared) };
        std::thread::Builder::new().name("dtp-tickets".into()).spawn(move || {
            while let Ok(task) = tasks.recv() {
                thread.work(task);
            }
        })?;
        Ok(())
    }
}

impl Keeper {
    /// A way to a thread that [`Opened::start`] starts.
    pub fn new() -> (Self, Receiver<Task>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Writes the flow's ticket: the application keeps `received` octets, and `note`.
    ///
    /// # Errors
    /// Those of files, [`ErrorKind::NotConnected`] when the flow is gone.
    pub fn commit(&self, flow: FlowId, received: u64, note: &[u8]) -> io::Result<()> {
        let (done, result) = channel();
        let gone = || io::Error::from(ErrorKind::NotConnected);
        let task = Task::Commit { flow, received, note: note.to_vec(), done };
        self.0.send(task).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }

    /// The ticket may say where the peer was, and not where it is.
    pub fn refresh(&self, flow: FlowId) {
        // Without the thread there are no tickets any more.
        let _ = self.0.send(Task::Refresh(flow));
    }

    /// The flow is gone.
    pub fn remove(&self, flow: FlowId) {
        let _ = self.0.send(Task::Remove(flow));
    }
}

struct Thread {
    opened: Opened,
    shared: Weak<Shared>,
}

impl Thread {
    fn work(&mut self, task: Task) {
        match task {
            Task::Commit { flow, received, note, done } => {
                self.opened.kept.insert(flow, (received, note));
                // Nobody may wait for it any more.
                let _ = done.send(self.save(flow));
            }
            Task::Refresh(flow) if self.opened.kept.contains_key(&flow) => {
                if let Err(error) = self.save(flow) {
                    tracing::debug!(?flow, %error, "the ticket stays as it was");
                }
            }
            Task::Refresh(_) => {}
            Task::Remove(flow) => {
                self.opened.kept.remove(&flow);
                if let Some(store) = &self.opened.store {
                    store.remove(flow);
                }
            }
        }
    }

    fn save(&mut self, flow: FlowId) -> io::Result<()> {
        let Opened { path, store, ids, kept } = &mut self.opened;
        let (received, note) = kept.get(&flow).ok_or(ErrorKind::NotConnected)?;
        let ticket = self.shared.upgrade().and_then(|shared| shared.lock().endpoint.ticket(flow));
        let Some(mut ticket) = ticket else {
            kept.remove(&flow);
            return Err(ErrorKind::NotConnected.into());
        };
        ticket.set_delivered(STREAM, *received);
        let store = match store {
            Some(store) => store,
            None => {
                let opened = Store::open(path)?;
                *ids = opened.begin(ids)?;
                store.insert(opened)
            }
        };
        store.save(&ticket, note)
    }
}
