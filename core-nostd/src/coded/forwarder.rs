//! Sending: recoding at a forwarder (section II.B), and what a source and a forwarder share (figure 2, "sending side").

use super::generation::{Coding, Generation};
use super::header::CODED_HEADER_OCTETS;
use super::list::Slot;
use super::node::CodedNode;
use super::settings::{Role, SendingRule};
use super::{CodedError, CodedEvent};
use crate::node::{Engine, Frame, Instant, NoRoom, PortId, PortSet};
use crate::wire::{
    ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, IPV4_HEADER_OCTETS, Ipv4Fields, Ipv4Flags,
    Ipv4Header, MacAddress, multicast_mac,
};
use zerocopy::IntoBytes;

/// Octets before the coding vector.
const ROW_AT: usize = ETHERNET_HEADER_OCTETS + IPV4_HEADER_OCTETS + CODED_HEADER_OCTETS;

impl CodedNode<'_> {
    /// "For each output link: encode in the generation updated latest." Each link whose turn it is sends at once, unless
    /// the generation is held back: the ports in `carrying` have not all brought something of it.
    /// The arriving frame, whose packet is stored by now, carries the first of the new packets; the port for it is returned.
    pub(super) fn forward<E: Engine>(
        &mut self,
        now: Instant,
        slot: Slot,
        outputs: PortSet,
        carrying: PortSet,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Option<PortId> {
        let generation = self.pool.get(slot)?;
        let expects_more = !carrying.is_subset_of(generation.seen_on) && !generation.was_sent();
        if expects_more && self.links.any_limited(outputs) {
            self.links.hold_back(now, &mut self.pool, slot);
            return None;
        }
        self.links.let_go(&mut self.pool, slot);
        self.links.queue(&mut self.pool, slot, outputs);
        let mut arrival = Some(frame);
        let mut reused_for = None;
        for port in outputs.iter() {
            if self.send_on(now, port, arrival.as_deref_mut(), engine) {
                arrival = None;
                reused_for = Some(port);
            }
        }
        reused_for
    }

    /// Queues the generations that have been held back long enough.
    pub(super) fn let_go_of_held(&mut self, now: Instant) {
        while let Some((slot, _)) =
            self.links.longest_held(&self.pool).filter(|(_, until)| *until <= now)
        {
            self.links.let_go(&mut self.pool, slot);
            if let Some(Role::Forwarder { outputs }) = self.role_of(slot) {
                self.links.queue(&mut self.pool, slot, outputs);
            }
        }
    }

    /// Sends what waits on `port` and its rate lets through. The first packet is written into `reuse`, if that is given; then the
    /// answer is true and that frame is still to be sent.
    pub(super) fn send_on<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        mut reuse: Option<&mut E::Frame>,
        engine: &mut E,
    ) -> bool {
        let mut reused = false;
        while self.links.get(port).is_some_and(|link| link.pacer.is_ready(now)) {
            let Some(slot) = self.links.next(&mut self.pool, port) else { break };
            let octets = match reuse.take() {
                Some(frame) => {
                    let octets = self.write_packet(slot, port, frame);
                    reused = octets.is_ok();
                    octets
                }
                None => match engine.allocate() {
                    Some(mut frame) => {
                        let octets = self.write_packet(slot, port, &mut frame);
                        if octets.is_ok() {
                            engine.transmit(port, frame);
                        }
                        octets
                    }
                    None => Err(NoRoom),
                },
            };
            match octets {
                Ok(octets) => {
                    if let Some(link) = self.links.get_mut(port) {
                        link.pacer.sent(now, octets);
                    }
                }
                Err(NoRoom) => self.counters.drop(CodedError::NoFrame.into()),
            }
            self.after_sending(slot, port);
        }
        reused
    }

    /// Writes one packet of the generation at `slot` for `port`; its octets.
    fn write_packet<F: Frame>(
        &mut self,
        slot: Slot,
        port: PortId,
        frame: &mut F,
    ) -> Result<usize, NoRoom> {
        let mac = self.links.get(port).map(|link| link.mac).unwrap_or_default();
        let role = self.role_of(slot);
        let block_rows = self.pool.block_rows;
        let (generation, octets) = self.pool.parts(slot).ok_or(NoRoom)?;
        let row = write_headers(generation, mac, self.settings.protocol, frame)?;
        match &generation.coding {
            Coding::Source { blocks } => {
                let Some(Role::Source { outputs, .. }) = role else { return Err(NoRoom) };
                let sources = block_rows
                    .read(octets, generation.header.block_octets())
                    .first(usize::from(*blocks));
                super::source::encode(generation, &sources, outputs, port, &mut self.random, row)?;
                self.counters.event(CodedEvent::PacketsCoded);
            }
            // No zero coefficient: each packet that is held shows in each that is sent.
            Coding::Forwarder(recoder) => {
                recoder.recode_packet_random(octets, &mut self.random, row).map_err(|_| NoRoom)?;
                self.counters.event(CodedEvent::PacketsRecoded);
            }
            Coding::Destination(_) => return Err(NoRoom),
        }
        if let Some(sent) = generation.sent.get_mut(usize::from(port.0)) {
            *sent = sent.saturating_add(1);
        }
        Ok(frame.bytes().len())
    }

    fn after_sending(&mut self, slot: Slot, port: PortId) {
        let Some(generation) = self.pool.get(slot) else { return };
        let sent = generation.sent.get(usize::from(port.0)).copied().unwrap_or(u8::MAX);
        match self.role_of(slot) {
            Some(Role::Source { outputs, redundancy, .. }) => {
                self.after_source_sent(slot, port, outputs, redundancy);
            }
            _ if sent < generation.held() && self.settings.sending == SendingRule::Paced => {
                self.links.owe(&mut self.pool, slot, port);
            }
            _ => {}
        }
    }

    fn role_of(&self, slot: Slot) -> Option<Role> {
        let session = self.sessions.get(usize::from(self.pool.get(slot)?.session))?;
        self.rules.get(usize::from(session.rule)).map(|rule| rule.role)
    }
}

