//! Frames through a switch: actions with their checksums, tunnels, groups, several tables, fragments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;
mod switches;

use heddle_core::flow::{
    Action, Bucket, Encapsulation, Endpoints, Fields, FlowDrop, FlowError, GroupError, GroupKind,
    Instructions, Match, NdnKind, Output, Packet, PacketInReason, SetField, Switch, Tunnel,
};
use heddle_core::ndn::{Fragmenter, Name, NdnError};
use heddle_core::node::{Node, PortId, Verdict};
use heddle_core::wire::EtherType;
use proptest::prelude::*;
use simulator::{SimEngine, SimFrame};
use switches::{
    INTEREST, MAC_A, MAC_B, MAC_C, NOW, check_sums, ethernet, port, receive, rule, udp_v4, udp_v6,
    with_switch,
};

/// What rules that apply these actions to every frame from port 0 make of one.
fn through(actions: &[Action], octets: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, FlowDrop> {
    let mut sent = Ok(Vec::new());
    with_switch(|switch| {
        rule(switch, 0, 1, Match::default(), &Instructions::applying(actions).unwrap());
        sent = receive(switch, 0, octets);
    });
    sent
}

fn fields_of(frame: &[u8]) -> Fields {
    Packet::parse(frame, PortId(0)).unwrap().fields
}

/// An Interest's name decides, and the packet gets the address of the gateway behind which the name lives.
#[test]
fn a_name_decides_where_a_packet_goes() {
    with_switch(|switch| {
        let name = |octets| Some(Name::new(octets).unwrap());
        let rewrite = |host, to| {
            Instructions::applying(&[
                Action::SetField(SetField::Ipv4Destination([10, 0, 9, host])),
                Action::SetField(SetField::EthernetDestination(MAC_C)),
                Action::SetTtl(128),
                port(to),
            ])
            .unwrap()
        };
        let mask = Fields { ether_type: u16::MAX, destination_port: u16::MAX, ..Fields::default() };
        let fields = Fields { ether_type: 0x0800, destination_port: 6363, ..Fields::default() };
        let prefixes: [(&[u8], u8); 3] =
            [(b"\x08\x03tno", 1), (b"\x08\x01t", 2), (b"\x08\x01x\x08\x03tno", 3)];
        for (prefix, to) in prefixes {
            let matching = Match { fields, mask, name: name(prefix), program: None };
            rule(switch, 0, 10, matching, &rewrite(to, to));
        }
        let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (6363, 6363), INTEREST);
        let sent = receive(switch, 0, &frame).unwrap();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].0, 1);
        check_sums(&sent[0].1);
        let found = fields_of(&sent[0].1);
        assert_eq!(found.ip_destination, Fields::ipv4([10, 0, 9, 1]));
        assert_eq!((found.ethernet_destination, sent[0].1[14 + 8]), (MAC_C, 128));
        // The same inside a link packet.
        let wrapped = [&[0x64, 0x16, 0x50, 0x14][..], INTEREST].concat();
        let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (6363, 6363), &wrapped);
        assert_eq!(receive(switch, 0, &frame).unwrap()[0].0, 1);
        // Neither another name nor another port.
        for (ports, payload) in [
            ((6363, 6363), &b"\x05\x07\x07\x05\x08\x03tn1"[..]),
            ((6363, 6363), b"\x05\x08\x07\x06\x08\x04tno1"),
            ((6363, 7000), INTEREST),
        ] {
            let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], ports, payload);
            assert_eq!(receive(switch, 0, &frame), Err(FlowDrop::Flow(FlowError::NoMatch)));
        }
        // A name of nothing.
        let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (6363, 6363), b"\x05\x02\x07\x00");
        assert_eq!(receive(switch, 0, &frame), Err(FlowDrop::Ndn(NdnError::EmptyName)));
        let at = <Switch>::COUNTER_NAMES.iter().position(|name| *name == "ndn_empty_name").unwrap();
        assert_eq!(switch.counters()[at], 1);
        switch.drops_malformed_names = false;
        assert_eq!(receive(switch, 0, &frame), Err(FlowDrop::Flow(FlowError::NoMatch)));
        assert_eq!(switch.counters()[at], 2);
    });
}

