//! A switch as the controller knows it: its connection, its ports and what was sent to it.

use std::collections::{BTreeMap, HashMap};

use heddle_core::node::Instant;

use super::config::DatapathId;
use super::flows::Finder;
use super::name::Prefix;
use super::rib::IslandIndex;
use crate::{Action, Body, Framer, Message, Port, PortNumber};

/// Packets that wait at the controller for flows of one switch, at most. Others are sent at once.
pub const MAX_WAITING: usize = 256;

/// OFPPC_PORT_DOWN, OFPPS_LINK_DOWN.
const DOWN: u32 = 1;

/// A flow for a name: for Interests from which island.
pub type FlowKey = (IslandIndex, Prefix);

/// How far a connection is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No hello yet.
    Hello,
    /// Who are you, and what can you do?
    Features,
    /// Waits until the program has arrived.
    Program,
    /// Set up.
    Ready,
}

/// A packet that waits until its flow is there.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub buffer: u32,
    pub in_port: PortNumber,
    pub actions: Vec<Action>,
    pub data: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub struct Switch {
    pub stage: Stage,
    pub framer: Framer,
    pub datapath_id: Option<DatapathId>,
    /// What it is asked about names with; nothing for a switch that knows no names.
    pub finder: Option<Finder>,
    /// Whether the question for programs has been answered.
    pub is_probed: bool,
    /// Its ports, once told: whether they are up.
    pub ports: Option<BTreeMap<u32, bool>>,
    /// The islands behind it.
    pub islands: Vec<IslandIndex>,
    /// Its flows for names, and to which island each leads.
    pub flows: HashMap<FlowKey, IslandIndex>,
    /// The transactions of flows that no barrier has confirmed.
    pub unconfirmed: HashMap<u32, FlowKey>,
    /// Packets behind barriers, by the barrier's transaction.
    pub waiting: BTreeMap<u32, (FlowKey, Vec<Waiting>)>,
    pub epoch: u32,
    pub heard: Instant,
    pub asked: Instant,
    pub probe: u32,
    next_xid: u32,
    out: Vec<u8>,
}

impl Switch {
    pub fn new(now: Instant) -> Self {
        Self {
            stage: Stage::Hello,
            framer: Framer::default(),
            datapath_id: None,
            finder: None,
            is_probed: false,
            ports: None,
            islands: Vec::new(),
            flows: HashMap::new(),
            unconfirmed: HashMap::new(),
            waiting: BTreeMap::new(),
            epoch: 0,
            heard: now,
            asked: now,
            probe: 0,
            next_xid: 0,
            out: Vec::new(),
        }
    }

    /// Sends a message; its transaction.
    pub fn send(&mut self, body: Body) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1).max(1);
        self.answer(self.next_xid, body);
        self.next_xid
    }

    /// Sends a message of a transaction that the other side began.
    pub fn answer(&mut self, xid: u32, body: Body) {
        // Only programs can be too long for a message, and those are sent in parts.
        if let Ok(octets) = Message::new(xid, body).encode() {
            self.out.extend(octets);
        }
    }

    /// Takes what is to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Notes a port; what it was before, if that is known.
    pub fn note_port(&mut self, port: &Port, is_deleted: bool) {
        let is_up = !is_deleted && port.config & DOWN == 0 && port.state & DOWN == 0;
        self.ports.get_or_insert_default().insert(port.number, is_up);
    }

    /// Whether a port is there and up.
    pub fn is_port_up(&self, number: u32) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.get(&number) == Some(&true))
    }

    /// The barrier that packets of this flow wait for.
    pub fn barrier_of(&self, key: &FlowKey) -> Option<u32> {
        self.waiting.iter().find(|(_, (of, _))| of == key).map(|(xid, _)| *xid)
    }

    /// The number of packets that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.values().map(|(_, packets)| packets.len()).sum()
    }
}
