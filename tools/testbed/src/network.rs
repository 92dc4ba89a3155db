//! A topology laid out in network namespaces.
//!
//! Each node is a namespace, each link a veth pair that has the link's name at both ends. The sending end of a link between switches is
//! limited by TBF. Links to the sender's host and to end hosts are not limited.
//!
//! Whatever happens, the namespaces go: when the [`Network`] is dropped, which a panic and an error do too, and signals are turned into
//! errors by [`Interrupt`]. Only SIGKILL leaves them, and [`remove`] takes them away.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Result};
use crate::topology::{SENDER, Topology};

/// What all our namespaces begin with.
pub const PREFIX: &str = "hdl-";

/// The address of the sender's host.
pub const SENDER_ADDRESS: [u8; 4] = [10, 0, 0, 1];

/// Octets that a link's TBF lets pass at once: two frames.
const BURST_OCTETS: u64 = 3_200;

/// Octets that may wait at a link. More than a paced sender ever leaves waiting, so that a frame lost here means that somebody
/// sent faster than the link.
const QUEUE_OCTETS: u64 = 256 << 10;

/// The MTU of every link.
pub const MTU: usize = 1500;

/// Tells long work that a signal asks it to stop.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP do not kill this process but are seen here.
    ///
    /// # Errors
    /// When the operating system does not let us have them.
    pub fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(Error::io("catch signals"))?;
        }
        Ok(Self(flag))
    }

    /// Nothing when no signal came.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after one.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// A network that is up. Dropping it takes it down.
#[derive(Debug)]
pub struct Network {
    topology: Topology,
    keep: bool,
}

/// The namespace of a node.
pub fn namespace(node: &str) -> String {
    format!("{PREFIX}{node}")
}

/// `program`, to be run inside the namespace of `node`.
pub fn command_in(node: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace(node)]).arg(program);
    command
}

impl Network {
    /// Lays `topology` out.
    ///
    /// # Errors
    /// When we are not root, when namespaces of ours are there already, or when the system refuses something; then nothing
    /// stays behind.
    pub fn up(topology: Topology, interrupt: &Interrupt) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        if !ours()?.is_empty() {
            return Err(Error::Busy(
                "a testbed is up already, or was left by a process that was killed: \
                 take it down with `heddle testbed down`"
                    .into(),
            ));
        }
        // From here on dropping takes down what there is.
        let network = Self { topology, keep: false };
        network.make(interrupt)?;
        Ok(network)
    }

    /// The network that another process has put up and left.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(topology: Topology) -> Result<Self> {
        let there = ours()?;
        match nodes(&topology).find(|node| !there.contains(&namespace(node))) {
            None => Ok(Self { topology, keep: true }),
            Some(node) => Err(Error::Busy(format!(
                "no testbed of this topology is up: there is no namespace {}",
                namespace(node)
            ))),
        }
    }

    /// The topology that is laid out.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Leaves the network up when this value is dropped.
    pub fn keep(mut self) {
        self.keep = true;
    }

    /// Octets that each link has delivered so far, in the order of the topology's links.
    ///
    /// # Errors
    /// When an interface cannot be read.
    pub fn link_octets(&self) -> Result<Vec<u64>> {
        let mut octets = vec![0; self.topology.links.len()];
        for node in self.topology.nodes() {
            let interfaces = interfaces(node)?;
            for (link, octets) in self.topology.links.iter().zip(&mut octets) {
                if link.to == node {
                    let name = link.name();
                    let found = interfaces.iter().find(|interface| interface.ifname == name);
                    *octets = found.map_or(0, |interface| interface.stats64.rx.bytes);
                }
            }
        }
        Ok(octets)
    }

    fn make(&self, interrupt: &Interrupt) -> Result<()> {
        let topology = &self.topology;
        let mut spaces = String::new();
        let mut pairs = String::new();
        for node in nodes(topology) {
            spaces += &format!("netns add {}\n", namespace(node));
        }
        for (from, to, _) in links(topology) {
            let (name, from, to) = (format!("{from}-{to}"), namespace(from), namespace(to));
            pairs += &format!(
                "link add {name} netns {from} mtu {MTU} type veth peer name {name} netns {to} mtu {MTU}\n"
            );
        }
        batch(Command::new("ip").args(["-batch", "-"]), &spaces)?;
        batch(Command::new("ip").args(["-batch", "-"]), &pairs)?;
        for (number, node) in nodes(topology).enumerate() {
            interrupt.check()?;
            self.set_up(node, number)?;
        }
        Ok(())
    }

    /// Addresses, routes, limits and switches of one node.
    fn set_up(&self, node: &str, number: usize) -> Result<()> {
        let ends: Vec<(usize, (&str, &str, Option<u64>))> = links(&self.topology)
            .enumerate()
            .filter(|(_, (from, to, _))| *from == node || *to == node)
            .collect();
        let is_host = node == SENDER || self.topology.hosts.iter().any(|host| host.name == node);
        let mut setup = "link set lo up\n".to_owned();
        let mut limits = String::new();
        // Multicast from afar comes in here that no unicast route leads back to, and a frame of a veth must be whole:
        // an engine takes it as it is, so checksums cannot be left to hardware, nor segments be joined.
        let mut shell = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.conf.all.rp_filter=0 \
                         net.ipv4.conf.default.rp_filter=0"
            .to_owned();
        for (link, (from, to, rate)) in ends {
            let name = format!("{from}-{to}");
            let [a, b, c] = [(link >> 6) as u8, (link << 2) as u8, u8::from(to == node) + 1];
            let address = match node {
                SENDER => SENDER_ADDRESS.map(|octet| octet.to_string()).join(".") + "/30",
                _ => format!("10.{}.{a}.{}/30", u8::from(from != SENDER), b + c),
            };
            setup += &format!("addr add {address} dev {name}\nlink set {name} up\n");
            if is_host {
                setup += &format!("route add 224.0.0.0/4 dev {name}\n");
            }
            shell += &format!("; sysctl -qw net.ipv4.conf.{name}.rp_filter=0");
            shell += &format!("; ethtool -K {name} tx off tso off gso off gro off >/dev/null");
            if let (true, Some(rate)) = (from == node, rate) {
                let bits = rate * 8;
                limits += &format!(
                    "qdisc add dev {name} root tbf rate {bits}bit burst {BURST_OCTETS} limit {QUEUE_OCTETS}\n"
                );
            }
        }
        let _ = number;
        let space = namespace(node);
        batch(Command::new("ip").args(["-n", &space, "-batch", "-"]), &setup)?;
        run(command_in(node, "sh").args(["-ec", &shell]))?;
        if !limits.is_empty() {
            batch(Command::new("tc").args(["-n", &space, "-batch", "-"]), &limits)?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing better can be done about an error here than what the next start says.
            let _ = remove();
        }
    }
}

