//! An mbuf as protocol state sees it.

use dpdk::Mbuf;
use heddle_core::node::{Frame, NoRoom};

/// A frame in an mbuf.
#[derive(Debug)]
#[repr(transparent)]
pub struct MbufFrame(pub Mbuf);

impl Frame for MbufFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    #[inline]
    fn resize(&mut self, len_octets: usize) -> Result<(), NoRoom> {
        self.0.resize(len_octets).map_err(|_| NoRoom)
    }

    #[inline]
    fn move_head(&mut self, octets: isize) -> Result<(), NoRoom> {
        match usize::try_from(octets) {
            Ok(grow) => self.0.prepend(grow).map(|_| ()),
            Err(_) => self.0.adj(octets.unsigned_abs()),
        }
        .map_err(|_| NoRoom)
    }
}
