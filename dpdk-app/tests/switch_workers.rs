//! The workers of a switch between ports made of rings, and the control thread's side of them. EAL starts once in a process, so
//! one test runs all the steps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrayvec::ArrayVec;
use common::{
    A, B, C, config, flow, interest, name, ports, sending, start, udp, until, with_switch,
};
use dpdk::{Eal, Mbuf, Mempool};
use heddle_core::flow::{Action, Bucket, GroupKind, Output, SetField, TableError};
use heddle_core::node::{Instant, PortId};
use heddle_dpdk::engine::{Engine, Parts};
use heddle_openflow::datapath::Datapath;

#[test]
fn workers_of_a_switch() {
    let (eal, pool) = start(2, 128);
    rules_hold_at_every_worker(&eal, &pool);
    controllers_get_and_send_frames(&eal, &pool);
    a_full_ring_of_orders_does_not_keep_frames_waiting(&eal, &pool);
    assert_eq!(pool.in_use(), 0, "every mbuf came home");
}

/// Ports a and c are polled by the first worker, b by the second.
fn rules_hold_at_every_worker(eal: &Eal, pool: &Mempool) {
    let stats = with_switch(eal, pool, &config("[0, 1]", "max_flows = 4"), |workers, hosts| {
        let [a, b, c] = hosts;
        let now = Instant::from_nanos(5_000_000_000);
        let to_c = sending(&[
            Action::SetField(SetField::Ipv4Destination([192, 0, 2, 9])),
            Action::Output(Output::Port(C)),
        ]);
        let prefix = name(&["x", "tno"]);
        let by_name = workers.insert(now, &flow(Some(&prefix), None, 10, &to_c)).unwrap();
        let to_a = sending(&[Action::Output(Output::Port(A))]);
        let by_port = workers.insert(now, &flow(None, Some(B), 1, &to_a)).unwrap();
        workers.barrier();
        for number in 0..50 {
            let number = number.to_string();
            a.send(&interest(&["x", "tno", &number]));
            b.send(&interest(&["x", "tno", &number]));
            // Not the prefix: whole components count.
            b.send(&interest(&["x", "tno-1", &number]));
            a.send(&interest(&["x", "t", &number]));
        }
        for frame in c.wait_for(100) {
            assert_eq!(frame[30..34], [192, 0, 2, 9], "the destination is rewritten");
        }
        assert_eq!(a.wait_for(50).len(), 50);
        until("counters of both workers", || workers.counters(by_name).unwrap().packets == 100);
        let counted = workers.counters(by_port).unwrap();
        assert_eq!(counted.octets, 50 * counted.octets / counted.packets);
        assert_eq!((counted.packets, counted.added), (50, now));
        assert!(counted.used >= counted.added);

        // One rule in place of another of the same match keeps the number of rules; then the table fills up.
        workers.insert(now, &flow(Some(&prefix), None, 10, &to_c)).unwrap();
        assert_eq!(workers.counters(by_name), None);
        assert_eq!(workers.rules(), 2);
        for depth in 2..4 {
            let prefix = name(&["y"; 4][..depth]);
            workers.insert(now, &flow(Some(&prefix), None, 10, &to_c)).unwrap();
        }
        let refused = workers.insert(now, &flow(Some(&name(&["z"])), None, 10, &to_c));
        assert_eq!(refused, Err(TableError::RulesFull));

        // Groups, and instructions that change under the rule.
        let buckets: Vec<Bucket> = [A, C]
            .iter()
            .map(|port| Bucket {
                watch_port: Some(*port),
                actions: [Action::Output(Output::Port(*port))].as_slice().try_into().unwrap(),
                ..Bucket::default()
            })
            .collect();
        workers.add_group(1, GroupKind::FastFailover, &buckets).unwrap();
        workers.modify(by_port, &sending(&[Action::Group(1)])).unwrap();
        workers.barrier();
        b.send(&udp(b"to the first bucket"));
        a.wait_for(1);
        workers.set_port(A, false);
        workers.barrier();
        b.send(&udp(b"to the second"));
        c.wait_for(1);
        a.send(&udp(b"from a port that is off"));
        workers.remove(by_port);
        workers.remove_group(1);
        workers.barrier();
        b.send(&udp(b"to nobody"));
        until("the last frames", || {
            workers.port_counters(A).unwrap().rx_packets == 101
                && workers.port_counters(B).unwrap().rx_packets == 103
        });
    });
    assert_eq!(stats.counters["switch_port_off"], 1);
    // The 50 of /x/t, and the last one.
    assert_eq!(stats.counters["flow_no_match"], 51);
    assert_eq!(stats.counters["handed_over"], 0);
}

