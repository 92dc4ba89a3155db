//! Ports, and the other things that a controller may ask for besides flows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_core::node::{PortId, Verdict};
use heddle_openflow::agent::Agent;
use heddle_openflow::{
    Action, AsyncConfig, Body, Command, Field, Instruction, Match, MeterMod, PacketOut, Port,
    PortMod, PortNumber, Reason, Refusal, Reply, ReplyBody, Request, Role, SwitchConfig, TableMod,
};
use switch::*;

fn ports(agent: &mut Agent, switch: &mut TestSwitch<'_>) -> Vec<Port> {
    let id = open(agent, switch);
    let answer = ask(agent, switch, id, Body::MultipartRequest(Request::Ports, false));
    agent.disconnect(id);
    match &answer[..] {
        [Body::MultipartReply(Reply { body: ReplyBody::Ports(ports), .. })] => ports.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ports_go_off_and_on_and_everybody_hears_of_it() {
    with_agent(|agent, switch| {
        let port = ports(agent, switch)[1].clone();
        let (one, two) = (open(agent, switch), open(agent, switch));
        ask(agent, switch, two, Body::RoleRequest(Role::Slave, 1));
        let add = flow_mod(Command::Add, from_port(1), to(2));
        assert_eq!(ask(agent, switch, one, Body::FlowMod(add)), []);
        let off = Body::PortMod(PortMod::switching(&port, false));
        assert_eq!(refused(&ask(agent, switch, two, off.clone())), Some(Refusal::IS_SLAVE));
        let told = said(&agent.receive(at(1), one, &message(off), switch));
        assert_eq!(told.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [one, two]);
        for (_, body) in told {
            let Body::PortStatus(status) = body else { panic!("{body:?}") };
            assert_eq!((status.reason, status.port.number, status.port.config), (2, 2, Port::OFF));
            assert_eq!(status.port.state & Port::LIVE, 0);
        }
        assert_eq!(forward(switch, 0), Verdict::Drop("flow_port_down"));
        ask_unsolicited(agent, switch, one, Body::PortMod(PortMod::switching(&port, true)));
        assert_eq!(forward(switch, 0), Verdict::Forward(PortId(1)));
        // Links change by themselves.
        switch.set_link(PortId(1), false);
        let told = said(&agent.tick(at(2), switch));
        assert!(
            matches!(&told[..], [(_, Body::PortStatus(status)), _] if status.port.state == Port::NO_LINK)
        );
        switch.set_link(PortId(1), false);
        assert_eq!(said(&agent.tick(at(2), switch)), [], "nothing has changed");
        assert_eq!(ports(agent, switch)[1].state, Port::NO_LINK);
        for (change, refusal) in [
            (
                PortMod { port: PortNumber(9), ..PortMod::switching(&port, true) },
                Refusal::PORT_PORT,
            ),
            (PortMod { hw_addr: [9; 6], ..PortMod::switching(&port, true) }, Refusal::PORT_HW_ADDR),
            (
                PortMod { config: 4, mask: 4, ..PortMod::switching(&port, true) },
                Refusal::PORT_CONFIG,
            ),
            (PortMod { advertise: 8, ..PortMod::switching(&port, true) }, Refusal::PORT_ADVERTISE),
        ] {
            let answer = ask(agent, switch, one, Body::PortMod(change));
            assert_eq!(refused(&answer), Some(refusal));
        }
    });
}

#[test]
fn what_the_switch_has_not_is_refused_or_empty() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let mut ask = |body| ask(agent, switch, id, body);
        let meter =
            |command| Body::MeterMod(MeterMod { command, flags: 1, meter: 1, bands: Vec::new() });
        for (body, refusal) in [
            (meter(0), Refusal::METER_OUT_OF_METERS),
            (meter(1), Refusal::METER_UNKNOWN_METER),
            (meter(2), Refusal::METER_UNKNOWN_METER),
            (meter(3), Refusal::METER_COMMAND),
            (Body::TableMod(TableMod { table: 16, config: 0 }), Refusal::TABLE_TABLE),
            (Body::TableMod(TableMod { table: 0, config: 4 }), Refusal::TABLE_CONFIG),
            (Body::QueuesRequest(PortNumber(9)), Refusal::QUEUE_PORT),
            (Body::SetConfig(SwitchConfig { flags: 1, miss_send_len: 0 }), Refusal::CONFIG_FLAGS),
        ] {
            assert_eq!(refused(&ask(body.clone())), Some(refusal), "{body:?}");
        }
        assert_eq!(ask(Body::TableMod(TableMod { table: 255, config: 3 })), []);
        assert_eq!(
            ask(Body::QueuesRequest(PortNumber(1))),
            [Body::QueuesReply(PortNumber(1), Vec::new())]
        );
        let [Body::MultipartReply(Reply { body: ReplyBody::TableFeatures(tables), .. })] =
            &ask(Body::MultipartRequest(Request::TableFeatures(Vec::new()), false))[..]
        else {
            panic!("table features");
        };
        assert_eq!(tables.len(), 16);
        // Instructions, next tables, actions, fields, each also for misses where that can differ.
        let kinds: Vec<u16> = tables[0].properties.iter().map(|property| property.kind).collect();
        assert_eq!(kinds, [0, 2, 4, 6, 12, 14, 1, 3, 5, 7, 13, 15, 8, 10]);
        assert_eq!(tables[0].properties[1].body, (1..16).collect::<Vec<u8>>());
        assert!(tables[15].properties[1].body.is_empty());
        let changed = ask(Body::MultipartRequest(Request::TableFeatures(tables.clone()), false));
        assert_eq!(refused(&changed), Some(Refusal::TABLE_FEATURES_PERMISSION));
    });
}

