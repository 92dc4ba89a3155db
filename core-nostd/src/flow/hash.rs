//! The hashes that rules are found by.

use super::fields::Fields;
use super::rule::MAX_NAME_COMPONENTS;
use crate::ndn::{Element, Name};
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

    /// Hashes the prefixes of up to `depth` components of the name whose TLV-VALUE are the first `name_octets` of `octets`. What
    /// follows it there is not looked at, but saves care at its end.
    #[inline]
    pub(super) fn set(&mut self, octets: &[u8], name_octets: usize, depth: usize, secret: u64) {
        let mut hash = mix(secret, 0xA076_1D64_78BD_642F);
        let (mut rest, mut end) = (octets, 0);
        self.known = 0;
        for (to_hash, to_end) in self.hashes.iter_mut().zip(&mut self.ends).take(depth + 1) {
            (*to_hash, *to_end) = (hash, end as u16);
            self.known += 1;
            if end >= name_octets {
                break;
            }
            let component_octets = component_octets(rest);
            let Some((mut component, after)) = rest.split_at_checked(component_octets) else {
                break;
            };
            // A word may be read beyond the component's end, where there is one.
            let mut wide = rest;
            while let (Some((octets, more)), true) =
                (wide.split_first_chunk::<8>(), component.len() > 8)
            {
                hash = mix(hash ^ u64::from_le_bytes(*octets), 0xE703_7ED1_A0B4_28DB);
                component = component.get(8..).unwrap_or_default();
                wide = more;
            }
            hash = mix(hash ^ first_word(wide, component.len()), 0xE703_7ED1_A0B4_28DB);
            rest = after;
            end += component_octets;
        }
    }

    /// The same for a name that may be absent.
    pub(super) fn set_name(&mut self, name: Option<&Name<'_>>, depth: usize, secret: u64) {
        match name {
            Some(name) => self.set(name.value(), name.value().len(), depth, secret),
            None => self.clear(),
        }
    }

    /// Knows of no name.
    #[inline]
    pub(super) const fn clear(&mut self) {
        self.known = 0;
    }

    /// Hash and octets of the prefix of so many components, when the name has them.
    #[inline]
    pub(super) fn get(&self, depth: usize) -> Option<(u64, u16)> {
        let known = depth < self.known;
        let (hash, end) = (self.hashes.get(depth)?, self.ends.get(depth)?);
        known.then_some((*hash, *end))
    }
}

/// Octets of the component that a checked name goes on with.
#[inline]
fn component_octets(rest: &[u8]) -> usize {
    match rest {
        [kind, length, ..] if *kind < 0xfd && *length < 0xfd => 2 + usize::from(*length),
        _ => Element::first(rest).map_or(rest.len(), |(element, _)| element.whole.len()),
    }
}

/// The first word of `rest`, of which `left` octets count, as a number.
#[inline]
fn first_word(rest: &[u8], left: usize) -> u64 {
    match rest.first_chunk::<8>() {
        Some(octets) if left >= 8 => u64::from_le_bytes(*octets),
        Some(octets) => u64::from_le_bytes(*octets) & ((1 << (8 * left)) - 1),
        None => word(rest.get(..left).unwrap_or(rest)),
    }
}

/// Multiplies and folds: one step of every hash here.
#[inline]
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
#[inline]
pub(super) const fn tag(hash: u64) -> u16 {
    let tag = (hash >> 48) as u16;
    if tag == 0 { 1 } else { tag }
}

/// The hash of a rule or a packet in one subtable.
#[inline]
pub(super) const fn join(fields: u64, name: u64, subtable: u16) -> u64 {
    mix(fields ^ name ^ ((subtable as u64) << 32), 0x8EBC_6AF0_9C88_C6E3)
}

/// The hash of the fields that the mask has, whose words that are not zero are known.
#[inline]
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

/// Whether the packet is what the rule asks for, in the words that the mask has.
#[inline]
pub(super) fn equal_under(rule: &Fields, packet: &Fields, mask: &Fields, words: u16) -> bool {
    let (mut difference, mut left) = (0, words);
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let words = (rule.words().get(at), packet.words().get(at), mask.words().get(at));
        if let (Some(rule), Some(packet), Some(mask)) = words {
            difference |= rule ^ (packet & mask);
        }
    }
    difference == 0
}