#[test]
fn labels_come_and_go() {
    let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2), b"hello");
    let tagged = [&frame[..12], &[0x81, 0x00, 0x60, 0x05], &frame[12..]].concat();
    for frame in [frame, tagged] {
        let push = [
            Action::PushMpls(0x8847),
            Action::SetField(SetField::MplsLabel(0xabcde)),
            Action::SetField(SetField::MplsClass(5)),
            Action::PushMpls(0x8847),
            Action::SetField(SetField::MplsLabel(16)),
            Action::DecrementMplsTtl,
            port(1),
        ];
        let labelled = &through(&push, &frame).unwrap()[0].1;
        let found = fields_of(labelled);
        assert_eq!((found.mpls_label, found.mpls_class, found.mpls_bottom), (16, 5, 0));
        assert_eq!(found.ether_type, 0x8847);
        // IP is seen behind the stack, and its own fields with it.
        assert_eq!(found.ip_destination, Fields::ipv4([10, 0, 0, 2]));
        assert_eq!(labelled.len(), frame.len() + 8);
        let stack = &labelled[frame.len() - 33..][..8];
        assert_eq!(stack, [0, 1, 0x0a, 63, 0xab, 0xcd, 0xeb, 64]);
        let pop = [
            Action::CopyTtlIn,
            Action::PopMpls(0x8847),
            Action::PopMpls(0x0800),
            Action::SetTtl(64),
            port(1),
        ];
        assert_eq!(through(&pop, labelled).unwrap()[0].1, frame);
        let inner =
            through(&[Action::PopMpls(0x8847), Action::CopyTtlIn, port(1)], labelled).unwrap();
        check_sums(&inner[0].1);
    }
    let bare = ethernet(EtherType(0x9999), b"anything");
    assert_eq!(
        through(&[Action::PopMpls(0x0800), port(1)], &bare),
        Err(FlowDrop::Flow(FlowError::ActionMismatch))
    );
}

fn tunnels() -> Vec<Encapsulation> {
    let mut all = Vec::new();
    for tunnel in [
        Tunnel::Gre { key: None, inner: (MAC_B, MAC_A) },
        Tunnel::Gre { key: Some(0xfeed), inner: (MAC_B, MAC_A) },
        Tunnel::Vxlan { network: 0xabcdef },
        Tunnel::Udp {
            source_port: 6363,
            destination_port: 6363,
            ether_type: 0x8624,
            inner: (MAC_B, MAC_A),
        },
    ] {
        for endpoints in
            [Endpoints::V4([192, 0, 2, 1], [192, 0, 2, 2]), Endpoints::V6([0x20; 16], [0x21; 16])]
        {
            all.push(Encapsulation {
                ethernet_destination: MAC_C,
                ethernet_source: MAC_B,
                endpoints,
                ttl: 33,
                tunnel,
            });
        }
    }
    all
}

#[test]
fn what_goes_into_a_tunnel_comes_out() {
    let frame = ethernet(EtherType(0x8624), INTEREST);
    for outer in tunnels() {
        let padded = [&frame[..], &[0; 26]].concat();
        let carried = through(&[Action::Encapsulate(outer), port(1)], &padded).unwrap();
        check_sums(&carried[0].1);
        let found = fields_of(&carried[0].1);
        assert_eq!(found.ethernet_destination, MAC_C);
        if matches!(outer.tunnel, Tunnel::Udp { .. }) {
            // A named-data packet in UDP is one for the next switch too.
            assert_eq!(found.ndn_kind, NdnKind::Interest as u8);
        }
        let back = through(&[Action::Decapsulate(outer.tunnel), port(2)], &carried[0].1).unwrap();
        let whole = if matches!(outer.tunnel, Tunnel::Vxlan { .. }) { &padded } else { &frame };
        assert_eq!(&back[0].1, whole, "{outer:?}");
        // Frames of no tunnel, of another one, and broken ones stay out.
        for wrong in tunnels() {
            if wrong.tunnel != outer.tunnel {
                let out = through(&[Action::Decapsulate(wrong.tunnel), port(2)], &carried[0].1);
                assert!(out.is_err(), "{wrong:?} of {outer:?}");
            }
        }
        for len in 14..carried[0].1.len() {
            let cut = &carried[0].1[..len];
            assert!(through(&[Action::Decapsulate(outer.tunnel), port(2)], cut).is_err(), "{len}");
        }
        if !matches!(outer.tunnel, Tunnel::Gre { .. }) {
            let mut broken = carried[0].1.clone();
            *broken.last_mut().unwrap() ^= 1;
            assert!(through(&[Action::Decapsulate(outer.tunnel), port(2)], &broken).is_err());
        }
    }
}

