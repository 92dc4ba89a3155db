//! Messages: the header and what follows it (OpenFlow 1.3.5, 7.1).

use crate::Refusal;
use crate::experiment::Experiment;
use crate::flow::{FlowMod, FlowRemoved};
use crate::group::GroupMod;
use crate::hello::{Hello, VERSION};
use crate::mods::{MeterMod, PortMod, TableMod};
use crate::multipart::{Reply, Request};
use crate::packet::{PacketIn, PacketOut};
use crate::port::{PortNumber, PortStatus};
use crate::wire::{Reader, Write};

/// Numbers of message types.
mod types {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const EXPERIMENTER: u8 = 4;
    pub const FEATURES_REQUEST: u8 = 5;
    pub const FEATURES_REPLY: u8 = 6;
    pub const GET_CONFIG_REQUEST: u8 = 7;
    pub const GET_CONFIG_REPLY: u8 = 8;
    pub const SET_CONFIG: u8 = 9;
    pub const PACKET_IN: u8 = 10;
    pub const FLOW_REMOVED: u8 = 11;
    pub const PORT_STATUS: u8 = 12;
    pub const PACKET_OUT: u8 = 13;
    pub const FLOW_MOD: u8 = 14;
    pub const GROUP_MOD: u8 = 15;
    pub const PORT_MOD: u8 = 16;
    pub const TABLE_MOD: u8 = 17;
    pub const MULTIPART_REQUEST: u8 = 18;
    pub const MULTIPART_REPLY: u8 = 19;
    pub const BARRIER_REQUEST: u8 = 20;
    pub const BARRIER_REPLY: u8 = 21;
    pub const QUEUES_REQUEST: u8 = 22;
    pub const QUEUES_REPLY: u8 = 23;
    pub const ROLE_REQUEST: u8 = 24;
    pub const ROLE_REPLY: u8 = 25;
    pub const GET_ASYNC_REQUEST: u8 = 26;
    pub const GET_ASYNC_REPLY: u8 = 27;
    pub const SET_ASYNC: u8 = 28;
    pub const METER_MOD: u8 = 29;
}
pub(crate) use types::MULTIPART_REPLY;

/// Octets of the header.
const HEADER_OCTETS: usize = 8;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The version in its header: [`VERSION`], except in a hello.
    pub version: u8,
    /// The transaction, which an answer shares with its question.
    pub xid: u32,
    /// The rest.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The first message of each side.
    Hello(Hello),
    /// Why a message was refused, and its first octets.
    Error {
        /// Type and code.
        refusal: Refusal,
        /// At least 64 octets of the message, or all of it.
        data: Vec<u8>,
    },
    /// Answer with the same octets.
    EchoRequest(Vec<u8>),
    /// The answer.
    EchoReply(Vec<u8>),
    /// A message of our experimenter.
    Experimenter(Experiment),
    /// What can you do?
    FeaturesRequest,
    /// The answer.
    FeaturesReply(Features),
    /// How are you set up?
    GetConfigRequest,
    /// The answer.
    GetConfigReply(SwitchConfig),
    /// Be set up so.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow has ended.
    FlowRemoved(FlowRemoved),
    /// A port has changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Change flows.
    FlowMod(FlowMod),
    /// Change a group.
    GroupMod(GroupMod),
    /// Change a port.
    PortMod(PortMod),
    /// Change a table.
    TableMod(TableMod),
    /// Change a meter.
    MeterMod(MeterMod),
    /// Which queues does this port have?
    QueuesRequest(PortNumber),
    /// The answer: the port, and its queues as octets.
    QueuesReply(PortNumber, Vec<u8>),
    /// A question about much, and whether more parts of it follow.
    MultipartRequest(Request, bool),
    /// An answer, or a part of it.
    MultipartReply(Reply),
    /// Answer when all before has been done.
    BarrierRequest,
    /// The answer.
    BarrierReply,
    /// Be this to me.
    RoleRequest(Role, u64),
    /// You are this to me.
    RoleReply(Role, u64),
    /// Which events do I get?
    GetAsyncRequest,
    /// The answer.
    GetAsyncReply(AsyncConfig),
    /// Send me these events.
    SetAsync(AsyncConfig),
}

