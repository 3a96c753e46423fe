//! Upper bounds for every all-to-all on a network, whatever its paths. They are proofs: what floating-point numbers
//! round is rounded to the safe side.

use serde::Serialize;

use crate::synthesis::Digraph;
use crate::units::Rank;

use super::cut::bisection;
use super::Demands;

/// Upper bounds on the fraction of its demand that every pair can get at once, each for one reason, in units of
/// capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FlowBounds {
    /// From distances: each demand takes up capacity on at least as many arcs as its ranks are apart. The bound is `sum
    /// of capacities / sum demand * hops`.
    pub distance: f64,
    /// From what can enter or leave one rank.
    pub rank: f64,
    /// From what can cross from one half of the ranks to the other, for the narrowest halves found. `None` with
    /// switches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bisection: Option<f64>,
    /// From the degree: no network of this degree has ranks closer together than a tree in which each rank has `degree`
    /// children (Theorem 2 of Basu et al.). Only for uniform demands; `None` for unequal capacities and with switches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree: Option<f64>,
}

/// At most the exact value of an expression that was computed as `value` from non-negative numbers by sums, products and
/// quotients, with at most `roundings` of them one after the other.
pub(super) fn at_most(value: f64, roundings: usize) -> f64 {
    value * (1.0 - (roundings + SPARE) as f64 * f64::EPSILON)
}

/// As [`at_most`], at least the exact value.
pub(super) fn at_least(value: f64, roundings: usize) -> f64 {
    value * (1.0 + (roundings + SPARE) as f64 * f64::EPSILON)
}

/// Roundings that every value may have besides: of bandwidths, of their units, and of these bounds.
const SPARE: usize = 16;

impl FlowBounds {
    /// The bounds for a network in which all pairs with a demand reach each other.
    pub fn from_network(network: &Digraph, demands: &Demands) -> FlowBounds {
        let ranks = network.ranks();
        let capacities = network.capacities();
        let capacity: f64 = capacities.iter().sum();
        let mut taken = 0.0;
        let (mut sent, mut received) = (vec![0.0; ranks], vec![0.0; ranks]);
        for (source, sent) in sent.iter_mut().enumerate() {
            let hops = network.hops_from(source);
            let mut own = 0.0;
            for target in 0..ranks {
                let demand = demands.between(source, target);
                if demand > 0.0 {
                    own += demand * f64::from(hops[target]);
                    *sent += demand;
                    received[target] += demand;
                }
            }
            taken += own;
        }
        let sum = |arcs: &mut dyn Iterator<Item = usize>| arcs.map(|arc| capacities[arc]).sum::<f64>();
        let of_rank = |rank: Rank| {
            let leaving = sum(&mut network.outgoing(rank)) / sent[rank];
            let entering = sum(&mut network.incoming(rank).iter().copied()) / received[rank];
            // A rank that neither sends nor receives yields infinity, which is no limit.
            leaving.min(entering)
        };
        let equal = network.arcs().windows(2).all(|pair| pair[0].bandwidth == pair[1].bandwidth);
        let unit = network.arcs().first().map_or(0, |arc| arc.capacity);
        let plain = network.nodes() == ranks && equal && unit > 0;
        let degree = (matches!(demands, Demands::Uniform) && plain)
            .then(|| degree_bound((network.degree() / unit) as usize, ranks) * unit as f64);
        let rank = (0..ranks).map(of_rank).fold(f64::INFINITY, f64::min);
        let distance = if taken > 0.0 { capacity / taken } else { f64::INFINITY };
        let safe = |rate: f64| at_least(rate, capacities.len() + 2 * ranks);
        let bisection = bisection(network, demands);
        FlowBounds {
            distance: safe(distance),
            rank: safe(rank),
            bisection: bisection.map(safe),
            degree: degree.map(safe),
        }
    }

    /// The lowest of the bounds.
    pub fn least(&self) -> f64 {
        let some = [self.bisection, self.degree].into_iter().flatten();
        some.fold(self.distance.min(self.rank), f64::min)
    }
}

/// The bound for uniform demands on any network of `ranks` ranks with `degree` links of capacity 1: `degree / sum of
/// depths in the tree`; 0 if the tree does not reach all ranks.
pub fn degree_bound(degree: usize, ranks: usize) -> f64 {
    let (mut left, mut level, mut depth, mut depths) = (ranks.saturating_sub(1), degree, 1, 0.0);
    while left > 0 && level > 0 {
        let here = level.min(left);
        depths += here as f64 * f64::from(depth);
        left -= here;
        level = level.saturating_mul(degree);
        depth += 1;
    }
    if left > 0 {
        0.0
    } else {
        degree as f64 / depths
    }
}
