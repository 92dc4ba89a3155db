//! Flow packets: encryption, header protection, change of keys and the replay window (`SPEC.md`, sections 1 and 3).

use super::keys::IV_OCTETS;
use super::packet::FLOW;
use super::{
    CONNECTION_ID_OCTETS, ConnectionId, FLOW_HEADER_OCTETS, KEY_OCTETS, ModernError, ReplayWindow,
    Suite, TrafficSecret, VARINT_END, flow_connection_id,
};
use aes_gcm::{Aes256Gcm, aes::Aes256, aes::cipher::BlockCipherEncrypt};
use chacha20::cipher::{KeyIvInit, StreamCipherCore};
use chacha20::{ChaChaCore, R20, variants::Ietf};
use chacha20poly1305::{ChaCha20Poly1305, aead::AeadInOut};
use core::ops::Range;
use hmac::KeyInit;
use zeroize::Zeroize;

/// Octets of a packet's tag.
pub const TAG_OCTETS: usize = 16;

/// Packets after which the sender changes the key: half of AES-GCM's confidentiality limit (RFC 9001, appendix B.1).
pub const REKEY_PACKETS: u32 = 1 << 22;

/// Octets after which the sender changes the key.
pub const REKEY_OCTETS: u64 = 1 << 32;

/// Packets that do not open after which a flow ends: ChaCha20-Poly1305's integrity limit (RFC 9001, 6.6).
pub const INTEGRITY_LIMIT: u64 = 1 << 36;

const PHASE: u8 = 0x01;
const PROTECTED: u8 = 0x3f;
const MASK_OCTETS: usize = 9;

type Header = [u8; FLOW_HEADER_OCTETS];

/// The cipher and initialisation vector of one direction in one phase, ready for use. The ciphers wipe their keys themselves.
struct PhaseKey {
    cipher: Cipher,
    iv: [u8; IV_OCTETS],
}

#[expect(clippy::large_enum_variant, reason = "there is nowhere else to put the larger one")]
enum Cipher {
    ChaCha(ChaCha20Poly1305),
    Aes(Aes256Gcm),
}

impl PhaseKey {
    fn new(suite: Suite, secret: &TrafficSecret) -> Self {
        let mut key = secret.key();
        let cipher = match suite {
            Suite::ChaCha20Poly1305 => Cipher::ChaCha(ChaCha20Poly1305::new((&key).into())),
            Suite::Aes256Gcm => Cipher::Aes(Aes256Gcm::new((&key).into())),
        };
        key.zeroize();
        Self { cipher, iv: secret.iv() }
    }

    fn nonce(&self, number: u64) -> [u8; IV_OCTETS] {
        let mut nonce = self.iv;
        let low = nonce.iter_mut().rev().zip(number.to_le_bytes());
        low.for_each(|(octet, number)| *octet ^= number);
        nonce
    }

    fn seal(&self, number: u64, header: &Header, text: &mut [u8]) -> Option<[u8; TAG_OCTETS]> {
        let nonce = self.nonce(number).into();
        match &self.cipher {
            Cipher::ChaCha(cipher) => {
                cipher.encrypt_inout_detached(&nonce, header, text.into()).map(Into::into)
            }
            Cipher::Aes(cipher) => {
                cipher.encrypt_inout_detached(&nonce, header, text.into()).map(Into::into)
            }
        }
        .ok()
    }

    fn open(&self, number: u64, header: &Header, text: &mut [u8], tag: &[u8; TAG_OCTETS]) -> bool {
        let nonce = self.nonce(number).into();
        let tag = &(*tag).into();
        match &self.cipher {
            Cipher::ChaCha(cipher) => {
                cipher.decrypt_inout_detached(&nonce, header, text.into(), tag)
            }
            Cipher::Aes(cipher) => cipher.decrypt_inout_detached(&nonce, header, text.into(), tag),
        }
        .is_ok()
    }
}

