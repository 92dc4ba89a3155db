//! CODED IP over whole networks: the 22-node testbed of the paper, random networks, faults and hostile input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;

use heddle_core::coded::{CodedNode, Cut, PortSettings, Role, SessionRule, Settings};
use heddle_core::node::{Instant, PortId, PortSet};
use serde::Deserialize;
use simulator::{
    Endpoint, LinkSettings, Memories, Network, coded_node, ip_frame, udp_frame, udp_payload,
};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const SOURCE: [u8; 4] = [10, 0, 0, 1];
const GROUP: [u8; 4] = [239, 1, 1, 1];
const SESSION_ID: u8 = 1;
const HOST_PORT: PortId = PortId(31);
const PAYLOAD_OCTETS: usize = 1408;

/// A network as a list of links between named nodes.
struct Plan {
    nodes: Vec<String>,
    source: usize,
    /// (from, to) pairs; each has the same rate.
    links: Vec<(usize, usize)>,
    destinations: Vec<usize>,
}

/// A running network and where its things are.
struct Running<'m> {
    memories: &'m Memories,
    network: Network<'m>,
    plan: Plan,
    /// The host behind each destination.
    host_of: HashMap<usize, usize>,
    settings: Settings,
    rules: Vec<SessionRule>,
    ports: Vec<Vec<PortSettings>>,
}

impl Plan {
    fn testbed_22() -> Self {
        #[derive(Deserialize)]
        struct Link {
            from: String,
            to: String,
        }
        #[derive(Deserialize)]
        struct Topology {
            source: String,
            switches: Vec<String>,
            links: Vec<Link>,
            destinations: Vec<String>,
        }
        let path = format!("{}/tests/cases/coded/topology.json", env!("CARGO_MANIFEST_DIR"));
        let topology: Topology =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut nodes = vec![topology.source];
        nodes.extend(topology.switches);
        let index = |name: &String| nodes.iter().position(|node| node == name).unwrap();
        Self {
            source: 0,
            links: topology.links.iter().map(|link| (index(&link.from), index(&link.to))).collect(),
            destinations: topology.destinations.iter().map(index).collect(),
            nodes: nodes.clone(),
        }
    }

    fn node(&self, name: &str) -> usize {
        self.nodes.iter().position(|node| node == name).unwrap()
    }

    /// Link-disjoint paths from the source to `to`, by augmenting paths.
    fn max_flow(&self, to: usize) -> usize {
        let mut used = vec![false; self.links.len()];
        let mut flow = 0;
        loop {
            // Breadth first over links that are free forwards or used backwards.
            let mut came_by = HashMap::from([(self.source, None)]);
            let mut queue = std::collections::VecDeque::from([self.source]);
            while let Some(node) = queue.pop_front() {
                for (link, &(a, b)) in self.links.iter().enumerate() {
                    let next = match (a == node && !used[link], b == node && used[link]) {
                        (true, _) => b,
                        (_, true) => a,
                        _ => continue,
                    };
                    came_by.entry(next).or_insert_with(|| {
                        queue.push_back(next);
                        Some((node, link))
                    });
                }
            }
            let Some(mut step) = came_by.get(&to).copied() else { return flow };
            while let Some((node, link)) = step {
                used[link] = !used[link];
                step = came_by[&node];
            }
            flow += 1;
        }
    }

    fn outputs(&self, node: usize) -> PortSet {
        // A node's output ports are numbered by its links, in the order of the list.
        (0..self.links.iter().filter(|link| link.0 == node).count())
            .map(|index| PortId(index as u8))
            .collect()
    }

