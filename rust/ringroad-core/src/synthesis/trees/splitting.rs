//! Removal of switches: paths through switches become arcs from rank to rank.
//!
//! A switch is removed by splitting off: an arc to the switch and an arc from it become one arc past the switch, with
//! as much capacity as leaves every cut large enough. If every node has equal capacity in and out, this always works
//! until the switch is isolated (Bang-Jensen, Frank, Jackson: Preserving and increasing local edge-connectivity in
//! mixed graphs, 1995).
//!
//! An even split is tried first: it connects each rank directly to many others, so that trees are shallow. Only if that
//! leaves a cut too small, pairs of arcs are split one after the other, each as far as the cuts allow.

use super::packing::SwitchedArc;
use super::wiring::WireGraph;
use crate::synthesis::flow::{MaxFlow, UNLIMITED};
use crate::synthesis::{Budget, Spent};
use crate::units::NodeId;

/// Arcs between ranks alone over which the trees of all `roots` still reach every rank; `None` if the search finds
/// none.
pub(super) fn without_switches(
    wiring: &WireGraph,
    capacities: &[u64],
    roots: &[u64],
    budget: Budget<'_>,
) -> Result<Option<Vec<SwitchedArc>>, Spent> {
    let arc = |(id, (wire, capacity)): (usize, (&super::wiring::WireBundle, &u64))| SwitchedArc {
        source: wire.source,
        target: wire.target,
        capacity: *capacity,
        path: vec![id],
    };
    let mut arcs: Vec<SwitchedArc> = wiring.wires.iter().zip(capacities).enumerate().map(arc).collect();
    arcs.retain(|arc| arc.capacity > 0);
    if !wiring.has_switches() {
        return Ok(is_feasible(wiring, &arcs, roots, budget)?.then_some(arcs));
    }
    let from = wiring.from();
    let hops: Vec<Vec<usize>> = (0..wiring.nodes).map(|node| wiring.hops_from(&from, node)).collect();
    // Start with the switches farthest from the ranks, so that traffic through them leads to other parts of the
    // network.
    let height = |switch: &NodeId| (0..wiring.ranks).map(|rank| hops[*switch][rank]).min();
    let mut switches: Vec<NodeId> = (wiring.ranks..wiring.nodes).collect();
    switches.sort_by_key(|switch| std::cmp::Reverse(height(switch)));
    let splitter = Splitter { wiring, roots, hops: &hops, budget };
    for switch in switches {
        arcs = match splitter.evenly(&arcs, switch) {
            split if is_feasible(wiring, &split, roots, budget)? => split,
            _ => splitter.one_by_one(arcs, switch)?,
        };
    }
    Ok(is_feasible(wiring, &arcs, roots, budget)?.then_some(arcs))
}

/// Whether the trees of all roots can reach every rank.
fn is_feasible(
    wiring: &WireGraph,
    arcs: &[SwitchedArc],
    roots: &[u64],
    budget: Budget<'_>,
) -> Result<bool, Spent> {
    let (mut flow, source) = network(wiring, arcs, roots);
    let total = roots.iter().sum();
    for rank in 0..wiring.ranks {
        budget.check()?;
        if flow.maximum(source, rank, total) != total {
            return Ok(false);
        }
    }
    Ok(true)
}

fn network(wiring: &WireGraph, arcs: &[SwitchedArc], roots: &[u64]) -> (MaxFlow, usize) {
    let mut flow = MaxFlow::new(wiring.nodes + 2);
    for arc in arcs {
        flow.arc(arc.source, arc.target, arc.capacity);
    }
    for (rank, root) in roots.iter().enumerate() {
        flow.arc(wiring.nodes, rank, *root);
    }
    (flow, wiring.nodes)
}

struct Splitter<'a> {
    wiring: &'a WireGraph,
    roots: &'a [u64],
    hops: &'a [Vec<usize>],
    budget: Budget<'a>,
}

