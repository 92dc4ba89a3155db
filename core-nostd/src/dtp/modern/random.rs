//! The endpoint's own generator: ChaCha20 under a key that each block replaces, so that what was drawn cannot be found again.

use chacha20::cipher::{KeyIvInit, StreamCipherCore};
use chacha20::{ChaChaCore, R20, variants::Ietf};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets that one block gives besides the next key.
const BLOCK_OCTETS: usize = 32;

/// A cryptographic generator from a seed.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(in crate::dtp) struct Random {
    key: [u8; 32],
    block: [u8; BLOCK_OCTETS],
    used: usize,
}

impl Random {
    /// A generator from 32 octets of the system's.
    pub const fn new(seed: [u8; 32]) -> Self {
        Self { key: seed, block: [0; BLOCK_OCTETS], used: BLOCK_OCTETS }
    }

    fn octet(&mut self) -> u8 {
        if self.used >= BLOCK_OCTETS {
            let mut core = ChaChaCore::<R20, Ietf>::new(&self.key.into(), &[0; 12].into());
            let mut stream = [0; 64].into();
            core.write_keystream_block(&mut stream);
            let places = self.key.iter_mut().chain(&mut self.block);
            places.zip(stream).for_each(|(place, octet)| *place = octet);
            stream.as_mut_slice().zeroize();
            self.used = 0;
        }
        let octet = self.block.get_mut(self.used).map_or(0, core::mem::take);
        self.used += 1;
        octet
    }

    /// The next octets.
    pub fn array<const OCTETS: usize>(&mut self) -> [u8; OCTETS] {
        let mut out = [0; OCTETS];
        out.iter_mut().for_each(|place| *place = self.octet());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_octets_and_no_others() {
        let first: [u8; 100] = Random::new([1; 32]).array();
        assert_eq!(first, Random::new([1; 32]).array::<100>());
        assert_ne!(first, Random::new([2; 32]).array::<100>());
        let mut random = Random::new([1; 32]);
        let (a, b): ([u8; 50], [u8; 50]) = (random.array(), random.array());
        assert_eq!([a, b].concat(), first);
        assert_ne!(a, b);
    }
}
