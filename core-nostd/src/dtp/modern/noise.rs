//! The handshake: Noise (revision 34) with Curve25519, ChaChaPoly and SHA-256, in the four patterns of `SPEC.md`, section 2.

use super::{ModernError, SessionSecrets, TAG_OCTETS};
use chacha20poly1305::{ChaCha20Poly1305, aead::AeadInOut};
use hkdf::Hkdf;
use hmac::KeyInit;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Octets of every key here: private and public keys, pre-shared keys, hashes.
pub const KEY_OCTETS: usize = 32;

type Key = [u8; KEY_OCTETS];

/// Which end of a handshake this is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client: it writes message 1 and reads message 2.
    Client,
    /// The server.
    Server,
}

/// How the ends know each other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// NK: the client knows the server's key.
    KnownServer,
    /// IK: the client knows the server's key and shows its own.
    KnownServerClientKey,
    /// NX: the server sends its key, and the application decides whether to trust it.
    UnknownServer,
    /// NNpsk0: both hold a pre-shared key.
    PreShared,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Token {
    E,
    S,
    Ee,
    Es,
    Se,
    Ss,
    Psk,
}

impl Pattern {
    /// The pattern's number in an Initial.
    pub const fn number(self) -> u8 {
        match self {
            Self::KnownServer => 1,
            Self::KnownServerClientKey => 2,
            Self::UnknownServer => 3,
            Self::PreShared => 4,
        }
    }

    /// The pattern of that number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::KnownServer),
            2 => Some(Self::KnownServerClientKey),
            3 => Some(Self::UnknownServer),
            4 => Some(Self::PreShared),
            _ => None,
        }
    }

    const fn name(self) -> &'static [u8] {
        match self {
            Self::KnownServer => b"Noise_NK_25519_ChaChaPoly_SHA256",
            Self::KnownServerClientKey => b"Noise_IK_25519_ChaChaPoly_SHA256",
            Self::UnknownServer => b"Noise_NX_25519_ChaChaPoly_SHA256",
            Self::PreShared => b"Noise_NNpsk0_25519_ChaChaPoly_SHA256",
        }
    }

    const fn knows_server(self) -> bool {
        matches!(self, Self::KnownServer | Self::KnownServerClientKey)
    }

    const fn message(self, writer: Role) -> &'static [Token] {
        use Token::{E, Ee, Es, Psk, S, Se, Ss};
        match (self, writer) {
            (Self::KnownServer, Role::Client) => &[E, Es],
            (Self::KnownServer | Self::PreShared, Role::Server) => &[E, Ee],
            (Self::KnownServerClientKey, Role::Client) => &[E, Es, S, Ss],
            (Self::KnownServerClientKey, Role::Server) => &[E, Ee, Se],
            (Self::UnknownServer, Role::Client) => &[E],
            (Self::UnknownServer, Role::Server) => &[E, Ee, S, Es],
            (Self::PreShared, Role::Client) => &[Psk, E],
        }
    }
}

/// The public key of a private one.
pub fn public_key(private: &Key) -> Key {
    PublicKey::from(&StaticSecret::from(*private)).to_bytes()
}

/// What an end brings to a handshake; what its pattern does not use is left out.
#[derive(Clone, Default, Zeroize, ZeroizeOnDrop)]
pub struct Identity {
    /// This end's private key.
    pub private: Option<Key>,
    /// The server's public key, for a client that knows it.
    pub server: Option<Key>,
    /// The pre-shared key.
    pub pre_shared: Option<Key>,
}

/// Noise's SymmetricState with the CipherState in it.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Symmetric {
    chaining_key: Key,
    hash: Key,
    key: Option<Key>,
    nonce: u64,
}

impl Symmetric {
    fn new(name: &[u8]) -> Self {
        // A name of at most 32 octets is padded with zeros, a longer one is hashed (revision 34, 5.2).
        let mut hash = [0; KEY_OCTETS];
        match hash.get_mut(..name.len()) {
            Some(place) => place.copy_from_slice(name),
            None => hash = Sha256::digest(name).into(),
        }
        Self { chaining_key: hash, hash, key: None, nonce: 0 }
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = Sha256::new().chain_update(self.hash).chain_update(data).finalize().into();
    }