/// Takes away every namespace of ours, and the processes in them; how many there were.
///
/// # Errors
/// When the system refuses.
pub fn remove() -> Result<usize> {
    let spaces = ours()?;
    for space in &spaces {
        let output = Command::new("ip")
            .args(["netns", "pids", space])
            .output()
            .map_err(Error::io("run ip"))?;
        for pid in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                // It may be gone by now.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
    let deletions: String = spaces.iter().map(|space| format!("netns del {space}\n")).collect();
    if !spaces.is_empty() {
        batch(Command::new("ip").args(["-force", "-batch", "-"]), &deletions)?;
    }
    Ok(spaces.len())
}

/// The names of the namespaces of ours that exist.
pub fn ours() -> Result<Vec<String>> {
    let output =
        Command::new("ip").args(["netns", "list"]).output().map_err(Error::io("run ip"))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with(PREFIX))
        .map(str::to_owned)
        .collect())
}

/// All nodes that get a namespace.
fn nodes(topology: &Topology) -> impl Iterator<Item = &str> {
    let hosts = topology.hosts.iter().map(|host| host.name.as_str());
    std::iter::once(SENDER).chain(topology.nodes()).chain(hosts)
}

/// All links as (from, to, limit).
fn links(topology: &Topology) -> impl Iterator<Item = (&str, &str, Option<u64>)> {
    let inner = topology.links.iter();
    let hosts = topology.hosts.iter();
    std::iter::once((SENDER, topology.source.as_str(), None))
        .chain(inner.map(|link| (link.from.as_str(), link.to.as_str(), Some(link.capacity))))
        .chain(hosts.map(|host| (host.attached_to.as_str(), host.name.as_str(), None)))
}

#[derive(Deserialize)]
struct Interface {
    ifname: String,
    stats64: Stats64,
}

#[derive(Deserialize)]
struct Stats64 {
    rx: Direction,
}

#[derive(Deserialize)]
struct Direction {
    bytes: u64,
}

fn interfaces(node: &str) -> Result<Vec<Interface>> {
    let space = namespace(node);
    let text = run(Command::new("ip").args(["-n", &space, "-s", "-j", "link", "show"]))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::Invalid(format!("ip's answer about {space} is not understood: {error}")))
}

/// Runs a command to its end; what it wrote to its standard output.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(cannot_run(command))?;
    check(command, &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command that reads `input`.
fn batch(command: &mut Command, input: &str) -> Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot_run(command))?;
    if let Some(mut stdin) = child.stdin.take() {
        // When it reads no further it has failed, and says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(cannot_run(command))?;
    check(command, &output)
}

fn cannot_run(command: &Command) -> impl FnOnce(std::io::Error) -> Error {
    Error::io(format!("run {}", command.get_program().display()))
}

fn check(command: &Command, output: &std::process::Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    Err(Error::Command {
        command: words.join(" "),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
