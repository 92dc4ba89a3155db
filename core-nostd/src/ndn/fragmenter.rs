//! Cuts a packet that does not fit a link into fragments (NDNLPv2, indexed fragmentation).

use super::packet::{Link, Packet, Payload};
use super::tlv::{element_octets, types, write, write_number};
use super::{LpHeader, NdnError};

/// Octets of Sequence, FragIndex and FragCount with their types and lengths, the latter two in two octets each.
const FRAGMENT_FIELDS_OCTETS: usize = 10 + 4 + 4;

/// How one packet is cut.
#[derive(Copy, Clone, Debug)]
pub struct Fragmenter<'a> {
    /// Link fields of the packet, for the first fragment.
    fields: &'a [u8],
    network: &'a [u8],
    /// Octets of the packet in the first fragment.
    first_octets: usize,
    /// Octets of the packet in each other fragment but the last.
    other_octets: usize,
    count: u16,
}

impl<'a> Fragmenter<'a> {
    /// Cuts `packet` (bare, or a link packet that is no fragment itself) for links that carry `mtu_octets`.
    ///
    /// # Errors
    /// What is wrong with the packet, [`NdnError::AlreadyFragmented`], or [`NdnError::NoRoom`] when so small an MTU has no room for a
    /// fragment.
    pub fn new(packet: &'a [u8], mtu_octets: usize) -> Result<Self, NdnError> {
        let packet = Packet::parse(packet, Link::Datagram)?;
        let LpHeader { packet_fields, fragment, .. } = packet.link;
        let network = match packet.payload {
            Payload::Fragment(_) => return Err(NdnError::AlreadyFragmented),
            Payload::Idle => return Err(NdnError::NoRoom),
            _ => fragment.unwrap_or(packet.octets),
        };
        // Types and lengths take at most what they take for the whole MTU.
        let envelope = element_octets(types::LP_PACKET, mtu_octets)
            + element_octets(types::FRAGMENT, mtu_octets)
            - 2 * mtu_octets
            + FRAGMENT_FIELDS_OCTETS;
        let other_octets = mtu_octets.saturating_sub(envelope);
        let first_octets = other_octets.saturating_sub(packet_fields.len());
        if first_octets == 0 {
            return Err(NdnError::NoRoom);
        }
        let others = network.len().saturating_sub(first_octets).div_ceil(other_octets);
        let count = u16::try_from(1 + others).map_err(|_| NdnError::NoRoom)?;
        Ok(Self { fields: packet_fields, network, first_octets, other_octets, count })
    }

    /// How many fragments there are, at least one.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Writes the link packet of fragment `index` to `out` and returns its octets. `first_sequence` is the Sequence of fragment
    /// 0; the caller counts on by [`Fragmenter::count`].
    ///
    /// # Errors
    /// [`NdnError::FragmentIndexRange`] or [`NdnError::NoRoom`].
    pub fn write(
        &self,
        index: u16,
        first_sequence: u64,
        out: &mut [u8],
    ) -> Result<usize, NdnError> {
        if index >= self.count {
            return Err(NdnError::FragmentIndexRange);
        }
        let (from, octets, fields) = match index.checked_sub(1) {
            None => (0, self.first_octets, self.fields),
            Some(before) => (
                self.first_octets + usize::from(before) * self.other_octets,
                self.other_octets,
                &[][..],
            ),
        };
        let rest = self.network.get(from..).ok_or(NdnError::FragmentIndexRange)?;
        let piece = rest.get(..octets).unwrap_or(rest);
        let value_octets =
            FRAGMENT_FIELDS_OCTETS + fields.len() + element_octets(types::FRAGMENT, piece.len());
        let sequence = first_sequence.wrapping_add(u64::from(index));
        let out = write_number(types::LP_PACKET.into(), out)?;
        let out = write_number(value_octets as u64, out)?;
        let out = write(&[types::SEQUENCE as u8, 8], out)?;
        let out = write(&sequence.to_be_bytes(), out)?;
        let out = write(&[types::FRAG_INDEX as u8, 2], out)?;
        let out = write(&index.to_be_bytes(), out)?;
        let out = write(&[types::FRAG_COUNT as u8, 2], out)?;
        let out = write(&self.count.to_be_bytes(), out)?;
        let out = write(fields, out)?;
        let out = write_number(types::FRAGMENT.into(), out)?;
        let out = write_number(piece.len() as u64, out)?;
        write(piece, out)?;
        Ok(element_octets(types::LP_PACKET, value_octets))
    }
}
