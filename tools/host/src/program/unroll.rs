//! Unrolls loops for compilers, which take none: a round of a loop becomes a copy of it, up to a number of copies, and behind the last of
//! them a run begins again in the interpreter.

use super::analysis;
use super::confine;
use super::graph::Graph;
use super::instruction::*;
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use std::collections::HashMap;

/// Instructions that all loops together may become.
const ROOM: [usize; 3] = [12_000, 6_000, 3_000];
/// Copies of one loop, at most.
const COPIES: usize = 1024;

/// A program without its loops, confined; nothing if they are too long for that.
pub fn confined(code: &[Instruction], graph: &Graph) -> Option<Vec<Instruction>> {
    ROOM.iter().find_map(|room| {
        let unrolled = Unroller::new(graph, *room)?.write(code)?;
        let graph = Graph::new(&unrolled);
        let accesses = analysis::accesses(&unrolled, &graph).ok()?;
        confine::confine(&unrolled, &graph, &accesses).ok()
    })
}

/// A block in one of its copies.
type Node = (usize, usize);

struct Unroller<'g> {
    graph: &'g Graph,
    /// The loop that a block belongs to.
    loops: Vec<Option<usize>>,
    /// Copies of each loop.
    copies: Vec<usize>,
}

impl<'g> Unroller<'g> {
    /// Loops are sets of blocks that lead to each other; nothing if there is not room for two copies of each.
    fn new(graph: &'g Graph, room: usize) -> Option<Self> {
        let mut ways = DiGraph::<(), ()>::new();
        let nodes: Vec<_> = graph.blocks.iter().map(|_| ways.add_node(())).collect();
        for (block, from) in graph.blocks.iter().zip(&nodes) {
            for to in block.successors().filter_map(|next| nodes.get(next)) {
                ways.add_edge(*from, *to, ());
            }
        }
        let mut loops = vec![None; graph.blocks.len()];
        let mut lengths: Vec<usize> = Vec::new();
        for members in tarjan_scc(&ways) {
            let turns = members.len() > 1
                || members.first().is_some_and(|only| ways.contains_edge(*only, *only));
            if !turns {
                continue;
            }
            let mut length = 0;
            for member in members {
                if let Some(place) = loops.get_mut(member.index()) {
                    *place = Some(lengths.len());
                }
                // Two more for the jumps at its end.
                length +=
                    graph.blocks.get(member.index()).map_or(0, |block| block.end - block.start + 2);
            }
            lengths.push(length);
        }
        let each = room / lengths.len().max(1);
        let copies: Vec<usize> = lengths.iter().map(|length| (each / length).min(COPIES)).collect();
        copies.iter().all(|copies| *copies > 1).then_some(Self { graph, loops, copies })
    }

    /// Where a way leads to from a block in a copy; nothing where the copies end.
    fn follow(&self, (block, copy): Node, next: usize) -> Option<Node> {
        let (from, to) = (self.loops.get(block)?, self.loops.get(next)?);
        match to {
            // Blocks are in an order in which only ways back in loops lead backwards.
            Some(number) if from == to => {
                let copy = if next <= block { copy + 1 } else { copy };
                (copy < *self.copies.get(*number)?).then_some((next, copy))
            }
            _ => Some((next, 0)),
        }
    }

    /// All copies that can be reached, one after the other.
    fn write(&self, code: &[Instruction]) -> Option<Vec<Instruction>> {
        let mut out: Vec<Instruction> = Vec::new();
        let mut jumps: Vec<(usize, Option<Node>)> = Vec::new();
        let mut starts: HashMap<Node, usize> = HashMap::new();
        let mut waiting: Vec<Node> = vec![(0, 0)];
        while let Some(node) = waiting.pop() {
            if starts.contains_key(&node) {
                continue;
            }
            starts.insert(node, out.len());
            let block = self.graph.blocks.get(node.0)?;
            let whole = code.get(block.start..block.end)?;
            let jump = Instruction::new(JMP | JA, 0, 0, 0, 0);
            let (last, body) = whole.split_last()?;
            out.extend(body);
            let unconditional = last.class() == JMP && last.operation() == JA;
            if !unconditional {
                out.push(*last);
            }
            if let Some(next) = block.jump {
                let to = self.follow(node, next);
                if unconditional {
                    out.push(jump);
                }
                jumps.push((out.len() - 1, to));
                waiting.extend(to);
            }
            if let Some(next) = block.fall {
                let to = self.follow(node, next);
                out.push(jump);
                jumps.push((out.len() - 1, to));
                waiting.extend(to);
            }
        }
        let again = out.len();
        out.push(Instruction::new(JMP | AGAIN, 0, 0, 0, 0));
        for (at, to) in jumps {
            let to = to.map_or(Some(again), |node| starts.get(&node).copied())?;
            let distance = i64::try_from(to).ok()? - i64::try_from(at).ok()? - 1;
            out.get_mut(at)?.offset = i16::try_from(distance).ok()?;
        }
        Some(out)
    }
}
