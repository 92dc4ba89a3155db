//! Messages about flows (OpenFlow 1.3.5, 7.3.4.1 and 7.4.2).

use crate::port::{GroupId, PortNumber};
use crate::wire::{Reader, Write};
use crate::{ALL_TABLES, Instruction, Match, NO_BUFFER, Refusal};

/// What a flow-mod does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Add a flow; the same match and priority give way.
    Add = 0,
    /// Change all flows that the match covers.
    Modify = 1,
    /// Change the flow of exactly this match and priority.
    ModifyStrict = 2,
    /// Delete all flows that the match covers.
    Delete = 3,
    /// Delete the flow of exactly this match and priority.
    DeleteStrict = 4,
}

bitflags::bitflags! {
    /// Flags of a flow.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub struct FlowFlags: u16 {
        /// Tell when it is removed.
        const SEND_FLOW_REM = 1;
        /// Refuse it when it overlaps another of its priority.
        const CHECK_OVERLAP = 2;
        /// Set its counters to zero.
        const RESET_COUNTS = 4;
        /// Do not count packets.
        const NO_PKT_COUNTS = 8;
        /// Do not count octets.
        const NO_BYT_COUNTS = 16;
    }
}

/// A change of the flows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The controller's number for the flow.
    pub cookie: u64,
    /// Bits of the cookie that flows to modify or delete must share.
    pub cookie_mask: u64,
    /// The table; [`ALL_TABLES`] to delete in all.
    pub table: u8,
    /// What is done.
    pub command: Command,
    /// Seconds without a packet after which it ends; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0 is never.
    pub hard_timeout: u16,
    /// Higher ones win.
    pub priority: u16,
    /// A packet that waits for the flow, or [`crate::NO_BUFFER`].
    pub buffer: u32,
    /// Delete only flows that send there, or [`PortNumber::ANY`].
    pub out_port: PortNumber,
    /// Delete only flows that use the group, or [`GroupId::ANY`].
    pub out_group: GroupId,
    /// Flags.
    pub flags: FlowFlags,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// Adds a flow to a table, or puts it in the place of one of the same priority and match. It stays until it is deleted.
    pub fn add(table: u8, priority: u16, matching: Match, instructions: Vec<Instruction>) -> Self {
        Self {
            cookie: 0,
            cookie_mask: 0,
            table,
            command: Command::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority,
            buffer: NO_BUFFER,
            out_port: PortNumber::ANY,
            out_group: GroupId::ANY,
            flags: FlowFlags::empty(),
            matching,
            instructions,
        }
    }

    /// Deletes the flow of exactly this priority and match.
    pub fn delete(table: u8, priority: u16, matching: Match) -> Self {
        Self { command: Command::DeleteStrict, ..Self::add(table, priority, matching, Vec::new()) }
    }

    /// Deletes all flows that the match covers, in this table or in [`ALL_TABLES`].
    pub fn delete_all(table: u8, matching: Match) -> Self {
        Self { command: Command::Delete, ..Self::add(table, 0, matching, Vec::new()) }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (cookie, cookie_mask, table) = (reader.u64()?, reader.u64()?, reader.u8()?);
        let command = reader.u8()?;
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let (buffer, out_port, out_group) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let flags = reader.u16()?;
        reader.skip(2)?;
        let command = match command {
            0 => Command::Add,
            1 => Command::Modify,
            2 => Command::ModifyStrict,
            3 => Command::Delete,
            4 => Command::DeleteStrict,
            _ => return Err(Refusal::FLOW_COMMAND),
        };
        let is_delete = matches!(command, Command::Delete | Command::DeleteStrict);
        if table == ALL_TABLES && !is_delete {
            return Err(Refusal::FLOW_TABLE);
        }
        let flags = FlowFlags::from_bits(flags).ok_or(Refusal::FLOW_FLAGS)?;
        Ok(Self {
            cookie,
            cookie_mask,
            table,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            buffer,
            out_port: PortNumber(out_port),
            out_group: GroupId(out_group),
            flags,
            matching: Match::decode(reader)?,
            instructions: Instruction::decode_all(reader.all())?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.cookie);
        out.u64(self.cookie_mask);
        out.u8(self.table);
        out.u8(self.command as u8);
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        out.u16(self.priority);
        out.u32(self.buffer);
        out.u32(self.out_port.0);
        out.u32(self.out_group.0);
        out.u16(self.flags.bits());
        out.zeros(2);
        self.matching.encode(out);
        Instruction::encode_all(&self.instructions, out);
    }
}

/// A flow has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The controller's number for it.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// OFPRR_*: 0 idle time-out, 1 hard time-out, 2 deleted, 3 its group was deleted.
    pub reason: u8,
    /// Its table.
    pub table: u8,
    /// Seconds that it was there, and nanoseconds beyond them.
    pub duration: (u32, u32),
    /// Its idle time-out in seconds.
    pub idle_timeout: u16,
    /// Its hard time-out in seconds.
    pub hard_timeout: u16,
    /// Packets that it matched.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// What it matched.
    pub matching: Match,
}

impl FlowRemoved {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            cookie: reader.u64()?,
            priority: reader.u16()?,
            reason: reader.u8()?,
            table: reader.u8()?,
            duration: (reader.u32()?, reader.u32()?),
            idle_timeout: reader.u16()?,
            hard_timeout: reader.u16()?,
            packets: reader.u64()?,
            octets: reader.u64()?,
            matching: Match::decode(reader)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.cookie);
        out.u16(self.priority);
        out.u8(self.reason);
        out.u8(self.table);
        out.u32(self.duration.0);
        out.u32(self.duration.1);
        out.u16(self.idle_timeout);
        out.u16(self.hard_timeout);
        out.u64(self.packets);
        out.u64(self.octets);
        self.matching.encode(out);
    }
}
