//! Messages that the cases do not have: the way there and back, and answers that do not fit one message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_openflow::{
    Action, Aggregate, AsyncConfig, Body, Bucket, Experiment, Field, FlowFilter, FlowFlags,
    FlowRemoved, FlowStats, GroupId, GroupType, Hello, HelloElement, Instruction, Match, Message,
    Oxm, Port, PortNumber, PortStats, PortStatus, ProgramStats, Refusal, Reply, ReplyBody, Request,
    Role, SetQueue, SwitchConfig, TableStats,
};

fn udp_to(port: u16) -> Match {
    let basic = |field, value: &[u8]| Oxm::Basic { field, value: value.to_vec(), mask: None };
    Match {
        fields: vec![
            basic(Field::EthType, &[8, 0]),
            basic(Field::IpProto, &[17]),
            basic(Field::UdpDst, &port.to_be_bytes()),
        ],
    }
}

fn every_action() -> Vec<Action> {
    vec![
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::SetMplsTtl(3),
        Action::DecMplsTtl,
        Action::PushVlan(0x8100),
        Action::PopVlan,
        Action::PushMpls(0x8847),
        Action::PopMpls(0x0800),
        Action::SetQueue(SetQueue(4)),
        Action::Group(GroupId(5)),
        Action::SetNwTtl(6),
        Action::DecNwTtl,
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::SetField(Oxm::Basic { field: Field::Ipv6Src, value: vec![7; 16], mask: None }),
        Action::Output { port: PortNumber::LOCAL, max_len: 8 },
    ]
}

fn flow(number: u32) -> FlowStats {
    FlowStats {
        table: 1,
        duration: (2, 3),
        priority: 4,
        idle_timeout: 5,
        hard_timeout: 6,
        flags: FlowFlags::SEND_FLOW_REM,
        cookie: number.into(),
        packets: 8,
        octets: 9,
        matching: udp_to(6363),
        instructions: vec![
            Instruction::Meter(1),
            Instruction::WriteActions(every_action()),
            Instruction::GotoTable(9),
        ],
    }
}

#[test]
fn messages_come_back_as_they_went() {
    let bucket = Bucket {
        weight: 1,
        watch_port: PortNumber(2),
        watch_group: GroupId::ANY,
        actions: every_action(),
    };
    let filter = FlowFilter {
        table: 1,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        cookie: 2,
        cookie_mask: 3,
        matching: udp_to(1),
    };
    let port = Port { number: 7, name: "port 7".into(), max_speed: 8, ..Port::default() };
    let events = AsyncConfig { packet_in: [7, 0], port_status: [1, 2], flow_removed: [3, 4] };
    let reply = |body| Body::MultipartReply(Reply { more: false, body });
    let bodies = [
        Body::GetConfigReply(SwitchConfig { flags: 2, miss_send_len: 128 }),
        Body::FlowRemoved(FlowRemoved {
            cookie: 1,
            priority: 2,
            reason: 1,
            table: 3,
            duration: (4, 5),
            idle_timeout: 6,
            hard_timeout: 7,
            packets: 8,
            octets: 9,
            matching: udp_to(2),
        }),
        Body::PortStatus(PortStatus { reason: 2, port: port.clone() }),
        Body::RoleReply(Role::Slave, 9),
        Body::GetAsyncRequest,
        Body::GetAsyncReply(events),
        Body::SetAsync(events),
        Body::Experimenter(Experiment::Acknowledge { request: 3, program: 7 }),
        Body::MultipartRequest(Request::Aggregate(filter), false),
        Body::MultipartRequest(Request::Tables, true),
        Body::MultipartRequest(Request::PortStats(PortNumber::ANY), false),
        Body::MultipartRequest(Request::Groups, false),
        reply(ReplyBody::Flows(vec![flow(1), flow(2)])),
        reply(ReplyBody::Aggregate(Aggregate { packets: 1, octets: 2, flows: 3 })),
        reply(ReplyBody::Tables(vec![
            TableStats { table: 1, active: 2, lookups: 3, matched: 4 };
            3
        ])),
        reply(ReplyBody::PortStats(vec![PortStats { number: 1, ..PortStats::default() }; 2])),
        reply(ReplyBody::Groups(vec![(
            GroupType::Select,
            GroupId(1),
            vec![bucket.clone(), bucket],
        )])),
        reply(ReplyBody::Ports(vec![port])),
        reply(ReplyBody::Programs(vec![ProgramStats { program: 1, ..ProgramStats::default() }])),
    ];
    for body in bodies {
        let message = Message::new(0x1234_5678, body);
        let octets = message.encode().unwrap();
        assert_eq!(Message::decode(&octets).as_ref(), Ok(&message));
        for len in 8..octets.len() {
            let mut cut = octets[..len].to_vec();
            cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            // A list may end early; what is in it must then be whole.
            if let Ok(shorter) = Message::decode(&cut) {
                assert_eq!(shorter.encode().unwrap(), cut);
            }
        }
    }
}

