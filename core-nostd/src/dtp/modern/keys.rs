//! The key schedule (`SPEC.md`, section 3).

use super::KEY_OCTETS;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of an initialisation vector.
pub(super) const IV_OCTETS: usize = 12;

/// HKDF-Expand of `secret` to `out.len()` octets, with the parts of a name. `out` has a few dozen octets, HKDF would give 8160.
fn label(secret: &[u8; KEY_OCTETS], name: &[&[u8]], out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    let mut info: [&[u8]; 6] = [&[]; 6];
    let parts = [&length[..], b"heddle dtp "].into_iter().chain(name.iter().copied());
    info.iter_mut().zip(parts).for_each(|(place, part)| *place = part);
    // Neither can fail: the secret is as long as the hash, the output short.
    let done = Hkdf::<Sha256>::from_prk(secret)
        .ok()
        .is_some_and(|hkdf| hkdf.expand_multi_info(&info, out).is_ok());
    debug_assert!(done);
}

fn derive<const OCTETS: usize>(secret: &[u8; KEY_OCTETS], name: &[&[u8]]) -> [u8; OCTETS] {
    let mut out = [0; OCTETS];
    label(secret, name, &mut out);
    out
}

/// What a direction's keys of one phase are derived from. It is wiped when dropped and never shown.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct TrafficSecret([u8; KEY_OCTETS]);

impl TrafficSecret {
    /// `traffic[0]` of a direction, from its half of Noise's Split.
    pub fn first(direction: &[u8; KEY_OCTETS]) -> Self {
        Self(derive(direction, &[b"traffic"]))
    }

    /// The secret of the next phase.
    #[must_use]
    pub fn next(&self) -> Self {
        Self(derive(&self.0, &[b"next"]))
    }

    pub(super) fn key(&self) -> [u8; KEY_OCTETS] {
        derive(&self.0, &[b"key"])
    }

    pub(super) fn iv(&self) -> [u8; IV_OCTETS] {
        derive(&self.0, &[b"iv"])
    }

    pub(super) fn header_key(&self) -> [u8; KEY_OCTETS] {
        derive(&self.0, &[b"header"])
    }
}

impl core::fmt::Debug for TrafficSecret {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("TrafficSecret(..)")
    }
}

/// What both ends of a flow keep to go on after a restart. It is wiped when dropped and never shown.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ResumeSecret([u8; KEY_OCTETS]);

impl ResumeSecret {
    /// The secret out of a ticket.
    pub const fn new(octets: [u8; KEY_OCTETS]) -> Self {
        Self(octets)
    }

    /// The octets, to seal them in a ticket.
    pub const fn as_bytes(&self) -> &[u8; KEY_OCTETS] {
        &self.0
    }

    /// The key that the ends of a flow share when one of them, or both, has restarted: the handshake of a restart proves that both hold it.
    pub fn pre_shared(&self) -> [u8; KEY_OCTETS] {
        derive(&self.0, &[b"restart"])
    }
}

impl core::fmt::Debug for ResumeSecret {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("ResumeSecret(..)")
    }
}

/// What a handshake ends in.
#[derive(Clone, Debug)]
pub struct SessionSecrets {
    /// For what the client sends.
    pub client_to_server: TrafficSecret,
    /// For what the server sends.
    pub server_to_client: TrafficSecret,
    /// For a restart.
    pub resume: ResumeSecret,
}

impl SessionSecrets {
    /// From the two halves of Noise's Split and the handshake hash.
    pub(super) fn new(c: &[u8; KEY_OCTETS], s: &[u8; KEY_OCTETS], hash: &[u8; KEY_OCTETS]) -> Self {
        let mut both = [0; 2 * KEY_OCTETS];
        both.iter_mut().zip(c.iter().chain(s)).for_each(|(place, octet)| *place = *octet);
        let (mut prk, _) = Hkdf::<Sha256>::extract(Some(hash), &both);
        both.zeroize();
        let mut key = prk.into();
        prk.as_mut_slice().zeroize();
        let resume = ResumeSecret(derive(&key, &[b"resume"]));
        key.zeroize();
        Self {
            client_to_server: TrafficSecret::first(c),
            server_to_client: TrafficSecret::first(s),
            resume,
        }
    }
}
