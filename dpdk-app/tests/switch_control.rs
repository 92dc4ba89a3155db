//! A switch between ports made of rings, controlled over TCP. EAL starts once in a process, so one test runs all the steps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::controlled::{
    Bench, PATIENCE, flow, in_port, output, program, set_ipv4_destination, tcp, under, verdict,
    with_controlled,
};
use common::{config, interest, start, udp, until};
use dpdk::{Eal, Mempool};
use heddle_openflow::client::Client;
use heddle_openflow::driver::FailMode;
use heddle_openflow::{
    Body, FlowFilter, FlowFlags, FlowMod, Match, PacketOut, PortMod, PortNumber, Reason,
};

/// Times that a program is replaced.
const REPLACEMENTS: i32 = 60;

#[test]
fn a_switch_under_control() {
    let (eal, pool) = start(1, 128);
    messages_make_it_forward(&eal, &pool);
    a_program_is_replaced_under_traffic(&eal, &pool, "jit");
    a_program_is_replaced_under_traffic(&eal, &pool, "interpret");
    without_its_controller_it_keeps_its_flows_or_floods(&eal, &pool);
    assert_eq!(pool.in_use(), 0, "every mbuf came home");
}

fn messages_make_it_forward(eal: &Eal, pool: &Mempool) {
    let stats = with_controlled(
        eal,
        pool,
        &config("[0]", ""),
        |_| {},
        |bench| {
            let mut client = bench.client();
            assert_eq!(client.features().datapath_id, 1);
            let ports = client.ports().unwrap();
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            assert_eq!(names, ["a", "b", "c"]);

            // By name, with the destination rewritten; by port; to the controller for what nothing else matches.
            client
                .change_all([
                    Body::FlowMod(flow(
                        10,
                        vec![under(&["x", "tno"])],
                        vec![set_ipv4_destination([192, 0, 2, 9]), output(3)],
                    )),
                    Body::FlowMod(flow(5, vec![in_port(2)], vec![output(1)])),
                    Body::FlowMod(flow(0, vec![], vec![output(PortNumber::CONTROLLER.0)])),
                ])
                .unwrap();
            let [a, b, c] = &mut bench.hosts;
            a.send(&interest(&["x", "tno", "1"]));
            b.send(&udp(b"to a"));
            assert_eq!(c.wait_for(1)[0][30..34], [192, 0, 2, 9]);
            assert_eq!(a.wait_for(1), [udp(b"to a")]);

            // An unknown name: the controller adds the flow and sends the packet on, so that it is not lost.
            let unknown = interest(&["y", "1"]);
            a.send(&unknown);
            let event = client.next_event(PATIENCE).unwrap().unwrap();
            let Body::PacketIn(packet) = event.body else { panic!("{event:?}") };
            assert_eq!(
                (packet.reason, packet.data.as_slice()),
                (Reason::NoMatch, unknown.as_slice())
            );
            client.flow_mod(flow(10, vec![under(&["y"])], vec![output(2)])).unwrap();
            client
                .packet_out(PacketOut {
                    buffer: heddle_openflow::NO_BUFFER,
                    in_port: PortNumber(1),
                    actions: vec![output(PortNumber::TABLE.0)],
                    data: packet.data,
                })
                .unwrap();
            assert_eq!(b.wait_for(1), [unknown]);

            // Counters of flows and ports.
            let mut packets = Vec::new();
            until("counters", || {
                let mut flows = client.flows(FlowFilter::covering(Match::default())).unwrap();
                flows.sort_by_key(|flow| flow.priority);
                packets = flows.iter().map(|flow| flow.packets).collect();
                packets == [1, 1, 1, 1]
            });
            until("port counters", || {
                client.port_stats(PortNumber(1)).unwrap()[0].counters[0] == 2
            });

            // A flow that nothing matches any more ends by itself, and its controller is told.
            let mut idle = flow(20, vec![under(&["idle"])], vec![output(2)]);
            (idle.idle_timeout, idle.flags) = (3, FlowFlags::SEND_FLOW_REM);
            client.flow_mod(idle).unwrap();
            a.send(&interest(&["idle"]));
            b.wait_for(1);
            let removed = loop {
                match client.next_event(PATIENCE).unwrap().expect("a flow has ended").body {
                    Body::FlowRemoved(removed) => break removed,
                    _ => continue,
                }
            };
            assert_eq!((removed.priority, removed.packets), (20, 1));

            // A port that is switched off, and on again.
            let port_mod = |is_on| Body::PortMod(PortMod::switching(&ports[0], is_on));
            client.change(port_mod(false)).unwrap();
            b.send(&udp(b"to a"));
            until("the drop", || bench.stats().counters["flow_port_down"] == 1);
            client.change(port_mod(true)).unwrap();
            let [a, b, _] = &mut bench.hosts;
            b.send(&udp(b"to a"));
            a.wait_for(1);
            client.change(Body::FlowMod(FlowMod::delete_all(0, Match::default()))).unwrap();
            until("no flow", || bench.stats().gauges["flows"] == 0);
            assert_eq!(bench.stats().gauges["control_connections"], 1);
        },
    );
    assert_eq!(stats.counters["switch_packet_ins"], 1);
    assert_eq!(stats.counters["switch_packet_outs"], 1);
    assert_eq!(stats.counters["control_accepted"], 1);
}

