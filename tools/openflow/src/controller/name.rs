//! Names that the controller keeps: octets of their own, read from and written as NDN URIs.

use std::fmt;
use std::str::FromStr;

use heddle_core::flow::MAX_NAME_COMPONENTS;
use heddle_core::ndn::{Name, NdnError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Octets of a prefix, at most.
pub const MAX_PREFIX_OCTETS: usize = 2048;

/// A prefix of names: the TLV-VALUE of a Name of 1 to [`MAX_NAME_COMPONENTS`] whole components.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Box<[u8]>);

/// Why something is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not an NDN URI.
    #[error("a name begins with a slash, as in /tno/ping")]
    NoSlash,
    /// An escape is not `%` and two hexadecimal digits.
    #[error("'%' must be followed by two hexadecimal digits")]
    BadEscape,
    /// Nothing between slashes, or a component of one or two periods.
    #[error(
        "there is an empty component, or one of one or two periods: write three more periods (NDN URI scheme)"
    )]
    BadComponent,
    /// A type before `=` that is none.
    #[error("a component's type is a number from 1 to 65535")]
    BadType,
    /// The octets are no Name.
    #[error("it is no name: {}", .0.name())]
    Ndn(NdnError),
    /// The Name without a component.
    #[error("the prefix of all names cannot be announced")]
    Root,
    /// Longer than any flow's match.
    #[error("it is longer than {MAX_PREFIX_OCTETS} octets or {MAX_NAME_COMPONENTS} components")]
    TooLong,
}

impl Prefix {
    /// Checks the TLV-VALUE of a Name.
    ///
    /// # Errors
    /// Why it is no prefix.
    pub fn new(value: &[u8]) -> Result<Self, PrefixError> {
        let name = Name::new(value).map_err(PrefixError::Ndn)?;
        if name.is_root() {
            return Err(PrefixError::Root);
        }
        if value.len() > MAX_PREFIX_OCTETS || name.components().count() > MAX_NAME_COMPONENTS {
            return Err(PrefixError::TooLong);
        }
        Ok(Self(value.into()))
    }

    /// The TLV-VALUE.
    pub fn value(&self) -> &[u8] {
        &self.0
    }

    /// The name.
    pub fn name(&self) -> Name<'_> {
        // It was checked when it was made.
        Name::new(&self.0).unwrap_or_default()
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.name().components().count()
    }

    /// Whether this is a prefix of `other`, or the same.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

/// The prefixes of a name, as octets: the whole name first, then one component less each time.
pub fn prefixes_of(name: Name<'_>) -> impl Iterator<Item = &[u8]> {
    let mut ends: Vec<usize> = name
        .components()
        .take(MAX_NAME_COMPONENTS)
        .scan(0, |end, component| {
            *end += component.octets;
            Some(*end)
        })
        .collect();
    let value = name.value();
    std::iter::from_fn(move || ends.pop().and_then(|end| value.get(..end)))
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads an NDN URI, with or without its scheme: `/tno/ping`, `ndn:/a/%00`, `/a/54=v1`.
    fn from_str(uri: &str) -> Result<Self, PrefixError> {
        let path = uri.strip_prefix("ndn:").unwrap_or(uri);
        let path = path.strip_prefix('/').ok_or(PrefixError::NoSlash)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Err(PrefixError::Root);
        }
        let mut value = Vec::with_capacity(path.len() + 8);
        for component in path.split('/') {
            let (kind, octets) = component_octets(component)?;
            write_number(&mut value, kind);
            write_number(&mut value, octets.len());
            value.extend(octets);
            if value.len() > MAX_PREFIX_OCTETS {
                return Err(PrefixError::TooLong);
            }
        }
        Self::new(&value)
    }
}

