//! A large table that is filled and emptied while packets flow through every worker.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::controlled::{self, output, under, with_controlled};
use common::{C, config, flow, interest, name, sending, start, until, with_switch};
use dpdk::{Eal, Mempool};
use heddle_core::flow::{Action, Output};
use heddle_core::node::Instant;
use heddle_openflow::datapath::Datapath;
use heddle_openflow::{Body, FlowFilter, FlowMod, Match};

/// Prefixes in the table: a million where the compiler optimises.
const MANY: u32 = if cfg!(debug_assertions) { 30_000 } else { 1_000_000 };

/// Packets of one prefix flow from a to c, one after the other, while many prefixes are inserted, looked up and removed.
#[test]
fn many_prefixes_come_and_go_under_traffic() {
    let (eal, pool) = start(2, 128);
    by_the_control_thread_s_own_calls(&eal, &pool);
    by_a_controller_s_messages(&eal, &pool);
    assert_eq!(pool.in_use(), 0, "every mbuf came home");
}

/// At two workers.
fn by_the_control_thread_s_own_calls(eal: &Eal, pool: &Mempool) {
    let config = config("[0, 1]", &format!("max_flows = {}\nmax_name_octets = 600", MANY + 8));
    let stats = with_switch(eal, pool, &config, |workers, hosts| {
        let [a, b, c] = hosts;
        let now = Instant::from_nanos(1);
        let to_c = sending(&[Action::Output(Output::Port(C))]);
        let traffic = name(&["traffic"]);
        workers.insert(now, &flow(Some(&traffic), None, 5, &to_c)).unwrap();
        workers.barrier();
        let is_over = AtomicBool::new(false);
        let carried = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Both workers: a is polled by the first, b by the second.
                let mut number = 0u32;
                while !is_over.load(Ordering::Relaxed) {
                    for _ in 0..16 {
                        number += 1;
                        a.send(&interest(&["traffic", &number.to_string()]));
                        b.send(&interest(&["traffic", &number.to_string()]));
                    }
                    // None is lost, or this waits in vain.
                    c.wait_for(32);
                    carried.fetch_add(32, Ordering::Relaxed);
                }
            });
            let prefix = |number: u32| name(&["a", "prefix", &number.to_string()]);
            let mut ids = Vec::new();
            let mut at_least = 0;
            for number in 0..MANY {
                ids.push(
                    workers.insert(now, &flow(Some(&prefix(number)), None, 5, &to_c)).unwrap(),
                );
                // The traffic goes on in between: as many times as there are tenths of the work.
                if number % (MANY / 10) == 0 {
                    let before = carried.load(Ordering::Relaxed);
                    until("traffic", || carried.load(Ordering::Relaxed) > before);
                    at_least += 1;
                }
            }
            assert_eq!(workers.rules(), MANY as usize + 1);
            workers.barrier();
            assert!(carried.load(Ordering::Relaxed) >= 32 * at_least);
            for id in ids {
                workers.remove(id);
            }
            workers.barrier();
            assert_eq!(workers.rules(), 1);
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(c.received().is_empty());
    });
    assert_eq!(stats.counters["switch_orders"], u64::from(MANY) * 4 + 2);
    assert_eq!(stats.ports["c"].tx_frames, stats.ports["a"].rx_frames + stats.ports["b"].rx_frames);
    assert_eq!(stats.ports["c"].tx_dropped, 0);
    assert_eq!(stats.counters["flow_no_match"], 0);
}

/// A controller sends as fast as the switch takes it, and reads the answers when it is done.
fn by_a_controller_s_messages(eal: &Eal, pool: &Mempool) {
    let many = MANY / 5;
    let config = config("[0]", &format!("max_flows = {}\nmax_name_octets = 600", many + 8));
    let stats = with_controlled(
        eal,
        pool,
        &config,
        |_| {},
        move |bench| {
            let mut client = bench.client();
            let flow_mod = |components: &[&str]| {
                Body::FlowMod(controlled::flow(5, vec![under(components)], vec![output(3)]))
            };
            client.change(flow_mod(&["traffic"])).unwrap();
            let (is_over, carried) = (AtomicBool::new(false), AtomicUsize::new(0));
            let [a, _, c] = &mut bench.hosts;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        (0..32).for_each(|_| a.send(&interest(&["traffic", "1"])));
                        // None is lost, or this waits in vain.
                        c.wait_for(32);
                        carried.fetch_add(32, Ordering::Relaxed);
                    }
                });
                for number in 0..many {
                    client.send(flow_mod(&["a", "prefix", &number.to_string()])).unwrap();
                    if number % (many / 10) == 0 {
                        let before = carried.load(Ordering::Relaxed);
                        until("traffic", || carried.load(Ordering::Relaxed) > before);
                    }
                }
                client.barrier().unwrap();
                // All of them, by one message.
                let all = Match { fields: vec![under(&["a"])] };
                client.send(Body::FlowMod(FlowMod::delete_all(0, all))).unwrap();
                client.barrier().unwrap();
                is_over.store(true, Ordering::Relaxed);
            });
            let flows = client.flows(FlowFilter::covering(Match::default())).unwrap();
            assert_eq!(flows.len(), 1);
        },
    );
    assert_eq!(stats.counters["switch_orders"], u64::from(many) * 2 + 1);
    assert_eq!(stats.ports["c"].tx_frames, stats.ports["a"].rx_frames);
    assert_eq!(stats.counters["flow_no_match"], 0);
}
