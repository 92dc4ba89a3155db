//! The controller as a state machine: octets of switches and datagrams of islands in, octets for switches out.
//!
//! The driver owns sockets and time. It calls [`Controller::connect`], [`Controller::receive`] and [`Controller::disconnect`] as
//! connections come, speak and go, [`Controller::datagram`] for what islands send directly, and [`Controller::tick`] at
//! [`Controller::deadline`]. Afterwards it sends what [`Controller::take_output`] gives, closes what [`Controller::take_closed`] names,
//! and saves what [`Controller::take_state`] gives.

use std::collections::BTreeMap;
use std::time::Duration;

use heddle_core::node::Instant;

use super::config::{Config, DatapathId, Island, Matching, Mode};
use super::counters::Counters;
use super::flows::{self, Finder};
use super::rib::{IslandIndex, Rib, Route};
use super::store::{State, StoredRoute};
use super::switch::{Stage, Switch};
use crate::{
    Body, Command, Experiment, FlowMod, Hello, Message, Refusal, Reply, ReplyBody, Request, Role,
    SwitchConfig,
};

/// How long routes of an earlier run hold until they are announced again.
const RESTART_GRACE: Duration = Duration::from_secs(5);

/// How long a changed state may wait to be saved, so that many changes are one save.
const SAVE_WITHIN: Duration = Duration::from_millis(50);

/// Signs of life that may be missing, one after the other.
const MAX_SILENCE: u32 = 3;

/// Octets of a program that one message carries; longer ones come in parts.
const PART_OCTETS: usize = 32_768;

/// A connection from a switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// The controller.
#[derive(Debug)]
pub struct Controller {
    pub(super) config: Config,
    program: Vec<u8>,
    generation: u64,
    pub(super) rib: Rib,
    pub(super) switches: BTreeMap<ConnectionId, Switch>,
    next_connection: u64,
    next_epoch: u16,
    closed: Vec<ConnectionId>,
    pub(super) counters: Counters,
    /// Since when what is saved is not what is.
    pub(super) changed: Option<Instant>,
}

impl Controller {
    /// A controller that goes on from `state`; `program` is the ELF file of the configuration's program.
    pub fn new(now: Instant, config: Config, program: Vec<u8>, state: Option<State>) -> Self {
        let state = state.unwrap_or_default();
        let mut rib = Rib::default();
        for (index, island) in config.islands.iter().enumerate() {
            for name in &island.names {
                let route = Route { cost: name.cost, until: None };
                rib.announce(index, &name.name, route, usize::MAX);
            }
        }
        for stored in &state.routes {
            // Islands that the configuration no longer knows are forgotten.
            let index = config.islands.iter().position(|island| island.name == stored.island);
            if let Some(index) = index {
                let until = config.hold().map(|hold| now.after(hold.max(RESTART_GRACE)));
                let route = Route { cost: stored.cost, until };
                rib.announce(index, &stored.name, route, config.max_names);
            }
        }
        Self {
            config,
            program,
            generation: state.generation + 1,
            rib,
            switches: BTreeMap::new(),
            next_connection: 0,
            next_epoch: 0,
            closed: Vec::new(),
            counters: Counters::default(),
            // This start is news, too.
            changed: Some(now),
        }
    }

    /// What has been counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The routes.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// Flows for names on all switches together.
    pub fn installed_flows(&self) -> usize {
        self.switches.values().map(|switch| switch.flows.len()).sum()
    }

    /// Switches that are set up.
    pub fn ready_switches(&self) -> Vec<DatapathId> {
        let ready = self.switches.values().filter(|switch| switch.stage == Stage::Ready);
        ready.filter_map(|switch| switch.datapath_id).collect()
    }

