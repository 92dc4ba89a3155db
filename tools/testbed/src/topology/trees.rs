//! What routing without coding can carry: one multicast tree, or several at once.
//!
//! A Steiner tree here is a set of links over which every destination is reached from the source, each node by exactly
//! one link, and no node that serves no destination. The best packing of such trees is what any scheme of
//! routing (copying packets, but not coding them) can reach at most.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::Topology;
use crate::error::{Error, Result};

/// A network with more trees than this gets no packing figures: there are too many to look through.
const MAX_TREES: usize = 20_000;

/// A weight of less than this share of a link is the solver's rounding.
const ROUNDING: f64 = 1e-9;

/// Steiner trees, each a list of indices into [`Topology::links`], sorted.
pub type Trees = Vec<Vec<usize>>;

/// A tree and the rate that flows down it.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedTree {
    /// Indices into [`Topology::links`].
    pub links: Vec<usize>,
    /// Octets per second.
    pub rate: f64,
}

/// Several trees at once that together overload no link.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// What they carry together, in octets per second.
    pub rate: f64,
    /// The trees that carry something.
    pub trees: Vec<WeightedTree>,
}

/// All Steiner trees from the source to the destinations.
///
/// # Errors
/// When there are too many to look through.
pub fn steiner_trees(topology: &Topology) -> Result<Trees> {
    let mut trees = Vec::new();
    let needed = topology.destinations.iter().map(String::as_str).collect();
    extend(topology, &mut Vec::new(), needed, &mut trees)?;
    for tree in &mut trees {
        tree.sort_unstable();
    }
    Ok(trees)
}

/// Gives the last node in `needed` each possible parent in turn. `chosen` holds the parents chosen so far.
fn extend<'a>(
    topology: &'a Topology,
    chosen: &mut Vec<usize>,
    mut needed: Vec<&'a str>,
    trees: &mut Trees,
) -> Result<()> {
    let Some(node) = needed.pop() else {
        if is_rooted(topology, chosen) {
            if trees.len() == MAX_TREES {
                return Err(Error::Invalid(format!(
                    "the network has more than {MAX_TREES} multicast trees"
                )));
            }
            trees.push(chosen.clone());
        }
        return Ok(());
    };
    for (index, link) in topology.links.iter().enumerate().filter(|(_, link)| link.to == node) {
        let parent = link.from.as_str();
        let known = parent == topology.source
            || needed.contains(&parent)
            || chosen.iter().any(|&other| topology.links[other].to == parent);
        let mut needed = needed.clone();
        if !known {
            needed.push(parent);
        }
        chosen.push(index);
        extend(topology, chosen, needed, trees)?;
        chosen.pop();
    }
    Ok(())
}

/// Whether every chosen node hangs on the source and not on a cycle.
fn is_rooted(topology: &Topology, chosen: &[usize]) -> bool {
    chosen.iter().all(|&index| {
        let mut node = topology.links[index].from.as_str();
        // A path without a cycle has no more steps than there are links.
        for _ in 0..=chosen.len() {
            if node == topology.source {
                return true;
            }
            match chosen.iter().map(|&other| &topology.links[other]).find(|link| link.to == node) {
                Some(link) => node = &link.from,
                None => return false,
            }
        }
        false
    })
}

fn bottleneck(topology: &Topology, tree: &[usize]) -> u64 {
    tree.iter().map(|&link| topology.links[link].capacity).min().unwrap_or(0)
}

/// The tree with the highest rate, and of those one with the fewest links.
pub fn best_tree(topology: &Topology, trees: &Trees) -> Option<Vec<usize>> {
    trees
        .iter()
        .max_by_key(|tree| (bottleneck(topology, tree), std::cmp::Reverse(tree.len())))
        .cloned()
}

/// The best packing in which each tree may carry any rate: the most that routing can reach.
///
/// # Errors
/// When the solver finds no answer.
pub fn fractional_packing(topology: &Topology, trees: &Trees) -> Result<Packing> {
    // Rates in units of the slowest link keep the solver's tolerances meaningful.
    let unit = topology.unit_capacity() as f64;
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let rates: Vec<Variable> =
        trees.iter().map(|_| problem.add_var(1.0, (0.0, f64::INFINITY))).collect();
    for (index, link) in topology.links.iter().enumerate() {
        let load = rates
            .iter()
            .zip(trees)
            .filter(|(_, tree)| tree.contains(&index))
            .map(|(&rate, _)| (rate, 1.0));
        problem.add_constraint(
            load.collect::<Vec<_>>(),
            ComparisonOp::Le,
            link.capacity as f64 / unit,
        );
    }
    solve(problem, trees, &rates, |_, value| value * unit)
}