/// Makes `frame` as long as a packet of the generation and writes all its headers; the place for coding vector and block.
fn write_headers<'f, F: Frame>(
    generation: &Generation,
    mac: MacAddress,
    protocol: u8,
    frame: &'f mut F,
) -> Result<&'f mut [u8], NoRoom> {
    let row_octets = generation.header.generation_size() + generation.header.block_octets();
    frame.resize(ROW_AT + row_octets)?;
    let (head, row) = frame.bytes_mut().split_at_mut_checked(ROW_AT).ok_or(NoRoom)?;
    write_ip_headers(
        head,
        mac,
        Ipv4Fields {
            // Each node is a hop (RFC 1812, 5.3.1).
            ttl: generation.ip.ttl.saturating_sub(1),
            protocol,
            // A relay cannot code fragments, so nobody on the way may make any.
            flags: Ipv4Flags::DONT_FRAGMENT,
            ..generation.ip
        },
        CODED_HEADER_OCTETS + row_octets,
    )?;
    let header = head.get_mut(ETHERNET_HEADER_OCTETS + IPV4_HEADER_OCTETS..).ok_or(NoRoom)?;
    generation.header.write_to(header).map_err(|_| NoRoom)?;
    Ok(row)
}

/// Writes the Ethernet and IP headers of a packet to a group at the start of `to`.
pub(super) fn write_ip_headers(
    to: &mut [u8],
    mac: MacAddress,
    ip: Ipv4Fields,
    ip_payload_octets: usize,
) -> Result<(), NoRoom> {
    EthernetHeader::new(multicast_mac(ip.destination), mac, EtherType::IPV4)
        .write_to_prefix(to)
        .map_err(|_| NoRoom)?;
    let after = to.get_mut(ETHERNET_HEADER_OCTETS..).ok_or(NoRoom)?;
    Ipv4Header::new(ip, ip_payload_octets).write_to_prefix(after).map_err(|_| NoRoom)
}
