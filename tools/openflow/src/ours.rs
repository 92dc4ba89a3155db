//! Match fields of experimenters: a program's result, a prefix of a name, the kind of a named-data packet.

use crate::experiment::EXPERIMENTER;
use crate::oxm::{Oxm, Refusals, header};
use crate::wire::{Reader, Write};
use crate::{CLASS_EXPERIMENTER, Refusal};
use heddle_core::ndn::Name;

/// The experimenter of what is neither OpenFlow's nor of older switches: "HDLE".
///
/// # Match fields
///
/// Each is an OXM of class 0xffff whose payload begins with its experimenter (OpenFlow 1.3.5, 7.2.3.8). Numbers are big-endian.
///
/// Experimenter 0x66666666:
///
/// | field | value, and as many octets of mask where it is masked |
/// |---|---|
/// | 1 | u32 program, u64 result, then the parameter's octets: up to 239, or 113 with a mask |
/// | 2 | u32 program, u64 result, u32 number of a parameter that PARAM_SET has set |
///
/// The masks of program and parameter are all ones: a flow asks for one program with one parameter.
///
/// Experimenter 0x48444c45, never masked:
///
/// | field | value |
/// |---|---|
/// | 1 | u8 kind of the packet: 1 Interest, 2 Data, 3 Nack, 4 a link packet with none in it, 5 a fragment that is not the first |
/// | 16 | the TLV-VALUE of a name (its components as they are on the wire) that is a prefix of the packet's: up to 251 octets of it |
/// | 17 to 51 | 251 octets of the name each, or what is left of it, in order behind field 16 |
///
/// A name without octets asks for a packet that has a name.
///
/// # Actions
///
/// An OFPAT_EXPERIMENTER (OpenFlow 1.3.5, 7.2.5): type 0xffff, length, u32 experimenter 0x48444c45, and then:
///
/// | offset | field |
/// |---|---|
/// | 8 | u16: 1 into the tunnel, 2 out of it |
/// | 10 | u8: 0 GRE, 1 VXLAN, 2 UDP |
/// | 11 | u8 flags: 1 there is a GRE key, 2 the endpoints are IPv6 |
/// | 12 | u32 GRE key, or VXLAN network |
/// | 16 | u16, u16 source and destination port of UDP |
/// | 20 | u16 EtherType that UDP's payload has outside the tunnel |
/// | 22 | u8 TTL or hop limit of the outer header |
/// | 23 | zero |
/// | 24 | 6, 6 octets of Ethernet destination and source after the tunnel (GRE and UDP) |
/// | 36 | four zeros, the end of type 2; or for type 1: |
/// | 36 | 6, 6 octets of outer Ethernet destination and source |
/// | 48 | 16, 16 octets of outer IP source and destination; of IPv4 addresses the first 4, and zeros |
///
/// So an action of type 1 has 80 octets, one of type 2 has 40.
pub const HEDDLE: u32 = 0x4844_4c45;

/// Octets of the longest name that a match can have.
pub const MAX_NAME_OCTETS: usize = PIECE_OCTETS * PIECES;

pub(crate) const PROGRAM: u8 = 1;
pub(crate) const PROGRAM_NUMBERED: u8 = 2;
pub(crate) const NDN_KIND: u8 = 1;
pub(crate) const NAME: u8 = 16;

/// Octets of a name in one field.
const PIECE_OCTETS: usize = 251;
const PIECES: usize = 36;

/// A parameter of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Its octets; none is the empty parameter.
    Octets(Vec<u8>),
    /// The number that PARAM_SET gave it.
    Number(u32),
}

impl Parameter {
    /// The empty parameter.
    pub const NONE: Self = Self::Octets(Vec::new());
}

/// A field as it was read.
pub(crate) enum Found {
    Whole(Oxm),
    /// More of the name that the field before has begun: which piece, and its octets.
    MoreName(usize, Vec<u8>),
}

