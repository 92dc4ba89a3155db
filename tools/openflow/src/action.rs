//! Actions (OpenFlow 1.3.5, 7.2.5).

use crate::port::{GroupId, PortNumber};
use crate::wire::{Reader, Write};
use crate::{Oxm, Refusal, tunnel};
use heddle_core::flow::{Encapsulation, Tunnel};

/// Numbers of actions.
mod types {
    pub const OUTPUT: u16 = 0;
    pub const COPY_TTL_OUT: u16 = 11;
    pub const COPY_TTL_IN: u16 = 12;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const SET_NW_TTL: u16 = 23;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const PUSH_PBB: u16 = 26;
    pub const POP_PBB: u16 = 27;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// A queue of a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SetQueue(pub u32);

/// What is done with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it, with so many octets of it if that is to the controller.
    Output {
        /// Where to.
        port: PortNumber,
        /// Octets for the controller; 0xffff is all of them.
        max_len: u16,
    },
    /// Copy the TTL outwards.
    CopyTtlOut,
    /// Copy the TTL inwards.
    CopyTtlIn,
    /// Set the TTL of the outermost label.
    SetMplsTtl(u8),
    /// Take one off it.
    DecMplsTtl,
    /// Add a VLAN tag of this EtherType.
    PushVlan(u16),
    /// Take the outermost tag off.
    PopVlan,
    /// Add a label of this EtherType.
    PushMpls(u16),
    /// Take the outermost label off; inside is this EtherType.
    PopMpls(u16),
    /// Choose a queue of the port.
    SetQueue(SetQueue),
    /// Hand it to a group.
    Group(GroupId),
    /// Set the TTL of IPv4 or the hop limit of IPv6.
    SetNwTtl(u8),
    /// Take one off it.
    DecNwTtl,
    /// Set a field.
    SetField(Oxm),
    /// Add a PBB tag of this EtherType.
    PushPbb(u16),
    /// Take it off.
    PopPbb,
    /// Put the packet into a tunnel (our experimenter's, see [`crate::HEDDLE`]).
    Encapsulate(Encapsulation),
    /// Take it out of one (our experimenter's, see [`crate::HEDDLE`]).
    Decapsulate(Tunnel),
}

impl Action {
    /// Reads actions up to the end.
    pub(crate) fn decode_all(octets: &[u8]) -> Result<Vec<Self>, Refusal> {
        Reader::new(octets, Refusal::ACTION_LEN).list(Self::decode)
    }

    /// Reads one action.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
        if len < 8 || !len.is_multiple_of(8) {
            return Err(Refusal::ACTION_LEN);
        }
        let mut body = reader.part(len - 4, Refusal::ACTION_LEN)?;
        let action = match kind {
            types::OUTPUT => {
                let (port, max_len) = (PortNumber(body.u32()?), body.u16()?);
                if !port.is_output() {
                    return Err(Refusal::ACTION_OUT_PORT);
                }
                body.skip(6)?;
                Self::Output { port, max_len }
            }
            types::SET_FIELD => {
                // Its padding may not be more than the field needs.
                let before = body.len();
                let oxm = Oxm::read_settable(&mut body)?;
                let used = before - body.len() + 4;
                if used.next_multiple_of(8) != len {
                    return Err(Refusal::ACTION_LEN);
                }
                return Ok(Self::SetField(oxm));
            }
            types::GROUP => {
                let group = GroupId(body.u32()?);
                if group > GroupId::MAX {
                    return Err(Refusal::ACTION_OUT_GROUP);
                }
                Self::Group(group)
            }
            types::SET_QUEUE => Self::SetQueue(SetQueue(body.u32()?)),
            types::EXPERIMENTER => tunnel::decode(&mut body)?,
            _ => {
                let [high, low, _, _] = body.array()?;
                let ether_type = u16::from_be_bytes([high, low]);
                match kind {
                    types::COPY_TTL_OUT => Self::CopyTtlOut,
                    types::COPY_TTL_IN => Self::CopyTtlIn,
                    types::SET_MPLS_TTL => Self::SetMplsTtl(high),
                    types::DEC_MPLS_TTL => Self::DecMplsTtl,
                    types::PUSH_VLAN => Self::PushVlan(ether_type),
                    types::POP_VLAN => Self::PopVlan,
                    types::PUSH_MPLS => Self::PushMpls(ether_type),
                    types::POP_MPLS => Self::PopMpls(ether_type),
                    types::SET_NW_TTL => Self::SetNwTtl(high),
                    types::DEC_NW_TTL => Self::DecNwTtl,
                    types::PUSH_PBB => Self::PushPbb(ether_type),
                    types::POP_PBB => Self::PopPbb,
                    _ => return Err(Refusal::ACTION_TYPE),
                }
            }
        };
        body.end()?;
        Ok(action)
    }

    pub(crate) fn encode_all(actions: &[Self], out: &mut Vec<u8>) {
        actions.iter().for_each(|action| action.encode(out));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.sized(2, true, |out| {
            let mut begin = |kind: u16, value: u16| {
                out.u16(kind);
                out.u16(0);
                out.u16(value);
                out.u16(0);
            };
            let high = |octet: u8| u16::from(octet) << 8;
            match self {
                Self::Encapsulate(all) => tunnel::encode_into(all, out),
                Self::Decapsulate(tunnel) => tunnel::encode_out_of(tunnel, out),
                Self::CopyTtlOut => begin(types::COPY_TTL_OUT, 0),
                Self::CopyTtlIn => begin(types::COPY_TTL_IN, 0),
                Self::SetMplsTtl(ttl) => begin(types::SET_MPLS_TTL, high(*ttl)),
                Self::DecMplsTtl => begin(types::DEC_MPLS_TTL, 0),
                Self::PushVlan(ether_type) => begin(types::PUSH_VLAN, *ether_type),
                Self::PopVlan => begin(types::POP_VLAN, 0),
                Self::PushMpls(ether_type) => begin(types::PUSH_MPLS, *ether_type),
                Self::PopMpls(ether_type) => begin(types::POP_MPLS, *ether_type),
                Self::SetNwTtl(ttl) => begin(types::SET_NW_TTL, high(*ttl)),
                Self::DecNwTtl => begin(types::DEC_NW_TTL, 0),
                Self::PushPbb(ether_type) => begin(types::PUSH_PBB, *ether_type),
                Self::PopPbb => begin(types::POP_PBB, 0),
                Self::Output { port, max_len } => {
                    out.u16(types::OUTPUT);
                    out.u16(0);
                    out.u32(port.0);
                    out.u16(*max_len);
                    out.zeros(6);
                }
                Self::SetQueue(SetQueue(number)) | Self::Group(GroupId(number)) => {
                    let is_group = matches!(self, Self::Group(_));
                    out.u16(if is_group { types::GROUP } else { types::SET_QUEUE });
                    out.u16(0);
                    out.u32(*number);
                }
                Self::SetField(oxm) => {
                    out.u16(types::SET_FIELD);
                    out.u16(0);
                    oxm.encode(out);
                }
            }
        });
    }
}
