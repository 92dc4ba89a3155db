//! IPv6 headers (RFC 8200).

use super::EtherType;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U16, big_endian::U32,
};

/// Octets of an IPv6 header.
pub const IPV6_HEADER_OCTETS: usize = 40;

/// An IPv6 address, most significant octet first.
pub type Ipv6Addr = [u8; 16];

impl EtherType {
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
}

/// An IPv6 header without extension headers.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct Ipv6Header {
    version_class_label: U32,
    payload_len: U16,
    /// What follows the header.
    pub next_header: u8,
    /// Hops that the packet may still make.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// A header of these values with traffic class and flow label 0.
    pub fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: u8,
        hop_limit: u8,
        payload_octets: u16,
    ) -> Self {
        Self {
            version_class_label: U32::new(6 << 28),
            payload_len: U16::new(payload_octets),
            next_header,
            hop_limit,
            source,
            destination,
        }
    }

    /// The version, 6 if it is IPv6 at all.
    pub fn version(&self) -> u8 {
        (self.version_class_label.get() >> 28) as u8
    }

    /// Differentiated services and ECN.
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label.get() >> 20) as u8
    }

    /// The 20-bit flow label.
    pub fn flow_label(&self) -> u32 {
        self.version_class_label.get() & 0xf_ffff
    }

    /// Octets after the header.
    pub fn payload_len(&self) -> usize {
        usize::from(self.payload_len.get())
    }

    /// Sets differentiated services and ECN.
    pub fn set_traffic_class(&mut self, class: u8) {
        let rest = self.version_class_label.get() & !(0xff << 20);
        self.version_class_label.set(rest | u32::from(class) << 20);
    }

    /// Sets the flow label to the low 20 bits of `label`.
    pub fn set_flow_label(&mut self, label: u32) {
        let rest = self.version_class_label.get() & !0xf_ffff;
        self.version_class_label.set(rest | (label & 0xf_ffff));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_rfc_8200_draws_them() {
        let mut header = Ipv6Header::new([1; 16], [2; 16], 17, 64, 0x1234);
        header.set_traffic_class(0xab);
        header.set_flow_label(0xfff_cdef1);
        let octets = header.as_bytes();
        assert_eq!(octets[..8], [0x6a, 0xbc, 0xde, 0xf1, 0x12, 0x34, 17, 64]);
        assert_eq!(
            (header.version(), header.traffic_class(), header.flow_label()),
            (6, 0xab, 0xcdef1)
        );
        assert_eq!((octets[8], octets[24], octets.len()), (1, 2, IPV6_HEADER_OCTETS));
    }
}
