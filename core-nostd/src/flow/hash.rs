//! The hashes that rules are found by.

use super::fields::{FIELD_WORDS, Fields};
use super::rule::MAX_NAME_COMPONENTS;
use crate::ndn::Name;
use core::hash::Hasher;

/// Hashes of the prefixes of one packet's name.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    hashes: [u64; MAX_NAME_COMPONENTS + 1],
    ends: [u16; MAX_NAME_COMPONENTS + 1],
    /// Prefixes that are known, the root's with them; 0 without a name.
    known: usize,
}

impl Prefixes {
    pub(super) const NONE: Self =
        Self { hashes: [0; MAX_NAME_COMPONENTS + 1], ends: [0; MAX_NAME_COMPONENTS + 1], known: 0 };

    /// Hashes the prefixes of up to `depth` components.
    pub(super) fn set(&mut self, name: Option<&Name<'_>>, depth: usize, secret: u64) {
        self.known = 0;
        let Some(name) = name else { return };
        let mut hash = mix(secret, 0xA076_1D64_78BD_642F);
        let (mut rest, mut end) = (name.value(), 0);
        let mut components = name.components();
        for (to_hash, to_end) in self.hashes.iter_mut().zip(&mut self.ends).take(depth + 1) {
            (*to_hash, *to_end) = (hash, end as u16);
            self.known += 1;
            let Some(component) = components.next() else { break };
            let Some((octets, after)) = rest.split_at_checked(component.octets) else { break };
            for chunk in octets.chunks(8) {
                hash = mix(hash ^ word(chunk), 0xE703_7ED1_A0B4_28DB);
            }
            hash = hash.wrapping_add(octets.len() as u64);
            (rest, end) = (after, end + octets.len());
        }
    }

    /// Hash and octets of the prefix of so many components, when the name has them.
    pub(super) fn get(&self, depth: usize) -> Option<(u64, usize)> {
        let known = depth < self.known;
        let (hash, end) = (self.hashes.get(depth)?, self.ends.get(depth)?);
        known.then_some((*hash, usize::from(*end)))
    }
}

/// Multiplies and folds: one step of every hash here.
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes what derives `Hash`.
pub(super) struct Mixer(pub(super) u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        mix(self.0, 0xD6E8_FEB8_6659_FD93)
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            self.0 = mix(self.0 ^ word(chunk), 0xA076_1D64_78BD_642F | 1);
            self.0 = self.0.wrapping_add(chunk.len() as u64);
        }
    }
}

/// Up to eight octets as a number.
pub(super) fn word(octets: &[u8]) -> u64 {
    if let Some(octets) = octets.first_chunk::<8>() {
        return u64::from_le_bytes(*octets);
    }
    octets.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet))
}

/// The bits of a hash that a bucket keeps.
pub(super) const fn tag(hash: u64) -> u16 {
    let tag = (hash >> 48) as u16;
    if tag == 0 { 1 } else { tag }
}

/// The hash of a rule or a packet in one subtable.
pub(super) const fn join(fields: u64, name: u64, subtable: u16) -> u64 {
    mix(fields ^ name ^ ((subtable as u64) << 32), 0x8EBC_6AF0_9C88_C6E3)
}

/// The hash of the fields that the mask has, whose words that are not zero are known.
pub(super) fn hash_fields(fields: &Fields, mask: &Fields, words: u16, secret: u64) -> u64 {
    let mut hash = secret | 1;
    let mut left = words;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        if let (Some(field), Some(bits)) = (fields.words().get(at), mask.words().get(at)) {
            hash = mix(hash ^ (field & bits), 0x5899_65CC_7537_4CC3);
        }
    }
    hash
}

/// Whether the packet is what the rule asks for.
pub(super) fn equal_under(rule: &Fields, packet: &Fields, mask: &Fields) -> bool {
    let mut difference = 0;
    for at in 0..FIELD_WORDS {
        let words = (rule.words().get(at), packet.words().get(at), mask.words().get(at));
        if let (Some(rule), Some(packet), Some(mask)) = words {
            difference |= rule ^ (packet & mask);
        }
    }
    difference == 0
}