impl Drop for PhaseKey {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

/// The key of header protection, and for AES its schedule.
struct HeaderKey {
    key: [u8; KEY_OCTETS],
    aes: Option<Aes256>,
}

impl HeaderKey {
    fn new(suite: Suite, key: [u8; KEY_OCTETS]) -> Self {
        let aes = (suite == Suite::Aes256Gcm).then(|| Aes256::new((&key).into()));
        Self { key, aes }
    }

    /// Adds header protection or takes it away: the low bits of the first octet, and the packet number.
    fn protect(&self, tag: &[u8; TAG_OCTETS], header: &mut Header) {
        let mut mask = [0; MASK_OCTETS];
        match &self.aes {
            None => {
                if let Some((counter, nonce)) = tag.split_first_chunk::<4>()
                    && let Ok(nonce) = <[u8; 12]>::try_from(nonce)
                {
                    // The core of the cipher and not its stream: that one refuses the last block, and any tag may name it.
                    let mut core = ChaChaCore::<R20, Ietf>::new((&self.key).into(), &nonce.into());
                    core.set_block_pos(u32::from_le_bytes(*counter));
                    let mut block = [0; 64].into();
                    core.write_keystream_block(&mut block);
                    mask.iter_mut().zip(block).for_each(|(place, octet)| *place = octet);
                }
            }
            Some(aes) => {
                let mut block = (*tag).into();
                aes.encrypt_block(&mut block);
                mask.iter_mut().zip(block).for_each(|(place, octet)| *place = octet);
            }
        }
        let [first, number @ ..] = mask;
        if let Some((octet, rest)) = header.split_first_mut() {
            *octet ^= first & PROTECTED;
            let place = rest.iter_mut().skip(CONNECTION_ID_OCTETS);
            place.zip(number).for_each(|(octet, mask)| *octet ^= mask);
        }
    }
}

impl Drop for HeaderKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

fn header(destination: &ConnectionId, phase: bool, number: u64) -> Header {
    let first = FLOW | if phase { PHASE } else { 0 };
    let octets = [first].into_iter().chain(*destination).chain(number.to_be_bytes());
    let mut header = [0; FLOW_HEADER_OCTETS];
    header.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet);
    header
}

/// The sending end of a direction. Its keys are wiped when it is dropped.
pub struct Sealer {
    secret: TrafficSecret,
    header_key: HeaderKey,
    key: PhaseKey,
    next_number: u64,
    octets: u64,
    packets: u32,
    suite: Suite,
    phase: bool,
}

impl Sealer {
    /// A sender whose first packet has the number `first_number`: 0, or after a restart the one in the ticket.
    pub fn new(suite: Suite, secret: TrafficSecret, first_number: u64) -> Self {
        Self {
            header_key: HeaderKey::new(suite, secret.header_key()),
            key: PhaseKey::new(suite, &secret),
            secret,
            next_number: first_number,
            octets: 0,
            packets: 0,
            suite,
            phase: false,
        }
    }

    /// The number of the next packet.
    pub const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Leaves numbers out: the next packet has this one.
    ///
    /// # Errors
    /// [`ModernError::NumberReused`] when it is below the next number.
    pub const fn skip_to(&mut self, number: u64) -> Result<(), ModernError> {
        if number < self.next_number {
            return Err(ModernError::NumberReused);
        }
        self.next_number = number;
        Ok(())
    }

    /// Whether packets or octets of this phase have reached [`REKEY_PACKETS`] or [`REKEY_OCTETS`]. Time is for the caller to watch.
    pub const fn rekey_is_due(&self) -> bool {
        self.packets >= REKEY_PACKETS || self.octets >= REKEY_OCTETS
    }

    /// Goes to the next key. Only when the peer has acknowledged a packet of this phase: it tries one key ahead, not two.
    pub fn rekey(&mut self) {
        self.secret = self.secret.next();
        self.key = PhaseKey::new(self.suite, &self.secret);
        self.phase = !self.phase;
        self.packets = 0;
        self.octets = 0;
    }

