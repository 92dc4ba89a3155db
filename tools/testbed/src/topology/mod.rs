//! The network as a graph: a source, switches joined by directed links, hosts on the edge switches.

mod flow;
mod trees;

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use flow::max_flow;
pub use trees::{
    Packing, Trees, WeightedTree, best_tree, fractional_packing, integral_packing, steiner_trees,
};

/// The 22-node network of the CODED IP paper, with the figures that follow from it.
const TESTBED_22: &str = include_str!("../../topologies/testbed-22.json");

/// A node's name is also a part of interface names, which have at most 15 octets: `FROM-TO`.
const MAX_NAME: usize = 7;

/// More links than this do not fit the address plan.
const MAX_LINKS: usize = 200;

/// Octets of a topology file, at most.
const MAX_FILE_OCTETS: u64 = 1 << 20;

/// What the sender's host is called. It is no part of a topology file.
pub const SENDER: &str = "sender";

/// A directed link between two switches, or from the source to a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Ethernet octets per second: header included, preamble and FCS not.
    pub capacity: u64,
}

impl Link {
    /// The link's name, `FROM-TO`; also the name of the interface at both of its ends.
    pub fn name(&self) -> String {
        format!("{}-{}", self.from, self.to)
    }
}

/// An end host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The host's name.
    #[serde(rename = "host")]
    pub name: String,
    /// The edge switch that it hangs on.
    pub attached_to: String,
}

/// The links of a tree, each named `FROM-TO` or `FROM->TO`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NamedTree {
    tree: Vec<String>,
}

/// A network that was checked: every name is known, every destination can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The network's name.
    pub name: String,
    /// The node where the content enters.
    pub source: String,
    /// All other nodes that pass packets on.
    pub switches: Vec<String>,
    /// Directed links between them.
    pub links: Vec<Link>,
    /// End hosts. Their links do not limit.
    pub hosts: Vec<Host>,
    /// The switches that serve hosts.
    pub destinations: Vec<String>,
    /// The tree that one-tree multicast uses. Any other best tree is as good; this one is the paper's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    single_tree: Option<NamedTree>,
}

impl Topology {
    /// The 22-node network of the CODED IP paper: links of 45 000 octets/s.
    ///
    /// # Errors
    /// None in a build that passes its tests.
    pub fn testbed_22() -> Result<Self> {
        Self::parse(TESTBED_22, "testbed-22")
    }

    /// Reads and checks a topology file.
    ///
    /// # Errors
    /// When the file cannot be read, is not JSON of the expected shape, or describes no usable network.
    pub fn load(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(Error::at("read", path))?;
        let file = path.display().to_string();
        if !metadata.is_file() || metadata.len() > MAX_FILE_OCTETS {
            let reason = "it is no regular file of a MiB at most".to_owned();
            return Err(Error::Topology { file, reason });
        }
        let text = std::fs::read_to_string(path).map_err(Error::at("read", path))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks the text of a topology file; `file` names it in errors.
    ///
    /// # Errors
    /// When the text is not JSON of the expected shape, or describes no usable network.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let wrong = |reason: String| Error::Topology { file: file.to_owned(), reason };
        let topology: Self =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        topology.check().map_err(wrong)?;
        Ok(topology)
    }

    /// This network with the slowest link at `octets_per_s` and all others in proportion.
    ///
    /// # Errors
    /// When a rate would not fit 64 bits or would be zero.
    pub fn at_rate(mut self, octets_per_s: u64) -> Result<Self> {
        let slowest = self.unit_capacity();
        for link in &mut self.links {
            link.capacity = u64::try_from(
                u128::from(link.capacity) * u128::from(octets_per_s) / u128::from(slowest),
            )
            .ok()
            .filter(|&capacity| capacity > 0)
            .ok_or_else(|| {
                Error::Invalid(format!("a rate of {octets_per_s} octets/s does not fit the links"))
            })?;
        }
        Ok(self)
    }

    /// The capacity of the slowest link in octets per second.
    pub fn unit_capacity(&self) -> u64 {
        self.links.iter().map(|link| link.capacity).min().unwrap_or(1)
    }

