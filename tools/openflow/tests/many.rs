//! Many flows: what concerns them is done in steps, between which everybody else is heard.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_openflow::agent::Outcome;
use heddle_openflow::{
    Aggregate, Body, Command, FlowFlags, FlowMod, Match, Oxm, Reply, ReplyBody, Request,
};
use switch::*;

const FLOWS: u32 = 20_000;

fn name(number: u32) -> Oxm {
    let [_, a, b, c] = number.to_be_bytes();
    Oxm::Name(vec![8, 1, a, 8, 2, b, c])
}

fn add(number: u32) -> FlowMod {
    FlowMod {
        flags: FlowFlags::empty(),
        ..flow_mod(Command::Add, Match::default().and(name(number)), to(2))
    }
}

#[test]
fn long_work_holds_up_nobody() {
    with_room_for(FLOWS as usize, |agent, switch| {
        let (one, two) = (open(agent, switch), open(agent, switch));
        for number in 0..FLOWS {
            assert_eq!(ask(agent, switch, one, Body::FlowMod(add(number))), []);
        }
        // The first steps at once, the others with each tick.
        let flows = Body::MultipartRequest(Request::Flows(all_flows()), false);
        let mut told = said(&agent.receive(at(1), one, &message(flows), switch));
        assert!(agent.is_busy() && !agent.wants_input(one) && agent.wants_input(two));
        told.extend(said(&agent.receive(at(1), one, &message(Body::BarrierRequest), switch)));
        assert!(!told.iter().any(|(_, body)| *body == Body::BarrierReply));
        assert_eq!(ask(agent, switch, two, Body::BarrierRequest), [Body::BarrierReply]);
        let mut ticks = 0;
        while agent.is_busy() {
            told.extend(said(&agent.tick(at(2), switch)));
            ticks += 1;
        }
        assert!(ticks >= 1);
        assert_eq!(told.pop(), Some((one, Body::BarrierReply)));
        let last = told.len() - 1;
        let mut count = 0;
        for (part, (_, body)) in told.into_iter().enumerate() {
            let Body::MultipartReply(Reply { more, body: ReplyBody::Flows(flows) }) = body else {
                panic!("{body:?}");
            };
            assert_eq!(more, part != last);
            count += flows.len();
        }
        assert_eq!(count, FLOWS as usize);
        // Those below a name are found without looking at the others, so at once.
        let below = |number: u32| Match::default().and(Oxm::Name(vec![8, 1, number as u8]));
        let aggregate = |matching| {
            let filter = heddle_openflow::FlowFilter::covering(matching);
            Body::MultipartRequest(Request::Aggregate(filter), false)
        };
        let mut told = said(&agent.receive(at(2), one, &message(aggregate(below(0))), switch));
        assert_eq!(told, [], "it takes longer");
        while agent.is_busy() {
            told.extend(said(&agent.tick(at(2), switch)));
        }
        let all = Aggregate { flows: FLOWS, ..Aggregate::default() };
        let body = ReplyBody::Aggregate(all);
        assert_eq!(told, [(one, Body::MultipartReply(Reply { more: false, body }))]);
        assert_eq!(
            ask(agent, switch, one, aggregate(below(1))),
            [Body::MultipartReply(Reply {
                more: false,
                body: ReplyBody::Aggregate(Aggregate::default())
            })]
        );
        // All are deleted before the barrier is answered.
        let delete = flow_mod(Command::Delete, Match::default(), vec![]);
        ask_unsolicited(agent, switch, one, Body::FlowMod(FlowMod { table: 255, ..delete }));
        assert!(!switch.switch.tables.is_empty());
        assert_eq!(ask(agent, switch, one, Body::BarrierRequest), []);
        let mut told = Vec::new();
        while agent.is_busy() {
            told.extend(said(&agent.tick(at(2), switch)));
        }
        assert_eq!(told, [(one, Body::BarrierReply)]);
        assert!(switch.switch.tables.is_empty());
    });
}

#[test]
fn a_long_answer_waits_for_who_reads_slowly() {
    with_room_for(5000, |agent, switch| {
        let (slow, other) = (open(agent, switch), open(agent, switch));
        for number in 0..5000 {
            ask(agent, switch, other, Body::FlowMod(add(number)));
        }
        agent.set_congested(slow, true);
        let flows = Body::MultipartRequest(Request::Flows(all_flows()), false);
        assert_eq!(agent.receive(at(1), slow, &message(flows), switch), Outcome::default());
        assert!(!agent.is_busy() && !agent.wants_input(slow));
        assert_eq!(agent.tick(at(1), switch), Outcome::default());
        assert_eq!(ask(agent, switch, other, Body::BarrierRequest), [Body::BarrierReply]);
        agent.set_congested(slow, false);
        let mut parts = 0;
        while agent.is_busy() {
            parts += agent.tick(at(1), switch).send.len();
        }
        assert!(parts >= 5, "{parts}");
    });
}

#[test]
fn many_flows_end_a_few_at_a_time() {
    with_room_for(5000, |agent, switch| {
        let id = open(agent, switch);
        for number in 0..5000 {
            let flow = FlowMod { idle_timeout: 5, hard_timeout: 60, ..add(number) };
            assert_eq!(ask(agent, switch, id, Body::FlowMod(flow)), []);
        }
        agent.tick(at(5), switch);
        assert_eq!(switch.switch.tables.len(), 5000);
        agent.tick(at(7), switch);
        assert!((1..5000).contains(&switch.switch.tables.len()) && agent.is_busy());
        while agent.is_busy() {
            agent.tick(at(7), switch);
        }
        assert!(switch.switch.tables.is_empty());
    });
}

#[test]
fn counters_outlive_the_flow_unless_they_are_to_begin_anew() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let change = |command, flags, port| {
            Body::FlowMod(FlowMod { flags, ..flow_mod(command, from_port(1), to(port)) })
        };
        let mut after = |change: Body| {
            assert_eq!(ask(agent, switch, id, change), []);
            forward(switch, 0);
            let flows = Body::MultipartRequest(Request::Flows(all_flows()), false);
            match &ask(agent, switch, id, flows)[..] {
                [Body::MultipartReply(Reply { body: ReplyBody::Flows(flows), .. })] => {
                    assert_eq!(flows[0].octets, flows[0].packets * 60);
                    flows[0].packets
                }
                other => panic!("{other:?}"),
            }
        };
        let (keep, reset) = (FlowFlags::empty(), FlowFlags::RESET_COUNTS);
        assert_eq!(after(change(Command::Add, keep, 2)), 1);
        assert_eq!(after(change(Command::Add, keep, 3)), 2);
        assert_eq!(after(change(Command::Modify, keep, 2)), 3);
        assert_eq!(after(change(Command::Modify, reset, 3)), 1);
        assert_eq!(after(change(Command::ModifyStrict, keep, 2)), 2);
        assert_eq!(after(change(Command::Add, reset, 3)), 1);
    });
}