    /// Noise's HKDF, which is HKDF (RFC 5869) with an empty info.
    fn hkdf<const OCTETS: usize>(&self, input: &[u8]) -> [u8; OCTETS] {
        let mut out = [0; OCTETS];
        // At most three hashes' length: it cannot be too long.
        let done = Hkdf::<Sha256>::new(Some(&self.chaining_key), input).expand(&[], &mut out);
        debug_assert!(done.is_ok());
        out
    }

    fn halves(mut both: [u8; 2 * KEY_OCTETS]) -> (Key, Key) {
        let (mut first, mut second) = ([0; KEY_OCTETS], [0; KEY_OCTETS]);
        let places = first.iter_mut().chain(&mut second);
        places.zip(&both).for_each(|(place, octet)| *place = *octet);
        both.zeroize();
        (first, second)
    }

    fn set_key(&mut self, key: Key) {
        self.key.zeroize();
        self.key = Some(key);
        self.nonce = 0;
    }

    fn mix_key(&mut self, input: &[u8]) {
        let (chaining_key, key) = Self::halves(self.hkdf(input));
        self.chaining_key = chaining_key;
        self.set_key(key);
    }

    fn mix_key_and_hash(&mut self, input: &[u8]) {
        let mut three: [u8; 3 * KEY_OCTETS] = self.hkdf(input);
        let (keys, _) = three.as_chunks::<KEY_OCTETS>();
        if let [chaining_key, hash, key] = *keys {
            self.chaining_key = chaining_key;
            self.mix_hash(&hash);
            self.set_key(key);
        }
        three.zeroize();
    }

    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = [0; 12];
        if let Some(counter) = nonce.last_chunk_mut() {
            *counter = self.nonce.to_le_bytes();
        }
        self.nonce += 1;
        nonce
    }

    const fn tag_octets(&self) -> usize {
        if self.key.is_some() { TAG_OCTETS } else { 0 }
    }

    /// Encrypts the first `octets` of `out` in place, appends the tag when there is a key, and gives the octets written.
    fn encrypt_and_hash(&mut self, out: &mut [u8], octets: usize) -> Result<usize, ModernError> {
        let total = octets + self.tag_octets();
        let out = out.get_mut(..total).ok_or(ModernError::NoRoom)?;
        let (text, tag) = out.split_at_mut_checked(octets).ok_or(ModernError::NoRoom)?;
        if let Some(key) = self.key {
            let nonce = self.nonce();
            let sealed = ChaCha20Poly1305::new(&key.into())
                .encrypt_inout_detached(&nonce.into(), &self.hash, text.into())
                .map_err(|_| ModernError::NoRoom)?;
            tag.copy_from_slice(&sealed);
        }
        self.mix_hash(out);
        Ok(total)
    }

    /// Decrypts `message` to the beginning of `out` and gives the octets written.
    fn decrypt_and_hash(&mut self, message: &[u8], out: &mut [u8]) -> Result<usize, ModernError> {
        let octets = message.len().checked_sub(self.tag_octets()).ok_or(ModernError::Truncated)?;
        let (text, tag) = message.split_at_checked(octets).ok_or(ModernError::Truncated)?;
        let out = out.get_mut(..octets).ok_or(ModernError::NoRoom)?;
        out.copy_from_slice(text);
        if let Some(key) = self.key {
            let tag: [u8; TAG_OCTETS] = tag.try_into().map_err(|_| ModernError::Truncated)?;
            let nonce = self.nonce();
            ChaCha20Poly1305::new(&key.into())
                .decrypt_inout_detached(&nonce.into(), &self.hash, out.into(), &tag.into())
                .map_err(|_| ModernError::Authentication)?;
        }
        self.mix_hash(message);
        Ok(octets)
    }
}

