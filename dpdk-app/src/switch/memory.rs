//! The memory of a switch's tables, of which each worker has one copy, and the control thread one to compare with.

use heddle_core::flow::{
    FragmentPath, Group, NameChunk, PacketIn, Rule, RuleBucket, SharedInstructions, SwitchMemory,
    TableMemory,
};
use heddle_core::ndn::FragmentFlow;
use heddle_host::config::Switch;

/// So many of what `make` makes, for as long as the process lives.
fn places<T>(count: u32, make: impl Fn() -> T) -> &'static mut [T] {
    Vec::leak((0..count).map(|_| make()).collect())
}

/// Memory for rules, as much as `switch` says.
pub fn tables(switch: &Switch) -> TableMemory<'static> {
    TableMemory {
        rules: places(switch.max_flows, Rule::vacant),
        buckets: places(switch.buckets(), RuleBucket::vacant),
        names: places(switch.name_pieces(), NameChunk::vacant),
        instructions: places(switch.max_instructions, SharedInstructions::vacant),
    }
}

/// Memory for groups.
pub fn groups(switch: &Switch) -> &'static mut [Group] {
    places(switch.max_groups, Group::vacant)
}

/// Memory for all that a worker's switch holds.
pub fn all(switch: &Switch) -> SwitchMemory<'static> {
    let octets = switch.packet_in_queue as usize * usize::from(switch.packet_in_octets);
    SwitchMemory {
        tables: tables(switch),
        groups: groups(switch),
        fragments: places(switch.max_fragmented, || FragmentFlow::vacant(FragmentPath::default())),
        packet_ins: places(switch.packet_in_queue, PacketIn::vacant),
        packet_in_octets: Vec::leak(vec![0; octets]),
    }
}
