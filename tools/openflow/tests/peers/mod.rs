//! What a controller talks to in tests: switches that keep flows as they are told, and the packets of islands.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use heddle_core::node::Instant;
use heddle_openflow::controller::{Config, ConnectionId, Controller, Prefix, State, write_number};
use heddle_openflow::{
    Action, Body, Command, Experiment, Features, Field, FlowMod, Framer, Hello, Instruction, Match,
    Message, NO_BUFFER, Oxm, PacketIn, PacketOut, Port, PortNumber, PortStatus, Reason, Refusal,
    Reply, ReplyBody, Request,
};

/// What kind of switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It knows names and programs.
    Ours,
    /// It knows nothing of our experimenter.
    Plain,
}

/// A switch without packets.
pub struct Peer {
    /// Its connection, where there is a controller in memory.
    pub id: Option<ConnectionId>,
    datapath_id: u64,
    kind: Kind,
    framer: Framer,
    pub flows: Vec<FlowMod>,
    pub packets_out: Vec<PacketOut>,
    pub programs: BTreeMap<u32, usize>,
    /// Keeps answers to barriers back.
    pub holds_barriers: bool,
    barriers: Vec<u32>,
    is_silent: bool,
}

/// A controller and its switches, with a clock of their own.
pub struct World {
    pub controller: Controller,
    pub now: Instant,
    pub peers: Vec<Peer>,
}

/// Three islands behind a switch each.
pub const THREE_ISLANDS: &str = r#"
    gateway = "192.0.2.1"
    [[island]]
    name = "tno"
    datapath_id = "1"
    forwarder = "10.1.0.2"
    next_hop = "02:00:00:00:01:01"
    [[island]]
    name = "csu"
    datapath_id = "2"
    forwarder = "10.2.0.2"
    next_hop = "02:00:00:00:02:01"
    [[island]]
    name = "ncar"
    datapath_id = "3"
    forwarder = "10.3.0.2"
    next_hop = "02:00:00:00:03:01"
"#;

pub fn prefix(uri: &str) -> Prefix {
    uri.parse().unwrap()
}

impl World {
    /// A controller with this configuration, and with switches 1, 2, 3.
    pub fn new(settings: &str, kinds: [Kind; 3]) -> Self {
        let mut world = Self::without_switches(settings, None);
        kinds.into_iter().enumerate().for_each(|(at, kind)| world.add(at as u64 + 1, kind));
        world
    }

    pub fn without_switches(settings: &str, state: Option<State>) -> Self {
        let config = Config::parse(&format!("{settings}\n{THREE_ISLANDS}")).unwrap();
        let now = Instant::ZERO;
        let controller = Controller::new(now, config, vec![7; 100], state);
        Self { controller, now, peers: Vec::new() }
    }

    pub fn add(&mut self, datapath_id: u64, kind: Kind) {
        let id = self.controller.connect(self.now);
        self.peers.push(Peer { id: Some(id), ..Peer::new(datapath_id, kind) });
        self.settle();
    }

    /// The switch of this number.
    pub fn peer(&mut self, datapath_id: u64) -> &mut Peer {
        self.peers.iter_mut().find(|peer| peer.datapath_id == datapath_id).unwrap()
    }

