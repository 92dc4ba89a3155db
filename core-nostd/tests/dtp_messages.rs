//! Messages on streams of DTP's `modern` suite: their boundaries are kept when both ends want it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{
    Active, Config, Connect, Counter, Endpoint, Event, Flow, FlowId, Identity, Memory, Message,
    PathAddress, Pattern, Phase, Sent, StreamError, message_octets,
};
use heddle_core::node::Instant;
use proptest::prelude::*;

const SHARED: [u8; 32] = [9; 32];

fn address(host: u8) -> PathAddress {
    let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host];
    PathAddress { local: 0, port: 4433, ip }
}

fn endpoint(is_server: bool, boundaries: bool, send: usize, receive: usize) -> Endpoint<'static> {
    let active = Active::new(
        vec![0; send].leak(),
        vec![0; receive].leak(),
        vec![Sent::default(); 512].leak(),
    );
    let memory = Memory {
        flows: vec![Flow::new(), Flow::new()].leak(),
        timers: vec![0; 2].leak(),
        actives: vec![active].leak(),
        budgets: vec![0; 64].leak(),
    };
    let config = Config {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: if is_server { &[Pattern::PreShared] } else { &[] },
        id_key: [u8::from(is_server) + 1; 32],
        streams: u8::from(is_server),
        boundaries,
        ..Config::default()
    };
    Endpoint::new(config, memory, [u8::from(is_server); 32], Instant::from_nanos(1))
}

/// Two ends on a network that loses some of their datagrams.
struct Pair {
    client: Endpoint<'static>,
    server: Endpoint<'static>,
    flow: FlowId,
    incoming: Option<FlowId>,
    now: u64,
    loss_percent: u64,
    random: u64,
}

impl Pair {
    fn new(wants: [bool; 2], send: usize, receive: usize, loss_percent: u64) -> Self {
        let mut client = endpoint(false, wants[0], send, receive);
        let server = endpoint(true, wants[1], send, receive);
        let identity = Identity { pre_shared: Some(SHARED), ..Identity::default() };
        let connect = Connect { pattern: Pattern::PreShared, identity, keep_alive_s: 3600 };
        let now = 1_000_000_000;
        let flow = client.connect(Instant::from_nanos(now), address(1), connect).unwrap();
        let mut pair = Self { client, server, flow, incoming: None, now, loss_percent, random: 1 };
        while pair.client.phase(flow) != Some(Phase::Open) || pair.incoming.is_none() {
            pair.step();
        }
        assert_eq!(pair.client.open_stream(flow), Ok(0));
        pair.run(5);
        pair
    }

