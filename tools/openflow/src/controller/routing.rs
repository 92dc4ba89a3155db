//! Which island serves which name for whom: announcements, the choice, and the packets that wait for it.

use std::net::Ipv4Addr;

use heddle_core::flow;
use heddle_core::ndn::Name;
use heddle_core::node::{Instant, PortId};

use super::announcement::{ANNOUNCEMENT_PORT, Announcement, AnnouncementError, Word};
use super::config::{Island, Mode};
use super::flows::{self, Finder};
use super::machine::{ConnectionId, Controller};
use super::name::{Prefix, prefixes_of};
use super::rib::{Change, IslandIndex, Route};
use super::switch::{FlowKey, MAX_WAITING, Stage, Waiting};
use crate::{Body, Field, NO_BUFFER, PacketIn, PacketOut, PortNumber};

/// Octets of a parameter of a program that fit a flow's match.
const MAX_PARAMETER_OCTETS: usize = 239;

/// Octets of a UDP header.
const UDP_OCTETS: usize = 8;

impl Controller {
    /// An island, or who claims to be one, has sent a datagram.
    pub fn datagram(&mut self, now: Instant, from: Ipv4Addr, octets: &[u8]) {
        self.counters.announcements_by_udp += 1;
        match self.config.islands.iter().position(|island| island.forwarder == from) {
            Some(island) => self.announce(now, island, octets),
            None => self.counters.announcements_from_strangers += 1,
        }
    }

    fn announce(&mut self, now: Instant, index: IslandIndex, datagram: &[u8]) {
        let Some(island) = self.config.islands.get(index) else { return };
        let key = island.key.as_ref().map(|key| key.0.as_slice());
        let announcement = match Announcement::parse(datagram, key) {
            Ok(announcement) => announcement,
            Err(error) => {
                let counter = match error {
                    AnnouncementError::TooMany => &mut self.counters.announcements_too_large,
                    AnnouncementError::Signature => &mut self.counters.announcements_badly_signed,
                    _ => &mut self.counters.announcements_malformed,
                };
                *counter += 1;
                return;
            }
        };
        self.counters.names_bad += announcement.bad_names as u64;
        let (hold, island_cost) = (self.config.hold(), island.cost);
        let mut changed = Vec::new();
        if announcement.withdraws_all {
            for prefix in self.rib.of_island(index) {
                self.withdraw(index, &prefix, &mut changed);
            }
        }
        let max_octets = match self.config.matching {
            super::Matching::Program => MAX_PARAMETER_OCTETS,
            super::Matching::Name => usize::MAX,
        };
        for (prefix, word) in announcement.words {
            if prefix.value().len() > max_octets {
                self.counters.names_bad += 1;
                continue;
            }
            let Word::Announce { cost, holds } = word else {
                self.withdraw(index, &prefix, &mut changed);
                continue;
            };
            let route = Route {
                cost: cost.unwrap_or(island_cost),
                until: holds.or(hold).map(|holds| now.after(holds)),
            };
            match self.rib.announce(index, &prefix, route, self.config.max_names) {
                Change::Changed => {
                    self.counters.names_announced += 1;
                    changed.push(prefix);
                }
                Change::Renewed => {}
                Change::Full => self.counters.names_beyond_limit += 1,
            }
        }
        if !changed.is_empty() {
            self.note_change(now);
            self.reconsider(&changed);
        }
    }

    /// Names of the configuration stay, whatever is announced.
    fn withdraw(&mut self, index: IslandIndex, prefix: &Prefix, changed: &mut Vec<Prefix>) {
        if !self.is_static(index, prefix) && self.rib.withdraw(index, prefix) {
            self.counters.names_withdrawn += 1;
            changed.push(prefix.clone());
        }
    }

    /// Whether the configuration says that the island serves the prefix.
    pub(super) fn is_static(&self, index: IslandIndex, prefix: &Prefix) -> bool {
        let island = self.config.islands.get(index);
        island.is_some_and(|island| island.names.iter().any(|name| name.name == *prefix))
    }

    /// Whether an island can be reached: its switch is connected and set up, and both of its ports there are up.
    fn is_up(&self, island: &Island) -> bool {
        self.switches.values().any(|switch| {
            switch.datapath_id == Some(island.datapath_id)
                && switch.stage == Stage::Ready
                && switch.is_port_up(island.island_port)
                && switch.is_port_up(island.network_port)
        })
    }