#[test]
fn a_tunnel_gives_its_key_to_the_next_table() {
    with_switch(|switch| {
        let tunnel = Tunnel::Vxlan { network: 77 };
        let outer = Encapsulation { tunnel, ..tunnels()[4] };
        let inner = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2), b"x");
        let carried = through(&[Action::Encapsulate(outer), port(1)], &inner).unwrap();
        let mut first = Instructions::applying(&[Action::Decapsulate(tunnel)]).unwrap();
        first.goto_table = Some(3);
        first.metadata = (0xff00, 0x0f00);
        rule(switch, 0, 1, Match::default(), &first);
        let fields = Fields {
            tunnel_id: 77,
            metadata: 0x0f00,
            ip_destination: Fields::ipv4([10, 0, 0, 2]),
            ..Fields::default()
        };
        let mask = Fields {
            tunnel_id: u64::MAX,
            metadata: u64::MAX,
            ip_destination: Fields::ipv4([0xff; 4]),
            ..Fields::default()
        };
        let to = Instructions::applying(&[port(4)]).unwrap();
        rule(switch, 3, 1, Match { fields, mask, ..Match::default() }, &to);
        assert_eq!(receive(switch, 0, &carried[0].1), Ok(vec![(4, inner)]));
    });
}

#[test]
fn outputs_send_what_the_frame_is_by_then() {
    let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2), b"x");
    let actions = [
        port(1),
        Action::SetField(SetField::UdpDestination(99)),
        port(2),
        Action::DecrementTtl,
        Action::Output(Output::InPort),
    ];
    let sent = through(&actions, &frame).unwrap();
    assert_eq!(sent.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1, 2, 0]);
    assert_eq!(sent[0].1, frame);
    let ports: Vec<_> = sent.iter().map(|(_, frame)| fields_of(frame).destination_port).collect();
    assert_eq!(ports, [2, 99, 99]);
    assert_eq!(sent.iter().map(|(_, frame)| frame[22]).collect::<Vec<_>>(), [64, 64, 63]);
    sent.iter().for_each(|(_, frame)| check_sums(frame));
    let flood = through(&[Action::Output(Output::Flood)], &frame).unwrap();
    assert_eq!(flood, (1..5).map(|port| (port, frame.clone())).collect::<Vec<_>>());
    assert_eq!(through(&[port(0)], &frame), Err(FlowDrop::Flow(FlowError::NoOutput)));
    assert_eq!(through(&[], &frame), Err(FlowDrop::Flow(FlowError::NoOutput)));
    assert_eq!(through(&[port(9)], &frame), Err(FlowDrop::Flow(FlowError::PortDown)));
    let mut old = frame.clone();
    old[22] = 1;
    assert_eq!(
        through(&[Action::DecrementTtl, port(1)], &old),
        Err(FlowDrop::Flow(FlowError::TtlExpired))
    );
}

#[test]
fn action_sets_have_their_order() {
    with_switch(|switch| {
        let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2), b"x");
        let write = |actions: &[Action]| Instructions {
            write: actions.try_into().unwrap(),
            goto_table: Some(1),
            ..Instructions::default()
        };
        let set = Action::SetField(SetField::UdpDestination(5));
        let in_port = |port: u32| Match {
            fields: Fields { in_port: port, ..Fields::default() },
            mask: Fields { in_port: u32::MAX, ..Fields::default() },
            name: None,
            program: None,
        };
        rule(switch, 0, 1, in_port(1), &write(&[port(1), set]));
        let second = Instructions {
            write: [Action::DecrementTtl, port(2)].as_slice().try_into().unwrap(),
            ..Instructions::default()
        };
        rule(switch, 1, 1, in_port(1), &second);
        let sent = receive(switch, 0, &frame).unwrap();
        assert_eq!((sent.len(), sent[0].0, sent[0].1[22]), (1, 2, 63));
        assert_eq!(fields_of(&sent[0].1).destination_port, 5);
        rule(switch, 0, 1, in_port(2), &write(&[port(1)]));
        let clear = Instructions { clear: true, ..Instructions::default() };
        rule(switch, 1, 1, in_port(2), &clear);
        assert_eq!(receive(switch, 1, &frame), Err(FlowDrop::Flow(FlowError::NoOutput)));
        // No rule in the next table: the set is lost, what was applied at once is not.
        let mut both = write(&[port(1)]);
        both.apply = [port(3)].as_slice().try_into().unwrap();
        rule(switch, 0, 1, in_port(3), &both);
        assert_eq!(receive(switch, 2, &frame), Ok(vec![(3, frame.clone())]));
    });
}

