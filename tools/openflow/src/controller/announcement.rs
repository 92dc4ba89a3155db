//! What islands tell the controller about their names.
//!
//! A datagram is one of
//! - JSON: a list of objects with `name`, an NDN URI, and `cost`, a whole number (0 when absent). `"withdraw": true` takes a name
//!   back. An empty list takes all names of the island back. A name that is not announced again in time is taken back,
//!   so that a RIB that does not fit one datagram comes in several. Unknown keys are ignored.
//! - A prefix announcement, as forwarders send it: a Data named `PREFIX/32=PA/54=VERSION/50=SEGMENT` of ContentType 5 whose Content has
//!   ExpirationPeriod (type 109, milliseconds) and may have ValidityPeriod (type 253); bare, or in the PrefixAnnouncement
//!   field (848) of an LpPacket. An ExpirationPeriod of 0 takes the prefix back. The cost is the island's own.
//!   Its signature is DigestSha256 (type 0), or HmacWithSha256 (type 4) where the island has a key: then nothing else will do.
//!   The controller has no calendar, so that the ValidityPeriod is left to those who have.

use std::time::Duration;

use heddle_core::ndn::{Component, Element, Elements, Link, Name, Packet, Payload};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::name::Prefix;

/// The UDP port that islands announce to.
pub const ANNOUNCEMENT_PORT: u16 = 46363;

/// The group that islands announce to.
pub const ANNOUNCEMENT_GROUP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(224, 0, 23, 170);

/// Names in one announcement, at most.
pub const MAX_NAMES: usize = 16_384;

const CONTENT_TYPE_PREFIX_ANNOUNCEMENT: u64 = 5;
const KEYWORD: u16 = 32;
const SEGMENT: u16 = 50;
const VERSION: u16 = 54;
const SIGNATURE_INFO: u32 = 0x16;
const SIGNATURE_VALUE: u32 = 0x17;
const SIGNATURE_TYPE: u32 = 0x1b;
const EXPIRATION_PERIOD: u32 = 109;
const SIGNATURE_DIGEST: &[u8] = &[0];
const SIGNATURE_HMAC: &[u8] = &[4];

/// What is said about one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is here.
    Announce {
        /// At this cost; nothing for the island's own.
        cost: Option<u64>,
        /// For so long; nothing for as long as announcements hold.
        holds: Option<Duration>,
    },
    /// It is here no longer.
    Withdraw,
}

/// A datagram that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// What is said about which prefix, in order.
    pub words: Vec<(Prefix, Word)>,
    /// Whether all other prefixes of the island are taken back.
    pub withdraws_all: bool,
    /// Entries with a name that is none or with a cost that is none.
    pub bad_names: usize,
}

/// Why a datagram cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementError {
    /// Neither JSON of the form described nor a packet.
    Malformed,
    /// More than [`MAX_NAMES`].
    TooMany,
    /// A packet that is no prefix announcement.
    NotAnAnnouncement,
    /// The signature is not right, or of another kind than the island's.
    Signature,
}

/// Entries of the list: an entry that is wrong leaves the others as they are.
#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    cost: u64,
    #[serde(default)]
    withdraw: bool,
}