    /// A switch has connected.
    pub fn connect(&mut self, now: Instant) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.counters.connections += 1;
        let mut switch = Switch::new(now);
        switch.send(Body::Hello(Hello::ours()));
        self.switches.insert(id, switch);
        id
    }

    /// A connection has ended.
    pub fn disconnect(&mut self, now: Instant, id: ConnectionId) {
        if let Some(gone) = self.switches.remove(&id) {
            self.reconsider_islands(now, &gone.islands);
        }
    }

    /// Octets have come in on a connection.
    pub fn receive(&mut self, now: Instant, id: ConnectionId, octets: &[u8]) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        switch.heard = now;
        switch.framer.push(octets);
        while let Some(switch) = self.switches.get_mut(&id) {
            let (octets, message) = match switch.framer.next_message() {
                Ok(Some(octets)) => (octets.to_vec(), Message::decode(octets)),
                Ok(None) => return,
                Err(_) => {
                    self.counters.connections_broken += 1;
                    return self.close(now, id);
                }
            };
            match message {
                Ok(message) => {
                    if self.handle(now, id, message).is_err() {
                        self.counters.connections_broken += 1;
                        return self.close(now, id);
                    }
                }
                // Messages of extensions that nobody here asked for.
                Err(_) if switch.stage == Stage::Ready => self.counters.messages_unexpected += 1,
                Err(refusal) => {
                    let error = Message::refusing(&octets, refusal);
                    switch.answer(error.xid, error.body);
                    self.counters.messages_unexpected += 1;
                }
            }
        }
    }

    fn close(&mut self, now: Instant, id: ConnectionId) {
        self.closed.push(id);
        self.disconnect(now, id);
    }

    fn handle(&mut self, now: Instant, id: ConnectionId, message: Message) -> Result<(), Refusal> {
        let Some(switch) = self.switches.get_mut(&id) else { return Ok(()) };
        let (version, xid) = (message.version, message.xid);
        if switch.stage == Stage::Hello && !matches!(message.body, Body::Hello(_)) {
            return Err(Refusal::INCOMPATIBLE);
        }
        match message.body {
            Body::Hello(hello) => {
                hello.negotiate(version)?;
                if switch.stage == Stage::Hello {
                    switch.stage = Stage::Features;
                    switch.send(Body::FeaturesRequest);
                }
            }
            Body::FeaturesReply(features) if switch.stage == Stage::Features => {
                self.identify(now, id, DatapathId(features.datapath_id));
            }
            Body::EchoRequest(data) => switch.answer(xid, Body::EchoReply(data)),
            Body::EchoReply(_) | Body::RoleReply(..) | Body::FlowRemoved(_) => {}
            Body::MultipartReply(Reply { body: ReplyBody::Ports(ports), more }) => {
                ports.iter().for_each(|port| switch.note_port(port, false));
                switch.ports.get_or_insert_default();
                if !more {
                    self.go_on(now, id);
                }
            }
            Body::MultipartReply(Reply { body: ReplyBody::Programs(_), more }) => {
                if !more && xid == switch.probe {
                    self.probed(now, id, true);
                }
            }
            Body::PortStatus(status) => {
                switch.note_port(&status.port, status.reason == 1);
                let islands = switch.islands.clone();
                self.reconsider_islands(now, &islands);
            }
            Body::PacketIn(packet) => self.packet_in(now, id, packet),
            Body::BarrierReply => self.confirmed(id, xid),
            Body::Experimenter(Experiment::Acknowledge { .. }) => {
                if switch.stage == Stage::Program && xid == switch.probe {
                    self.set_up(now, id);
                }
            }
            Body::Error { refusal, .. } => self.refused(now, id, xid, refusal),
            _ => self.counters.messages_unexpected += 1,
        }
        Ok(())
    }

    /// The switch has said who it is.
    fn identify(&mut self, now: Instant, id: ConnectionId, datapath_id: DatapathId) {
        let is_same = |(other, switch): &(&ConnectionId, &Switch)| {
            **other != id && switch.datapath_id == Some(datapath_id)
        };
        let earlier: Vec<_> = self.switches.iter().filter(is_same).map(|(id, _)| *id).collect();
        for earlier in earlier {
            self.counters.connections_replaced += 1;
            self.close(now, earlier);
        }
        let is_behind = |(_, island): &(IslandIndex, &Island)| island.datapath_id == datapath_id;
        let islands: Vec<IslandIndex> = self
            .config
            .islands
            .iter()
            .enumerate()
            .filter(is_behind)
            .map(|(index, _)| index)
            .collect();
        let Some(switch) = self.switches.get_mut(&id) else { return };
        switch.datapath_id = Some(datapath_id);
        if islands.is_empty() {
            self.counters.switches_unknown += 1;
            return;
        }
        switch.islands = islands;
        switch.send(Body::RoleRequest(Role::Master, self.generation));
        switch.send(Body::SetConfig(SwitchConfig { flags: 0, miss_send_len: u16::MAX }));
        switch.send(Body::MultipartRequest(Request::Ports, false));
        switch.probe = switch.send(Body::MultipartRequest(Request::Programs, false));
    }

    /// Whether the switch knows our experimenter.
    fn probed(&mut self, now: Instant, id: ConnectionId, knows_names: bool) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        if switch.is_probed {
            return;
        }
        switch.is_probed = true;
        switch.finder = match (knows_names, self.config.matching, &self.config.program) {
            (false, ..) => None,
            (true, Matching::Program, Some(program)) => Some(Finder::Program(program.id)),
            (true, ..) => Some(Finder::Name),
        };
        self.go_on(now, id);
    }

    /// Goes on once the switch's ports and abilities are known.
    fn go_on(&mut self, now: Instant, id: ConnectionId) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        if switch.stage != Stage::Features || !switch.is_probed || switch.ports.is_none() {
            return;
        }
        let Some(Finder::Program(program)) = switch.finder else {
            return self.set_up(now, id);
        };
        switch.stage = Stage::Program;
        self.counters.programs_sent += 1;
        let total_len = self.program.len();
        if total_len <= PART_OCTETS {
            let octets = self.program.clone();
            switch.probe = switch.send(Body::Experimenter(Experiment::Put { program, octets }));
            return;
        }
        for (number, part) in self.program.chunks(PART_OCTETS).enumerate() {
            let part = Experiment::PutPart {
                program,
                total_len: total_len as u32,
                offset: (number * PART_OCTETS) as u32,
                octets: part.to_vec(),
            };
            // The last one's answer is that of the whole.
            switch.probe = switch.send(Body::Experimenter(part));
        }
    }

    fn refused(&mut self, now: Instant, id: ConnectionId, xid: u32, refusal: Refusal) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        if !switch.is_probed && xid == switch.probe {
            return self.probed(now, id, false);
        }
        self.counters.errors_from_switches += 1;
        let (datapath_id, stage) = (switch.datapath_id, switch.stage);
        tracing::warn!("switch {} refuses: {refusal}", datapath_id.unwrap_or(DatapathId(0)));
        if let Some(key) = switch.unconfirmed.remove(&xid) {
            // It is not there; Interests for it go through the controller where they come here at all.
            switch.flows.remove(&key);
        }
        if stage == Stage::Program && xid == switch.probe {
            // Without the program it is a switch that knows no names.
            switch.finder = None;
            self.set_up(now, id);
        }
    }

    /// Sends all flows that the switch is to have, and takes away what it has from before.
    fn set_up(&mut self, now: Instant, id: ConnectionId) {
        self.next_epoch = self.next_epoch.wrapping_add(1);
        let epoch = (self.generation as u32) << 16 | u32::from(self.next_epoch);
        let Some(switch) = self.switches.get_mut(&id) else { return };
        self.counters.switches_set_up += 1;
        switch.stage = Stage::Ready;
        switch.epoch = epoch;
        let islands: Vec<&Island> =
            switch.islands.iter().filter_map(|index| self.config.islands.get(*index)).collect();
        // A switch that knows no names leaves the look-up to the controller in either mode.
        let asks = self.config.mode == Mode::Reactive || switch.finder.is_none();
        for flow in flows::base(&self.config, &islands, epoch, asks) {
            switch.send(Body::FlowMod(flow));
        }
        if self.config.mode == Mode::Proactive {
            let prefixes: Vec<_> = self.rib.iter().map(|(prefix, _)| prefix.clone()).collect();
            for prefix in &prefixes {
                self.update(id, prefix);
            }
        }
        let Some(switch) = self.switches.get_mut(&id) else { return };
        switch.send(Body::BarrierRequest);
        for flow in flows::delete_other_epochs(epoch) {
            switch.send(Body::FlowMod(flow));
        }
        switch.send(Body::BarrierRequest);
        let (datapath_id, islands) = (switch.datapath_id, switch.islands.clone());
        let abilities = match switch.finder {
            None => "knows no names",
            Some(Finder::Name) => "matches names",
            Some(Finder::Program(_)) => "runs the program",
        };
        tracing::info!("switch {} is set up: it {abilities}", datapath_id.unwrap_or(DatapathId(0)));
        self.reconsider_islands(now, &islands);
    }

    /// Sends a change of a flow for a name.
    pub(super) fn send_flow(
        &mut self,
        id: ConnectionId,
        key: super::switch::FlowKey,
        flow: FlowMod,
    ) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        let is_add = flow.command == Command::Add;
        let xid = switch.send(Body::FlowMod(flow));
        if is_add {
            self.counters.flows_added += 1;
            switch.unconfirmed.insert(xid, key);
        } else {
            self.counters.flows_deleted += 1;
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        let expired = self.rib.expire(now);
        if !expired.is_empty() {
            self.counters.names_expired += expired.len() as u64;
            self.note_change(now);
            self.reconsider(&expired);
        }
        let echo = Duration::from_millis(self.config.echo_ms);
        let mut silent = Vec::new();
        for (id, switch) in &mut self.switches {
            let silence = now.since(switch.heard);
            if silence >= echo * MAX_SILENCE {
                silent.push(*id);
            } else if silence >= echo && now.since(switch.asked) >= echo {
                switch.asked = now;
                switch.send(Body::EchoRequest(Vec::new()));
            }
        }
        for id in silent {
            self.counters.connections_silent += 1;
            self.close(now, id);
        }
    }

    /// When [`Controller::tick`] is to be called, at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let echo = Duration::from_millis(self.config.echo_ms);
        let lives = self.switches.values().flat_map(|switch| {
            let ask = switch.heard.max(switch.asked).after(echo);
            [ask, switch.heard.after(echo * MAX_SILENCE)]
        });
        let save = self.changed.map(|since| since.after(SAVE_WITHIN));
        lives.chain(self.rib.next_end()).chain(save).min()
    }

    /// Octets to send on each connection.
    pub fn take_output(&mut self) -> Vec<(ConnectionId, Vec<u8>)> {
        let all = self.switches.iter_mut().map(|(id, switch)| (*id, switch.take_output()));
        all.filter(|(_, octets)| !octets.is_empty()).collect()
    }

    /// Connections to close.
    pub fn take_closed(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.closed)
    }

    /// The state to save, when it has changed and that was a moment ago.
    pub fn take_state(&mut self, now: Instant) -> Option<State> {
        let since = self.changed?;
        if now < since.after(SAVE_WITHIN) {
            return None;
        }
        self.changed = None;
        Some(self.state())
    }

    /// What a controller that starts after this one goes on with.
    pub fn state(&self) -> State {
        let routes = self.rib.iter().flat_map(|(prefix, routes)| {
            let announced = routes.iter().filter(|(index, _)| !self.is_static(**index, prefix));
            announced.filter_map(|(index, route)| {
                let island = self.config.islands.get(*index)?.name.clone();
                Some(StoredRoute { island, name: prefix.clone(), cost: route.cost })
            })
        });
        State::new(self.generation, routes.collect())
    }

    pub(super) fn note_change(&mut self, now: Instant) {
        self.changed.get_or_insert(now);
    }
}
