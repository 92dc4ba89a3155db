//! What a switch tells about itself, its tables and its flows (OpenFlow 1.3.5, 7.3.5).

use crate::flow::FlowFlags;
use crate::port::{GroupId, PortNumber};
use crate::wire::{Reader, Write};
use crate::{Instruction, Match, Refusal};

/// What a switch is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its maker.
    pub manufacturer: String,
    /// Its hardware.
    pub hardware: String,
    /// Its software.
    pub software: String,
    /// Its serial number.
    pub serial_number: String,
    /// What its owner calls it.
    pub datapath: String,
}

impl Description {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            manufacturer: reader.text(256)?,
            hardware: reader.text(256)?,
            software: reader.text(256)?,
            serial_number: reader.text(32)?,
            datapath: reader.text(256)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.text(&self.manufacturer, 256);
        out.text(&self.hardware, 256);
        out.text(&self.software, 256);
        out.text(&self.serial_number, 32);
        out.text(&self.datapath, 256);
    }
}

/// Which flows are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    /// Those of this table, or [`crate::ALL_TABLES`].
    pub table: u8,
    /// Those that send there, or [`PortNumber::ANY`].
    pub out_port: PortNumber,
    /// Those that use the group, or [`GroupId::ANY`].
    pub out_group: GroupId,
    /// Those with this cookie, in the bits of the mask.
    pub cookie: u64,
    /// Bits of the cookie that count.
    pub cookie_mask: u64,
    /// Those that this covers.
    pub matching: Match,
}

impl FlowFilter {
    /// All flows that the match covers, in all tables.
    pub const fn covering(matching: Match) -> Self {
        Self {
            table: crate::ALL_TABLES,
            out_port: PortNumber::ANY,
            out_group: GroupId::ANY,
            cookie: 0,
            cookie_mask: 0,
            matching,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let (out_port, out_group) = (PortNumber(reader.u32()?), GroupId(reader.u32()?));
        reader.skip(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        let matching = Match::decode(reader)?;
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, matching })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.out_port.0);
        out.u32(self.out_group.0);
        out.zeros(4);
        out.u64(self.cookie);
        out.u64(self.cookie_mask);
        self.matching.encode(out);
    }
}

/// A flow and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// Seconds that it has been there, and nanoseconds beyond them.
    pub duration: (u32, u32),
    /// Its priority.
    pub priority: u16,
    /// Its idle time-out in seconds.
    pub idle_timeout: u16,
    /// Its hard time-out in seconds.
    pub hard_timeout: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// The controller's number for it.
    pub cookie: u64,
    /// Packets that it has matched.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

impl FlowStats {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let len = usize::from(reader.u16()?);
        let body = len.checked_sub(2).ok_or(Refusal::BAD_LEN)?;
        let mut reader = reader.part(body, Refusal::BAD_LEN)?;
        let table = reader.u8()?;
        reader.skip(1)?;
        let duration = (reader.u32()?, reader.u32()?);
        let priority = reader.u16()?;
        let (idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?);
        let flags = FlowFlags::from_bits_retain(reader.u16()?);
        reader.skip(4)?;
        Ok(Self {
            table,
            duration,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            cookie: reader.u64()?,
            packets: reader.u64()?,
            octets: reader.u64()?,
            matching: Match::decode(&mut reader)?,
            instructions: Instruction::decode_all(reader.all())?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (mut matching, mut instructions) = (Vec::new(), Vec::new());
        self.matching.encode(&mut matching);
        Instruction::encode_all(&self.instructions, &mut instructions);
        RawFlowStats {
            table: self.table,
            duration: self.duration,
            priority: self.priority,
            timeouts: (self.idle_timeout, self.hard_timeout),
            flags: self.flags,
            cookie: self.cookie,
            packets: self.packets,
            octets: self.octets,
            matching: &matching,
            instructions: &instructions,
        }
        .encode(out);
    }
}

/// The same with match and instructions as they are in messages.
pub(crate) struct RawFlowStats<'s> {
    pub table: u8,
    pub duration: (u32, u32),
    pub priority: u16,
    /// Idle and hard.
    pub timeouts: (u16, u16),
    pub flags: FlowFlags,
    pub cookie: u64,
    pub packets: u64,
    pub octets: u64,
    pub matching: &'s [u8],
    pub instructions: &'s [u8],
}

impl RawFlowStats<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.sized(0, true, |out| {
            out.u16(0);
            out.u8(self.table);
            out.zeros(1);
            out.u32(self.duration.0);
            out.u32(self.duration.1);
            out.u16(self.priority);
            out.u16(self.timeouts.0);
            out.u16(self.timeouts.1);
            out.u16(self.flags.bits());
            out.zeros(4);
            out.u64(self.cookie);
            out.u64(self.packets);
            out.u64(self.octets);
            out.put(self.matching);
            out.put(self.instructions);
        });
    }
}

