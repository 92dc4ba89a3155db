//! Interests.

use super::name::Names;
use super::tlv::{Elements, is_critical, types};
use super::{Name, NdnError};

/// The InterestLifetime of an Interest that has none, in milliseconds.
pub const DEFAULT_LIFETIME_MS: u64 = 4000;

/// An Interest that has been checked.
#[derive(Copy, Clone, Debug)]
pub struct Interest<'a> {
    /// The element, from its type on.
    pub octets: &'a [u8],
    /// The name asked for, or its prefix.
    pub name: Name<'a>,
    /// Whether the name may be a prefix of the Data's.
    pub can_be_prefix: bool,
    /// Whether stale Data does not do.
    pub must_be_fresh: bool,
    /// Names to forward by, if the Interest has a ForwardingHint.
    pub forwarding_hint: Option<Names<'a>>,
    /// Tells looping Interests from repeated ones.
    pub nonce: Option<[u8; 4]>,
    /// How long the answer is waited for, in milliseconds.
    pub lifetime_ms: u64,
    /// Hops that the Interest may still make, if they are limited.
    pub hop_limit: Option<u8>,
    /// ApplicationParameters.
    pub parameters: Option<&'a [u8]>,
    /// Whether there are an InterestSignatureInfo and an InterestSignatureValue.
    pub is_signed: bool,
    /// Octets between the HopLimit's value and the end of the element, with the value.
    pub(super) hop_limit_to_end: Option<usize>,
    /// Octets between where a Nonce belongs and the end of the element.
    pub(super) nonce_to_end: usize,
}

/// Places in the order that the specification gives.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Name,
    CanBePrefix,
    MustBeFresh,
    ForwardingHint,
    Nonce,
    Lifetime,
    HopLimit,
    Parameters,
    SignatureInfo,
    SignatureValue,
}

fn place(kind: u32) -> Option<Place> {
    Some(match kind {
        types::NAME => Place::Name,
        types::CAN_BE_PREFIX => Place::CanBePrefix,
        types::MUST_BE_FRESH => Place::MustBeFresh,
        types::FORWARDING_HINT => Place::ForwardingHint,
        types::NONCE => Place::Nonce,
        types::LIFETIME => Place::Lifetime,
        types::HOP_LIMIT => Place::HopLimit,
        types::APPLICATION_PARAMETERS => Place::Parameters,
        types::INTEREST_SIGNATURE_INFO => Place::SignatureInfo,
        types::INTEREST_SIGNATURE_VALUE => Place::SignatureValue,
        _ => return None,
    })
}

impl<'a> Interest<'a> {
    /// Checks the value of an Interest; `octets` are the element with its type and length.
    pub(super) fn new(octets: &'a [u8], value: &'a [u8]) -> Result<Self, NdnError> {
        let mut elements = Elements::new(value);
        let mut interest = Self {
            octets,
            name: Name::leading(&mut elements)?,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: None,
            nonce: None,
            lifetime_ms: DEFAULT_LIFETIME_MS,
            hop_limit: None,
            parameters: None,
            is_signed: false,
            hop_limit_to_end: None,
            nonce_to_end: 0,
        };
        let mut has_signature_info = false;
        let mut last = Place::Name;
        loop {
            let before = elements.rest().len();
            let Some(element) = elements.next() else { break };
            let element = element?;
            let Some(place) = place(element.kind) else {
                if is_critical(element.kind) {
                    return Err(NdnError::UnknownCritical);
                }
                continue;
            };
            if place <= last {
                if is_critical(element.kind) {
                    return Err(NdnError::ElementOrder);
                }
                continue;
            }
            if place > Place::Nonce && last < Place::Nonce {
                interest.nonce_to_end = before;
            }
            last = place;
            match place {
                Place::Name => {}
                Place::CanBePrefix => {
                    interest.can_be_prefix = true;
                    empty(element.value, NdnError::CanBePrefixLength)?;
                }
                Place::MustBeFresh => {
                    interest.must_be_fresh = true;
                    empty(element.value, NdnError::MustBeFreshLength)?;
                }
                Place::ForwardingHint => {
                    interest.forwarding_hint = Some(Names::new(element.value)?);
                }
                Place::Nonce => {
                    let nonce = element.value.try_into().map_err(|_| NdnError::NonceLength)?;
                    interest.nonce = Some(nonce);
                }
                Place::Lifetime => {
                    interest.lifetime_ms = element.integer(NdnError::LifetimeLength)?;
                }
                Place::HopLimit => {
                    let [hops] = *element.value else { return Err(NdnError::HopLimitLength) };
                    interest.hop_limit = Some(hops);
                    interest.hop_limit_to_end = Some(elements.rest().len() + 1);
                }
                Place::Parameters => {
                    if !interest.name.has_parameters_digest() {
                        return Err(NdnError::ParamsDigestMissing);
                    }
                    interest.parameters = Some(element.value);
                }
                Place::SignatureInfo => has_signature_info = true,
                Place::SignatureValue => interest.is_signed = has_signature_info,
            }
        }
        Ok(interest)
    }
}

pub(super) fn empty(value: &[u8], otherwise: NdnError) -> Result<(), NdnError> {
    if value.is_empty() { Ok(()) } else { Err(otherwise) }
}
