//! SSIM, single-session IP multicast: the Linux kernel's multicast routing along one tree, with routes set by smcrouted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::LOAD;
use crate::error::{Error, Result};
use crate::layout::{Cable, GROUP, Layout};
use crate::namespace::Namespace;
use crate::network::Network;
use crate::process::Process;
use crate::shutdown::Shutdown;
use crate::topology::Topology;

const READY_WITHIN: Duration = Duration::from_secs(20);

/// The routing daemons, running. Dropping it kills them.
#[derive(Debug)]
pub struct Ssim {
    daemons: Vec<Process>,
}

/// Ethernet octets of a frame with a datagram of `payload` octets: Ethernet, IP, UDP.
pub fn ssim_frame_octets(payload: usize) -> usize {
    14 + 20 + 8 + payload
}

/// How fast the sender may write datagrams with `payload` octets, in octets of payload a second: each link of the tree is then filled
/// to [`LOAD`].
pub fn sender_rate(topology: &Topology, payload: usize) -> f64 {
    topology.unit_capacity() as f64 * LOAD * payload as f64 / ssim_frame_octets(payload) as f64
}

impl Ssim {
    /// Starts a daemon in each node of the tree and waits until the kernel has every route.
    ///
    /// # Errors
    /// When one does not start; the others are ended then.
    pub fn start(network: &Network, directory: &Path, shutdown: &Shutdown) -> Result<Self> {
        let layout = network.layout();
        let links = layout.topology.single_tree()?;
        let mut ssim = Self { daemons: Vec::new() };
        let mut namespaces = Vec::new();
        for node in layout.topology.nodes() {
            let Some(route) = route(layout, &links, node) else { continue };
            let path = directory.join(format!("{node}.smcroute"));
            std::fs::write(&path, route).map_err(Error::at("write", &path))?;
            let file = |ending: &str| -> PathBuf { directory.join(format!("{node}.{ending}")) };
            let mut command = Command::new("smcrouted");
            command.args(["-n", "-l", "info", "-i", node, "-f"]).arg(&path);
            command.arg("-P").arg(file("pid")).arg("-u").arg(file("sock"));
            let namespace = network.namespace(node);
            let name = format!("{node}-smcrouted");
            ssim.daemons.push(Process::start(&name, &namespace, command, directory)?);
            namespaces.push(namespace);
        }
        for namespace in &namespaces {
            wait_for_route(namespace, shutdown)?;
        }
        for daemon in &mut ssim.daemons {
            if let Some(status) = daemon.ended()? {
                return Err(Error::Process {
                    name: "smcrouted".into(),
                    what: format!("ended at its start ({status})"),
                    log: daemon.log(),
                });
            }
        }
        Ok(ssim)
    }

    /// Ends the daemons; the kernel's routes go with them.
    ///
    /// # Errors
    /// When one does not end as it should.
    pub fn stop(self) -> Result<()> {
        self.daemons.into_iter().try_for_each(|daemon| daemon.stop().map(|_| ()))
    }
}

/// smcrouted's configuration for `node`, if the tree of `links` passes it.
fn route(layout: &Layout, links: &[usize], node: &str) -> Option<String> {
    let in_tree = |cable: &&Cable| match cable.rate {
        // Only links between switches are the tree's to choose; they are all that have a limit.
        Some(_) => links
            .iter()
            .filter_map(|link| layout.topology.links.get(*link))
            .any(|link| link.name() == cable.name),
        None => true,
    };
    let input = layout.incoming(node).find(in_tree)?;
    let outputs: Vec<&str> =
        layout.outgoing(node).filter(in_tree).map(|cable| cable.name.as_str()).collect();
    let (source, group) = (layout.sender_address(), GROUP.ip());
    Some(format!(
        "mroute from {} source {source} group {group} to {}\n",
        input.name,
        outputs.join(" ")
    ))
}

fn wait_for_route(namespace: &Namespace, shutdown: &Shutdown) -> Result<()> {
    let start = Instant::now();
    loop {
        let routes = namespace.enter(|| {
            let path = Path::new("/proc/thread-self/net/ip_mr_cache");
            std::fs::read_to_string(path).map_err(Error::at("read", path))
        })?;
        // Without a route there is only the heading.
        if routes.lines().count() > 1 {
            return Ok(());
        }
        shutdown.check()?;
        if start.elapsed() > READY_WITHIN {
            return Err(Error::Process {
                name: format!("smcrouted in {}", namespace.name()),
                what: "did not set its route".into(),
                log: routes,
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_follow_the_tree() {
        let layout = Layout::new(Topology::testbed_22().unwrap(), "t");
        let links = layout.topology.single_tree().unwrap();
        let of = |node| route(&layout, &links, node);
        assert_eq!(
            of("S").unwrap(),
            "mroute from sender-S source 10.77.0.1 group 239.77.0.1 to S-A S-C\n"
        );
        assert_eq!(
            of("H").unwrap(),
            "mroute from C-H source 10.77.0.1 group 239.77.0.1 to H-h6 H-h7 H-h8\n"
        );
        assert_eq!(of("E"), None);
    }
}
