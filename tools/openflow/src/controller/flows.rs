//! The flows of islands: what a switch does with Interests, announcements and everything else.

use super::config::{Config, Island, Mac};
use super::name::Prefix;
use crate::{
    Action, Command, Field, FlowFlags, FlowMod, GroupId, Instruction, Match, NO_BUFFER, Oxm,
    Parameter, PortNumber,
};
use heddle_core::flow::NdnKind;
use heddle_core::wire::IP_PROTOCOL_UDP;

use super::announcement::{ANNOUNCEMENT_GROUP, ANNOUNCEMENT_PORT};

/// The table of all flows.
pub const TABLE: u8 = 0;

/// The upper 16 bits of all cookies of this controller.
const COOKIE_TAG: u64 = 0x4844 << 48;
const COOKIE_TAG_MASK: u64 = 0xffff << 48;
/// Where in a cookie the epoch is.
const EPOCH_SHIFT: u32 = 16;
/// Bits of an epoch.
pub const EPOCH_BITS: u32 = 32;

/// Priorities: announcements, names by their components, names that no flow knows, the hosts of islands, everything else.
mod priority {
    pub const ANNOUNCEMENT: u16 = 30_000;
    pub const NAME: u16 = 20_000;
    pub const UNKNOWN_NAME: u16 = 10_000;
    pub const HOST: u16 = 2_000;
    pub const PATCH: u16 = 1_000;
}

/// The cookie of the flows that were installed in an epoch: the time from one set-up of a switch to the next.
pub const fn cookie(epoch: u32) -> u64 {
    COOKIE_TAG | (epoch as u64) << EPOCH_SHIFT
}

fn basic(field: Field, value: &[u8]) -> Oxm {
    Oxm::Basic { field, value: value.to_vec(), mask: None }
}

/// UDP to a port, which came in on another.
fn udp(in_port: u32, destination: Option<[u8; 4]>, port: u16) -> Vec<Oxm> {
    let mut fields = vec![
        basic(Field::InPort, &in_port.to_be_bytes()),
        basic(Field::EthType, &0x0800u16.to_be_bytes()),
        basic(Field::IpProto, &[IP_PROTOCOL_UDP]),
    ];
    fields.extend(destination.map(|address| basic(Field::Ipv4Dst, &address)));
    fields.push(basic(Field::UdpDst, &port.to_be_bytes()));
    fields
}

/// A flow that applies these actions.
fn flow(epoch: u32, priority: u16, fields: Vec<Oxm>, actions: Vec<Action>) -> FlowMod {
    let instructions =
        if actions.is_empty() { Vec::new() } else { vec![Instruction::ApplyActions(actions)] };
    FlowMod {
        cookie: cookie(epoch),
        cookie_mask: 0,
        table: TABLE,
        command: Command::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority,
        buffer: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        flags: FlowFlags::empty(),
        matching: Match { fields },
        instructions,
    }
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0 }
}

fn to_controller() -> Action {
    Action::Output { port: PortNumber::CONTROLLER, max_len: u16::MAX }
}

/// The flows of a switch that do not depend on names. `asks` says whether Interests for unknown names come to the controller.
pub fn base(config: &Config, islands: &[&Island], epoch: u32, asks: bool) -> Vec<FlowMod> {
    let mut flows = Vec::new();
    for island in islands {
        let announced =
            udp(island.island_port, Some(ANNOUNCEMENT_GROUP.octets()), ANNOUNCEMENT_PORT);
        flows.push(flow(epoch, priority::ANNOUNCEMENT, announced, vec![to_controller()]));
        let unknown = udp(island.island_port, Some(config.gateway.octets()), island.port);
        let actions = if asks { vec![to_controller()] } else { Vec::new() };
        flows.push(flow(epoch, priority::UNKNOWN_NAME, unknown, actions));
        let from_island = vec![basic(Field::InPort, &island.island_port.to_be_bytes())];
        flows.push(flow(epoch, priority::PATCH, from_island, vec![output(island.network_port)]));
    }
    // What comes from the network goes to the one island there is, or to the host's, or to all.
    let mut networks: Vec<u32> = islands.iter().map(|island| island.network_port).collect();
    networks.sort_unstable();
    networks.dedup();
    for network in networks {
        let here: Vec<&&Island> =
            islands.iter().filter(|island| island.network_port == network).collect();
        let in_port = basic(Field::InPort, &network.to_be_bytes());
        if here.len() > 1 {
            for island in &here {
                let fields = vec![
                    in_port.clone(),
                    basic(Field::EthType, &0x0800u16.to_be_bytes()),
                    basic(Field::Ipv4Dst, &island.forwarder.octets()),
                ];
                let actions = vec![output(island.island_port)];
                flows.push(flow(epoch, priority::HOST, fields, actions));
            }
        }
        let all = here.iter().map(|island| output(island.island_port)).collect();
        flows.push(flow(epoch, priority::PATCH, vec![in_port], all));
    }
    flows
}

