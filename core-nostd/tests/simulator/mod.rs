//! A deterministic network in memory. It drives the same node state as the engines do: links with a rate, a
//! delay, a queue and loss; time that only moves from event to event; hosts that send and collect datagrams.
#![allow(dead_code)] // Each test file uses its own part of this.

use heddle_core::coded::{
    CodedDrop, CodedNode, Generation, Memory, PortSettings, Session, SessionRule, Settings,
    generation_octets,
};
use heddle_core::node::{Engine, Frame, Instant, NoRoom, Node, PortId, Verdict};
use heddle_core::wire::{
    Checksum, EtherType, EthernetHeader, Ipv4Addr, Ipv4Fields, Ipv4Flags, Ipv4Header, UdpHeader,
    multicast_mac,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;
use zerocopy::IntoBytes;

const BUFFER_OCTETS: usize = 2048;
const HEADROOM_OCTETS: usize = 128;

/// A frame in a buffer with headroom, as an engine would have it.
#[derive(Clone)]
pub struct SimFrame {
    buffer: Box<[u8; BUFFER_OCTETS]>,
    head: usize,
    len: usize,
}

impl SimFrame {
    pub fn empty() -> Self {
        // New octets hold anything: not zeros, so that nothing comes to rely on them.
        Self { buffer: Box::new([0xA5; BUFFER_OCTETS]), head: HEADROOM_OCTETS, len: 0 }
    }

    pub fn from_bytes(octets: &[u8]) -> Self {
        let mut frame = Self::empty();
        frame.resize(octets.len()).expect("the octets fit in a buffer");
        frame.bytes_mut().copy_from_slice(octets);
        frame
    }
}

impl Frame for SimFrame {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.head..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.head..][..self.len]
    }

    fn resize(&mut self, len_octets: usize) -> Result<(), NoRoom> {
        if self.head + len_octets > BUFFER_OCTETS {
            return Err(NoRoom);
        }
        self.len = len_octets;
        Ok(())
    }

    fn move_head(&mut self, octets: isize) -> Result<(), NoRoom> {
        let head = self.head.checked_add_signed(-octets).ok_or(NoRoom)?;
        let len = self.len.checked_add_signed(octets).ok_or(NoRoom)?;
        if head + len > BUFFER_OCTETS {
            return Err(NoRoom);
        }
        (self.head, self.len) = (head, len);
        Ok(())
    }
}

/// Collects what a node sends.
#[derive(Default)]
pub struct SimEngine {
    pub sent: Vec<(PortId, SimFrame)>,
    /// Frames that may still be allocated; none for no limit.
    pub frames_left: Option<usize>,
}

impl Engine for SimEngine {
    type Frame = SimFrame;

    fn allocate(&mut self) -> Option<SimFrame> {
        if let Some(left) = &mut self.frames_left {
            *left = left.checked_sub(1)?;
        }
        Some(SimFrame::empty())
    }

    fn transmit(&mut self, port: PortId, frame: SimFrame) {
        self.sent.push((port, frame));
    }
}

/// The memory of one node.
pub struct NodeMemory {
    sessions: Vec<Session>,
    generations: Vec<Generation>,
    octets: Vec<u8>,
}

/// The memory of all nodes of a test.
pub type Memories = typed_arena::Arena<NodeMemory>;

/// A node with room for so many sessions and generations.
pub fn coded_node<'m>(
    memories: &'m Memories,
    settings: Settings,
    ports: &[PortSettings],
    rules: &[SessionRule],
    sessions: usize,
    generations: usize,
) -> CodedNode<'m> {
    let memory = memories.alloc(NodeMemory {
        sessions: (0..sessions).map(|_| Session::default()).collect(),
        generations: (0..generations).map(|_| Generation::vacant()).collect(),
        octets: vec![0x5A; generations * generation_octets(&settings)],
    });
    let memory = Memory {
        sessions: &mut memory.sessions,
        generations: &mut memory.generations,
        octets: &mut memory.octets,
    };
    CodedNode::new(settings, ports, rules, memory).expect("the settings of a test are right")
}

/// Hands one frame to a node; what comes of it and what it sends.
pub fn receive(
    node: &mut CodedNode<'_>,
    now: Instant,
    port: PortId,
    octets: &[u8],
) -> (Verdict<CodedDrop>, Vec<(PortId, Vec<u8>)>) {
    let mut engine = SimEngine::default();
    let mut frame = SimFrame::from_bytes(octets);
    let verdict = node.receive(now, port, &mut frame, &mut engine);
    if let Verdict::Forward(port) = verdict {
        engine.transmit(port, frame);
    }
    (verdict, engine.sent.into_iter().map(|(port, frame)| (port, frame.bytes().to_vec())).collect())
}

/// A frame with a UDP datagram from `source` to `group`.
pub fn udp_frame(source: Ipv4Addr, group: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut datagram = UdpHeader::new(40_000, port, len, 0).as_bytes().to_vec();
    datagram.extend_from_slice(payload);
    let sum = Checksum::new()
        .with(&source)
        .with(&group)
        .with_word(17)
        .with_word(len)
        .with(&datagram)
        .finish();
    datagram[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    ip_frame(source, group, 17, 64, &datagram)
}

/// A frame with an IP packet.
pub fn ip_frame(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    ttl: u8,
    payload: &[u8],
) -> Vec<u8> {
    let ip = Ipv4Header::new(
        Ipv4Fields {
            traffic_class: 0,
            identification: 0x1234,
            flags: Ipv4Flags::DONT_FRAGMENT,
            ttl,
            protocol,
            source,
            destination,
        },
        payload.len(),
    );
    let ethernet =
        EthernetHeader::new(multicast_mac(destination), [2, 0, 0, 0, 0, 1], EtherType::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
}

/// The UDP payload of a frame.
pub fn udp_payload(frame: &[u8]) -> &[u8] {
    &frame[14 + 20 + 8..]
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug)]
pub struct LinkSettings {
    pub octets_per_second: Option<u64>,
    pub delay: Duration,
    /// Octets that may wait; more are lost.
    pub queue_octets: u64,
    /// Frames lost out of a thousand.
    pub loss_per_mille: u32,
}

struct Link {
    settings: LinkSettings,
    to: Endpoint,
    free_at: Instant,
    pub octets: u64,
    pub lost: u64,
}

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Node(usize, PortId),
    Host(usize),
}

