//! The figures of a run, as they are written to JSON. Rates are octets a second.

use heddle_host::metrics::Stats;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::schemes::{HostResult, TransferResult};
use crate::topology::{
    Topology, best_tree, fractional_packing, integral_packing, max_flow, steiner_trees,
};

/// Everything about one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where and with what.
    pub conditions: Conditions,
    /// What the network can carry.
    pub theory: Theory,
    /// CODED IP, if it was run.
    pub coded: Option<SchemeReport>,
    /// The kernel's multicast along one tree, if it was run.
    pub ssim: Option<SchemeReport>,
    /// The two compared, if both were run.
    pub comparison: Option<Comparison>,
}

/// Where a run was made, and with what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// The topology's name.
    pub topology: String,
    /// The rate of the slowest link.
    pub link_octets_per_s: u64,
    /// The share of a link's rate that a sender fills.
    pub load: f64,
    /// Octets of the file.
    pub file_octets: u64,
    /// Octets of payload in each datagram.
    pub payload_octets: usize,
    /// K.
    pub generation_size: u8,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that everything shares.
    pub cpus: usize,
}

/// What a network can carry to all destinations at once, by different means.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Theory {
    /// The least of the destinations' max-flows: what coding can reach.
    pub max_flow: u64,
    /// The max-flow of each destination.
    pub destinations: Vec<(String, u64)>,
    /// The best single tree.
    pub single_tree: f64,
    /// The best set of trees that share no link.
    pub integral_packing: f64,
    /// The best set of trees that share links in any proportion: what routing can reach at most.
    pub fractional_packing: f64,
}

/// What one scheme did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchemeReport {
    /// Whether every host has the file, and right.
    pub all_right: bool,
    /// Octets of a frame on a link between switches.
    pub frame_octets: usize,
    /// The share of the links' octets that is payload of datagrams.
    pub payload_share: f64,
    /// The goodput of the host that got least: octets of the file in a second.
    pub lowest_goodput: f64,
    /// `lowest_goodput` over the max-flow times `payload_share`.
    pub goodput_ratio: f64,
    /// What each host got.
    pub hosts: Vec<HostResult>,
    /// Octets that each link delivered.
    pub links: Vec<(String, u64)>,
    /// The octets that came in at each switch, X_s in section IV.G of the paper.
    pub switches: SwitchBandwidth,
    /// What each engine counted, where there are engines.
    pub engines: Vec<Stats>,
}

/// The bandwidth used at switches (section IV.G of the paper), in octets of the whole transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SwitchBandwidth {
    /// The sum over the links into each switch.
    pub by_switch: Vec<(String, u64)>,
    /// The sum over the switches.
    pub total: u64,
    /// The mean over the switches of the squared distance from their mean.
    pub variance: f64,
}

/// Ratios, each of what its name says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Measured: the lowest goodput coded over that along one tree.
    pub measured_coded_over_one_tree: f64,
    /// Theory: the max-flow over the best tree.
    pub max_flow_over_one_tree: f64,
    /// Theory: the max-flow over the best packing of trees.
    pub max_flow_over_best_packing: f64,
    /// The lowest goodput coded over what the best packing of trees could carry of the file, with the headers of plain IP and no
    /// other loss: what coding gains over ideal routing, its own longer headers included.
    pub measured_coded_over_best_packing: f64,
}

