//! From OpenFlow's matches and actions to those of the switch.

use crate::group::{Bucket, GroupType};
use crate::port::{GroupId, PortNumber};
use crate::{Action, Field, Instruction, Oxm, Refusal};
use heddle_core::flow::{
    self, Fields, GroupError, GroupKind, Instructions, MAX_TABLES, Output, SetField, TableError,
};
use heddle_core::node::{PortId, PortSet};

/// The switch's port of this OpenFlow number: they count from 1.
pub(super) fn port_id(port: PortNumber, ports: PortSet) -> Option<PortId> {
    let id = PortId(u8::try_from(port.0.checked_sub(1)?).ok()?);
    ports.contains(id).then_some(id)
}

/// Fields that flows can match.
pub(super) const MATCHABLE: &[Field] = &[
    Field::InPort,
    Field::Metadata,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanVid,
    Field::VlanPcp,
    Field::IpDscp,
    Field::IpEcn,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Flabel,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::TunnelId,
];

/// Fields that actions can set.
pub(super) const SETTABLE: &[Field] = &[
    Field::EthDst,
    Field::EthSrc,
    Field::IpDscp,
    Field::IpEcn,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Flabel,
    Field::MplsLabel,
    Field::MplsTc,
];

pub(super) fn set(fields: &mut Fields, field: Field, octets: &[u8]) -> Result<(), Refusal> {
    let number = octets.iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet));
    let mac = || octets.try_into().map_err(|_| Refusal::MATCH_LEN);
    let ip = || {
        let mut address = [0; 16];
        address.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        address
    };
    match field {
        Field::InPort => fields.in_port = number as u32,
        Field::Metadata => fields.metadata = number,
        Field::EthDst => fields.ethernet_destination = mac()?,
        Field::EthSrc => fields.ethernet_source = mac()?,
        Field::EthType => fields.ether_type = number as u16,
        Field::VlanVid => fields.vlan_id = number as u16 & 0x1fff,
        Field::VlanPcp => fields.vlan_priority = number as u8,
        Field::IpDscp => fields.dscp = number as u8,
        Field::IpEcn => fields.ecn = number as u8,
        Field::IpProto => fields.ip_protocol = number as u8,
        Field::Ipv4Src | Field::Ipv6Src => fields.ip_source = ip(),
        Field::Ipv4Dst | Field::Ipv6Dst => fields.ip_destination = ip(),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => fields.source_port = number as u16,
        Field::TcpDst | Field::UdpDst | Field::SctpDst => fields.destination_port = number as u16,
        Field::Ipv6Flabel => fields.flow_label = number as u32,
        Field::MplsLabel => fields.mpls_label = number as u32,
        Field::MplsTc => fields.mpls_class = number as u8,
        Field::MplsBos => fields.mpls_bottom = number as u8,
        Field::TunnelId => fields.tunnel_id = number,
        _ => return Err(Refusal::MATCH_FIELD),
    }
    Ok(())
}

/// What actions may name: the ports there are, and the groups.
pub(super) struct Known<'k> {
    pub ports: PortSet,
    pub groups: &'k dyn Fn(GroupId) -> bool,
}

