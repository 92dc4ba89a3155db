//! Hello and the version that both sides speak (OpenFlow 1.3.5, 6.3.1 and 7.5.1).

use crate::Refusal;
use crate::wire::{Reader, Write};

/// The version on the wire of OpenFlow 1.3.
pub const VERSION: u8 = 4;

const VERSION_BITMAP: u16 = 1;

/// A part of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloElement {
    /// The versions that the sender speaks, each as a number on the wire.
    Versions(Vec<u8>),
    /// One that is not known, which is passed over.
    Unknown(u16, Vec<u8>),
}

/// A hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its elements, in order.
    pub elements: Vec<HelloElement>,
}

impl Hello {
    /// The hello of a speaker of OpenFlow 1.3 alone.
    pub fn ours() -> Self {
        Self { elements: vec![HelloElement::Versions(vec![VERSION])] }
    }

    /// Whether OpenFlow 1.3 is what both sides speak, when the other side sent this with `version` in its header.
    ///
    /// # Errors
    /// [`Refusal::INCOMPATIBLE`].
    pub fn negotiate(&self, version: u8) -> Result<(), Refusal> {
        let bitmap = self.elements.iter().find_map(|element| match element {
            HelloElement::Versions(versions) => Some(versions),
            HelloElement::Unknown(..) => None,
        });
        let is_common = match bitmap {
            Some(versions) => versions.contains(&VERSION),
            // The lower of both versions is spoken.
            None => version >= VERSION,
        };
        if is_common { Ok(()) } else { Err(Refusal::INCOMPATIBLE) }
    }

    pub(crate) fn decode(reader: Reader<'_>) -> Result<Self, Refusal> {
        let elements = reader.list(|reader| {
            let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
            let mut body =
                reader.part(len.checked_sub(4).ok_or(Refusal::BAD_LEN)?, Refusal::BAD_LEN)?;
            // The last element may lack its padding, in practice.
            let padding = len.next_multiple_of(8) - len;
            reader.skip(padding.min(reader.len()))?;
            if kind != VERSION_BITMAP {
                return Ok(HelloElement::Unknown(kind, body.all().to_vec()));
            }
            let mut versions = Vec::new();
            let mut first = 0u32;
            while !body.is_empty() {
                let bits = body.u32()?;
                let set = (0..32).filter(|bit| bits & 1 << bit != 0);
                versions.extend(set.filter_map(|bit| u8::try_from(first + bit).ok()));
                first += 32;
            }
            Ok(HelloElement::Versions(versions))
        })?;
        Ok(Self { elements })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for element in &self.elements {
            out.sized(2, false, |out| match element {
                HelloElement::Versions(versions) => {
                    out.u16(VERSION_BITMAP);
                    out.u16(0);
                    let highest = versions.iter().max().copied().unwrap_or(0);
                    for first in (0..=highest).step_by(32) {
                        let bits = versions.iter().filter_map(|version| {
                            let bit = version.checked_sub(first).filter(|bit| *bit < 32)?;
                            Some(1u32 << bit)
                        });
                        out.u32(bits.fold(0, |all, bit| all | bit));
                    }
                }
                HelloElement::Unknown(kind, body) => {
                    out.u16(*kind);
                    out.u16(0);
                    out.put(body);
                }
            });
        }
    }
}
