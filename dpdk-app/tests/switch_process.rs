//! A switch as a process: over the kernel's interfaces in namespaces of their own, told to stop, and refused what is not to be
//! had. The first of these needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heddle_host::control::{self, Client as Telemetry};
use heddle_host::metrics::Stats;
use heddle_openflow::client::Client;
use heddle_openflow::{
    Action, Body, Field, FlowMod, Instruction, Match, Oxm, Port, PortNumber, Tls, TlsFiles,
};
use program::{Running, first_cpu};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const PATIENCE: Duration = Duration::from_secs(30);

/// A configuration file of a switch.
struct File {
    directory: tempfile::TempDir,
    name: String,
}

impl File {
    fn new(test: &str, switch: &str, ports: &[(&str, &str)]) -> Self {
        let cpu = first_cpu();
        let name = format!("test-{test}-{}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[engine]\nname = \"{name}\"\nlcores = [{cpu}]\nidle = \"sleep\"\nhugepages = \"never\"\nmbufs = 4096\n\
             [switch]\ndatapath_id = \"00:00:00:00:00:00:00:2a\"\n{switch}\n"
        );
        for (port, vdev) in ports {
            text += &format!("[[port]]\nname = \"{port}\"\nvdev = \"{vdev}\"\n");
        }
        std::fs::write(directory.path().join("heddle.toml"), text).unwrap();
        Self { directory, name }
    }

    /// The program, in a network namespace if one is named.
    fn command(&self, namespace: Option<&str>) -> Command {
        let program = env!("CARGO_BIN_EXE_heddle-dpdk");
        let mut command = match namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, program]);
                command
            }
        };
        command.arg("-c").arg(self.directory.path().join("heddle.toml")).arg("--json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> Client {
    let address = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    Client::connect(&address, None, PATIENCE).unwrap()
}

fn flow(priority: u16, fields: Vec<Oxm>, to: PortNumber) -> Body {
    let actions = vec![Action::Output { port: to, max_len: 0xffff }];
    Body::FlowMod(FlowMod::add(
        0,
        priority,
        Match { fields },
        vec![Instruction::ApplyActions(actions)],
    ))
}