enum Event<'m> {
    Arrival(Endpoint, Vec<u8>),
    Poll(usize),
    Do(Box<dyn FnOnce(&mut Network<'m>) + 'm>),
}

/// Nodes, hosts and the links between them.
pub struct Network<'m> {
    pub now: Instant,
    pub nodes: Vec<Option<CodedNode<'m>>>,
    /// What each host received.
    pub hosts: Vec<Vec<(Instant, Vec<u8>)>>,
    links: HashMap<(usize, PortId), Link>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    contents: HashMap<u64, Event<'m>>,
    /// When each node is next polled.
    polls: Vec<Option<Instant>>,
    number: u64,
    random: u64,
}

impl<'m> Network<'m> {
    pub fn new(nodes: Vec<CodedNode<'m>>, hosts: usize, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            polls: vec![None; nodes.len()],
            nodes: nodes.into_iter().map(Some).collect(),
            hosts: vec![Vec::new(); hosts],
            links: HashMap::new(),
            events: BinaryHeap::new(),
            contents: HashMap::new(),
            number: 0,
            random: seed | 1,
        }
    }

    pub fn connect(&mut self, node: usize, port: PortId, to: Endpoint, settings: LinkSettings) {
        let link = Link { settings, to, free_at: Instant::ZERO, octets: 0, lost: 0 };
        self.links.insert((node, port), link);
    }

    /// Octets that the link from this port carried, and frames that it lost.
    pub fn link_load(&self, node: usize, port: PortId) -> (u64, u64) {
        let link = &self.links[&(node, port)];
        (link.octets, link.lost)
    }

    pub fn at(&mut self, when: Instant, what: impl FnOnce(&mut Network<'m>) + 'm) {
        self.schedule(when, Event::Do(Box::new(what)));
    }

    /// A frame comes in on a node's port at a time.
    pub fn inject(&mut self, when: Instant, node: usize, port: PortId, frame: Vec<u8>) {
        self.schedule(when, Event::Arrival(Endpoint::Node(node, port), frame));
    }

    fn schedule(&mut self, when: Instant, event: Event<'m>) {
        self.events.push(Reverse((when.max(self.now), self.number)));
        self.contents.insert(self.number, event);
        self.number += 1;
    }

    fn random_per_mille(&mut self) -> u32 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % 1000) as u32
    }

    fn send(&mut self, node: usize, port: PortId, frame: Vec<u8>) {
        let lost = self.random_per_mille();
        let now = self.now;
        let Some(link) = self.links.get_mut(&(node, port)) else { return };
        let start = link.free_at.max(now);
        if let Some(rate) = link.settings.octets_per_second {
            let waiting = start.since(now).as_nanos() as u64 * rate / 1_000_000_000;
            if waiting > link.settings.queue_octets {
                link.lost += 1;
                return;
            }
            link.free_at =
                start.after(Duration::from_nanos(frame.len() as u64 * 1_000_000_000 / rate));
        } else {
            link.free_at = start;
        }
        link.octets += frame.len() as u64;
        if lost < link.settings.loss_per_mille {
            link.lost += 1;
            return;
        }
        let (arrival, to) = (link.free_at.after(link.settings.delay), link.to);
        self.schedule(arrival, Event::Arrival(to, frame));
    }

    fn with_node(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut CodedNode<'m>, Instant, &mut SimEngine),
    ) {
        let Some(mut node) = self.nodes[index].take() else { return };
        let mut engine = SimEngine::default();
        act(&mut node, self.now, &mut engine);
        for (port, frame) in engine.sent {
            self.send(index, port, frame.bytes().to_vec());
        }
        if let Some(deadline) = node.deadline()
            && self.polls[index].is_none_or(|poll| deadline < poll)
        {
            let when = deadline.max(self.now.after(Duration::from_nanos(1)));
            self.polls[index] = Some(when);
            self.schedule(when, Event::Poll(index));
        }
        self.nodes[index] = Some(node);
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(Reverse((when, number))) = self.events.peek().copied() {
            if when > end {
                break;
            }
            self.events.pop();
            self.now = when;
            match self.contents.remove(&number).expect("each event has its contents") {
                Event::Arrival(Endpoint::Host(host), frame) => self.hosts[host].push((when, frame)),
                Event::Arrival(Endpoint::Node(node, port), frame) => {
                    self.with_node(node, |node, now, engine| {
                        let mut frame = SimFrame::from_bytes(&frame);
                        if let Verdict::Forward(port) = node.receive(now, port, &mut frame, engine)
                        {
                            engine.transmit(port, frame);
                        }
                    });
                }
                Event::Poll(node) => {
                    // A poll that was brought forward leaves its first date behind.
                    if self.polls[node] == Some(when) {
                        self.polls[node] = None;
                        self.with_node(node, |node, now, engine| node.poll(now, engine));
                    }
                }
                Event::Do(what) => what(self),
            }
        }
        self.now = end;
    }
}
