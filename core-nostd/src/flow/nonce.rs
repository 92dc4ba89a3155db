//! Interests that come without a Nonce get one on their way (NDN packet specification v0.3, Interest).

use super::named::Envelope;
use crate::ndn::{NdnError, NonceGap, Packet};
use crate::node::Frame;

/// Adds a Nonce to the Interest in a frame, alone or in a link packet, with the lengths and checksums around it. An Interest whose
/// UDP checksum is wrong stays as it is: who gets it must be able to tell.
///
/// # Errors
/// [`NdnError::NoRoom`] when the frame or its headers cannot grow; the frame is then as it was.
pub(super) fn add_nonce<F: Frame>(frame: &mut F, nonce: u32) -> Result<(), NdnError> {
    let octets = frame.bytes();
    let Ok(Some(envelope)) = Envelope::of(octets) else { return Ok(()) };
    let end = envelope.at + envelope.octets;
    let packet = octets.get(envelope.at..end).unwrap_or_default();
    let packet = Packet::parse(packet, envelope.link)?;
    let Some(gap) = NonceGap::of(&packet)? else { return Ok(()) };
    if !envelope.is_right(octets) {
        return Ok(());
    }
    // What is behind the packet is padding.
    let whole = envelope.at + packet.octets.len() + gap.octets();
    if whole > usize::from(u16::MAX) {
        return Err(NdnError::NoRoom);
    }
    frame.resize(whole).map_err(|_| NdnError::NoRoom)?;
    let octets = frame.bytes_mut();
    gap.fill(nonce.to_be_bytes(), octets.get_mut(envelope.at..).unwrap_or_default())?;
    envelope.close(octets, 0).map_err(|_| NdnError::NoRoom)
}