impl Known<'_> {
    /// The switch's instructions for a flow of `table`.
    pub(super) fn instructions(
        &self,
        table: u8,
        instructions: &[Instruction],
    ) -> Result<Instructions, Refusal> {
        let mut all = Instructions::NONE;
        for instruction in instructions {
            match instruction {
                Instruction::GotoTable(next) => {
                    if *next <= table || usize::from(*next) >= MAX_TABLES {
                        return Err(Refusal::INSTRUCTION_TABLE);
                    }
                    all.goto_table = Some(*next);
                }
                Instruction::WriteMetadata(value, mask) => all.metadata = (*value, *mask),
                Instruction::WriteActions(actions) => all.write = self.list(actions)?,
                Instruction::ApplyActions(actions) => all.apply = self.list(actions)?,
                Instruction::ClearActions => all.clear = true,
                Instruction::Meter(_) => return Err(Refusal::INSTRUCTION_UNSUPPORTED),
            }
        }
        Ok(all)
    }

    fn list<L: for<'a> TryFrom<&'a [flow::Action]>>(
        &self,
        actions: &[Action],
    ) -> Result<L, Refusal> {
        L::try_from(&self.actions(actions)?).map_err(|_| Refusal::ACTION_TOO_MANY)
    }

    /// The switch's actions.
    pub(super) fn actions(&self, actions: &[Action]) -> Result<Vec<flow::Action>, Refusal> {
        actions.iter().map(|action| self.action(action)).collect()
    }

    fn action(&self, action: &Action) -> Result<flow::Action, Refusal> {
        Ok(match action {
            Action::Output { port, max_len } => flow::Action::Output(match *port {
                PortNumber::IN_PORT => Output::InPort,
                PortNumber::FLOOD | PortNumber::ALL => Output::Flood,
                PortNumber::CONTROLLER => Output::Controller { max_octets: *max_len },
                port => Output::Port(port_id(port, self.ports).ok_or(Refusal::ACTION_OUT_PORT)?),
            }),
            Action::Group(group) if (self.groups)(*group) => flow::Action::Group(group.0),
            Action::Group(_) => return Err(Refusal::ACTION_OUT_GROUP),
            Action::CopyTtlOut => flow::Action::CopyTtlOut,
            Action::CopyTtlIn => flow::Action::CopyTtlIn,
            Action::SetMplsTtl(ttl) => flow::Action::SetMplsTtl(*ttl),
            Action::DecMplsTtl => flow::Action::DecrementMplsTtl,
            Action::PushMpls(ether_type) => flow::Action::PushMpls(*ether_type),
            Action::PopMpls(ether_type) => flow::Action::PopMpls(*ether_type),
            Action::SetNwTtl(ttl) => flow::Action::SetTtl(*ttl),
            Action::DecNwTtl => flow::Action::DecrementTtl,
            Action::SetField(Oxm::Basic { field, value, .. }) => {
                flow::Action::SetField(set_field(*field, value)?)
            }
            Action::SetField(_) => return Err(Refusal::ACTION_SET_TYPE),
            Action::Encapsulate(all) => flow::Action::Encapsulate(*all),
            Action::Decapsulate(tunnel) => flow::Action::Decapsulate(*tunnel),
            Action::PushVlan(_)
            | Action::PopVlan
            | Action::SetQueue(_)
            | Action::PushPbb(_)
            | Action::PopPbb => return Err(Refusal::ACTION_TYPE),
        })
    }

    /// The switch's buckets.
    pub(super) fn buckets(
        &self,
        kind: GroupType,
        buckets: &[Bucket],
    ) -> Result<Vec<flow::Bucket>, Refusal> {
        let one = |bucket: &Bucket| {
            if bucket.watch_group != GroupId::ANY && kind == GroupType::FastFailover {
                return Err(Refusal::GROUP_WATCH_UNSUPPORTED);
            }
            let watch_port = match bucket.watch_port {
                PortNumber::ANY => None,
                port => Some(port_id(port, self.ports).ok_or(Refusal::GROUP_BAD_WATCH)?),
            };
            let weight = bucket.weight;
            Ok(flow::Bucket { weight, watch_port, actions: self.list(&bucket.actions)? })
        };
        buckets.iter().map(one).collect()
    }
}

fn set_field(field: Field, value: &[u8]) -> Result<SetField, Refusal> {
    fn array<const N: usize>(value: &[u8]) -> Result<[u8; N], Refusal> {
        value.try_into().map_err(|_| Refusal::ACTION_SET_LEN)
    }
    let octet = || array::<1>(value).map(|[octet]| octet);
    let number = || array(value).map(u32::from_be_bytes);
    Ok(match field {
        Field::EthDst => SetField::EthernetDestination(array(value)?),
        Field::EthSrc => SetField::EthernetSource(array(value)?),
        Field::Ipv4Src => SetField::Ipv4Source(array(value)?),
        Field::Ipv4Dst => SetField::Ipv4Destination(array(value)?),
        Field::Ipv6Src => SetField::Ipv6Source(array(value)?),
        Field::Ipv6Dst => SetField::Ipv6Destination(array(value)?),
        Field::Ipv6Flabel => SetField::FlowLabel(number()?),
        Field::IpDscp => SetField::Dscp(octet()?),
        Field::IpEcn => SetField::Ecn(octet()?),
        Field::UdpSrc => SetField::UdpSource(u16::from_be_bytes(array(value)?)),
        Field::UdpDst => SetField::UdpDestination(u16::from_be_bytes(array(value)?)),
        Field::MplsLabel => SetField::MplsLabel(number()?),
        Field::MplsTc => SetField::MplsClass(octet()?),
        _ => return Err(Refusal::ACTION_SET_TYPE),
    })
}

pub(super) const fn group_kind(kind: GroupType) -> GroupKind {
    match kind {
        GroupType::All => GroupKind::All,
        GroupType::Select => GroupKind::Select,
        GroupType::Indirect => GroupKind::Indirect,
        GroupType::FastFailover => GroupKind::FastFailover,
    }
}

pub(super) const fn table_refusal(error: TableError) -> Refusal {
    match error {
        TableError::GotoTable => Refusal::INSTRUCTION_TABLE,
        _ => Refusal::FLOW_TABLE_FULL,
    }
}

pub(super) const fn group_refusal(error: GroupError) -> Refusal {
    match error {
        GroupError::Exists => Refusal::GROUP_EXISTS,
        GroupError::Unknown => Refusal::GROUP_UNKNOWN,
        GroupError::Full => Refusal::GROUPS_FULL,
        GroupError::Buckets => Refusal::BUCKETS_FULL,
        GroupError::Chaining => Refusal::GROUP_CHAINING,
        GroupError::Watch => Refusal::GROUP_BAD_WATCH,
    }
}