/// What a switch can do.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Its number among all switches.
    pub datapath_id: u64,
    /// Packets that it can keep for the controller.
    pub buffers: u32,
    /// Tables that it has.
    pub tables: u8,
    /// 0 for the main connection.
    pub auxiliary_id: u8,
    /// OFPC_* bits.
    pub capabilities: u32,
}

/// How a switch is set up.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchConfig {
    /// What is done with IP fragments: 0 nothing, 1 drop, 2 put together.
    pub flags: u16,
    /// Octets of a packet that the controller gets, where no action says it.
    pub miss_send_len: u16,
}

/// What a controller is to a switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// What it was: only a question.
    NoChange = 0,
    /// One of several equal ones.
    Equal = 1,
    /// The one that may change things.
    Master = 2,
    /// One that may only look.
    Slave = 3,
}

/// Events that a controller gets: for each kind a bit for each reason, as master or equal, and as slave.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Packets.
    pub packet_in: [u32; 2],
    /// Changes of ports.
    pub port_status: [u32; 2],
    /// Ended flows.
    pub flow_removed: [u32; 2],
}

impl Message {
    /// A message of OpenFlow 1.3.
    pub const fn new(xid: u32, body: Body) -> Self {
        Self { version: VERSION, xid, body }
    }

    /// Reads one whole message.
    ///
    /// # Errors
    /// What its sender gets as an error.
    pub fn decode(octets: &[u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::new(octets, Refusal::BAD_LEN);
        let (version, kind, len) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let xid = reader.u32()?;
        if usize::from(len) != octets.len() {
            return Err(Refusal::BAD_LEN);
        }
        if version != VERSION && kind != types::HELLO {
            return Err(Refusal::BAD_VERSION);
        }
        let body = Body::decode(kind, &mut reader)?;
        Ok(Self { version, xid, body })
    }

    /// The message's octets. A message that would be longer than 65535 octets cannot be told by its header: programs
    /// are sent in parts and answers by [`crate::ReplyBody::into_messages`].
    ///
    /// # Errors
    /// [`Refusal::BAD_LEN`] for such a message.
    pub fn encode(&self) -> Result<Vec<u8>, Refusal> {
        let mut octets = Self::encode_with(self.xid, self.body.kind(), |out| self.body.encode(out));
        if octets.len() > usize::from(u16::MAX) {
            return Err(Refusal::BAD_LEN);
        }
        if let Some(version) = octets.first_mut() {
            *version = self.version;
        }
        Ok(octets)
    }

    pub(crate) fn encode_with(xid: u32, kind: u8, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        out.u8(VERSION);
        out.u8(kind);
        out.u16(0);
        out.u32(xid);
        body(&mut out);
        let len = out.len() as u16;
        if let Some(field) = out.get_mut(2..4) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        out
    }

    /// The error that refuses a message of these octets.
    pub fn refusing(octets: &[u8], refusal: Refusal) -> Self {
        let xid = octets.get(4..HEADER_OCTETS).and_then(|xid| xid.try_into().ok());
        let data = octets.get(..64).unwrap_or(octets).to_vec();
        Self::new(xid.map_or(0, u32::from_be_bytes), Body::Error { refusal, data })
    }
}

impl Body {
    fn decode(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let body = match kind {
            types::HELLO => {
                Self::Hello(Hello::decode(Reader::new(reader.all(), Refusal::BAD_LEN))?)
            }
            types::ERROR => {
                let refusal = Refusal { error_type: reader.u16()?, code: reader.u16()? };
                Self::Error { refusal, data: reader.all().to_vec() }
            }
            types::ECHO_REQUEST => Self::EchoRequest(reader.all().to_vec()),
            types::ECHO_REPLY => Self::EchoReply(reader.all().to_vec()),
            types::EXPERIMENTER => {
                let experiment = Experiment::decode(reader)?;
                reader.all();
                Self::Experimenter(experiment)
            }
            types::FEATURES_REQUEST => Self::FeaturesRequest,
            types::FEATURES_REPLY => Self::FeaturesReply(Features::decode(reader)?),
            types::GET_CONFIG_REQUEST => Self::GetConfigRequest,
            types::GET_CONFIG_REPLY => Self::GetConfigReply(SwitchConfig::decode(reader)?),
            types::SET_CONFIG => Self::SetConfig(SwitchConfig::decode(reader)?),
            types::PACKET_IN => Self::PacketIn(PacketIn::decode(reader)?),
            types::FLOW_REMOVED => Self::FlowRemoved(FlowRemoved::decode(reader)?),
            types::PORT_STATUS => Self::PortStatus(PortStatus::decode(reader)?),
            types::PACKET_OUT => Self::PacketOut(PacketOut::decode(reader)?),
            types::FLOW_MOD => Self::FlowMod(FlowMod::decode(reader)?),
            types::GROUP_MOD => Self::GroupMod(GroupMod::decode(reader)?),
            types::PORT_MOD => Self::PortMod(PortMod::decode(reader)?),
            types::TABLE_MOD => Self::TableMod(TableMod::decode(reader)?),
            types::METER_MOD => Self::MeterMod(MeterMod::decode(reader)?),
            types::QUEUES_REQUEST | types::QUEUES_REPLY => {
                let port = PortNumber(reader.u32()?);
                reader.skip(4)?;
                match kind {
                    types::QUEUES_REQUEST => Self::QueuesRequest(port),
                    _ => Self::QueuesReply(port, reader.all().to_vec()),
                }
            }
            types::MULTIPART_REQUEST => {
                let (request, more) = Request::decode(reader)?;
                Self::MultipartRequest(request, more)
            }
            types::MULTIPART_REPLY => Self::MultipartReply(Reply::decode(reader)?),
            types::BARRIER_REQUEST => Self::BarrierRequest,
            types::BARRIER_REPLY => Self::BarrierReply,
            types::ROLE_REQUEST | types::ROLE_REPLY => {
                let role = Role::numbered(reader.u32()?)?;
                reader.skip(4)?;
                let generation = reader.u64()?;
                match kind {
                    types::ROLE_REQUEST => Self::RoleRequest(role, generation),
                    _ => Self::RoleReply(role, generation),
                }
            }
            types::GET_ASYNC_REQUEST => Self::GetAsyncRequest,
            types::GET_ASYNC_REPLY => Self::GetAsyncReply(AsyncConfig::decode(reader)?),
            types::SET_ASYNC => Self::SetAsync(AsyncConfig::decode(reader)?),
            _ => return Err(Refusal::BAD_TYPE),
        };
        reader.end()?;
        Ok(body)
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => types::HELLO,
            Self::Error { .. } => types::ERROR,
            Self::EchoRequest(_) => types::ECHO_REQUEST,
            Self::EchoReply(_) => types::ECHO_REPLY,
            Self::Experimenter(_) => types::EXPERIMENTER,
            Self::FeaturesRequest => types::FEATURES_REQUEST,
            Self::FeaturesReply(_) => types::FEATURES_REPLY,
            Self::GetConfigRequest => types::GET_CONFIG_REQUEST,
            Self::GetConfigReply(_) => types::GET_CONFIG_REPLY,
            Self::SetConfig(_) => types::SET_CONFIG,
            Self::PacketIn(_) => types::PACKET_IN,
            Self::FlowRemoved(_) => types::FLOW_REMOVED,
            Self::PortStatus(_) => types::PORT_STATUS,
            Self::PacketOut(_) => types::PACKET_OUT,
            Self::FlowMod(_) => types::FLOW_MOD,
            Self::GroupMod(_) => types::GROUP_MOD,
            Self::PortMod(_) => types::PORT_MOD,
            Self::TableMod(_) => types::TABLE_MOD,
            Self::MeterMod(_) => types::METER_MOD,
            Self::QueuesRequest(_) => types::QUEUES_REQUEST,
            Self::QueuesReply(..) => types::QUEUES_REPLY,
            Self::MultipartRequest(..) => types::MULTIPART_REQUEST,
            Self::MultipartReply(_) => types::MULTIPART_REPLY,
            Self::BarrierRequest => types::BARRIER_REQUEST,
            Self::BarrierReply => types::BARRIER_REPLY,
            Self::RoleRequest(..) => types::ROLE_REQUEST,
            Self::RoleReply(..) => types::ROLE_REPLY,
            Self::GetAsyncRequest => types::GET_ASYNC_REQUEST,
            Self::GetAsyncReply(_) => types::GET_ASYNC_REPLY,
            Self::SetAsync(_) => types::SET_ASYNC,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => hello.encode(out),
            Self::Error { refusal, data } => {
                out.u16(refusal.error_type);
                out.u16(refusal.code);
                out.put(data);
            }
            Self::EchoRequest(data) | Self::EchoReply(data) => out.put(data),
            Self::Experimenter(experiment) => experiment.encode(out),
            Self::FeaturesReply(features) => features.encode(out),
            Self::GetConfigReply(config) | Self::SetConfig(config) => {
                out.u16(config.flags);
                out.u16(config.miss_send_len);
            }
            Self::PacketIn(packet) => packet.encode(out),
            Self::FlowRemoved(flow) => flow.encode(out),
            Self::PortStatus(status) => status.encode(out),
            Self::PacketOut(packet) => packet.encode(out),
            Self::FlowMod(flow) => flow.encode(out),
            Self::GroupMod(group) => group.encode(out),
            Self::PortMod(change) => change.encode(out),
            Self::TableMod(change) => change.encode(out),
            Self::MeterMod(change) => change.encode(out),
            Self::QueuesRequest(port) => {
                out.u32(port.0);
                out.zeros(4);
            }
            Self::QueuesReply(port, queues) => {
                out.u32(port.0);
                out.zeros(4);
                out.put(queues);
            }
            Self::MultipartRequest(request, more) => request.encode(*more, out),
            Self::MultipartReply(reply) => reply.encode(out),
            Self::RoleRequest(role, generation) | Self::RoleReply(role, generation) => {
                out.u32(*role as u32);
                out.zeros(4);
                out.u64(*generation);
            }
            Self::GetAsyncReply(config) | Self::SetAsync(config) => config.encode(out),
            Self::FeaturesRequest
            | Self::GetConfigRequest
            | Self::BarrierRequest
            | Self::BarrierReply
            | Self::GetAsyncRequest => {}
        }
    }
}

