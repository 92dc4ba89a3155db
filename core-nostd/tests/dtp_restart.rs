//! Flows of DTP's `modern` suite whose ends are killed at any moment and go on from their tickets, in simulated time.
//!
//! A disk keeps what was synced and no more. Every run comes from a seed, which a failure names; `DTP_SEEDS` sets how many are run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dtp_killed;

use dtp_killed::{Disk, End, Rng, STREAM, STREAMS, World, address};
use heddle_core::dtp::modern::{CloseReason, Counter, ModernError, Phase, StreamError};
use heddle_core::node::Instant;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn ends_that_are_killed_at_any_moment_lose_nothing() {
    let first = number("DTP_FIRST").unwrap_or(0);
    let (mut restarts, mut again, mut resets) = (0, 0, 0);
    for seed in first..first + number("DTP_SEEDS").unwrap_or(60) {
        let mut rng = Rng(seed ^ 0x77);
        let streams = 1 + rng.below(STREAMS as u64);
        let mut sizes = || (0..streams).map(|_| rng.below(400_000 / streams)).collect::<Vec<_>>();
        let sizes = [sizes(), sizes()];
        let finishes = rng.chance(50);
        let buffer = 4096 << rng.below(5);
        let loss = [0, 5, 20][rng.below(3) as usize];
        let mut world = World::new(seed, [&sizes[0], &sizes[1]], finishes, buffer, loss);
        let connected = world.run(60, |world| world.ends.iter().all(|end| end.flow.is_some()));
        assert!(connected, "seed {seed}");
        world.ends[1].commit();
        let has_ticket = world.run(60, |world| world.ends[0].disk.ticket.is_some());
        assert!(has_ticket, "seed {seed}");
        let mut kills = 2 + rng.below(6);
        world.next_kill = world.now + rng.below(400) * 1_000_000;
        let finished = world.run(60_000, |world| {
            for end in &mut world.ends {
                // Old tickets are right as well; they only cost more.
                if rng.chance(3) {
                    end.commit();
                }
            }
            if kills > 0 && world.now >= world.next_kill {
                kills -= 1;
                let wait = rng.below(3000) * 1_000_000;
                world.next_kill = if kills == 0 { u64::MAX } else { world.now + wait };
                let now = world.now;
                let which = rng.below(3);
                for place in 0..2 {
                    if which == place || which == 2 {
                        restarts += 1;
                        let deaths = u32::from(rng.chance(20));
                        world.ends[place as usize].restart(now, deaths);
                        if place == 0 && rng.chance(50) {
                            // The client has another port, as a new process has.
                            world.ends[0].address.port += 1;
                        }
                    }
                }
                if rng.chance(30) {
                    world.packets.clear();
                }
                if rng.chance(20) {
                    world.out_until = now + rng.below(100) * 1_000_000_000;
                }
            }
            kills == 0 && world.all_read() && world.ends.iter().all(End::has_written)
        });
        world.check(seed);
        let phase = |end: &End| end.flow.and_then(|flow| end.endpoint.phase(flow));
        let states = world.ends.each_ref().map(|end| (&end.lines, phase(end), end.closed));
        assert!(finished, "seed {seed}: {states:?}");
        again += world.ends.iter().map(|end| end.again).sum::<u64>();
        // Who lets go of a stream as soon as all is acknowledged cannot give it again.
        let lines = world.ends.iter().flat_map(|end| &end.lines);
        let reset = lines.filter(|line| line.reset).count();
        assert!(reset == 0 || finishes, "seed {seed}");
        resets += reset;
        let flow = world.ends[0].flow.unwrap();
        world.out_until = 0;
        world.ends[0].endpoint.close(flow, 7);
        world.run(100, |world| world.ends.iter().all(|end| end.closed.is_some()));
        world.check(seed);
        let [client, server] = &world.ends;
        let states = [client, server].map(|end| (&end.lines, end.closed));
        let closed = client.closed == Some(CloseReason::Local);
        assert!(closed && world.all_read(), "seed {seed}: {states:?}");
        // Each of the few repetitions of the news may be lost; the server's keep-alive ends the flow then.
        let heard = server.closed == Some(CloseReason::Peer(7));
        assert!(heard || world.loss > 5, "seed {seed}: {:?}", server.closed);
    }
    println!("{restarts} restarts, {again} octets given again, {resets} streams reset");
}

/// A transfer in its middle.
fn in_the_middle(seed: u64) -> World {
    let mut world = World::new(seed, [&[300_000], &[300_000]], false, 1 << 14, 0);
    assert!(world.run(60, |world| world.ends.iter().all(|end| end.read_octets() > 50_000)));
    world.ends.iter_mut().for_each(End::commit);
    world
}