    /// A millisecond.
    fn step(&mut self) {
        self.now += 1_000_000;
        let now = Instant::from_nanos(self.now);
        let mut buffer = [0; 2000];
        for _ in 0..100 {
            let to_server = self.client.transmit(now, &mut buffer);
            let sent = to_server.or_else(|| self.server.transmit(now, &mut buffer));
            let Some(sent) = sent else { break };
            // Not every so many: a probe and its answer could meet the same fate for ever.
            self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            if (self.random >> 33) % 100 < self.loss_percent {
                continue;
            }
            let datagram = &mut buffer[..sent.octets];
            // What an end drops it counts; here nothing is sent that would be.
            if to_server.is_some() {
                self.server.handle(now, address(2), datagram, false).unwrap();
            } else {
                self.client.handle(now, address(1), datagram, false).unwrap();
            }
        }
        while self.client.poll().is_some() {}
        while let Some((flow, event)) = self.server.poll() {
            if event == Event::Incoming {
                self.incoming = Some(flow);
            }
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    fn server_flow(&self) -> FlowId {
        self.incoming.unwrap()
    }

    fn write(&mut self, message: &[u8]) -> Result<bool, StreamError> {
        self.client.write_message(self.flow, 0, message)
    }

    fn read(&mut self, out: &mut [u8]) -> Result<Message, StreamError> {
        let flow = self.server_flow();
        self.server.read_message(flow, 0, out)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Messages of any sizes, through small buffers and a network with losses, come whole, in order and once.
    #[test]
    fn messages_come_whole_and_in_order(sizes in proptest::collection::vec(0usize..3000, 1..40), loss_percent in 0u64..40) {
        let mut pair = Pair::new([true, true], 8192, 4096, loss_percent);
        let messages: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(place, &size)| (0..size).map(|at| (at * 7 + place) as u8).collect()).collect();
        let mut unsent = messages.iter();
        let mut next = unsent.next();
        let mut got = Vec::new();
        let mut buffer = [0; 3000];
        let end = loop {
            while let Some(message) = next {
                if !pair.write(message).unwrap() { break; }
                next = unsent.next();
                if next.is_none() { pair.client.finish(pair.flow, 0).unwrap(); }
            }
            pair.step();
            match pair.read(&mut buffer) {
                Ok(Message::Whole(octets)) => got.push(buffer[..octets].to_vec()),
                Ok(Message::NotYet) => {}
                other => break other,
            }
            prop_assert!(pair.now < 600_000_000_000, "no end: {} of {}", got.len(), messages.len());
        };
        prop_assert_eq!(end, Ok(Message::End));
        prop_assert_eq!(got, messages);
    }
}

#[test]
fn a_message_goes_whole_or_not_at_all() {
    let mut pair = Pair::new([true, true], 1000, 4096, 0);
    let longest = pair.client.longest_message(pair.flow).unwrap();
    assert_eq!((longest, message_octets(longest)), (998, 1000));
    assert_eq!(pair.write(&[1; 999]), Err(StreamError::MessageTooLarge));
    assert_eq!(pair.write(&[1; 600]), Ok(true));
    assert_eq!(pair.write(&[2; 600]), Ok(false), "there is no room for all of it");
    assert_eq!(pair.write(&[3; 300]), Ok(true), "there is for this one");
    pair.run(100);
    let mut buffer = [0; 1000];
    assert_eq!(pair.read(&mut buffer), Ok(Message::Whole(600)));
    assert_eq!(pair.read(&mut buffer), Ok(Message::Whole(300)));
    assert_eq!(buffer[..300], [3; 300]);
    assert_eq!(pair.read(&mut buffer), Ok(Message::NotYet));
    assert_eq!(pair.write(&[4; 998]), Ok(true));
}

#[test]
fn what_the_peer_cannot_hold_is_too_large() {
    // One stream: all of the peer's buffer is for it.
    let mut pair = Pair::new([true, true], 1 << 16, 4096, 0);
    assert_eq!(pair.client.longest_message(pair.flow), Some(4094));
    assert_eq!(pair.write(&[1; 4095]), Err(StreamError::MessageTooLarge));
    assert_eq!(pair.write(&[1; 4094]), Ok(true));
    pair.run(200);
    assert_eq!(pair.read(&mut [0; 4094]), Ok(Message::Whole(4094)));
}

/// A window is told again when a quarter of the buffer is free; a message that needs more than the rest must not wait for that.
#[test]
fn a_message_that_needs_all_of_the_window_comes() {
    let mut pair = Pair::new([true, true], 1 << 14, 4096, 0);
    for size in [900, 4094, 4094, 10, 4094] {
        assert_eq!(pair.write(&vec![7; size]), Ok(true));
    }
    let mut buffer = [0; 4094];
    let mut got = Vec::new();
    for _ in 0..1000 {
        pair.step();
        if let Message::Whole(octets) = pair.read(&mut buffer).unwrap() {
            got.push(octets);
        }
    }
    assert_eq!(got, [900, 4094, 4094, 10, 4094]);
}

/// Far fewer octets than a quarter of the buffer at a time, and the flow asleep in between: windows are not forgotten.
#[test]
fn a_flow_that_sleeps_between_its_messages_goes_on() {
    // The application reads at once, or after the flow could have slept.
    for read_after_ms in [10, 4000] {
        let mut pair = Pair::new([true, true], 4096, 4096, 0);
        for number in 0..40u8 {
            assert_eq!(pair.write(&[number; 500]), Ok(true), "message {number}");
            pair.run(read_after_ms);
            let mut buffer = [0; 500];
            assert_eq!(pair.read(&mut buffer), Ok(Message::Whole(500)), "message {number}");
            assert_eq!(buffer, [number; 500]);
            pair.run(4000);
        }
        let slept = pair.server.counter(Counter::Slept);
        assert!(slept >= 40, "{slept} times asleep, read after {read_after_ms} ms");
    }
}

#[test]
fn a_buffer_too_small_loses_nothing() {
    let mut pair = Pair::new([true, true], 4096, 4096, 0);
    assert_eq!(pair.write(b"eleven long"), Ok(true));
    assert_eq!(pair.write(b""), Ok(true));
    let flow = pair.server_flow();
    assert_eq!(pair.server.next_message(flow, 0), None);
    pair.run(20);
    assert_eq!(pair.read(&mut [0; 10]), Err(StreamError::BufferTooSmall));
    assert_eq!(pair.server.next_message(flow, 0), Some(11));
    let mut buffer = [0; 11];
    assert_eq!(pair.read(&mut buffer), Ok(Message::Whole(11)));
    assert_eq!(&buffer, b"eleven long");
    assert_eq!(pair.read(&mut []), Ok(Message::Whole(0)), "an empty message is one");
    assert_eq!(pair.read(&mut []), Ok(Message::NotYet));
}

#[test]
fn a_stream_that_ends_in_a_message_is_told() {
    let mut pair = Pair::new([true, true], 4096, 4096, 0);
    assert_eq!(pair.write(b"whole"), Ok(true));
    // A length of 100, and less than that.
    assert_eq!(pair.client.write(pair.flow, 0, &[0x40, 100, 1, 2, 3]), Ok(5));
    pair.client.finish(pair.flow, 0).unwrap();
    pair.run(20);
    let mut buffer = [0; 100];
    assert_eq!(pair.read(&mut buffer), Ok(Message::Whole(5)));
    assert_eq!(pair.read(&mut buffer), Err(StreamError::MessageCut));
    // A length that ends itself in the middle.
    let mut pair = Pair::new([true, true], 4096, 4096, 0);
    assert_eq!(pair.client.write(pair.flow, 0, &[0xc0, 0, 0]), Ok(3));
    pair.run(20);
    assert_eq!(pair.read(&mut buffer), Ok(Message::NotYet));
    pair.client.finish(pair.flow, 0).unwrap();
    pair.run(20);
    assert_eq!(pair.read(&mut buffer), Err(StreamError::MessageCut));
    assert_eq!(pair.read(&mut buffer), Ok(Message::End), "it is said once");
}

#[test]
fn a_length_beyond_every_buffer_is_told() {
    let mut pair = Pair::new([true, true], 4096, 4096, 0);
    assert_eq!(pair.client.write(pair.flow, 0, &[0xff; 8]), Ok(8));
    pair.run(20);
    assert_eq!(pair.read(&mut [0; 100]), Err(StreamError::MessageTooLarge));
}

#[test]
fn resets_come_through() {
    let mut pair = Pair::new([true, true], 4096, 4096, 0);
    assert_eq!(pair.write(&[5; 50]), Ok(true));
    pair.run(20);
    pair.client.reset(pair.flow, 0, 3).unwrap();
    pair.run(20);
    let mut buffer = [0; 100];
    assert_eq!(pair.read(&mut buffer), Err(StreamError::Reset));
    assert_eq!(pair.write(&[5; 50]), Err(StreamError::Finished));
}

/// One end that does not want boundaries is enough: octets go as they are, and messages are refused at both.
#[test]
fn both_ends_have_to_want_it() {
    for wants in [[false, false], [true, false], [false, true]] {
        let mut pair = Pair::new(wants, 4096, 4096, 0);
        let flow = pair.server_flow();
        assert!(!pair.client.keeps_boundaries(pair.flow) && !pair.server.keeps_boundaries(flow));
        assert_eq!(pair.write(b"message"), Err(StreamError::NoBoundaries));
        assert_eq!(pair.read(&mut [0; 10]), Err(StreamError::NoBoundaries));
        assert_eq!(pair.client.longest_message(pair.flow), None);
        assert_eq!(pair.client.write(pair.flow, 0, b"octets"), Ok(6));
        pair.run(20);
        let mut buffer = [0; 10];
        assert_eq!(pair.server.read(flow, 0, &mut buffer), Ok(Some(6)));
        assert_eq!(&buffer[..6], b"octets");
    }
}
