//! From a message to a verdict: programs that come over OpenFlow run on packets, with the parameters of their flows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_core::flow::{ProgramPlace, Programs};
use heddle_core::node::{PortId, Verdict};
use heddle_host::program::{Change, Interpreter, ProgramSet, Registry, RegistryError};
use heddle_openflow::agent::{Agent, ConnectionId};
use heddle_openflow::datapath::{InProcess, ProgramHost};
use heddle_openflow::{
    Body, Experiment, FlowMod, Match, Oxm, Parameter, ProgramStats, Refusal, Reply, ReplyBody,
    Request,
};
use switch::{at, message, to, with_programs};

/// The interpreter's programs, for one worker.
struct Interpreted {
    registry: Registry,
    set: ProgramSet,
}

impl Interpreted {
    fn new() -> Self {
        let registry = Registry::new(1, vec![Box::new(Interpreter)]);
        Self { registry, set: ProgramSet::new() }
    }

    fn apply(&mut self, changes: Result<Vec<Change>, RegistryError>) -> Result<(), String> {
        for change in changes.map_err(|error| error.to_string())? {
            drop(self.set.apply(change));
        }
        Ok(())
    }
}

impl Programs for Interpreted {
    fn run(
        &mut self,
        program: u32,
        parameter: u32,
        place: ProgramPlace,
        packet: &[u8],
    ) -> Option<u64> {
        self.set.run(program, parameter, place, packet)
    }

    fn hit(&mut self, program: u32) {
        self.set.hit(program);
    }
}

impl ProgramHost for Interpreted {
    fn put(&mut self, program: u32, elf: &[u8]) -> Result<(), String> {
        let changes = self.registry.put(program, elf);
        self.apply(changes)
    }

    fn delete(&mut self, program: u32) {
        let changes = self.registry.delete(program);
        self.apply(changes).unwrap();
    }

    fn stats(&self) -> Vec<ProgramStats> {
        let one = |stats: heddle_host::program::ProgramStats| ProgramStats {
            program: stats.program,
            octets: stats.octets as u32,
            runs: stats.runs,
            hits: stats.hits,
            faults: stats.faults,
        };
        self.registry.stats().into_iter().map(one).collect()
    }

    fn set_parameter(&mut self, program: u32, parameter: u32, octets: &[u8]) -> Result<(), String> {
        let changes = if octets.is_empty() {
            Ok(self.registry.delete_parameter(program, parameter))
        } else {
            self.registry.set_parameter(program, parameter, octets)
        };
        self.apply(changes)
    }
}

type Switch<'m> = InProcess<'m, Interpreted>;

fn ask(agent: &mut Agent, switch: &mut Switch<'_>, id: ConnectionId, body: Body) -> Vec<Body> {
    switch::said(&agent.receive(at(1), id, &message(body), switch))
        .into_iter()
        .map(|(_, body)| body)
        .collect()
}

/// An Interest for a name in an Ethernet frame.
fn interest(name: &[u8]) -> Vec<u8> {
    let mut frame = hex::decode("01005e0017aa0202020202028624").unwrap();
    frame.extend([5, name.len() as u8 + 8, 7, name.len() as u8]);
    frame.extend(name);
    frame.extend([10, 4, 1, 2, 3, 4]);
    frame
}

fn go(switch: &mut Switch<'_>, name: &[u8]) -> Option<u8> {
    match switch.receive(at(2), PortId(0), &interest(name)).unwrap() {
        Verdict::Forward(port) => Some(port.0 + 1),
        _ => None,
    }
}

#[test]
fn a_program_decides_by_the_parameter_of_the_flow() {
    let elf = include_bytes!("../programs/ndn-prefix.o").to_vec();
    with_programs(8, Interpreted::new(), |agent, switch| {
        let (id, _) = agent.connect();
        ask(agent, switch, id, Body::Hello(heddle_openflow::Hello::ours()));
        let put = Experiment::Put { program: 3, octets: elf.clone() };
        let done = |request| [Body::Experimenter(Experiment::Acknowledge { request, program: 3 })];
        assert_eq!(ask(agent, switch, id, Body::Experimenter(put.clone())), done(0));
        let (tno, ucla) = (b"\x08\x03tno", b"\x08\x04ucla");
        let set = Experiment::SetParameter { program: 3, parameter: 5, octets: ucla.to_vec() };
        assert_eq!(ask(agent, switch, id, Body::Experimenter(set)), done(4));
        let flow = |parameter, port| {
            let oxm = Oxm::Program { program: 3, result: u64::MAX, masks: None, parameter };
            Body::FlowMod(FlowMod::add(0, 9, Match::default().and(oxm), to(port)))
        };
        assert_eq!(ask(agent, switch, id, flow(Parameter::Octets(tno.to_vec()), 2)), []);
        assert_eq!(ask(agent, switch, id, flow(Parameter::Number(5), 3)), []);
        assert_eq!(go(switch, b"\x08\x03tno\x08\x01a"), Some(2));
        assert_eq!(go(switch, b"\x08\x04ucla\x08\x01a"), Some(3));
        assert_eq!(go(switch, b"\x08\x01x\x08\x03tno"), None);
        // Another value of the parameter, and another program in the place of this one, are in force at once.
        let set =
            Experiment::SetParameter { program: 3, parameter: 5, octets: b"\x08\x01x".to_vec() };
        assert_eq!(ask(agent, switch, id, Body::Experimenter(set)), done(4));
        assert_eq!(ask(agent, switch, id, Body::Experimenter(put)), done(0));
        assert_eq!(go(switch, b"\x08\x01x\x08\x03tno"), Some(3));
        assert_eq!(go(switch, tno), Some(2));
        let list = Body::MultipartRequest(Request::Programs, false);
        match &ask(agent, switch, id, list)[..] {
            [Body::MultipartReply(Reply { body: ReplyBody::Programs(programs), .. })] => {
                let [stats] = programs[..] else { panic!("{programs:?}") };
                assert_eq!((stats.octets as usize, stats.hits, stats.faults), (elf.len(), 4, 0));
                assert!(stats.runs >= 5);
            }
            other => panic!("{other:?}"),
        }
        // Without the program the flows match nothing.
        let delete = Body::Experimenter(Experiment::Delete { program: 3 });
        assert_eq!(ask(agent, switch, id, delete), done(1));
        assert_eq!(go(switch, tno), None);
        let refused = ask(agent, switch, id, flow(Parameter::NONE, 2));
        assert!(
            matches!(refused[..], [Body::Error { refusal, .. }] if refusal == Refusal::MATCH_VALUE)
        );
    });
}

#[test]
fn what_is_no_program_is_refused_with_a_sentence() {
    with_programs(8, Interpreted::new(), |agent, switch| {
        let (id, _) = agent.connect();
        ask(agent, switch, id, Body::Hello(heddle_openflow::Hello::ours()));
        let put = Experiment::Put { program: 3, octets: b"\x7fELF and no more".to_vec() };
        match &ask(agent, switch, id, Body::Experimenter(put))[..] {
            [Body::Error { refusal: Experiment::BAD_PROGRAM, data }] => {
                let text = Experiment::error_text(Experiment::BAD_PROGRAM, data).unwrap();
                assert!(text.starts_with("program 3 is not taken: "), "{text}");
            }
            other => panic!("{other:?}"),
        }
    });
}
