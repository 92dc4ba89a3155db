//! Ports: what controllers see of them and change.

use super::Agent;
use crate::datapath::Datapath;
use crate::mods::PortMod;
use crate::{Port, PortNumber, PortStats, PortStatus, Refusal};
use heddle_core::node::{PortId, PortSet};

/// OFPPR_MODIFY.
const CHANGED: u8 = 2;

/// The core's port of this OpenFlow port: those of OpenFlow count from 1.
fn id(port: &Port) -> Option<PortId> {
    Some(PortId(u8::try_from(port.number.checked_sub(1)?).ok()?))
}

impl Agent {
    pub(super) fn port_set(&self) -> PortSet {
        self.ports.iter().filter_map(id).collect()
    }

    /// Carries out a port-mod: ports are switched on and off, and nothing else about them changes.
    pub(super) fn change_port(
        &mut self,
        change: &PortMod,
        datapath: &mut dyn Datapath,
    ) -> Result<PortStatus, Refusal> {
        let is_it = |port: &&mut Port| port.number == change.port.0;
        let port = self.ports.iter_mut().find(is_it).ok_or(Refusal::PORT_PORT)?;
        if port.hw_addr != change.hw_addr {
            return Err(Refusal::PORT_HW_ADDR);
        }
        if change.mask & change.config & !Port::OFF != 0 {
            return Err(Refusal::PORT_CONFIG);
        }
        if change.advertise != 0 && change.advertise != port.advertised {
            return Err(Refusal::PORT_ADVERTISE);
        }
        port.config = port.config & !change.mask | change.config & change.mask;
        if let Some(id) = id(port) {
            datapath.set_port(id, port.config & Port::OFF == 0);
        }
        set_live(port);
        Ok(PortStatus { reason: CHANGED, port: port.clone() })
    }

    /// The next port whose link has changed.
    pub(super) fn next_changed_port(&mut self, datapath: &mut dyn Datapath) -> Option<PortStatus> {
        loop {
            let change = datapath.take_link_change()?;
            let Some(port) = self.ports.iter_mut().find(|port| id(port) == Some(change.port))
            else {
                continue;
            };
            let before = port.state;
            port.state =
                if change.is_up { port.state & !Port::NO_LINK } else { port.state | Port::NO_LINK };
            set_live(port);
            if port.state != before {
                return Some(PortStatus { reason: CHANGED, port: port.clone() });
            }
        }
    }

    pub(super) fn tell_ports(
        &self,
        wanted: PortNumber,
        datapath: &dyn Datapath,
    ) -> Result<Vec<PortStats>, Refusal> {
        let is_meant = |port: &&Port| wanted == PortNumber::ANY || port.number == wanted.0;
        if wanted != PortNumber::ANY && !self.ports.iter().any(|port| is_meant(&port)) {
            return Err(Refusal::BAD_PORT);
        }
        let one = |port: &Port| stats(port, datapath);
        Ok(self.ports.iter().filter(is_meant).filter_map(one).collect())
    }
}

fn set_live(port: &mut Port) {
    let is_live = port.config & Port::OFF == 0 && port.state & Port::NO_LINK == 0;
    port.state = if is_live { port.state | Port::LIVE } else { port.state & !Port::LIVE };
}

/// Counters in the order of [`PortStats::counters`].
fn stats(port: &Port, datapath: &dyn Datapath) -> Option<PortStats> {
    let counted = datapath.port_counters(id(port)?)?;
    // Kinds of errors, and when the port was added, are not told apart.
    const NONE: u64 = u64::MAX;
    let counters = [
        counted.rx_packets,
        counted.tx_packets,
        counted.rx_octets,
        counted.tx_octets,
        counted.rx_dropped,
        counted.tx_dropped,
        counted.rx_errors,
        counted.tx_errors,
        NONE,
        NONE,
        NONE,
        NONE,
    ];
    Some(PortStats { number: port.number, counters, duration: (u32::MAX, u32::MAX) })
}
