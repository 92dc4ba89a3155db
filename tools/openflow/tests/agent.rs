//! The switch's side of OpenFlow: conversations with controllers, and what they make of the switch's tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_core::node::{PortId, Verdict};
use heddle_openflow::agent::{Agent, Outcome};
use heddle_openflow::{
    Action, Body, Bucket, Command, FlowFilter, FlowFlags, FlowMod, GroupCommand, GroupId, GroupMod,
    GroupType, Hello, HelloElement, Instruction, Match, NO_BUFFER, PacketOut, PortNumber, Refusal,
    Reply, ReplyBody, Request, Role,
};
use serde_json::Value;
use switch::*;

#[test]
fn a_controller_that_speaks_another_version_is_sent_away() {
    with_agent(|agent, switch| {
        let (id, _) = agent.connect();
        let hello = Hello { elements: vec![HelloElement::Versions(vec![1, 6])] };
        let outcome = agent.receive(at(0), id, &message(Body::Hello(hello)), switch);
        assert_eq!(outcome.close, [id]);
        assert!(
            matches!(&said(&outcome)[..], [(_, Body::Error { refusal, .. })] if *refusal == Refusal::INCOMPATIBLE)
        );
        // Nor is one heard that says anything before hello.
        let (id, _) = agent.connect();
        assert_eq!(agent.receive(at(0), id, &message(Body::FeaturesRequest), switch).close, [id]);
        assert_eq!(
            agent.receive(at(0), id, &message(Body::FeaturesRequest), switch),
            Outcome::default()
        );
    });
}

#[test]
fn questions_are_answered() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let mut ask = |body| ask(agent, switch, id, body);
        assert_eq!(ask(Body::EchoRequest(vec![1, 2])), [Body::EchoReply(vec![1, 2])]);
        assert_eq!(ask(Body::BarrierRequest), [Body::BarrierReply]);
        assert!(
            matches!(&ask(Body::FeaturesRequest)[..], [Body::FeaturesReply(features)] if features.datapath_id == 0x99)
        );
        assert!(matches!(&ask(Body::GetConfigRequest)[..], [Body::GetConfigReply(_)]));
        for request in [
            Request::Description,
            Request::Flows(all_flows()),
            Request::Aggregate(all_flows()),
            Request::Tables,
            Request::PortStats(PortNumber::ANY),
            Request::Groups,
            Request::GroupStats(GroupId::ALL),
            Request::GroupFeatures,
            Request::Queues(PortNumber::ANY, u32::MAX),
            Request::Meters(u32::MAX),
            Request::MeterConfig(u32::MAX),
            Request::MeterFeatures,
            Request::TableFeatures(Vec::new()),
            Request::Ports,
            Request::Programs,
        ] {
            let answer = ask(Body::MultipartRequest(request, false));
            assert!(
                matches!(answer[..], [Body::MultipartReply(Reply { more: false, .. })]),
                "{answer:?}"
            );
        }
        assert_eq!(refused(&ask(Body::BarrierReply)), Some(Refusal::BAD_TYPE));
        for (request, refusal) in [
            (Request::PortStats(PortNumber(9)), Refusal::BAD_PORT),
            (Request::GroupStats(GroupId(9)), Refusal::GROUP_UNKNOWN),
            (Request::Queues(PortNumber(9), u32::MAX), Refusal::QUEUE_PORT),
            (Request::Queues(PortNumber(1), 1), Refusal::QUEUE_QUEUE),
            (Request::Meters(1), Refusal::METER_UNKNOWN_METER),
            (Request::Flows(FlowFilter { table: 99, ..all_flows() }), Refusal::REQUEST_TABLE_ID),
        ] {
            let answer = ask(Body::MultipartRequest(request, false));
            assert_eq!(refused(&answer), Some(refusal));
        }
        let more = ask(Body::MultipartRequest(Request::Ports, true));
        assert_eq!(refused(&more), Some(Refusal::REQUEST_MULTIPART_BUFFER_OVERFLOW));
    });
}

