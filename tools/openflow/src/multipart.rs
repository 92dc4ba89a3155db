//! Multipart requests and replies (OpenFlow 1.3.5, 7.3.5).

use crate::experiment::{EXPERIMENTER, ProgramStats};
use crate::group::{Bucket, GroupType};
use crate::port::{GroupId, Port, PortNumber, PortStats};
use crate::stats::{
    Aggregate, Description, FlowFilter, FlowStats, GroupFeatures, GroupStats, TableFeatures,
    TableStats,
};
use crate::wire::{Reader, Write};
use crate::{Message, Refusal};

/// Numbers of multipart types.
mod types {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT_STATS: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// Our experimenter's list of programs.
const LIST: u32 = 0;

/// More parts follow (OFPMPF_*_MORE).
const MORE: u16 = 1;

/// Octets of the largest message.
const MAX_MESSAGE_OCTETS: usize = 0xffff;

/// Octets of headers before the entries of a reply.
const REPLY_HEADER_OCTETS: usize = 16;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What the switch is.
    Description,
    /// Flows.
    Flows(FlowFilter),
    /// Flows, counted together.
    Aggregate(FlowFilter),
    /// Counters of tables.
    Tables,
    /// Counters of this port, or of all for [`PortNumber::ANY`].
    PortStats(PortNumber),
    /// Groups and their buckets.
    Groups,
    /// Counters of this group, or of all for [`GroupId::ALL`].
    GroupStats(GroupId),
    /// What groups can do.
    GroupFeatures,
    /// Counters of a queue of a port; all ones stand for all queues.
    Queues(PortNumber, u32),
    /// Counters of a meter; all ones stand for all meters.
    Meters(u32),
    /// How a meter is set up; all ones stand for all meters.
    MeterConfig(u32),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; with entries: what they are to do.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    Ports,
    /// Programs, of our experimenter.
    Programs,
}

impl Request {
    /// Reads what follows the message header, and whether more parts follow.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(Self, bool), Refusal> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let request = match kind {
            types::DESC => Self::Description,
            types::FLOW => Self::Flows(FlowFilter::decode(reader)?),
            types::AGGREGATE => Self::Aggregate(FlowFilter::decode(reader)?),
            types::TABLE => Self::Tables,
            types::PORT_STATS => {
                let port = PortNumber(reader.u32()?);
                reader.skip(4)?;
                Self::PortStats(port)
            }
            types::GROUP_DESC => Self::Groups,
            types::GROUP_FEATURES => Self::GroupFeatures,
            types::METER_FEATURES => Self::MeterFeatures,
            types::QUEUE => Self::Queues(PortNumber(reader.u32()?), reader.u32()?),
            types::GROUP | types::METER | types::METER_CONFIG => {
                let number = reader.u32()?;
                reader.skip(4)?;
                match kind {
                    types::GROUP => Self::GroupStats(GroupId(number)),
                    types::METER => Self::Meters(number),
                    _ => Self::MeterConfig(number),
                }
            }
            types::TABLE_FEATURES => {
                let body = Reader::new(reader.all(), Refusal::BAD_LEN);
                Self::TableFeatures(body.list(TableFeatures::decode)?)
            }
            types::PORT_DESC => Self::Ports,
            types::EXPERIMENTER => {
                list_of_programs(reader)?;
                Self::Programs
            }
            _ => return Err(Refusal::BAD_MULTIPART),
        };
        reader.end()?;
        Ok((request, flags & MORE != 0))
    }

    pub(crate) fn encode(&self, more: bool, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Description => types::DESC,
            Self::Flows(_) => types::FLOW,
            Self::Aggregate(_) => types::AGGREGATE,
            Self::Tables => types::TABLE,
            Self::PortStats(_) => types::PORT_STATS,
            Self::Groups => types::GROUP_DESC,
            Self::GroupStats(_) => types::GROUP,
            Self::GroupFeatures => types::GROUP_FEATURES,
            Self::Queues(..) => types::QUEUE,
            Self::Meters(_) => types::METER,
            Self::MeterConfig(_) => types::METER_CONFIG,
            Self::MeterFeatures => types::METER_FEATURES,
            Self::TableFeatures(_) => types::TABLE_FEATURES,
            Self::Ports => types::PORT_DESC,
            Self::Programs => types::EXPERIMENTER,
        };
        begin(kind, more, out);
        match self {
            Self::Flows(filter) | Self::Aggregate(filter) => filter.encode(out),
            Self::PortStats(PortNumber(number))
            | Self::GroupStats(GroupId(number))
            | Self::Meters(number)
            | Self::MeterConfig(number) => {
                out.u32(*number);
                out.zeros(4);
            }
            Self::Queues(port, queue) => {
                out.u32(port.0);
                out.u32(*queue);
            }
            Self::TableFeatures(tables) => tables.iter().for_each(|table| table.encode(out)),
            Self::Programs => {
                out.u32(EXPERIMENTER);
                out.u32(LIST);
            }
            Self::Description
            | Self::Tables
            | Self::Groups
            | Self::GroupFeatures
            | Self::MeterFeatures
            | Self::Ports => {}
        }
    }
}

