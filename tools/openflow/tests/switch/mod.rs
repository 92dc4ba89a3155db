//! A switch in this process with its agent, for tests.
#![allow(dead_code)]

use heddle_core::flow::{
    Group, NameChunk, PacketIn, ProgramPlace, Programs, Rule, RuleBucket, SharedInstructions,
    Switch, SwitchMemory, TableMemory,
};
use heddle_core::ndn::FragmentFlow;
use heddle_core::node::{Instant, PortId, Verdict};
use heddle_openflow::ProgramStats;
use heddle_openflow::agent::{Agent, ConnectionId, Outcome};
use heddle_openflow::datapath::{InProcess, ProgramHost};
use heddle_openflow::{
    Action, Body, Command, Field, FlowFilter, FlowFlags, FlowMod, GroupId, Hello, Instruction,
    Match, Message, NO_BUFFER, Oxm, Port, PortNumber, Refusal,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A switch that keeps programs and parameters, for tests to look at, and runs none of them.
pub type TestSwitch<'m> = InProcess<'m, Kept>;

/// Programs and parameters, as they were put.
#[derive(Debug, Default)]
pub struct Kept {
    pub programs: BTreeMap<u32, Vec<u8>>,
    pub parameters: BTreeMap<(u32, u32), Vec<u8>>,
}

impl Kept {
    pub fn lengths(&self) -> Vec<(u32, usize)> {
        self.programs.iter().map(|(program, elf)| (*program, elf.len())).collect()
    }

    pub fn parameter(&self, program: u32, parameter: u32) -> Option<&[u8]> {
        self.parameters.get(&(program, parameter)).map(Vec::as_slice)
    }
}

impl Programs for Kept {
    fn run(&mut self, _: u32, _: u32, _: ProgramPlace, _: &[u8]) -> Option<u64> {
        None
    }
}

impl ProgramHost for Kept {
    fn put(&mut self, program: u32, elf: &[u8]) -> Result<(), String> {
        if !elf.starts_with(b"\x7fELF") {
            return Err("it is no ELF file".to_owned());
        }
        self.programs.insert(program, elf.to_vec());
        Ok(())
    }

    fn delete(&mut self, program: u32) {
        self.programs.remove(&program);
    }

    fn stats(&self) -> Vec<ProgramStats> {
        let one = |(program, elf): (&u32, &Vec<u8>)| ProgramStats {
            program: *program,
            octets: elf.len() as u32,
            ..ProgramStats::default()
        };
        self.programs.iter().map(one).collect()
    }

    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String> {
        if octets.is_empty() {
            self.parameters.remove(&(program, parameter));
        } else {
            self.parameters.insert((program, parameter), octets.to_vec());
        }
        Ok(())
    }
}

pub fn at(seconds: u64) -> Instant {
    Instant::ZERO.after(Duration::from_secs(seconds))
}

pub fn with_agent<R>(test: impl FnOnce(&mut Agent, &mut TestSwitch<'_>) -> R) -> R {
    with_room_for(8, test)
}

/// An agent and a switch of three ports with room for so many flows.
pub fn with_room_for<R>(
    flows: usize,
    test: impl FnOnce(&mut Agent, &mut TestSwitch<'_>) -> R,
) -> R {
    with_programs(flows, Kept::default(), test)
}

/// The same with what loads and runs its programs.
pub fn with_programs<P: ProgramHost, R>(
    flows: usize,
    programs: P,
    test: impl FnOnce(&mut Agent, &mut InProcess<'_, P>) -> R,
) -> R {
    let memory = SwitchMemory {
        tables: TableMemory {
            rules: &mut vec![Rule::vacant(); flows],
            buckets: &mut vec![RuleBucket::vacant(); flows.div_ceil(4)],
            names: &mut vec![NameChunk::vacant(); 200 + 4 * flows],
            instructions: &mut vec![SharedInstructions::vacant(); 8],
        },
        groups: &mut vec![Group::vacant(); 2],
        fragments: &mut vec![FragmentFlow::vacant(Default::default()); 8],
        packet_ins: &mut [PacketIn::vacant(); 4],
        packet_in_octets: &mut [0; 400],
    };
    let ports = (0..3).map(PortId).collect();
    let mut switch = InProcess::new(Switch::with_programs(memory, ports, 7, programs), ports);
    let port = |number| Port { number, name: format!("p{number}"), ..Port::default() };
    test(&mut Agent::new(0x99, (1..4).map(port).collect(), flows as u32), &mut switch)
}

pub fn message(body: Body) -> Vec<u8> {
    Message::new(42, body).encode().unwrap()
}

/// A connection on which both have said hello.
pub fn open(agent: &mut Agent, switch: &mut TestSwitch<'_>) -> ConnectionId {
    let (id, hello) = agent.connect();
    let Body::Hello(hello) = Message::decode(&hello).unwrap().body else { panic!("a hello") };
    assert_eq!(hello, Hello::ours());
    let outcome = agent.receive(at(0), id, &message(Body::Hello(Hello::ours())), switch);
    assert_eq!(outcome, Outcome::default());
    id
}

pub fn said(outcome: &Outcome) -> Vec<(ConnectionId, Body)> {
    outcome.send.iter().map(|(id, octets)| (*id, Message::decode(octets).unwrap().body)).collect()
}

/// What the agent answers to one message on the connection.
pub fn ask(
    agent: &mut Agent,
    switch: &mut TestSwitch<'_>,
    id: ConnectionId,
    body: Body,
) -> Vec<Body> {
    let outcome = agent.receive(at(1), id, &message(body), switch);
    for (_, octets) in &outcome.send {
        assert_eq!(Message::decode(octets).unwrap().xid, 42);
    }
    said(&outcome).into_iter().map(|(_, body)| body).collect()
}

pub fn refused(answer: &[Body]) -> Option<Refusal> {
    match answer {
        [Body::Error { refusal, .. }] => Some(*refusal),
        [] => None,
        other => panic!("{other:?}"),
    }
}

pub fn exact(field: Field, value: &[u8]) -> Oxm {
    Oxm::Basic { field, value: value.to_vec(), mask: None }
}

pub fn from_port(port: u8) -> Match {
    Match { fields: vec![exact(Field::InPort, &[0, 0, 0, port])] }
}

pub fn to(port: u32) -> Vec<Instruction> {
    let port = PortNumber(port);
    vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 64 }])]
}

pub fn flow_mod(command: Command, matching: Match, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: 5,
        cookie_mask: 0,
        table: 0,
        command,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 10,
        buffer: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        flags: FlowFlags::SEND_FLOW_REM,
        matching,
        instructions,
    }
}

pub fn all_flows() -> FlowFilter {
    FlowFilter {
        table: 255,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        cookie: 0,
        cookie_mask: 0,
        matching: Match::default(),
    }
}

/// Where a frame from a port goes.
pub fn forward(switch: &mut TestSwitch<'_>, from: u8) -> Verdict<&'static str> {
    match switch.receive(at(2), PortId(from), &[0; 60]).unwrap() {
        Verdict::Forward(port) => Verdict::Forward(port),
        Verdict::Drop(reason) => Verdict::Drop(reason.name()),
        Verdict::Consumed => Verdict::Consumed,
    }
}

pub fn ask_unsolicited(
    agent: &mut Agent,
    switch: &mut TestSwitch<'_>,
    id: ConnectionId,
    body: Body,
) -> Vec<Body> {
    let outcome = agent.receive(at(1), id, &message(body), switch);
    said(&outcome).into_iter().map(|(_, body)| body).collect()
}