/// Frames from a go to b as long as the program says 1, which it does in each of its forms.
fn a_program_is_replaced_under_traffic(eal: &Eal, pool: &Mempool, runner: &'static str) {
    let config = config("[0]", &format!("programs = \"{runner}\""));
    let stats = with_controlled(
        eal,
        pool,
        &config,
        |_| {},
        |bench| {
            let mut client = bench.client();
            client.put_program(7, &program(1, 0)).unwrap();
            client.change(Body::FlowMod(flow(5, vec![verdict(7, 1)], vec![output(2)]))).unwrap();
            let (is_over, carried) = (AtomicBool::new(false), AtomicUsize::new(0));
            let [a, b, _] = &mut bench.hosts;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        (0..32).for_each(|_| a.send(&udp(b"matches")));
                        // None is lost, or this waits in vain.
                        b.wait_for(32);
                        carried.fetch_add(32, Ordering::Relaxed);
                    }
                });
                for number in 1..=REPLACEMENTS {
                    client.put_program(7, &program(1, number as usize * 8)).unwrap();
                    let before = carried.load(Ordering::Relaxed);
                    until("traffic", || carried.load(Ordering::Relaxed) > before);
                }
                is_over.store(true, Ordering::Relaxed);
            });
            let carried = carried.load(Ordering::Relaxed) as u64;
            assert!(carried >= 32 * REPLACEMENTS as u64);
            let programs = client.programs().unwrap();
            let [told] = programs.as_slice() else { panic!("{programs:?}") };
            assert_eq!((told.runs, told.hits, told.faults), (carried, carried, 0));
            assert_eq!(u64::from(told.octets), program(1, REPLACEMENTS as usize * 8).len() as u64);

            // One that is no program changes nothing; one that says something else, what is matched.
            assert!(client.put_program(7, b"\x7fELF and no more").is_err());
            a.send(&udp(b"matches"));
            b.wait_for(1);
            client.put_program(7, &program(2, 0)).unwrap();
            client.barrier().unwrap();
            a.send(&udp(b"matches no more"));
            until("no match", || bench.stats().counters["flow_no_match"] == 1);
            client.delete_program(7).unwrap();
            client.barrier().unwrap();
            bench.hosts[0].send(&udp(b"there is no program"));
            until("no match", || bench.stats().counters["flow_no_match"] == 2);
        },
    );
    assert_eq!(stats.counters["flow_no_match"], 2);
    assert_eq!(stats.ports["b"].tx_frames + 2, stats.ports["a"].rx_frames);
}

fn without_its_controller_it_keeps_its_flows_or_floods(eal: &Eal, pool: &Mempool) {
    for fail_mode in [FailMode::Secure, FailMode::Standalone] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = move |settings: &mut heddle_openflow::driver::Settings| {
            settings.controllers = vec![tcp(address)];
            settings.fail_mode = fail_mode;
            settings.fail_after = Duration::from_millis(100);
            settings.max_delay = Duration::from_millis(500);
        };
        let test =
            move |bench: &mut Bench| loses_its_controller(bench, listener, address, fail_mode);
        with_controlled(eal, pool, &config("[0]", ""), settings, test);
    }
}

fn loses_its_controller(
    bench: &mut Bench,
    listener: TcpListener,
    address: SocketAddr,
    fail_mode: FailMode,
) {
    let mut controller = Client::accept(listener.accept().unwrap().0, None, PATIENCE).unwrap();
    controller.change(Body::FlowMod(flow(5, vec![in_port(1)], vec![output(2)]))).unwrap();
    let connected = |bench: &Bench| bench.stats().gauges.get("controllers_connected") == Some(&1);
    until("the controller", || connected(bench));
    bench.hosts[0].send(&udp(b"before"));
    bench.hosts[1].wait_for(1);

    // It is gone, and its address with it.
    drop((controller, listener));
    until("its absence", || !connected(bench));
    if fail_mode == FailMode::Standalone {
        until("standalone mode", || bench.stats().counters["control_standalone"] == 1);
        // Through the connection of an operator, which is no controller, to be sure that the worker knows.
        bench.client().barrier().unwrap();
    }
    let [a, b, c] = &mut bench.hosts;
    a.send(&udp(b"without"));
    assert_eq!(b.wait_for(1), [udp(b"without")]);
    b.send(&udp(b"nothing matches this"));
    if fail_mode == FailMode::Standalone {
        assert_eq!(c.wait_for(2).len(), 2);
        a.wait_for(1);
    } else {
        until("no match", || bench.stats().counters["flow_no_match"] == 1);
    }

    // Another one at the same address.
    let listener = TcpListener::bind(address).unwrap();
    let mut controller = Client::accept(listener.accept().unwrap().0, None, PATIENCE).unwrap();
    until("the controller", || connected(bench));
    controller.barrier().unwrap();
    let flows = controller.flows(FlowFilter::covering(Match::default())).unwrap();
    assert_eq!(flows.len(), 1, "the flow is still there");
    bench.hosts[1].send(&udp(b"nothing matches this"));
    let expected = if fail_mode == FailMode::Standalone { 1 } else { 2 };
    until("no match", || bench.stats().counters["flow_no_match"] == expected);
    bench.hosts[0].send(&udp(b"again"));
    bench.hosts[1].wait_for(1);
    assert!(bench.hosts[2].received().is_empty());
}
