//! Names: components one after the other, whose raw octets are also what prefixes are compared by.

use super::NdnError;
use super::tlv::{Element, Elements, is_critical, types};
use core::fmt;

/// Octets of a digest component's value.
const DIGEST_OCTETS: usize = 32;

/// A Name that has been checked, as its TLV-VALUE.
///
/// Components tell their own length, so that octets of whole components are a prefix of a name exactly when they
/// are a prefix of its octets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    value: &'a [u8],
}

/// A component of a name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Component<'a> {
    /// 1 to 65535; 8 is generic.
    pub kind: u16,
    /// The value.
    pub value: &'a [u8],
    /// Octets of the whole component.
    pub octets: usize,
}

impl<'a> Component<'a> {
    pub(super) fn new(element: Element<'a>) -> Result<Self, NdnError> {
        let kind = u16::try_from(element.kind).map_err(|_| NdnError::ComponentTypeRange)?;
        let is_digest = matches!(element.kind, types::IMPLICIT_DIGEST | types::PARAMETERS_DIGEST);
        if is_digest && element.value.len() != DIGEST_OCTETS {
            return Err(NdnError::DigestComponentLength);
        }
        Ok(Self { kind, value: element.value, octets: element.whole.len() })
    }
}

impl<'a> Name<'a> {
    /// The Name of no component: the prefix of all names.
    pub const ROOT: Self = Self { value: &[] };

    /// Checks the TLV-VALUE of a Name.
    ///
    /// # Errors
    /// What is wrong with the first component that is wrong.
    pub fn new(value: &'a [u8]) -> Result<Self, NdnError> {
        for element in Elements::new(value) {
            let element = element.map_err(|error| match error {
                NdnError::TypeZero | NdnError::TypeTooLarge => NdnError::ComponentTypeRange,
                other => other,
            })?;
            Component::new(element)?;
        }
        Ok(Self { value })
    }

    /// Checks octets that are one Name element and nothing else.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(octets: &'a [u8]) -> Result<Self, NdnError> {
        let (element, rest) = Element::first(octets)?;
        if !rest.is_empty() {
            return Err(NdnError::TrailingBytes);
        }
        Self::of(&element)
    }

    pub(super) fn of(element: &Element<'a>) -> Result<Self, NdnError> {
        if element.kind != types::NAME {
            return Err(NdnError::NotAName);
        }
        Self::new(element.value)
    }

    /// The first element of an Interest or a Data, which must be a Name of at least one component.
    pub(super) fn leading(elements: &mut Elements<'a>) -> Result<Self, NdnError> {
        let first = elements.next().ok_or(NdnError::NameMissing)??;
        if first.kind != types::NAME {
            return Err(NdnError::NameNotFirst);
        }
        let name = Self::of(&first)?;
        if name.is_root() { Err(NdnError::EmptyName) } else { Ok(name) }
    }

    /// The TLV-VALUE.
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Whether there is no component.
    pub const fn is_root(&self) -> bool {
        self.value.is_empty()
    }

    /// The components, in order.
    pub const fn components(&self) -> Components<'a> {
        Components(Elements::new(self.value))
    }

    /// Whether `prefix` is a prefix of this name by whole components.
    pub fn starts_with(&self, prefix: &Name<'_>) -> bool {
        self.value.starts_with(prefix.value)
    }

    pub(super) fn has_parameters_digest(&self) -> bool {
        self.components().any(|component| u32::from(component.kind) == types::PARAMETERS_DIGEST)
    }
}

/// The components of a [`Name`].
#[derive(Copy, Clone, Debug)]
pub struct Components<'a>(Elements<'a>);

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        // The name has been checked, so no element is an error.
        self.0.next()?.ok().and_then(|element| Component::new(element).ok())
    }
}

/// The names in a ForwardingHint.
#[derive(Copy, Clone, Debug)]
pub struct Names<'a>(Elements<'a>);

impl<'a> Names<'a> {
    /// Checks the value of a ForwardingHint.
    pub(super) fn new(value: &'a [u8]) -> Result<Self, NdnError> {
        let elements = Elements::new(value);
        for element in elements {
            let element = element?;
            if element.kind == types::NAME {
                Name::of(&element)?;
            } else if is_critical(element.kind) {
                return Err(NdnError::UnknownCritical);
            }
        }
        Ok(Self(elements))
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = Name<'a>;

    fn next(&mut self) -> Option<Name<'a>> {
        self.0.by_ref().flatten().find_map(|element| Name::of(&element).ok())
    }
}

/// A component as in an NDN URI: generic ones bare, digests in hexadecimal, the others as `TYPE=`.
impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::from(self.kind) {
            kind @ (types::IMPLICIT_DIGEST | types::PARAMETERS_DIGEST) => {
                f.write_str(if kind == types::IMPLICIT_DIGEST {
                    "sha256digest="
                } else {
                    "params-sha256="
                })?;
                return self.value.iter().try_for_each(|octet| write!(f, "{octet:02x}"));
            }
            types::GENERIC => {}
            kind => write!(f, "{kind}=")?,
        }
        if self.value.iter().all(|octet| *octet == b'.') {
            f.write_str("...")?;
        }
        self.value.iter().try_for_each(|octet| match octet {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(f, "{}", char::from(*octet))
            }
            _ => write!(f, "%{octet:02X}"),
        })
    }
}

/// The name as an NDN URI without a scheme.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        self.components().try_for_each(|component| write!(f, "/{component}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_made_of_whole_components() {
        let name = |octets| Name::new(octets).unwrap();
        let tno = name(b"\x08\x03tno");
        assert!(name(b"\x08\x03tno\x08\x01x").starts_with(&tno));
        assert!(!name(b"\x08\x01t").starts_with(&tno));
        assert!(!tno.starts_with(&name(b"\x08\x01t")));
        assert!(!name(b"\x08\x01x\x08\x03tno").starts_with(&tno));
        assert!(tno.starts_with(&Name::ROOT));
    }
}