/// The type and the value of one component of an NDN URI.
fn component_octets(text: &str) -> Result<(usize, Vec<u8>), PrefixError> {
    let (kind, text) = match text.split_once('=') {
        Some(("sha256digest", digits)) => return Ok((1, digest(digits)?)),
        Some(("params-sha256", digits)) => return Ok((2, digest(digits)?)),
        Some((kind, rest)) => match kind.parse::<u16>() {
            Ok(kind) if kind > 0 => (usize::from(kind), rest),
            _ => return Err(PrefixError::BadType),
        },
        None => (8, text),
    };
    // Components of periods alone have three more of them in a URI.
    if text.bytes().all(|octet| octet == b'.') {
        let periods = text.len().checked_sub(3).ok_or(PrefixError::BadComponent)?;
        return Ok((kind, vec![b'.'; periods]));
    }
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let mut digit = || rest.next().and_then(|octet| char::from(octet).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(PrefixError::BadEscape);
        };
        octets.push((high << 4 | low) as u8);
    }
    Ok((kind, octets))
}

fn digest(digits: &str) -> Result<Vec<u8>, PrefixError> {
    let pairs = digits.as_bytes().chunks(2);
    let octets = pairs.map(|pair| {
        let text = std::str::from_utf8(pair).map_err(|_| PrefixError::BadEscape)?;
        u8::from_str_radix(text, 16).map_err(|_| PrefixError::BadEscape)
    });
    octets.collect()
}

/// Writes a TLV-TYPE or TLV-LENGTH in its shortest form.
pub fn write_number(out: &mut Vec<u8>, number: usize) {
    match number {
        0..=252 => out.push(number as u8),
        253..=0xffff => {
            out.push(253);
            out.extend((number as u16).to_be_bytes());
        }
        _ => {
            out.push(254);
            out.extend((number as u32).to_be_bytes());
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format!("{text}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn uris_are_read() {
        let value = |uri: &str| uri.parse::<Prefix>().map(|prefix| prefix.value().to_vec());
        assert_eq!(value("/tno"), Ok(b"\x08\x03tno".to_vec()));
        assert_eq!(value("ndn:/x/tno/"), Ok(b"\x08\x01x\x08\x03tno".to_vec()));
        assert_eq!(value("/a%00/54=%01"), Ok(b"\x08\x02a\0\x36\x01\x01".to_vec()));
        assert_eq!(value("/..."), Ok(b"\x08\x00".to_vec()));
        assert_eq!(value("/...."), Ok(b"\x08\x01.".to_vec()));
        assert_eq!(value("tno"), Err(PrefixError::NoSlash));
        assert_eq!(value("/"), Err(PrefixError::Root));
        assert_eq!(value("/a//b"), Err(PrefixError::BadComponent));
        assert_eq!(value("/.."), Err(PrefixError::BadComponent));
        assert_eq!(value("/%4"), Err(PrefixError::BadEscape));
        assert_eq!(value("/0=a"), Err(PrefixError::BadType));
        assert_eq!(value("/65536=a"), Err(PrefixError::BadType));
        assert_eq!(
            value("/sha256digest=00"),
            Err(PrefixError::Ndn(NdnError::DigestComponentLength))
        );
        assert_eq!(value(&format!("/{}", "a".repeat(3000))), Err(PrefixError::TooLong));
        assert_eq!(value(&"/a".repeat(65)), Err(PrefixError::TooLong));
    }

    #[test]
    fn prefixes_come_longest_first() {
        let prefix: Prefix = "/a/bc".parse().unwrap();
        let all: Vec<_> = prefixes_of(prefix.name()).collect();
        assert_eq!(all, [b"\x08\x01a\x08\x02bc".as_slice(), b"\x08\x01a"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            components in prop::collection::vec((3u16..400, prop::collection::vec(any::<u8>(), 0..8)), 1..8)
        ) {
            let mut value = Vec::new();
            for (kind, octets) in components {
                write_number(&mut value, kind.into());
                write_number(&mut value, octets.len());
                value.extend(octets);
            }
            let prefix = Prefix::new(&value).unwrap();
            prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
        }
    }
}
