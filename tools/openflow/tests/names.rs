//! Flows for prefixes of names, and tunnels that carry what they match.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod switch;

use heddle_core::flow::{Encapsulation, Endpoints, NdnKind, Tunnel};
use heddle_core::node::{PortId, Verdict};
use heddle_openflow::agent::{Agent, ConnectionId};
use heddle_openflow::{
    Action, Body, Command, FlowFilter, FlowMod, Instruction, MAX_NAME_OCTETS, Match, Message, Oxm,
    PortNumber, Refusal, Reply, ReplyBody, Request,
};
use switch::*;

const TNO: &[u8] = b"\x08\x03tno";
const TNO_A: &[u8] = b"\x08\x03tno\x08\x01a";

fn by_name(name: &[u8]) -> Match {
    Match::default().and(Oxm::Name(name.to_vec()))
}

/// An Interest for a name in an Ethernet frame.
fn interest(name: &[u8]) -> Vec<u8> {
    let mut frame = hex::decode("01005e0017aa0202020202028624").unwrap();
    frame.extend([5, name.len() as u8 + 8, 7, name.len() as u8]);
    frame.extend(name);
    frame.extend([10, 4, 1, 2, 3, 4]);
    frame
}

fn go(switch: &mut TestSwitch<'_>, name: &[u8]) -> Option<u8> {
    match switch.receive(at(1), PortId(0), &interest(name)).unwrap() {
        Verdict::Forward(port) => Some(port.0 + 1),
        _ => None,
    }
}

fn change(
    agent: &mut Agent,
    switch: &mut TestSwitch<'_>,
    id: ConnectionId,
    flow: FlowMod,
) -> Option<Refusal> {
    let answer = ask_unsolicited(agent, switch, id, Body::FlowMod(flow));
    answer.iter().find_map(|body| match body {
        Body::Error { refusal, .. } => Some(*refusal),
        _ => None,
    })
}

#[test]
fn the_longest_prefix_wins_and_those_below_a_name_go_together() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        for (name, port) in [(TNO, 2), (TNO_A, 3)] {
            let flow = flow_mod(Command::Add, by_name(name), to(port));
            assert_eq!(change(agent, switch, id, flow), None);
        }
        assert_eq!(go(switch, b"\x08\x03tno\x08\x01b"), Some(2));
        assert_eq!(go(switch, b"\x08\x03tno\x08\x01a\x08\x01c"), Some(3));
        assert_eq!(go(switch, b"\x08\x02tn"), None);
        assert_eq!(go(switch, b"\x08\x01x\x08\x03tno"), None);
        let told = |agent: &mut Agent, switch: &mut TestSwitch<'_>, name: &[u8]| {
            let filter = FlowFilter::covering(by_name(name));
            let flows = Body::MultipartRequest(Request::Flows(filter), false);
            match &ask(agent, switch, id, flows)[..] {
                [Body::MultipartReply(Reply { body: ReplyBody::Flows(flows), .. })] => flows.len(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told(agent, switch, TNO), 2);
        assert_eq!(told(agent, switch, TNO_A), 1);
        assert_eq!(told(agent, switch, &[]), 2);
        assert_eq!(
            change(agent, switch, id, flow_mod(Command::Modify, by_name(TNO_A), to(2))),
            None
        );
        assert_eq!(go(switch, TNO_A), Some(2));
        assert_eq!(
            change(agent, switch, id, flow_mod(Command::DeleteStrict, by_name(TNO), vec![])),
            None
        );
        assert_eq!((go(switch, TNO), go(switch, TNO_A)), (None, Some(2)));
        assert_eq!(
            change(agent, switch, id, flow_mod(Command::Delete, by_name(TNO), vec![])),
            None
        );
        assert!(switch.switch.tables.is_empty());
    });
}

