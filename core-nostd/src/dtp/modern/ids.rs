//! Connection ids: an end's own number of a flow, enciphered, so that an id needs no table and tells nobody else anything.
//!
//! The block is `server 2 || mark 2 || slot 4 || generation 4 || sequence 4`. Who holds the key (a steering middlebox) finds the server in it.

use super::{ConnectionId, KEY_OCTETS};
use aes_gcm::aes::{
    Aes256,
    cipher::{BlockCipherDecrypt, BlockCipherEncrypt},
};
use hmac::KeyInit;

/// Told apart from an id that somebody made up; the generation and the packet's tag prove the rest.
const MARK: u16 = 0xd7b1;

/// What an id says to who made it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IdContent {
    /// The server that the flow lives on.
    pub server: u16,
    /// The flow's place in the server's table.
    pub slot: u32,
    /// How often that place has been used.
    pub generation: u32,
    /// Which of the flow's ids it is.
    pub sequence: u32,
}

/// The cipher of an end's connection ids.
pub struct IdCipher(Aes256);

impl IdCipher {
    /// A cipher with that key; servers behind one steering middlebox share it.
    pub fn new(key: &[u8; KEY_OCTETS]) -> Self {
        Self(Aes256::new(&(*key).into()))
    }

    /// The id of that content.
    pub fn seal(&self, content: IdContent) -> ConnectionId {
        let IdContent { server, slot, generation, sequence } = content;
        let octets = server.to_be_bytes().into_iter().chain(MARK.to_be_bytes());
        let octets = octets.chain(slot.to_be_bytes()).chain(generation.to_be_bytes());
        let mut block = [0; 16];
        let octets = octets.chain(sequence.to_be_bytes());
        block.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet);
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        block.into()
    }

    /// The content of an id, or nothing when this key did not make it.
    pub fn open(&self, id: &ConnectionId) -> Option<IdContent> {
        let mut block = (*id).into();
        self.0.decrypt_block(&mut block);
        let octets: [u8; 16] = block.into();
        let (words, _) = octets.as_chunks::<4>();
        let [head, slot, generation, sequence] = *words else { return None };
        let [a, b, c, d] = head;
        (u16::from_be_bytes([c, d]) == MARK).then_some(IdContent {
            server: u16::from_be_bytes([a, b]),
            slot: u32::from_be_bytes(slot),
            generation: u32::from_be_bytes(generation),
            sequence: u32::from_be_bytes(sequence),
        })
    }

    /// A number that depends on 16 octets and on the key. It says nothing of ids that are sealed: the other direction of the cipher makes it.
    pub(super) fn unforeseen(&self, octets: &ConnectionId) -> u64 {
        let mut block = (*octets).into();
        self.0.decrypt_block(&mut block);
        let octets: [u8; 16] = block.into();
        octets.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    }
}

impl core::fmt::Debug for IdCipher {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("IdCipher(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_under_its_key_alone() {
        let content = IdContent { server: 7, slot: 1 << 20, generation: 3, sequence: 9 };
        let cipher = IdCipher::new(&[1; 32]);
        let id = cipher.seal(content);
        assert_eq!(cipher.open(&id), Some(content));
        assert_eq!(IdCipher::new(&[2; 32]).open(&id), None);
        let next = cipher.seal(IdContent { sequence: 10, ..content });
        assert!(id.iter().zip(next).filter(|(a, b)| **a == *b).count() < 8, "nothing in common");
    }
}
