//! Match fields (OpenFlow 1.3.5, 7.2.3), ours among them.

use crate::Refusal;
use crate::ours::{self, Found, Parameter};
use crate::wire::{Reader, Write};

const CLASS_BASIC: u16 = 0x8000;
pub(crate) const CLASS_EXPERIMENTER: u16 = 0xffff;
/// OFPMT_OXM.
const MATCH_OXM: u16 = 1;
/// The program match of older switches, a field of the basic class: number and octets.
const LEGACY_FIELD: u8 = 41;
const LEGACY_OCTETS: u8 = 248;

/// Octets of a parameter in [`Oxm::LegacyProgram`], at most.
pub const MAX_LEGACY_PARAMETER_OCTETS: usize = 227;

macro_rules! fields {
    ($($name:ident = $number:literal, $octets:literal, $bits:literal, $masks:literal, $text:literal;)+) => {
        /// A field of the basic class.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Field { $(#[doc = concat!("`", $text, "`, ", stringify!($bits), " bits.")] $name = $number,)+ }

        impl Field {
            /// Every field, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            const fn layout(self) -> (u8, u32, bool) {
                match self { $(Self::$name => ($octets, $bits, $masks),)+ }
            }

            /// The name that the specification gives it, in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

fields! {
    InPort = 0, 4, 32, false, "in_port";
    InPhyPort = 1, 4, 32, false, "in_phy_port";
    Metadata = 2, 8, 64, true, "metadata";
    EthDst = 3, 6, 48, true, "eth_dst";
    EthSrc = 4, 6, 48, true, "eth_src";
    EthType = 5, 2, 16, false, "eth_type";
    VlanVid = 6, 2, 13, true, "vlan_vid";
    VlanPcp = 7, 1, 3, false, "vlan_pcp";
    IpDscp = 8, 1, 6, false, "ip_dscp";
    IpEcn = 9, 1, 2, false, "ip_ecn";
    IpProto = 10, 1, 8, false, "ip_proto";
    Ipv4Src = 11, 4, 32, true, "ipv4_src";
    Ipv4Dst = 12, 4, 32, true, "ipv4_dst";
    TcpSrc = 13, 2, 16, false, "tcp_src";
    TcpDst = 14, 2, 16, false, "tcp_dst";
    UdpSrc = 15, 2, 16, false, "udp_src";
    UdpDst = 16, 2, 16, false, "udp_dst";
    SctpSrc = 17, 2, 16, false, "sctp_src";
    SctpDst = 18, 2, 16, false, "sctp_dst";
    Icmpv4Type = 19, 1, 8, false, "icmpv4_type";
    Icmpv4Code = 20, 1, 8, false, "icmpv4_code";
    ArpOp = 21, 2, 16, false, "arp_op";
    ArpSpa = 22, 4, 32, true, "arp_spa";
    ArpTpa = 23, 4, 32, true, "arp_tpa";
    ArpSha = 24, 6, 48, true, "arp_sha";
    ArpTha = 25, 6, 48, true, "arp_tha";
    Ipv6Src = 26, 16, 128, true, "ipv6_src";
    Ipv6Dst = 27, 16, 128, true, "ipv6_dst";
    Ipv6Flabel = 28, 4, 20, true, "ipv6_flabel";
    Icmpv6Type = 29, 1, 8, false, "icmpv6_type";
    Icmpv6Code = 30, 1, 8, false, "icmpv6_code";
    Ipv6NdTarget = 31, 16, 128, false, "ipv6_nd_target";
    Ipv6NdSll = 32, 6, 48, false, "ipv6_nd_sll";
    Ipv6NdTll = 33, 6, 48, false, "ipv6_nd_tll";
    MplsLabel = 34, 4, 20, false, "mpls_label";
    MplsTc = 35, 1, 3, false, "mpls_tc";
    MplsBos = 36, 1, 1, false, "mpls_bos";
    PbbIsid = 37, 3, 24, true, "pbb_isid";
    TunnelId = 38, 8, 64, true, "tunnel_id";
    Ipv6Exthdr = 39, 2, 9, true, "ipv6_exthdr";
}

impl Field {
    fn numbered(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether a match may leave out bits of it.
    pub const fn can_mask(self) -> bool {
        self.layout().2
    }

    /// Octets of a value.
    pub const fn octets(self) -> usize {
        self.layout().0 as usize
    }

    /// The fields and values of which a match must have one, for this field to mean anything (OpenFlow 1.3.5, table 12).
    const fn prerequisites(self) -> &'static [(Self, u16)] {
        match self {
            Self::IpDscp | Self::IpEcn | Self::IpProto => {
                &[(Self::EthType, 0x0800), (Self::EthType, 0x86dd)]
            }
            Self::Ipv4Src | Self::Ipv4Dst => &[(Self::EthType, 0x0800)],
            Self::TcpSrc | Self::TcpDst => &[(Self::IpProto, 6)],
            Self::UdpSrc | Self::UdpDst => &[(Self::IpProto, 17)],
            Self::SctpSrc | Self::SctpDst => &[(Self::IpProto, 132)],
            Self::Icmpv4Type | Self::Icmpv4Code => &[(Self::IpProto, 1)],
            Self::ArpOp | Self::ArpSpa | Self::ArpTpa | Self::ArpSha | Self::ArpTha => {
                &[(Self::EthType, 0x0806)]
            }
            Self::Ipv6Src | Self::Ipv6Dst | Self::Ipv6Flabel | Self::Ipv6Exthdr => {
                &[(Self::EthType, 0x86dd)]
            }
            Self::Icmpv6Type | Self::Icmpv6Code => &[(Self::IpProto, 58)],
            Self::Ipv6NdTarget => &[(Self::Icmpv6Type, 135), (Self::Icmpv6Type, 136)],
            Self::Ipv6NdSll => &[(Self::Icmpv6Type, 135)],
            Self::Ipv6NdTll => &[(Self::Icmpv6Type, 136)],
            Self::MplsLabel | Self::MplsTc | Self::MplsBos => {
                &[(Self::EthType, 0x8847), (Self::EthType, 0x8848)]
            }
            Self::PbbIsid => &[(Self::EthType, 0x88e7)],
            _ => &[],
        }
    }
}

/// One field of a match, or of a set-field action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oxm {
    /// A field of the basic class.
    Basic {
        /// Which.
        field: Field,
        /// Its value, of [`Field::octets`].
        value: Vec<u8>,
        /// The bits that count, when not all do.
        mask: Option<Vec<u8>>,
    },
    /// A program's result (experimenter 0x66666666, field 1).
    Program {
        /// The program.
        program: u32,
        /// What it must return.
        result: u64,
        /// The bits of both that count, when not all do.
        masks: Option<(u32, u64)>,
        /// The program's parameter.
        parameter: Parameter,
    },
    /// A prefix of the packet's name: its TLV-VALUE, of at most [`crate::MAX_NAME_OCTETS`].
    Name(Vec<u8>),
    /// The kind of named-data packet, a value of [`heddle_core::flow::NdnKind`].
    NdnKind(u8),
    /// The same as older switches have it, with the program's parameter.
    LegacyProgram {
        /// The program.
        program: u32,
        /// What it must return.
        result: u64,
        /// The bits of the result that count.
        mask: u64,
        /// At most [`MAX_LEGACY_PARAMETER_OCTETS`].
        parameter: Vec<u8>,
    },
}

/// What is wrong with a field depends on where it stands: in a match or in a set-field action.
pub(crate) struct Refusals {
    pub(crate) field: Refusal,
    pub(crate) len: Refusal,
    pub(crate) value: Refusal,
    pub(crate) mask: Refusal,
}

const IN_MATCH: Refusals = Refusals {
    field: Refusal::MATCH_FIELD,
    len: Refusal::MATCH_LEN,
    value: Refusal::MATCH_VALUE,
    mask: Refusal::MATCH_MASK,
};
const IN_ACTION: Refusals = Refusals {
    field: Refusal::ACTION_SET_TYPE,
    len: Refusal::ACTION_SET_LEN,
    value: Refusal::ACTION_SET_ARGUMENT,
    mask: Refusal::ACTION_SET_ARGUMENT,
};

impl Oxm {
    fn read(reader: &mut Reader<'_>, refuse: &Refusals) -> Result<Found, Refusal> {
        let (class, field, len) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let (number, has_mask) = (field >> 1, field & 1 == 1);
        let mut body = reader.part(len.into(), refuse.len)?;
        match class {
            CLASS_BASIC if (number, has_mask, len) == (LEGACY_FIELD, false, LEGACY_OCTETS) => {
                let (program, result, mask) = (body.u32()?, body.u64()?, body.u64()?);
                let parameter_octets = usize::from(body.u8()?);
                if parameter_octets > MAX_LEGACY_PARAMETER_OCTETS {
                    return Err(refuse.value);
                }
                let parameter = body.take(parameter_octets)?.to_vec();
                Ok(Found::Whole(Self::LegacyProgram { program, result, mask, parameter }))
            }
            CLASS_BASIC => {
                let field = Field::numbered(number).ok_or(refuse.field)?;
                Self::read_basic(field, has_mask, body, refuse).map(Found::Whole)
            }
            CLASS_EXPERIMENTER => ours::read(number, has_mask, body, refuse),
            _ => Err(refuse.field),
        }
    }

    fn read_basic(
        field: Field,
        has_mask: bool,
        mut body: Reader<'_>,
        refuse: &Refusals,
    ) -> Result<Self, Refusal> {
        let (octets, bits, can_mask) = field.layout();
        if has_mask && !can_mask {
            return Err(refuse.mask);
        }
        let value = body.take(octets.into())?.to_vec();
        let mask = if has_mask { Some(body.take(octets.into())?.to_vec()) } else { None };
        body.end()?;
        if !fits(&value, bits) {
            return Err(refuse.value);
        }
        if let Some(mask) = &mask {
            if !fits(mask, bits) {
                return Err(refuse.mask);
            }
            if value.iter().zip(mask).any(|(value, mask)| value & !mask != 0) {
                return Err(Refusal::MATCH_WILDCARDS);
            }
        }
        Ok(Self::Basic { field, value, mask })
    }

    /// Reads the field of a set-field action.
    pub(crate) fn read_settable(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let Found::Whole(oxm) = Self::read(reader, &IN_ACTION)? else {
            return Err(Refusal::ACTION_SET_TYPE);
        };
        match &oxm {
            Self::Basic { mask: Some(_), .. } => Err(Refusal::ACTION_SET_ARGUMENT),
            // OpenFlow 1.3.5, 5.12: all but these can be set.
            Self::Basic { field: Field::InPort | Field::InPhyPort | Field::Metadata, .. }
            | Self::Program { .. }
            | Self::Name(_)
            | Self::NdnKind(_)
            | Self::LegacyProgram { .. } => Err(Refusal::ACTION_SET_TYPE),
            Self::Basic { .. } => Ok(oxm),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Basic { field, value, mask } => {
                let mask = mask.as_deref().unwrap_or_default();
                header(out, CLASS_BASIC, *field as u8, !mask.is_empty(), value.len() + mask.len());
                out.put(value);
                out.put(mask);
            }
            Self::Program { program, result, masks, parameter } => {
                ours::encode_program(*program, *result, *masks, parameter, out);
            }
            Self::Name(name) => ours::encode_name(name, out),
            Self::NdnKind(kind) => ours::encode_kind(*kind, out),
            Self::LegacyProgram { program, result, mask, parameter } => {
                header(out, CLASS_BASIC, LEGACY_FIELD, false, LEGACY_OCTETS.into());
                out.u32(*program);
                out.u64(*result);
                out.u64(*mask);
                let end = parameter.len().min(MAX_LEGACY_PARAMETER_OCTETS);
                let parameter = parameter.get(..end).unwrap_or_default();
                out.u8(parameter.len() as u8);
                out.put(parameter);
                out.zeros(MAX_LEGACY_PARAMETER_OCTETS - parameter.len());
            }
        }
    }

    /// What may be in a match once.
    fn key(&self) -> (u16, u8) {
        match self {
            Self::Basic { field, .. } => (CLASS_BASIC, *field as u8),
            // With a parameter or without, in either form: one program at most.
            Self::Program { .. } | Self::LegacyProgram { .. } => {
                (CLASS_EXPERIMENTER, ours::PROGRAM)
            }
            Self::Name(_) => (CLASS_EXPERIMENTER, ours::NAME),
            Self::NdnKind(_) => (CLASS_EXPERIMENTER, u8::MAX),
        }
    }
}

pub(crate) fn header(out: &mut Vec<u8>, class: u16, field: u8, has_mask: bool, octets: usize) {
    out.u16(class);
    out.u8(field << 1 | u8::from(has_mask));
    out.u8(octets as u8);
}

/// Whether a number has no bit beyond so many.
fn fits(value: &[u8], bits: u32) -> bool {
    let spare = value.len() as u32 * 8 - bits;
    let whole = (spare / 8) as usize;
    value.iter().take(whole).all(|octet| *octet == 0)
        && value.get(whole).is_none_or(|octet| u32::from(*octet) < 1 << (8 - spare % 8))
}

/// What packets must be: fields in the order in which they were sent, each once, each behind those that give it meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The fields.
    pub fields: Vec<Oxm>,
}