impl Announcement {
    /// Reads a datagram of an island; `key` is what it signs prefix announcements with, if anything.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn parse(datagram: &[u8], key: Option<&[u8]>) -> Result<Self, AnnouncementError> {
        match datagram.iter().find(|octet| !octet.is_ascii_whitespace()) {
            Some(b'[') => Self::of_json(datagram),
            _ => Self::of_packet(datagram, key),
        }
    }

    fn of_json(text: &[u8]) -> Result<Self, AnnouncementError> {
        let entries: Vec<serde_json::Value> =
            serde_json::from_slice(text).map_err(|_| AnnouncementError::Malformed)?;
        if entries.len() > MAX_NAMES {
            return Err(AnnouncementError::TooMany);
        }
        let mut read = Self { withdraws_all: entries.is_empty(), ..Self::default() };
        for entry in entries {
            let entry = Entry::deserialize(entry).ok();
            let named = entry.and_then(|entry| Some((entry.name.parse().ok()?, entry)));
            match named {
                None => read.bad_names += 1,
                Some((prefix, Entry { withdraw: true, .. })) => {
                    read.words.push((prefix, Word::Withdraw));
                }
                Some((prefix, Entry { cost, .. })) => {
                    let word = Word::Announce { cost: Some(cost), holds: None };
                    read.words.push((prefix, word));
                }
            }
        }
        Ok(read)
    }

    fn of_packet(octets: &[u8], key: Option<&[u8]>) -> Result<Self, AnnouncementError> {
        let malformed = |_| AnnouncementError::Malformed;
        let packet = Packet::parse(octets, Link::Datagram).map_err(malformed)?;
        let payload = match packet.link.prefix_announcement {
            Some(data) => Payload::network(data).map_err(malformed)?,
            None => packet.payload,
        };
        let Payload::Data(data) = payload else {
            return Err(AnnouncementError::NotAnAnnouncement);
        };
        if data.content_type != CONTENT_TYPE_PREFIX_ANNOUNCEMENT {
            return Err(AnnouncementError::NotAnAnnouncement);
        }
        if !is_signed(data.octets, key) {
            return Err(AnnouncementError::Signature);
        }
        let prefix = announced(data.name).ok_or(AnnouncementError::NotAnAnnouncement)?;
        let expiration = Elements::new(data.content.unwrap_or_default())
            .map_while(Result::ok)
            .find(|element| element.kind == EXPIRATION_PERIOD)
            .and_then(|element| number(element.value))
            .ok_or(AnnouncementError::NotAnAnnouncement)?;
        let Ok(prefix) = Prefix::new(prefix) else {
            return Ok(Self { bad_names: 1, ..Self::default() });
        };
        let word = match expiration {
            0 => Word::Withdraw,
            _ => Word::Announce { cost: None, holds: Some(Duration::from_millis(expiration)) },
        };
        Ok(Self { words: vec![(prefix, word)], ..Self::default() })
    }
}

/// What stands before `32=PA/54=VERSION/50=SEGMENT`.
fn announced(name: Name<'_>) -> Option<&[u8]> {
    let components: Vec<Component<'_>> = name.components().collect();
    let [.., keyword, version, segment] = &components[..] else { return None };
    let is_marked = keyword.kind == KEYWORD && keyword.value == b"PA";
    if !is_marked || version.kind != VERSION || segment.kind != SEGMENT {
        return None;
    }
    let behind = keyword.octets + version.octets + segment.octets;
    name.value().get(..name.value().len().checked_sub(behind)?)
}

/// Whether a Data has the signature that is asked for. What is signed lies between its length and SignatureValue.
fn is_signed(data: &[u8], key: Option<&[u8]>) -> bool {
    let Ok((whole, _)) = Element::first(data) else { return false };
    let mut elements = Elements::new(whole.value);
    let (mut signature_type, mut signed_octets) = (None, 0);
    while let Some(Ok(element)) = elements.next() {
        match element.kind {
            SIGNATURE_INFO => {
                signature_type = Elements::new(element.value)
                    .map_while(Result::ok)
                    .find(|inner| inner.kind == SIGNATURE_TYPE)
                    .map(|inner| inner.value);
            }
            SIGNATURE_VALUE => {
                let signed = whole.value.get(..signed_octets).unwrap_or_default();
                return match (key, signature_type) {
                    (None, Some(SIGNATURE_DIGEST)) => {
                        Sha256::digest(signed).as_slice() == element.value
                    }
                    (Some(key), Some(SIGNATURE_HMAC)) => Hmac::<Sha256>::new_from_slice(key)
                        .is_ok_and(|mac| {
                            mac.chain_update(signed).verify_slice(element.value).is_ok()
                        }),
                    _ => false,
                };
            }
            _ => {}
        }
        signed_octets += element.whole.len();
    }
    false
}

