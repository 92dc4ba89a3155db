//! Programs that a controller puts on a switch, and flows that ask for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_openflow::agent::{Agent, ConnectionId};
use heddle_openflow::{
    Body, Command, Experiment, MAX_PUT_OCTETS, Match, Oxm, Parameter, ProgramStats, Refusal, Reply,
    ReplyBody, Request, Role,
};
use switch::*;

fn elf(octets: usize) -> Vec<u8> {
    let mut elf = b"\x7fELF".to_vec();
    elf.extend((0..octets - 4).map(|at| at as u8));
    elf
}

struct Talk<'t, 'm> {
    agent: &'t mut Agent,
    switch: &'t mut TestSwitch<'m>,
    id: ConnectionId,
}

impl Talk<'_, '_> {
    fn say(&mut self, message: Experiment) -> Vec<Body> {
        ask(self.agent, self.switch, self.id, Body::Experimenter(message))
    }

    fn refusal(&mut self, message: Experiment) -> Option<(Refusal, String)> {
        match &self.say(message)[..] {
            [Body::Error { refusal, data }] => {
                Some((*refusal, Experiment::error_text(*refusal, data).unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn part(&mut self, program: u32, elf: &[u8], offset: usize, octets: usize) -> Vec<Body> {
        let total_len = elf.len() as u32;
        let octets = elf[offset..(offset + octets).min(elf.len())].to_vec();
        self.say(Experiment::PutPart { program, total_len, offset: offset as u32, octets })
    }

    fn add(&mut self, oxm: Oxm) -> Option<Refusal> {
        let flow = flow_mod(Command::Add, Match::default().and(oxm), to(2));
        refused(&ask(self.agent, self.switch, self.id, Body::FlowMod(flow)))
    }
}

fn talk(test: impl FnOnce(&mut Talk<'_, '_>)) {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        test(&mut Talk { agent, switch, id });
    });
}

fn acknowledged(request: u32, program: u32) -> Vec<Body> {
    vec![Body::Experimenter(Experiment::Acknowledge { request, program })]
}

fn by_program(program: u32, parameter: Parameter) -> Oxm {
    Oxm::Program { program, result: 1, masks: None, parameter }
}

#[test]
fn programs_are_put_sent_back_listed_and_deleted() {
    talk(|talk| {
        let (small, large) = (elf(100), elf(70_000));
        assert_eq!(
            talk.say(Experiment::Put { program: 7, octets: small.clone() }),
            acknowledged(0, 7)
        );
        for offset in (0..large.len()).step_by(60_000) {
            assert_eq!(talk.part(255, &large, offset, 60_000), acknowledged(3, 255));
        }
        assert_eq!(
            talk.say(Experiment::Get { program: 7 }),
            [Body::Experimenter(Experiment::Put { program: 7, octets: small })]
        );
        let mut back = Vec::new();
        for part in talk.say(Experiment::Get { program: 255 }) {
            let Body::Experimenter(Experiment::PutPart { total_len, offset, octets, .. }) = part
            else {
                panic!("{part:?}");
            };
            assert_eq!((total_len as usize, offset as usize), (large.len(), back.len()));
            back.extend(octets);
        }
        assert_eq!(back, large);
        let list =
            ask(talk.agent, talk.switch, talk.id, Body::MultipartRequest(Request::Programs, false));
        let entry = |program, octets| ProgramStats { program, octets, ..ProgramStats::default() };
        assert_eq!(
            list,
            [Body::MultipartReply(Reply {
                more: false,
                body: ReplyBody::Programs(vec![entry(7, 100), entry(255, 70_000)]),
            })]
        );
        assert_eq!(talk.say(Experiment::Delete { program: 7 }), acknowledged(1, 7));
        for gone in [Experiment::Delete { program: 7 }, Experiment::Get { program: 7 }] {
            assert_eq!(talk.refusal(gone).unwrap().0, Experiment::UNKNOWN_PROGRAM);
        }
    });
}

#[test]
fn programs_that_cannot_be_taken_have_their_error() {
    talk(|talk| {
        let put = |program, octets| Experiment::Put { program, octets };
        let (refusal, text) = talk.refusal(put(1, b"no program".to_vec())).unwrap();
        assert_eq!(refusal, Experiment::BAD_PROGRAM);
        assert_eq!(text, "program 1 is not taken: it is no ELF file");
        assert_eq!(talk.refusal(put(256, elf(100))).unwrap().0, Experiment::BAD_NUMBER);
        let whole = elf(2 << 20);
        assert!(
            matches!(talk.part(1, &whole, 0, 1000)[..], [Body::Error { refusal, .. }] if refusal == Experiment::TOO_LONG)
        );
        // The one that is there stays.
        assert_eq!(talk.say(put(1, elf(64))), acknowledged(0, 1));
        assert!(talk.refusal(put(1, b"no program".to_vec())).is_some());
        assert_eq!(talk.say(Experiment::Get { program: 1 }).len(), 1);
        // A slave may look but not change.
        ask(talk.agent, talk.switch, talk.id, Body::RoleRequest(Role::Slave, 1));
        assert_eq!(talk.refusal(put(1, elf(100))).unwrap().0, Refusal::IS_SLAVE);
        assert_eq!(talk.say(Experiment::Get { program: 1 }).len(), 1);
    });
}

#[test]
fn parts_come_in_order_or_not_at_all() {
    talk(|talk| {
        let whole = elf(100_000);
        let bad = |answer: &[Body]| matches!(answer, [Body::Error { refusal, .. }] if *refusal == Experiment::BAD_PART);
        assert!(bad(&talk.part(1, &whole, 500, 10)), "no beginning");
        assert_eq!(talk.part(1, &whole, 0, 40_000), acknowledged(3, 1));
        assert!(bad(&talk.part(1, &whole, 30_000, 40_000)), "overlap");
        assert!(bad(&talk.part(1, &whole, 40_000, 40_000)), "the collection has ended");
        assert_eq!(talk.part(1, &whole, 0, 40_000), acknowledged(3, 1));
        assert!(bad(&talk.part(2, &whole, 40_000, 40_000)), "another program");
        assert_eq!(talk.part(1, &whole, 0, 40_000), acknowledged(3, 1));
        assert!(bad(&talk.part(1, &whole[..50_000], 40_000, 10_000)), "another length");
        assert_eq!(talk.part(1, &whole, 0, 40_000), acknowledged(3, 1));
        assert!(bad(&talk.part(1, &whole, 40_000, 0)), "nothing");
        // Beginning again is always possible, and connections do not mix.
        assert_eq!(talk.part(1, &whole, 0, 40_000), acknowledged(3, 1));
        let other = open(talk.agent, talk.switch);
        let first = std::mem::replace(&mut talk.id, other);
        assert!(bad(&talk.part(1, &whole, 40_000, 60_000)));
        talk.id = first;
        assert_eq!(talk.part(1, &whole, 40_000, 60_000), acknowledged(3, 1));
        assert_eq!(talk.switch.switch.programs.lengths(), [(1, 100_000)]);
    });
}

#[test]
fn flows_ask_for_programs_that_are_there() {
    talk(|talk| {
        let inline = || Parameter::Octets(b"\x08\x03tno".to_vec());
        assert_eq!(talk.add(by_program(7, Parameter::NONE)), Some(Refusal::MATCH_VALUE));
        talk.say(Experiment::Put { program: 7, octets: elf(100) });
        assert_eq!(talk.add(by_program(7, Parameter::NONE)), None);
        assert_eq!(talk.add(by_program(7, inline())), None);
        // Equal parameters are one, for as long as a flow uses it.
        let strict = |oxm| flow_mod(Command::DeleteStrict, Match::default().and(oxm), vec![]);
        let add = flow_mod(Command::Add, from_port(1).and(by_program(7, inline())), to(2));
        assert_eq!(ask(talk.agent, talk.switch, talk.id, Body::FlowMod(add)), []);
        assert_eq!(talk.switch.switch.programs.parameters.len(), 1);
        let delete = Body::FlowMod(strict(by_program(7, inline())));
        assert_eq!(ask_unsolicited(talk.agent, talk.switch, talk.id, delete).len(), 1);
        assert_eq!(
            (talk.switch.switch.programs.parameters.len(), talk.switch.switch.tables.len()),
            (1, 2)
        );
        // All flows of the program with this parameter, whatever else they ask for.
        let all = flow_mod(Command::Delete, Match::default().and(by_program(7, inline())), vec![]);
        assert_eq!(ask_unsolicited(talk.agent, talk.switch, talk.id, Body::FlowMod(all)).len(), 1);
        assert_eq!(
            (talk.switch.switch.programs.parameters.len(), talk.switch.switch.tables.len()),
            (0, 1)
        );
        // A mask of the program's number would ask for several programs.
        let several =
            Oxm::Program { program: 7, result: 1, masks: Some((1, 1)), parameter: Parameter::NONE };
        assert_eq!(talk.add(several), Some(Refusal::MATCH_MASK));
    });
}

#[test]
fn parameters_are_set_by_number() {
    talk(|talk| {
        let set = |parameter, octets: &[u8]| Experiment::SetParameter {
            program: 7,
            parameter,
            octets: octets.to_vec(),
        };
        assert_eq!(talk.refusal(set(1, b"x")).unwrap().0, Experiment::UNKNOWN_PROGRAM);
        talk.say(Experiment::Put { program: 7, octets: elf(100) });
        assert_eq!(talk.add(by_program(7, Parameter::Number(1))), Some(Refusal::MATCH_VALUE));
        assert_eq!(talk.say(set(1, b"abc")), acknowledged(4, 7));
        assert_eq!(talk.add(by_program(7, Parameter::Number(1))), None);
        assert_eq!(talk.switch.switch.programs.parameter(7, 1), Some(&b"abc"[..]));
        assert_eq!(talk.say(set(1, b"")), acknowledged(4, 7));
        assert_eq!(talk.switch.switch.programs.parameter(7, 1), None);
        for number in [0, 1 << 31] {
            assert_eq!(talk.refusal(set(number, b"x")).unwrap().0, Experiment::BAD_NUMBER);
        }
        // They go with their program.
        talk.say(set(2, b"x"));
        talk.say(Experiment::Delete { program: 7 });
        assert_eq!(talk.switch.switch.programs.parameters.len(), 0);
    });
}

#[test]
fn older_controllers_are_understood_where_that_is_wanted() {
    let legacy =
        || Oxm::LegacyProgram { program: 7, result: 1, mask: 1, parameter: b"tno-1".to_vec() };
    talk(|talk| {
        talk.say(Experiment::Put { program: 7, octets: elf(MAX_PUT_OCTETS) });
        assert_eq!(talk.add(legacy()), Some(Refusal::MATCH_FIELD));
    });
    with_agent(|agent, switch| {
        let mut agent = std::mem::replace(agent, Agent::new(0, Vec::new(), 0)).accepting_legacy();
        let id = open(&mut agent, switch);
        let mut talk = Talk { agent: &mut agent, switch, id };
        assert_eq!(talk.say(Experiment::Put { program: 7, octets: elf(100) }), []);
        assert_eq!(talk.add(legacy()), None);
        assert_eq!(talk.switch.switch.programs.parameters.len(), 1);
        let delete = flow_mod(Command::DeleteStrict, Match::default().and(legacy()), vec![]);
        let removed = ask_unsolicited(talk.agent, talk.switch, talk.id, Body::FlowMod(delete));
        assert!(
            matches!(&removed[..], [Body::FlowRemoved(flow)] if flow.matching.fields == [legacy()])
        );
        assert_eq!(talk.switch.switch.programs.parameters.len(), 0);
    });
}