/// Where a run is made, and with what.
pub fn conditions(
    topology: &Topology,
    file_octets: u64,
    payload_octets: usize,
    generation_size: u8,
) -> Conditions {
    Conditions {
        topology: topology.name.clone(),
        link_octets_per_s: topology.unit_capacity(),
        load: crate::schemes::LOAD,
        file_octets,
        payload_octets,
        generation_size,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .into(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// What a network can carry.
///
/// # Errors
/// When it has too many trees to look through.
pub fn theory(topology: &Topology) -> Result<Theory> {
    let trees = steiner_trees(topology)?;
    let rate = |tree: Vec<usize>| {
        let capacities = tree.iter().filter_map(|link| topology.links.get(*link));
        capacities.map(|link| link.capacity as f64).fold(f64::INFINITY, f64::min)
    };
    Ok(Theory {
        max_flow: topology.multicast_capacity(),
        destinations: topology
            .destinations
            .iter()
            .map(|destination| (destination.clone(), max_flow(topology, destination)))
            .collect(),
        single_tree: best_tree(topology, &trees).map_or(0.0, rate),
        integral_packing: integral_packing(topology, &trees)?.rate,
        fractional_packing: fractional_packing(topology, &trees)?.rate,
    })
}

/// What one scheme did. `frames` frames of `frame_octets` carry the payload of one datagram over a cut of the network.
pub fn scheme_report(
    topology: &Topology,
    result: TransferResult,
    payload_octets: usize,
    frame_octets: usize,
    frames: usize,
) -> SchemeReport {
    let payload_share = payload_octets as f64 / (frame_octets * frames) as f64;
    let lowest_goodput = result.lowest_goodput();
    let names = topology.links.iter().map(crate::topology::Link::name);
    SchemeReport {
        all_right: result.all_right(),
        frame_octets,
        payload_share,
        lowest_goodput,
        goodput_ratio: lowest_goodput / (topology.multicast_capacity() as f64 * payload_share),
        links: names.zip(result.link_octets.iter().copied()).collect(),
        switches: switch_bandwidth(topology, &result.link_octets),
        hosts: result.hosts,
        engines: Vec::new(),
    }
}

fn switch_bandwidth(topology: &Topology, link_octets: &[u64]) -> SwitchBandwidth {
    let into = |switch: &String| -> u64 {
        let links = topology.links.iter().zip(link_octets);
        links.filter(|(link, _)| link.to == *switch).map(|(_, octets)| octets).sum()
    };
    let by_switch: Vec<(String, u64)> =
        topology.switches.iter().map(|switch| (switch.clone(), into(switch))).collect();
    let total: u64 = by_switch.iter().map(|(_, octets)| octets).sum();
    let count = by_switch.len().max(1) as f64;
    let mean = total as f64 / count;
    let squares = by_switch.iter().map(|(_, octets)| (*octets as f64 - mean).powi(2));
    SwitchBandwidth { variance: squares.sum::<f64>() / count, total, by_switch }
}

impl Comparison {
    /// The ratios of a run of both schemes.
    pub fn new(theory: &Theory, coded: &SchemeReport, ssim: &SchemeReport) -> Self {
        let max_flow = theory.max_flow as f64;
        Self {
            measured_coded_over_one_tree: coded.lowest_goodput / ssim.lowest_goodput,
            max_flow_over_one_tree: max_flow / theory.single_tree,
            max_flow_over_best_packing: max_flow / theory.fractional_packing,
            measured_coded_over_best_packing: coded.lowest_goodput
                / (theory.fractional_packing * ssim.payload_share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_testbed_in_theory() {
        let theory = theory(&Topology::testbed_22().unwrap()).unwrap();
        assert_eq!(theory.max_flow, 135_000);
        assert!((theory.single_tree - 45_000.0).abs() < 1.0);
        assert!((theory.integral_packing - 90_000.0).abs() < 1.0);
        assert!((theory.fractional_packing - 112_500.0).abs() < 1.0);
    }

    #[test]
    fn bandwidth_at_a_switch_is_what_comes_in() {
        let topology = Topology::testbed_22().unwrap();
        let octets: Vec<u64> = topology.links.iter().map(|_| 10).collect();
        let switches = switch_bandwidth(&topology, &octets);
        assert_eq!(switches.total, 160);
        assert!(switches.by_switch.contains(&("G".to_owned(), 30)));
        assert!(switches.by_switch.contains(&("D".to_owned(), 10)));
        // Five switches with 10, one (E) with 20, three with 30.
        let mean = 160.0 / 9.0;
        let expected =
            (5.0 * (10.0f64 - mean).powi(2) + (20.0 - mean).powi(2) + 3.0 * (30.0 - mean).powi(2))
                / 9.0;
        assert!((switches.variance - expected).abs() < 1e-9);
    }
}
