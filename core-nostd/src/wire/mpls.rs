//! MPLS label stack entries (RFC 3032).

use super::EtherType;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U32};

/// Octets of a label stack entry.
pub const MPLS_ENTRY_OCTETS: usize = 4;

impl EtherType {
    /// MPLS, unicast (RFC 5332).
    pub const MPLS: Self = Self(0x8847);
    /// MPLS with an upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: Self = Self(0x8848);
}

/// One entry of a label stack.
#[repr(C)]
#[derive(Copy, Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
pub struct MplsEntry(U32);

impl MplsEntry {
    /// An entry with the low 20 bits of `label` and the low 3 of `traffic_class`.
    pub fn new(label: u32, traffic_class: u8, is_bottom: bool, ttl: u8) -> Self {
        let class = u32::from(traffic_class & 7) << 9;
        Self(U32::new(
            (label & 0xf_ffff) << 12 | class | u32::from(is_bottom) << 8 | u32::from(ttl),
        ))
    }

    /// The 20-bit label.
    pub fn label(&self) -> u32 {
        self.0.get() >> 12
    }

    /// The three bits of traffic class (RFC 5462).
    pub fn traffic_class(&self) -> u8 {
        (self.0.get() >> 9) as u8 & 7
    }

    /// Whether this is the last entry of its stack.
    pub fn is_bottom(&self) -> bool {
        self.0.get() & 0x100 != 0
    }

    /// Hops that the packet may still make.
    pub fn ttl(&self) -> u8 {
        self.0.get() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_fields_in_order() {
        let entry = MplsEntry::new(0xabcde, 5, true, 64);
        assert_eq!(entry.as_bytes(), [0xab, 0xcd, 0xeb, 64]);
        assert_eq!(
            (entry.label(), entry.traffic_class(), entry.is_bottom(), entry.ttl()),
            (0xabcde, 5, true, 64)
        );
    }
}
