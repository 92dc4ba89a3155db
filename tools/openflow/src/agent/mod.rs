//! The switch's side of OpenFlow 1.3, as a state machine: octets from controllers in, octets for them out.
//!
//! The driver owns sockets and time. It calls [`Agent::connect`] for a new connection, [`Agent::receive`] for what came in on one,
//! [`Agent::tick`] now and then, and sends what each [`Outcome`] says. What controllers want of the switch goes to its [`Datapath`].
//!
//! No call takes long: what concerns many flows is done a step at a time, with each [`Agent::tick`] ([`Agent::is_busy`] tells that there is
//! more to do). Meanwhile the connection that asked for it is not heard ([`Agent::wants_input`]); all others are.

mod answer;
mod change;
mod connection;
mod events;
mod features;
mod flows;
mod groups;
mod jobs;
mod ports;
mod programs;
mod translate;
mod wanted;

use crate::datapath::Datapath;
use crate::port::{Port, PortNumber};
use crate::stats::Description;
use crate::{
    ALL_TABLES, Action, Body, Features, Message, MeterMod, NO_BUFFER, PacketOut, Refusal, Role,
    SwitchConfig,
};
use connection::Connection;
use flows::Flows;
use groups::Group;
use heddle_core::flow::MAX_TABLES;
use heddle_core::node::{Instant, PortId};
use jobs::{Found, Job, Step};
use programs::{Programs, Trouble};
use std::collections::BTreeMap;
use translate::{Known, port_id};

/// Messages of one connection that are dealt with before the others have their turn.
const MESSAGES_A_TURN: usize = 256;
/// Flows whose time-outs are looked at in one tick.
const TIMEOUTS_A_TICK: usize = 1024;
/// Steps of work on many flows in one tick, for each connection.
const STEPS_A_TICK: usize = 4;

/// A connection to a controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u32);

/// What the driver has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Octets to send, in order.
    pub send: Vec<(ConnectionId, Vec<u8>)>,
    /// Connections to close once all is sent.
    pub close: Vec<ConnectionId>,
}

/// Everything that controllers know about a switch and it about them.
#[derive(Debug)]
pub struct Agent {
    /// What the switch says that it is.
    pub description: Description,
    /// Groups that the datapath has room for, as controllers are told.
    pub max_groups: u32,
    datapath_id: u64,
    ports: Vec<Port>,
    config: SwitchConfig,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u32,
    /// The highest generation that a master or slave has named.
    generation: Option<u64>,
    flows: Flows,
    groups: BTreeMap<u32, Group>,
    programs: Programs,
    max_flows: u32,
    invalid_ttl: Option<u16>,
    lost_packet_ins: u64,
    has_more: bool,
}

impl Agent {
    /// An agent for a switch with these ports, numbered as OpenFlow does: port 1 is [`PortId`] 0.
    pub fn new(datapath_id: u64, ports: Vec<Port>, max_flows: u32) -> Self {
        Self {
            description: Description::default(),
            max_groups: 256,
            datapath_id,
            ports,
            config: SwitchConfig { flags: 0, miss_send_len: 128 },
            connections: BTreeMap::new(),
            next_connection: 0,
            generation: None,
            flows: Flows::default(),
            groups: BTreeMap::new(),
            programs: Programs::default(),
            max_flows,
            invalid_ttl: None,
            lost_packet_ins: 0,
            has_more: false,
        }
    }

    /// The same, for controllers of older switches: it takes their match on programs, and does not acknowledge PUT.
    #[must_use]
    pub fn accepting_legacy(mut self) -> Self {
        self.flows.is_legacy = true;
        self
    }

    /// Begins with a controller: the connection and the hello to send.
    pub fn connect(&mut self) -> (ConnectionId, Vec<u8>) {
        let id = ConnectionId(self.next_connection);
        self.next_connection = self.next_connection.wrapping_add(1);
        self.connections.insert(id, Connection::new());
        (id, Message::encode_with(0, 0, |out| crate::Hello::ours().encode(out)))
    }