#[test]
fn an_old_ticket_and_one_that_serves_twice_are_refused() {
    let mut world = in_the_middle(1);
    let old = world.ends[0].disk.clone();
    let now = world.now;
    world.ends[0].restart(now, 0);
    let goes_on = |world: &mut World| world.ends.iter().all(|end| end.read_octets() > 100_000);
    assert!(world.run(60, goes_on));
    let sealed = world.ends[0].numbers;
    // Somebody puts the disk back to what it was: the count has been used, and the peer knows.
    world.ends[0].disk = Disk { boots: 50, ..old };
    let now = world.now;
    world.ends[0].restart(now, 0);
    assert!(world.run(60, |world| world.ends[0].closed.is_some()));
    assert_eq!(world.ends[0].closed, Some(CloseReason::Protocol(ModernError::OldTicket)));
    assert_eq!(world.ends[0].numbers, sealed, "nothing was sealed with the old ticket");
    assert!(world.ends[1].endpoint.drops(ModernError::OldTicket) > 0);
    world.check(1);
}

#[test]
fn a_message_of_a_restart_that_comes_again_changes_nothing() {
    let mut world = in_the_middle(2);
    let now = world.now;
    world.ends[0].restart(now, 0);
    let mut first = [0; 1500];
    let sent = world.ends[0].endpoint.transmit(Instant::from_nanos(now), &mut first).unwrap();
    assert_eq!((sent.octets, first[0], first[2]), (1200, 0x81, 5));
    let from = world.ends[0].address;
    let mut copy = first;
    let at = Instant::from_nanos(now);
    world.ends[1].endpoint.handle(at, from, &mut copy[..1200], false).unwrap();
    // The repetition is the same, octet by octet, and so is the answer.
    let mut answers = Vec::new();
    let mut out = [0; 1500];
    for _ in 0..3 {
        let mut copy = first;
        world.ends[1].endpoint.handle(at, address(77, 7), &mut copy[..1200], false).unwrap();
    }
    while let Some(sent) = world.ends[1].endpoint.transmit(at, &mut out) {
        if out[0] == 0x82 {
            answers.push(out[..sent.octets].to_vec());
        }
    }
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let mut forged = answers[0].clone();
    *forged.last_mut().unwrap() ^= 1;
    let to = world.ends[1].address;
    let error = world.ends[0].endpoint.handle(at, to, &mut forged, false);
    assert_eq!(error, Err(ModernError::Authentication));
    let half = world.run(60, |world| world.ends.iter().all(|end| end.read_octets() > 150_000));
    assert!(half, "it goes on");
    // From then on the message is old.
    let later = Instant::from_nanos(world.now);
    let mut copy = first;
    let error = world.ends[1].endpoint.handle(later, from, &mut copy[..1200], false);
    assert_eq!(error, Err(ModernError::OldTicket));
    for bit in [3, 200, 9000] {
        let mut copy = first;
        copy[bit / 8] ^= 1 << (bit % 8);
        assert!(world.ends[1].endpoint.handle(later, from, &mut copy[..1200], false).is_err());
    }
    assert!(world.run(600, |world| world.all_read()));
    assert_eq!(world.ends[1].endpoint.counter(Counter::Restarted), 1);
    world.check(2);
}

#[test]
fn a_server_that_comes_back_is_found_by_a_client_that_has_moved_meanwhile() {
    let mut world = in_the_middle(3);
    world.ends[0].address = address(99, 1234);
    world.packets.clear();
    let now = world.now;
    world.ends[1].restart(now, 0);
    assert!(world.run(600, |world| world.all_read()));
    let flow = world.ends[1].flow.unwrap();
    assert_eq!(world.ends[1].endpoint.restarts(flow), Some((1, 0)));
    assert_eq!(world.ends[1].endpoint.path(flow), Some(address(99, 1234)));
    world.check(3);
}

#[test]
fn a_client_that_moves_after_its_answer_is_found_by_the_restarted_server() {
    let mut world = in_the_middle(8);
    world.packets.clear();
    let now = world.now;
    world.ends[1].restart(now, 0);
    let flow = world.ends[1].flow.unwrap();
    // The server has the answer, and the client has moved before anything of the server's came.
    let answered = world.run(60, |world| world.ends[1].endpoint.counter(Counter::Restarted) == 1);
    assert!(answered && world.ends[0].endpoint.counter(Counter::Restarted) == 0);
    world.packets.retain(|packet| packet.1 == 1);
    world.ends[0].address = address(98, 1234);
    assert!(world.run(600, |world| world.all_read()));
    assert_eq!(world.ends[1].endpoint.path(flow), Some(address(98, 1234)));
    world.check(8);
}

#[test]
fn a_flood_at_a_flow_that_restarts_is_answered_ten_times_a_second_at_most() {
    let mut world = in_the_middle(4);
    let mut out = [0; 1500];
    // A packet of the flow as a listener on the path has seen it.
    let (mut seen, mut now) = (None, world.now);
    world.run(1, |world| {
        seen = world.packets.iter().find(|packet| packet.1 == 1).map(|packet| packet.3.clone());
        seen.is_some()
    });
    let seen = seen.unwrap();
    world.ends[1].restart(now, 0);
    let mut octets = 0;
    for turn in 0..10_000u64 {
        now += 100_000;
        let mut copy = seen.clone();
        let from = address((turn % 200) as u8, 9);
        let at = Instant::from_nanos(now);
        let error = world.ends[1].endpoint.handle(at, from, &mut copy, false);
        assert_eq!(error, Err(ModernError::OldKeys));
        while let Some(sent) = world.ends[1].endpoint.transmit(at, &mut out) {
            octets += sent.octets;
        }
    }
    assert!(octets <= 11 * 1200, "{octets} octets in a second");
    // And the client comes through all the same.
    world.now = now;
    assert!(world.run(600, |world| world.all_read()));
    world.check(4);
}

