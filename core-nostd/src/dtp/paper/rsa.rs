//! RSA-OAEP (RFC 8017, 7.1) with SHA-1, MGF1 with SHA-1 and an empty label, for the one message that this suite
//! encrypts: a flow's secret of 20 octets.
//!
//! Lengths of key and message are fixed before any secret is touched, so decrypting needs no search for the
//! end of the padding: every octet is compared, in constant time, and there is one error for all that can be wrong (no oracle).

use super::{PaperError, Secret};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Limb, Odd, U64, Uint};
use sha1::{Digest, Sha1};
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of a flow's secret.
pub const SECRET_OCTETS: usize = 20;

/// Octets of the random seed that one encryption uses up.
pub const OAEP_SEED_OCTETS: usize = HASH_OCTETS;

/// The fewest bits of a modulus.
pub const MIN_KEY_BITS: usize = 2048;

/// The most bits of a modulus: who asks for more makes the server work, not the flow safer.
pub const MAX_KEY_BITS: usize = 4096;

const HASH_OCTETS: usize = 20;
const MAX_KEY_OCTETS: usize = MAX_KEY_BITS / 8;
/// The public operation is square-and-multiply over the exponent, so a long one would be an attack on the server.
const MAX_EXPONENT_OCTETS: usize = 8;

const LIMBS_2048: usize = 2048 / (8 * Limb::BYTES);
const LIMBS_4096: usize = 4096 / (8 * Limb::BYTES);

fn without_leading_zeros(octets: &[u8]) -> &[u8] {
    let zeros = octets.iter().take_while(|&&octet| octet == 0).count();
    octets.get(zeros..).unwrap_or(&[])
}

/// A number of up to 4096 bits, big-endian and right-aligned.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Number([u8; MAX_KEY_OCTETS]);

impl Number {
    /// The number of those octets, or nothing when there are too many.
    fn new(octets: &[u8]) -> Option<Self> {
        let mut number = Self([0; MAX_KEY_OCTETS]);
        let start = MAX_KEY_OCTETS.checked_sub(octets.len())?;
        number.0.get_mut(start..)?.copy_from_slice(octets);
        Some(number)
    }

    fn low<const LIMBS: usize>(&self) -> Option<Uint<LIMBS>> {
        let octets = LIMBS * Limb::BYTES;
        let low = self.0.get(MAX_KEY_OCTETS.checked_sub(octets)?..)?;
        // The octets are those of the number's limbs, as `from_be_slice` demands.
        Some(Uint::from_be_slice(low))
    }
}

/// What to raise a number to. The private exponent is used in constant time.
enum Exponent<'a> {
    Public(u64),
    Private(&'a Number),
}

/// `base` to the power of `exponent` modulo the odd `modulus`, in place; false when the numbers do not allow it.
fn raise<const LIMBS: usize>(modulus: &Number, exponent: &Exponent, base: &mut Number) -> bool {
    let (Some(n), Some(mut integer)) = (modulus.low::<LIMBS>(), base.low::<LIMBS>()) else {
        return false;
    };
    let Some(n) = Odd::new(n).into_option() else { return false };
    let params = FixedMontyParams::new_vartime(n);
    let mut number = FixedMontyForm::new(&integer, &params);
    number = match *exponent {
        Exponent::Public(e) => number.pow_vartime(&U64::from_u64(e)),
        Exponent::Private(d) => {
            let Some(mut d) = d.low::<LIMBS>() else { return false };
            let power = number.pow(&d);
            d.zeroize();
            power
        }
    };
    integer.zeroize();
    integer = number.retrieve();
    number.zeroize();
    let mut octets = integer.to_be_bytes();
    integer.zeroize();
    base.0.zeroize();
    let result: &[u8] = octets.as_ref();
    let fits = MAX_KEY_OCTETS.checked_sub(result.len()).and_then(|start| base.0.get_mut(start..));
    let done = fits.map(|low| low.copy_from_slice(result)).is_some();
    octets.zeroize();
    done
}

