//! Lays a network out in namespaces and takes it down again.
//!
//! Every interface is made inside namespaces of ours; the machine's own interfaces are never touched. A [`Network`]
//! is a guard: when it goes out of scope, for whatever reason, its namespaces go.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layout::{Cable, Layout, MTU};
use crate::namespace::{self, Namespace, call};
use crate::shutdown::Shutdown;
use crate::topology::SENDER;

/// The largest Ethernet frame on a link, in octets, as TBF counts it.
const MAX_FRAME: u64 = MTU as u64 + 14;

/// Frames and octets that a link has carried, counted where it ends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Ethernet octets: header included, preamble and FCS not.
    pub octets: u64,
    /// Frames.
    pub frames: u64,
}

/// What every cable has carried since it was laid, by its name.
pub type Counters = BTreeMap<String, Carried>;

/// A network that stands. When this goes out of scope, it is taken down.
#[derive(Debug)]
pub struct Network {
    layout: Layout,
    keep: bool,
}

impl Network {
    /// Lays the network out.
    ///
    /// # Errors
    /// When there are namespaces of the same prefix already, when the operating system refuses something, or when the
    /// user wants to stop. Nothing is left behind then.
    pub fn set_up(layout: Layout, shutdown: &Shutdown) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        if let Some(there) = namespace::with_prefix(&format!("{}-", layout.prefix))?.first() {
            return Err(Error::Busy(format!(
                "the namespace {} is there already: another testbed is up, or was left by a run that was killed; \
                 `heddle testbed down` ends and removes whichever it is",
                there.name()
            )));
        }
        let network = Self { layout, keep: false };
        network.make_namespaces()?;
        shutdown.check()?;
        network.make_cables()?;
        for node in network.layout.nodes() {
            shutdown.check()?;
            network.configure(node)?;
        }
        Ok(network)
    }

    /// Does not take the network down at the end.
    pub fn leave_standing(mut self) {
        self.keep = true;
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The namespace of a node, a host or the sender.
    pub fn namespace(&self, node: &str) -> Namespace {
        self.layout.namespace(node)
    }

    /// What each cable has carried so far, as its receiving end counted it.
    ///
    /// # Errors
    /// When a namespace is gone.
    pub fn counters(&self) -> Result<Counters> {
        let mut counters = Counters::new();
        for node in self.layout.nodes().filter(|&node| node != SENDER) {
            let table = self.namespace(node).enter(|| {
                // Not /proc/net: that is the namespace of the process, this one the namespace of the thread.
                let path = Path::new("/proc/thread-self/net/dev");
                fs::read_to_string(path).map_err(Error::at("read", path))
            })?;
            for cable in self.layout.incoming(node) {
                let carried = received(&table, &cable.name).ok_or_else(|| {
                    Error::Busy(format!("the interface {} of {node} is gone", cable.name))
                })?;
                counters.insert(cable.name.clone(), carried);
            }
        }
        Ok(counters)
    }

    /// Frames that the links' rate limits have dropped so far, by link.
    ///
    /// # Errors
    /// When a namespace is gone.
    pub fn limiter_drops(&self) -> Result<BTreeMap<String, u64>> {
        #[derive(Deserialize)]
        struct Queue {
            kind: String,
            dev: String,
            #[serde(default)]
            drops: u64,
        }
        let mut drops = BTreeMap::new();
        for node in self.layout.topology.nodes() {
            let json = self.namespace(node).call("tc", &["-s", "-j", "qdisc", "show"], "")?;
            let queues: Vec<Queue> = serde_json::from_str(&json).map_err(|error| {
                Error::Invalid(format!("what tc says is not understood: {error}"))
            })?;
            drops.extend(
                queues
                    .into_iter()
                    .filter(|queue| queue.kind == "tbf")
                    .map(|queue| (queue.dev, queue.drops)),
            );
        }
        Ok(drops)
    }

    fn make_namespaces(&self) -> Result<()> {
        let batch: String = self
            .layout
            .nodes()
            .map(|node| format!("netns add {}\n", self.namespace(node).name()))
            .collect();
        call("ip", &["-batch", "-"], &batch)?;
        for node in self.layout.nodes() {
            let forwards = if self.layout.is_switch(node) { "1" } else { "0" };
            self.namespace(node).enter(|| {
                // No neighbour discovery of IPv6 in the counters. A kernel without IPv6 has no such files.
                for scope in ["all", "default"] {
                    set_if_there(&format!("ipv6/conf/{scope}/disable_ipv6"), "1")?;
                    // Content comes in where no route leads back to its sender.
                    set_if_there(&format!("ipv4/conf/{scope}/rp_filter"), "0")?;
                }
                set_if_there("ipv4/ip_forward", forwards)
            })?;
        }
        Ok(())
    }

    fn make_cables(&self) -> Result<()> {
        let batch = self.layout.cables.iter().fold(
            String::new(),
            |mut batch, Cable { name, from, to, .. }| {
                let (from, to) = (self.namespace(from), self.namespace(to));
                // One queue: frames of one link must not overtake each other.
                let end = format!("mtu {MTU} numtxqueues 1 numrxqueues 1");
                let (from, to) = (from.name(), to.name());
                let _ = writeln!(
                    batch,
                    "link add {name} netns {from} {end} type veth peer name {name} netns {to} {end}"
                );
                batch
            },
        );
        call("ip", &["-batch", "-"], &batch).map(drop)
    }

    /// Addresses, offloads, rate limits and routes of one node.
    fn configure(&self, node: &str) -> Result<()> {
        let ends = self.layout.cables.iter().filter_map(|cable| match node {
            _ if cable.from == node => Some((cable, cable.from_address, cable.to_address)),
            _ if cable.to == node => Some((cable, cable.to_address, cable.from_address)),
            _ => None,
        });
        let (mut links, mut limits, mut offloads) =
            (String::from("link set lo up\n"), String::new(), Vec::new());
        for (cable, own, other) in ends {
            let name = cable.name.as_str();
            let _ = writeln!(links, "addr add {own}/30 dev {name}\nlink set {name} up");
            if !self.layout.is_switch(node) {
                let _ = writeln!(links, "route add default via {other} dev {name}");
            }
            if let Some(rate) = cable.rate.filter(|_| cable.from == node) {
                let _ = writeln!(limits, "qdisc add dev {name} root {}", limiter(rate));
            }
            offloads.push(name);
        }
        self.namespace(node).enter(|| {
            // A frame must be on the link what it says: of its own size, with its checksum.
            for name in offloads {
                call(
                    "ethtool",
                    &["-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"],
                    "",
                )?;
            }
            call("ip", &["-batch", "-"], &links)?;
            if !limits.is_empty() {
                call("tc", &["-batch", "-"], &limits)?;
            }
            Ok(())
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = take_down(&self.layout.prefix)
        {
            eprintln!("the network was not taken down entirely: {error}");
        }
    }
}

/// Removes every namespace of `prefix`, whoever set it up, and the processes inside; answers how many there were.
///
/// # Errors
/// When one stays.
pub fn take_down(prefix: &str) -> Result<usize> {
    let namespaces = namespace::with_prefix(&format!("{prefix}-"))?;
    namespace::remove(&namespaces).map(|()| namespaces.len())
}

/// The rate limit of a link: a token bucket of two frames, or a millisecond of the rate where that is more, so that
/// the limit is on the link's rate and not on bursts. The queue before it holds two seconds: a sender that keeps to the
/// rate never sees it drop.
fn limiter(octets_per_s: u64) -> String {
    let bits = octets_per_s.saturating_mul(8);
    let burst = (2 * MAX_FRAME).max(octets_per_s / 1000);
    let limit = octets_per_s.saturating_mul(2).clamp(64 * MAX_FRAME, u32::MAX.into());
    format!("tbf rate {bits}bit burst {burst} limit {limit}")
}

/// Writes a value below /proc/sys/net.
pub(crate) fn set_if_there(name: &str, value: &str) -> Result<()> {
    let path = Path::new("/proc/sys/net").join(name);
    if path.exists() { fs::write(&path, value).map_err(Error::at("set", &path)) } else { Ok(()) }
}

/// What `interface` has received, out of a table like /proc/net/dev.
fn received(table: &str, interface: &str) -> Option<Carried> {
    table.lines().find_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map_while(|number| number.parse().ok());
        (name.trim() == interface)
            .then(|| Some(Carried { octets: numbers.next()?, frames: numbers.next()? }))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limiter_is_two_frames_deep_at_least() {
        assert_eq!(limiter(45_000), "tbf rate 360000bit burst 3028 limit 96896");
        assert_eq!(limiter(10_000_000), "tbf rate 80000000bit burst 10000 limit 20000000");
    }

    #[test]
    fn interface_counters_are_read() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n    lo:    1    2 0\n   S-A:  517   1    0    0\n";
        assert_eq!(received(table, "S-A"), Some(Carried { octets: 517, frames: 1 }));
        assert_eq!(received(table, "S-B"), None);
    }
}