#[test]
fn flows_are_added_changed_listed_and_deleted() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        for port in 1..3 {
            let add = flow_mod(Command::Add, from_port(port), to(3));
            assert_eq!(ask(agent, switch, id, Body::FlowMod(add)), []);
        }
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(2)));
        assert_eq!(forward(switch, 2), Verdict::Drop("flow_no_match"));
        let stats = |agent: &mut Agent, switch: &mut TestSwitch<'_>, filter| match &ask(
            agent,
            switch,
            id,
            Body::MultipartRequest(Request::Flows(filter), false),
        )[..]
        {
            [Body::MultipartReply(Reply { body: ReplyBody::Flows(flows), .. })] => flows.clone(),
            other => panic!("{other:?}"),
        };
        let flows = stats(agent, switch, all_flows());
        assert_eq!(flows.len(), 2);
        let first = flows.iter().find(|flow| flow.matching == from_port(1)).unwrap();
        assert_eq!((first.packets, first.octets, first.cookie), (1, 60, 5));
        assert_eq!(first.instructions, to(3));
        assert_eq!(
            stats(agent, switch, FlowFilter { matching: from_port(2), ..all_flows() }).len(),
            1
        );
        assert_eq!(stats(agent, switch, FlowFilter { out_port: PortNumber(2), ..all_flows() }), []);
        assert_eq!(
            stats(agent, switch, FlowFilter { cookie: 4, cookie_mask: 1, ..all_flows() }),
            []
        );
        // All of them, and one by its match and priority.
        let modify = flow_mod(Command::Modify, Match::default(), to(2));
        assert_eq!(ask(agent, switch, id, Body::FlowMod(modify)), []);
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(1)));
        let strict =
            FlowMod { priority: 11, ..flow_mod(Command::ModifyStrict, from_port(1), to(3)) };
        assert_eq!(ask(agent, switch, id, Body::FlowMod(strict)), []);
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(1)));
        let filtered = FlowMod {
            out_port: PortNumber(3),
            ..flow_mod(Command::Delete, Match::default(), vec![])
        };
        assert_eq!(ask(agent, switch, id, Body::FlowMod(filtered)), []);
        let delete = flow_mod(Command::DeleteStrict, from_port(1), vec![]);
        let outcome = agent.receive(at(3), id, &message(Body::FlowMod(delete)), switch);
        match &said(&outcome)[..] {
            [(to, Body::FlowRemoved(flow))] => {
                assert_eq!((*to, flow.reason, flow.packets, flow.duration), (id, 2, 3, (2, 0)));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(forward(switch, 0), Verdict::Drop("flow_no_match"));
        assert_eq!(stats(agent, switch, all_flows()).len(), 1);
        let all = FlowMod { table: 255, ..flow_mod(Command::Delete, Match::default(), vec![]) };
        assert_eq!(ask_unsolicited(agent, switch, id, Body::FlowMod(all)).len(), 1);
        assert!(switch.switch.tables.is_empty());
    });
}

