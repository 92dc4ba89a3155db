//! Ports and groups.

use crate::Refusal;
use crate::wire::{Reader, Write};

/// The number of a port, or one of the reserved ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// The highest number of a port that is one.
    pub const MAX: Self = Self(0xffff_ff00);
    /// Back where the packet came from.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// Through the tables: for packets from the controller.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// As a switch without OpenFlow would do.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports of the packet's VLAN but the one that it came from.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports but the one that it came from.
    pub const ALL: Self = Self(0xffff_fffc);
    /// To the controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// To the switch's own stack.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// No port in particular: in filters alone.
    pub const ANY: Self = Self(0xffff_ffff);

    /// Whether packets can be sent there.
    pub fn is_output(self) -> bool {
        (Self(1)..=Self::MAX).contains(&self) || (Self::IN_PORT..=Self::LOCAL).contains(&self)
    }
}

/// The number of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The highest number of a group.
    pub const MAX: Self = Self(0xffff_ff00);
    /// All groups: to delete them or ask about them.
    pub const ALL: Self = Self(0xffff_fffc);
    /// No group in particular: in filters alone.
    pub const ANY: Self = Self(0xffff_ffff);
}

/// A port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its Ethernet address.
    pub hw_addr: [u8; 6],
    /// Its name, of up to 15 octets.
    pub name: String,
    /// OFPPC_* bits.
    pub config: u32,
    /// OFPPS_* bits.
    pub state: u32,
    /// Features in use (OFPPF_* bits).
    pub current: u32,
    /// Features that it advertises.
    pub advertised: u32,
    /// Features that it supports.
    pub supported: u32,
    /// Features that its peer advertises.
    pub peer: u32,
    /// Bit rate in use, in kbit/s.
    pub current_speed: u32,
    /// Highest bit rate, in kbit/s.
    pub max_speed: u32,
}

impl Port {
    /// In [`Port::config`]: a controller has switched it off (OFPPC_PORT_DOWN).
    pub const OFF: u32 = 1;
    /// In [`Port::state`]: it has no link (OFPPS_LINK_DOWN).
    pub const NO_LINK: u32 = 1;
    /// In [`Port::state`]: it keeps buckets alive that watch it (OFPPS_LIVE).
    pub const LIVE: u32 = 4;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let number = reader.u32()?;
        reader.skip(4)?;
        let hw_addr = reader.array()?;
        reader.skip(2)?;
        Ok(Self {
            number,
            hw_addr,
            name: reader.text(16)?,
            config: reader.u32()?,
            state: reader.u32()?,
            current: reader.u32()?,
            advertised: reader.u32()?,
            supported: reader.u32()?,
            peer: reader.u32()?,
            current_speed: reader.u32()?,
            max_speed: reader.u32()?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.number);
        out.zeros(4);
        out.put(&self.hw_addr);
        out.zeros(2);
        out.text(&self.name, 16);
        let features = [self.current, self.advertised, self.supported, self.peer];
        out.u32(self.config);
        out.u32(self.state);
        features.into_iter().for_each(|feature| out.u32(feature));
        out.u32(self.current_speed);
        out.u32(self.max_speed);
    }
}

/// A port has come, gone or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// OFPPR_*: 0 added, 1 deleted, 2 changed.
    pub reason: u8,
    /// The port.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let reason = reader.u8()?;
        reader.skip(7)?;
        Ok(Self { reason, port: Port::decode(reader)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u8(self.reason);
        out.zeros(7);
        self.port.encode(out);
    }
}

/// Counters of a port since it was added.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Its number.
    pub number: u32,
    /// Received and sent packets, received and sent octets, received and sent packets that were dropped, receive and transmit
    /// errors, frame alignment errors, overruns, CRC errors, collisions. All ones where not counted.
    pub counters: [u64; 12],
    /// Seconds since it was added, and nanoseconds beyond them.
    pub duration: (u32, u32),
}

impl PortStats {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let number = reader.u32()?;
        reader.skip(4)?;
        let mut counters = [0; 12];
        for counter in &mut counters {
            *counter = reader.u64()?;
        }
        Ok(Self { number, counters, duration: (reader.u32()?, reader.u32()?) })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.number);
        out.zeros(4);
        self.counters.iter().for_each(|counter| out.u64(*counter));
        out.u32(self.duration.0);
        out.u32(self.duration.1);
    }
}
