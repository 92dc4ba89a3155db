//! What a face receives: an Interest, a Data, or a link packet around one or a piece of one.

use super::tlv::{Element, types};
use super::{Data, Interest, LpHeader, MAX_PACKET_OCTETS, NackReason, Name, NdnError};

/// What carries the packets, which decides what octets behind a packet mean.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Datagrams: one packet fills one.
    Datagram,
    /// Ethernet frames: short ones are padded.
    Ethernet,
}

/// A packet that has been checked.
#[derive(Copy, Clone, Debug)]
pub struct Packet<'a> {
    /// The packet without what the link added.
    pub octets: &'a [u8],
    /// The link header; all fields absent when the packet came bare.
    pub link: LpHeader<'a>,
    /// What it carries.
    pub payload: Payload<'a>,
}

/// What a packet carries.
#[derive(Copy, Clone, Debug)]
pub enum Payload<'a> {
    /// An Interest.
    Interest(Interest<'a>),
    /// A Data.
    Data(Data<'a>),
    /// An Interest that the other side refuses.
    Nack(NackReason, Interest<'a>),
    /// One of several fragments.
    Fragment(&'a [u8]),
    /// Nothing: a header alone.
    Idle,
}

impl<'a> Packet<'a> {
    /// Checks `octets` as they came from a link of this kind.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(octets: &'a [u8], link: Link) -> Result<Self, NdnError> {
        let (element, rest) = Element::first(octets)?;
        if element.whole.len() > MAX_PACKET_OCTETS {
            return Err(NdnError::PacketTooLarge);
        }
        if link == Link::Datagram && !rest.is_empty() {
            return Err(NdnError::TrailingBytes);
        }
        let octets = element.whole;
        if element.kind != types::LP_PACKET {
            let payload = Payload::of(&element)?.ok_or(NdnError::UnknownPacketType)?;
            return Ok(Self { octets, link: LpHeader::default(), payload });
        }
        let link = LpHeader::new(element.value)?;
        let payload = match link.fragment {
            None => Payload::Idle,
            Some(fragment) if link.count() > 1 => Payload::Fragment(fragment),
            Some(fragment) => match (link.nack, Payload::network(fragment)?) {
                (None, payload) => payload,
                (Some(reason), Payload::Interest(interest)) => Payload::Nack(reason, interest),
                (Some(_), _) => return Err(NdnError::NackWithData),
            },
        };
        Ok(Self { octets, link, payload })
    }

    /// The name in the packet, when it has a whole one.
    pub fn name(&self) -> Option<Name<'a>> {
        match self.payload {
            Payload::Interest(interest) | Payload::Nack(_, interest) => Some(interest.name),
            Payload::Data(data) => Some(data.name),
            Payload::Fragment(_) | Payload::Idle => None,
        }
    }
}

impl<'a> Payload<'a> {
    /// The element that is carried, when it is a whole one.
    pub fn octets(&self) -> Option<&'a [u8]> {
        match self {
            Self::Interest(interest) | Self::Nack(_, interest) => Some(interest.octets),
            Self::Data(data) => Some(data.octets),
            Self::Fragment(_) | Self::Idle => None,
        }
    }

    fn of(element: &Element<'a>) -> Result<Option<Self>, NdnError> {
        Ok(match element.kind {
            types::INTEREST => Some(Self::Interest(Interest::new(element.whole, element.value)?)),
            types::DATA => Some(Self::Data(Data::new(element.whole, element.value)?)),
            _ => None,
        })
    }

    /// Checks an Interest or a Data that was in one Fragment or in several.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn network(octets: &'a [u8]) -> Result<Self, NdnError> {
        let (element, rest) = Element::take(octets)?;
        if !matches!(element.kind, types::INTEREST | types::DATA) {
            return Err(NdnError::UnexpectedInnerType);
        }
        if element.whole.len() > MAX_PACKET_OCTETS {
            return Err(NdnError::PacketTooLarge);
        }
        if !rest.is_empty() {
            return Err(NdnError::TrailingBytes);
        }
        Self::of(&element)?.ok_or(NdnError::UnexpectedInnerType)
    }
}

/// The name of the packet that begins in `fragment`, and whether it is an Interest, when the Name ends there too.
///
/// # Errors
/// What is wrong with the packet's beginning, or [`NdnError::NameBeyondFragment`].
pub fn first_fragment_name(fragment: &[u8]) -> Result<(bool, Name<'_>), NdnError> {
    // The packet's own length may go beyond this fragment; the Name's may not.
    let beyond = |error| match error {
        NdnError::Truncated | NdnError::LengthPastEnd => NdnError::NameBeyondFragment,
        other => other,
    };
    let (kind, length, value) = super::tlv::header(fragment).map_err(beyond)?;
    if !matches!(kind, types::INTEREST | types::DATA) {
        return Err(NdnError::UnexpectedInnerType);
    }
    let header_octets = fragment.len() - value.len();
    if length.saturating_add(header_octets as u64) > MAX_PACKET_OCTETS as u64 {
        return Err(NdnError::PacketTooLarge);
    }
    // A length that this fragment reaches past cannot be right: others follow it.
    if length < value.len() as u64 {
        return Err(NdnError::TrailingBytes);
    }
    if length == 0 {
        return Err(NdnError::NameMissing);
    }
    let (name, _) = Element::take(value).map_err(beyond)?;
    if name.kind != types::NAME {
        return Err(NdnError::NameNotFirst);
    }
    let name = Name::of(&name)?;
    if name.is_root() { Err(NdnError::EmptyName) } else { Ok((kind == types::INTEREST, name)) }
}