    /// Octets back and forth until nobody has anything to say.
    pub fn settle(&mut self) {
        loop {
            let output = self.controller.take_output();
            if output.is_empty() {
                break;
            }
            for (id, octets) in output {
                let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == Some(id)) else {
                    continue;
                };
                let answers = peer.take(&octets);
                if !answers.is_empty() {
                    self.controller.receive(self.now, id, &answers);
                }
            }
        }
        for closed in self.controller.take_closed() {
            self.peers.retain(|peer| peer.id != Some(closed));
        }
    }

    /// The connection of a switch breaks.
    pub fn disconnect(&mut self, datapath_id: u64) {
        let id = self.peer(datapath_id).id.unwrap();
        self.peers.retain(|peer| peer.id != Some(id));
        self.controller.disconnect(self.now, id);
        self.settle();
    }

    /// A switch no longer answers.
    pub fn silence(&mut self, datapath_id: u64) {
        self.peer(datapath_id).is_silent = true;
    }

    /// A switch says something.
    pub fn say(&mut self, datapath_id: u64, body: Body) {
        let id = self.peer(datapath_id).id.unwrap();
        let octets = Message::new(0, body).encode().unwrap();
        self.controller.receive(self.now, id, &octets);
        self.settle();
    }

    /// A port of a switch goes down or comes up.
    pub fn set_port(&mut self, datapath_id: u64, number: u32, is_up: bool) {
        let port = Port { number, state: u32::from(!is_up), ..Port::default() };
        self.say(datapath_id, Body::PortStatus(PortStatus { reason: 2, port }));
    }

    /// Time passes: every millisecond the controller may do something. `meanwhile` is called each time.
    pub fn pass(&mut self, time: Duration, mut meanwhile: impl FnMut(&mut Self)) {
        for _ in 0..time.as_millis() {
            self.now = self.now.after(Duration::from_millis(1));
            self.controller.tick(self.now);
            self.settle();
            meanwhile(self);
        }
    }

    /// The forwarder of island N sends the controller a datagram.
    pub fn announce(&mut self, island: u8, text: &str) {
        let from = [10, island, 0, 2].into();
        self.controller.datagram(self.now, from, text.as_bytes());
        self.settle();
    }

    /// An Interest comes in on a switch's island port, and its flows do not know the name.
    pub fn interest(&mut self, datapath_id: u64, uri: &str) {
        self.packet_in(datapath_id, frame([192, 0, 2, 1], 6363, &interest(uri)));
    }

    pub fn packet_in(&mut self, datapath_id: u64, data: Vec<u8>) {
        let in_port =
            Oxm::Basic { field: Field::InPort, value: 1u32.to_be_bytes().to_vec(), mask: None };
        let packet = PacketIn {
            buffer: NO_BUFFER,
            total_len: data.len() as u16,
            reason: Reason::Action,
            table: 0,
            cookie: 0,
            matching: Match { fields: vec![in_port] },
            data,
        };
        self.say(datapath_id, Body::PacketIn(packet));
    }

    /// Answers the barriers that a switch has kept back.
    pub fn release_barriers(&mut self, datapath_id: u64) {
        let peer = self.peer(datapath_id);
        let (id, barriers) = (peer.id.unwrap(), std::mem::take(&mut peer.barriers));
        for xid in barriers {
            let octets = Message::new(xid, Body::BarrierReply).encode().unwrap();
            self.controller.receive(self.now, id, &octets);
        }
        self.settle();
    }

    /// Where a switch sends Interests for exactly this prefix: the address of a forwarder.
    pub fn way(&mut self, datapath_id: u64, uri: &str) -> Option<[u8; 4]> {
        self.peer(datapath_id).way(uri)
    }
}

impl Peer {
    pub fn new(datapath_id: u64, kind: Kind) -> Self {
        Self {
            id: None,
            datapath_id,
            kind,
            framer: Framer::default(),
            flows: Vec::new(),
            packets_out: Vec::new(),
            programs: BTreeMap::new(),
            holds_barriers: false,
            barriers: Vec::new(),
            is_silent: false,
        }
    }

    /// Takes octets of a controller; its answers.
    pub fn take(&mut self, octets: &[u8]) -> Vec<u8> {
        self.framer.push(octets);
        let mut answers = Vec::new();
        while let Some(message) = self.framer.next_message().unwrap() {
            let message = Message::decode(message).unwrap();
            if self.is_silent {
                continue;
            }
            if let Some(body) = self.answer(message.xid, message.body) {
                answers.extend(Message::new(message.xid, body).encode().unwrap());
            }
        }
        answers
    }