#[test]
fn what_a_flow_cannot_do_has_its_error() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let add = |instructions| flow_mod(Command::Add, from_port(1), instructions);
        let mut refusal = |change| refused(&ask(agent, switch, id, Body::FlowMod(change)));
        let apply = |action| vec![Instruction::ApplyActions(vec![action])];
        assert_eq!(refusal(add(to(9))), Some(Refusal::ACTION_OUT_PORT));
        assert_eq!(refusal(add(apply(Action::Group(GroupId(1))))), Some(Refusal::ACTION_OUT_GROUP));
        assert_eq!(refusal(add(apply(Action::PopVlan))), Some(Refusal::ACTION_TYPE));
        assert_eq!(refusal(add(vec![Instruction::GotoTable(0)])), Some(Refusal::INSTRUCTION_TABLE));
        assert_eq!(
            refusal(add(vec![Instruction::GotoTable(16)])),
            Some(Refusal::INSTRUCTION_TABLE)
        );
        assert_eq!(
            refusal(add(vec![Instruction::Meter(1)])),
            Some(Refusal::INSTRUCTION_UNSUPPORTED)
        );
        assert_eq!(refusal(add(apply(Action::DecNwTtl))), None);
        let many = vec![Instruction::ApplyActions(vec![Action::DecNwTtl; 17])];
        assert_eq!(refusal(add(many)), Some(Refusal::ACTION_TOO_MANY));
        assert_eq!(refusal(FlowMod { table: 16, ..add(to(1)) }), Some(Refusal::FLOW_TABLE));
        assert_eq!(refusal(FlowMod { buffer: 7, ..add(to(1)) }), Some(Refusal::BUFFER_UNKNOWN));
        let overlapping = FlowMod {
            flags: FlowFlags::CHECK_OVERLAP,
            ..flow_mod(Command::Add, Match::default(), to(1))
        };
        assert_eq!(refusal(overlapping.clone()), Some(Refusal::FLOW_OVERLAP));
        assert_eq!(refusal(FlowMod { priority: 9, ..overlapping }), None);
        for priority in 20..26 {
            assert_eq!(refusal(FlowMod { priority, ..add(to(1)) }), None);
        }
        assert_eq!(refusal(FlowMod { priority: 26, ..add(to(1)) }), Some(Refusal::FLOW_TABLE_FULL));
    });
}

#[test]
fn flows_end_and_their_controllers_hear_of_it() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let add = FlowMod { idle_timeout: 5, ..flow_mod(Command::Add, from_port(1), to(2)) };
        ask(agent, switch, id, Body::FlowMod(add));
        let add = FlowMod { hard_timeout: 8, ..flow_mod(Command::Add, from_port(2), to(1)) };
        ask(agent, switch, id, Body::FlowMod(add));
        assert_eq!(agent.tick(at(5), switch), Outcome::default());
        let reasons = |outcome: &Outcome| -> Vec<u8> {
            let reason = |(_, body)| match body {
                Body::FlowRemoved(flow) => flow.reason,
                other => panic!("{other:?}"),
            };
            said(outcome).into_iter().map(reason).collect()
        };
        assert_eq!(reasons(&agent.tick(at(6), switch)), [0]);
        assert_eq!(reasons(&agent.tick(at(9), switch)), [1]);
        assert!(switch.switch.tables.is_empty());
    });
}

#[test]
fn groups_carry_flows_and_take_them_along() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let bucket = |port| Bucket {
            weight: 1,
            watch_port: PortNumber(port),
            watch_group: GroupId::ANY,
            actions: vec![Action::Output { port: PortNumber(port), max_len: 0 }],
        };
        let group = |command, buckets| {
            Body::GroupMod(GroupMod {
                command,
                kind: GroupType::FastFailover,
                group: GroupId(7),
                buckets,
            })
        };
        let add = group(GroupCommand::Add, vec![bucket(2), bucket(3)]);
        assert_eq!(refused(&ask(agent, switch, id, add.clone())), None);
        assert_eq!(refused(&ask(agent, switch, id, add)), Some(Refusal::GROUP_EXISTS));
        let flow = flow_mod(
            Command::Add,
            from_port(1),
            vec![Instruction::WriteActions(vec![Action::Group(GroupId(7))])],
        );
        assert_eq!(refused(&ask(agent, switch, id, Body::FlowMod(flow))), None);
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(1)));
        switch.set_link(PortId(1), false);
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(2)));
        let modify = group(GroupCommand::Modify, vec![bucket(9)]);
        assert_eq!(refused(&ask(agent, switch, id, modify)), Some(Refusal::GROUP_BAD_WATCH));
        let removed = ask_unsolicited(agent, switch, id, group(GroupCommand::Delete, vec![]));
        assert!(matches!(&removed[..], [Body::FlowRemoved(flow)] if flow.reason == 3));
        assert_eq!(forward(switch, 0), Verdict::Drop("flow_no_match"));
    });
}