    /// Builds and connects the nodes; every destination has one host.
    fn start(
        self,
        memories: &Memories,
        settings: Settings,
        rate: u64,
        k: u8,
        cut: Cut,
        link: LinkSettings,
    ) -> Running<'_> {
        let mut rules = Vec::new();
        let mut ports = Vec::new();
        for node in 0..self.nodes.len() {
            let outputs = self.outputs(node);
            let role = if node == self.source {
                Role::Source { cut, generation_size: k, redundancy: 0, udp_port: None, outputs }
            } else if self.destinations.contains(&node) {
                Role::Destination { cut, deliver: PortSet::EMPTY.with(HOST_PORT) }
            } else {
                Role::Forwarder { outputs }
            };
            rules.push(SessionRule {
                session_id: SESSION_ID,
                group: GROUP,
                source: None,
                inputs: PortSet::EMPTY,
                role,
            });
            let mut node_ports = vec![PortSettings::default(); 32];
            for port in outputs.iter() {
                node_ports[usize::from(port.0)].octets_per_second = Some(rate);
            }
            ports.push(node_ports);
        }
        let nodes = (0..self.nodes.len())
            .map(|node| new_node(memories, settings, &ports[node], &rules[node], node))
            .collect();
        let mut network = Network::new(nodes, self.destinations.len(), settings.seed + 1);
        for node in 0..self.nodes.len() {
            let from_here = self.links.iter().filter(|link| link.0 == node);
            for (index, &(_, to)) in from_here.enumerate() {
                // Input ports are numbered from above, one for each link into the node.
                let input =
                    self.links.iter().filter(|l| l.1 == to).position(|l| l.0 == node).unwrap();
                let into = Endpoint::Node(to, PortId(16 + input as u8));
                network.connect(node, PortId(index as u8), into, link);
            }
        }
        let mut host_of = HashMap::new();
        for (host, &destination) in self.destinations.iter().enumerate() {
            host_of.insert(destination, host);
            let free = LinkSettings { octets_per_second: None, loss_per_mille: 0, ..link };
            network.connect(destination, HOST_PORT, Endpoint::Host(host), free);
        }
        Running { memories, network, plan: self, host_of, settings, rules, ports }
    }
}

fn new_node<'m>(
    memories: &'m Memories,
    settings: Settings,
    ports: &[PortSettings],
    rule: &SessionRule,
    number: usize,
) -> CodedNode<'m> {
    let settings = Settings { seed: settings.seed * 1000 + number as u64, ..settings };
    coded_node(memories, settings, ports, &[*rule], 2, 160)
}

fn link(rate: u64) -> LinkSettings {
    LinkSettings {
        octets_per_second: Some(rate),
        delay: Duration::from_micros(300),
        queue_octets: 8_000,
        loss_per_mille: 0,
    }
}

/// The datagram that the sender numbers `number`.
fn datagram(number: u32, octets: usize) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..octets as u32)
        .map(|i| (i.wrapping_mul(31) ^ number.wrapping_mul(2_654_435_761)) as u8)
        .collect();
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload
}

impl<'m> Running<'m> {
    /// Sends `count` datagrams at even intervals and runs until they have had time to arrive.
    fn send(&mut self, count: u32, octets: usize, interval: Duration) {
        let start = self.network.now;
        for number in 0..count {
            let when = start.after(interval * number);
            let frame = udp_frame(SOURCE, GROUP, 5001, &datagram(number, octets));
            self.network.inject(when, self.plan.source, HOST_PORT, frame);
        }
        self.network.run_until(start.after(interval * count + Duration::from_secs(2)));
    }

    /// The numbers of the datagrams that the host behind `destination` got; each must be right, and none come twice.
    fn received(&self, destination: usize) -> HashSet<u32> {
        let mut numbers = HashSet::new();
        for (_, frame) in &self.network.hosts[self.host_of[&destination]] {
            let payload = udp_payload(frame);
            let number = u32::from_be_bytes(payload[..4].try_into().unwrap());
            assert_eq!(
                payload,
                datagram(number, payload.len()),
                "datagram {number} is not as sent"
            );
            assert!(numbers.insert(number), "datagram {number} came twice");
        }
        numbers
    }

    fn restart(&mut self, node: usize) {
        let new = new_node(
            self.memories,
            self.settings,
            &self.ports[node],
            &self.rules[node],
            node + 100,
        );
        self.network.nodes[node] = Some(new);
    }

    fn counter(&self, node: usize, name: &str) -> u64 {
        self.network.nodes[node].as_ref().unwrap().counter(name).unwrap()
    }
}

/// Octets of a coded frame of the testbed: Ethernet, IP, coded header, vector, block.
fn coded_frame_octets(payload: usize, k: usize) -> usize {
    14 + 20 + 8 + k + (payload + 8).div_ceil(k).next_multiple_of(8)
}