impl Match {
    /// The value of a basic field that is there without a mask.
    pub fn exact(&self, field: Field) -> Option<&[u8]> {
        self.fields.iter().find_map(|oxm| match oxm {
            Oxm::Basic { field: found, value, mask: None } if *found == field => Some(&value[..]),
            _ => None,
        })
    }

    /// This match and a field more.
    #[must_use]
    pub fn and(mut self, oxm: Oxm) -> Self {
        self.fields.push(oxm);
        self
    }

    /// This match and a field that has exactly this value, of [`Field::octets`].
    #[must_use]
    pub fn exactly(self, field: Field, value: &[u8]) -> Self {
        self.and(Oxm::Basic { field, value: value.to_vec(), mask: None })
    }

    /// Reads a match with its padding.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
        let octets = len.checked_sub(4).ok_or(Refusal::MATCH_LEN)?;
        if kind != MATCH_OXM {
            return Err(Refusal::MATCH_TYPE);
        }
        if len.next_multiple_of(8) > reader.len() + 4 {
            return Err(Refusal::MATCH_LEN);
        }
        let fields = reader.part(octets, Refusal::MATCH_LEN)?;
        reader.skip(len.next_multiple_of(8) - len)?;
        let mut found = Self::default();
        let mut fields = fields;
        while !fields.is_empty() {
            match Oxm::read(&mut fields, &IN_MATCH)? {
                Found::Whole(oxm) => {
                    found.admit(&oxm)?;
                    found.fields.push(oxm);
                }
                Found::MoreName(piece, more) => {
                    ours::extend_name(found.fields.last_mut(), piece, &more)?;
                }
            }
        }
        for oxm in &found.fields {
            if let Oxm::Name(name) = oxm {
                ours::check_name(name)?;
            }
        }
        Ok(found)
    }

    /// Whether a further field may follow.
    fn admit(&self, oxm: &Oxm) -> Result<(), Refusal> {
        if self.fields.iter().any(|old| old.key() == oxm.key()) {
            return Err(Refusal::MATCH_DUPLICATE);
        }
        let Oxm::Basic { field, .. } = oxm else { return Ok(()) };
        let prerequisites = field.prerequisites();
        let is_met = |(field, value): &(Field, u16)| {
            let number = self.exact(*field).map(|octets| {
                octets.iter().fold(0u16, |number, octet| number << 8 | u16::from(*octet))
            });
            number == Some(*value)
        };
        let other = match field {
            Field::VlanPcp => self.has(Field::VlanVid),
            Field::InPhyPort => self.has(Field::InPort),
            _ => prerequisites.is_empty() || prerequisites.iter().any(is_met),
        };
        if other { Ok(()) } else { Err(Refusal::MATCH_PREREQUISITE) }
    }

    fn has(&self, field: Field) -> bool {
        self.fields
            .iter()
            .any(|oxm| matches!(oxm, Oxm::Basic { field: found, .. } if *found == field))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.sized(2, false, |out| {
            out.u16(MATCH_OXM);
            out.u16(0);
            self.fields.iter().for_each(|oxm| oxm.encode(out));
        });
    }
}