/// Counters of several flows together.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Packets that they have matched.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// The number of flows.
    pub flows: u32,
}

impl Aggregate {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let found = Self { packets: reader.u64()?, octets: reader.u64()?, flows: reader.u32()? };
        reader.skip(4)?;
        Ok(found)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.packets);
        out.u64(self.octets);
        out.u32(self.flows);
        out.zeros(4);
    }
}

/// Counters of a table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// The number of flows.
    pub active: u32,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that a flow matched.
    pub matched: u64,
}

impl TableStats {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let table = reader.u8()?;
        reader.skip(3)?;
        Ok(Self { table, active: reader.u32()?, lookups: reader.u64()?, matched: reader.u64()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.active);
        out.u64(self.lookups);
        out.u64(self.matched);
    }
}

/// What a table can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFeatures {
    /// Its number.
    pub table: u8,
    /// Its name, of up to 31 octets.
    pub name: String,
    /// Bits of the metadata that it can match.
    pub metadata_match: u64,
    /// Bits of the metadata that it can write.
    pub metadata_write: u64,
    /// OFPTC_* bits.
    pub config: u32,
    /// Flows that fit.
    pub max_entries: u32,
    /// What it can match and do.
    pub properties: Vec<TableProperty>,
}

/// A list of instructions, tables, actions or match fields that a table knows, as octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProperty {
    /// OFPTFPT_*.
    pub kind: u16,
    /// What follows type and length, without padding.
    pub body: Vec<u8>,
}

impl TableFeatures {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let len = usize::from(reader.u16()?);
        let body = len.checked_sub(2).ok_or(Refusal::BAD_LEN)?;
        let mut reader = reader.part(body, Refusal::BAD_LEN)?;
        let table = reader.u8()?;
        reader.skip(5)?;
        Ok(Self {
            table,
            name: reader.text(32)?,
            metadata_match: reader.u64()?,
            metadata_write: reader.u64()?,
            config: reader.u32()?,
            max_entries: reader.u32()?,
            properties: reader.list(|reader| {
                let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
                let body = reader.take(len.checked_sub(4).ok_or(Refusal::BAD_LEN)?)?.to_vec();
                reader.skip(len.next_multiple_of(8) - len)?;
                Ok(TableProperty { kind, body })
            })?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.sized(0, true, |out| {
            out.u16(0);
            out.u8(self.table);
            out.zeros(5);
            out.text(&self.name, 32);
            out.u64(self.metadata_match);
            out.u64(self.metadata_write);
            out.u32(self.config);
            out.u32(self.max_entries);
            for property in &self.properties {
                out.sized(2, false, |out| {
                    out.u16(property.kind);
                    out.u16(0);
                    out.put(&property.body);
                });
            }
        });
    }
}

/// Counters of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Its number.
    pub group: GroupId,
    /// Flows that use it.
    pub users: u32,
    /// Packets that it got; all ones where not counted.
    pub packets: u64,
    /// Octets of them; all ones where not counted.
    pub octets: u64,
    /// Seconds that it has been there, and nanoseconds beyond them.
    pub duration: (u32, u32),
}

impl GroupStats {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let len = usize::from(reader.u16()?);
        let body = len.checked_sub(2).ok_or(Refusal::BAD_LEN)?;
        // Counters of buckets follow, which are passed over.
        let mut reader = reader.part(body, Refusal::BAD_LEN)?;
        reader.skip(2)?;
        let (group, users) = (GroupId(reader.u32()?), reader.u32()?);
        reader.skip(4)?;
        let (packets, octets) = (reader.u64()?, reader.u64()?);
        Ok(Self { group, users, packets, octets, duration: (reader.u32()?, reader.u32()?) })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u16(40);
        out.zeros(2);
        out.u32(self.group.0);
        out.u32(self.users);
        out.zeros(4);
        out.u64(self.packets);
        out.u64(self.octets);
        out.u32(self.duration.0);
        out.u32(self.duration.1);
    }
}

/// What groups can do; where there is a number for each kind of group, that is all, select, indirect, fast failover.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Kinds of group, by bit.
    pub kinds: u32,
    /// OFPGFC_* bits.
    pub capabilities: u32,
    /// Groups that fit.
    pub max_groups: [u32; 4],
    /// Actions that buckets can have, by bit.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kinds, capabilities) = (reader.u32()?, reader.u32()?);
        let mut four = || Ok([reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?]);
        Ok(Self { kinds, capabilities, max_groups: four()?, actions: four()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.kinds);
        out.u32(self.capabilities);
        self.max_groups.iter().chain(&self.actions).for_each(|number| out.u32(*number));
    }
}
