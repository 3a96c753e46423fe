//! How much every root can send to all ranks at once, exactly.
//!
//! Edmonds: trees from given roots can be packed if and only if over every cut comes what is rooted on its other side.
//! So the rate is the least of what a cut carries over what is rooted behind it; it is found by Newton's method, which
//! takes the cuts that a maximum flow finds too small.

use super::wiring::Wiring;
use crate::synthesis::flow::Flow;
use crate::synthesis::Ratio;

/// How many units of every root's part can flow to all ranks at once, where rank `r` is the root of `weights[r]` parts;
/// `None` where some rank is not reached, or where nothing need be sent.
pub(super) fn rate(wiring: &Wiring, weights: &[u64]) -> Option<Ratio> {
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
    let mut best = best?;
    let (mut rank, mut fine) = (0, 0);
    while fine < wiring.ranks {
        if best == Ratio::ZERO {
            return None;
        }
        let scale = best.denominator() as u64;
        let capacities: Vec<u64> = wiring.wires.iter().map(|wire| wire.capacity * scale).collect();
        let demands: Vec<u64> = weights.iter().map(|weight| weight * best.numerator() as u64).collect();
        let (mut flow, source) = network(wiring, &capacities, &demands);
        let needed = total * best.numerator() as u64;
        while fine < wiring.ranks {
            if let Some(side) = flow.cut(source, rank, needed) {
                best = ratio_of_cut(wiring, weights, &side);
                fine = 0;
                break;
            }
            rank = (rank + 1) % wiring.ranks;
            fine += 1;
        }
    }
    Some(best)
}

/// What flows into this side over what is rooted on the other one.
fn ratio_of_cut(wiring: &Wiring, weights: &[u64], side: &[bool]) -> Ratio {
    let into = wiring.wires.iter().filter(|wire| !side[wire.source] && side[wire.target]);
    let behind: u64 = (0..wiring.ranks).filter(|rank| !side[*rank]).map(|rank| weights[rank]).sum();
    Ratio::new(into.map(|wire| wire.capacity).sum::<u64>(), behind)
}

/// Wires of these capacities, under their own numbers times 2, and a source from which every rank gets what it roots.
pub(super) fn network(wiring: &Wiring, capacities: &[u64], roots: &[u64]) -> (Flow, usize) {
    let mut flow = Flow::new(wiring.nodes + 1);
    for (wire, capacity) in wiring.wires.iter().zip(capacities) {
        flow.arc(wire.source, wire.target, *capacity);
    }
    for (rank, root) in roots.iter().enumerate() {
        flow.arc(wiring.nodes, rank, *root);
    }
    (flow, wiring.nodes)
}

/// How many trees each rank must at least be the root of, so that every rank is reached by `trees` trees all in all
/// whoever has the others; `None` where that takes more than `trees` roots.
///
/// What every set of ranks must at least have of the roots is an intersecting supermodular function, so that one rank
/// after the other may be given as little as the rest allows: the sum is the least in whatever order (Frank).
pub(super) fn least_roots(networks: &[&Wiring], capacities: &[u64], trees: u64) -> Option<Vec<u64>> {
    let ranks = networks[0].ranks;
    let mut roots = vec![trees; ranks];
    let mut flows: Vec<(Flow, usize)> =
        networks.iter().map(|wiring| network(wiring, capacities, &roots)).collect();
    for (rank, own) in roots.iter_mut().enumerate() {
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
    (roots.iter().sum::<u64>() <= trees).then_some(roots)
}