/// An IPv4 packet whose TTL is 1.
fn last_hop() -> Vec<u8> {
    hex::decode(
        "50540000000150540000000208004500001c00000000011168cd0101010102020202000100020008fbe4",
    )
    .unwrap()
}

#[test]
fn packets_whose_ttl_has_run_out_go_to_who_wants_them() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let forward = Instruction::ApplyActions(vec![
            Action::DecNwTtl,
            Action::Output { port: PortNumber(2), max_len: 0 },
        ]);
        let matching = Match::default().exactly(Field::EthType, &[8, 0]);
        let add = flow_mod(Command::Add, matching, vec![forward]);
        assert_eq!(ask(agent, switch, id, Body::FlowMod(add)), []);
        switch.receive(at(1), PortId(0), &last_hop()).unwrap();
        assert_eq!(said(&agent.tick(at(1), switch)), [], "nobody has asked for them");
        let [Body::GetAsyncReply(events)] = ask(agent, switch, id, Body::GetAsyncRequest)[..]
        else {
            panic!("events");
        };
        let all = AsyncConfig { packet_in: [0b111, 0], ..events };
        assert_eq!(ask(agent, switch, id, Body::SetAsync(all)), []);
        let config = SwitchConfig { flags: 0, miss_send_len: 20 };
        assert_eq!(ask(agent, switch, id, Body::SetConfig(config)), []);
        let verdict = switch.receive(at(1), PortId(0), &last_hop()).unwrap();
        assert!(matches!(verdict, Verdict::Drop(_)), "{verdict:?}");
        match &said(&agent.tick(at(1), switch))[..] {
            [(_, Body::PacketIn(packet))] => {
                assert_eq!((packet.reason, packet.data.len()), (Reason::InvalidTtl, 20));
                assert_eq!(packet.total_len as usize, last_hop().len());
            }
            other => panic!("{other:?}"),
        }
        // A slave gets none, by these settings.
        ask(agent, switch, id, Body::RoleRequest(Role::Slave, 1));
        agent.tick(at(1), switch);
        switch.receive(at(1), PortId(0), &last_hop()).unwrap();
        assert_eq!(said(&agent.tick(at(1), switch)), []);
    });
}

#[test]
fn packets_of_a_controller_may_go_through_the_tables() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let add = flow_mod(Command::Add, from_port(1), to(3));
        assert_eq!(ask(agent, switch, id, Body::FlowMod(add)), []);
        let packet = PacketOut {
            buffer: heddle_openflow::NO_BUFFER,
            in_port: PortNumber(1),
            actions: vec![Action::Output { port: PortNumber::TABLE, max_len: 0 }],
            data: last_hop(),
        };
        assert_eq!(ask(agent, switch, id, Body::PacketOut(packet)), []);
        assert_eq!(switch.sent, [(PortId(2), last_hop())]);
    });
}

#[test]
fn standalone_floods() {
    with_agent(|_, switch| {
        use heddle_openflow::datapath::Datapath;
        switch.set_standalone(true);
        switch.receive(at(1), PortId(1), &last_hop());
        assert_eq!(switch.sent, [0, 2].map(|port| (PortId(port), last_hop())));
        switch.set_standalone(false);
        assert_eq!(forward(switch, 0), Verdict::Drop("flow_no_match"));
    });
}
