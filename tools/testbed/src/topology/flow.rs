//! Max-flow from the source to a destination.

use std::collections::HashMap;

use petgraph::algo::ford_fulkerson;
use petgraph::graph::DiGraph;

use super::Topology;

/// The max-flow from the source to `destination` in octets per second; zero for a node that cannot be reached.
pub fn max_flow(topology: &Topology, destination: &str) -> u64 {
    let mut graph = DiGraph::<(), u64>::new();
    let index: HashMap<&str, _> = topology.nodes().map(|node| (node, graph.add_node(()))).collect();
    for link in &topology.links {
        if let (Some(&from), Some(&to)) =
            (index.get(link.from.as_str()), index.get(link.to.as_str()))
        {
            graph.add_edge(from, to, link.capacity);
        }
    }
    match (index.get(topology.source.as_str()), index.get(destination)) {
        (Some(&source), Some(&sink)) => ford_fulkerson(&graph, source, sink).0,
        _ => 0,
    }
}