#[test]
fn the_controller_gets_what_it_asked_for_until_its_queue_is_full() {
    with_switch(|switch| {
        let frame = ethernet(EtherType(0x8624), INTEREST);
        let ask = Instructions::applying(&[Action::Output(Output::Controller { max_octets: 20 })]);
        rule(switch, 0, 0, Match::default(), &ask.unwrap());
        for _ in 0..2 {
            assert_eq!(receive(switch, 3, &frame), Ok(vec![]));
        }
        assert_eq!(receive(switch, 3, &frame), Err(FlowDrop::Flow(FlowError::ControllerQueueFull)));
        let (entry, octets) =
            switch.packet_ins.pop(|entry, octets| (*entry, octets.to_vec())).unwrap();
        assert_eq!(octets, frame[..20]);
        assert_eq!(
            (entry.reason, entry.cookie, entry.port),
            (PacketInReason::NoMatch, 0xc0, PortId(3))
        );
        assert_eq!(entry.total_octets as usize, frame.len());
        assert_eq!(receive(switch, 3, &frame), Ok(vec![]));
        assert_eq!(switch.packet_ins.len(), 2);
        // What comes back goes where the controller says.
        let mut back = SimFrame::from_bytes(&frame);
        let mut engine = SimEngine::default();
        let verdict = switch.packet_out(PortId(3), &[port(1), port(2)], &mut back, &mut engine);
        assert_eq!((verdict, engine.sent.len()), (Verdict::Forward(PortId(2)), 1));
    });
}

fn bucket(actions: &[Action], watch: Option<u8>) -> Bucket {
    Bucket { weight: 1, watch_port: watch.map(PortId), actions: actions.try_into().unwrap() }
}

#[test]
fn groups_send_to_all_one_or_the_first_alive() {
    with_switch(|switch| {
        let ttl = |ttl, to| bucket(&[Action::SetTtl(ttl), port(to)], None);
        switch.groups.add(1, GroupKind::All, &[ttl(1, 1), ttl(2, 2), ttl(3, 3)]).unwrap();
        let watched = |to| bucket(&[port(to)], Some(to));
        switch.groups.add(2, GroupKind::FastFailover, &[watched(1), watched(2)]).unwrap();
        switch.groups.add(3, GroupKind::Select, &[watched(1), watched(2), watched(3)]).unwrap();
        let all = [ttl(1, 1)];
        assert_eq!(switch.groups.add(1, GroupKind::All, &all), Err(GroupError::Exists));
        assert_eq!(switch.groups.modify(9, GroupKind::All, &all), Err(GroupError::Unknown));
        assert_eq!(switch.groups.add(9, GroupKind::FastFailover, &all), Err(GroupError::Watch));
        assert_eq!(switch.groups.add(9, GroupKind::Indirect, &[]), Err(GroupError::Buckets));
        let chain = [bucket(&[Action::Group(1)], None)];
        assert_eq!(switch.groups.add(9, GroupKind::All, &chain), Err(GroupError::Chaining));
        for id in 1..5u32 {
            let fields = Fields { in_port: 1, vlan_priority: id as u8, ..Fields::default() };
            let mask = Fields { vlan_priority: 7, ..Fields::default() };
            let to = Instructions::applying(&[Action::Group(id)]).unwrap();
            rule(switch, 0, 1, Match { fields, mask, ..Match::default() }, &to);
        }
        let tagged = |id: u8, port: u16| {
            let frame = udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (port, 2), b"x");
            [&frame[..12], &[0x81, 0, id << 5, 1], &frame[12..]].concat()
        };
        let sent = receive(switch, 0, &tagged(1, 1)).unwrap();
        let found: Vec<_> = sent.iter().map(|(port, frame)| (*port, frame[26])).collect();
        assert_eq!(found, [(1, 1), (2, 2), (3, 3)]);
        sent.iter().for_each(|(_, frame)| check_sums(frame));
        assert_eq!(receive(switch, 0, &tagged(2, 1)).unwrap()[0].0, 1);
        switch.set_port(PortId(1), false, 1514);
        assert_eq!(receive(switch, 0, &tagged(2, 1)).unwrap()[0].0, 2);
        let chosen: std::collections::BTreeSet<_> =
            (0..64).map(|port| receive(switch, 0, &tagged(3, port)).unwrap()[0].0).collect();
        assert_eq!(chosen, [2, 3].into());
        let same: std::collections::BTreeSet<_> =
            (0..64).map(|_| receive(switch, 0, &tagged(3, 7)).unwrap()[0].0).collect();
        assert_eq!(same.len(), 1);
        switch.set_port(PortId(2), false, 1514);
        assert_eq!(receive(switch, 0, &tagged(2, 1)), Err(FlowDrop::Flow(FlowError::GroupDead)));
        assert_eq!(receive(switch, 0, &tagged(4, 1)), Err(FlowDrop::Flow(FlowError::GroupDead)));
        switch.groups.remove(1);
        assert_eq!(receive(switch, 0, &tagged(1, 1)), Err(FlowDrop::Flow(FlowError::GroupDead)));
    });
}