#[test]
fn the_kind_of_packet_can_be_asked_for() {
    with_agent(|agent, switch| {
        let id = open(agent, switch);
        let kind = |kind: NdnKind| Match::default().and(Oxm::NdnKind(kind as u8));
        assert_eq!(
            change(agent, switch, id, flow_mod(Command::Add, kind(NdnKind::Data), to(3))),
            None
        );
        assert_eq!(go(switch, TNO), None);
        assert_eq!(
            change(agent, switch, id, flow_mod(Command::Add, kind(NdnKind::Interest), to(2))),
            None
        );
        assert_eq!(go(switch, TNO), Some(2));
    });
}

#[test]
fn names_of_any_length_come_as_they_went() {
    for octets in [0, 5, 251, 252, 502, 503, 8800, MAX_NAME_OCTETS] {
        let mut name = Vec::new();
        while name.len() < octets {
            let left = octets - name.len();
            let value = if left <= 254 { left - 2 } else { 100.min(left - 4) };
            name.extend([8, value as u8]);
            name.resize(name.len() + value, 7);
        }
        let flow = flow_mod(Command::Add, by_name(&name).and(Oxm::NdnKind(1)), to(2));
        let sent = message(Body::FlowMod(flow.clone()));
        assert_eq!(Message::decode(&sent).unwrap().body, Body::FlowMod(flow), "{octets}");
    }
    let encoded = message(Body::FlowMod(flow_mod(Command::Add, by_name(TNO), to(2))));
    let field = hex::encode(&encoded[52..65]);
    assert_eq!(field, "ffff200948444c450803746e6f");
}

#[test]
fn what_is_matched_goes_into_a_tunnel_and_out_of_it() {
    let udp = Tunnel::Udp {
        source_port: 6363,
        destination_port: 6363,
        ether_type: 0x8624,
        inner: ([1; 6], [2; 6]),
    };
    let tunnels = [
        udp,
        Tunnel::Gre { key: None, inner: ([1; 6], [2; 6]) },
        Tunnel::Gre { key: Some(7), inner: ([1; 6], [2; 6]) },
        Tunnel::Vxlan { network: 0xff_ffff },
    ];
    let endpoints =
        [Endpoints::V4([10, 0, 0, 1], [10, 0, 0, 2]), Endpoints::V6([0xfd; 16], [0xfc; 16])];
    for (tunnel, endpoints) in
        tunnels.into_iter().flat_map(|tunnel| endpoints.map(|ends| (tunnel, ends)))
    {
        let into = Action::Encapsulate(Encapsulation {
            ethernet_destination: [3; 6],
            ethernet_source: [4; 6],
            endpoints,
            ttl: 64,
            tunnel,
        });
        let out_of = Action::Decapsulate(tunnel);
        let send = |port| Action::Output { port: PortNumber(port), max_len: 0 };
        let apply = |actions| vec![Instruction::ApplyActions(actions)];
        for (action, octets) in [(&into, 80), (&out_of, 40)] {
            let flow = flow_mod(Command::Add, by_name(TNO), apply(vec![action.clone()]));
            let sent = message(Body::FlowMod(flow.clone()));
            assert_eq!(sent.len(), 48 + 24 + 8 + octets);
            assert_eq!(Message::decode(&sent).unwrap().body, Body::FlowMod(flow));
        }
        with_agent(|agent, switch| {
            let id = open(agent, switch);
            let there =
                flow_mod(Command::Add, by_name(TNO).and(in_port(1)), apply(vec![into, send(2)]));
            assert_eq!(change(agent, switch, id, there), None);
            let back = flow_mod(Command::Add, from_port(2), apply(vec![out_of, send(3)]));
            assert_eq!(change(agent, switch, id, back), None);
            assert_eq!(go(switch, TNO_A), Some(2), "{tunnel:?}");
            let carried = switch.sent.pop().unwrap().1;
            assert_eq!(carried[..12], [3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4]);
            switch.receive(at(1), PortId(1), &carried).unwrap();
            let (port, arrived) = switch.sent.pop().unwrap();
            assert_eq!((port, &arrived[14..]), (PortId(2), &interest(TNO_A)[14..]), "{tunnel:?}");
        });
    }
}

fn in_port(port: u8) -> Oxm {
    from_port(port).fields.remove(0)
}
