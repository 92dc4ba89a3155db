//! The source: partitions UDP datagrams into generations and codes them (section II.A, section III.D).
//!
//! Its coding vectors are rows of a matrix without zeros of which any K are independent. For each
//! generation it sends max(K, number of outputs) packets and the redundancy, dealt to the outputs in turn.

use super::generation::{Coding, Generation};
use super::header::{BLOCK_LEN_UNIT_OCTETS, CodedHeader, block_len_units};
use super::list::Slot;
use super::node::{CodedDrop, CodedNode};
use super::session::SessionKey;
use super::settings::{Cut, Role, SessionRule};
use super::{CodedError, CodedEvent};
use crate::gf::{Gf256, Rows};
use crate::node::{Engine, Instant, NoRoom, PortId, PortSet};
use crate::rlnc::{CoefficientGenerator, Encoder, cauchy_row};
use crate::wire::{IP_PROTOCOL_UDP, Ipv4Fields, UdpHeader, WireError, udp_checksum_is_right};

/// The packet of a generation that is the `nth` of those on `port`, numbered over all outputs.
fn packet_number(outputs: PortSet, port: PortId, gen_id: u16, nth: u8) -> Option<usize> {
    let position = outputs.iter().position(|output| output == port)?;
    // The turn begins at another output for each generation, so that no link gets the odd packet each time.
    let turn = (position + usize::from(gen_id)).checked_rem(outputs.len())?;
    Some(turn + usize::from(nth) * outputs.len())
}

/// Writes coding vector and block of the next packet on `port`.
pub(super) fn encode(
    generation: &Generation,
    blocks: &Rows<'_>,
    outputs: PortSet,
    port: PortId,
    random: &mut CoefficientGenerator,
    row: &mut [u8],
) -> Result<(), NoRoom> {
    let header = &generation.header;
    let (vector, block) = row.split_at_mut_checked(header.generation_size()).ok_or(NoRoom)?;
    let nth = generation.sent.get(usize::from(port.0)).copied().unwrap_or(0);
    let number = packet_number(outputs, port, header.gen_id(), nth).ok_or(NoRoom)?;
    if cauchy_row::<Gf256>(header.gen_size, number, vector).is_err() {
        // The field has no further row: as good a packet as a relay's.
        random.fill_non_zero::<Gf256>(vector, header.generation_size());
    }
    let encoder = Encoder::<Gf256, _>::new(blocks, header.block_octets()).map_err(|_| NoRoom)?;
    encoder.encode(vector, block).map_err(|_| NoRoom)
}