/// What finds a name in a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Finder {
    /// The switch's own look-up.
    Name,
    /// A program, with the name as its parameter.
    Program(u32),
}

/// The match and the priority of the flow for a prefix, from an island's port.
fn name_match(config: &Config, local: &Island, prefix: &Prefix, finder: Finder) -> (u16, Vec<Oxm>) {
    let mut fields = udp(local.island_port, Some(config.gateway.octets()), local.port);
    match finder {
        Finder::Name => {
            fields.push(Oxm::NdnKind(NdnKind::Interest as u8));
            fields.push(Oxm::Name(prefix.value().to_vec()));
        }
        // The program sees to it that it is an Interest.
        Finder::Program(program) => fields.push(Oxm::Program {
            program,
            result: u64::MAX,
            masks: None,
            parameter: Parameter::Octets(prefix.value().to_vec()),
        }),
    }
    (name_priority(prefix), fields)
}

/// The priority of the flow for a prefix: of the prefixes of a name, the longest wins.
pub fn name_priority(prefix: &Prefix) -> u16 {
    priority::NAME + prefix.components() as u16
}

/// What carries an Interest from an island to another: the seed's actions, over whatever is between.
pub fn way(local: &Island, remote: &Island) -> Vec<Action> {
    let is_same_switch = local.datapath_id == remote.datapath_id;
    let mac = if is_same_switch { remote.mac } else { local.next_hop };
    let set = |field, value: &[u8]| Action::SetField(basic(field, value));
    let mut actions = vec![
        set(Field::Ipv4Dst, &remote.forwarder.octets()),
        set(Field::UdpSrc, &local.port.to_be_bytes()),
        set(Field::UdpDst, &remote.port.to_be_bytes()),
        Action::SetNwTtl(local.ttl),
    ];
    actions.extend(mac.map(|Mac(octets)| set(Field::EthDst, &octets)));
    actions.push(output(if is_same_switch { remote.island_port } else { local.network_port }));
    actions
}

/// The flow that carries Interests for `prefix` from `local` to `remote`.
pub fn add(
    config: &Config,
    (local, remote): (&Island, &Island),
    prefix: &Prefix,
    finder: Finder,
    epoch: u32,
) -> FlowMod {
    let (priority, fields) = name_match(config, local, prefix, finder);
    flow(epoch, priority, fields, way(local, remote))
}

/// Takes the flow for `prefix` at `local` away.
pub fn delete(config: &Config, local: &Island, prefix: &Prefix, finder: Finder) -> FlowMod {
    let (priority, fields) = name_match(config, local, prefix, finder);
    FlowMod { command: Command::DeleteStrict, ..flow(0, priority, fields, Vec::new()) }
}

/// Takes all flows away that this controller, or one before it, has installed in another epoch: for each bit of the epoch
/// those that differ in it.
pub fn delete_other_epochs(epoch: u32) -> impl Iterator<Item = FlowMod> {
    (0..EPOCH_BITS).map(move |bit| {
        let mask = 1u64 << (bit + EPOCH_SHIFT);
        FlowMod {
            command: Command::Delete,
            cookie: cookie(epoch ^ 1 << bit) & (mask | COOKIE_TAG_MASK),
            cookie_mask: mask | COOKIE_TAG_MASK,
            ..flow(0, 0, Vec::new(), Vec::new())
        }
    })
}
