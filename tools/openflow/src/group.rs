//! Group-mods (OpenFlow 1.3.5, 7.3.4.2).

use crate::port::{GroupId, PortNumber};
use crate::wire::{Reader, Write};
use crate::{Action, Refusal};

/// What is done with a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// Add it.
    Add = 0,
    /// Change it.
    Modify = 1,
    /// Delete it.
    Delete = 2,
}

/// What a group does with packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GroupType {
    /// Every bucket gets a copy.
    All = 0,
    /// One bucket, by weight.
    Select = 1,
    /// The only bucket.
    Indirect = 2,
    /// The first that is alive.
    FastFailover = 3,
}

impl GroupType {
    pub(crate) fn numbered(number: u8) -> Result<Self, Refusal> {
        Ok(match number {
            0 => Self::All,
            1 => Self::Select,
            2 => Self::Indirect,
            3 => Self::FastFailover,
            _ => return Err(Refusal::GROUP_TYPE),
        })
    }
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its share, in groups of [`GroupType::Select`].
    pub weight: u16,
    /// The port that keeps it alive, or [`PortNumber::ANY`].
    pub watch_port: PortNumber,
    /// The group that keeps it alive, or [`GroupId::ANY`].
    pub watch_group: GroupId,
    /// What it does.
    pub actions: Vec<Action>,
}

impl Bucket {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let len = usize::from(reader.u16()?);
        if len < 16 || !len.is_multiple_of(8) {
            return Err(Refusal::GROUP_BUCKET);
        }
        let mut body = reader.part(len - 2, Refusal::GROUP_BUCKET)?;
        let weight = body.u16()?;
        let (watch_port, watch_group) = (PortNumber(body.u32()?), GroupId(body.u32()?));
        body.skip(4)?;
        Ok(Self { weight, watch_port, watch_group, actions: Action::decode_all(body.all())? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.sized(0, true, |out| {
            out.u16(0);
            out.u16(self.weight);
            out.u32(self.watch_port.0);
            out.u32(self.watch_group.0);
            out.zeros(4);
            Action::encode_all(&self.actions, out);
        });
    }
}

/// A change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What is done.
    pub command: GroupCommand,
    /// What the group does.
    pub kind: GroupType,
    /// Its number.
    pub group: GroupId,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

impl GroupMod {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (command, kind) = (reader.u16()?, reader.u8()?);
        reader.skip(1)?;
        let group = GroupId(reader.u32()?);
        let command = match command {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            _ => return Err(Refusal::GROUP_COMMAND),
        };
        if group > GroupId::MAX && !(command == GroupCommand::Delete && group == GroupId::ALL) {
            return Err(Refusal::GROUP_INVALID);
        }
        let kind = GroupType::numbered(kind)?;
        let buckets = Reader::new(reader.all(), Refusal::GROUP_BUCKET).list(Bucket::decode)?;
        Ok(Self { command, kind, group, buckets })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u16(self.command as u16);
        out.u8(self.kind as u8);
        out.zeros(1);
        out.u32(self.group.0);
        self.buckets.iter().for_each(|bucket| bucket.encode(out));
    }
}