    /// All nodes that pass packets on: the source first, then the switches.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.source.as_str()).chain(self.switches.iter().map(String::as_str))
    }

    /// The links that `node` sends on, in the file's order.
    pub fn outgoing<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Link> {
        self.links.iter().filter(move |link| link.from == node)
    }

    /// The links that `node` receives on, in the file's order.
    pub fn incoming<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Link> {
        self.links.iter().filter(move |link| link.to == node)
    }

    /// The hosts on `switch`, in the file's order.
    pub fn hosts_of<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = &'a Host> {
        self.hosts.iter().filter(move |host| host.attached_to == switch)
    }

    /// The most that one sender can carry to every destination at once, in octets per second: the least of the
    /// destinations' max-flows. Network coding reaches it, routing in general does not.
    pub fn multicast_capacity(&self) -> u64 {
        self.destinations.iter().map(|destination| max_flow(self, destination)).min().unwrap_or(0)
    }

    /// The tree for one-tree multicast: the file's own, or else the best that there is. Indices into [`Topology::links`].
    ///
    /// # Errors
    /// When the file names none and the network has too many trees to look through.
    pub fn single_tree(&self) -> Result<Vec<usize>> {
        match &self.single_tree {
            Some(named) => named
                .tree
                .iter()
                .map(|name| self.link_named(name).map_err(Error::Invalid))
                .collect(),
            None => best_tree(self, &steiner_trees(self)?).ok_or_else(|| {
                Error::Invalid("the network has no tree to all destinations".into())
            }),
        }
    }

    fn link_named(&self, name: &str) -> std::result::Result<usize, String> {
        let name = name.replace("->", "-");
        self.links
            .iter()
            .position(|link| link.name() == name)
            .ok_or_else(|| format!("a tree names the link {name}, and there is none"))
    }

    fn check(&self) -> std::result::Result<(), String> {
        let mut names = HashSet::new();
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        for name in self.nodes().chain(hosts) {
            let fits = (1..=MAX_NAME).contains(&name.len())
                && name.bytes().all(|octet| octet.is_ascii_alphanumeric());
            if !fits {
                return Err(format!(
                    "{name:?} is no name for a node: use 1 to {MAX_NAME} ASCII letters and digits"
                ));
            }
            if name == SENDER {
                return Err(format!(
                    "{SENDER:?} is the name of the sender's host; call the node otherwise"
                ));
            }
            if !names.insert(name) {
                return Err(format!("two nodes are called {name:?}"));
            }
        }
        self.check_links()?;
        self.check_destinations()?;
        self.check_tree()
    }

    fn check_links(&self) -> std::result::Result<(), String> {
        let nodes: HashSet<&str> = self.nodes().collect();
        let mut pairs = HashSet::new();
        for link in &self.links {
            for end in [&link.from, &link.to] {
                if !nodes.contains(end.as_str()) {
                    return Err(format!(
                        "the link {} ends at {end:?}, which is neither source nor switch",
                        link.name()
                    ));
                }
            }
            if link.from == link.to || link.to == self.source {
                return Err(format!(
                    "the link {} leads back to where it starts, or into the source",
                    link.name()
                ));
            }
            if link.capacity == 0 {
                return Err(format!("the link {} has no capacity", link.name()));
            }
            if !pairs.insert((&link.from, &link.to)) {
                return Err(format!("there are two links {}", link.name()));
            }
        }
        if self.links.len() + self.hosts.len() + 1 > MAX_LINKS {
            return Err(format!("more than {MAX_LINKS} links, those of the hosts included"));
        }
        Ok(())
    }

    fn check_destinations(&self) -> std::result::Result<(), String> {
        if self.destinations.is_empty() {
            return Err("no destination".into());
        }
        for host in &self.hosts {
            if !self.destinations.contains(&host.attached_to) {
                return Err(format!(
                    "the host {} hangs on {:?}, which is no destination",
                    host.name, host.attached_to
                ));
            }
        }
        for (index, destination) in self.destinations.iter().enumerate() {
            if !self.switches.contains(destination)
                || self.destinations[..index].contains(destination)
            {
                return Err(format!(
                    "the destination {destination:?} is no switch, or stands twice"
                ));
            }
            if self.hosts_of(destination).next().is_none() {
                return Err(format!("the destination {destination} has no host"));
            }
            if let Some(link) = self.outgoing(destination).next() {
                return Err(format!(
                    "the destination {destination} also sends on: {}",
                    link.name()
                ));
            }
            if max_flow(self, destination) == 0 {
                return Err(format!("no path leads from {} to {destination}", self.source));
            }
        }
        Ok(())
    }

    fn check_tree(&self) -> std::result::Result<(), String> {
        let Some(named) = &self.single_tree else { return Ok(()) };
        let links = named
            .tree
            .iter()
            .map(|name| self.link_named(name))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut reached = HashSet::from([self.source.as_str()]);
        let mut rest = links;
        // Each round takes the links whose start is reached; a tree is used up, anything else is not.
        while !rest.is_empty() {
            let before = rest.len();
            rest.retain(|&index| {
                let link = &self.links[index];
                !(reached.contains(link.from.as_str()) && reached.insert(&link.to))
            });
            if rest.len() == before {
                return Err(format!(
                    "single_tree is no tree: {} does not fit in",
                    self.links[rest[0]].name()
                ));
            }
        }
        match self.destinations.iter().find(|destination| !reached.contains(destination.as_str())) {
            Some(destination) => Err(format!("single_tree does not reach {destination}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn with(change: impl FnOnce(&mut Value)) -> Result<Topology> {
        let mut value: Value = serde_json::from_str(TESTBED_22).unwrap();
        change(&mut value);
        Topology::parse(&value.to_string(), "test")
    }

    fn complaint(change: impl FnOnce(&mut Value)) -> String {
        with(change).unwrap_err().to_string()
    }

    #[test]
    fn the_built_in_network_has_22_nodes() {
        let topology = Topology::testbed_22().unwrap();
        assert_eq!(topology.nodes().count() + topology.hosts.len(), 22);
        assert_eq!(topology.links.len(), 16);
        let on = |switch| topology.hosts_of(switch).count();
        assert_eq!((on("G"), on("H"), on("I")), (5, 3, 4));
        assert_eq!(
            topology.outgoing("S").map(Link::name).collect::<Vec<_>>(),
            ["S-A", "S-B", "S-C"]
        );
        assert_eq!(topology.incoming("E").map(Link::name).collect::<Vec<_>>(), ["A-E", "C-E"]);
    }

    #[test]
    fn multicast_capacity_is_the_files_figure() {
        let value: Value = serde_json::from_str(TESTBED_22).unwrap();
        let topology = Topology::testbed_22().unwrap();
        for destination in &topology.destinations {
            assert_eq!(
                Some(max_flow(&topology, destination)),
                value["max_flow"][destination]["rate"].as_u64()
            );
        }
        assert_eq!(topology.multicast_capacity(), 135_000);
        assert_eq!(
            Some(topology.multicast_capacity()),
            value["multicast_capacity"]["rate"].as_u64()
        );
    }

    #[test]
    fn a_rate_scales_every_link() {
        let topology = with(|value| value["links"][3]["capacity"] = json!(90_000))
            .unwrap()
            .at_rate(700_000)
            .unwrap();
        assert_eq!(topology.unit_capacity(), 700_000);
        assert_eq!(topology.links[3].capacity, 1_400_000);
        assert!(Topology::testbed_22().unwrap().at_rate(0).is_err());
    }

    #[test]
    fn the_single_tree_is_the_files_own() {
        let topology = Topology::testbed_22().unwrap();
        let names: Vec<_> = topology
            .single_tree()
            .unwrap()
            .iter()
            .map(|&link| topology.links[link].name())
            .collect();
        assert_eq!(names, ["S-A", "S-C", "A-G", "A-I", "C-H"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(complaint(|value| value["links"][0]["to"] = json!("Z")).contains("ends at \"Z\""));
        assert!(
            complaint(|value| value["links"][0]["capacity"] = json!(0)).contains("no capacity")
        );
        assert!(
            complaint(|value| value["links"][1] = value["links"][0].clone())
                .contains("two links S-A")
        );
        assert!(
            complaint(|value| value["links"][0]["to"] = json!("S")).contains("into the source")
        );
        assert!(complaint(|value| value["switches"][0] = json!("B")).contains("two nodes"));
        assert!(complaint(|value| value["switches"][0] = json!("../etc")).contains("no name"));
        assert!(complaint(|value| value["source"] = json!("sender")).contains("sender's host"));
        assert!(
            complaint(|value| value["hosts"][0]["attached_to"] = json!("A"))
                .contains("no destination")
        );
        assert!(complaint(|value| value["destinations"] = json!([])).contains("no destination"));
        assert!(
            complaint(|value| value["destinations"][0] = json!("A"))
                .contains("which is no destination")
        );
        assert!(
            complaint(|value| value["single_tree"]["tree"][4] = json!("E->F"))
                .contains("does not fit in")
        );
        assert!(
            complaint(|value| value["single_tree"]["tree"] = json!(["S->A"]))
                .contains("does not reach G")
        );
        assert!(
            complaint(|value| value["single_tree"]["tree"][0] = json!("S->G"))
                .contains("there is none")
        );
        assert!(
            complaint(|value| value["links"]
                .as_array_mut()
                .unwrap()
                .retain(|link| link["to"] != "H"))
            .contains("no path leads from S to H")
        );
    }
}
