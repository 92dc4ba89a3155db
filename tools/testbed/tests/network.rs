//! Networks in namespaces come and go as a whole. These tests need root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use heddle_testbed::layout::Layout;
use heddle_testbed::namespace::{self, Namespace};
use heddle_testbed::network::{Network, take_down};
use heddle_testbed::shutdown::Shutdown;
use heddle_testbed::topology::Topology;
use heddle_testbed::{Error, Result};
use rustix::process::{Signal, getpid, kill_process};

fn layout(prefix: &str) -> Layout {
    Layout::new(Topology::testbed_22().unwrap(), prefix)
}

fn left(prefix: &str) -> Vec<Namespace> {
    namespace::with_prefix(&format!("{prefix}-")).unwrap()
}

#[test]
fn a_network_stands_and_goes() {
    let start = Instant::now();
    let network = Network::set_up(layout("tbnet"), &Shutdown::manual()).unwrap();
    println!("set up in {:?}", start.elapsed());
    assert_eq!(left("tbnet").len(), 23);

    let again = Network::set_up(layout("tbnet"), &Shutdown::manual()).unwrap_err();
    assert!(matches!(again, Error::Busy(_)), "{again}");
    assert_eq!(left("tbnet").len(), 23, "the one that is refused takes nothing down");

    // One datagram from S to A: 100 octets of payload are 142 of Ethernet, and the limit lets it pass.
    let before = network.counters().unwrap();
    let peer = network.layout().outgoing("S").find(|cable| cable.to == "A").unwrap().to_address;
    network
        .namespace("S")
        .enter(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.send_to(&[0; 100], (peer, 9)).unwrap();
            Ok(())
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let carried = |counters: &heddle_testbed::network::Counters| counters["S-A"].octets;
    // The address resolution before it is a frame of 42 octets, too.
    assert_eq!(carried(&network.counters().unwrap()) - carried(&before), 142 + 42);
    assert_eq!(network.limiter_drops().unwrap().len(), 16);

    let start = Instant::now();
    drop(network);
    println!("taken down in {:?}", start.elapsed());
    assert_eq!(left("tbnet"), []);
}

#[test]
fn a_signal_during_set_up_leaves_nothing() {
    let shutdown = Shutdown::on_signals().unwrap();
    kill_process(getpid(), Signal::INT).unwrap();
    while !shutdown.is_wanted() {
        std::thread::yield_now();
    }
    let refused = Network::set_up(layout("tbint"), &shutdown).unwrap_err();
    assert!(matches!(refused, Error::Interrupted), "{refused}");
    assert_eq!(left("tbint"), []);
}

#[test]
fn a_panic_leaves_nothing() {
    let caught = std::panic::catch_unwind(|| {
        let network = Network::set_up(layout("tbpan"), &Shutdown::manual()).unwrap();
        assert_eq!(network.counters().unwrap().len(), 1, "this is to fail: there are 29 cables");
    });
    assert!(caught.is_err());
    assert_eq!(left("tbpan"), []);
}

#[test]
fn a_failure_in_mid_set_up_leaves_nothing() {
    // A rate that tc cannot take is found out after most of the network stands.
    let mut layout = layout("tbbad");
    layout.cables[16].rate = Some(0);
    let refused = Network::set_up(layout, &Shutdown::manual()).unwrap_err();
    assert!(refused.to_string().contains("tc -batch"), "{refused}");
    assert_eq!(left("tbbad"), []);
}

#[test]
fn processes_inside_end_with_the_network() -> Result<()> {
    let network = Network::set_up(layout("tbproc"), &Shutdown::manual())?;
    // What a test bed that was killed leaves: a process that nobody guards any more.
    let mut orphan = network.namespace("h1").enter(|| {
        std::process::Command::new("sleep").arg("600").spawn().map_err(Error::io("run sleep"))
    })?;
    network.leave_standing();
    assert_eq!(take_down("tbproc")?, 23);
    assert!(!orphan.wait().unwrap().success());
    assert_eq!(left("tbproc"), []);
    assert_eq!(take_down("tbproc")?, 0, "nothing is left to take down");
    Ok(())
}