#[test]
fn an_answer_of_any_length_comes_in_messages_that_fit() {
    let flows: Vec<_> = (0..1000).map(flow).collect();
    let messages = ReplyBody::Flows(flows.clone()).into_messages(77);
    assert!(messages.len() > 3);
    let mut found = Vec::new();
    for (at, octets) in messages.iter().enumerate() {
        assert!(octets.len() <= 65535);
        let message = Message::decode(octets).unwrap();
        assert_eq!(message.xid, 77);
        let Body::MultipartReply(Reply { more, body: ReplyBody::Flows(part) }) = message.body
        else {
            panic!("flows");
        };
        assert_eq!(more, at + 1 < messages.len());
        found.extend(part);
    }
    assert_eq!(found, flows);
    let whole =
        Message::new(1, Body::MultipartReply(Reply { more: false, body: ReplyBody::Flows(flows) }));
    assert_eq!(whole.encode(), Err(Refusal::BAD_LEN));
    let programs = vec![ProgramStats { program: 5, ..ProgramStats::default() }; 3000];
    let parts = ReplyBody::Programs(programs).into_messages(1);
    let count: usize = parts
        .iter()
        .map(|octets| match Message::decode(octets).unwrap().body {
            Body::MultipartReply(Reply { body: ReplyBody::Programs(part), .. }) => part.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(count, 3000);
    let nothing = ReplyBody::Flows(Vec::new()).into_messages(1);
    assert_eq!(nothing.len(), 1);
}

#[test]
fn versions_are_negotiated() {
    let plain = Hello::default();
    assert_eq!(plain.negotiate(1), Err(Refusal::INCOMPATIBLE));
    assert_eq!(plain.negotiate(4), Ok(()));
    assert_eq!(plain.negotiate(6), Ok(()));
    let with =
        |versions: &[u8]| Hello { elements: vec![HelloElement::Versions(versions.to_vec())] };
    assert_eq!(with(&[1, 6]).negotiate(6), Err(Refusal::INCOMPATIBLE));
    assert_eq!(with(&[1, 4]).negotiate(1), Ok(()));
    assert_eq!(Hello::ours().negotiate(4), Ok(()));
    // Versions beyond the first 32 need further words.
    let message = Message::new(1, Body::Hello(with(&[4, 40])));
    assert_eq!(Message::decode(&message.encode().unwrap()), Ok(message));
}

#[test]
fn fields_that_do_not_fit_are_refused() {
    let refused = |field, value: &[u8]| {
        let mut matching = udp_to(1);
        matching
            .fields
            .retain(|oxm| !matches!(oxm, Oxm::Basic { field: old, .. } if *old == field));
        matching.fields.push(Oxm::Basic { field, value: value.to_vec(), mask: None });
        let removed = FlowRemoved {
            cookie: 0,
            priority: 0,
            reason: 0,
            table: 0,
            duration: (0, 0),
            idle_timeout: 0,
            hard_timeout: 0,
            packets: 0,
            octets: 0,
            matching,
        };
        Message::decode(&Message::new(1, Body::FlowRemoved(removed)).encode().unwrap()).err()
    };
    assert_eq!(refused(Field::IpDscp, &[0x3f]), None);
    assert_eq!(refused(Field::IpDscp, &[0x40]), Some(Refusal::MATCH_VALUE));
    assert_eq!(refused(Field::VlanVid, &[0x10, 0]), None);
    assert_eq!(refused(Field::VlanVid, &[0x20, 0]), Some(Refusal::MATCH_VALUE));
    assert_eq!(refused(Field::VlanPcp, &[1]), Some(Refusal::MATCH_PREREQUISITE));
    assert_eq!(refused(Field::TcpDst, &[0, 1]), Some(Refusal::MATCH_PREREQUISITE));
    assert_eq!(refused(Field::Ipv6Dst, &[0; 16]), Some(Refusal::MATCH_PREREQUISITE));
    assert_eq!(refused(Field::MplsLabel, &[0, 0, 0, 1]), Some(Refusal::MATCH_PREREQUISITE));
    assert_eq!(refused(Field::InPort, &[0, 0, 1]), Some(Refusal::MATCH_LEN));
}
