//! Named-data packets and the switch that matches them.

use super::{Discard, FixedFrame};
use core::hint::black_box;
use core::time::Duration;
use heddle_core::flow::{
    Action, ActionSet, Bucket, Fields, Flow, Group, GroupKind, Instructions, Match, NameChunk,
    PacketIn, ProgramMatch, ProgramPlace, Programs, Rule, RuleBucket, SharedInstructions, Switch,
    SwitchMemory, TableMemory, Timeouts,
};
use heddle_core::ndn::{
    FragmentFlow, Fragmenter, Link, Name, Packet, Partial, Payload, Reassembler, pass_hop,
    write_with_nonce,
};
use heddle_core::node::{Instant, Node, PortId, PortSet, Verdict};

/// Programs of which the compiler knows nothing.
struct Verdicts;

impl Programs for Verdicts {
    fn run(
        &mut self,
        program: u32,
        parameter: u32,
        place: ProgramPlace,
        packet: &[u8],
    ) -> Option<u64> {
        black_box((program, parameter, place, packet));
        black_box(None)
    }
}

static mut OCTETS: [u8; 1 << 16] = [0; 1 << 16];

/// Calls the decoders and a switch with octets and rules that the compiler knows nothing of.
pub fn names() {
    // SAFETY: this function runs once, on the only thread there is, and nothing else names this static.
    let octets = unsafe { &mut *(&raw mut OCTETS) };
    let (input, octets) =
        black_box(octets).split_at_mut_checked(black_box(9000)).unwrap_or_default();
    packets(input, octets);
    switch(input, octets);
}

fn packets(input: &[u8], octets: &mut [u8]) {
    let (out, octets) = octets.split_at_mut_checked(black_box(2000)).unwrap_or_default();
    let mut partials = [const { Partial::vacant() }; 2];
    let lifetime = Duration::from_nanos(black_box(7));
    let Ok(packet) = Packet::parse(input, black_box(Link::Ethernet)) else { return };
    black_box((packet.name(), packet.link.acks().count()));
    if let Payload::Interest(interest) = packet.payload {
        black_box(pass_hop(&interest)).ok();
        black_box(write_with_nonce(&interest, black_box([0; 4]), out)).ok();
        black_box(interest.forwarding_hint.map(Iterator::count));
    }
    if let Ok(fragmenter) = Fragmenter::new(input, black_box(500)) {
        black_box(fragmenter.write(black_box(1), black_box(2), out)).ok();
    }
    let Ok(mut reassembler) = Reassembler::new(&mut partials, octets, lifetime) else { return };
    let now = Instant::from_nanos(black_box(1));
    black_box(reassembler.take(now, black_box(1), &packet.link, input)).ok();
}

fn switch(input: &[u8], octets: &mut [u8]) {
    let (octets, out) = octets.split_at_mut_checked(black_box(2000)).unwrap_or_default();
    let mut rules = black_box([const { Rule::vacant() }; 4]);
    let mut rule_buckets = black_box([const { RuleBucket::vacant() }; 2]);
    let mut chunks = black_box([const { NameChunk::vacant() }; 2]);
    let mut shared = black_box([const { SharedInstructions::vacant() }; 2]);
    let mut groups = black_box([const { Group::vacant() }; 2]);
    let mut fragments = black_box([FragmentFlow::vacant(Default::default()); 2]);
    let mut packet_ins = black_box([PacketIn::vacant(); 2]);
    let memory = SwitchMemory {
        tables: TableMemory {
            rules: black_box(&mut rules),
            buckets: black_box(&mut rule_buckets),
            names: black_box(&mut chunks),
            instructions: black_box(&mut shared),
        },
        groups: black_box(&mut groups),
        fragments: black_box(&mut fragments),
        packet_ins: black_box(&mut packet_ins),
        packet_in_octets: octets,
    };
    let mut switch =
        Switch::with_programs(memory, black_box(PortSet::EMPTY), black_box(1), Verdicts);
    let actions: &[Action] = black_box(&[Action::DecrementTtl; 3]);
    let mut set = ActionSet::default();
    black_box(set.write(actions));
    let Some(instructions) = Instructions::applying(actions) else { return };
    let bucket = Bucket { actions: instructions.apply.clone(), ..Bucket::default() };
    let buckets = [bucket];
    let buckets: &[Bucket] = black_box(&buckets);
    let kind = black_box(GroupKind::All);
    black_box(switch.groups.add(black_box(1), kind, buckets)).ok();
    black_box(switch.groups.modify(black_box(1), kind, buckets)).ok();
    let wanted = ProgramMatch { program: 1, parameter: 2, result: 3, mask: 4 };
    let mut frame = FixedFrame { octets: [0; 2048], len: 0 };
    loop {
        let now = Instant::from_nanos(black_box(0));
        let flow = Flow {
            table: black_box(0),
            priority: black_box(0),
            matching: Match {
                fields: black_box(Fields::default()),
                mask: black_box(Fields::default()),
                name: Name::new(input).ok(),
                program: black_box(Some(wanted)),
            },
            instructions: black_box(&instructions),
            cookie: 0,
            timeouts: black_box(Timeouts::default()),
            flags: 0,
        };
        if let Ok(id) = switch.tables.add(now, &flow) {
            black_box(switch.tables.modify(id, flow.instructions)).ok();
            black_box(switch.tables.name(id, out));
            black_box(switch.tables.rule(id).map(|rule| rule.has_ended(now)));
            if black_box(true) {
                switch.tables.remove(id);
            }
        }
        black_box(switch.tables.find(flow.table, flow.priority, &flow.matching));
        black_box(switch.tables.scan(black_box(0), black_box(1), |id, _| {
            black_box(id);
        }));
        frame.len = black_box(0);
        black_box(&mut frame.octets);
        let port = PortId(black_box(0));
        black_box(switch.receive(now, port, &mut frame, &mut Discard));
        let mut verdicts = black_box([Verdict::Consumed; 3]);
        let mut frames = [const { FixedFrame { octets: [0; 2048], len: 0 } }; 2];
        black_box(&mut frames);
        switch.receive_burst(now, port, &mut frames, &mut verdicts, &mut Discard);
        black_box(verdicts);
        black_box(switch.packet_out(port, actions, &mut frame, &mut Discard));
        black_box(switch.packet_ins.pop(|entry, octets| (*entry, octets.len())));
        switch.set_port(port, black_box(true), black_box(1));
        switch.groups.remove(black_box(1));
        black_box(switch.counters());
        if black_box(true) {
            break;
        }
    }
}