/// An answer, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether more parts follow.
    pub more: bool,
    /// What is told.
    pub body: ReplyBody,
}

/// What a switch answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// What it is.
    Description(Description),
    /// Flows.
    Flows(Vec<FlowStats>),
    /// Flows, counted together.
    Aggregate(Aggregate),
    /// Counters of tables.
    Tables(Vec<TableStats>),
    /// Counters of ports.
    PortStats(Vec<PortStats>),
    /// Groups: kind, number, buckets.
    Groups(Vec<(GroupType, GroupId, Vec<Bucket>)>),
    /// Counters of groups.
    GroupStats(Vec<GroupStats>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Queues, meters or what meters can do: the type of the answer, and octets that are not looked into.
    Opaque(u16, Vec<u8>),
    /// What tables can do.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    Ports(Vec<Port>),
    /// Programs, of our experimenter.
    Programs(Vec<ProgramStats>),
}

impl Reply {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        if kind == types::EXPERIMENTER {
            list_of_programs(reader)?;
        }
        let mut rest = Reader::new(reader.all(), Refusal::BAD_LEN);
        let body = match kind {
            types::DESC => {
                let description = Description::decode(&mut rest)?;
                rest.end()?;
                ReplyBody::Description(description)
            }
            types::FLOW => ReplyBody::Flows(rest.list(FlowStats::decode)?),
            types::AGGREGATE => {
                let aggregate = Aggregate::decode(&mut rest)?;
                rest.end()?;
                ReplyBody::Aggregate(aggregate)
            }
            types::TABLE => ReplyBody::Tables(rest.list(TableStats::decode)?),
            types::PORT_STATS => ReplyBody::PortStats(rest.list(PortStats::decode)?),
            types::GROUP_DESC => ReplyBody::Groups(rest.list(read_group)?),
            types::GROUP => ReplyBody::GroupStats(rest.list(GroupStats::decode)?),
            types::GROUP_FEATURES => {
                let features = GroupFeatures::decode(&mut rest)?;
                rest.end()?;
                ReplyBody::GroupFeatures(features)
            }
            types::QUEUE | types::METER | types::METER_CONFIG | types::METER_FEATURES => {
                ReplyBody::Opaque(kind, rest.all().to_vec())
            }
            types::TABLE_FEATURES => ReplyBody::TableFeatures(rest.list(TableFeatures::decode)?),
            types::PORT_DESC => ReplyBody::Ports(rest.list(Port::decode)?),
            types::EXPERIMENTER => ReplyBody::Programs(rest.list(ProgramStats::decode)?),
            _ => return Err(Refusal::BAD_MULTIPART),
        };
        Ok(Self { more: flags & MORE != 0, body })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, entries) = self.body.entries();
        begin(kind, self.more, out);
        if kind == types::EXPERIMENTER {
            out.u32(EXPERIMENTER);
            out.u32(LIST);
        }
        entries.iter().for_each(|entry| out.put(entry));
    }
}

impl ReplyBody {
    /// Nothing, where it was asked for queues.
    pub const NO_QUEUES: Self = Self::Opaque(types::QUEUE, Vec::new());
    /// Nothing, where it was asked for counters of meters.
    pub const NO_METERS: Self = Self::Opaque(types::METER, Vec::new());
    /// Nothing, where it was asked how meters are set up.
    pub const NO_METER_CONFIG: Self = Self::Opaque(types::METER_CONFIG, Vec::new());

    /// There are no meters: what they can do is 16 octets of zeros.
    pub fn no_meter_features() -> Self {
        Self::Opaque(types::METER_FEATURES, vec![0; 16])
    }

