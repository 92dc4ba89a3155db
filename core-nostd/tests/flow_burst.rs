//! The quick way of frames through a switch does what the long way does, and a burst what its frames do one by one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;
mod switches;

use heddle_core::flow::{Action, Fields, Instructions, Match, Output, SetField, Switch};
use heddle_core::ndn::Name;
use heddle_core::node::{Frame, Node, PortId, Verdict};
use heddle_core::wire::EtherType;
use proptest::prelude::*;
use simulator::{SimEngine, SimFrame};
use switches::{INTEREST, NOW, ethernet, port, receive, rule, udp_v4, udp_v6, with_switch};

fn change() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|address| Action::SetField(SetField::Ipv4Source(address))),
        any::<[u8; 4]>().prop_map(|address| Action::SetField(SetField::Ipv4Destination(address))),
        any::<u16>().prop_map(|port| Action::SetField(SetField::UdpSource(port))),
        any::<u16>().prop_map(|port| Action::SetField(SetField::UdpDestination(port))),
        any::<[u8; 6]>().prop_map(|mac| Action::SetField(SetField::EthernetSource(mac))),
        any::<[u8; 6]>().prop_map(|mac| Action::SetField(SetField::EthernetDestination(mac))),
        any::<u8>().prop_map(Action::SetTtl),
        Just(Action::DecrementTtl),
        (0u8..64).prop_map(|dscp| Action::SetField(SetField::Dscp(dscp))),
    ]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(INTEREST.to_vec()),
        Just(b"\x05\x07\x07\x05\x08\x03tno".to_vec()),
        Just(b"\x06\x12\x07\x05\x08\x03tno\x15\x00\x16\x03\x1b\x01\x00\x17\x02ab".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..60),
    ];
    let ports = prop_oneof![Just((6363, 6363)), any::<(u16, u16)>()];
    let damage = proptest::collection::vec((12usize..60, any::<u8>()), 0..2);
    (0u8..4, any::<[u8; 4]>(), any::<[u8; 4]>(), ports, payload, damage).prop_map(
        |(kind, source, destination, ports, payload, damage)| {
            let long = |short: [u8; 4]| std::array::from_fn(|at| short[at % 4] ^ at as u8);
            let mut frame = match kind {
                0 | 1 => udp_v4(source, destination, ports, &payload),
                2 => udp_v6(long(source), long(destination), ports, &payload),
                _ => ethernet(EtherType(0x8624), &payload),
            };
            for (at, octet) in damage {
                if let Some(place) = frame.get_mut(at) {
                    *place = octet;
                }
            }
            frame
        },
    )
}

/// Rules that do the same for whatever comes in, in one table and in two.
fn one_table(switch: &mut Switch<'_>, actions: &[Action], to: Output, writes: bool) {
    let list = [actions, &[Action::Output(to)]].concat();
    let mut instructions = Instructions::default();
    let list = list.as_slice().try_into().unwrap();
    if writes {
        instructions.write = list
    } else {
        instructions.apply = list
    }
    rule(switch, 0, 7, Match::default(), &instructions);
}

fn two_tables(switch: &mut Switch<'_>, actions: &[Action], to: Output, writes: bool) {
    let mut first = Instructions { goto_table: Some(1), ..Instructions::default() };
    let list = actions.try_into().unwrap();
    if writes {
        first.write = list
    } else {
        first.apply = list
    }
    let last = Instructions {
        write: [Action::Output(to)].as_slice().try_into().unwrap(),
        ..Instructions::default()
    };
    rule(switch, 0, 7, Match::default(), &first);
    rule(switch, 1, 7, Match::default(), &last);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_quick_way_does_what_the_long_way_does(
        frame in frame(),
        actions in proptest::collection::vec(change(), 0..5),
        to in prop_oneof![(0u8..6).prop_map(|port| Output::Port(PortId(port))), Just(Output::InPort)],
        writes in any::<bool>(),
        mtu in prop_oneof![Just(1514u16), 40u16..120],
    ) {
        let mut answers = Vec::new();
        for set_up in [one_table, two_tables] {
            with_switch(|switch| {
                set_up(switch, &actions, to, writes);
                switch.set_port(PortId(1), true, mtu);
                switch.set_port(PortId(2), false, 1514);
                let answer = receive(switch, 0, &frame);
                answers.push((answer, switch.counters().to_vec()));
            });
        }
        // Nonces and Sequences are drawn, the same for both: nothing else is random.
        let two = answers.pop().unwrap();
        prop_assert_eq!(answers.pop().unwrap(), two);
    }

    #[test]
    fn a_burst_is_its_frames_one_by_one(frames in proptest::collection::vec(frame(), 1..80)) {
        let set_up = |switch: &mut Switch<'_>| {
            let name = Some(Name::new(b"\x08\x03tno").unwrap());
            let ttl = Instructions::applying(&[Action::DecrementTtl, port(1)]).unwrap();
            rule(switch, 0, 9, Match { name, ..Match::default() }, &ttl);
            let mask = Fields { ether_type: u16::MAX, ..Fields::default() };
            let fields = Fields { ether_type: 0x86dd, ..Fields::default() };
            let both = Instructions::applying(&[port(1), port(2)]).unwrap();
            rule(switch, 0, 5, Match { fields, mask, ..Match::default() }, &both);
            let fields = Fields { ether_type: 0x0800, ..Fields::default() };
            let more = Instructions { goto_table: Some(3), ..Instructions::default() };
            rule(switch, 0, 4, Match { fields, mask, ..Match::default() }, &more);
            rule(switch, 3, 4, Match::default(), &Instructions::applying(&[port(3)]).unwrap());
        };
        let octets = |frame: &SimFrame| frame.bytes().to_vec();
        let (mut one_by_one, mut together) = (Vec::new(), Vec::new());
        with_switch(|switch| {
            set_up(switch);
            let mut engine = SimEngine::default();
            for frame in &frames {
                let mut frame = SimFrame::from_bytes(frame);
                let verdict = switch.receive(NOW, PortId(0), &mut frame, &mut engine);
                one_by_one.push((verdict, octets(&frame)));
            }
            let sent = engine.sent.iter().map(|(port, frame)| (Verdict::Forward(*port), octets(frame)));
            one_by_one.extend(sent);
            one_by_one.push((Verdict::Consumed, format!("{:?}", switch.counters()).into()));
        });
        with_switch(|switch| {
            set_up(switch);
            let mut engine = SimEngine::default();
            let mut frames: Vec<_> = frames.iter().map(|frame| SimFrame::from_bytes(frame)).collect();
            let mut verdicts = vec![Verdict::Consumed; frames.len()];
            switch.receive_burst(NOW, PortId(0), &mut frames, &mut verdicts, &mut engine);
            together.extend(verdicts.into_iter().zip(frames.iter().map(octets)));
            let sent = engine.sent.iter().map(|(port, frame)| (Verdict::Forward(*port), octets(frame)));
            together.extend(sent);
            together.push((Verdict::Consumed, format!("{:?}", switch.counters()).into()));
        });
        prop_assert_eq!(one_by_one, together);
    }
}