/// How long one generation of K = 3 occupies the source's links when they are filled to `load`.
fn interval(rate: u64, load: f64) -> Duration {
    Duration::from_secs_f64(coded_frame_octets(PAYLOAD_OCTETS, 3) as f64 / (rate as f64 * load))
}

#[test]
fn the_testbed_carries_its_max_flow_to_every_edge() {
    let memories = Memories::new();
    let rate = 45_000;
    let mut running = Plan::testbed_22().start(
        &memories,
        Settings::default(),
        rate,
        3,
        Cut::Datagram,
        link(rate),
    );
    let sent = 1500;
    running.send(sent, PAYLOAD_OCTETS, interval(rate, 0.985));
    let payload_share = PAYLOAD_OCTETS as f64 / (3 * coded_frame_octets(PAYLOAD_OCTETS, 3)) as f64;
    for destination in running.plan.destinations.clone() {
        let name = &running.plan.nodes[destination];
        assert_eq!(running.plan.max_flow(destination), 3);
        assert_eq!(running.received(destination).len(), sent as usize, "{name}");
        let arrivals = &running.network.hosts[running.host_of[&destination]];
        let seconds = arrivals.last().unwrap().0.as_nanos() as f64 / 1e9;
        let goodput = f64::from(sent) * PAYLOAD_OCTETS as f64 / seconds;
        let bound = 3.0 * rate as f64 * payload_share;
        assert!(goodput / bound > 0.97, "{name}: {:.3} of the max-flow", goodput / bound);
    }
    // E has two inputs and one output: it codes, and it does not double its output.
    let e = running.plan.node("E");
    let (octets, lost) = running.network.link_load(e, PortId(0));
    assert_eq!(lost, 0);
    let packets = octets / coded_frame_octets(PAYLOAD_OCTETS, 3) as u64;
    assert!((1500..1520).contains(&packets), "{packets} packets from E for 1500 generations");
}

#[test]
fn the_literal_rule_sends_one_packet_a_link_for_each_innovative_arrival() {
    let memories = Memories::new();
    let settings =
        Settings { sending: heddle_core::coded::SendingRule::Literal, ..Settings::default() };
    let mut running =
        Plan::testbed_22().start(&memories, settings, 45_000, 3, Cut::Datagram, link(1_000_000));
    running.send(200, PAYLOAD_OCTETS, Duration::from_millis(2));
    for node in ["A", "B", "C", "D", "E", "F"] {
        let node = running.plan.node(node);
        let outputs = running.plan.outputs(node).len() as u64;
        assert_eq!(
            running.counter(node, "packets_recoded"),
            running.counter(node, "packets_innovative") * outputs
        );
    }
    assert_eq!(running.counter(running.plan.node("E"), "packets_recoded"), 400);
    for destination in running.plan.destinations.clone() {
        assert_eq!(running.received(destination).len(), 200);
    }
}

#[test]
fn generations_of_several_datagrams_arrive_too() {
    let memories = Memories::new();
    // With K no multiple of the source's three links some generations need one packet more than others on E's link:
    // K = 16 takes 5.67 of them on average where each source link carries 5.33, so there the links must have room.
    for (k, payload, load) in [(3, 1400, 0.97), (15, 1400, 0.97), (6, 100, 0.97), (16, 1400, 0.9)] {
        let rate = 1_000_000;
        let cut = Cut::Packets { flush_after: Duration::from_millis(50) };
        let mut running =
            Plan::testbed_22().start(&memories, Settings::default(), rate, k, cut, link(rate));
        let frame = 14 + 20 + 8 + usize::from(k) + (payload + 8usize).next_multiple_of(8);
        // Not a multiple of K: the last generation is short.
        let sent = 1001;
        running.send(
            sent,
            payload,
            Duration::from_secs_f64(frame as f64 / (3.0 * rate as f64 * load)),
        );
        for destination in running.plan.destinations.clone() {
            let name = &running.plan.nodes[destination];
            let missed = sent as usize - running.received(destination).len();
            // For K = 3 the testbed leaves nothing to chance. Else about one generation in a hundred
            // brings some edge a packet that tells it nothing new.
            let allowed = if k == 3 { 0 } else { 3 * usize::from(k) };
            assert!(missed <= allowed, "K = {k}: {missed} missed at {name}");
        }
    }
}

