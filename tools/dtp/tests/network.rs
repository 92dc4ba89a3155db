//! Transfers between two network namespaces whose link goes away and comes back with another address. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::{Congestion, Connector, DtpListener, DtpStream, Settings, Trust, files};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const KEY: [u8; 32] = [5; 32];

/// Runs a command in the namespace of this thread.
fn sh(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().expect(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Puts this thread, and those that it starts, into a network namespace of their own, which ends with them.
fn enter_new_namespace() {
    // SAFETY: a network namespace holds no memory and no descriptor of this process's: nothing that other code relies on changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace needs root");
    sh("ip link set lo up");
}

struct Run {
    upload: bool,
    congestion: Congestion,
    outage: Duration,
    new_address: bool,
    octets: usize,
}

/// Transfers a file with an outage in its middle; gives how long it took from the link's return to the first progress.
fn transfer(run: &Run) -> Duration {
    let (ready, server_is_ready) = mpsc::channel();
    let (linked, link_is_there) = mpsc::channel::<()>();
    let (stop, stopped) = mpsc::channel::<()>();
    let directory = tempfile::tempdir().unwrap();
    let (root, here) = (directory.path().join("root"), directory.path().join("here"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&here).unwrap();
    let data: Vec<u8> =
        (0..run.octets as u64).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect();
    let source = if run.upload { here.join("data") } else { root.join("data") };
    std::fs::write(&source, &data).unwrap();
    let digest = files::sha256(&source).unwrap();
    let congestion = run.congestion;

    let mut dead = Duration::MAX;
    std::thread::scope(|scope| {
        let served = root.clone();
        scope.spawn(move || {
            enter_new_namespace();
            ready.send(gettid().as_raw_nonzero().get()).unwrap();
            link_is_there.recv().unwrap();
            sh("ip addr add 10.9.0.1/24 dev dtp-b");
            sh("ip link set dtp-b up");
            sh("tc qdisc add dev dtp-b root tbf rate 20mbit burst 16kb latency 50ms");
            let settings = Settings {
                identity: Identity { private: Some(KEY), server: None, pre_shared: None },
                patterns: vec![Pattern::KnownServer],
                buffer: 1 << 20,
                congestion,
                ..Settings::default()
            };
            let listener = DtpListener::bind("10.9.0.1:4433".parse().unwrap(), &settings).unwrap();
            ready.send(0).unwrap();
            let (stream, _) = listener.accept().unwrap();
            files::serve(&stream, &served, true).unwrap();
            // The stream says goodbye meanwhile.
            let _ = stopped.recv_timeout(Duration::from_secs(60));
        });
        let tid = server_is_ready.recv().unwrap();
        enter_new_namespace();
        sh(&format!("ip link add dtp-a type veth peer name dtp-b netns {tid}"));
        sh("ip addr add 10.9.0.2/24 dev dtp-a");
        sh("ip link set dtp-a up");
        sh("tc qdisc add dev dtp-a root tbf rate 20mbit burst 16kb latency 50ms");
        linked.send(()).unwrap();
        server_is_ready.recv().unwrap();
        let settings = Settings { buffer: 1 << 20, congestion, ..Settings::default() };
        let connector = Connector::with_settings(Trust::Key(public_key(&KEY)), &settings).unwrap();
        let stream = connector.connect("10.9.0.1:4433".parse::<SocketAddr>().unwrap()).unwrap();
        dead = with_outage(run, &stream, &here);
        drop(stream);
        stop.send(()).unwrap();
    });
    let got = if run.upload { root.join("data") } else { here.join("data") };
    assert_eq!(files::sha256(&got).unwrap(), digest);
    dead
}

fn with_outage(run: &Run, stream: &DtpStream, here: &Path) -> Duration {
    let half = run.octets as u64 / 3;
    let (reached, go) = mpsc::channel::<()>();
    let (came_back, back) = mpsc::channel::<Instant>();
    let (outage, new_address) = (run.outage, run.new_address);
    let mut dead = None;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            go.recv().unwrap();
            sh("ip link set dtp-a down");
            std::thread::sleep(outage);
            if new_address {
                sh("ip addr flush dev dtp-a");
                sh("ip addr add 10.9.0.77/24 dev dtp-a");
            }
            sh("ip link set dtp-a up");
            came_back.send(Instant::now()).unwrap();
        });
        let (mut asked, mut returned, mut stood) = (false, None, 0);
        let mut tell = |progress: files::Progress| {
            if !asked && progress.done > half {
                asked = true;
                reached.send(()).unwrap();
            }
            if returned.is_none() {
                returned = back.try_recv().ok();
                stood = progress.done;
            } else if dead.is_none() && progress.done > stood {
                dead = returned.map(|returned| returned.elapsed());
            }
        };
        let deadline = Some(Instant::now() + Duration::from_secs(120));
        let result = if run.upload {
            files::put(stream, &here.join("data"), "data", deadline, &mut tell)
        } else {
            files::get(stream, "data", &here.join("data"), deadline, &mut tell)
        };
        assert_eq!(result.unwrap(), run.octets as u64);
        assert!(asked, "the outage was in the middle");
    });
    assert!(stream.peer_addr().unwrap().ip() == "10.9.0.1".parse::<IpAddr>().unwrap());
    dead.unwrap_or(Duration::ZERO)
}

#[test]
fn a_download_outlives_an_outage_and_a_new_address() {
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        let run = Run {
            upload: false,
            congestion,
            outage: Duration::from_secs(3),
            new_address: true,
            octets: 10_000_000,
        };
        println!("download: {:?} from the link's return to the next octets", transfer(&run));
    }
}

#[test]
fn an_upload_outlives_an_outage_and_a_new_address() {
    let run = Run {
        upload: true,
        congestion: Congestion::Cubic,
        outage: Duration::from_secs(3),
        new_address: true,
        octets: 10_000_000,
    };
    println!("upload: {:?} from the link's return to the next octets", transfer(&run));
}

#[test]
fn the_same_address_does_as_well() {
    let run = Run {
        upload: false,
        congestion: Congestion::Cubic,
        outage: Duration::from_secs(8),
        new_address: false,
        octets: 10_000_000,
    };
    println!("download: {:?} from the link's return to the next octets", transfer(&run));
}
