//! Rules that ask a program: when it runs, how often, and what its verdict decides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;

use heddle_core::flow::{
    Action, Fields, Flow, FlowDrop, FlowError, FlowTable, Group, Instructions, MAX_ALIKE,
    MAX_PROGRAM_RUNS, Match, Output, PacketIn, ProgramMatch, ProgramPlace, Programs, Rule,
    RuleBucket, SharedInstructions, Switch, SwitchMemory, TableError, TableMemory, Timeouts,
};
use heddle_core::ndn::FragmentFlow;
use heddle_core::node::{Instant, Node, PortId, Verdict};
use simulator::{SimEngine, SimFrame};

const FRAME: [u8; 60] = [0x42; 60];

/// What each program was asked, and answers that depend on program and parameter only.
#[derive(Default)]
struct Recorder {
    runs: Vec<(u32, u32, u8, u8, usize)>,
    hits: Vec<u32>,
}

impl Programs for &mut Recorder {
    fn run(
        &mut self,
        program: u32,
        parameter: u32,
        place: ProgramPlace,
        packet: &[u8],
    ) -> Option<u64> {
        self.runs.push((program, parameter, place.table, place.in_port.0, packet.len()));
        (program != 99).then_some(u64::from(program) << 8 | u64::from(parameter))
    }

    fn hit(&mut self, program: u32) {
        self.hits.push(program);
    }
}

/// Runs `test` with a switch of eight ports that asks a recorder.
fn with_switch(test: impl FnOnce(&mut Switch<'_, &mut Recorder>)) {
    let memory = SwitchMemory {
        tables: TableMemory {
            rules: &mut vec![Rule::vacant(); 400],
            buckets: &mut vec![RuleBucket::vacant(); 16],
            names: &mut [],
            instructions: &mut vec![SharedInstructions::vacant(); 32],
        },
        groups: &mut [Group::vacant()],
        fragments: &mut vec![FragmentFlow::vacant(Default::default()); 8],
        packet_ins: &mut [PacketIn::vacant()],
        packet_in_octets: &mut [0; 64],
    };
    let ports = (0..8).map(PortId).collect();
    test(&mut Switch::with_programs(memory, ports, 0xabcd, &mut Recorder::default()));
}

const fn asks(program: u32, parameter: u32, result: u64) -> Option<ProgramMatch> {
    Some(ProgramMatch { program, parameter, result, mask: u64::MAX })
}

fn add(
    tables: &mut FlowTable<'_>,
    priority: u16,
    from: u8,
    program: Option<ProgramMatch>,
    to: u8,
) -> Result<(), TableError> {
    let fields = Fields { in_port: u32::from(from) + 1, ..Fields::default() };
    let mask = Fields { in_port: u32::MAX, ..Fields::default() };
    let instructions = Instructions::applying(&[Action::Output(Output::Port(PortId(to)))]).unwrap();
    let flow = Flow {
        table: 0,
        priority,
        matching: Match { fields, mask, name: None, program },
        instructions: &instructions,
        cookie: 0,
        timeouts: Timeouts::default(),
        flags: 0,
    };
    tables.add(Instant::ZERO, &flow).map(|_| ())
}

fn receive(switch: &mut Switch<'_, &mut Recorder>, from: u8) -> Verdict<FlowDrop> {
    let mut frame = SimFrame::from_bytes(&FRAME);
    switch.receive(Instant::ZERO, PortId(from), &mut frame, &mut SimEngine::default())
}

#[test]
fn a_verdict_decides_among_rules_that_are_alike() {
    with_switch(|switch| {
        add(&mut switch.tables, 5, 0, None, 1).unwrap();
        add(&mut switch.tables, 7, 0, asks(3, 1, 0x301), 2).unwrap();
        add(&mut switch.tables, 9, 0, asks(3, 1, 0x999), 3).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Forward(PortId(2)));
        // Twice asked for, once run; with the table, the port and the whole frame.
        assert_eq!(switch.programs.runs, [(3, 1, 0, 0, FRAME.len())]);
        assert_eq!(switch.programs.hits, [3]);
        // Bits outside the mask do not count.
        let loose = ProgramMatch { program: 3, parameter: 1, result: 0xff01, mask: 0xff };
        add(&mut switch.tables, 11, 0, Some(loose), 4).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Forward(PortId(4)));
    });
}