/// A random network without cycles: nodes in an order, links only forwards, two to four into each node.
fn random_plan(seed: u64) -> Plan {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let nodes = 5 + random(7);
    let mut links = HashSet::new();
    for to in 1..nodes {
        for _ in 0..1 + random(4) {
            // A node keeps at most 8 outputs; a repeated draw is one link.
            links.insert((random(to), to));
        }
    }
    let mut links: Vec<_> = links.into_iter().collect();
    links.sort_unstable();
    let has_outputs = |node: usize| links.iter().any(|link| link.0 == node);
    Plan {
        nodes: (0..nodes).map(|node| format!("n{node}")).collect(),
        source: 0,
        destinations: (1..nodes).filter(|node| !has_outputs(*node)).collect(),
        links,
    }
}

#[test]
fn in_random_networks_every_destination_whose_min_cut_allows_decodes() {
    let (mut decoding, mut generations, mut missed) = (0, 0, 0);
    for seed in 0..400 {
        let flows: Vec<usize> = {
            let plan = random_plan(seed);
            plan.destinations.iter().map(|to| plan.max_flow(*to)).collect()
        };
        let plan = random_plan(seed);
        let source_outputs = plan.outputs(0).len();
        for k in 1..=source_outputs.min(4) {
            let rate = 100_000;
            let memories = Memories::new();
            let settings = Settings {
                seed,
                max_generation_size: 4,
                max_block_octets: 512,
                ..Settings::default()
            };
            let mut running = random_plan(seed).start(
                &memories,
                settings,
                rate,
                k as u8,
                Cut::Datagram,
                link(rate),
            );
            let sent = 40;
            // One packet a link for each generation is what the links have room for; a source with more links than K sends on all.
            let frame = coded_frame_octets(400, k);
            running.send(sent, 400, Duration::from_secs_f64(frame as f64 / (rate as f64 * 0.95)));
            for (destination, flow) in running.plan.destinations.clone().into_iter().zip(&flows) {
                let received = running.received(destination).len();
                if *flow < k {
                    continue;
                }
                decoding += 1;
                generations += sent as usize;
                missed += sent as usize - received;
                assert!(
                    received * 10 >= sent as usize * 9,
                    "seed {seed}, K = {k}, n{destination}: {received} of {sent} with a min-cut of {flow}"
                );
            }
        }
    }
    // Random coefficients fail now and then: at a node that codes, with probability below 1 / 255 for each packet.
    assert!(decoding > 500, "only {decoding} destinations could decode");
    assert!(missed * 100 < generations, "{missed} of {generations} generations missed");
}

#[test]
fn a_switch_that_dies_and_returns_costs_only_what_passed_meanwhile() {
    let memories = Memories::new();
    let rate = 45_000;
    let mut running = Plan::testbed_22().start(
        &memories,
        Settings::default(),
        rate,
        3,
        Cut::Datagram,
        link(rate),
    );
    let d = running.plan.node("D");
    running.network.at(Instant::from_nanos(4_000_000_000), move |network| network.nodes[d] = None);
    let count = 1000;
    let step = interval(rate, 0.98);
    let start = running.network.now;
    for number in 0..count {
        let frame = udp_frame(SOURCE, GROUP, 5001, &datagram(number, PAYLOAD_OCTETS));
        running.network.inject(start.after(step * number), running.plan.source, HOST_PORT, frame);
    }
    running.network.run_until(Instant::from_nanos(6_000_000_000));
    running.restart(d);
    running.network.run_until(start.after(step * count + Duration::from_secs(2)));
    // Only H is behind D.
    for name in ["G", "I"] {
        assert_eq!(running.received(running.plan.node(name)).len(), count as usize, "{name}");
    }
    let at_h = running.received(running.plan.node("H")).len();
    let gap = 2.0 / step.as_secs_f64();
    let expected = f64::from(count) - gap;
    assert!((at_h as f64 - expected).abs() < 20.0, "{at_h} at H, {expected} expected");
    assert!(
        running.received(running.plan.node("H")).contains(&(count - 1)),
        "H goes on after the restart"
    );
}

