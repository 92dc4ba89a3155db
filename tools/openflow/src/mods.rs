//! Changes of ports, tables and meters (OpenFlow 1.3.5, 7.3.3, 7.3.4.3 and 7.3.4.4).

use crate::port::PortNumber;
use crate::wire::{Reader, Write};
use crate::{Port, Refusal};

/// A change of a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port.
    pub port: PortNumber,
    /// Its Ethernet address, which must be the right one.
    pub hw_addr: [u8; 6],
    /// OFPPC_* bits.
    pub config: u32,
    /// Those of them that are changed.
    pub mask: u32,
    /// What it advertises (OFPPF_* bits); 0 changes nothing.
    pub advertise: u32,
}

impl PortMod {
    /// Switches a port on or off.
    pub const fn switching(port: &Port, is_on: bool) -> Self {
        Self {
            port: PortNumber(port.number),
            hw_addr: port.hw_addr,
            config: if is_on { 0 } else { Port::OFF },
            mask: Port::OFF,
            advertise: 0,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let port = PortNumber(reader.u32()?);
        reader.skip(4)?;
        let hw_addr = reader.array()?;
        reader.skip(2)?;
        let (config, mask, advertise) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        Ok(Self { port, hw_addr, config, mask, advertise })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.port.0);
        out.zeros(4);
        out.put(&self.hw_addr);
        out.zeros(2);
        out.u32(self.config);
        out.u32(self.mask);
        out.u32(self.advertise);
        out.zeros(4);
    }
}

/// A change of a table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table, or [`crate::ALL_TABLES`].
    pub table: u8,
    /// OFPTC_* bits: OpenFlow 1.3 has no meaning for any.
    pub config: u32,
}

impl TableMod {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let table = reader.u8()?;
        reader.skip(3)?;
        Ok(Self { table, config: reader.u32()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.config);
    }
}

/// A change of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// 0 add, 1 modify, 2 delete.
    pub command: u16,
    /// OFPMF_* bits.
    pub flags: u16,
    /// The meter.
    pub meter: u32,
    /// Its bands, as octets.
    pub bands: Vec<u8>,
}

impl MeterMod {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (command, flags, meter) = (reader.u16()?, reader.u16()?, reader.u32()?);
        Ok(Self { command, flags, meter, bands: reader.all().to_vec() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u16(self.command);
        out.u16(self.flags);
        out.u32(self.meter);
        out.put(&self.bands);
    }
}
