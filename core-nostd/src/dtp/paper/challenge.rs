//! The flow's secret, and the proof of an address by it.
//!
//! When a packet of a flow comes from another address, its receiver sends a nonce there (CHG) and moves the flow
//! only when HMAC-SHA1 of that nonce under the flow's secret comes back (RSP). A nonce serves once and only for a while.

use super::{PaperError, SECRET_OCTETS};
use crate::node::Instant;
use core::time::Duration;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of a nonce.
pub const NONCE_OCTETS: usize = 4;

/// Octets of the answer to a nonce.
pub const RESPONSE_OCTETS: usize = 20;

/// How long a nonce waits for its answer: a round trip over a slow satellite path with two retries.
pub const CHALLENGE_LIFETIME: Duration = Duration::from_secs(10);

/// The authors' programs keep the secret in a buffer as long as a 2048-bit key and use the whole buffer as the HMAC's key.
const HMAC_KEY_OCTETS: usize = 256;

/// The secret that both ends of a flow hold. It is wiped when dropped and never shown.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; SECRET_OCTETS]);

impl Secret {
    /// A flow's secret: octets of a cryptographic generator, or those that a SYN+ACK carried.
    pub const fn new(octets: [u8; SECRET_OCTETS]) -> Self {
        Self(octets)
    }

    /// The octets, to encrypt or to seal them.
    pub const fn as_bytes(&self) -> &[u8; SECRET_OCTETS] {
        &self.0
    }

    fn mac(&self, nonce: &[u8; NONCE_OCTETS]) -> Option<Hmac<Sha1>> {
        let mut key = [0; HMAC_KEY_OCTETS];
        if let Some((secret, _)) = key.split_first_chunk_mut() {
            *secret = self.0;
        }
        // HMAC takes keys of any length, so there always is one.
        let mac = Hmac::<Sha1>::new_from_slice(&key).ok();
        key.zeroize();
        mac.map(|mac| mac.chain_update(nonce))
    }

    /// The answer to a nonce: the payload of a RSP.
    pub fn respond(&self, nonce: &[u8; NONCE_OCTETS]) -> [u8; RESPONSE_OCTETS] {
        self.mac(nonce).map_or([0; RESPONSE_OCTETS], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether `response` answers `nonce`, compared in constant time.
    pub fn verify(&self, nonce: &[u8; NONCE_OCTETS], response: &[u8]) -> bool {
        self.mac(nonce).is_some_and(|mac| mac.verify_slice(response).is_ok())
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A nonce that was sent to an address and has not been answered.
#[derive(Copy, Clone, Debug)]
pub struct Challenge {
    nonce: [u8; NONCE_OCTETS],
    sent: Instant,
}

impl Challenge {
    /// A challenge sent `now`. The nonce must come from a cryptographic generator: who can tell it ahead can record the answer.
    pub const fn new(nonce: [u8; NONCE_OCTETS], now: Instant) -> Self {
        Self { nonce, sent: now }
    }

    /// The payload of the CHG.
    pub const fn nonce(&self) -> &[u8; NONCE_OCTETS] {
        &self.nonce
    }

    /// When the CHG was sent first.
    pub const fn sent(&self) -> Instant {
        self.sent
    }

    /// When the nonce no longer serves.
    pub const fn expires(&self) -> Instant {
        self.sent.after(CHALLENGE_LIFETIME)
    }

    /// Checks the payload of a RSP against the challenge that is outstanding. A right answer uses the nonce up; a wrong one does
    /// not, so that nobody who guesses can keep the owner out.
    ///
    /// # Errors
    /// [`PaperError::NoChallenge`] when none is outstanding or it has expired, [`PaperError::Response`] when the answer is wrong.
    pub fn answer(
        outstanding: &mut Option<Self>,
        now: Instant,
        secret: &Secret,
        response: &[u8],
    ) -> Result<(), PaperError> {
        let challenge = outstanding.as_ref().ok_or(PaperError::NoChallenge)?;
        if now >= challenge.expires() {
            *outstanding = None;
            return Err(PaperError::NoChallenge);
        }
        if !secret.verify(&challenge.nonce, response) {
            return Err(PaperError::Response);
        }
        *outstanding = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_serves_once_and_expires() {
        let secret = Secret::new([7; SECRET_OCTETS]);
        let start = Instant::from_nanos(5);
        let mut outstanding = Some(Challenge::new([1, 2, 3, 4], start));
        let response = secret.respond(&[1, 2, 3, 4]);
        let wrong = secret.respond(&[1, 2, 3, 5]);
        let mut answer =
            |now, response| Challenge::answer(&mut outstanding, now, &secret, response);
        assert_eq!(answer(start, &wrong), Err(PaperError::Response));
        assert_eq!(answer(start, &response[..19]), Err(PaperError::Response));
        assert_eq!(answer(start, &response), Ok(()));
        assert_eq!(answer(start, &response), Err(PaperError::NoChallenge));

        let mut outstanding = Some(Challenge::new([1, 2, 3, 4], start));
        let late = start.after(CHALLENGE_LIFETIME);
        let answer = Challenge::answer(&mut outstanding, late, &secret, &response);
        assert_eq!(answer, Err(PaperError::NoChallenge));
        assert!(outstanding.is_none());
    }
}