fn raise_for(key_octets: usize, modulus: &Number, exponent: &Exponent, base: &mut Number) -> bool {
    if key_octets <= MIN_KEY_BITS / 8 {
        raise::<LIMBS_2048>(modulus, exponent, base)
    } else {
        raise::<LIMBS_4096>(modulus, exponent, base)
    }
}

/// MGF1 (RFC 8017, B.2.1): adds the mask that `seed` makes to `octets`.
fn mask(seed: &[u8], octets: &mut [u8]) {
    for (counter, chunk) in (0u32..).zip(octets.chunks_mut(HASH_OCTETS)) {
        let mut mask =
            Sha1::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        chunk.iter_mut().zip(&mask).for_each(|(octet, mask)| *octet ^= mask);
        mask.as_mut_slice().zeroize();
    }
}

/// The parts of an encoded message of the key's length: `[0, seed, hash of the label, zeros, 1, secret]`.
struct Encoded<'a> {
    first: &'a mut u8,
    seed: &'a mut [u8; HASH_OCTETS],
    data: &'a mut [u8],
}

impl<'a> Encoded<'a> {
    fn new(octets: &'a mut [u8]) -> Option<Self> {
        let (first, rest) = octets.split_first_mut()?;
        let (seed, data) = rest.split_first_chunk_mut()?;
        Some(Self { first, seed, data })
    }

    fn encode(self, seed: &[u8; OAEP_SEED_OCTETS], secret: &Secret) -> Option<()> {
        let Self { first, seed: seed_field, data } = self;
        let (label, rest) = data.split_first_chunk_mut::<HASH_OCTETS>()?;
        let (padding, message) = rest.split_last_chunk_mut::<SECRET_OCTETS>()?;
        let (one, zeros) = padding.split_last_mut()?;
        *first = 0;
        *label = Sha1::digest([]).into();
        zeros.fill(0);
        *one = 1;
        *message = *secret.as_bytes();
        *seed_field = *seed;
        mask(seed_field, data);
        mask(data, seed_field);
        Some(())
    }

    /// Whether the padding is right, and what stands in the place of the secret.
    fn decode(self) -> Option<(Choice, [u8; SECRET_OCTETS])> {
        let Self { first, seed, data } = self;
        mask(data, seed);
        mask(seed, data);
        let (label, rest) = data.split_first_chunk::<HASH_OCTETS>()?;
        let (padding, message) = rest.split_last_chunk::<SECRET_OCTETS>()?;
        let (one, zeros) = padding.split_last()?;
        let nonzero = zeros.iter().fold(*first, |all, octet| all | octet);
        let expected: [u8; HASH_OCTETS] = Sha1::digest([]).into();
        let right = nonzero.ct_eq(&0) & one.ct_eq(&1) & label.ct_eq(&expected);
        Some((right, *message))
    }
}

/// A client's public key, as its SYN carries it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PublicKey<'a> {
    modulus: &'a [u8],
    exponent: u64,
}

impl<'a> PublicKey<'a> {
    /// Checks a modulus and an exponent, big-endian. Leading zeros do not count.
    ///
    /// # Errors
    /// [`PaperError::KeySize`] unless the modulus has [`MIN_KEY_BITS`] to [`MAX_KEY_BITS`]; [`PaperError::KeyValue`] when it is even,
    /// or the exponent is even, below 3 or longer than 64 bits.
    pub fn new(modulus: &'a [u8], exponent: &[u8]) -> Result<Self, PaperError> {
        let modulus = without_leading_zeros(modulus);
        let (&first, &last) = modulus.first().zip(modulus.last()).ok_or(PaperError::KeySize)?;
        let bits = modulus.len() * 8 - first.leading_zeros() as usize;
        if !(MIN_KEY_BITS..=MAX_KEY_BITS).contains(&bits) {
            return Err(PaperError::KeySize);
        }
        let exponent = without_leading_zeros(exponent);
        if last & 1 == 0 || exponent.len() > MAX_EXPONENT_OCTETS {
            return Err(PaperError::KeyValue);
        }
        let exponent = exponent.iter().fold(0, |all, &octet| (all << 8) | u64::from(octet));
        if exponent < 3 || exponent & 1 == 0 {
            return Err(PaperError::KeyValue);
        }
        Ok(Self { modulus, exponent })
    }

