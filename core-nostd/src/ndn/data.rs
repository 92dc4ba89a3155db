//! Data packets.

use super::tlv::{Element, Elements, is_critical, types};
use super::{Component, Name, NdnError};

/// A Data that has been checked. Signatures are for its consumers.
#[derive(Copy, Clone, Debug)]
pub struct Data<'a> {
    /// The element, from its type on.
    pub octets: &'a [u8],
    /// Its name.
    pub name: Name<'a>,
    /// ContentType; 0 is a blob.
    pub content_type: u64,
    /// FreshnessPeriod in milliseconds; 0 when absent.
    pub freshness_ms: u64,
    /// The last component of the last packet's name, when known.
    pub final_block_id: Option<Component<'a>>,
    /// The Content.
    pub content: Option<&'a [u8]>,
}

impl<'a> Data<'a> {
    /// Checks the value of a Data; `octets` are the element with its type and length.
    pub(super) fn new(octets: &'a [u8], value: &'a [u8]) -> Result<Self, NdnError> {
        let mut elements = Elements::new(value);
        let mut data = Self {
            octets,
            name: Name::leading(&mut elements)?,
            content_type: 0,
            freshness_ms: 0,
            final_block_id: None,
            content: None,
        };
        let (mut has_signature_info, mut has_signature) = (false, false);
        let mut order = InOrder(types::NAME);
        for element in elements {
            let element = element?;
            let is_known = element.kind == types::NAME
                || (types::META_INFO..=types::SIGNATURE_VALUE).contains(&element.kind);
            if !order.admits(&element, is_known)? {
                continue;
            }
            match element.kind {
                types::META_INFO => data.read_meta_info(element.value)?,
                types::CONTENT => data.content = Some(element.value),
                types::SIGNATURE_INFO => has_signature_info = true,
                _ => has_signature = true,
            }
        }
        if !has_signature_info {
            return Err(NdnError::SignatureInfoMissing);
        }
        if !has_signature {
            return Err(NdnError::SignatureValueMissing);
        }
        Ok(data)
    }

    fn read_meta_info(&mut self, value: &'a [u8]) -> Result<(), NdnError> {
        let mut order = InOrder(0);
        for element in Elements::new(value) {
            let element = element?;
            let is_known = (types::CONTENT_TYPE..=types::FINAL_BLOCK_ID).contains(&element.kind);
            if !order.admits(&element, is_known)? {
                continue;
            }
            match element.kind {
                types::CONTENT_TYPE => {
                    self.content_type = element.integer(NdnError::ContentTypeLength)?;
                }
                types::FRESHNESS => {
                    self.freshness_ms = element.integer(NdnError::FreshnessLength)?
                }
                _ => {
                    let (component, rest) =
                        Element::take(element.value).map_err(|_| NdnError::FinalBlockId)?;
                    if !rest.is_empty() {
                        return Err(NdnError::FinalBlockId);
                    }
                    self.final_block_id = Some(Component::new(component)?);
                }
            }
        }
        Ok(())
    }
}

/// The last type seen, where elements stand in the order of their types and all known ones are critical.
struct InOrder(u32);

impl InOrder {
    /// Whether the element counts; one that is neither known nor critical does not.
    fn admits(&mut self, element: &Element<'_>, is_known: bool) -> Result<bool, NdnError> {
        if !is_known {
            return if is_critical(element.kind) {
                Err(NdnError::UnknownCritical)
            } else {
                Ok(false)
            };
        }
        if element.kind <= self.0 {
            return Err(NdnError::ElementOrder);
        }
        self.0 = element.kind;
        Ok(true)
    }
}
