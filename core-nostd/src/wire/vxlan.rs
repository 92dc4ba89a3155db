//! VXLAN (RFC 7348).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U32};

/// The UDP port of VXLAN.
pub const VXLAN_PORT: u16 = 4789;

/// Octets of a VXLAN header.
pub const VXLAN_HEADER_OCTETS: usize = 8;

const HAS_VNI: u32 = 0x0800_0000;

/// The header between UDP and an Ethernet frame.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct VxlanHeader {
    flags: U32,
    vni: U32,
}

impl VxlanHeader {
    /// A header with the low 24 bits of `vni`.
    pub fn new(vni: u32) -> Self {
        Self { flags: U32::new(HAS_VNI), vni: U32::new(vni << 8) }
    }

    /// The network, when the header says that it has one.
    pub fn vni(&self) -> Option<u32> {
        (self.flags.get() & HAS_VNI != 0).then_some(self.vni.get() >> 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_there_when_its_flag_is() {
        let header = VxlanHeader::new(0xff_abcdef);
        assert_eq!(header.as_bytes(), [8, 0, 0, 0, 0xab, 0xcd, 0xef, 0]);
        assert_eq!(header.vni(), Some(0xabcdef));
        assert_eq!(VxlanHeader::read_from_bytes(&[0; 8]).unwrap().vni(), None);
    }
}
