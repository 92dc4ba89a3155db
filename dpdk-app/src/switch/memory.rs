//! The memory of a switch's tables, of which each worker has one copy, and the control thread one to compare with.

use heddle_core::flow::{
    FragmentPath, Group, NameChunk, PacketIn, Rule, RuleBucket, SharedInstructions, SwitchMemory,
    TableMemory,
};
use heddle_core::ndn::FragmentFlow;
use heddle_host::config::Switch;
use rustix::mm::{Advice, madvise};

/// Octets of a large page.
const PAGE_OCTETS: usize = 2 << 20;

/// So many of what `make` makes, for as long as the process lives. Where that is much it lies in large pages, if the kernel has
/// them: looking a name up in a million touches other pages each time.
fn places<T>(count: u32, make: impl Fn() -> T) -> &'static mut [T] {
    let mut places = Vec::<T>::with_capacity(count as usize);
    let begin = places.as_ptr().addr();
    let from = begin.next_multiple_of(PAGE_OCTETS);
    let end = begin + places.capacity() * size_of::<T>();
    if end > from + PAGE_OCTETS {
        let pointer = places.as_mut_ptr().with_addr(from).cast();
        // SAFETY: the range lies within memory that the vector owns, and the advice changes how it is mapped, not what is in it.
        // A kernel without large pages refuses, which does no harm.
        let _ = unsafe { madvise(pointer, end - from, Advice::LinuxHugepage) };
    }
    places.extend((0..count).map(|_| make()));
    places.leak()
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
