//! Retry tokens: the proof of an address that a server need not remember (`SPEC.md`, section 2).

use super::{ConnectionId, ModernError};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of a token.
pub const TOKEN_OCTETS: usize = 24;

/// Seconds for which a token is good.
pub const RETRY_LIFETIME_S: u64 = 10;

const MAC_OCTETS: usize = 16;

/// A server's key for tokens: random, changed every hour, wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RetryKey([u8; 32]);

impl RetryKey {
    /// A key of octets from a cryptographic generator.
    pub const fn new(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    fn mac(
        &self,
        seconds: u64,
        address: &[u8; 16],
        port: u16,
        destination: &ConnectionId,
    ) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&{
            let mut block = [0; 64];
            if let Some((key, _)) = block.split_first_chunk_mut() {
                *key = self.0;
            }
            block.into()
        })
        .chain_update(b"retry")
        .chain_update(seconds.to_be_bytes())
        .chain_update(address)
        .chain_update(port.to_be_bytes())
        .chain_update(destination)
    }

    /// The token for an Initial to `destination` that came from `address` (IPv4 as mapped IPv6) and `port` at `now_s`, the server's clock in seconds.
    pub fn token(
        &self,
        now_s: u64,
        address: &[u8; 16],
        port: u16,
        destination: &ConnectionId,
    ) -> [u8; TOKEN_OCTETS] {
        let mac = self.mac(now_s, address, port, destination).finalize().into_bytes();
        let mut token = [0; TOKEN_OCTETS];
        let octets = now_s.to_be_bytes().into_iter().chain(mac.into_iter().take(MAC_OCTETS));
        token.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet);
        token
    }

    /// Checks a token, in constant time.
    ///
    /// # Errors
    /// [`ModernError::Token`] when this key did not make it for these values, [`ModernError::TokenExpired`] when it did, too long ago.
    pub fn verify(
        &self,
        token: &[u8],
        now_s: u64,
        address: &[u8; 16],
        port: u16,
        destination: &ConnectionId,
    ) -> Result<(), ModernError> {
        let (seconds, mac) = token.split_first_chunk().ok_or(ModernError::Token)?;
        let mac: &[u8; MAC_OCTETS] = mac.try_into().map_err(|_| ModernError::Token)?;
        let seconds = u64::from_be_bytes(*seconds);
        self.mac(seconds, address, port, destination)
            .verify_truncated_left(mac)
            .map_err(|_| ModernError::Token)?;
        match now_s.checked_sub(seconds) {
            Some(age_s) if age_s <= RETRY_LIFETIME_S => Ok(()),
            _ => Err(ModernError::TokenExpired),
        }
    }
}

impl core::fmt::Debug for RetryKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("RetryKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_address_and_its_time() {
        let key = RetryKey::new([1; 32]);
        let token = key.token(100, &[2; 16], 7, &[3; 16]);
        let verify = |token: &[u8], now_s, address, port, destination| {
            key.verify(token, now_s, address, port, destination)
        };
        assert_eq!(verify(&token, 100, &[2; 16], 7, &[3; 16]), Ok(()));
        assert_eq!(verify(&token, 110, &[2; 16], 7, &[3; 16]), Ok(()));
        assert_eq!(verify(&token, 111, &[2; 16], 7, &[3; 16]), Err(ModernError::TokenExpired));
        assert_eq!(verify(&token, 99, &[2; 16], 7, &[3; 16]), Err(ModernError::TokenExpired));
        assert_eq!(verify(&token, 100, &[4; 16], 7, &[3; 16]), Err(ModernError::Token));
        assert_eq!(verify(&token, 100, &[2; 16], 8, &[3; 16]), Err(ModernError::Token));
        assert_eq!(verify(&token, 100, &[2; 16], 7, &[4; 16]), Err(ModernError::Token));
        for octet in 0..TOKEN_OCTETS {
            let mut changed = token;
            changed[octet] ^= 1;
            assert_eq!(verify(&changed, 100, &[2; 16], 7, &[3; 16]), Err(ModernError::Token));
        }
        assert_eq!(verify(&token[..23], 100, &[2; 16], 7, &[3; 16]), Err(ModernError::Token));
        assert_eq!(verify(&[], 100, &[2; 16], 7, &[3; 16]), Err(ModernError::Token));
        let other = RetryKey::new([9; 32]).verify(&token, 100, &[2; 16], 7, &[3; 16]);
        assert_eq!(other, Err(ModernError::Token));
    }
}