    /// As many messages as it takes: each at most 65535 octets long, and all but the last marked as having more behind it.
    pub fn into_messages(self, xid: u32) -> Vec<Vec<u8>> {
        let (kind, entries) = self.entries();
        let mut parts = vec![Vec::new()];
        // Our list of programs has its experimenter and type in each part.
        let room = MAX_MESSAGE_OCTETS - REPLY_HEADER_OCTETS - 8;
        for entry in entries {
            match parts.last_mut() {
                Some(part) if part.len() + entry.len() <= room => part.extend(entry),
                _ => parts.push(entry),
            }
        }
        let last = parts.len() - 1;
        let messages = parts.into_iter().enumerate().map(|(at, part)| {
            Message::encode_with(xid, crate::message::MULTIPART_REPLY, |out| {
                begin(kind, at != last, out);
                if kind == types::EXPERIMENTER {
                    out.u32(EXPERIMENTER);
                    out.u32(LIST);
                }
                out.put(&part);
            })
        });
        messages.collect()
    }

    /// The type and each entry's octets.
    fn entries(&self) -> (u16, Vec<Vec<u8>>) {
        fn each<T>(list: &[T], encode: impl Fn(&T, &mut Vec<u8>)) -> Vec<Vec<u8>> {
            let one = |entry| {
                let mut out = Vec::new();
                encode(entry, &mut out);
                out
            };
            list.iter().map(one).collect()
        }
        match self {
            Self::Description(one) => {
                (types::DESC, each(std::slice::from_ref(one), Description::encode))
            }
            Self::Flows(list) => (types::FLOW, each(list, FlowStats::encode)),
            Self::Aggregate(one) => {
                (types::AGGREGATE, each(std::slice::from_ref(one), Aggregate::encode))
            }
            Self::Tables(list) => (types::TABLE, each(list, TableStats::encode)),
            Self::PortStats(list) => (types::PORT_STATS, each(list, PortStats::encode)),
            Self::Groups(list) => (types::GROUP_DESC, each(list, write_group)),
            Self::GroupStats(list) => (types::GROUP, each(list, GroupStats::encode)),
            Self::GroupFeatures(one) => {
                (types::GROUP_FEATURES, each(std::slice::from_ref(one), GroupFeatures::encode))
            }
            Self::Opaque(kind, octets) => (*kind, vec![octets.clone()]),
            Self::TableFeatures(list) => (types::TABLE_FEATURES, each(list, TableFeatures::encode)),
            Self::Ports(list) => (types::PORT_DESC, each(list, Port::encode)),
            Self::Programs(list) => (types::EXPERIMENTER, each(list, ProgramStats::encode)),
        }
    }
}

/// Octets of flow statistics that fit one message.
pub(crate) const MAX_FLOW_STATS_OCTETS: usize = MAX_MESSAGE_OCTETS - REPLY_HEADER_OCTETS;

/// A message of flow statistics with these entries.
pub(crate) fn flow_stats_part(xid: u32, more: bool, entries: &[u8]) -> Vec<u8> {
    Message::encode_with(xid, crate::message::MULTIPART_REPLY, |out| {
        begin(types::FLOW, more, out);
        out.put(entries);
    })
}

fn begin(kind: u16, more: bool, out: &mut Vec<u8>) {
    out.u16(kind);
    out.u16(if more { MORE } else { 0 });
    out.zeros(4);
}

fn list_of_programs(reader: &mut Reader<'_>) -> Result<(), Refusal> {
    if reader.u32()? != EXPERIMENTER {
        return Err(Refusal::BAD_EXPERIMENTER);
    }
    if reader.u32()? != LIST {
        return Err(Refusal::BAD_EXPERIMENTER_TYPE);
    }
    Ok(())
}

fn read_group(reader: &mut Reader<'_>) -> Result<(GroupType, GroupId, Vec<Bucket>), Refusal> {
    let len = usize::from(reader.u16()?);
    let body = len.checked_sub(2).ok_or(Refusal::BAD_LEN)?;
    let mut body = reader.part(body, Refusal::BAD_LEN)?;
    let kind = GroupType::numbered(body.u8()?)?;
    body.skip(1)?;
    let group = GroupId(body.u32()?);
    Ok((kind, group, Reader::new(body.all(), Refusal::GROUP_BUCKET).list(Bucket::decode)?))
}

fn write_group((kind, group, buckets): &(GroupType, GroupId, Vec<Bucket>), out: &mut Vec<u8>) {
    out.sized(0, true, |out| {
        out.u16(0);
        out.u8(*kind as u8);
        out.zeros(1);
        out.u32(group.0);
        buckets.iter().for_each(|bucket| bucket.encode(out));
    });
}