fn number(octets: &[u8]) -> Option<u64> {
    matches!(octets.len(), 1 | 2 | 4 | 8)
        .then(|| octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
}

#[cfg(test)]
mod tests {
    use super::super::name::write_number;
    use super::*;
    use proptest::prelude::*;

    fn tlv(kind: usize, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_number(&mut out, kind);
        write_number(&mut out, value.len());
        out.extend(value);
        out
    }

    /// A prefix announcement of `/tno` for 3 s, signed by `sign`.
    fn packet(kind: u8, sign: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let name = [tlv(8, b"tno"), tlv(32, b"PA"), tlv(54, &[1]), tlv(50, &[0])].concat();
        let mut signed = tlv(7, &name);
        signed.extend(tlv(0x14, &tlv(0x18, &[5])));
        signed.extend(tlv(0x15, &tlv(109, &3000u16.to_be_bytes())));
        signed.extend(tlv(0x16, &tlv(0x1b, &[kind])));
        let signature = sign(&signed);
        signed.extend(tlv(0x17, &signature));
        tlv(6, &signed)
    }

    fn digest(signed: &[u8]) -> Vec<u8> {
        Sha256::digest(signed).to_vec()
    }

    #[test]
    fn json_is_read() {
        let text = br#" [{"name":"/tno","cost":7},{"name":"/csu/x","metric":1,"withdraw":true},{"name":"/a"},
            {"name":"tno","cost":1},{"cost":1},{"name":"/b","cost":-1},{"name":"/b","cost":"1"},3,null]"#;
        let read = Announcement::parse(text, None).unwrap();
        let announce = |cost| Word::Announce { cost: Some(cost), holds: None };
        let expected = [("/tno", announce(7)), ("/csu/x", Word::Withdraw), ("/a", announce(0))];
        let expected = expected.map(|(name, word)| (name.parse().unwrap(), word));
        assert_eq!(read.words, expected);
        assert_eq!((read.bad_names, read.withdraws_all), (6, false));
        assert!(Announcement::parse(b"[]", None).unwrap().withdraws_all);
        for text in ["", "[", "{}", "null", "[1}", "[[[[", "\u{1}\u{2}"] {
            let read = Announcement::parse(text.as_bytes(), None);
            assert_eq!(read, Err(AnnouncementError::Malformed), "{text}");
        }
        let many = format!("[{}1]", "1,".repeat(MAX_NAMES));
        assert_eq!(Announcement::parse(many.as_bytes(), None), Err(AnnouncementError::TooMany));
        let deep = "[".repeat(60_000);
        let read = Announcement::parse(deep.as_bytes(), None);
        assert_eq!(read, Err(AnnouncementError::Malformed));
    }

    #[test]
    fn prefix_announcements_are_read() {
        let word = Word::Announce { cost: None, holds: Some(Duration::from_secs(3)) };
        let expected =
            Announcement { words: vec![("/tno".parse().unwrap(), word)], ..Default::default() };
        let bare = packet(0, digest);
        assert_eq!(Announcement::parse(&bare, None).as_ref(), Ok(&expected));
        let linked = tlv(100, &[tlv(848, &bare), tlv(80, &bare)].concat());
        assert_eq!(Announcement::parse(&linked, None).as_ref(), Ok(&expected));
        // An island with a key takes only what is signed with it.
        let refused = Err(AnnouncementError::Signature);
        assert_eq!(Announcement::parse(&bare, Some(b"key")), refused);
        let sign = |signed: &[u8]| {
            let mac = Hmac::<Sha256>::new_from_slice(b"key").unwrap().chain_update(signed);
            mac.finalize().into_bytes().to_vec()
        };
        let keyed = packet(4, sign);
        assert_eq!(Announcement::parse(&keyed, Some(b"key")).as_ref(), Ok(&expected));
        assert_eq!(Announcement::parse(&keyed, Some(b"other")), refused);
        assert_eq!(Announcement::parse(&keyed, None), refused);
        // A signature that is not of these octets.
        let mut changed = bare;
        changed[7] ^= 1;
        assert_eq!(Announcement::parse(&changed, None), refused);
        // An Interest is no announcement.
        let interest = tlv(5, &[tlv(7, &tlv(8, b"tno")), tlv(10, &[0; 4])].concat());
        let read = Announcement::parse(&interest, None);
        assert_eq!(read, Err(AnnouncementError::NotAnAnnouncement));
    }

    proptest! {
        #[test]
        fn nothing_is_too_strange_to_be_read(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Announcement::parse(&octets, None);
            let mut packet = packet(0, digest);
            for (at, octet) in octets.iter().enumerate().take(3) {
                let place = (at * 31 + usize::from(*octet)) % packet.len();
                packet[place] ^= octet;
            }
            let _ = Announcement::parse(&packet, None);
        }
    }
}