    /// Makes a packet of the `payload_octets` that stand in `buffer` behind [`FLOW_HEADER_OCTETS`], in place, and gives its number and octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`] when the tag does not fit, [`ModernError::NumbersUsedUp`]. No number is used up then.
    pub fn seal(
        &mut self,
        destination: &ConnectionId,
        buffer: &mut [u8],
        payload_octets: usize,
    ) -> Result<(u64, usize), ModernError> {
        let number = self.next_number;
        if number >= VARINT_END {
            return Err(ModernError::NumbersUsedUp);
        }
        let total = FLOW_HEADER_OCTETS
            .checked_add(payload_octets)
            .and_then(|octets| octets.checked_add(TAG_OCTETS))
            .ok_or(ModernError::NoRoom)?;
        let packet = buffer.get_mut(..total).ok_or(ModernError::NoRoom)?;
        let (place, rest) =
            packet.split_first_chunk_mut::<FLOW_HEADER_OCTETS>().ok_or(ModernError::NoRoom)?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_OCTETS>().ok_or(ModernError::NoRoom)?;
        let mut header = header(destination, self.phase, number);
        *tag = self.key.seal(number, &header, text).ok_or(ModernError::NoRoom)?;
        self.header_key.protect(tag, &mut header);
        *place = header;
        self.next_number = number.saturating_add(1);
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(payload_octets as u64);
        Ok((number, total))
    }
}

/// What is kept of a [`Sealer`] while its flow sleeps; the phase's key is derived again.
#[derive(Clone)]
pub struct SleepingSealer {
    secret: TrafficSecret,
    header_key: [u8; KEY_OCTETS],
    next_number: u64,
    /// A million flows pay for every octet here: what the limits need is kept, no more.
    octets_halved: u32,
    packets_and_phase: [u8; 3],
    suite: Suite,
}

/// The low `OCTETS` octets of a number, or the most that they hold.
fn shortened<const OCTETS: usize>(number: u64) -> [u8; OCTETS] {
    let most = (1 << (8 * OCTETS)) - 1;
    let mut short = [0; OCTETS];
    short.iter_mut().zip(number.min(most).to_le_bytes()).for_each(|(place, octet)| *place = octet);
    short
}

fn lengthened<const OCTETS: usize>(short: &[u8; OCTETS]) -> u64 {
    short.iter().rev().fold(0, |number, &octet| number << 8 | u64::from(octet))
}

impl SleepingSealer {
    /// What there is to keep.
    pub fn of(sealer: &Sealer) -> Self {
        Self {
            secret: sealer.secret.clone(),
            header_key: sealer.header_key.key,
            next_number: sealer.next_number,
            octets_halved: u32::try_from(sealer.octets.div_ceil(2)).unwrap_or(u32::MAX),
            packets_and_phase: shortened(
                u64::from(sealer.packets.min(REKEY_PACKETS)) << 1 | u64::from(sealer.phase),
            ),
            suite: sealer.suite,
        }
    }

    /// The sealer again.
    pub fn wake(&self) -> Sealer {
        Sealer {
            header_key: HeaderKey::new(self.suite, self.header_key),
            key: PhaseKey::new(self.suite, &self.secret),
            secret: self.secret.clone(),
            next_number: self.next_number,
            octets: u64::from(self.octets_halved) * 2,
            packets: (lengthened(&self.packets_and_phase) >> 1) as u32,
            suite: self.suite,
            phase: lengthened(&self.packets_and_phase) & 1 != 0,
        }
    }

    /// The suite.
    pub const fn suite(&self) -> Suite {
        self.suite
    }
}

impl Drop for SleepingSealer {
    fn drop(&mut self) {
        self.header_key.zeroize();
    }
}

/// What is kept of an [`Opener`] while its flow sleeps. All numbers up to the highest count as opened then.
#[derive(Clone)]
pub struct SleepingOpener {
    secret: TrafficSecret,
    header_key: [u8; KEY_OCTETS],
    next: u64,
    /// The limit has 37 bits.
    failures: [u8; 5],
    suite: Suite,
    phase: bool,
}