fn controllers_get_and_send_frames(eal: &Eal, pool: &Mempool) {
    let stats = with_switch(eal, pool, &config("[0]", "packet_in_queue = 8"), |workers, hosts| {
        let [a, b, c] = hosts;
        let now = Instant::from_nanos(1);
        let to_controller = sending(&[Action::Output(Output::Controller { max_octets: 60 })]);
        workers.insert(now, &flow(None, None, 0, &to_controller)).unwrap();
        workers.barrier();
        let frame = udp(&[7; 100]);
        a.send(&frame);
        b.send(&frame);
        let mut octets = Vec::new();
        let mut from = Vec::new();
        until("packet-ins", || {
            while let Some(entry) = workers.take_packet_in(&mut octets) {
                assert_eq!((entry.total_octets, entry.kept_octets), (frame.len() as u32, 60));
                assert_eq!((entry.cookie, octets.as_slice()), (7, &frame[..60]));
                from.push(entry.port);
            }
            from.len() == 2
        });
        from.sort();
        assert_eq!(from, [A, B]);

        // A flood of them: the queue in the switch and that on the way hold some, the others are counted.
        for _ in 0..100 {
            a.send(&frame);
        }
        until("the flood", || workers.port_counters(A).unwrap().rx_packets == 101);
        let mut kept = 0;
        until("what was kept", || {
            while workers.take_packet_in(&mut octets).is_some() {
                kept += 1;
            }
            kept >= 16
        });

        // Frames of the controllers: by their own actions, and through the tables.
        workers.packet_out(now, PortId(255), &[Action::Output(Output::Flood)], &frame);
        for host in [&mut *a, &mut *b, &mut *c] {
            assert_eq!(host.wait_for(1), std::slice::from_ref(&frame));
        }
        let to_b = sending(&[Action::Output(Output::Port(B))]);
        workers.insert(now, &flow(Some(&name(&["x"])), None, 9, &to_b)).unwrap();
        let frame = interest(&["x", "y"]);
        workers.resubmit(now, A, &frame);
        assert_eq!(b.wait_for(1).len(), 1);
        // What is no frame does no harm.
        workers.packet_out(now, A, &[Action::Output(Output::Port(B))], &[]);
        workers.resubmit(now, A, &[1, 2, 3]);
        workers.packet_out(now, A, &[Action::Output(Output::Port(B))], &vec![0; 65_000]);

        // Without a controller: everything goes everywhere else, but what bridges keep to themselves.
        workers.set_standalone(true);
        workers.barrier();
        let odd = [vec![0xff; 6], vec![2, 0, 0, 0, 0, 7], vec![0x08, 0x00, 0x45]].concat();
        b.send(&odd);
        b.send(&[vec![1, 0x80, 0xc2, 0, 0, 0x0e], vec![0; 60]].concat());
        assert_eq!(a.wait_for(1), std::slice::from_ref(&odd));
        assert_eq!(c.wait_for(1), std::slice::from_ref(&odd));
        workers.set_standalone(false);
        workers.barrier();
        a.send(&interest(&["x", "z"]));
        assert_eq!(b.wait_for(1).len(), 1);
    });
    assert!(stats.counters["flow_controller_queue_full"] > 50, "{}", stats.tables());
    assert_eq!(stats.counters["switch_flooded"], 1);
    assert_eq!(stats.counters["switch_packet_outs"], 5);
    assert_eq!(stats.counters["switch_no_frames"], 1, "65 000 octets are no frame");
}

/// One worker, driven round by round: with as many orders waiting as a ring holds, every round passes its burst on.
fn a_full_ring_of_orders_does_not_keep_frames_waiting(eal: &Eal, pool: &Mempool) {
    let stop = Arc::new(AtomicBool::new(false));
    let (ports, mut hosts) = ports(eal, pool);
    let config = config("[0]", "");
    let parts = Parts { eal: eal.clone(), pool: pool.clone(), ports };
    let switch = config.switch.as_ref().unwrap();
    let (mut engine, mut workers) = Engine::switch(&config, switch, parts, &stop).unwrap();
    let worker = engine.first_worker().unwrap();
    let now = Instant::from_nanos(1);
    let to_b = sending(&[Action::Output(Output::Port(B))]);
    workers.insert(now, &flow(None, Some(A), 1, &to_b)).unwrap();
    worker.round(now);
    for number in 0..1000u32 {
        let prefix = name(&["a", &number.to_string()]);
        workers.insert(now, &flow(Some(&prefix), None, 9, &to_b)).unwrap();
    }
    let frame = udp(b"waits for nothing");
    let [a, b, _] = &mut hosts;
    let mut rounds = 0;
    loop {
        let mut burst: ArrayVec<Mbuf, 32> = (0..32).map(|_| a.mbuf(&frame)).collect();
        a.to_engine.send(&mut burst);
        if worker.round(now) == 32 {
            break;
        }
        assert_eq!(b.received().len(), 32, "in round {rounds}");
        rounds += 1;
    }
    // A bounded number in each round, and all of them in the end.
    assert!((20..=200).contains(&rounds), "{rounds}");
    assert_eq!(b.received().len(), 32);
    workers.barrier();
    drop(workers);
    let done = Arc::new(AtomicBool::new(true));
    let stats = engine.run(&done).unwrap();
    assert_eq!(stats.counters["switch_orders"], 1001);
}
