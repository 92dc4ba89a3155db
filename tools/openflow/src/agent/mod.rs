//! The switch's side of OpenFlow 1.3, as a state machine: octets from controllers in, octets for them out.
//!
//! The driver owns sockets, time and frames. It calls [`Agent::connect`] for a new connection, [`Agent::receive`] for what came in on one,
//! [`Agent::tick`] now and then, and sends what each [`Outcome`] says. What controllers want of the switch goes to its [`Datapath`].

mod connection;
mod flows;
mod translate;

use crate::Body;
use crate::datapath::Datapath;
use crate::port::{GroupId, Port, PortNumber, PortStats};
use crate::stats::{Aggregate, Description, TableFeatures, TableStats};
use crate::{
    Action, AsyncConfig, Bucket, Features, Field, FlowRemoved, GroupCommand, GroupMod, GroupType,
    Match, Message, NO_BUFFER, Oxm, PacketIn, PacketOut, Reason, Refusal, ReplyBody, Request, Role,
    SwitchConfig,
};
use connection::Connection;
use flows::Flows;
use heddle_core::flow::{MAX_TABLES, PacketInReason};
use heddle_core::node::{Instant, PortId, PortSet};
use std::collections::BTreeMap;
use translate::{Known, group_kind, group_refusal, port_id};

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
    datapath_id: u64,
    ports: Vec<Port>,
    config: SwitchConfig,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u32,
    /// The highest generation that a master or slave has named.
    generation: Option<u64>,
    flows: Flows,
    groups: BTreeMap<u32, (GroupType, Vec<Bucket>)>,
    max_flows: u32,
}

impl Agent {
    /// An agent for a switch with these ports, numbered as OpenFlow does: port 1 is [`PortId`] 0.
    pub fn new(datapath_id: u64, ports: Vec<Port>, max_flows: u32) -> Self {
        Self {
            description: Description::default(),
            datapath_id,
            ports,
            config: SwitchConfig { flags: 0, miss_send_len: 128 },
            connections: BTreeMap::new(),
            next_connection: 0,
            generation: None,
            flows: Flows::default(),
            groups: BTreeMap::new(),
            max_flows,
        }
    }

    /// Begins with a controller: the connection and the hello to send.
    pub fn connect(&mut self) -> (ConnectionId, Vec<u8>) {
        let id = ConnectionId(self.next_connection);
        self.next_connection = self.next_connection.wrapping_add(1);
        self.connections.insert(id, Connection::new());
        (id, Message::encode_with(0, 0, |out| crate::Hello::ours().encode(out)))
    }

