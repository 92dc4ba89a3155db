//! The tables of the switch that is measured.

use heddle_core::flow::{
    Action, Fields, Flow, Group, Instructions, Match, NameChunk, NdnKind, Output, PacketIn,
    ProgramMatch, Programs, Rule, RuleBucket, SetField, SharedInstructions, Switch, SwitchMemory,
    TableMemory, Timeouts,
};
use heddle_core::ndn::{FragmentFlow, NDN_PORT, Name};
use heddle_core::node::{Instant, PortId};
use miette::miette;

use super::interests::name;
use super::pages::huge;
use super::programs::PROGRAM;

/// Gateways that prefixes lie behind: so many different rewrites.
const GATEWAYS: u32 = 64;

/// The ports that the switch has.
pub const WEST: PortId = PortId(0);
pub const EAST: PortId = PortId(1);

/// What the rules do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Matching {
    /// One rule matches every frame.
    All,
    /// So many rules, each with the fields of named data over UDP and a prefix of three components.
    Prefixes(u32),
    /// One rule with the same fields that asks a program.
    Program,
}

/// The memory of a switch.
pub struct Tables {
    rules: Vec<Rule>,
    buckets: Vec<RuleBucket>,
    names: Vec<NameChunk>,
    instructions: Vec<SharedInstructions>,
    groups: Vec<Group>,
    fragments: Vec<FragmentFlow<heddle_core::flow::FragmentPath>>,
    packet_ins: Vec<PacketIn>,
    packet_in_octets: Vec<u8>,
}

impl Tables {
    /// Memory for so many rules.
    pub fn new(rules: usize) -> Self {
        Self {
            rules: huge(rules, &Rule::vacant()),
            buckets: huge((rules / 4).next_power_of_two(), &RuleBucket::vacant()),
            names: vec![NameChunk::vacant(); 64],
            instructions: vec![SharedInstructions::vacant(); GATEWAYS as usize + 1],
            groups: vec![Group::vacant(); 16],
            fragments: vec![FragmentFlow::vacant(Default::default()); 64],
            packet_ins: vec![PacketIn::vacant(); 16],
            packet_in_octets: vec![0; 16 * 256],
        }
    }

    /// A switch of two ports with these rules, which send everything east, with the addresses of a gateway or as it is.
    pub fn switch<P: Programs>(
        &mut self,
        matching: Matching,
        is_rewriting: bool,
        programs: P,
    ) -> miette::Result<Switch<'_, P>> {
        let memory = SwitchMemory {
            tables: TableMemory {
                rules: &mut self.rules,
                buckets: &mut self.buckets,
                names: &mut self.names,
                instructions: &mut self.instructions,
            },
            groups: &mut self.groups,
            fragments: &mut self.fragments,
            packet_ins: &mut self.packet_ins,
            packet_in_octets: &mut self.packet_in_octets,
        };
        let ports = [WEST, EAST].into_iter().collect();
        let mut switch = Switch::with_programs(memory, ports, rand::random(), programs);
        let count = if let Matching::Prefixes(count) = matching { count } else { 1 };
        for number in 0..count {
            let instructions = instructions(is_rewriting.then_some(number % GATEWAYS))?;
            let name = name(number);
            let prefix = Name::new(&name).map_err(|error| miette!("{}", error.name()))?;
            let is_name = matches!(matching, Matching::Prefixes(_));
            let program = ProgramMatch { program: PROGRAM, parameter: PROGRAM, result: 1, mask: 1 };
            let named = named_over_udp();
            let matching = Match {
                fields: if matching == Matching::All { Fields::NONE } else { named.0 },
                mask: if matching == Matching::All { Fields::NONE } else { named.1 },
                name: is_name.then_some(prefix),
                program: (matching == Matching::Program).then_some(program),
            };
            let flow = Flow {
                table: 0,
                priority: 100,
                matching,
                instructions: &instructions,
                cookie: number.into(),
                timeouts: Timeouts::default(),
                flags: 0,
            };
            let added = switch.tables.add(Instant::ZERO, &flow);
            added.map_err(|error| miette!("rule {number} is not taken: {error:?}"))?;
        }
        Ok(switch)
    }
}

/// The fields of Interests over UDP and IPv4, and their mask.
fn named_over_udp() -> (Fields, Fields) {
    let fields = Fields {
        ether_type: 0x0800,
        ip_protocol: 17,
        destination_port: NDN_PORT,
        ndn_kind: NdnKind::Interest as u8,
        ..Fields::NONE
    };
    let mask = Fields {
        ether_type: u16::MAX,
        ip_protocol: u8::MAX,
        destination_port: u16::MAX,
        ndn_kind: u8::MAX,
        ..Fields::NONE
    };
    (fields, mask)
}

fn instructions(gateway: Option<u32>) -> miette::Result<Instructions> {
    let out = Action::Output(Output::Port(EAST));
    let made = match gateway {
        None => Instructions::applying(&[out]),
        Some(gateway) => {
            let [.., low] = gateway.to_be_bytes();
            Instructions::applying(&[
                Action::SetField(SetField::Ipv4Destination([192, 0, 2, low])),
                Action::SetField(SetField::EthernetDestination([2, 0, 0, 0, 1, low])),
                out,
            ])
        }
    };
    made.ok_or_else(|| miette!("too many actions"))
}