impl CodedNode<'_> {
    /// Takes a UDP datagram that a host sends to a group with a source rule here.
    pub(super) fn take_datagram<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        ip: Ipv4Fields,
        ip_payload: &[u8],
        engine: &mut E,
    ) -> Result<(), CodedDrop> {
        let (number, rule) = self.find_rule(|rule| {
            matches!(rule.role, Role::Source { .. })
                && rule.group == ip.destination
                && rule.source.is_none_or(|source| source == ip.source)
                && rule.admits(port)
        });
        let Some(SessionRule {
            session_id,
            role: Role::Source { cut, generation_size, udp_port, outputs, .. },
            ..
        }) = rule
        else {
            return Err(CodedError::NotCoded.into());
        };
        let (udp, datagram) = UdpHeader::datagram(ip_payload)?;
        if udp_port.is_some_and(|udp_port| udp_port != udp.destination_port()) {
            return Err(CodedError::NotCoded.into());
        }
        if !udp_checksum_is_right(ip.source, ip.destination, datagram) {
            return Err(WireError::UdpChecksum.into());
        }
        // The first coded packet leaves with a TTL one lower, and must arrive somewhere with more than none.
        if ip.ttl <= 1 {
            return Err(CodedError::Ttl.into());
        }
        let key = SessionKey { source: ip.source, group: ip.destination, session_id };
        let session = match self.find_session(&key) {
            Some(session) => session,
            None => {
                let session = self.begin_session(now, key, number, 0)?;
                // A source that restarts must not seem to go on with the generations from before.
                let first_gen_id = self.random.next_u64() as u16;
                if let Some(session) = self.sessions.get_mut(session) {
                    session.next_gen_id = first_gen_id;
                }
                session
            }
        };
        match cut {
            Cut::Datagram => {
                let slot = self.cut_datagram(now, session, ip, datagram, generation_size)?;
                self.links.queue(&mut self.pool, slot, outputs);
            }
            Cut::Packets { flush_after } => {
                let slot = self.collect_datagram(now, session, ip, datagram, generation_size)?;
                match self.pool.get(slot) {
                    Some(generation) if generation.held() == generation_size => {
                        self.close_generation(slot, outputs);
                    }
                    Some(generation) => {
                        let flush = generation.gen_last_updated_time.after(flush_after);
                        self.next_flush =
                            Some(self.next_flush.map_or(flush, |next| next.min(flush)));
                    }
                    None => {}
                }
            }
        }
        self.counters.event(CodedEvent::DatagramsTaken);
        for output in outputs.iter() {
            self.send_on(now, output, None, engine);
        }
        Ok(())
    }

    /// A generation of one datagram, cut in K blocks and padded with zeros.
    fn cut_datagram(
        &mut self,
        now: Instant,
        session: usize,
        ip: Ipv4Fields,
        datagram: &[u8],
        k: u8,
    ) -> Result<Slot, CodedDrop> {
        let block_octets =
            datagram.len().div_ceil(usize::from(k).max(1)).next_multiple_of(BLOCK_LEN_UNIT_OCTETS);
        let slot = self.begin_source_generation(now, session, ip, k, block_octets)?;
        let mut rest = datagram;
        for index in 0..k {
            let (block, after) = rest.split_at_checked(block_octets).unwrap_or((rest, &[]));
            rest = after;
            self.put_block(slot, index, block)?;
        }
        Ok(slot)
    }

    /// Puts a datagram into the generation that is open, or opens one.
    fn collect_datagram(
        &mut self,
        now: Instant,
        session: usize,
        ip: Ipv4Fields,
        datagram: &[u8],
        k: u8,
    ) -> Result<Slot, CodedDrop> {
        let max_block_octets = self.settings.max_block_octets();
        let block_octets = datagram.len().next_multiple_of(BLOCK_LEN_UNIT_OCTETS);
        let open = self.sessions.get(session).and_then(|session| session.open);
        let slot = match open {
            Some(slot) => slot,
            None => {
                let slot = self.begin_source_generation(now, session, ip, k, block_octets)?;
                if let Some(session) = self.sessions.get_mut(session) {
                    session.open = Some(slot);
                }
                slot
            }
        };
        let generation = self.pool.get_mut(slot).ok_or(CodedError::NoMemory)?;
        if block_octets > generation.header.block_octets() {
            generation.header.block_len_units = block_len_units(block_octets)
                .filter(|_| block_octets <= max_block_octets)
                .ok_or(CodedError::DatagramTooLarge)?;
        }
        let index = generation.held();
        self.put_block(slot, index, datagram)?;
        Ok(slot)
    }

    /// Room for a new generation, unless all that the session may have still wait to be sent.
    fn begin_source_generation(
        &mut self,
        now: Instant,
        session: usize,
        ip: Ipv4Fields,
        k: u8,
        block_octets: usize,
    ) -> Result<Slot, CodedDrop> {
        let max_block_octets = self.settings.max_block_octets();
        let units = block_len_units(block_octets)
            .filter(|_| block_octets <= max_block_octets)
            .ok_or(CodedError::DatagramTooLarge)?;
        let state = self.sessions.get_mut(session).ok_or(CodedError::SessionTableFull)?;
        if state.ses_gen_counter() >= state.ses_max_gen {
            return Err(CodedError::SourceQueueFull.into());
        }
        let gen_id = state.next_gen_id;
        state.next_gen_id = gen_id.wrapping_add(1);
        state.last_updated_time = now;
        let session_id = state.key.map_or(0, |key| key.session_id);
        let header = CodedHeader::new(IP_PROTOCOL_UDP, session_id, 0, gen_id, k, units);
        let coding = Coding::Source { blocks: 0 };
        let slot = self.begin_generation(now, session, header, coding)?;
        if let Some(generation) = self.pool.get_mut(slot) {
            generation.ip = ip;
        }
        Ok(slot)
    }

    /// Block `index` of the generation becomes `block`, with zeros behind it however long the blocks turn out.
    fn put_block(&mut self, slot: Slot, index: u8, block: &[u8]) -> Result<(), CodedDrop> {
        let block_rows = self.pool.block_rows;
        let (generation, octets) = self.pool.parts(slot).ok_or(CodedError::NoMemory)?;
        block_rows.put(octets, index, block).ok_or(CodedError::DatagramTooLarge)?;
        generation.coding = Coding::Source { blocks: index + 1 };
        Ok(())
    }

    /// A generation that collected datagrams goes out with those that it has: the last one may be short.
    fn close_generation(&mut self, slot: Slot, outputs: PortSet) {
        let Some(generation) = self.pool.get_mut(slot) else { return };
        generation.header.gen_size = generation.held();
        if let Some(session) = self.sessions.get_mut(usize::from(generation.session)) {
            session.open = None;
        }
        self.links.queue(&mut self.pool, slot, outputs);
    }

    /// Closes the generations that have waited `flush_after` for their K datagrams.
    pub(super) fn flush_open_generations(&mut self, now: Instant) {
        if self.next_flush.is_none_or(|flush| now < flush) {
            return;
        }
        self.next_flush = None;
        for index in 0..self.sessions.len() {
            let Some(session) = self.sessions.get(index) else { return };
            let rule = self.rules.get(usize::from(session.rule));
            let (Some(slot), Some(Role::Source { cut: Cut::Packets { flush_after }, outputs, .. })) =
                (session.open, rule.map(|rule| rule.role))
            else {
                continue;
            };
            let Some(generation) = self.pool.get(slot) else { continue };
            let flush = generation.gen_last_updated_time.after(flush_after);
            if flush <= now {
                self.close_generation(slot, outputs);
            } else {
                self.next_flush = Some(self.next_flush.map_or(flush, |next| next.min(flush)));
            }
        }
    }

    /// Queues the generation again on a link that has more packets of it to send; ends it once all are sent.
    pub(super) fn after_source_sent(
        &mut self,
        slot: Slot,
        port: PortId,
        outputs: PortSet,
        redundancy: u8,
    ) {
        let Some(generation) = self.pool.get(slot) else { return };
        let packets =
            generation.header.generation_size().max(outputs.len()) + usize::from(redundancy);
        let gen_id = generation.header.gen_id();
        let more_on = |port: PortId| {
            let nth = generation.sent.get(usize::from(port.0)).copied().unwrap_or(u8::MAX);
            packet_number(outputs, port, gen_id, nth).is_some_and(|number| number < packets)
        };
        if more_on(port) {
            self.links.queue(&mut self.pool, slot, PortSet::EMPTY.with(port));
        } else if !outputs.iter().any(more_on) {
            self.end_generation(slot);
        }
    }
}
