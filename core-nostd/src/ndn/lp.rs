//! The link protocol's header (NDNLPv2).

use super::interest::empty;
use super::tlv::{Elements, types};
use super::{MAX_PACKET_OCTETS, NdnError};

/// Why a node refuses an Interest.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NackReason(pub u64);

impl NackReason {
    /// Not told.
    pub const NONE: Self = Self(0);
    /// The way is congested.
    pub const CONGESTION: Self = Self(50);
    /// A Nonce that was seen before.
    pub const DUPLICATE: Self = Self(100);
    /// No route.
    pub const NO_ROUTE: Self = Self(150);
}

/// The fields of an LpPacket that have been checked; all absent for a bare packet.
#[derive(Copy, Clone, Debug, Default)]
pub struct LpHeader<'a> {
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex, 0 when absent.
    pub frag_index: Option<u64>,
    /// FragCount, 1 when absent.
    pub frag_count: Option<u64>,
    /// PitToken, 1 to 32 octets that only the sender understands.
    pub pit_token: Option<&'a [u8]>,
    /// The reason, when this is a Nack.
    pub nack: Option<NackReason>,
    /// CongestionMark.
    pub congestion_mark: Option<u64>,
    /// TxSequence.
    pub tx_sequence: Option<u64>,
    /// Whether NonDiscovery is there.
    pub non_discovery: bool,
    /// The Data in a PrefixAnnouncement, not checked.
    pub prefix_announcement: Option<&'a [u8]>,
    /// The packet or the piece of it that is carried.
    pub fragment: Option<&'a [u8]>,
    /// The fields that concern the packet carried, as octets: all after the FragCount's place and before the Fragment.
    pub(super) packet_fields: &'a [u8],
}

impl<'a> LpHeader<'a> {
    /// Checks the value of an LpPacket.
    pub(super) fn new(value: &'a [u8]) -> Result<Self, NdnError> {
        let mut header = Self::default();
        let mut elements = Elements::new(value);
        let mut last = 0;
        let mut packet_fields = value;
        loop {
            let before = elements.rest();
            let Some(element) = elements.next() else { break };
            let element = element?;
            if header.fragment.is_some() {
                return Err(NdnError::LpFieldOrder);
            }
            if element.kind == types::FRAGMENT {
                header.fragment = Some(element.value);
                let fields_octets = packet_fields.len() - before.len();
                packet_fields = packet_fields.get(..fields_octets).unwrap_or_default();
                continue;
            }
            if element.kind < last {
                return Err(NdnError::LpFieldOrder);
            }
            let is_repeated = element.kind == last;
            last = element.kind;
            if !header.read_field(element)? {
                if !may_be_ignored(element.kind) {
                    return Err(NdnError::LpUnknownCritical);
                }
            } else if is_repeated && element.kind != types::ACK {
                return Err(NdnError::LpRepeatedField);
            }
            if element.kind <= types::FRAG_COUNT {
                packet_fields = elements.rest();
            }
        }
        header.packet_fields = packet_fields;
        header.check_fragment_numbers()?;
        Ok(header)
    }

    /// Takes one field before the Fragment; false when it is not known.
    fn read_field(&mut self, element: super::Element<'a>) -> Result<bool, NdnError> {
        let integer = || element.integer(NdnError::LpIntegerLength).map(Some);
        let sequence = || match *element.value {
            [a, b, c, d, e, f, g, h] => Ok(Some(u64::from_be_bytes([a, b, c, d, e, f, g, h]))),
            _ => Err(NdnError::LpSequenceLength),
        };
        match element.kind {
            types::SEQUENCE => self.sequence = sequence()?,
            types::FRAG_INDEX => self.frag_index = integer()?,
            types::FRAG_COUNT => self.frag_count = integer()?,
            types::PIT_TOKEN => {
                if !(1..=32).contains(&element.value.len()) {
                    return Err(NdnError::PitTokenLength);
                }
                self.pit_token = Some(element.value);
            }
            types::NACK => self.nack = Some(nack_reason(element.value)?),
            types::CONGESTION_MARK => self.congestion_mark = integer()?,
            types::ACK => {
                sequence()?;
            }
            types::TX_SEQUENCE => self.tx_sequence = sequence()?,
            types::NON_DISCOVERY => {
                empty(element.value, NdnError::LpNonDiscoveryLength)?;
                self.non_discovery = true;
            }
            types::PREFIX_ANNOUNCEMENT => self.prefix_announcement = Some(element.value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses what cannot be a fragment before anybody keeps state for it.
    fn check_fragment_numbers(&self) -> Result<(), NdnError> {
        let (index, count) = (self.index(), self.count());
        if index >= count {
            return Err(NdnError::FragmentIndexRange);
        }
        if count > MAX_PACKET_OCTETS as u64 {
            return Err(NdnError::FragmentCountLimit);
        }
        match self.sequence {
            None if count > 1 => Err(NdnError::FragmentSequenceMissing),
            Some(sequence) if sequence < index => Err(NdnError::FragmentSequenceUnderflow),
            _ => Ok(()),
        }
    }

    /// The place of this fragment among those of its packet.
    pub fn index(&self) -> u64 {
        self.frag_index.unwrap_or(0)
    }

    /// The number of fragments of the packet.
    pub fn count(&self) -> u64 {
        self.frag_count.unwrap_or(1)
    }

    /// The sequence numbers in the Acks.
    pub fn acks(&self) -> impl Iterator<Item = u64> + use<'a> {
        Elements::new(self.packet_fields)
            .flatten()
            .filter(|element| element.kind == types::ACK)
            .filter_map(|element| element.integer(NdnError::LpSequenceLength).ok())
    }
}

/// NDNLPv2: an unknown field is ignored when its type is in 800 to 959 and its two lowest bits are zero.
const fn may_be_ignored(kind: u32) -> bool {
    kind >= 800 && kind <= 959 && kind & 3 == 0
}

fn nack_reason(value: &[u8]) -> Result<NackReason, NdnError> {
    let mut reason = None;
    for element in Elements::new(value) {
        let element = element?;
        if element.kind == types::NACK_REASON {
            let number = element.integer(NdnError::NackReasonLength)?;
            if reason.replace(NackReason(number)).is_some() {
                return Err(NdnError::LpRepeatedField);
            }
        } else if !may_be_ignored(element.kind) {
            return Err(NdnError::LpUnknownCritical);
        }
    }
    Ok(reason.unwrap_or(NackReason::NONE))
}