    /// Forgets a connection that is closed. Flows stay.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
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
        let Some(connection) = self.connections.get_mut(&id) else { return outcome };
        connection.framer.push(octets);
        while let Some(connection) = self.connections.get_mut(&id) {
            let message = match connection.framer.next_message() {
                Ok(Some(message)) => message.to_vec(),
                Ok(None) => break,
                Err(refusal) => {
                    self.close(id, &[], refusal, &mut outcome);
                    break;
                }
            };
            let done = Message::decode(&message)
                .and_then(|decoded| self.handle(now, id, decoded, datapath, &mut outcome));
            if let Err(refusal) = done {
                let is_open = self.connections.get(&id).is_some_and(|open| open.is_open);
                if !is_open || refusal == Refusal::INCOMPATIBLE {
                    self.close(id, &message, refusal, &mut outcome);
                    break;
                }
                let error = Message::refusing(&message, refusal);
                send(id, error.xid, error.body, &mut outcome);
            }
        }
        outcome
    }

    /// Ends flows whose time is over and hands on the frames that wait for controllers.
    pub fn tick(&mut self, now: Instant, datapath: &mut dyn Datapath) -> Outcome {
        let mut outcome = Outcome::default();
        let removed = self.flows.expire(now, datapath);
        self.tell_removed(&removed, &mut outcome);
        let mut octets = Vec::new();
        while let Some(entry) = datapath.take_packet_in(&mut octets) {
            let packet = PacketIn {
                buffer: NO_BUFFER,
                total_len: u16::try_from(entry.total_octets).unwrap_or(u16::MAX),
                reason: match entry.reason {
                    PacketInReason::NoMatch => Reason::NoMatch,
                    PacketInReason::Action => Reason::Action,
                    PacketInReason::InvalidTtl => Reason::InvalidTtl,
                },
                table: entry.table,
                cookie: entry.cookie,
                matching: in_port(entry.port),
                data: octets.clone(),
            };
            let bit = 1 << packet.reason as u32;
            for (id, open) in &self.connections {
                if open.gets(open.events.packet_in, bit) {
                    send(*id, 0, Body::PacketIn(packet.clone()), &mut outcome);
                }
            }
        }
        outcome
    }

    fn close(&mut self, id: ConnectionId, message: &[u8], refusal: Refusal, outcome: &mut Outcome) {
        let error = Message::refusing(message, refusal);
        send(id, error.xid, error.body, outcome);
        outcome.close.push(id);
        self.connections.remove(&id);
    }

    fn handle(
        &mut self,
        now: Instant,
        id: ConnectionId,
        message: Message,
        datapath: &mut dyn Datapath,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let connection = self.connections.get_mut(&id).ok_or(Refusal::BAD_TYPE)?;
        let xid = message.xid;
        if let Body::Hello(hello) = &message.body {
            hello.negotiate(message.version)?;
            connection.is_open = true;
            return Ok(());
        }
        if !connection.is_open && !matches!(message.body, Body::Error { .. }) {
            return Err(Refusal::INCOMPATIBLE);
        }
        let changes = matches!(
            message.body,
            Body::FlowMod(_) | Body::GroupMod(_) | Body::PacketOut(_) | Body::SetConfig(_)
        );
        if changes && connection.role == Role::Slave {
            return Err(Refusal::IS_SLAVE);
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
                self.config = config;
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
                return Ok(());
            }
            Body::RoleRequest(role, generation) => self.change_role(id, role, generation)?,
            Body::FlowMod(change) => {
                let known = Known {
                    ports: self.port_set(),
                    groups: &|group| self.groups.contains_key(&group.0),
                };
                let removed = self.flows.change(now, &change, datapath, &known)?;
                self.tell_removed(&removed, outcome);
                return Ok(());
            }
            Body::GroupMod(change) => {
                let removed = self.change_group(now, change, datapath)?;
                self.tell_removed(&removed, outcome);
                return Ok(());
            }
            Body::PacketOut(packet) => {
                self.packet_out(now, packet, datapath)?;
                return Ok(());
            }
            Body::MultipartRequest(request, _) => {
                let reply = self.answer(now, &request, datapath)?;
                let messages = reply.into_messages(xid).into_iter();
                outcome.send.extend(messages.map(|octets| (id, octets)));
                return Ok(());
            }
            Body::Error { .. } | Body::EchoReply(_) => return Ok(()),
            // Programs run on another kind of switch.
            Body::Experimenter(_) => return Err(Refusal::BAD_EXPERIMENTER),
            // The others are what switches say.
            _ => return Err(Refusal::BAD_TYPE),
        };
        send(id, xid, answer, outcome);
        Ok(())
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

    fn change_group(
        &mut self,
        now: Instant,
        change: GroupMod,
        datapath: &mut dyn Datapath,
    ) -> Result<Vec<FlowRemoved>, Refusal> {
        if change.command == GroupCommand::Delete {
            let removed = self.flows.remove_group(now, change.group, datapath);
            let is_meant = |id: &u32| change.group == GroupId::ALL || *id == change.group.0;
            self.groups.keys().filter(|id| is_meant(id)).for_each(|id| datapath.remove_group(*id));
            self.groups.retain(|id, _| !is_meant(id));
            return Ok(removed);
        }
        if change
            .buckets
            .iter()
            .flat_map(|bucket| &bucket.actions)
            .any(|action| matches!(action, Action::Group(_)))
        {
            return Err(Refusal::GROUP_CHAINING);
        }
        let known = Known { ports: self.port_set(), groups: &|_| false };
        let buckets = known.buckets(change.kind, &change.buckets)?;
        let (id, kind) = (change.group.0, group_kind(change.kind));
        let done = match change.command {
            GroupCommand::Add => datapath.add_group(id, kind, &buckets),
            _ => datapath.modify_group(id, kind, &buckets),
        };
        done.map_err(group_refusal)?;
        self.groups.insert(id, (change.kind, change.buckets));
        Ok(Vec::new())
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

    fn answer(
        &self,
        now: Instant,
        request: &Request,
        datapath: &dyn Datapath,
    ) -> Result<ReplyBody, Refusal> {
        Ok(match request {
            Request::Description => ReplyBody::Description(self.description.clone()),
            Request::Flows(filter) => ReplyBody::Flows(self.flows.stats(now, filter, datapath)?),
            Request::Aggregate(filter) => {
                let flows = self.flows.stats(now, filter, datapath)?;
                ReplyBody::Aggregate(Aggregate {
                    packets: flows.iter().map(|flow| flow.packets).sum(),
                    octets: flows.iter().map(|flow| flow.octets).sum(),
                    flows: flows.len() as u32,
                })
            }
            Request::Tables => {
                let one = |table| {
                    let counters = datapath.table_counters(table);
                    TableStats {
                        table,
                        active: self.flows.count(table),
                        // All ones where not counted.
                        lookups: counters.map_or(u64::MAX, |counters| counters.lookups),
                        matched: counters.map_or(u64::MAX, |counters| counters.matched),
                    }
                };
                ReplyBody::Tables((0..MAX_TABLES as u8).map(one).collect())
            }
            Request::PortStats(port) => {
                let is_meant = |other: &&Port| *port == PortNumber::ANY || other.number == port.0;
                let one = |port: &Port| port_stats(port, datapath);
                ReplyBody::PortStats(self.ports.iter().filter(is_meant).filter_map(one).collect())
            }
            Request::Groups => {
                let one = |(id, (kind, buckets)): (&u32, &(GroupType, Vec<Bucket>))| {
                    (*kind, GroupId(*id), buckets.clone())
                };
                ReplyBody::Groups(self.groups.iter().map(one).collect())
            }
            Request::TableFeatures(wanted) if !wanted.is_empty() => {
                return Err(Refusal::TABLE_FEATURES_PERMISSION);
            }
            Request::TableFeatures(_) => {
                let one = |table| TableFeatures {
                    table,
                    name: format!("table {table}"),
                    metadata_match: u64::MAX,
                    metadata_write: u64::MAX,
                    config: 0,
                    max_entries: self.max_flows,
                    properties: Vec::new(),
                };
                ReplyBody::TableFeatures((0..MAX_TABLES as u8).map(one).collect())
            }
            Request::Ports => ReplyBody::Ports(self.ports.clone()),
            Request::Programs => return Err(Refusal::BAD_EXPERIMENTER),
        })
    }

    fn tell_removed(&self, removed: &[FlowRemoved], outcome: &mut Outcome) {
        for flow in removed {
            for (id, open) in &self.connections {
                if open.gets(open.events.flow_removed, 1 << flow.reason) {
                    send(*id, 0, Body::FlowRemoved(flow.clone()), outcome);
                }
            }
        }
    }

    fn port_set(&self) -> PortSet {
        let id = |port: &Port| Some(PortId(u8::try_from(port.number.checked_sub(1)?).ok()?));
        self.ports.iter().filter_map(id).collect()
    }
}