#[test]
fn forged_messages_of_restarts_get_no_answer_and_disturb_nothing() {
    let mut world = in_the_middle(7);
    let now = world.now;
    // One of another flow's secret, to an id that was seen on the path.
    let mut seen = None;
    world.run(1, |world| {
        seen = world.packets.iter().find(|packet| packet.1 == 1).map(|packet| packet.3.clone());
        seen.is_some()
    });
    let seen = seen.unwrap();
    let mut rng = Rng(7);
    let server = &mut world.ends[1].endpoint;
    let (before, mut out) = (server.counter(Counter::Sent), [0; 1500]);
    let at = Instant::from_nanos(now);
    for turn in 0..20_000u32 {
        let mut forged: Vec<u8> = (0..1200).map(|_| rng.next() as u8).collect();
        forged[..4].copy_from_slice(&[0x81, 1, 5, 1]);
        forged[4..20].copy_from_slice(&seen[1..17]);
        forged[36] = 0;
        let result = server.handle(at, address((turn % 200) as u8, 9), &mut forged, false);
        assert_eq!(result, Err(ModernError::Authentication));
    }
    assert_eq!(server.drops(ModernError::Authentication), 20_000);
    while let Some(sent) = server.transmit(at, &mut out) {
        assert!(out[0] != 0x82 && sent.path == world.ends[0].address);
    }
    assert!(world.ends[1].endpoint.counter(Counter::Sent) - before < 100);
    assert!(world.run(600, |world| world.all_read()));
    let flow = world.ends[1].flow.unwrap();
    assert_eq!(world.ends[1].endpoint.restarts(flow), Some((0, 0)));
    world.check(7);
}

#[test]
fn who_does_not_ask_where_to_write_again_is_told_and_the_peer_too() {
    let mut world = in_the_middle(5);
    let now = world.now;
    // The ticket is of the beginning: what the server has sent since is not in its ring any more.
    let mut ticket = world.ends[0].endpoint.ticket(world.ends[0].flow.unwrap()).unwrap();
    ticket.set_delivered(STREAM, 10);
    world.ends[0].disk.ticket = Some(ticket.to_octets());
    world.ends[0].restart(now, 0);
    let flow = world.ends[1].flow.unwrap();
    let mut errors = Vec::new();
    // The server's application does nothing; the test stands for it.
    let server = &mut world.ends[1].flow;
    let kept = server.take();
    let restarted = world.run(60, |world| {
        world.ends[1].endpoint.restarts(flow) == Some((0, 1))
            && world.ends[0].endpoint.next_number(world.ends[0].flow.unwrap()).is_some()
    });
    assert!(restarted);
    errors.push(world.ends[1].endpoint.write(flow, STREAM, b"more").unwrap_err());
    errors.push(world.ends[1].endpoint.finish(flow, STREAM).unwrap_err());
    assert_eq!(errors, [StreamError::Rewound; 2]);
    // To close is to say that the rest does not come: no end in good order.
    world.ends[1].endpoint.close(flow, 3);
    world.ends[1].flow = kept;
    let client = world.ends[0].flow.unwrap();
    world.ends[0].flow = None;
    let mut got = None;
    world.run(60, |world| {
        got = match world.ends[0].endpoint.read(client, STREAM, &mut [0; 100]) {
            Ok(Some(_)) => None,
            other => Some(other),
        };
        got.is_some()
    });
    assert_eq!(got, Some(Err(StreamError::Reset)));
}

#[test]
fn a_ticket_is_of_an_open_flow() {
    let mut world = World::new(6, [&[1000], &[1000]], false, 1 << 14, 0);
    let client = world.ends[0].flow.unwrap();
    assert!(world.ends[0].endpoint.ticket(client).is_none(), "the handshake is not done");
    assert!(world.run(60, |world| world.all_read()));
    assert_eq!(world.ends[0].endpoint.phase(client), Some(Phase::Open));
    let ticket = world.ends[0].endpoint.ticket(client).unwrap();
    assert_eq!(
        (ticket.flow(), ticket.restarts(), ticket.delivered(STREAM)),
        (client, 0, Some(1000))
    );
    // Nothing happens for a while: the flow sleeps, and its ticket says the same.
    world.run(10, |_| false);
    let asleep = world.ends[0].endpoint.ticket(client).unwrap();
    assert_eq!(asleep.to_octets(), ticket.to_octets());
    let now = world.now;
    world.ends[0].disk.ticket = Some(asleep.to_octets());
    world.ends[0].disk.stored[0].0 = 1000;
    world.ends[0].restart(now, 0);
    world.ends[0].lines[0].size = 5000;
    world.ends[1].lines[0].size = 5000;
    assert!(world.run(60, |world| world.all_read()), "a sleeping peer wakes up for it");
    world.check(6);
}
