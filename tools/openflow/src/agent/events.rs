//! What controllers are told without asking: ended flows, changes of ports, packets.

use super::{Agent, Outcome, send};
use crate::datapath::Datapath;
use crate::{
    AsyncConfig, Body, Field, FlowRemoved, Match, NO_BUFFER, Oxm, PacketIn, PortStatus, Reason,
};
use heddle_core::flow::PacketInReason;
use heddle_core::node::PortId;

/// Packets that are handed to controllers in one tick.
const PACKETS_A_TICK: usize = 1024;

/// The events that a controller gets until it says otherwise: all but packets whose TTL has run out, and as slave only those of ports
/// (OpenFlow 1.3.5, 6.3.6).
pub(super) const USUAL_EVENTS: AsyncConfig =
    AsyncConfig { packet_in: [0b011, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] };

impl Agent {
    pub(super) fn tell_removed(&self, removed: &[FlowRemoved], outcome: &mut Outcome) {
        for flow in removed {
            for (id, open) in &self.connections {
                if open.gets(open.events.flow_removed, 1 << flow.reason) {
                    send(*id, 0, Body::FlowRemoved(flow.clone()), outcome);
                }
            }
        }
    }

    pub(super) fn tell_port(&self, status: &PortStatus, outcome: &mut Outcome) {
        for (id, open) in &self.connections {
            if open.gets(open.events.port_status, 1 << status.reason) {
                send(*id, 0, Body::PortStatus(status.clone()), outcome);
            }
        }
    }

    pub(super) fn tell_packets(&mut self, datapath: &mut dyn Datapath, outcome: &mut Outcome) {
        let mut octets = Vec::new();
        for _ in 0..PACKETS_A_TICK {
            let Some(entry) = datapath.take_packet_in(&mut octets) else { return };
            let reason = match entry.reason {
                PacketInReason::NoMatch => Reason::NoMatch,
                PacketInReason::Action => Reason::Action,
                PacketInReason::InvalidTtl => Reason::InvalidTtl,
            };
            let packet = PacketIn {
                buffer: NO_BUFFER,
                total_len: u16::try_from(entry.total_octets).unwrap_or(u16::MAX),
                reason,
                table: entry.table,
                cookie: entry.cookie,
                matching: in_port(entry.port),
                data: octets.clone(),
            };
            for (id, open) in &self.connections {
                if !open.gets(open.events.packet_in, 1 << reason as u32) {
                    continue;
                }
                if open.is_congested {
                    self.lost_packet_ins += 1;
                } else {
                    send(*id, 0, Body::PacketIn(packet.clone()), outcome);
                }
            }
        }
        self.has_more = true;
    }

    /// Tells the datapath whether any controller wants packets whose TTL has run out.
    pub(super) fn watch_ttl(&mut self, datapath: &mut dyn Datapath) {
        let bit = 1 << Reason::InvalidTtl as u32;
        let is_wanted = self.connections.values().any(|open| open.gets(open.events.packet_in, bit));
        let wanted = is_wanted.then_some(self.config.miss_send_len);
        if wanted != self.invalid_ttl {
            self.invalid_ttl = wanted;
            datapath.set_invalid_ttl(wanted);
        }
    }
}

fn in_port(port: PortId) -> Match {
    let value = (u32::from(port.0) + 1).to_be_bytes().to_vec();
    Match { fields: vec![Oxm::Basic { field: Field::InPort, value, mask: None }] }
}