    /// The island that serves a prefix for another: one that is up rather than one that is not, then the one of least cost, then the
    /// one that the configuration names first. When none is up, flows stay: the controller may have lost more than the network.
    fn choose(&self, local: IslandIndex, prefix: &Prefix) -> Option<IslandIndex> {
        let others = self.rib.routes(prefix).filter(|(index, _)| *index != local);
        let ranked = others.filter_map(|(index, route)| {
            let island = self.config.islands.get(index)?;
            Some((!self.is_up(island), route.cost, index))
        });
        ranked.min().map(|(.., index)| index)
    }

    /// Islands have come up or gone down.
    pub(super) fn reconsider_islands(&mut self, _now: Instant, islands: &[IslandIndex]) {
        let mut prefixes: Vec<Prefix> =
            islands.iter().flat_map(|index| self.rib.of_island(*index)).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        self.reconsider(&prefixes);
    }

    /// Brings all switches up to date about these prefixes.
    pub(super) fn reconsider(&mut self, prefixes: &[Prefix]) {
        let ready = self.switches.iter().filter(|(_, switch)| switch.stage == Stage::Ready);
        let ready: Vec<ConnectionId> = ready.map(|(id, _)| *id).collect();
        for id in ready {
            for prefix in prefixes {
                self.update(id, prefix);
            }
            let Some(switch) = self.switches.get_mut(&id) else { continue };
            if !switch.unconfirmed.is_empty() {
                switch.send(Body::BarrierRequest);
            }
        }
    }

    /// Brings one switch up to date about a prefix.
    pub(super) fn update(&mut self, id: ConnectionId, prefix: &Prefix) {
        let Some(switch) = self.switches.get(&id) else { return };
        let Some(finder) = switch.finder else { return };
        let (epoch, islands) = (switch.epoch, switch.islands.clone());
        for local in islands {
            let Some(switch) = self.switches.get(&id) else { return };
            let key = (local, prefix.clone());
            let installed = switch.flows.get(&key).copied();
            let chosen = self.choose(local, prefix);
            // A flow for a shorter prefix would take what belongs to this one.
            let is_shadowed = || {
                let shorter = prefixes_of(prefix.name()).skip(1);
                shorter
                    .filter_map(|octets| Prefix::new(octets).ok())
                    .any(|shorter| switch.flows.contains_key(&(local, shorter)))
            };
            let is_wanted =
                self.config.mode == Mode::Proactive || installed.is_some() || is_shadowed();
            match chosen {
                Some(remote) if is_wanted && installed != Some(remote) => {
                    if installed.is_some() {
                        self.counters.failovers += 1;
                    }
                    self.install(id, key, remote, finder, epoch);
                }
                None if installed.is_some() => {
                    let Some(island) = self.config.islands.get(local) else { continue };
                    let flow = flows::delete(&self.config, island, prefix, finder);
                    if let Some(switch) = self.switches.get_mut(&id) {
                        switch.flows.remove(&key);
                    }
                    self.send_flow(id, key, flow);
                }
                _ => {}
            }
        }
    }

    fn install(
        &mut self,
        id: ConnectionId,
        key: FlowKey,
        remote: IslandIndex,
        finder: Finder,
        epoch: u32,
    ) {
        let island = |index: IslandIndex| self.config.islands.get(index);
        let (Some(local), Some(island)) = (island(key.0), island(remote)) else { return };
        let flow = flows::add(&self.config, (local, island), &key.1, finder, epoch);
        if let Some(switch) = self.switches.get_mut(&id) {
            switch.flows.insert(key.clone(), remote);
        }
        self.send_flow(id, key, flow);
    }