#[test]
fn fragments_go_where_their_first_went() {
    with_switch(|switch| {
        let content = vec![b'z'; 3000];
        let mut data = vec![6, 0xfd, 0, 0, 7, 5, 8, 3, b't', b'n', b'o', 0x15, 0xfd, 0x0b, 0xb8];
        data.extend(&content);
        data.extend([0x16, 3, 0x1b, 1, 0, 0x17, 0]);
        let len = (data.len() - 4) as u16;
        data[2..4].copy_from_slice(&len.to_be_bytes());
        let fragmenter = Fragmenter::new(&data, 1400).unwrap();
        assert_eq!(fragmenter.count(), 3);
        let frames: Vec<_> = (0..3)
            .map(|index| {
                let mut out = vec![0; 1400];
                let len = fragmenter.write(index, 40, &mut out).unwrap();
                ethernet(EtherType(0x8624), &out[..len])
            })
            .collect();
        let name = Some(Name::new(b"\x08\x03tno").unwrap());
        let to = Instructions::applying(&[port(2)]).unwrap();
        rule(switch, 0, 5, Match { name, ..Match::default() }, &to);
        let no_match = Err(FlowDrop::Flow(FlowError::NoMatch));
        assert_eq!(receive(switch, 0, &frames[1]), no_match);
        for frame in &frames {
            assert_eq!(receive(switch, 0, frame), Ok(vec![(2, frame.clone())]));
        }
        assert_eq!(receive(switch, 0, &frames[2]), no_match);
        // Another face's fragments are another packet's.
        receive(switch, 0, &frames[0]).unwrap();
        assert_eq!(receive(switch, 1, &frames[1]), no_match);
        // A rule that is gone leads nowhere.
        let id = switch.tables.find(0, 5, &Match { name, ..Match::default() }).unwrap();
        switch.tables.remove(id);
        assert_eq!(receive(switch, 0, &frames[1]), no_match);
        let at =
            |name: &str| <Switch>::COUNTER_NAMES.iter().position(|found| *found == name).unwrap();
        assert_eq!(switch.counters()[at("ndn_fragment_without_first")], 3);
    });
}

#[test]
fn frames_longer_than_a_port_sends_are_counted() {
    with_switch(|switch| {
        switch.set_port(PortId(1), true, 100);
        let to = Instructions::applying(&[Action::Encapsulate(tunnels()[2]), port(1)]).unwrap();
        rule(switch, 0, 1, Match::default(), &to);
        let frame = |octets| udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2), &vec![b'x'; octets]);
        assert!(receive(switch, 0, &frame(30)).is_ok());
        assert_eq!(receive(switch, 0, &frame(31)), Err(FlowDrop::Flow(FlowError::FrameExceedsMtu)));
    });
}

