//! What a switch itself changes in named-data packets: it adds missing Nonces, counts hops when told to, and cuts what is too long for a port.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulator;
mod switches;

use heddle_core::flow::{Action, FlowDrop, FlowError, Instructions, Match, Packet, Switch};
use heddle_core::ndn::{
    self, Link, NdnError, Partial, Payload, Reassembler, reassembly_octets, write_number,
};
use heddle_core::node::{Node, PortId, Verdict};
use heddle_core::wire::EtherType;
use simulator::{SimEngine, SimFrame};
use std::time::Duration;
use switches::{
    NOW, check_sums, counter, ethernet, port, receive, rule, udp_v4, udp_v6, with_switch,
};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const A6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const PORTS: (u16, u16) = (6363, 6363);

fn element(kind: u64, value: &[u8]) -> Vec<u8> {
    let mut header = [0; 18];
    let rest = write_number(kind, &mut header).unwrap();
    let left = write_number(value.len() as u64, rest).unwrap().len();
    [&header[..18 - left], value].concat()
}

fn to_port_1(switch: &mut Switch<'_>) {
    let to = Instructions::applying(&[port(1)]).unwrap();
    rule(switch, 0, 1, Match::default(), &to);
}

/// The named-data packet in a frame.
fn inside(frame: &[u8]) -> &[u8] {
    let packet = Packet::parse(frame, PortId(0)).unwrap();
    let at = packet.layout.transport.map_or(packet.layout.network, |transport| transport + 8);
    &frame[at..packet.layout.end]
}

/// A packet in each kind of frame that the switch knows: over IPv4 with and without a checksum, over IPv6, padded in Ethernet.
fn frames(packet: &[u8]) -> Vec<Vec<u8>> {
    let mut without = udp_v4(A, B, PORTS, packet);
    without[40..42].fill(0);
    let mut padded = ethernet(EtherType(0x8624), packet);
    padded.resize(padded.len().max(60), 0);
    vec![udp_v4(A, B, PORTS, packet), without, udp_v6(A6, B6, PORTS, packet), padded]
}

#[test]
fn an_interest_without_a_nonce_gets_one() {
    let bare = element(5, b"\x07\x05\x08\x03tno\x0c\x01\x09\x22\x01\x05");
    let linked = element(100, &[&b"\x62\x02ab"[..], &element(80, &bare)].concat());
    // With the Nonce, both need a longer form of their lengths.
    let name = element(7, &element(8, &[b'n'; 240]));
    let long = element(5, &name);
    let long_linked = element(100, &element(80, &long));
    let mut nonces = Vec::new();
    with_switch(|switch| {
        to_port_1(switch);
        for packet in [&bare, &linked, &long, &long_linked] {
            for frame in frames(packet) {
                let sent = receive(switch, 0, &frame).unwrap();
                let (_, sent) = sent.last().unwrap();
                check_sums(sent);
                let before = ndn::Packet::parse(packet, Link::Datagram).unwrap();
                let after = ndn::Packet::parse(inside(sent), Link::Datagram).unwrap();
                let (Payload::Interest(old), Payload::Interest(new)) =
                    (before.payload, after.payload)
                else {
                    panic!("no Interest");
                };
                assert_eq!((new.name, new.hop_limit), (old.name, old.hop_limit));
                assert_eq!(new.lifetime_ms, old.lifetime_ms);
                assert_eq!(after.link.pit_token, before.link.pit_token);
                nonces.push(new.nonce.unwrap());
                if frame[12..14] == [8, 0] {
                    let has_none = |frame: &[u8]| frame[40..42] == [0, 0];
                    assert_eq!(has_none(sent), has_none(&frame));
                }
            }
        }
    });
    assert_eq!(nonces.len(), 16);
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 16, "each Interest has a Nonce of its own");
}

#[test]
fn packets_that_need_no_nonce_pass_untouched() {
    let interest = element(5, b"\x07\x05\x08\x03tno\x0a\x04abcd");
    let data = element(6, b"\x07\x05\x08\x03tno\x15\x01x\x16\x03\x1b\x01\x00\x17\x00");
    let refused = element(
        100,
        &[element(800, b""), element(80, &element(5, b"\x07\x05\x08\x03tno"))].concat(),
    );
    with_switch(|switch| {
        to_port_1(switch);
        for packet in [interest, data, refused] {
            for frame in frames(&packet) {
                assert_eq!(receive(switch, 0, &frame), Ok(vec![(1, frame.clone())]));
            }
        }
        // Whoever gets it must still see that this one was damaged on its way.
        let mut damaged = udp_v4(A, B, PORTS, &element(5, b"\x07\x05\x08\x03tno"));
        damaged[40] ^= 0x55;
        assert_eq!(receive(switch, 0, &damaged), Ok(vec![(1, damaged.clone())]));
    });
}