/// The best packing of trees that share no link, each at the rate of its slowest link.
///
/// # Errors
/// When the solver finds no answer.
pub fn integral_packing(topology: &Topology, trees: &Trees) -> Result<Packing> {
    let unit = topology.unit_capacity() as f64;
    let gain = |tree: &[usize]| bottleneck(topology, tree) as f64 / unit;
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let used: Vec<Variable> = trees.iter().map(|tree| problem.add_binary_var(gain(tree))).collect();
    for index in 0..topology.links.len() {
        let load = used
            .iter()
            .zip(trees)
            .filter(|(_, tree)| tree.contains(&index))
            .map(|(&used, _)| (used, 1.0));
        problem.add_constraint(load.collect::<Vec<_>>(), ComparisonOp::Le, 1.0);
    }
    solve(problem, trees, &used, |tree, value| value.round() * gain(tree) * unit)
}

fn solve(
    problem: Problem,
    trees: &Trees,
    variables: &[Variable],
    rate: impl Fn(&[usize], f64) -> f64,
) -> Result<Packing> {
    let unsolved = |error: microlp::Error| {
        Error::Invalid(format!("the best packing of trees was not found: {error}"))
    };
    let solution =
        problem.solve().map_err(unsolved)?.into_solution().map_err(|_| {
            Error::Invalid("the best packing of trees was not found in time".into())
        })?;
    let trees: Vec<WeightedTree> = trees
        .iter()
        .zip(variables)
        .map(|(tree, &variable)| (tree, solution.var_value(variable)))
        .filter(|&(_, value)| value > ROUNDING)
        .map(|(tree, value)| WeightedTree { links: tree.clone(), rate: rate(tree, value) })
        .collect();
    Ok(Packing { rate: trees.iter().map(|tree| tree.rate).sum(), trees })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < expected * 1e-6
    }

    fn load(topology: &Topology, packing: &Packing, link: usize) -> f64 {
        assert!(link < topology.links.len());
        packing.trees.iter().filter(|tree| tree.links.contains(&link)).map(|tree| tree.rate).sum()
    }

    #[test]
    fn figures_of_the_22_node_network() {
        let topology = Topology::testbed_22().unwrap();
        let figures: Value = serde_json::from_str(super::super::TESTBED_22).unwrap();
        let trees = steiner_trees(&topology).unwrap();
        assert_eq!(Some(trees.len() as u64), figures["steiner_trees_counted"].as_u64());
        let best = best_tree(&topology, &trees).unwrap();
        assert_eq!(Some(bottleneck(&topology, &best)), figures["single_tree"]["rate"].as_u64());
        assert_eq!(Some(best.len() as u64), figures["single_tree"]["links_used"].as_u64());
        let integral = integral_packing(&topology, &trees).unwrap();
        assert!(near(integral.rate, 90_000.0), "{integral:?}");
        assert_eq!(figures["integral_packing"]["rate"].as_f64(), Some(90_000.0));
        let fractional = fractional_packing(&topology, &trees).unwrap();
        assert!(near(fractional.rate, 112_500.0), "{fractional:?}");
        assert_eq!(figures["fractional_packing"]["rate"].as_f64(), Some(112_500.0));
        for link in 0..topology.links.len() {
            assert!(load(&topology, &integral, link) <= 45_000.0);
            assert!(load(&topology, &fractional, link) <= 45_000.0 * (1.0 + 1e-9));
        }
    }

    #[test]
    fn the_butterfly_needs_coding() {
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "capacity": 10});
        let butterfly = json!({
            "name": "butterfly", "source": "S", "switches": ["A", "B", "C", "D", "X", "Y"], "destinations": ["X", "Y"],
            "hosts": [{"host": "x", "attached_to": "X"}, {"host": "y", "attached_to": "Y"}],
            "links": [link("S", "A"), link("S", "B"), link("A", "X"), link("B", "Y"), link("A", "C"), link("B", "C"),
                      link("C", "D"), link("D", "X"), link("D", "Y")],
        });
        let topology = Topology::parse(&butterfly.to_string(), "butterfly").unwrap();
        let trees = steiner_trees(&topology).unwrap();
        assert_eq!(topology.multicast_capacity(), 20);
        assert!(near(integral_packing(&topology, &trees).unwrap().rate, 10.0));
        assert!(near(fractional_packing(&topology, &trees).unwrap().rate, 15.0));
    }

    #[test]
    fn cycles_are_no_trees() {
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "capacity": 1});
        let ring = json!({
            "name": "ring", "source": "S", "switches": ["A", "B", "X"], "destinations": ["X"],
            "hosts": [{"host": "x", "attached_to": "X"}],
            "links": [link("S", "A"), link("A", "B"), link("B", "A"), link("B", "X")],
        });
        let topology = Topology::parse(&ring.to_string(), "ring").unwrap();
        assert_eq!(steiner_trees(&topology).unwrap(), [[0, 1, 3]]);
    }
}