fn in_port(port: u32) -> Oxm {
    Oxm::Basic { field: Field::InPort, value: port.to_be_bytes().to_vec(), mask: None }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_answers_while_it_runs_and_stops_cleanly() {
    let port = free_port();
    let listen = format!("listen = [\"tcp:127.0.0.1:{port}\", \"tcp:[::1]:{port}\"]");
    let file = File::new("swterm", &listen, &[("a", "net_ring0"), ("b", "net_ring1")]);
    let running = Running::start(file.command(None));
    let mut client = connect(port);
    assert_eq!(client.description().unwrap().datapath, file.name);
    client.change(flow(1, vec![], PortNumber::CONTROLLER)).unwrap();
    let address = format!("tcp:[::1]:{port}").parse().unwrap();
    let second = Client::connect(&address, None, PATIENCE).unwrap();
    assert_eq!(second.features().datapath_id, 0x2a);

    let telemetry = Telemetry::connect(&file.name).unwrap();
    let mut stats = Stats::default();
    until("the flow and the connections", || {
        stats = telemetry.stats().unwrap();
        let now = |name: &str| stats.gauges.get(name).copied();
        (now("flows"), now("control_connections")) == (Some(1), Some(2))
    });
    assert_eq!(stats.ports.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(stats.counters["flow_no_match"], 0);
    assert!(stats.tables().contains("control_connections"));
    drop(telemetry);

    // With connections that are open.
    let last = running.stop(Signal::TERM);
    assert_eq!(last.name, file.name);
    assert_eq!((last.gauges["flows"], last.counters["switch_orders"]), (1, 1));
    let directory = control::runtime_directory().join(control::file_prefix(&file.name));
    assert!(!directory.exists(), "nothing is left behind");
}

/// An authority, and a certificate of it for the loopback address, in files.
fn certificates(directory: &Path) -> TlsFiles {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    TlsFiles {
        certificate: write("switch.pem", certificate.pem()),
        key: write("switch.key", key.serialize_pem()),
        authority: write("ca.pem", issuer.pem()),
    }
}

#[test]
fn with_tls_it_talks_to_those_whose_certificates_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let files = certificates(directory.path());
    let port = free_port();
    let switch = format!(
        "listen = [\"tls:127.0.0.1:{port}\"]\ntls = {{ certificate = {:?}, key = {:?}, authority = {:?} }}",
        files.certificate, files.key, files.authority
    );
    let file = File::new("swtls", &switch, &[("a", "net_ring0")]);
    let running = Running::start(file.command(None));
    let address = format!("tls:127.0.0.1:{port}").parse().unwrap();
    let tls = Tls::load(&files).unwrap();
    let mut client = Client::connect(&address, Some(&tls), PATIENCE).unwrap();
    client.change(flow(1, vec![], PortNumber::CONTROLLER)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let strange = Tls::load(&certificates(elsewhere.path())).unwrap();
    assert!(Client::connect(&address, Some(&strange), PATIENCE).is_err());
    let plain = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    assert!(Client::connect(&plain, None, PATIENCE).is_err());
    client.barrier().unwrap();
    let stats = running.stop(Signal::TERM);
    assert_eq!((stats.gauges["flows"], stats.counters["control_tls_failed"]), (1, 2));
}

#[test]
fn what_is_not_to_be_had_is_told() {
    let fails = |file: &File| {
        let Output { status, stderr, stdout } = file.command(None).output().unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(stdout.is_empty());
        // Without the line breaks and the frame around the report.
        let text = String::from_utf8(stderr).unwrap().replace(['\n', '│', '╰', '─', '▶'], " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let ports = [("a", "net_ring0")];
    let listen = format!("listen = [\"tcp:127.0.0.1:{}\"]\n", free_port());
    // More than the machine has, and less than what the file's check takes for a mistake.
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let machine_kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    let flows = (machine_kib * 1024 / 300).min(16_777_216);
    let names = (machine_kib * 1024 / 2).min(4_000_000_000);
    let much = format!(
        "{listen}max_flows = {flows}\nmax_name_octets = {names}\nmax_instructions = 4000000\n"
    );
    let message = fails(&File::new("swmemory", &much, &ports));
    assert!(message.contains("lower `max_flows`"), "{message}");
    assert!(message.contains("this machine has"), "{message}");

    // Held until the end of the test.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("listen = [\"tcp:{}\"]", holder.local_addr().unwrap());
    let message = fails(&File::new("swtaken", &taken, &ports));
    assert!(message.contains("cannot listen at"), "{message}");

    let tls = "listen = [\"tls:127.0.0.1:1\"]\ntls = { certificate = \"no.pem\", key = \"no.key\", authority = \"no.pem\" }";
    let message = fails(&File::new("swnotls", tls, &ports));
    assert!(message.contains("no.pem"), "{message}");
}

/// Three network namespaces: the switch in one, and a host on each of its ports.
struct Network {
    prefix: String,
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

impl Network {
    fn new() -> Self {
        let network = Self { prefix: format!("hsw{}", std::process::id()) };
        let switch = network.namespace("s");
        ip(&format!("netns add {switch}"));
        ip(&format!("-n {switch} link set lo up"));
        for (number, host) in ["a", "b"].iter().enumerate() {
            let namespace = network.namespace(host);
            ip(&format!("netns add {namespace}"));
            ip(&format!(
                "-n {switch} link add s-{host} type veth peer name eth0 netns {namespace}"
            ));
            ip(&format!("-n {switch} link set s-{host} up"));
            ip(&format!("-n {namespace} addr add 10.9.0.{}/24 dev eth0", number + 1));
            ip(&format!("-n {namespace} link set eth0 up"));
            // The switch sees what the kernel sends, whose checksums must be there.
            let mut ethtool = Command::new("ip");
            ethtool.args(["netns", "exec", &namespace, "ethtool", "-K", "eth0", "tx", "off"]);
            assert!(ethtool.output().unwrap().status.success(), "ethtool");
        }
        network
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Moves this thread into a namespace, for the rest of its life.
    fn enter(&self, name: &str) {
        let file = std::fs::File::open(format!("/run/netns/{}", self.namespace(name))).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in ["a", "b", "s"] {
            let name = self.namespace(name);
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Sends datagrams from host a to host b and waits for each to come back; one that the kernels lose on the way is sent again.
fn exchange(network: &Network, count: usize) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let is_over = &is_over;
        scope.spawn(move || {
            network.enter("b");
            let socket = UdpSocket::bind("10.9.0.2:5000").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            tell.send(()).unwrap();
            let mut octets = [0; 2048];
            while !is_over.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut octets) {
                    socket.send_to(&octets[..len], from).unwrap();
                }
            }
        });
        scope.spawn(move || {
            let _over = SetOnDrop(is_over);
            network.enter("a");
            told.recv().unwrap();
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            socket.connect("10.9.0.2:5000").unwrap();
            let mut octets = [0; 2048];
            for number in 0..count {
                let sent = vec![number as u8; 100 + number];
                until("a datagram", || {
                    socket.send(&sent).unwrap();
                    // Earlier ones may come twice.
                    socket.recv(&mut octets).is_ok_and(|len| octets[..len] == sent)
                });
            }
        });
    });
}

/// Ends what waits for the flag, whatever becomes of the thread.
struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn it_joins_hosts_over_the_kernel_s_interfaces() {
    let network = Network::new();
    let file = File::new(
        "swveth",
        "listen = [\"tcp:127.0.0.1:6654\"]",
        &[
            ("a", "net_af_packet0,iface=s-a,qdisc_bypass=0"),
            ("b", "net_af_packet1,iface=s-b,qdisc_bypass=0"),
        ],
    );
    let running = Running::start(file.command(Some(&network.namespace("s"))));
    std::thread::scope(|scope| {
        let network = &network;
        scope.spawn(move || {
            network.enter("s");
            let mut client = connect(6654);
            client
                .change_all([
                    flow(5, vec![in_port(1)], PortNumber(2)),
                    flow(5, vec![in_port(2)], PortNumber(1)),
                ])
                .unwrap();
            exchange(network, 50);

            // The link of a port goes down and comes up again.
            let switch = network.namespace("s");
            for (action, state) in [("down", Port::NO_LINK), ("up", 0)] {
                ip(&format!("-n {switch} link set s-b {action}"));
                let give_up = Instant::now() + PATIENCE;
                loop {
                    assert!(Instant::now() < give_up, "no word of s-b being {action}");
                    let event = client.next_event(PATIENCE).unwrap().expect("a port-status");
                    let Body::PortStatus(status) = event.body else { continue };
                    if status.port.number == 2 && status.port.state & Port::NO_LINK == state {
                        break;
                    }
                }
            }
            exchange(network, 50);
        });
    });
    let stats = running.stop(Signal::TERM);
    assert!(stats.ports["a"].rx_frames >= 100, "{}", stats.tables());
    assert!(stats.ports["b"].tx_frames >= 100, "{}", stats.tables());
}
