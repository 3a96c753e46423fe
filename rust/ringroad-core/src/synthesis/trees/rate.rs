//! The exact rate at which every root can send to all ranks at once.
//!
//! Edmonds: trees from given roots can be packed if and only if every cut has the capacity for all that is rooted on
//! its other side. So the rate is the minimum over all cuts of the cut's capacity divided by what is rooted behind it.
//! Newton's method finds this minimum: a maximum flow finds a cut that is too small for the current rate, and that cut
//! gives the next rate.

use super::wiring::WireGraph;
use crate::synthesis::flow::MaxFlow;
use crate::synthesis::{Budget, Ratio, Spent};

/// The units of each part that can flow to all ranks at once, if rank `r` roots `weights[r]` parts. `None` if some rank
/// is not reached, or if nothing has to be sent.
pub(super) fn rate(wiring: &WireGraph, weights: &[u64], budget: Budget<'_>) -> Result<Option<Ratio>, Spent> {
    let total: u64 = weights.iter().sum();
    let mut best: Option<Ratio> = None;
    for (rank, weight) in weights.iter().enumerate() {
        let into = wiring.wires.iter().filter(|wire| wire.target == rank);
        let capacity: u64 = into.map(|wire| wire.capacity).sum();
        if total > *weight {
            let alone = Ratio::new(capacity, total - weight);
            best = Some(best.map_or(alone, |best| best.min(alone)));
        }
    }
    let Some(mut best) = best else { return Ok(None) };
    let (mut rank, mut fine) = (0, 0);
    while fine < wiring.ranks {
        if best == Ratio::ZERO {
            return Ok(None);
        }
        let scale = best.denominator() as u64;
        let capacities: Vec<u64> = wiring.wires.iter().map(|wire| wire.capacity * scale).collect();
        let demands: Vec<u64> = weights.iter().map(|weight| weight * best.numerator() as u64).collect();
        let (mut flow, source) = network(wiring, &capacities, &demands);
        let needed = total * best.numerator() as u64;
        while fine < wiring.ranks {
            budget.check()?;
            if let Some(side) = flow.cut(source, rank, needed) {
                best = ratio_of_cut(wiring, weights, &side);
                fine = 0;
                break;
            }
            rank = (rank + 1) % wiring.ranks;
            fine += 1;
        }
    }
    Ok(Some(best))
}

/// The capacity into this side, divided by what is rooted on the other side.
fn ratio_of_cut(wiring: &WireGraph, weights: &[u64], side: &[bool]) -> Ratio {
    let into = wiring.wires.iter().filter(|wire| !side[wire.source] && side[wire.target]);
    let behind: u64 = (0..wiring.ranks).filter(|rank| !side[*rank]).map(|rank| weights[rank]).sum();
    Ratio::new(into.map(|wire| wire.capacity).sum::<u64>(), behind)
}

/// A flow network in which wire `i` is arc `2 * i`, and the number of a source from which each rank gets what it roots.
pub(super) fn network(wiring: &WireGraph, capacities: &[u64], roots: &[u64]) -> (MaxFlow, usize) {
    let mut flow = MaxFlow::new(wiring.nodes + 1);
    for (wire, capacity) in wiring.wires.iter().zip(capacities) {
        flow.arc(wire.source, wire.target, *capacity);
    }
    for (rank, root) in roots.iter().enumerate() {
        flow.arc(wiring.nodes, rank, *root);
    }
    (flow, wiring.nodes)
}

/// The least number of trees that each rank must root so that `trees` trees can reach every rank, whoever roots the
/// others. `None` if that takes more than `trees` roots.
///
/// The number of roots that a set of ranks needs is an intersecting supermodular function. So each rank in turn may get
/// the least that the others allow, and the sum is minimal in whatever order (Frank).
pub(super) fn least_roots(
    networks: &[&WireGraph],
    capacities: &[u64],
    trees: u64,
    budget: Budget<'_>,
) -> Result<Option<Vec<u64>>, Spent> {
    let ranks = networks[0].ranks;
    let mut roots = vec![trees; ranks];
    let mut flows: Vec<(MaxFlow, usize)> =
        networks.iter().map(|wiring| network(wiring, capacities, &roots)).collect();
    for (rank, own) in roots.iter_mut().enumerate() {
        budget.check()?;
        let mut reached = trees;
        for (flow, source) in &mut flows {
            let arc = 2 * (capacities.len() + rank);
            flow.set(arc, 0);
            reached = reached.min(flow.maximum(*source, rank, trees));
        }
        *own = trees - reached;
        for (flow, _) in &mut flows {
            flow.set(2 * (capacities.len() + rank), *own);
        }
    }
    Ok((roots.iter().sum::<u64>() <= trees).then_some(roots))
}