    /// A switch has sent a packet.
    pub(super) fn packet_in(&mut self, now: Instant, id: ConnectionId, packet: PacketIn) {
        let Some(switch) = self.switches.get(&id) else { return };
        let in_port = packet.matching.exact(Field::InPort);
        let in_port =
            in_port.and_then(|octets| <[u8; 4]>::try_from(octets).ok()).map(u32::from_be_bytes);
        let is_there = |index: &&IslandIndex| {
            let island = self.config.islands.get(**index);
            island.is_some_and(|island| Some(island.island_port) == in_port)
        };
        let Some(local) = switch.islands.iter().find(is_there).copied() else {
            self.counters.packets_from_strangers += 1;
            return;
        };
        let Ok(parsed) = flow::Packet::parse(&packet.data, PortId(0)) else {
            self.counters.packets_other += 1;
            return;
        };
        if parsed.fields.ip_protocol == heddle_core::wire::IP_PROTOCOL_UDP
            && parsed.fields.destination_port == ANNOUNCEMENT_PORT
            && let Some(transport) = parsed.layout.transport
        {
            let payload = packet.data.get(transport + UDP_OCTETS..parsed.layout.end);
            let payload = payload.unwrap_or_default().to_vec();
            self.counters.announcements_by_packet_in += 1;
            return self.announce(now, local, &payload);
        }
        let is_interest = parsed.fields.ndn_kind == flow::NdnKind::Interest as u8;
        let Some(name) = parsed.name.filter(|_| is_interest) else {
            self.counters.packets_other += 1;
            return;
        };
        self.counters.interests += 1;
        self.interest(id, local, name, &packet, in_port.unwrap_or(0));
    }

    /// An Interest for which the switch has no flow.
    fn interest(
        &mut self,
        id: ConnectionId,
        local: IslandIndex,
        name: Name<'_>,
        packet: &PacketIn,
        in_port: u32,
    ) {
        let Some(prefix) = self.rib.longest(name, |island| island != local) else {
            self.counters.interests_without_route += 1;
            return;
        };
        if packet.buffer == NO_BUFFER && usize::from(packet.total_len) > packet.data.len() {
            self.counters.interests_cut += 1;
            return;
        }
        let Some(remote) = self.choose(local, &prefix) else { return };
        let islands = &self.config.islands;
        let (Some(here), Some(there)) = (islands.get(local), islands.get(remote)) else { return };
        let waiting = Waiting {
            buffer: packet.buffer,
            in_port: PortNumber(in_port),
            actions: flows::way(here, there),
            data: if packet.buffer == NO_BUFFER { packet.data.clone() } else { Vec::new() },
        };
        let key = (local, prefix);
        let Some(switch) = self.switches.get(&id) else { return };
        let is_new = !switch.flows.contains_key(&key);
        if is_new && let Some(finder) = switch.finder {
            let epoch = switch.epoch;
            self.install(id, key.clone(), remote, finder, epoch);
            // Longer prefixes that others announce must not be caught by it.
            self.install_longer(id, &key, finder, epoch);
            let Some(switch) = self.switches.get_mut(&id) else { return };
            let barrier = switch.send(Body::BarrierRequest);
            switch.waiting.insert(barrier, (key.clone(), Vec::new()));
        }
        let Some(switch) = self.switches.get_mut(&id) else { return };
        let has_room = switch.waiting_count() < MAX_WAITING;
        let barrier = switch.barrier_of(&key).filter(|_| has_room);
        match barrier.and_then(|barrier| switch.waiting.get_mut(&barrier)) {
            Some((_, packets)) => packets.push(waiting),
            None => self.send_packet(id, waiting),
        }
    }

    /// Installs what is announced below a prefix that has just got a flow.
    fn install_longer(&mut self, id: ConnectionId, key: &FlowKey, finder: Finder, epoch: u32) {
        let (local, shorter) = key;
        let is_longer = |prefix: &&Prefix| shorter.covers(prefix) && *prefix != shorter;
        let longer: Vec<Prefix> =
            self.rib.iter().map(|(prefix, _)| prefix).filter(is_longer).cloned().collect();
        for prefix in longer {
            let key = (*local, prefix);
            let has_flow =
                self.switches.get(&id).is_some_and(|switch| switch.flows.contains_key(&key));
            if let Some(remote) = self.choose(*local, &key.1).filter(|_| !has_flow) {
                self.install(id, key, remote, finder, epoch);
            }
        }
    }

    /// A barrier has been answered: the flows before it are there.
    pub(super) fn confirmed(&mut self, id: ConnectionId, barrier: u32) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        switch.unconfirmed.retain(|xid, _| *xid > barrier);
        let Some((_, packets)) = switch.waiting.remove(&barrier) else { return };
        for packet in packets {
            self.send_packet(id, packet);
        }
    }

    fn send_packet(&mut self, id: ConnectionId, packet: Waiting) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        let Waiting { buffer, in_port, actions, data } = packet;
        switch.send(Body::PacketOut(PacketOut { buffer, in_port, actions, data }));
        self.counters.interests_forwarded += 1;
    }
}
