//! Whatever comes in, the agent stays on its feet: messages that are changed, cut, mixed and repeated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_core::node::Verdict;
use heddle_openflow::agent::{Agent, ConnectionId};
use heddle_openflow::{Body, Experiment, FlowMod, Match, Message, Oxm, Parameter, Role};
use proptest::prelude::*;
use serde_json::Value;
use switch::*;

/// Messages of the cases, and a few that go together.
fn messages() -> Vec<Vec<u8>> {
    let path = format!("{}/tests/cases/messages.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let hex = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        hex::decode(case["hex"].as_str().unwrap()).unwrap()
    };
    let mut all: Vec<Vec<u8>> =
        text.lines().map(hex).filter(|octets| octets.len() < 2000).collect();
    let program = |parameter| Oxm::Program { program: 7, result: 1, masks: None, parameter };
    let part = |offset| Experiment::PutPart {
        program: 7,
        total_len: 8,
        offset,
        octets: b"\x7fELF".to_vec(),
    };
    let flow = |oxm| Body::FlowMod(FlowMod::add(0, 5, Match::default().and(oxm), to(2)));
    all.extend(
        [
            Body::Experimenter(part(0)),
            Body::Experimenter(part(4)),
            Body::Experimenter(Experiment::SetParameter {
                program: 7,
                parameter: 1,
                octets: vec![1],
            }),
            Body::Experimenter(Experiment::Delete { program: 7 }),
            flow(program(Parameter::Octets(vec![5; 9]))),
            flow(program(Parameter::Number(1))),
            flow(Oxm::Name(b"\x08\x01a\x08\x01b".to_vec())),
            Body::FlowMod(FlowMod::delete_all(255, Match::default().and(Oxm::Name(Vec::new())))),
            Body::FlowMod(FlowMod::delete_all(255, Match::default())),
            Body::RoleRequest(Role::Equal, 0),
            Body::RoleRequest(Role::Master, 1 << 62),
        ]
        .map(message),
    );
    all
}

/// What one connection says: which messages, each with a place and what is put there, and how much of it comes at once.
type Talk = Vec<(prop::sample::Index, Option<(prop::sample::Index, u8)>, prop::sample::Index)>;

fn say(
    agent: &mut Agent,
    switch: &mut TestSwitch<'_>,
    mut id: ConnectionId,
    all: &[Vec<u8>],
    talk: &Talk,
) -> ConnectionId {
    for (which, change, cut) in talk {
        let mut octets = which.get(all).clone();
        if let Some((at, value)) = change {
            let at = at.index(octets.len());
            octets[at] = *value;
        }
        let (first, rest) = octets.split_at(cut.index(octets.len()));
        for piece in [first, rest] {
            let outcome = agent.receive(at(1), id, piece, switch);
            for (_, octets) in &outcome.send {
                Message::decode(octets).unwrap();
            }
            if outcome.close.contains(&id) {
                id = open(agent, switch);
                break;
            }
        }
        while agent.is_busy() {
            agent.tick(at(2), switch);
        }
    }
    id
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_agent_stays_on_its_feet(talk: Talk) {
        let all = messages();
        with_agent(|agent, switch| {
            let id = open(agent, switch);
            let id = say(agent, switch, id, &all, &talk);
            agent.disconnect(id);
            // A new master makes things as they should be, and they are.
            let id = open(agent, switch);
            let delete = FlowMod::delete_all(255, Match::default());
            ask_unsolicited(agent, switch, id, Body::FlowMod(delete));
            while agent.is_busy() {
                agent.tick(at(3), switch);
            }
            assert!(switch.switch.tables.is_empty());
            for port in 1..=3 {
                switch.set_link(heddle_core::node::PortId(port - 1), true);
                let port = Body::PortMod(heddle_openflow::PortMod {
                    port: heddle_openflow::PortNumber(port.into()),
                    hw_addr: [0; 6],
                    config: 0,
                    mask: 1,
                    advertise: 0,
                });
                ask_unsolicited(agent, switch, id, port);
            }
            let add = FlowMod::add(0, 1, Match::default(), to(2));
            prop_assert_eq!(refused(&ask(agent, switch, id, Body::FlowMod(add))), None);
            prop_assert!(matches!(forward(switch, 0), Verdict::Forward(_)));
            Ok(())
        })?;
    }
}