    /// The modulus, big-endian, without leading zeros.
    pub const fn modulus(&self) -> &'a [u8] {
        self.modulus
    }

    /// The public exponent.
    pub const fn exponent(&self) -> u64 {
        self.exponent
    }

    /// Octets of the modulus, and so of everything that is encrypted with it.
    pub const fn octets(&self) -> usize {
        self.modulus.len()
    }

    /// Encrypts a flow's secret to the beginning of `buffer` and gives the octets: [`PublicKey::octets`]. The seed must come
    /// from a cryptographic generator and serve once.
    ///
    /// # Errors
    /// [`PaperError::NoRoom`] when the buffer is shorter.
    pub fn encrypt(
        &self,
        seed: &[u8; OAEP_SEED_OCTETS],
        secret: &Secret,
        buffer: &mut [u8],
    ) -> Result<usize, PaperError> {
        let octets = self.octets();
        let out = buffer.get_mut(..octets).ok_or(PaperError::NoRoom)?;
        Encoded::new(out)
            .and_then(|encoded| encoded.encode(seed, secret))
            .ok_or(PaperError::NoRoom)?;
        let (Some(modulus), Some(mut message)) = (Number::new(self.modulus), Number::new(out))
        else {
            return Err(PaperError::KeySize);
        };
        out.zeroize();
        if !raise_for(octets, &modulus, &Exponent::Public(self.exponent), &mut message) {
            return Err(PaperError::KeyValue);
        }
        let encrypted = message.0.get(MAX_KEY_OCTETS.saturating_sub(octets)..);
        out.copy_from_slice(encrypted.filter(|e| e.len() == octets).ok_or(PaperError::KeySize)?);
        Ok(octets)
    }
}

/// A client's private key. It is wiped when dropped and never shown.
#[derive(Clone)]
pub struct PrivateKey {
    modulus: Number,
    octets: usize,
    exponent: Number,
}

impl PrivateKey {
    /// A key of the modulus that `public` has and the private exponent, big-endian.
    ///
    /// # Errors
    /// [`PaperError::KeyValue`] when the exponent is zero or longer than the modulus.
    pub fn new(public: &PublicKey, exponent: &[u8]) -> Result<Self, PaperError> {
        let exponent = without_leading_zeros(exponent);
        if exponent.is_empty() || exponent.len() > public.octets() {
            return Err(PaperError::KeyValue);
        }
        let modulus = Number::new(public.modulus()).ok_or(PaperError::KeySize)?;
        let exponent = Number::new(exponent).ok_or(PaperError::KeyValue)?;
        Ok(Self { modulus, octets: public.octets(), exponent })
    }

    /// Octets of the modulus.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Decrypts the payload of a SYN+ACK. The time depends on the key's length alone.
    ///
    /// # Errors
    /// [`PaperError::KeyLength`] when it is not as long as the key, [`PaperError::Secret`] when it holds no secret of
    /// [`SECRET_OCTETS`] for this key.
    pub fn decrypt(&self, encrypted: &[u8]) -> Result<Secret, PaperError> {
        if encrypted.len() != self.octets {
            return Err(PaperError::KeyLength);
        }
        let mut message = Number::new(encrypted).ok_or(PaperError::KeyLength)?;
        // Both are right-aligned and public: a representative that is not below the modulus is none (RFC 8017, 5.1.2).
        if message.0 >= self.modulus.0
            || !raise_for(
                self.octets,
                &self.modulus,
                &Exponent::Private(&self.exponent),
                &mut message,
            )
        {
            return Err(PaperError::Secret);
        }
        let start = MAX_KEY_OCTETS.saturating_sub(self.octets);
        let encoded = message.0.get_mut(start..).and_then(Encoded::new);
        let (right, mut secret) = encoded.and_then(Encoded::decode).ok_or(PaperError::Secret)?;
        let result =
            if bool::from(right) { Ok(Secret::new(secret)) } else { Err(PaperError::Secret) };
        secret.zeroize();
        result
    }
}

impl core::fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("PrivateKey").field("octets", &self.octets).finish_non_exhaustive()
    }
}