#[test]
fn without_frames_for_copies_the_rest_still_goes() {
    with_switch(|switch| {
        let to = Instructions::applying(&[port(1), port(2), port(3)]).unwrap();
        rule(switch, 0, 1, Match::default(), &to);
        let mut frame = SimFrame::from_bytes(&ethernet(EtherType(0x9999), b"x"));
        let mut engine = SimEngine { frames_left: Some(1), ..SimEngine::default() };
        let verdict = switch.receive(NOW, PortId(0), &mut frame, &mut engine);
        assert_eq!((verdict, engine.sent.len()), (Verdict::Forward(PortId(3)), 1));
        let at = <Switch>::COUNTER_NAMES.iter().position(|name| *name == "flow_no_frames").unwrap();
        assert_eq!(switch.counters()[at], 1);
    });
}

fn set_field() -> impl Strategy<Value = SetField> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(SetField::Ipv4Source),
        any::<[u8; 4]>().prop_map(SetField::Ipv4Destination),
        any::<[u8; 16]>().prop_map(SetField::Ipv6Source),
        any::<[u8; 16]>().prop_map(SetField::Ipv6Destination),
        any::<u16>().prop_map(SetField::UdpSource),
        any::<u16>().prop_map(SetField::UdpDestination),
        (0u8..64).prop_map(SetField::Dscp),
        (0u8..4).prop_map(SetField::Ecn),
        (0u32..0x10_0000).prop_map(SetField::FlowLabel),
        (0u32..0x10_0000).prop_map(SetField::MplsLabel),
        any::<[u8; 6]>().prop_map(SetField::EthernetSource),
    ]
}

fn change() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => set_field().prop_map(Action::SetField),
        1 => any::<u8>().prop_map(Action::SetTtl),
        1 => Just(Action::DecrementTtl),
        1 => Just(Action::PushMpls(0x8847)),
        1 => Just(Action::PopMpls(0x0800)),
        1 => Just(Action::PopMpls(0x86dd)),
        1 => any::<u8>().prop_map(Action::SetMplsTtl),
        1 => Just(Action::CopyTtlIn),
        1 => Just(Action::CopyTtlOut),
        1 => proptest::sample::select(tunnels()).prop_map(Action::Encapsulate),
        1 => proptest::sample::select(tunnels()).prop_map(|outer| Action::Decapsulate(outer.tunnel)),
    ]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = proptest::collection::vec(any::<u8>(), 0..60);
    (any::<bool>(), any::<[u8; 4]>(), any::<[u8; 4]>(), any::<(u16, u16)>(), payload).prop_map(
        |(is_v4, source, destination, ports, payload)| {
            if is_v4 {
                udp_v4(source, destination, ports, &payload)
            } else {
                let long = |short: [u8; 4]| std::array::from_fn(|at| short[at % 4] ^ at as u8);
                udp_v6(long(source), long(destination), ports, &payload)
            }
        },
    )
}

proptest! {
    /// Whatever is done to a right frame, it leaves with right checksums or not at all.
    #[test]
    fn checksums_stay_right(frame in frame(), actions in proptest::collection::vec(change(), 0..8)) {
        with_switch(|switch| {
            switch.drops_malformed_names = false;
            let mut list = Vec::new();
            for action in actions {
                list.extend([action, port(1)]);
            }
            list.truncate(15);
            list.push(port(2));
            rule(switch, 0, 1, Match::default(), &Instructions::applying(&list).unwrap());
            for (_, sent) in receive(switch, 0, &frame).unwrap_or_default() {
                check_sums(&sent);
            }
        });
    }

    /// Anything at all comes to an end.
    #[test]
    fn no_frame_and_no_action_panics(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
        ether_type in proptest::sample::select(vec![0x0800u16, 0x86dd, 0x8847, 0x8100, 0x8624]),
        actions in proptest::collection::vec(change(), 0..15),
    ) {
        let octets = ethernet(EtherType(ether_type), &octets);
        let mut list = actions;
        list.push(port(1));
        let _ = through(&list, &octets);
        let _ = through(&list, &octets[..octets.len().min(13)]);
    }
}