/// One end of a handshake of two messages. Everything in it is wiped when it is dropped; after an error it is of no further use.
pub struct Handshake {
    symmetric: Symmetric,
    pattern: Pattern,
    role: Role,
    identity: Identity,
    ephemeral: Option<StaticSecret>,
    peer_ephemeral: Option<PublicKey>,
    peer_static: Option<PublicKey>,
    /// Messages written and read.
    messages: u8,
}

impl Handshake {
    /// The beginning of a handshake. `clear` is the Initial up to the message ([`super::Initial::parse`]).
    ///
    /// # Errors
    /// [`ModernError::Sequence`] when the pattern needs a key that `identity` does not have.
    pub fn new(
        pattern: Pattern,
        role: Role,
        identity: Identity,
        clear: &[u8],
    ) -> Result<Self, ModernError> {
        let mut symmetric = Symmetric::new(pattern.name());
        let mut prologue = Sha256::new().chain_update(symmetric.hash);
        prologue.update(b"heddle dtp 1");
        prologue.update(clear);
        symmetric.hash = prologue.finalize().into();
        let needs_private = match role {
            Role::Client => pattern == Pattern::KnownServerClientKey,
            Role::Server => pattern != Pattern::PreShared,
        };
        if needs_private && identity.private.is_none()
            || pattern == Pattern::PreShared && identity.pre_shared.is_none()
        {
            return Err(ModernError::Sequence);
        }
        let mut peer_static = None;
        if pattern.knows_server() {
            let server = match role {
                Role::Client => {
                    let server = identity.server.ok_or(ModernError::Sequence)?;
                    peer_static = Some(PublicKey::from(server));
                    server
                }
                Role::Server => public_key(&identity.private.ok_or(ModernError::Sequence)?),
            };
            symmetric.mix_hash(&server);
        }
        Ok(Self {
            symmetric,
            pattern,
            role,
            identity,
            ephemeral: None,
            peer_ephemeral: None,
            peer_static,
            messages: 0,
        })
    }

    /// The key that the peer has shown, once its message is read: a client's in pattern IK, a server's in NX.
    pub fn peer_key(&self) -> Option<Key> {
        self.peer_static.map(|key| key.to_bytes())
    }