#[test]
fn no_program_runs_for_rules_that_do_not_match_otherwise_or_come_later() {
    with_switch(|switch| {
        add(&mut switch.tables, 5, 1, asks(3, 0, 0x300), 2).unwrap();
        add(&mut switch.tables, 4, 0, asks(3, 0, 0x300), 2).unwrap();
        add(&mut switch.tables, 5, 0, None, 1).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Forward(PortId(1)));
        assert!(switch.programs.runs.is_empty());
        assert!(switch.programs.hits.is_empty());
        assert_eq!(receive(switch, 1), Verdict::Forward(PortId(2)));
        assert_eq!(switch.programs.runs.len(), 1);
    });
}

#[test]
fn a_program_without_a_verdict_matches_nothing() {
    with_switch(|switch| {
        let anything = ProgramMatch { program: 99, parameter: 0, result: 0, mask: 0 };
        add(&mut switch.tables, 5, 0, Some(anything), 1).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Drop(FlowDrop::Flow(FlowError::NoMatch)));
        add(&mut switch.tables, 4, 0, None, 2).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Forward(PortId(2)));
    });
}

#[test]
fn the_runs_for_one_packet_are_bounded() {
    with_switch(|switch| {
        let too_many = MAX_PROGRAM_RUNS as u32 + 1;
        for parameter in 0..too_many {
            // The last is the only one that would match.
            let result = if parameter + 1 == too_many { 0x300 } else { 0 } | u64::from(parameter);
            add(&mut switch.tables, 500 - parameter as u16, 0, asks(3, parameter, result), 1)
                .unwrap();
        }
        add(&mut switch.tables, 1, 0, None, 2).unwrap();
        assert_eq!(receive(switch, 0), Verdict::Forward(PortId(2)));
        assert_eq!(switch.programs.runs.len(), MAX_PROGRAM_RUNS);
        let name = FlowError::ProgramRuns.name();
        let at = <Switch>::COUNTER_NAMES.iter().position(|counter| *counter == name).unwrap();
        assert_eq!(switch.counters()[at], 1);
    });
}

#[test]
fn rules_that_are_alike_are_found_replaced_and_removed_one_by_one() {
    with_switch(|switch| {
        let tables = &mut switch.tables;
        let many: Vec<_> = (0..MAX_ALIKE as u32).map(|at| (at * 7 % 256) as u16).collect();
        for priority in &many {
            let program = (priority % 3 > 0).then(|| asks(1, u32::from(*priority), 0).unwrap());
            add(tables, *priority, 0, program, 1).unwrap();
        }
        assert_eq!(add(tables, 300, 0, None, 1), Err(TableError::TooManyAlike));
        assert_eq!(tables.len(), MAX_ALIKE);
        // The same once more replaces.
        add(tables, 255, 0, None, 2).unwrap();
        assert_eq!(tables.len(), MAX_ALIKE);
        let fields = Fields { in_port: 1, ..Fields::default() };
        let mask = Fields { in_port: u32::MAX, ..Fields::default() };
        let mut left = MAX_ALIKE;
        for priority in many {
            let best = tables.lookup(0, &fields, None).and_then(|id| tables.rule(id));
            assert!(best.is_none_or(|rule| rule.program().is_none()));
            let program = (priority % 3 > 0).then(|| asks(1, u32::from(priority), 0).unwrap());
            let matching = Match { fields, mask, name: None, program };
            let other = Match { program: asks(2, 0, 0), ..matching };
            assert_eq!(tables.find(0, priority, &other), None);
            let id = tables.find(0, priority, &matching).unwrap();
            tables.remove(id);
            left -= 1;
            assert_eq!((tables.len(), tables.find(0, priority, &matching)), (left, None));
        }
        assert_eq!(tables.lookup(0, &fields, None), None);
    });
}
