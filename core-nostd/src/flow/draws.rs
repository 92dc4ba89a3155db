//! Numbers that others cannot guess, for Nonces and the Sequences of fragments.

use super::hash::mix;

/// A generator that stays in step with nothing: cores with one secret draw different numbers as soon as they have seen different
/// packets. What is drawn tells packets apart; it keeps no secret.
#[derive(Debug)]
pub(super) struct Draws {
    state: u64,
    count: u64,
}

impl Draws {
    pub(super) const fn new(secret: u64) -> Self {
        Self { state: mix(secret ^ 0x2545_F491_4F6C_DD1D, 0x9E37_79B9_7F4A_7C15), count: 0 }
    }

    /// Takes in something of a packet.
    pub(super) const fn stir(&mut self, with: u64) {
        self.state = mix(self.state ^ with, 0xA076_1D64_78BD_642F);
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.count = self.count.wrapping_add(0xE703_7ED1_A0B4_28DB);
        mix(self.state ^ self.count, 0x8EBC_6AF0_9C88_C6E3)
    }
}