impl SleepingOpener {
    /// What there is to keep.
    pub fn of(opener: &Opener) -> Self {
        Self {
            secret: opener.secret.clone(),
            header_key: opener.header_key.key,
            failures: shortened(opener.failures),
            next: opener.window.highest().map_or(0, |highest| highest.saturating_add(1)),
            suite: opener.suite,
            phase: opener.phase,
        }
    }

    /// The opener again.
    pub fn wake(&self) -> Opener {
        Opener {
            header_key: HeaderKey::new(self.suite, self.header_key),
            key: PhaseKey::new(self.suite, &self.secret),
            secret: self.secret.clone(),
            previous: None,
            // Lower numbers are refused, whatever their key.
            first_of_phase: self.next,
            failures: lengthened(&self.failures),
            window: ReplayWindow::all_below(self.next),
            suite: self.suite,
            phase: self.phase,
        }
    }
}

impl Drop for SleepingOpener {
    fn drop(&mut self) {
        self.header_key.zeroize();
    }
}

/// A packet that has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The packet's number.
    pub number: u64,
    /// Where in the datagram the payload stands, decrypted.
    pub payload: Range<usize>,
    /// It has the highest number yet: only such a packet may change the flow's address.
    pub newest: bool,
    /// It is the first of a new key.
    pub rekeyed: bool,
}

/// The receiving end of a direction. Its keys are wiped when it is dropped.
pub struct Opener {
    secret: TrafficSecret,
    header_key: HeaderKey,
    key: PhaseKey,
    previous: Option<PhaseKey>,
    /// The lowest number known of this phase.
    first_of_phase: u64,
    failures: u64,
    window: ReplayWindow,
    suite: Suite,
    phase: bool,
}

impl Opener {
    /// A receiver that has opened nothing yet.
    pub fn new(suite: Suite, secret: TrafficSecret) -> Self {
        Self {
            header_key: HeaderKey::new(suite, secret.header_key()),
            key: PhaseKey::new(suite, &secret),
            secret,
            previous: None,
            first_of_phase: 0,
            failures: 0,
            window: ReplayWindow::new(),
            suite,
            phase: false,
        }
    }

    /// Forgets the key before the present one, once nothing of it can still be on its way.
    pub fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Packets that did not open.
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether anything has opened yet.
    pub const fn has_opened(&self) -> bool {
        self.window.highest().is_some()
    }

    /// Opens a flow packet in place. A packet that does not open is left as it is.
    ///
    /// # Errors
    /// [`ModernError::Kind`], [`ModernError::Truncated`], [`ModernError::Authentication`], [`ModernError::Replay`], [`ModernError::TooOld`], or
    /// [`ModernError::Reserved`] and [`ModernError::IntegrityLimit`], after which the flow must close.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, ModernError> {
        if self.failures >= INTEGRITY_LIMIT {
            return Err(ModernError::IntegrityLimit);
        }
        flow_connection_id(datagram)?;
        let end = datagram.len().saturating_sub(TAG_OCTETS);
        let (header, rest) =
            datagram.split_first_chunk_mut::<FLOW_HEADER_OCTETS>().ok_or(ModernError::Truncated)?;
        let (text, tag) =
            rest.split_last_chunk_mut::<TAG_OCTETS>().ok_or(ModernError::Truncated)?;
        let mut header = *header;
        self.header_key.protect(tag, &mut header);
        let [first, ..] = header;
        let number = header.last_chunk().copied().map(u64::from_be_bytes);
        let number = number.ok_or(ModernError::Truncated)?;
        self.window.check(number)?;

