//! Where everything of a network goes: namespaces, interfaces, addresses, rates.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::namespace::Namespace;
use crate::topology::{SENDER, Topology};

/// The largest IP packet on every link, in octets.
pub const MTU: u32 = 1500;

/// The multicast group and port that the testbed's content goes to.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 77, 0, 1), 4077);

/// One cable: a veth pair whose two ends have the same name, each in its own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The interface's name at both ends, `FROM-TO`.
    pub name: String,
    /// The node that content comes from.
    pub from: String,
    /// The node that content goes to.
    pub to: String,
    /// Ethernet octets per second that `from` may send; absent: no limit.
    pub rate: Option<u64>,
    /// The address of the end at `from`; a /30 holds both.
    pub from_address: Ipv4Addr,
    /// The address of the end at `to`.
    pub to_address: Ipv4Addr,
}

/// A topology with names and addresses in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The network as a graph.
    pub topology: Topology,
    /// What namespaces' names start with, before a hyphen.
    pub prefix: String,
    /// The sender's cable first, then the links, then the hosts' cables, each in the file's order.
    pub cables: Vec<Cable>,
}

impl Layout {
    /// Names and addresses for `topology`. Cable number k has the addresses 10.77.k.1 and 10.77.k.2.
    pub fn new(topology: Topology, prefix: &str) -> Self {
        let sender = (SENDER.to_owned(), topology.source.clone(), None);
        let links = topology
            .links
            .iter()
            .map(|link| (link.from.clone(), link.to.clone(), Some(link.capacity)));
        let hosts =
            topology.hosts.iter().map(|host| (host.attached_to.clone(), host.name.clone(), None));
        let cables = std::iter::once(sender).chain(links).chain(hosts);
        let cables = (0..=u8::MAX).zip(cables).map(|(number, (from, to, rate))| Cable {
            name: format!("{from}-{to}"),
            from,
            to,
            rate,
            from_address: Ipv4Addr::new(10, 77, number, 1),
            to_address: Ipv4Addr::new(10, 77, number, 2),
        });
        Self { cables: cables.collect(), topology, prefix: prefix.to_owned() }
    }

    /// The namespace of a node, a host or the sender.
    pub fn namespace(&self, node: &str) -> Namespace {
        Namespace::named(format!("{}-{node}", self.prefix))
    }

    /// All nodes with a namespace: the sender, the source, the switches, the hosts.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let hosts = self.topology.hosts.iter().map(|host| host.name.as_str());
        std::iter::once(SENDER).chain(self.topology.nodes()).chain(hosts)
    }

    /// Whether `node` passes packets on.
    pub fn is_switch(&self, node: &str) -> bool {
        self.topology.nodes().any(|switch| switch == node)
    }

    /// The cables that `node` sends content on.
    pub fn outgoing<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Cable> {
        self.cables.iter().filter(move |cable| cable.from == node)
    }

    /// The cables that `node` receives content on.
    pub fn incoming<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Cable> {
        self.cables.iter().filter(move |cable| cable.to == node)
    }

    /// The address of the sender's host.
    pub fn sender_address(&self) -> Ipv4Addr {
        self.cables.first().map_or(Ipv4Addr::UNSPECIFIED, |cable| cable.from_address)
    }
}

/// Whether `prefix` can start the names of our namespaces.
pub fn is_prefix(prefix: &str) -> bool {
    (1..=16).contains(&prefix.len()) && prefix.bytes().all(|octet| octet.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_node_and_cable_has_a_place() {
        let layout = Layout::new(Topology::testbed_22().unwrap(), "hdl");
        assert_eq!(layout.nodes().count(), 23);
        assert_eq!(layout.cables.len(), 1 + 16 + 12);
        assert!(layout.cables.iter().all(|cable| cable.name.len() <= 15));
        let addresses: HashSet<_> =
            layout.cables.iter().flat_map(|cable| [cable.from_address, cable.to_address]).collect();
        assert_eq!(addresses.len(), 58);
        assert_eq!(layout.sender_address(), Ipv4Addr::new(10, 77, 0, 1));
        assert_eq!(layout.namespace("h12").name(), "hdl-h12");
        let rates: Vec<_> = layout.cables.iter().filter_map(|cable| cable.rate).collect();
        assert_eq!(rates, [45_000; 16], "only the links between switches are limited");
        assert_eq!(
            layout.outgoing("E").map(|cable| cable.name.as_str()).collect::<Vec<_>>(),
            ["E-F"]
        );
        assert!(
            layout.is_switch("S")
                && layout.is_switch("G")
                && !layout.is_switch("h1")
                && !layout.is_switch(SENDER)
        );
    }

    #[test]
    fn prefixes_are_plain() {
        assert!(is_prefix("hdl"));
        assert!(
            !is_prefix("")
                && !is_prefix("a/b")
                && !is_prefix("a-b")
                && !is_prefix("aaaaaaaaaaaaaaaaa")
        );
    }
}