    fn answer(&mut self, xid: u32, body: Body) -> Option<Body> {
        let reply = |body| Some(Body::MultipartReply(Reply { more: false, body }));
        let unknown = Body::Error { refusal: Refusal::BAD_EXPERIMENTER, data: Vec::new() };
        match body {
            Body::Hello(_) => Some(Body::Hello(Hello::ours())),
            Body::FeaturesRequest => Some(Body::FeaturesReply(Features {
                datapath_id: self.datapath_id,
                ..Features::default()
            })),
            Body::EchoRequest(data) => Some(Body::EchoReply(data)),
            Body::RoleRequest(role, generation) => Some(Body::RoleReply(role, generation)),
            Body::MultipartRequest(Request::Ports, _) => {
                let port = |number| Port { number, ..Port::default() };
                reply(ReplyBody::Ports(vec![port(1), port(2)]))
            }
            Body::MultipartRequest(Request::Programs, _) if self.kind == Kind::Plain => {
                Some(unknown)
            }
            Body::MultipartRequest(Request::Programs, _) => reply(ReplyBody::Programs(Vec::new())),
            Body::Experimenter(Experiment::Put { program, octets }) => {
                self.programs.insert(program, octets.len());
                Some(Body::Experimenter(Experiment::Acknowledge { request: 0, program }))
            }
            Body::BarrierRequest if self.holds_barriers => {
                self.barriers.push(xid);
                None
            }
            Body::BarrierRequest => Some(Body::BarrierReply),
            Body::FlowMod(flow) => {
                self.change(flow);
                None
            }
            Body::PacketOut(packet) => {
                self.packets_out.push(packet);
                None
            }
            Body::SetConfig(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, change: FlowMod) {
        let is_same =
            |flow: &FlowMod| flow.priority == change.priority && flow.matching == change.matching;
        match change.command {
            Command::Add => {
                self.flows.retain(|flow| !is_same(flow));
                self.flows.push(change);
            }
            Command::DeleteStrict => self.flows.retain(|flow| !is_same(flow)),
            Command::Delete if change.matching.fields.is_empty() => {
                self.flows.retain(|flow| (flow.cookie ^ change.cookie) & change.cookie_mask != 0)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Where it sends Interests for exactly this prefix.
    pub fn way(&self, uri: &str) -> Option<[u8; 4]> {
        let prefix = prefix(uri);
        let flow = self.flows.iter().find(|flow| name_of(flow) == Some(prefix.value()))?;
        destination(actions(flow))
    }

    /// The names that it has flows for, sorted.
    pub fn names(&self) -> Vec<String> {
        let names = self.flows.iter().filter_map(name_of);
        let mut names: Vec<_> =
            names.map(|value| Prefix::new(value).unwrap().to_string()).collect();
        names.sort();
        names
    }
}

/// The prefix of a flow, if it asks for one.
pub fn name_of(flow: &FlowMod) -> Option<&[u8]> {
    flow.matching.fields.iter().find_map(|oxm| match oxm {
        Oxm::Name(value) => Some(value.as_slice()),
        Oxm::Program { parameter: heddle_openflow::Parameter::Octets(octets), .. } => Some(octets),
        _ => None,
    })
}

pub fn actions(flow: &FlowMod) -> &[Action] {
    match &flow.instructions[..] {
        [Instruction::ApplyActions(actions)] => actions,
        [] => &[],
        other => panic!("{other:?}"),
    }
}

/// The IPv4 destination that actions set.
pub fn destination(actions: &[Action]) -> Option<[u8; 4]> {
    actions.iter().find_map(|action| match action {
        Action::SetField(Oxm::Basic { field: Field::Ipv4Dst, value, .. }) => {
            value.as_slice().try_into().ok()
        }
        _ => None,
    })
}

pub fn tlv(kind: usize, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(&mut out, kind);
    write_number(&mut out, value.len());
    out.extend(value);
    out
}

/// An Interest for a name.
pub fn interest(uri: &str) -> Vec<u8> {
    tlv(5, &[tlv(7, prefix(uri).value()), tlv(10, &[1, 2, 3, 4])].concat())
}

/// A UDP datagram in its frame, from a forwarder. Checksums are left out.
pub fn frame(destination: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
    let udp_octets = 8 + payload.len() as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((20 + udp_octets).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2]);
    frame.extend(destination);
    frame.extend(6363u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(udp_octets.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// The port that actions end with.
pub fn out_port(actions: &[Action]) -> Option<PortNumber> {
    actions.iter().find_map(|action| match action {
        Action::Output { port, .. } => Some(*port),
        _ => None,
    })
}