        let phase = first & PHASE != 0;
        let mut next = None;
        let key = if phase == self.phase {
            Some(&self.key)
        } else if number < self.first_of_phase {
            self.previous.as_ref()
        } else {
            let secret = self.secret.next();
            let key = PhaseKey::new(self.suite, &secret);
            Some(&next.insert((secret, key)).1)
        };
        if !key.is_some_and(|key| key.open(number, &header, text, tag)) {
            self.failures = self.failures.saturating_add(1);
            return Err(ModernError::Authentication);
        }
        if first & PROTECTED & !PHASE != 0 || number >= VARINT_END {
            return Err(ModernError::Reserved);
        }
        let newest = self.window.highest().is_none_or(|highest| number > highest);
        self.window.insert(number);
        let rekeyed = next.is_some();
        if let Some((secret, key)) = next {
            self.secret = secret;
            self.previous = Some(core::mem::replace(&mut self.key, key));
            self.phase = phase;
            self.first_of_phase = number;
        } else if phase == self.phase {
            self.first_of_phase = self.first_of_phase.min(number);
        }
        Ok(Opened { number, payload: FLOW_HEADER_OCTETS..end, newest, rekeyed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(suite: Suite) -> (Sealer, Opener) {
        let secret = TrafficSecret::first(&[7; KEY_OCTETS]);
        (Sealer::new(suite, secret.clone(), 5), Opener::new(suite, secret))
    }

    fn seal(sealer: &mut Sealer, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; FLOW_HEADER_OCTETS + payload.len() + TAG_OCTETS];
        buffer[FLOW_HEADER_OCTETS..][..payload.len()].copy_from_slice(payload);
        let (_, octets) = sealer.seal(&[3; 16], &mut buffer, payload.len()).unwrap();
        assert_eq!(octets, buffer.len());
        buffer
    }

    #[test]
    fn packets_open_once_and_only_as_they_were_sealed() {
        for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
            let (mut sealer, mut opener) = ends(suite);
            for payload in [&b""[..], b"x", &[9; 1400]] {
                let packet = seal(&mut sealer, payload);
                for octet in (0..packet.len()).filter(|octet| octet % 7 == 0 || *octet < 30) {
                    let mut changed = packet.clone();
                    changed[octet] ^= 0x20;
                    let before = changed.clone();
                    assert!(opener.open(&mut changed).is_err());
                    assert_eq!(changed, before, "left as it was");
                }
                for octets in 0..packet.len().min(60) {
                    assert!(opener.open(&mut packet[..octets].to_vec()).is_err());
                }
                let mut opened = packet.clone();
                let Opened { payload: range, newest, .. } = opener.open(&mut opened).unwrap();
                assert_eq!((&opened[range], newest), (payload, true));
                assert_eq!(opener.open(&mut packet.clone()), Err(ModernError::Replay));
            }
            assert_eq!(sealer.next_number(), 8);
        }
    }

    #[test]
    fn sleep_changes_nothing_but_that_old_numbers_are_refused() {
        let (mut sealer, mut opener) = ends(Suite::ChaCha20Poly1305);
        let mut late = seal(&mut sealer, b"late");
        opener.open(&mut seal(&mut sealer, b"one")).unwrap();
        sealer.rekey();
        opener.open(&mut seal(&mut sealer, b"two")).unwrap();
        let mut sealer = SleepingSealer::of(&sealer).wake();
        let mut opener = SleepingOpener::of(&opener).wake();
        assert_eq!(opener.open(&mut late), Err(ModernError::Replay));
        let mut packet = seal(&mut sealer, b"three");
        let opened = opener.open(&mut packet).unwrap();
        assert_eq!((&packet[opened.payload], opened.number), (&b"three"[..], 8));
        sealer.rekey();
        assert!(opener.open(&mut seal(&mut sealer, b"four")).unwrap().rekeyed);
    }