/// Counters in the order of [`PortStats::counters`].
fn port_stats(port: &Port, datapath: &dyn Datapath) -> Option<PortStats> {
    let id = PortId(u8::try_from(port.number.checked_sub(1)?).ok()?);
    let c = datapath.port_counters(id)?;
    // Kinds of errors, and when the port was added, are not told apart.
    const NONE: u64 = u64::MAX;
    let counters = [
        c.rx_packets,
        c.tx_packets,
        c.rx_octets,
        c.tx_octets,
        c.rx_dropped,
        c.tx_dropped,
        c.rx_errors,
        c.tx_errors,
        NONE,
        NONE,
        NONE,
        NONE,
    ];
    Some(PortStats { number: port.number, counters, duration: (u32::MAX, u32::MAX) })
}

fn in_port(port: PortId) -> Match {
    let value = (u32::from(port.0) + 1).to_be_bytes().to_vec();
    Match { fields: vec![Oxm::Basic { field: Field::InPort, value, mask: None }] }
}

/// A message that is longer than one can be is not sent: nothing that is sent here grows with what others say but echoes, which
/// came in one message themselves.
fn send(id: ConnectionId, xid: u32, body: Body, outcome: &mut Outcome) {
    if let Ok(octets) = Message::new(xid, body).encode() {
        outcome.send.push((id, octets));
    }
}

/// The events that a controller gets until it says otherwise (OpenFlow 1.3.5, 6.3.6).
const ALL_EVENTS: AsyncConfig =
    AsyncConfig { packet_in: [0b111, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] };