#[test]
fn one_controller_is_master_and_slaves_only_look() {
    with_agent(|agent, switch| {
        let (one, two) = (open(agent, switch), open(agent, switch));
        let role = |role, generation| Body::RoleRequest(role, generation);
        assert_eq!(
            ask(agent, switch, one, role(Role::Master, 10)),
            [Body::RoleReply(Role::Master, 10)]
        );
        assert_eq!(
            ask(agent, switch, two, role(Role::Master, 11)),
            [Body::RoleReply(Role::Master, 11)]
        );
        assert_eq!(
            ask(agent, switch, one, role(Role::NoChange, 0)),
            [Body::RoleReply(Role::Slave, 11)]
        );
        assert_eq!(
            refused(&ask(agent, switch, one, role(Role::Master, 10))),
            Some(Refusal::ROLE_STALE)
        );
        let add = Body::FlowMod(flow_mod(Command::Add, from_port(1), to(0xffff_fffd)));
        assert_eq!(refused(&ask(agent, switch, one, add.clone())), Some(Refusal::IS_SLAVE));
        assert_eq!(refused(&ask(agent, switch, two, add)), None);
        // Packets go to the master alone.
        assert_eq!(forward(switch, 0), Verdict::Consumed);
        match &said(&agent.tick(at(2), switch))[..] {
            [(to, Body::PacketIn(packet))] => {
                assert_eq!(
                    (*to, packet.total_len, packet.data.len(), packet.cookie),
                    (two, 60, 60, 5)
                );
                assert_eq!(packet.matching, from_port(1));
            }
            other => panic!("{other:?}"),
        }
        agent.disconnect(two);
        forward(switch, 0);
        assert_eq!(agent.tick(at(2), switch), Outcome::default());
    });
}

#[test]
fn packets_from_a_controller_go_out() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let packet = PacketOut {
            buffer: NO_BUFFER,
            in_port: PortNumber::CONTROLLER,
            actions: vec![Action::Output { port: PortNumber::FLOOD, max_len: 0 }],
            data: vec![0; 60],
        };
        assert_eq!(ask(agent, switch, id, Body::PacketOut(packet.clone())), []);
        assert_eq!(switch.sent, [0, 1, 2].map(|port| (PortId(port), vec![0; 60])));
        for (change, refusal) in [
            (PacketOut { buffer: 1, ..packet.clone() }, Refusal::BUFFER_UNKNOWN),
            (PacketOut { in_port: PortNumber(8), ..packet }, Refusal::BAD_PORT),
        ] {
            assert_eq!(refused(&ask(agent, switch, id, Body::PacketOut(change))), Some(refusal));
        }
    });
}

/// Every bad message of the cases leaves the switch forwarding and, unless its length cannot be, the connection open.
#[test]
fn hostile_messages_leave_the_switch_forwarding() {
    let path = format!("{}/tests/cases/messages.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for case in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if case["verdict"] != "error"
            || case["id"] == "x-hello-version-2"
            || case["incomplete"] == true
        {
            continue;
        }
        count += 1;
        with_agent(|agent, switch| {
            let id = open(agent, switch);
            let add = Body::FlowMod(flow_mod(Command::Add, from_port(1), to(2)));
            assert_eq!(ask(agent, switch, id, add), []);
            let octets = hex::decode(case["hex"].as_str().unwrap()).unwrap();
            let outcome = agent.receive(at(1), id, &octets, switch);
            assert!(matches!(&said(&outcome)[..], [(_, Body::Error { .. })]), "{}", case["id"]);
            assert_eq!(outcome.close.is_empty(), case["fatal"] != true, "{}", case["id"]);
            if case["fatal"] != true {
                assert_eq!(ask(agent, switch, id, Body::BarrierRequest), [Body::BarrierReply]);
            }
            assert_eq!(forward(switch, 0), Verdict::Forward(PortId(1)), "{}", case["id"]);
        });
    }
    assert_eq!(count, 48);
}