    #[test]
    fn every_tag_makes_a_mask() {
        // From another implementation; the counter of the last block is the case that a stream cipher refuses.
        let examples = [
            (
                Suite::ChaCha20Poly1305,
                [0xff; 16],
                [0x1e, 0x66, 0xf3, 0x45, 0xe0, 0x3a, 0xa3, 0x7a, 0xd0],
            ),
            (Suite::Aes256Gcm, [0xff; 16], [0xfa, 0xb5, 0x38, 0x00, 0xd0, 0x53, 0xb2, 0xe2, 0x0e]),
        ];
        for (suite, tag, mask) in examples {
            let mut header = [0; FLOW_HEADER_OCTETS];
            HeaderKey::new(suite, [7; KEY_OCTETS]).protect(&tag, &mut header);
            assert_eq!(header[0], mask[0] & PROTECTED);
            assert_eq!(header[1 + CONNECTION_ID_OCTETS..], mask[1..]);
        }
    }

    #[test]
    fn keys_change_while_packets_overtake_each_other() {
        let (mut sealer, mut opener) = ends(Suite::ChaCha20Poly1305);
        let mut old = seal(&mut sealer, b"old");
        let mut late = seal(&mut sealer, b"late");
        let mut first = seal(&mut sealer, b"first");
        sealer.rekey();
        let mut new = seal(&mut sealer, b"new");
        let mut newer = seal(&mut sealer, b"newer");
        assert!(!opener.open(&mut first).unwrap().rekeyed);
        let opened = opener.open(&mut newer).unwrap();
        assert!(opened.rekeyed && opened.newest);
        let opened = opener.open(&mut new).unwrap();
        assert!(!opened.rekeyed && !opened.newest);
        let payload = opener.open(&mut late).unwrap().payload;
        assert_eq!(&late[payload], b"late");
        opener.forget_previous();
        assert_eq!(opener.open(&mut old), Err(ModernError::Authentication));
        sealer.rekey();
        assert!(opener.open(&mut seal(&mut sealer, b"")).unwrap().rekeyed);
        // Two keys ahead is one too many.
        sealer.rekey();
        sealer.rekey();
        assert_eq!(opener.open(&mut seal(&mut sealer, b"")), Err(ModernError::Authentication));
    }

    #[test]
    fn no_number_comes_twice() {
        let (mut sealer, mut opener) = ends(Suite::Aes256Gcm);
        assert_eq!(sealer.skip_to(4), Err(ModernError::NumberReused));
        sealer.skip_to(VARINT_END - 1).unwrap();
        let opened = opener.open(&mut seal(&mut sealer, b"last")).unwrap();
        assert_eq!(opened.number, VARINT_END - 1);
        let full = sealer.seal(&[0; 16], &mut [0; 100], 1);
        assert_eq!(full, Err(ModernError::NumbersUsedUp));
        let (mut sealer, _) = ends(Suite::Aes256Gcm);
        assert_eq!(sealer.seal(&[0; 16], &mut [0; 41], 1), Err(ModernError::NoRoom));
        assert_eq!(sealer.next_number(), 5, "no number was used up");
    }

    #[test]
    fn a_key_is_due_for_change_after_its_packets_or_octets() {
        let (mut sealer, _) = ends(Suite::ChaCha20Poly1305);
        sealer.packets = REKEY_PACKETS - 1;
        assert!(!sealer.rekey_is_due());
        seal(&mut sealer, b"");
        assert!(sealer.rekey_is_due());
        sealer.rekey();
        assert!(!sealer.rekey_is_due());
        sealer.octets = REKEY_OCTETS - 1;
        seal(&mut sealer, b"x");
        assert!(sealer.rekey_is_due());
    }

    #[test]
    fn a_flow_ends_at_the_integrity_limit() {
        let (mut sealer, mut opener) = ends(Suite::ChaCha20Poly1305);
        let good = seal(&mut sealer, b"good");
        opener.failures = INTEGRITY_LIMIT - 1;
        let mut bad = good.clone();
        bad[30] ^= 1;
        assert_eq!(opener.open(&mut bad), Err(ModernError::Authentication));
        assert_eq!(opener.open(&mut good.clone()), Err(ModernError::IntegrityLimit));
    }
}