#[test]
fn a_source_that_restarts_is_followed() {
    let memories = Memories::new();
    let rate = 1_000_000;
    let mut running = Plan::testbed_22().start(
        &memories,
        Settings::default(),
        rate,
        3,
        Cut::Datagram,
        link(rate),
    );
    running.send(300, PAYLOAD_OCTETS, interval(rate, 0.9));
    running.restart(running.plan.source);
    for host in &mut running.network.hosts {
        host.clear();
    }
    running.send(300, PAYLOAD_OCTETS, interval(rate, 0.9));
    for destination in running.plan.destinations.clone() {
        // A few packets on each link go by until the new GEN_IDs are believed.
        let received = running.received(destination);
        assert!(received.len() > 260, "{} of 300", received.len());
        assert!(received.contains(&299));
    }
}

/// Frames that no honest node sends, in great number, for one input of a node.
fn hostile_frame(number: u32) -> (Vec<u8>, &'static str) {
    let mut random = number.wrapping_mul(2_654_435_761);
    let mut octet = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    let (id_high, id_low, source_octet) = (octet(), octet(), octet());
    let mut row: Vec<u8> = (0..3 + 472).map(|_| octet()).collect();
    row[0] |= 1;
    let coded = |header: [u8; 8], row: &[u8]| [&header[..], row].concat();
    let frame = |payload: &[u8]| ip_frame(SOURCE, GROUP, 253, 60, payload);
    match number / 2 % 8 {
        0 => (frame(&[17, 1, 0]), "header_truncated"),
        1 => (frame(&coded([17, 1, 0, 0, id_high, id_low, 0, 59], &row)), "gen_size_zero"),
        2 => (frame(&coded([17, 1, 0, 0, id_high, id_low, 3, 58], &row)), "block_len"),
        3 => (frame(&coded([17, 1, 0, 0, id_high, id_low, 3, 0], &row)), "block_len_zero"),
        4 => (frame(&coded([17, 99, 0, 0, id_high, id_low, 3, 59], &row)), "foreign_session"),
        5 => {
            let other = [10, 9, source_octet, id_low];
            let payload = coded([17, 1, 0, 0, id_high, id_low, 3, 59], &row);
            (ip_frame(other, GROUP, 253, 60, &payload), "session_table_full")
        }
        // New generations: in a row, and at random where no real one is near.
        6 => {
            let [high, low] = (40_000 + number as u16 / 16).to_be_bytes();
            (frame(&coded([17, 1, 0, 0, high, low, 3, 59], &row)), "gen_id_implausible")
        }
        _ => (frame(&coded([17, 1, 0, 0, id_high, id_low, 3, 59], &row)), "gen_id_implausible"),
    }
}

/// Where E gets the session from, and a port of E that has nothing to do with it.
const FROM_A: PortId = PortId(16);
const FROM_NOBODY: PortId = PortId(20);

#[test]
fn hostile_input_is_counted_and_harms_no_transfer() {
    let memories = Memories::new();
    let rate = 450_000;
    let mut running = Plan::testbed_22().start(
        &memories,
        Settings::default(),
        rate,
        3,
        Cut::Datagram,
        link(rate),
    );
    let count = 2000;
    let e = running.plan.node("E");
    running.rules[e].inputs = [FROM_A, PortId(17)].into_iter().collect();
    running.restart(e);
    // About nine hostile frames for each honest packet, on the link from A and on the other port.
    let mut expected: HashMap<&str, u64> = HashMap::new();
    for number in 0..40_000u32 {
        let when = Instant::from_nanos(50_000_000).after(Duration::from_micros(50) * number);
        let (frame, mut reason) = hostile_frame(number);
        let is_random = number / 2 % 8 == 7;
        let port = if number % 2 == 0 && !is_random { FROM_A } else { FROM_NOBODY };
        if port == FROM_NOBODY && ["gen_id_implausible", "session_table_full"].contains(&reason) {
            reason = "wrong_port";
        }
        *expected.entry(reason).or_default() += 1;
        running.network.inject(when, e, port, frame);
    }
    running.send(count, PAYLOAD_OCTETS, interval(rate, 0.98));
    for (reason, sent) in expected {
        let counted = running.counter(e, reason);
        match reason {
            // One made-up session finds a place.
            "session_table_full" => assert!(counted > sent / 2, "{reason}: {counted} of {sent}"),
            "gen_id_implausible" => {
                assert_eq!(counted + running.counter(e, "gen_id_late"), sent, "ahead or behind");
            }
            _ => assert_eq!(counted, sent, "{reason}"),
        }
    }
    let node = running.network.nodes[e].as_ref().unwrap();
    assert!(node.sessions() <= 2 && node.generations() <= 160, "memory is bounded");
    for destination in running.plan.destinations.clone() {
        assert_eq!(running.received(destination).len(), count as usize);
    }
}