    fn turn(&mut self, writer: Role) -> Result<&'static [Token], ModernError> {
        let due = match self.messages {
            0 => Role::Client,
            1 => Role::Server,
            _ => return Err(ModernError::Sequence),
        };
        if due != writer {
            return Err(ModernError::Sequence);
        }
        self.messages += 1;
        Ok(self.pattern.message(writer))
    }

    fn mix_dh(&mut self, token: Token) -> Result<(), ModernError> {
        // The letters stand for the client's key and the server's, in this order.
        let (client_static, server_static) = match token {
            Token::Ee => (false, false),
            Token::Es => (false, true),
            Token::Se => (true, false),
            _ => (true, true),
        };
        let (own_static, peer_static) = match self.role {
            Role::Client => (client_static, server_static),
            Role::Server => (server_static, client_static),
        };
        let peer = if peer_static { self.peer_static } else { self.peer_ephemeral };
        let peer = peer.ok_or(ModernError::Sequence)?;
        let shared = if own_static {
            let private = self.identity.private.ok_or(ModernError::Sequence)?;
            StaticSecret::from(private).diffie_hellman(&peer)
        } else {
            self.ephemeral.as_ref().ok_or(ModernError::Sequence)?.diffie_hellman(&peer)
        };
        if !shared.was_contributory() {
            return Err(ModernError::KeyValue);
        }
        self.symmetric.mix_key(shared.as_bytes());
        Ok(())
    }

    fn mix_pre_shared(&mut self) -> Result<(), ModernError> {
        let mut key = self.identity.pre_shared.ok_or(ModernError::Sequence)?;
        self.symmetric.mix_key_and_hash(&key);
        key.zeroize();
        Ok(())
    }

    fn mix_ephemeral(&mut self, key: &Key) {
        self.symmetric.mix_hash(key);
        if self.pattern == Pattern::PreShared {
            self.symmetric.mix_key(key);
        }
    }

    /// Writes this end's message with `payload` to the beginning of `out` and gives its octets. `ephemeral` must come from a
    /// cryptographic generator and serve once.
    ///
    /// # Errors
    /// [`ModernError::Sequence`] out of turn, [`ModernError::KeyValue`] or [`ModernError::NoRoom`].
    pub fn write(
        &mut self,
        mut ephemeral: Key,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, ModernError> {
        let mut octets = 0;
        for token in self.turn(self.role)? {
            match token {
                Token::E => {
                    let secret = StaticSecret::from(ephemeral);
                    ephemeral.zeroize();
                    let key = PublicKey::from(&secret).to_bytes();
                    self.ephemeral = Some(secret);
                    let place =
                        out.get_mut(octets..octets + KEY_OCTETS).ok_or(ModernError::NoRoom)?;
                    place.copy_from_slice(&key);
                    octets += KEY_OCTETS;
                    self.mix_ephemeral(&key);
                }
                Token::S => {
                    let private = self.identity.private.ok_or(ModernError::Sequence)?;
                    octets += self.put(out, octets, &public_key(&private))?;
                }
                Token::Psk => self.mix_pre_shared()?,
                Token::Ee | Token::Es | Token::Se | Token::Ss => self.mix_dh(*token)?,
            }
        }
        octets += self.put(out, octets, payload)?;
        Ok(octets)
    }

    fn put(&mut self, out: &mut [u8], at: usize, text: &[u8]) -> Result<usize, ModernError> {
        let out = out.get_mut(at..).ok_or(ModernError::NoRoom)?;
        out.get_mut(..text.len()).ok_or(ModernError::NoRoom)?.copy_from_slice(text);
        self.symmetric.encrypt_and_hash(out, text.len())
    }

    /// Reads the peer's message, writes its payload to the beginning of `payload`, and gives the payload's octets.
    ///
    /// # Errors
    /// [`ModernError::Sequence`] out of turn, [`ModernError::Truncated`], [`ModernError::KeyValue`],
    /// [`ModernError::Authentication`], or [`ModernError::NoRoom`] when `payload` is shorter than the message needs.
    pub fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, ModernError> {
        let writer = if self.role == Role::Client { Role::Server } else { Role::Client };
        let mut rest = message;
        for token in self.turn(writer)? {
            match token {
                Token::E => {
                    let (key, behind) = rest.split_first_chunk().ok_or(ModernError::Truncated)?;
                    rest = behind;
                    self.peer_ephemeral = Some(PublicKey::from(*key));
                    self.mix_ephemeral(key);
                }
                Token::S => {
                    let octets = KEY_OCTETS + self.symmetric.tag_octets();
                    let (sealed, behind) =
                        rest.split_at_checked(octets).ok_or(ModernError::Truncated)?;
                    rest = behind;
                    let mut key = [0; KEY_OCTETS];
                    self.symmetric.decrypt_and_hash(sealed, &mut key)?;
                    self.peer_static = Some(PublicKey::from(key));
                }
                Token::Psk => self.mix_pre_shared()?,
                Token::Ee | Token::Es | Token::Se | Token::Ss => self.mix_dh(*token)?,
            }
        }
        self.symmetric.decrypt_and_hash(rest, payload)
    }

    /// The secrets that both messages have led to.
    ///
    /// # Errors
    /// [`ModernError::Sequence`] before both messages are done.
    pub fn finish(self) -> Result<SessionSecrets, ModernError> {
        if self.messages != 2 {
            return Err(ModernError::Sequence);
        }
        let (mut c, mut s) = Symmetric::halves(self.symmetric.hkdf(&[]));
        let secrets = SessionSecrets::new(&c, &s, &self.symmetric.hash);
        c.zeroize();
        s.zeroize();
        Ok(secrets)
    }
}

impl core::fmt::Debug for Handshake {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("Handshake")
            .field("pattern", &self.pattern)
            .field("role", &self.role)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}
