//! The names that rules ask for: in the rule as far as they fit, and then in a chain of chunks.

use super::rule::{CHUNK_OCTETS, INLINE_NAME_OCTETS, NONE, NameChunk, Rule};
use super::table::TableError;

/// The chunks.
#[derive(Debug)]
pub(super) struct NameStore<'m> {
    chunks: &'m mut [NameChunk],
    free: u32,
}

impl<'m> NameStore<'m> {
    pub(super) fn new(chunks: &'m mut [NameChunk]) -> Self {
        let mut free = NONE;
        for (at, chunk) in chunks.iter_mut().enumerate().rev() {
            chunk.next = free;
            free = at as u32;
        }
        Self { chunks, free }
    }

    /// Copies the name of the rule to `out`, which is as long as the name.
    pub(super) fn copy(&self, rule: &Rule, out: &mut [u8]) -> Option<()> {
        let (first, mut rest) = out.split_at_mut(out.len().min(INLINE_NAME_OCTETS));
        first.copy_from_slice(rule.name.get(..first.len())?);
        let mut at = rule.more_name;
        while !rest.is_empty() {
            let chunk = self.chunks.get(at as usize)?;
            let (to, after) = rest.split_at_mut(rest.len().min(CHUNK_OCTETS));
            to.copy_from_slice(chunk.octets.get(..to.len())?);
            (rest, at) = (after, chunk.next);
        }
        Some(())
    }

    /// Whether the rule's name is this one.
    #[inline]
    pub(super) fn is(&self, rule: &Rule, name: &[u8]) -> bool {
        if usize::from(rule.name_octets) != name.len() {
            return false;
        }
        let (first, mut rest) = name.split_at(name.len().min(INLINE_NAME_OCTETS));
        if !rule.name.get(..first.len()).is_some_and(|kept| is_equal(kept, first)) {
            return false;
        }
        let mut at = rule.more_name;
        while !rest.is_empty() {
            let Some(chunk) = self.chunks.get(at as usize) else { return false };
            let (octets, after) = rest.split_at(rest.len().min(CHUNK_OCTETS));
            if chunk.octets.get(..octets.len()) != Some(octets) {
                return false;
            }
            (rest, at) = (after, chunk.next);
        }
        true
    }

    pub(super) fn store(&mut self, octets: &[u8]) -> Result<u32, TableError> {
        let mut first = NONE;
        // From the end, so that each chunk knows the next one.
        for piece in octets.chunks(CHUNK_OCTETS).rev() {
            let at = self.free;
            let Some(chunk) = self.chunks.get_mut(at as usize) else {
                self.free(first);
                return Err(TableError::NamesFull);
            };
            self.free = chunk.next;
            for (to, from) in chunk.octets.iter_mut().zip(piece) {
                *to = *from;
            }
            chunk.next = core::mem::replace(&mut first, at);
        }
        Ok(first)
    }

    pub(super) fn free(&mut self, first: u32) {
        let mut at = first;
        while let Some(chunk) = self.chunks.get_mut(at as usize) {
            let next = core::mem::replace(&mut chunk.next, self.free);
            self.free = at;
            at = next;
        }
    }
}

/// Compares short octets of one length without a call.
#[inline]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let ((a_words, a_rest), (b_words, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let words = a_words.iter().zip(b_words).fold(0, |difference, (a, b)| {
        difference | (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b))
    });
    if words != 0 || a.len() != b.len() {
        return false;
    }
    // The last words overlap those before.
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a), Some(b)) => a == b,
        _ => a_rest == b_rest,
    }
}