#[test]
fn packets_made_up_on_the_session_s_own_link_harm_only_the_generations_that_they_name() {
    let memories = Memories::new();
    let rate = 450_000;
    let mut running = Plan::testbed_22().start(
        &memories,
        Settings::default(),
        rate,
        3,
        Cut::Datagram,
        link(rate),
    );
    let (count, made_up) = (2000, 20_000u32);
    let e = running.plan.node("E");
    for number in 0..made_up {
        let when = Instant::from_nanos(50_000_000).after(Duration::from_micros(100) * number);
        // Everything is right but the GEN_ID, which is random, and the contents.
        running.network.inject(when, e, FROM_A, hostile_frame(number * 16 + 14).0);
    }
    running.send(count, PAYLOAD_OCTETS, interval(rate, 0.98));
    // The window takes 166 of 65536 GEN_IDs.
    let near = made_up as usize * 166 / 65_536;
    for destination in running.plan.destinations.clone() {
        // What arrives is right (`received` looks), and what was hit is missing rather than wrong.
        let missed = count as usize - running.received(destination).len();
        assert!(missed <= near, "{missed} missed");
    }
}

#[test]
fn lost_packets_cost_their_generations_and_no_others() {
    let memories = Memories::new();
    let rate = 450_000;
    let lossy = LinkSettings { loss_per_mille: 10, ..link(rate) };
    let mut running =
        Plan::testbed_22().start(&memories, Settings::default(), rate, 3, Cut::Datagram, lossy);
    let count = 2000;
    running.send(count, PAYLOAD_OCTETS, interval(rate, 0.95));
    for destination in running.plan.destinations.clone() {
        // H lies behind up to four lossy links in a row on each of three paths: about 0.99^8 of the generations arrive.
        let received = running.received(destination).len();
        assert!((1750..2000).contains(&received), "{received}");
    }
}

#[test]
fn a_flood_of_sources_takes_no_place_of_a_session_whose_source_is_named() {
    let memories = Memories::new();
    let outputs = PortSet::EMPTY.with(PortId(0));
    let rule = |session_id, source| SessionRule {
        session_id,
        group: GROUP,
        source,
        inputs: PortSet::EMPTY,
        role: Role::Forwarder { outputs },
    };
    let rules = [rule(SESSION_ID, Some(SOURCE)), rule(2, None)];
    let ports = [PortSettings::default(); 2];
    let mut node = coded_node(&memories, Settings::default(), &ports, &rules, 4, 64);
    let packet = |source, session_id| {
        let payload = [&[17, session_id, 0, 0, 0, 1, 2, 1, 5, 6][..], &[7; 8]].concat();
        ip_frame(source, GROUP, 253, 9, &payload)
    };
    for last in 0..100 {
        simulator::receive(&mut node, Instant::ZERO, PortId(1), &packet([172, 16, 0, last], 2));
    }
    assert_eq!(node.sessions(), 3, "one of four places is kept");
    assert_eq!(node.counter("session_table_full"), Some(97));
    let (_, sent) =
        simulator::receive(&mut node, Instant::ZERO, PortId(1), &packet(SOURCE, SESSION_ID));
    assert_eq!((node.sessions(), sent.len()), (4, 1));
}