    /// Forgets a connection that is closed. Flows, groups and programs stay.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Whether both sides of a connection have said hello and agreed.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.is_open)
    }

    /// Whole messages that have come in on a connection.
    pub fn messages(&self, id: ConnectionId) -> u64 {
        self.connections.get(&id).map_or(0, |connection| connection.messages)
    }

    /// Whether more of a connection can be taken now.
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            connection.job.is_none() && !connection.is_behind && !connection.is_congested
        })
    }

    /// Whether something that came in on a connection is not dealt with yet.
    pub fn is_at_work(&self, id: ConnectionId) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| connection.job.is_some() || connection.is_behind)
    }

    /// Whether there is work left that the next [`Agent::tick`] does.
    pub fn is_busy(&self) -> bool {
        let is_busy = |connection: &Connection| match &connection.job {
            Some(job) => !(connection.is_congested && job.tells()),
            None => connection.is_behind && !connection.is_congested,
        };
        self.has_more || self.connections.values().any(is_busy)
    }

    /// Says whether what a connection has been sent waits to be read. While it does, no long answers and no packets are sent to it.
    pub fn set_congested(&mut self, id: ConnectionId, is_congested: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_congested = is_congested;
        }
    }

    /// Packets that controllers should have got but did not, because they read too slowly.
    pub const fn lost_packet_ins(&self) -> u64 {
        self.lost_packet_ins
    }

    /// Takes octets that came in on a connection.
    pub fn receive(
        &mut self,
        now: Instant,
        id: ConnectionId,
        octets: &[u8],
        datapath: &mut dyn Datapath,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.framer.push(octets);
            self.turn(now, id, datapath, &mut outcome);
        }
        outcome
    }

    /// Ends flows whose time is over, hands on what controllers have to know, and goes on with what takes long.
    pub fn tick(&mut self, now: Instant, datapath: &mut dyn Datapath) -> Outcome {
        let mut outcome = Outcome::default();
        let mut removed = Vec::new();
        self.has_more =
            self.flows.expire(now, TIMEOUTS_A_TICK, &mut self.programs, datapath, &mut removed);
        self.tell_removed(&removed, &mut outcome);
        while let Some(status) = self.next_changed_port(datapath) {
            self.tell_port(&status, &mut outcome);
        }
        self.tell_packets(datapath, &mut outcome);
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            self.turn(now, id, datapath, &mut outcome);
        }
        self.watch_ttl(datapath);
        outcome
    }

    /// Goes on with a connection: what it has asked for, then its next messages.
    fn turn(
        &mut self,
        now: Instant,
        id: ConnectionId,
        datapath: &mut dyn Datapath,
        outcome: &mut Outcome,
    ) {
        let mut messages = 0;
        let mut steps = 0;
        while let Some(connection) = self.connections.get_mut(&id) {
            if let Some(mut job) = connection.job.take() {
                if steps == STEPS_A_TICK || (connection.is_congested && job.tells()) {
                    connection.job = Some(job);
                    return;
                }
                steps += 1;
                if self.step(now, id, &mut job, datapath, outcome)
                    && let Some(connection) = self.connections.get_mut(&id)
                {
                    connection.job = Some(job);
                }
                continue;
            }
            if messages == MESSAGES_A_TURN || connection.is_congested {
                connection.is_behind = true;
                return;
            }
            messages += 1;
            connection.is_behind = false;
            let message = match connection.framer.next_message() {
                Ok(Some(message)) => {
                    connection.messages += 1;
                    message.to_vec()
                }
                Ok(None) => return,
                Err(refusal) => {
                    self.close(id, &[], refusal.into(), outcome);
                    return;
                }
            };
            let done = Message::decode(&message)
                .map_err(Trouble::from)
                .and_then(|decoded| self.handle(now, id, decoded, &message, datapath, outcome));
            if let Err(trouble) = done {
                if !self.is_open(id) || trouble.refusal == Refusal::INCOMPATIBLE {
                    self.close(id, &message, trouble, outcome);
                    return;
                }
                refuse(id, &message, trouble, outcome);
            }
        }
    }

    /// A step of what a connection has asked for. Whether more are to be done.
    fn step(
        &mut self,
        now: Instant,
        id: ConnectionId,
        job: &mut Job,
        datapath: &mut dyn Datapath,
        outcome: &mut Outcome,
    ) -> bool {
        let (mut messages, mut removed) = (Vec::new(), Vec::new());
        let mut found = Found { messages: &mut messages, removed: &mut removed };
        let step = job.step(now, &mut self.flows, &mut self.programs, datapath, &mut found);
        outcome.send.extend(messages.into_iter().map(|octets| (id, octets)));
        self.tell_removed(&removed, outcome);
        match step {
            Ok(Step::More) => true,
            Ok(Step::Done) => false,
            Err(refusal) => {
                refuse(id, &job.head, refusal.into(), outcome);
                false
            }
        }
    }

    fn close(&mut self, id: ConnectionId, message: &[u8], trouble: Trouble, outcome: &mut Outcome) {
        refuse(id, message, trouble, outcome);
        outcome.close.push(id);
        self.connections.remove(&id);
    }

    fn handle(
        &mut self,
        now: Instant,
        id: ConnectionId,
        message: Message,
        octets: &[u8],
        datapath: &mut dyn Datapath,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        let connection = self.connections.get_mut(&id).ok_or(Refusal::BAD_TYPE)?;
        let xid = message.xid;
        if let Body::Hello(hello) = &message.body {
            hello.negotiate(message.version)?;
            connection.is_open = true;
            return Ok(());
        }
        if !connection.is_open && !matches!(message.body, Body::Error { .. }) {
            return Err(Refusal::INCOMPATIBLE.into());
        }
        let changes = match &message.body {
            Body::FlowMod(_) | Body::GroupMod(_) | Body::PacketOut(_) | Body::SetConfig(_) => true,
            Body::PortMod(_) | Body::TableMod(_) | Body::MeterMod(_) => true,
            Body::Experimenter(message) => message.changes(),
            _ => false,
        };
        if changes && connection.role == Role::Slave {
            return Err(Refusal::IS_SLAVE.into());
        }
        let answer = match message.body {
            Body::EchoRequest(data) => Body::EchoReply(data),
            Body::FeaturesRequest => Body::FeaturesReply(Features {
                datapath_id: self.datapath_id,
                buffers: 0,
                tables: MAX_TABLES as u8,
                auxiliary_id: 0,
                // Flow, table, port and group statistics.
                capabilities: 0b1111,
            }),
            Body::GetConfigRequest => Body::GetConfigReply(self.config),
            Body::SetConfig(config) => {
                // Fragments of IP are neither dropped nor put together.
                if config.flags != 0 {
                    return Err(Refusal::CONFIG_FLAGS.into());
                }
                self.config = config;
                self.watch_ttl(datapath);
                return Ok(());
            }
            // Each message is done before the next one is looked at.
            Body::BarrierRequest => {
                datapath.barrier();
                Body::BarrierReply
            }
            Body::GetAsyncRequest => Body::GetAsyncReply(connection.events),
            Body::SetAsync(events) => {
                connection.events = events;
                self.watch_ttl(datapath);
                return Ok(());
            }
            Body::RoleRequest(role, generation) => self.change_role(id, role, generation)?,
            Body::FlowMod(change) => {
                let job = self.change_flows(now, &change, octets, datapath)?;
                self.begin(id, job);
                return Ok(());
            }
            Body::GroupMod(change) => {
                let job = self.change_group(now, change, datapath)?;
                self.begin(id, job);
                return Ok(());
            }
            Body::PortMod(change) => {
                let status = self.change_port(&change, datapath)?;
                self.tell_port(&status, outcome);
                return Ok(());
            }
            Body::TableMod(change) => {
                if change.table != ALL_TABLES && usize::from(change.table) >= MAX_TABLES {
                    return Err(Refusal::TABLE_TABLE.into());
                }
                // The two bits that had a meaning before OpenFlow 1.3 may be told.
                return if change.config & !3 == 0 {
                    Ok(())
                } else {
                    Err(Refusal::TABLE_CONFIG.into())
                };
            }
            Body::MeterMod(change) => return Err(refuse_meter(&change).into()),
            Body::QueuesRequest(port) => {
                let is_there = port == PortNumber::ANY || port_id(port, self.port_set()).is_some();
                if !is_there {
                    return Err(Refusal::QUEUE_PORT.into());
                }
                Body::QueuesReply(port, Vec::new())
            }
            Body::PacketOut(packet) => {
                self.packet_out(now, packet, datapath)?;
                return Ok(());
            }
            Body::MultipartRequest(_, true) => {
                return Err(Refusal::REQUEST_MULTIPART_BUFFER_OVERFLOW.into());
            }
            Body::MultipartRequest(request, false) => {
                if let Some(job) = self.answer_by_job(xid, &request)? {
                    self.begin(id, Some(job));
                    return Ok(());
                }
                let reply = self.answer(now, &request, datapath)?;
                let messages = reply.into_messages(xid).into_iter();
                outcome.send.extend(messages.map(|octets| (id, octets)));
                return Ok(());
            }
            Body::Experimenter(message) => {
                let is_legacy = self.flows.is_legacy;
                let parts = &mut connection.parts;
                for answer in self.programs.handle(message, parts, is_legacy, datapath)? {
                    send(id, xid, answer, outcome);
                }
                return Ok(());
            }
            Body::Error { .. } | Body::EchoReply(_) => return Ok(()),
            // The others are what switches say.
            _ => return Err(Refusal::BAD_TYPE.into()),
        };
        send(id, xid, answer, outcome);
        Ok(())
    }

    fn begin(&mut self, id: ConnectionId, job: Option<Job>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.job = job;
        }
    }

    /// OpenFlow 1.3.5, 6.3.5: one master at most, and no request older than one that was granted.
    fn change_role(
        &mut self,
        id: ConnectionId,
        role: Role,
        generation: u64,
    ) -> Result<Body, Refusal> {
        if matches!(role, Role::Master | Role::Slave) {
            // Generations wrap around; half of all are older.
            let is_stale = |seen: u64| (generation.wrapping_sub(seen) as i64) < 0;
            if self.generation.is_some_and(is_stale) {
                return Err(Refusal::ROLE_STALE);
            }
            self.generation = Some(generation);
        }
        if role == Role::Master {
            for other in self.connections.values_mut().filter(|other| other.role == Role::Master) {
                other.role = Role::Slave;
            }
        }
        let connection = self.connections.get_mut(&id).ok_or(Refusal::ROLE)?;
        if role != Role::NoChange {
            connection.role = role;
        }
        Ok(Body::RoleReply(connection.role, self.generation.unwrap_or(0)))
    }

    fn packet_out(
        &self,
        now: Instant,
        packet: PacketOut,
        datapath: &mut dyn Datapath,
    ) -> Result<(), Refusal> {
        if packet.buffer != NO_BUFFER {
            return Err(Refusal::BUFFER_UNKNOWN);
        }
        let ports = self.port_set();
        let in_port = match packet.in_port {
            // No port of the switch has this number, so none is left out of a flood.
            PortNumber::CONTROLLER => PortId(u8::MAX),
            port => port_id(port, ports).ok_or(Refusal::BAD_PORT)?,
        };
        // Through the tables, instead of by actions.
        if let [Action::Output { port: PortNumber::TABLE, .. }] = packet.actions[..] {
            datapath.resubmit(now, in_port, &packet.data);
            return Ok(());
        }
        let known = Known { ports, groups: &|group| self.groups.contains_key(&group.0) };
        datapath.packet_out(now, in_port, &known.actions(&packet.actions)?, &packet.data);
        Ok(())
    }
}

/// There are no meters and no room for any.
const fn refuse_meter(change: &MeterMod) -> Refusal {
    match change.command {
        0 => Refusal::METER_OUT_OF_METERS,
        1 | 2 => Refusal::METER_UNKNOWN_METER,
        _ => Refusal::METER_COMMAND,
    }
}

fn refuse(id: ConnectionId, message: &[u8], trouble: Trouble, outcome: &mut Outcome) {
    let mut error = Message::refusing(message, trouble.refusal);
    if let (Body::Error { data, .. }, Some(text)) = (&mut error.body, &trouble.text) {
        *data = crate::Experiment::error_data(text);
    }
    send(id, error.xid, error.body, outcome);
}

/// A message that is longer than one can be is not sent: nothing that is sent here grows with what others say but echoes, which
/// came in one message themselves.
fn send(id: ConnectionId, xid: u32, body: Body, outcome: &mut Outcome) {
    if let Ok(octets) = Message::new(xid, body).encode() {
        outcome.send.push((id, octets));
    }
}