/// Reads the payload of a field of class 0xffff.
pub(crate) fn read(
    number: u8,
    has_mask: bool,
    mut body: Reader<'_>,
    refuse: &Refusals,
) -> Result<Found, Refusal> {
    match body.u32()? {
        EXPERIMENTER if matches!(number, PROGRAM | PROGRAM_NUMBERED) => {
            read_program(number, has_mask, body, refuse).map(Found::Whole)
        }
        HEDDLE if number == NDN_KIND || (NAME..NAME + PIECES as u8).contains(&number) => {
            if has_mask {
                return Err(refuse.mask);
            }
            if number == NDN_KIND {
                let kind = body.u8()?;
                body.end()?;
                let is_known = (1..=5).contains(&kind);
                return if is_known {
                    Ok(Found::Whole(Oxm::NdnKind(kind)))
                } else {
                    Err(refuse.value)
                };
            }
            let octets = body.all().to_vec();
            Ok(match number - NAME {
                0 => Found::Whole(Oxm::Name(octets)),
                piece => Found::MoreName(piece.into(), octets),
            })
        }
        _ => Err(refuse.field),
    }
}

fn read_program(
    number: u8,
    has_mask: bool,
    mut body: Reader<'_>,
    refuse: &Refusals,
) -> Result<Oxm, Refusal> {
    let octets = if has_mask {
        if !body.len().is_multiple_of(2) {
            return Err(refuse.len);
        }
        body.len() / 2
    } else {
        body.len()
    };
    let mut value = body.part(octets, refuse.len)?;
    let (program, result) = (value.u32()?, value.u64()?);
    let parameter = if number == PROGRAM {
        Parameter::Octets(value.all().to_vec())
    } else {
        Parameter::Number(value.u32()?)
    };
    value.end()?;
    let masks = if has_mask {
        let masks = (body.u32()?, body.u64()?);
        if body.all().iter().any(|octet| *octet != 0xff) {
            return Err(refuse.mask);
        }
        Some(masks)
    } else {
        None
    };
    Ok(Oxm::Program { program, result, masks, parameter })
}

/// Puts more of a name behind what has been read of it.
pub(crate) fn extend_name(
    last: Option<&mut Oxm>,
    piece: usize,
    more: &[u8],
) -> Result<(), Refusal> {
    match last {
        Some(Oxm::Name(name)) if name.len() == piece * PIECE_OCTETS && !more.is_empty() => {
            name.extend_from_slice(more);
            Ok(())
        }
        _ => Err(Refusal::MATCH_PREREQUISITE),
    }
}

/// Whether a name is whole components.
pub(crate) fn check_name(octets: &[u8]) -> Result<(), Refusal> {
    // The root prefix has none.
    if octets.is_empty() || Name::new(octets).is_ok() { Ok(()) } else { Err(Refusal::MATCH_VALUE) }
}

pub(crate) fn encode_name(name: &[u8], out: &mut Vec<u8>) {
    let mut number = NAME;
    let mut rest = name;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PIECE_OCTETS));
        header(out, CLASS_EXPERIMENTER, number, false, 4 + piece.len());
        out.u32(HEDDLE);
        out.put(piece);
        if after.is_empty() {
            return;
        }
        (rest, number) = (after, number.saturating_add(1));
    }
}

pub(crate) fn encode_kind(kind: u8, out: &mut Vec<u8>) {
    header(out, CLASS_EXPERIMENTER, NDN_KIND, false, 5);
    out.u32(HEDDLE);
    out.u8(kind);
}

pub(crate) fn encode_program(
    program: u32,
    result: u64,
    masks: Option<(u32, u64)>,
    parameter: &Parameter,
    out: &mut Vec<u8>,
) {
    let (number, octets) = match parameter {
        Parameter::Octets(octets) => (PROGRAM, octets.clone()),
        Parameter::Number(number) => (PROGRAM_NUMBERED, number.to_be_bytes().to_vec()),
    };
    let value = 12 + octets.len();
    header(
        out,
        CLASS_EXPERIMENTER,
        number,
        masks.is_some(),
        4 + if masks.is_some() { 2 * value } else { value },
    );
    out.u32(EXPERIMENTER);
    out.u32(program);
    out.u64(result);
    out.put(&octets);
    if let Some((program, result)) = masks {
        out.u32(program);
        out.u64(result);
        out.put(&vec![0xff; octets.len()]);
    }
}