impl Features {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (datapath_id, buffers) = (reader.u64()?, reader.u32()?);
        let (tables, auxiliary_id) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let capabilities = reader.u32()?;
        reader.skip(4)?;
        Ok(Self { datapath_id, buffers, tables, auxiliary_id, capabilities })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.datapath_id);
        out.u32(self.buffers);
        out.u8(self.tables);
        out.u8(self.auxiliary_id);
        out.zeros(2);
        out.u32(self.capabilities);
        out.zeros(4);
    }
}

impl SwitchConfig {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let config = Self { flags: reader.u16()?, miss_send_len: reader.u16()? };
        if config.flags > 2 { Err(Refusal::CONFIG_FLAGS) } else { Ok(config) }
    }
}

impl Role {
    const fn numbered(number: u32) -> Result<Self, Refusal> {
        Ok(match number {
            0 => Self::NoChange,
            1 => Self::Equal,
            2 => Self::Master,
            3 => Self::Slave,
            _ => return Err(Refusal::ROLE),
        })
    }
}

impl AsyncConfig {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let mut pair = || Ok([reader.u32()?, reader.u32()?]);
        Ok(Self { packet_in: pair()?, port_status: pair()?, flow_removed: pair()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let masks = [self.packet_in, self.port_status, self.flow_removed];
        masks.iter().flatten().for_each(|mask| out.u32(*mask));
    }
}
