//! A small switch, frames for it, and what must be right in those that leave it.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "each test program uses a part")]

use crate::simulator::{SimEngine, SimFrame};
use heddle_core::flow::{
    Action, Flow, FlowDrop, Group, Instructions, Match, NameChunk, Output, Packet, PacketIn, Rule,
    RuleBucket, SharedInstructions, Switch, SwitchMemory, TableMemory, Timeouts,
};
use heddle_core::ndn::FragmentFlow;
use heddle_core::node::{Frame, Instant, Node, PortId, Verdict};
use heddle_core::wire::{
    Checksum, EtherType, EthernetHeader, Ipv4Fields, Ipv4Flags, Ipv4Header, Ipv6Header, UdpHeader,
    internet_checksum,
};
use zerocopy::IntoBytes;

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const MAC_C: [u8; 6] = [2, 0, 0, 0, 0, 3];
pub const NOW: Instant = Instant::from_nanos(1_000_000_000);
pub const INTEREST: &[u8] = b"\x05\x12\x07\x0a\x08\x03tno\x08\x03cam\x0a\x04\x01\x02\x03\x04";

/// Runs `test` with a switch of five ports.
pub fn with_switch(test: impl FnOnce(&mut Switch<'_>)) {
    let memory = SwitchMemory {
        tables: TableMemory {
            rules: &mut vec![Rule::vacant(); 64],
            buckets: &mut vec![RuleBucket::vacant(); 16],
            names: &mut vec![NameChunk::vacant(); 8],
            instructions: &mut vec![SharedInstructions::vacant(); 32],
        },
        groups: &mut vec![Group::vacant(); 4],
        fragments: &mut vec![FragmentFlow::vacant(Default::default()); 16],
        packet_ins: &mut [PacketIn::vacant(); 2],
        packet_in_octets: &mut [0; 512],
    };
    test(&mut Switch::new(memory, (0..5).map(PortId).collect(), 0xabcd));
}

pub fn port(port: u8) -> Action {
    Action::Output(Output::Port(PortId(port)))
}

pub fn rule(
    switch: &mut Switch<'_>,
    table: u8,
    priority: u16,
    matching: Match<'_>,
    does: &Instructions,
) {
    let flow = Flow {
        table,
        priority,
        matching,
        instructions: does,
        cookie: 0xc0,
        timeouts: Timeouts::default(),
        flags: 0,
    };
    switch.tables.add(NOW, &flow).unwrap();
}

/// A switch's answer to one frame: what left on which port, in order, the frame itself last.
pub fn receive(
    switch: &mut Switch<'_>,
    from: u8,
    octets: &[u8],
) -> Result<Vec<(u8, Vec<u8>)>, FlowDrop> {
    let mut frame = SimFrame::from_bytes(octets);
    let mut engine = SimEngine::default();
    let verdict = switch.receive(NOW, PortId(from), &mut frame, &mut engine);
    let mut sent: Vec<_> =
        engine.sent.iter().map(|(port, frame)| (port.0, frame.bytes().to_vec())).collect();
    match verdict {
        Verdict::Forward(port) => sent.push((port.0, frame.bytes().to_vec())),
        Verdict::Drop(reason) => {
            assert!(sent.is_empty());
            return Err(reason);
        }
        Verdict::Consumed => {}
    }
    Ok(sent)
}

pub fn ethernet(ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
    [EthernetHeader::new(MAC_B, MAC_A, ether_type).as_bytes(), payload].concat()
}

pub fn udp_v4(source: [u8; 4], destination: [u8; 4], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        traffic_class: 0xb9,
        identification: 7,
        flags: Ipv4Flags::DONT_FRAGMENT,
        ttl: 64,
        protocol: 17,
        source,
        destination,
    };
    let header = Ipv4Header::new(fields, 8 + payload.len());
    let datagram = datagram(&source, &destination, ports, payload);
    ethernet(EtherType::IPV4, &[header.as_bytes(), &datagram].concat())
}

pub fn udp_v6(
    source: [u8; 16],
    destination: [u8; 16],
    ports: (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let header = Ipv6Header::new(source, destination, 17, 64, 8 + payload.len() as u16);
    let datagram = datagram(&source, &destination, ports, payload);
    ethernet(EtherType::IPV6, &[header.as_bytes(), &datagram].concat())
}

pub fn datagram(source: &[u8], destination: &[u8], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let mut datagram = [UdpHeader::new(ports.0, ports.1, len, 0).as_bytes(), payload].concat();
    let sum = transport_sum(source, destination, 17, &datagram);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

pub fn transport_sum(source: &[u8], destination: &[u8], protocol: u8, octets: &[u8]) -> u16 {
    Checksum::new()
        .with(source)
        .with(destination)
        .with_word(protocol.into())
        .with_word(octets.len() as u16)
        .with(octets)
        .finish()
}

/// Checks every checksum of a frame anew, through labels and tunnels.
pub fn check_sums(frame: &[u8]) {
    // An action may give a packet a type that it is not of; then there is nothing to sum.
    let Ok(packet) = Packet::parse(frame, PortId(0)) else { return };
    let Some(ip) = packet.layout.ip else { return };
    let is_v4 = frame[ip] >> 4 == 4;
    if is_v4 {
        let header_octets = usize::from(frame[ip] & 15) * 4;
        assert_eq!(internet_checksum(&frame[ip..ip + header_octets]), 0, "IPv4 header");
    }
    let Some(transport) = packet.layout.transport else { return };
    let octets = &frame[transport..packet.layout.end];
    let (source, destination) = if is_v4 {
        (&frame[ip + 12..ip + 16], &frame[ip + 16..ip + 20])
    } else {
        (&frame[ip + 8..ip + 24], &frame[ip + 24..ip + 40])
    };
    let protocol = packet.fields.ip_protocol;
    if matches!(protocol, 6 | 17 | 58) && octets[6..8] != [0, 0] {
        assert_eq!(transport_sum(source, destination, protocol, octets), 0, "protocol {protocol}");
    }
    if protocol == 17 && packet.fields.destination_port == 4789 {
        check_sums(&octets[16..]);
    }
}

/// What one of the switch's counters says.
pub fn counter(switch: &Switch<'_>, name: &str) -> u64 {
    let at = <Switch>::COUNTER_NAMES.iter().position(|found| *found == name).unwrap();
    switch.counters()[at]
}
