//! Named-data packets that are too long for a port leave it in fragments (NDNLPv2), each in headers like the packet's own.

use super::FlowError;
use super::named::Envelope;
use super::way::Way;
use crate::ndn::Fragmenter;
use crate::node::{Engine, Frame, PortId};

impl<E: Engine> Way<'_, '_, E> {
    /// Cuts the frame's packet for a port that sends up to `mtu_octets` and sends the fragments there.
    ///
    /// # Errors
    /// [`FlowError::FrameExceedsMtu`] when the frame has no whole named-data packet in it, or so small an MTU no room for its
    /// fragments; [`FlowError::FragmentChecksum`]; [`FlowError::NoFrames`]. Fragments that were sent before frames ran out are lost.
    pub(super) fn send_in_fragments(
        &mut self,
        port: PortId,
        octets: &[u8],
        mtu_octets: usize,
    ) -> Result<(), FlowError> {
        let too_long = FlowError::FrameExceedsMtu;
        let envelope = Envelope::of(octets)?.ok_or(too_long)?;
        let headers = octets.get(..envelope.at).ok_or(too_long)?;
        let packet = octets.get(envelope.at..envelope.at + envelope.octets).ok_or(too_long)?;
        let room_octets = mtu_octets.saturating_sub(headers.len());
        let fragmenter = Fragmenter::new(packet, room_octets).map_err(|_| too_long)?;
        if !envelope.is_right(octets) {
            return Err(FlowError::FragmentChecksum);
        }
        // Halved, so that counting on from it never wraps.
        let sequence = self.draws.next() >> 1;
        for index in 0..fragmenter.count() {
            let mut frame = self.engine.allocate().ok_or(FlowError::NoFrames)?;
            frame.resize(mtu_octets).map_err(|_| FlowError::NoFrames)?;
            let (to_headers, to_packet) =
                frame.bytes_mut().split_at_mut_checked(headers.len()).ok_or(too_long)?;
            to_headers.copy_from_slice(headers);
            let written = fragmenter.write(index, sequence, to_packet).map_err(|_| too_long)?;
            frame.resize(headers.len() + written).map_err(|_| too_long)?;
            envelope.close(frame.bytes_mut(), index)?;
            self.engine.transmit(port, frame);
        }
        self.sent += 1;
        Ok(())
    }
}
