//! The destination: solves for the original blocks and delivers them as normal IP packets (section II.C).

use super::forwarder::write_ip_headers;
use super::generation::Coding;
use super::list::Slot;
use super::node::{CodedDrop, CodedNode};
use super::settings::Cut;
use super::{CodedError, CodedEvent};
use crate::node::{Engine, Frame, PortSet};
use crate::rlnc::BlockSet;
use crate::wire::{
    ETHERNET_HEADER_OCTETS, IPV4_HEADER_OCTETS, Ipv4Fields, UdpHeader, udp_checksum_is_right,
};

/// Octets before the UDP datagram.
const DATAGRAM_AT: usize = ETHERNET_HEADER_OCTETS + IPV4_HEADER_OCTETS;

impl CodedNode<'_> {
    /// Delivers what the newest packet of the generation at `slot` has brought, which made the blocks `decoded` decodable.
    ///
    /// # Errors
    /// Why something could not be delivered that should have been.
    pub(super) fn deliver<E: Engine>(
        &mut self,
        slot: Slot,
        decoded: BlockSet,
        cut: Cut,
        deliver: PortSet,
        engine: &mut E,
    ) -> Result<(), CodedDrop> {
        let generation = self.pool.get(slot).ok_or(CodedError::NoMemory)?;
        let k = generation.header.gen_size;
        let is_complete = generation.held() == k;
        if is_complete {
            self.counters.event(CodedEvent::GenerationsDecoded);
        }
        match cut {
            Cut::Datagram if is_complete => self.deliver_blocks(slot, 0..k, deliver, engine),
            Cut::Datagram => Ok(()),
            // Each block is a datagram, and need not wait for the others. One that is wrong does not keep the rest back.
            Cut::Packets { .. } => {
                let mut result = Ok(());
                for block in decoded.iter() {
                    result =
                        self.deliver_blocks(slot, block..block + 1, deliver, engine).and(result);
                }
                result
            }
        }
    }

    /// Decodes `blocks`, which together are one datagram, into a frame and sends it to the hosts.
    fn deliver_blocks<E: Engine>(
        &mut self,
        slot: Slot,
        blocks: core::ops::Range<u8>,
        deliver: PortSet,
        engine: &mut E,
    ) -> Result<(), CodedDrop> {
        let (generation, octets) = self.pool.parts(slot).ok_or(CodedError::NoMemory)?;
        let Coding::Destination(decoder) = &generation.coding else { return Ok(()) };
        let block_octets = decoder.block_octets();
        let mut frame = engine.allocate().ok_or(CodedError::NoFrame)?;
        frame.resize(DATAGRAM_AT + blocks.len() * block_octets).map_err(|_| CodedError::NoFrame)?;
        let (head, data) =
            frame.bytes_mut().split_at_mut_checked(DATAGRAM_AT).ok_or(CodedError::NoFrame)?;
        for (block, to) in blocks.zip(data.chunks_exact_mut(block_octets.max(1))) {
            decoder.block_into(octets, block, to).map_err(|_| CodedError::NoMemory)?;
        }
        let ip = Ipv4Fields {
            ttl: generation.ip.ttl.saturating_sub(1).max(1),
            protocol: generation.header.protocol,
            ..generation.ip
        };
        let (_, datagram) = UdpHeader::datagram(data).map_err(|_| CodedError::DecodedLen)?;
        if !udp_checksum_is_right(ip.source, ip.destination, datagram) {
            return Err(CodedError::DecodedChecksum.into());
        }
        let octets = datagram.len();
        let mac = deliver
            .iter()
            .next()
            .and_then(|port| self.links.get(port))
            .map(|link| link.mac)
            .unwrap_or_default();
        write_ip_headers(head, mac, ip, octets).map_err(|_| CodedError::NoFrame)?;
        frame.resize(DATAGRAM_AT + octets).map_err(|_| CodedError::NoFrame)?;
        engine.replicate(deliver, frame);
        self.counters.event(CodedEvent::DatagramsDelivered);
        Ok(())
    }
}