impl Splitter<'_> {
    /// The pairs of an arc to a switch and an arc from it, without those that return to their start. Pairs on shortest
    /// paths come first.
    fn pairs(&self, arcs: &[SwitchedArc], switch: NodeId) -> [Vec<(usize, usize)>; 2] {
        let into: Vec<usize> = (0..arcs.len()).filter(|arc| arcs[*arc].target == switch).collect();
        let from: Vec<usize> = (0..arcs.len()).filter(|arc| arcs[*arc].source == switch).collect();
        let mut pairs = [Vec::new(), Vec::new()];
        // Combines arcs in turn, so that a distribution in this order is spread over all arcs.
        for turn in 0..from.len() {
            for (number, &first) in into.iter().enumerate() {
                let second = from[(number + turn) % from.len()];
                let (source, target) = (arcs[first].source, arcs[second].target);
                let length = arcs[first].path.len() + arcs[second].path.len();
                if source != target {
                    pairs[usize::from(length > self.hops[source][target])].push((first, second));
                }
            }
        }
        pairs
    }

    /// Gives every pair a share of both its arcs, then whatever is left.
    fn evenly(&self, arcs: &[SwitchedArc], switch: NodeId) -> Vec<SwitchedArc> {
        let mut room: Vec<u64> = arcs.iter().map(|arc| arc.capacity).collect();
        let mut split = Vec::new();
        for pairs in self.pairs(arcs, switch) {
            let before = room.clone();
            let mut partners = vec![0u64; arcs.len()];
            pairs.iter().for_each(|(first, second)| partners[*first] += before[*second]);
            for round in 0..2 {
                for &(first, second) in &pairs {
                    let share = u128::from(before[first]) * u128::from(before[second]);
                    let share = match round {
                        0 => (share / u128::from(partners[first].max(1))) as u64,
                        _ => u64::MAX,
                    };
                    let taken = share.min(room[first]).min(room[second]);
                    room[first] -= taken;
                    room[second] -= taken;
                    split.extend(joined(self.wiring, &arcs[first], &arcs[second], taken));
                }
            }
        }
        finish(arcs, switch, split)
    }

    /// Gives every pair as much as the cuts allow.
    fn one_by_one(&self, mut arcs: Vec<SwitchedArc>, switch: NodeId) -> Result<Vec<SwitchedArc>, Spent> {
        let pairs = self.pairs(&arcs, switch);
        for (first, second) in pairs.into_iter().flatten() {
            let most = arcs[first].capacity.min(arcs[second].capacity);
            let taken = if most > 0 { self.spare(&arcs, first, second, most)? } else { 0 };
            arcs[first].capacity -= taken;
            arcs[second].capacity -= taken;
            let joined = joined(self.wiring, &arcs[first], &arcs[second], taken);
            arcs.extend(joined);
        }
        Ok(finish(&arcs, switch, Vec::new()))
    }

    /// How much of up to `most` can go past the switch without making a cut too small. Splitting off reduces the cuts
    /// that have the switch on one side, and the source and the target of the arcs on the other.
    fn spare(&self, arcs: &[SwitchedArc], first: usize, second: usize, most: u64) -> Result<u64, Spent> {
        let (source, switch, target) = (arcs[first].source, arcs[first].target, arcs[second].target);
        let (ranks, total) = (self.wiring.ranks, self.roots.iter().sum::<u64>());
        let (mut flow, start) = network(self.wiring, arcs, self.roots);
        let end = start + 1;
        let mut joint = |from: &[usize], to: &[usize]| {
            let starts: Vec<usize> = from.iter().map(|node| flow.arc(start, *node, UNLIMITED)).collect();
            let ends: Vec<usize> = to.iter().map(|node| flow.arc(*node, end, UNLIMITED)).collect();
            let reached = flow.maximum(start, end, total + most);
            starts.into_iter().chain(ends).for_each(|arc| flow.set(arc, 0));
            reached - total.min(reached)
        };
        let mut least = most;
        for rank in (0..ranks).filter(|rank| *rank != source && *rank != target) {
            self.budget.check()?;
            least = least.min(joint(&[source, target], &[switch, rank]));
            if source.min(target) >= ranks {
                least = least.min(joint(&[switch], &[source, target, rank]));
            }
            if least == 0 {
                return Ok(0);
            }
        }
        if source.min(target) < ranks {
            least = least.min(joint(&[switch], &[source, target]));
        }
        Ok(least)
    }
}

/// Two arcs in a row. If the second returns to a switch of the first, the loop between is left out.
fn joined(
    wiring: &WireGraph,
    first: &SwitchedArc,
    second: &SwitchedArc,
    capacity: u64,
) -> Option<SwitchedArc> {
    let mut path: Vec<usize> = Vec::with_capacity(first.path.len() + second.path.len());
    for &wire in first.path.iter().chain(&second.path) {
        path.push(wire);
        let here = wiring.wires[wire].target;
        if let Some(left) = path.iter().position(|wire| wiring.wires[*wire].source == here) {
            path.truncate(left);
        }
    }
    (capacity > 0).then_some(SwitchedArc { source: first.source, target: second.target, capacity, path })
}

/// The arcs without those of a switch, plus those that were split off. Arcs with the same path are merged.
fn finish(arcs: &[SwitchedArc], switch: NodeId, split: Vec<SwitchedArc>) -> Vec<SwitchedArc> {
    let others = arcs.iter().filter(|arc| arc.source != switch && arc.target != switch).cloned();
    let mut arcs: Vec<SwitchedArc> = others.chain(split).filter(|arc| arc.capacity > 0).collect();
    arcs.sort_by(|a, b| (a.source, a.target, &a.path).cmp(&(b.source, b.target, &b.path)));
    arcs.dedup_by(|next, arc| {
        let same = (next.source, next.target, &next.path) == (arc.source, arc.target, &arc.path);
        arc.capacity += if same { next.capacity } else { 0 };
        same
    });
    arcs
}
