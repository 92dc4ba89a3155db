//! The controller with switches in memory: what it installs, when, and what it survives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod peers;

use std::time::Duration;

use heddle_openflow::controller::MAX_NAMES;
use heddle_openflow::{Action, Body, Field, Oxm, PortNumber};
use peers::{Kind, World, actions, destination, frame, interest, name_of, out_port, prefix, tlv};
use proptest::prelude::*;

const OURS: [Kind; 3] = [Kind::Ours; 3];
const FOREVER: &str = "hold_ms = 0";
const REACTIVE: &str = "mode = \"reactive\"\nhold_ms = 0";
const SECOND: Duration = Duration::from_secs(1);

const TNO: [u8; 4] = [10, 1, 0, 2];
const NCAR: [u8; 4] = [10, 3, 0, 2];

#[test]
fn flows_are_there_before_traffic() {
    let mut world = World::new(FOREVER, OURS);
    world.announce(1, r#"[{"name":"/tno","cost":1}]"#);
    for switch in [2, 3] {
        assert_eq!(world.way(switch, "/tno"), Some(TNO));
    }
    assert_eq!(world.way(1, "/tno"), None, "its own island serves it");
    let flow = world.peer(2).flows.iter().find(|flow| name_of(flow).is_some()).unwrap().clone();
    let value = |field| flow.matching.exact(field).map(<[u8]>::to_vec);
    assert_eq!(value(Field::Ipv4Dst), Some(vec![192, 0, 2, 1]));
    assert_eq!(value(Field::UdpDst), Some(6363u16.to_be_bytes().to_vec()));
    assert_eq!(value(Field::InPort), Some(1u32.to_be_bytes().to_vec()));
    assert!(flow.matching.fields.contains(&Oxm::NdnKind(1)), "Interests alone: {flow:?}");
    // The seed's actions.
    let sets: Vec<Field> = actions(&flow)
        .iter()
        .filter_map(|action| match action {
            Action::SetField(Oxm::Basic { field, .. }) => Some(*field),
            _ => None,
        })
        .collect();
    assert_eq!(sets, [Field::Ipv4Dst, Field::UdpSrc, Field::UdpDst, Field::EthDst]);
    assert!(actions(&flow).contains(&Action::SetNwTtl(128)));
    assert_eq!(out_port(actions(&flow)), Some(PortNumber(2)));
    // A switch that comes later gets them, too.
    world.disconnect(3);
    world.add(3, Kind::Ours);
    assert_eq!(world.way(3, "/tno"), Some(TNO));
    assert_eq!(world.controller.counters().interests, 0);
}

#[test]
fn programs_come_before_the_flows_that_ask_for_them() {
    let settings = "hold_ms = 0\nmatching = \"program\"\nprogram = { id = 9, file = \"-\" }";
    let mut world = World::new(settings, OURS);
    world.announce(1, r#"[{"name":"/tno/ping","cost":1}]"#);
    assert_eq!(world.peer(2).programs.get(&9), Some(&100));
    let flow = world.peer(2).flows.iter().find(|flow| name_of(flow).is_some()).unwrap();
    // The whole name is the parameter.
    assert_eq!(name_of(flow), Some(prefix("/tno/ping").value()));
    assert!(
        flow.matching
            .fields
            .iter()
            .any(|oxm| matches!(oxm, Oxm::Program { program: 9, result: u64::MAX, .. }))
    );
}

#[test]
fn an_unknown_name_is_asked_for_once_and_its_packet_is_not_lost() {
    let mut world = World::new(REACTIVE, OURS);
    world.announce(1, r#"[{"name":"/tno","cost":1}]"#);
    assert!(world.peer(2).names().is_empty(), "nobody has asked yet");
    world.peer(2).holds_barriers = true;
    world.interest(2, "/tno/ping/1");
    world.interest(2, "/tno/ping/2");
    assert_eq!(world.peer(2).names(), ["/tno"]);
    assert!(world.peer(2).packets_out.is_empty(), "the flow may not be there yet");
    world.release_barriers(2);
    let packets = std::mem::take(&mut world.peer(2).packets_out);
    for (packet, name) in packets.iter().zip(["/tno/ping/1", "/tno/ping/2"]) {
        assert_eq!(packet.data, frame([192, 0, 2, 1], 6363, &interest(name)));
        assert_eq!(destination(&packet.actions), Some(TNO));
        assert_eq!(packet.in_port, PortNumber(1));
    }
    assert_eq!(packets.len(), 2);
    // Switch 3 was not asked by anybody.
    assert!(world.peer(3).names().is_empty());
    let counters = *world.controller.counters();
    assert_eq!((counters.interests, counters.interests_forwarded, counters.flows_added), (2, 2, 1));
}

#[test]
fn prefixes_are_whole_components_and_the_longest_wins() {
    let mut world = World::new(REACTIVE, OURS);
    world.announce(1, r#"[{"name":"/t","cost":1},{"name":"/x","cost":1}]"#);
    world.announce(3, r#"[{"name":"/x/tno","cost":9}]"#);
    world.interest(2, "/tno/1");
    assert_eq!(world.controller.counters().interests_without_route, 1, "/t is not /tno");
    world.interest(2, "/x/tno/1");
    let packet = world.peer(2).packets_out.pop().unwrap();
    assert_eq!(destination(&packet.actions), Some(NCAR));
    assert_eq!(world.peer(2).names(), ["/x/tno"]);
    world.interest(2, "/x/1");
    assert_eq!(world.way(2, "/x"), Some(TNO));
    let flows = &world.peer(2).flows;
    let priority = |uri: &str| {
        let prefix = prefix(uri);
        flows.iter().find(|flow| name_of(flow) == Some(prefix.value())).unwrap().priority
    };
    assert!(priority("/x/tno") > priority("/x"));
}

/// A flow for a short prefix would keep Interests for a longer one from the controller.
#[test]
fn a_longer_prefix_is_never_caught_by_the_flow_of_a_shorter_one() {
    let mut world = World::new(REACTIVE, OURS);
    world.announce(1, r#"[{"name":"/x","cost":1}]"#);
    world.interest(2, "/x/1");
    world.announce(3, r#"[{"name":"/x/y","cost":1}]"#);
    assert_eq!(world.way(2, "/x/y"), Some(NCAR), "announced after the flow for /x");
    world.announce(3, r#"[{"name":"/a/b","cost":1}]"#);
    world.announce(1, r#"[{"name":"/a","cost":1}]"#);
    world.interest(2, "/a/1");
    assert_eq!(world.way(2, "/a/b"), Some(NCAR), "announced before the flow for /a");
    assert_eq!(world.way(2, "/a"), Some(TNO));
}

#[test]
fn a_switch_that_knows_no_names_asks_about_each_interest() {
    for settings in [FOREVER, REACTIVE] {
        let mut world = World::new(settings, [Kind::Ours, Kind::Plain, Kind::Ours]);
        world.announce(1, r#"[{"name":"/tno","cost":1}]"#);
        for count in 1..=3 {
            world.interest(2, "/tno/1");
            assert_eq!(world.peer(2).packets_out.len(), count);
        }
        assert!(world.peer(2).names().is_empty());
        assert_eq!(destination(&world.peer(2).packets_out[0].actions), Some(TNO));
        assert_eq!(world.controller.counters().errors_from_switches, 0);
    }
}

#[test]
fn announcements_come_through_switches_too() {
    let mut world = World::new(FOREVER, OURS);
    let text = br#"[{"name":"/tno","cost":1}]"#;
    world.packet_in(1, frame([224, 0, 23, 170], 46363, text));
    assert_eq!(world.way(2, "/tno"), Some(TNO));
    assert_eq!(world.controller.counters().announcements_by_packet_in, 1);
}

/// Two islands with one prefix: what can happen to the cheaper one, and how long that takes to be noticed.
#[test]
fn the_other_island_takes_over_within_a_second() {
    let both = |world: &mut World| {
        world.announce(1, r#"[{"name":"/video","cost":10}]"#);
        world.announce(3, r#"[{"name":"/video","cost":20}]"#);
    };
    let only_csu_and_ncar = |world: &mut World| {
        world.announce(3, r#"[{"name":"/video","cost":20}]"#);
    };
    type Fault = fn(&mut World);
    let faults: [(&str, Fault); 6] = [
        ("its switch's connection is lost", |world| world.disconnect(1)),
        ("its switch is silent", |world| world.silence(1)),
        ("the port to it goes down", |world| world.set_port(1, 1, false)),
        ("its switch's port to the network goes down", |world| world.set_port(1, 2, false)),
        ("it withdraws the name", |world| {
            world.announce(1, r#"[{"name":"/video","withdraw":true}]"#);
        }),
        ("it is no longer heard of", |_| {}),
    ];
    for (what, fault) in faults {
        let mut world = World::new("", OURS);
        // Announcements every quarter of a second, as islands send them.
        for _ in 0..8 {
            both(&mut world);
            world.pass(SECOND / 4, |_| {});
        }
        assert_eq!(world.way(2, "/video"), Some(TNO), "{what}: the cheaper one");
        fault(&mut world);
        let (at, mut taken_over) = (world.now, None);
        let keeps_announcing =
            !matches!(what, "it withdraws the name" | "it is no longer heard of");
        for _ in 0..6 {
            if keeps_announcing {
                both(&mut world)
            } else {
                only_csu_and_ncar(&mut world)
            }
            world.pass(SECOND / 4, |world| {
                if world.way(2, "/video") == Some(NCAR) {
                    taken_over.get_or_insert(world.now);
                }
            });
        }
        let took = taken_over.unwrap_or_else(|| panic!("{what}: nobody took over")).since(at);
        assert!(took < SECOND, "{what}: {took:?}");
        assert!(world.controller.counters().failovers > 0);
    }
}

#[test]
fn the_cheaper_island_takes_back_what_it_serves() {
    let mut world = World::new(FOREVER, OURS);
    world.announce(1, r#"[{"name":"/video","cost":10}]"#);
    world.announce(3, r#"[{"name":"/video","cost":20}]"#);
    world.set_port(1, 1, false);
    assert_eq!(world.way(2, "/video"), Some(NCAR));
    world.set_port(1, 1, true);
    assert_eq!(world.way(2, "/video"), Some(TNO));
    world.announce(3, r#"[{"name":"/video","cost":5}]"#);
    assert_eq!(world.way(2, "/video"), Some(NCAR));
    // Each island's own Interests go to the other one.
    assert_eq!(world.way(1, "/video"), Some(NCAR));
    assert_eq!(world.way(3, "/video"), Some(TNO));
    // When no island can be reached, flows stay as they are rather than go.
    world.set_port(3, 1, false);
    world.set_port(1, 1, false);
    assert!(world.way(2, "/video").is_some());
    // All is withdrawn by an empty list.
    world.announce(1, "[]");
    world.announce(3, "[]");
    assert_eq!(world.way(2, "/video"), None);
}

#[test]
fn a_controller_that_starts_again_goes_on() {
    let mut world = World::new("", OURS);
    world.announce(1, r#"[{"name":"/tno","cost":1},{"name":"/old","cost":1}]"#);
    let state = world.controller.state();
    assert_eq!(state.routes.len(), 2);
    let flows = world.peer(2).flows.clone();

    // The next one finds the flows of this one on the switches.
    let mut next = World::without_switches("", Some(state.clone()));
    next.add(2, Kind::Ours);
    assert_eq!(next.peer(2).names(), ["/old", "/tno"], "without a word from anybody");
    next.peer(2).flows.extend(flows.clone());
    let fresh = next.peer(2).flows.len() - flows.len();
    next.disconnect(2);
    let mut again = World::without_switches("", Some(next.controller.state()));
    again.add(2, Kind::Ours);
    again.peer(2).flows.extend(flows);
    // What was there before is taken away when the switch is set up, and nothing else is.
    let mine = again.peer(2).flows.clone();
    let id = again.peer(2).id.unwrap();
    again.controller.disconnect(again.now, id);
    again.peers.clear();
    again.add(2, Kind::Ours);
    assert_eq!(again.peer(2).flows.len(), fresh);
    assert!(mine.len() > fresh);
    // What is not announced again ends.
    again.pass(SECOND * 4, |_| {});
    again.announce(1, r#"[{"name":"/tno","cost":1}]"#);
    again.pass(SECOND / 2, |_| {});
    assert_eq!(again.peer(2).names(), ["/old", "/tno"]);
    again.pass(SECOND, |world| world.announce(1, r#"[{"name":"/tno","cost":1}]"#));
    assert_eq!(again.peer(2).names(), ["/tno"]);
}

#[test]
fn flows_of_other_epochs_go_and_those_of_others_stay() {
    let mut world = World::new(FOREVER, OURS);
    world.announce(1, r#"[{"name":"/tno","cost":1}]"#);
    let mut left = world.peer(2).flows.clone();
    // As they are left on a switch while the controller does not see it.
    left.iter_mut().for_each(|flow| flow.priority += 100);
    let mut of_operator = left[0].clone();
    of_operator.cookie = 0;
    of_operator.priority = 7;
    world.disconnect(2);
    world.announce(1, "[]");
    let id = world.controller.connect(world.now);
    world.peers.push({
        let mut other = World::without_switches(FOREVER, None);
        other.add(2, Kind::Ours);
        let mut peer = other.peers.pop().unwrap();
        peer.id = Some(id);
        peer.flows = left.clone();
        peer.flows.push(of_operator.clone());
        peer
    });
    world.settle();
    assert_eq!(world.peer(2).names(), Vec::<String>::new());
    let flows = &world.peer(2).flows;
    assert!(flows.contains(&of_operator));
    assert!(left.iter().all(|old| !flows.contains(old)));
    // Announcements, unknown names, from the island, to the island.
    assert_eq!(flows.len(), 4 + 1);
}

#[test]
fn hostile_announcements_are_counted_and_change_nothing() {
    let mut world = World::new("max_names = 1000\nhold_ms = 0", OURS);
    world.announce(1, r#"[{"name":"/good","cost":1}]"#);
    let deep = "[".repeat(60_000);
    let huge = format!(r#"[{{"name":"/{}"}}]"#, "a".repeat(60_000));
    let endless = format!("[{}]", vec!["0"; MAX_NAMES + 1].join(","));
    for text in ["", "[", "{}", "[{]", "\u{0}", &deep, "\u{64}\u{fd}\u{ff}\u{ff}"] {
        world.announce(1, text);
    }
    world.announce(1, &endless);
    world.announce(1, &huge);
    for name in ["", "/", "good", "/a//b", "/%zz", "/..", "/70000=a", "/sha256digest=00"] {
        world.announce(1, &format!(r#"[{{"name":"{name}","cost":1}}]"#));
    }
    for entry in ["3", "null", r#"{"cost":1}"#, r#"{"name":7}"#, r#"{"name":"/a","cost":-1}"#] {
        world.announce(1, &format!("[{entry}]"));
    }
    // From nobody's address.
    world.announce(99, r#"[{"name":"/evil","cost":0}]"#);
    let counters = *world.controller.counters();
    assert_eq!(counters.announcements_malformed, 7);
    assert_eq!(counters.announcements_too_large, 1);
    assert_eq!(counters.names_bad, 1 + 8 + 5);
    assert_eq!(counters.announcements_from_strangers, 1);
    assert_eq!(world.peer(2).names(), ["/good"]);
    // Unknown keys do no harm.
    world.announce(1, r#"[{"name":"/also","cost":1,"colour":"red","nested":{"a":[1]}}]"#);
    assert_eq!(world.peer(2).names(), ["/also", "/good"]);
}

#[test]
fn a_million_prefixes_of_one_island_are_bounded() {
    const LIMIT: u64 = 500;
    let mut world = World::new(&format!("max_names = {LIMIT}\nhold_ms = 0"), OURS);
    world.announce(3, r#"[{"name":"/ncar","cost":1}]"#);
    for thousand in 0..1000 {
        let entries: Vec<String> = (0..1000)
            .map(|number| format!(r#"{{"name":"/flood/{thousand}/{number}","cost":1}}"#))
            .collect();
        world.announce(1, &format!("[{}]", entries.join(",")));
    }
    let counters = *world.controller.counters();
    assert_eq!(counters.names_announced, LIMIT + 1);
    assert_eq!(counters.names_beyond_limit, 1_000_000 - LIMIT);
    assert_eq!(world.controller.rib().len() as u64, LIMIT + 1);
    // The others have their say as before.
    world.announce(3, r#"[{"name":"/ncar/new","cost":1}]"#);
    assert_eq!(world.way(2, "/ncar/new"), Some(NCAR));
}

#[test]
fn a_stranger_behind_a_port_is_not_believed() {
    let mut world = World::new(FOREVER, OURS);
    let mut packet = frame([224, 0, 23, 170], 46363, br#"[{"name":"/evil","cost":0}]"#);
    // Switch 1's island port is 1; this came in on another.
    let say = |world: &mut World, port: u32, data: &[u8]| {
        let in_port =
            Oxm::Basic { field: Field::InPort, value: port.to_be_bytes().to_vec(), mask: None };
        world.say(
            1,
            Body::PacketIn(heddle_openflow::PacketIn {
                buffer: heddle_openflow::NO_BUFFER,
                total_len: data.len() as u16,
                reason: heddle_openflow::Reason::Action,
                table: 0,
                cookie: 0,
                matching: heddle_openflow::Match { fields: vec![in_port] },
                data: data.to_vec(),
            }),
        );
    };
    say(&mut world, 2, &packet);
    assert_eq!(world.controller.counters().packets_from_strangers, 1);
    packet.truncate(30);
    say(&mut world, 1, &packet);
    say(&mut world, 1, &frame([192, 0, 2, 1], 6363, &tlv(6, &[1, 2, 3])));
    assert_eq!(world.controller.counters().packets_other, 2);
    assert!(world.controller.rib().is_empty());
}

#[test]
fn who_breaks_the_protocol_is_let_go() {
    let mut world = World::new(FOREVER, OURS);
    // A length that cannot be, no hello first, a hello of OpenFlow 1.0 alone, something else altogether.
    for octets in [
        &[4u8, 0, 0, 4, 0, 0, 0, 0][..],
        &[4, 14, 0, 8, 0, 0, 0, 1],
        &[1, 0, 0, 8, 0, 0, 0, 1],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let id = world.controller.connect(world.now);
        world.controller.receive(world.now, id, octets);
        world.controller.receive(world.now, id, &[0; 70_000]);
        assert!(world.controller.take_closed().contains(&id), "{octets:?}");
    }
    // The others do not notice.
    world.announce(1, r#"[{"name":"/tno","cost":1}]"#);
    assert_eq!(world.way(2, "/tno"), Some(TNO));
    assert_eq!(world.way(3, "/tno"), Some(TNO));
    // The same switch once more takes the place of its first connection.
    world.add(2, Kind::Ours);
    assert_eq!(world.controller.counters().connections_replaced, 1);
    assert_eq!(world.controller.ready_switches().len(), 3);
    assert_eq!(destination(actions(&world.peers[2].flows[4])), Some(TNO));
}

/// Whatever islands do, in the end the flows are those of the routes that are there.
#[derive(Clone, Debug)]
enum Event {
    Announce(u8, usize, u64),
    Withdraw(u8, usize),
    Port(u64, bool),
    Interest(u64, usize),
    Reconnect(u64),
}

const NAMES: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/b", "/ab", "/a/bc"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1u8..4, 0..NAMES.len(), 0u64..4)
            .prop_map(|(island, name, cost)| Event::Announce(island, name, cost)),
        (1u8..4, 0..NAMES.len()).prop_map(|(island, name)| Event::Withdraw(island, name)),
        (1u64..4, any::<bool>()).prop_map(|(switch, is_up)| Event::Port(switch, is_up)),
        (1u64..4, 0..NAMES.len()).prop_map(|(switch, name)| Event::Interest(switch, name)),
        (1u64..4).prop_map(Event::Reconnect),
    ]
}

/// Where an Interest for `name` goes by a switch's flows; and by the routes, told from scratch.
fn by_flows(world: &mut World, switch: u64, name: &str) -> Option<[u8; 4]> {
    let name = prefix(name);
    let flows = world.peer(switch).flows.iter();
    let matching =
        flows.filter(|flow| name_of(flow).is_some_and(|value| name.value().starts_with(value)));
    matching.max_by_key(|flow| flow.priority).and_then(|flow| destination(actions(flow)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn flows_follow_routes(events in prop::collection::vec(event(), 1..40), is_reactive in any::<bool>()) {
        let mut world = World::new(if is_reactive { REACTIVE } else { FOREVER }, OURS);
        let mut costs = std::collections::BTreeMap::<(usize, u8), u64>::new();
        let mut up = [true; 4];
        for event in events {
            match event {
                Event::Announce(island, name, cost) => {
                    costs.insert((name, island), cost);
                    world.announce(island, &format!(r#"[{{"name":"{}","cost":{cost}}}]"#, NAMES[name]));
                }
                Event::Withdraw(island, name) => {
                    costs.remove(&(name, island));
                    world.announce(island, &format!(r#"[{{"name":"{}","withdraw":true}}]"#, NAMES[name]));
                }
                Event::Port(switch, is_up) => {
                    up[switch as usize] = is_up;
                    world.set_port(switch, 1, is_up);
                }
                Event::Interest(switch, name) => {
                    let before = world.peer(switch).packets_out.len();
                    world.interest(switch, NAMES[name]);
                    let sent = world.peer(switch).packets_out.len() - before;
                    let longest = longest(&costs, switch as u8, NAMES[name]);
                    prop_assert_eq!(sent, usize::from(longest.is_some()), "a packet was lost");
                }
                Event::Reconnect(switch) => {
                    up[switch as usize] = true;
                    world.disconnect(switch);
                    world.add(switch, Kind::Ours);
                }
            }
            for switch in 1..=3 {
                for name in NAMES {
                    let Some(prefix) = longest(&costs, switch as u8, name) else {
                        prop_assert_eq!(by_flows(&mut world, switch, name), None);
                        continue;
                    };
                    let way = by_flows(&mut world, switch, name);
                    // Where there is no flow the switch asks, in reactive mode.
                    if is_reactive && way.is_none() {
                        continue;
                    }
                    let others = (1..=3u8).filter(|island| u64::from(*island) != switch);
                    let serving = others.filter_map(|island| {
                        let cost = costs.get(&(prefix, island))?;
                        Some((!up[usize::from(island)], *cost, island))
                    });
                    let (.., island) = serving.min().unwrap();
                    prop_assert_eq!(way, Some([10, island, 0, 2]), "{} at {}", name, switch);
                }
            }
        }
    }
}

/// The longest announced prefix of a name, announced by another island than the switch's own.
fn longest(
    costs: &std::collections::BTreeMap<(usize, u8), u64>,
    own: u8,
    name: &str,
) -> Option<usize> {
    let name = prefix(name);
    let announced = costs.keys().filter(|(_, island)| *island != own).map(|(prefix, _)| *prefix);
    announced
        .filter(|at| prefix(NAMES[*at]).covers(&name))
        .max_by_key(|at| prefix(NAMES[*at]).components())
}
