//! The bisection bound: the demand between two halves of the ranks is limited by the links between these halves.
//!
//! Any two halves give a bound. Finding the narrowest is NP-hard, so this bound is that of good halves. Ranks are put
//! in an order (by number, by a grid's coordinate, breadth first, or by the second eigenvector of the links) and cut in
//! the middle. Then pairs of ranks change sides as long as that reduces the capacity between the halves (Kernighan and
//! Lin, 1970).

use crate::synthesis::Digraph;
use crate::units::Rank;

use super::Demands;

/// The search for halves takes time that grows with the square of the ranks; larger networks get no bound.
const MOST_RANKS: usize = 1 << 12;
/// The number of power iterations, enough to approximate the second eigenvector.
const ITERATIONS: usize = 200;

/// An upper bound, in units of capacity, on the fraction of its demand that every pair can get at once, from what fits
/// between the halves. `None` for networks with switches, which belong to neither half, for fewer than two ranks and
/// for too many.
pub(super) fn bisection(network: &Digraph, demands: &Demands) -> Option<f64> {
    let ranks = network.ranks();
    if network.nodes() > ranks || !(2..=MOST_RANKS).contains(&ranks) {
        return None;
    }
    let capacities = network.capacities();
    let rate = |upper: &[bool]| {
        let across = |from: bool| {
            let arcs = network.arcs().iter().zip(&capacities);
            let arcs = arcs.filter(|(arc, _)| upper[arc.source] == from && upper[arc.target] != from);
            let capacity: f64 = arcs.map(|(_, capacity)| capacity).sum();
            let side = |which: bool| (0..ranks).filter(move |rank| upper[*rank] == which);
            let demand: f64 =
                side(from).map(|s| side(!from).map(|t| demands.between(s, t)).sum::<f64>()).sum();
            if demand > 0.0 {
                capacity / demand
            } else {
                f64::INFINITY
            }
        };
        across(true).min(across(false))
    };
    let halves = orders(network).into_iter().map(|order| refined(network, &order));
    halves.map(|upper| rate(&upper)).reduce(f64::min)
}

/// Orders of the ranks in which ranks that are close in the network are often next to each other.
fn orders(network: &Digraph) -> Vec<Vec<Rank>> {
    let ranks = network.ranks();
    let by = |key: &dyn Fn(Rank) -> f64| {
        let mut order: Vec<Rank> = (0..ranks).collect();
        order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
        order
    };
    let hops = network.hops_from(0);
    let vibration = slowest(network);
    let mut orders =
        vec![by(&|rank| rank as f64), by(&|rank| f64::from(hops[rank])), by(&|rank| vibration[rank])];
    let mut stride = ranks;
    for size in network.dimensions() {
        stride /= size;
        orders.push(by(&|rank| (rank / stride % size) as f64));
    }
    orders
}

/// An approximation of the second eigenvector of the undirected links, by power iteration from a fixed start.
fn slowest(network: &Digraph) -> Vec<f64> {
    let ranks = network.ranks();
    let mut weight = vec![0.0; ranks];
    for arc in network.arcs() {
        weight[arc.source] += arc.capacity as f64;
        weight[arc.target] += arc.capacity as f64;
    }
    let most = weight.iter().copied().fold(0.0, f64::max);
    // Start values that follow no pattern of the ranks.
    let mut now: Vec<f64> = (0..ranks).map(|rank| (rank * 7919 % 1009) as f64).collect();
    for _ in 0..ITERATIONS {
        let mean = now.iter().sum::<f64>() / ranks as f64;
        now.iter_mut().for_each(|value| *value -= mean);
        let mut next: Vec<f64> =
            now.iter().zip(&weight).map(|(value, own)| value * (2.0 * most - own)).collect();
        for arc in network.arcs() {
            next[arc.source] += arc.capacity as f64 * now[arc.target];
            next[arc.target] += arc.capacity as f64 * now[arc.source];
        }
        let scale = next.iter().map(|value| value.abs()).fold(f64::MIN_POSITIVE, f64::max);
        next.iter_mut().for_each(|value| *value /= scale);
        now = next;
    }
    now
}

/// The second half of an order, after pairs have changed sides as long as that helps. Each rank of that half is `true`.
fn refined(network: &Digraph, order: &[Rank]) -> Vec<bool> {
    let ranks = network.ranks();
    let mut upper = vec![false; ranks];
    order[ranks / 2..].iter().for_each(|rank| upper[*rank] = true);
    let joined = |rank: Rank| {
        let out = network.outgoing(rank).map(|arc| (network.arcs()[arc].target, arc));
        let into = network.incoming(rank).iter().map(|arc| (network.arcs()[*arc].source, *arc));
        out.chain(into).map(|(other, arc)| (other, network.arcs()[arc].capacity as i64))
    };
    // The reduction of the capacity between the halves if one rank changes sides.
    let gain = |upper: &[bool], rank: Rank| -> i64 {
        joined(rank).map(|(other, units)| if upper[other] == upper[rank] { -units } else { units }).sum()
    };
    let mut gains: Vec<i64> = (0..ranks).map(|rank| gain(&upper, rank)).collect();
    for _ in 0..ranks {
        let best = |side: bool, except: i64, with: Option<Rank>| {
            let value = |rank: Rank| {
                let between: i64 = with.map_or(0, |with| {
                    joined(with).filter(|(other, _)| *other == rank).map(|(_, units)| units).sum()
                });
                gains[rank] - 2 * between + except
            };
            let of_side = (0..ranks).filter(|rank| upper[*rank] == side);
            of_side.map(|rank| (value(rank), std::cmp::Reverse(rank))).max()
        };
        let Some((first_gain, std::cmp::Reverse(first))) = best(false, 0, None) else { break };
        let Some((both, std::cmp::Reverse(second))) = best(true, first_gain, Some(first)) else { break };
        if both <= 0 {
            break;
        }
        for rank in [first, second] {
            upper[rank] = !upper[rank];
        }
        for rank in [first, second] {
            gains[rank] = gain(&upper, rank);
            joined(rank).for_each(|(other, _)| gains[other] = gain(&upper, other));
        }
    }
    upper
}