#[test]
fn hops_are_counted_by_whoever_is_told_to() {
    let with_hops =
        |hops| element(5, &[&b"\x07\x05\x08\x03tno\x0a\x04abcd\x22\x01"[..], &[hops]].concat());
    with_switch(|switch| {
        let to = Instructions::applying(&[Action::DecrementHopLimit, port(1)]).unwrap();
        rule(switch, 0, 1, Match::default(), &to);
        for (frame, expected) in frames(&with_hops(9)).into_iter().zip(frames(&with_hops(8))) {
            assert_eq!(receive(switch, 0, &frame), Ok(vec![(1, expected)]));
        }
        for frame in frames(&with_hops(1)) {
            let no_further = Err(FlowDrop::Flow(FlowError::HopLimitReached));
            assert_eq!(receive(switch, 0, &frame), no_further);
        }
        for frame in frames(&with_hops(0)) {
            assert_eq!(receive(switch, 0, &frame), Err(FlowDrop::Ndn(NdnError::HopLimitZero)));
        }
        let unlimited = element(5, b"\x07\x05\x08\x03tno\x0a\x04abcd");
        for frame in frames(&unlimited) {
            assert_eq!(receive(switch, 0, &frame), Ok(vec![(1, frame.clone())]));
        }
    });
    with_switch(|switch| {
        to_port_1(switch);
        for frame in frames(&with_hops(1)) {
            assert_eq!(receive(switch, 0, &frame), Ok(vec![(1, frame.clone())]));
        }
    });
}

#[test]
fn a_packet_too_long_for_a_port_leaves_in_fragments() {
    let content = element(0x15, &(0..1300).map(|at| at as u8).collect::<Vec<_>>());
    let value = [&b"\x07\x05\x08\x03tno"[..], &content, b"\x16\x03\x1b\x01\x00\x17\x00".as_slice()]
        .concat();
    let data = element(6, &value);
    let linked = element(100, &[&b"\x62\x02ab"[..], &element(80, &data)].concat());
    for (packet, token) in [(&data, None), (&linked, Some(&b"ab"[..]))] {
        for frame in frames(packet) {
            for mtu in [200u16, 576, 1300] {
                with_switch(|switch| {
                    to_port_1(switch);
                    switch.set_port(PortId(1), true, mtu);
                    let sent = receive(switch, 0, &frame).unwrap();
                    assert!(sent.len() > 1);
                    let mut partials = [Partial::vacant()];
                    let mut octets = vec![0; reassembly_octets(1)];
                    let mut reassembler =
                        Reassembler::new(&mut partials, &mut octets, Duration::from_secs(1))
                            .unwrap();
                    let mut whole = None;
                    for (at, (to, fragment)) in sent.iter().enumerate() {
                        assert_eq!(*to, 1);
                        assert!(fragment.len() <= usize::from(mtu));
                        check_sums(fragment);
                        let piece = ndn::Packet::parse(inside(fragment), Link::Datagram).unwrap();
                        let Payload::Fragment(octets) = piece.payload else { panic!() };
                        assert_eq!(piece.link.pit_token, token.filter(|_| at == 0));
                        let taken = reassembler.take(NOW, 1, &piece.link, octets).unwrap();
                        whole = taken.and_then(|payload| payload.octets().map(<[u8]>::to_vec));
                    }
                    assert_eq!(whole.as_deref(), Some(&data[..]));
                    assert_eq!(counter(switch, "flow_frame_exceeds_mtu"), 0);
                    // The next packet's fragments are no other's.
                    let again = receive(switch, 0, &frame).unwrap();
                    assert_ne!(again[0].1, sent[0].1);
                });
            }
        }
    }
}

#[test]
fn what_cannot_be_cut_is_refused_and_counted() {
    let data = element(6, &[&b"\x07\x05\x08\x03tno"[..], &element(0x15, &[7; 900])].concat());
    let too_long = Err(FlowDrop::Flow(FlowError::FrameExceedsMtu));
    with_switch(|switch| {
        to_port_1(switch);
        switch.drops_malformed_names = false;
        let value =
            [&b"\x07\x05\x08\x03tno"[..], &element(0x15, &[7; 900]), b"\x16\x00\x17\x00"].concat();
        let good = element(6, &value);
        // So small an MTU that no octet fits, no named-data packet, a damaged one, one that is a fragment already.
        switch.set_port(PortId(1), true, 60);
        assert_eq!(receive(switch, 0, &udp_v4(A, B, PORTS, &good)), too_long);
        switch.set_port(PortId(1), true, 500);
        assert_eq!(receive(switch, 0, &udp_v4(A, B, (1, 2), &good)), too_long);
        assert_eq!(receive(switch, 0, &udp_v4(A, B, PORTS, &data)), too_long);
        let numbers = b"\x51\x08\0\0\0\0\0\0\0\x05\x52\x01\x00\x53\x01\x02";
        let fragment = element(100, &[&numbers[..], &element(80, &good)].concat());
        assert_eq!(receive(switch, 0, &udp_v4(A, B, PORTS, &fragment[..])), too_long);
        assert_eq!(counter(switch, "flow_frame_exceeds_mtu"), 4);
        let mut damaged = udp_v4(A, B, PORTS, &good);
        damaged[300] ^= 1;
        let damaged = receive(switch, 0, &damaged);
        assert_eq!(damaged, Err(FlowDrop::Flow(FlowError::FragmentChecksum)));
        // No frames left for fragments.
        let mut frame = SimFrame::from_bytes(&udp_v4(A, B, PORTS, &good));
        let mut engine = SimEngine { frames_left: Some(1), ..SimEngine::default() };
        let verdict = switch.receive(NOW, PortId(0), &mut frame, &mut engine);
        assert_eq!(verdict, Verdict::Drop(FlowDrop::Flow(FlowError::NoFrames)));
    });
}
