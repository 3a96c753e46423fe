//! What no all-to-all exceeds on a network, whatever its ways.

use crate::synthesis::Network;
use crate::units::Rank;

use super::cut::bisection;
use super::Demands;

/// How much of its demand every pair can be given at once, at most, for several reasons; in units of capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// All arcs together carry every demand over as many of them as its ranks are apart:
    /// `sum of capacities / sum demand * hops`.
    pub distance: f64,
    /// What enters or leaves one rank.
    pub rank: f64,
    /// What crosses from one half of the ranks to the other; the narrowest halves that were found. `None` with switches.
    pub bisection: Option<f64>,
    /// With a demand of one for each pair, any network of this degree: ranks are no nearer than in a tree in which each has
    /// `degree` others below it (Theorem 2 of Basu et al.). `None` for other demands, unequal capacities
    /// and switches.
    pub degree: Option<f64>,
}

impl Bounds {
    /// Of a network in which all pairs with a demand reach each other.
    pub fn of(network: &Network, demands: &Demands) -> Bounds {
        let ranks = network.ranks();
        let capacity: u64 = network.arcs().iter().map(|arc| arc.capacity).sum();
        let mut taken = 0.0;
        let (mut sent, mut received) = (vec![0.0; ranks], vec![0.0; ranks]);
        for (source, sent) in sent.iter_mut().enumerate() {
            let hops = network.hops_from(source);
            for target in 0..ranks {
                let demand = demands.between(source, target);
                if demand > 0.0 {
                    taken += demand * f64::from(hops[target]);
                    *sent += demand;
                    received[target] += demand;
                }
            }
        }
        let sum = |arcs: &mut dyn Iterator<Item = usize>| {
            arcs.map(|arc| network.arcs()[arc].capacity).sum::<u64>() as f64
        };
        let of_rank = |rank: Rank| {
            let leaving = sum(&mut network.outgoing(rank)) / sent[rank];
            let entering = sum(&mut network.incoming(rank).iter().copied()) / received[rank];
            // Who neither sends nor receives is no limit.
            leaving.min(entering)
        };
        let equal = network.arcs().windows(2).all(|pair| pair[0].capacity == pair[1].capacity);
        let unit = network.arcs().first().map_or(0, |arc| arc.capacity);
        let plain = network.nodes() == ranks && equal && unit > 0;
        let degree = (matches!(demands, Demands::Uniform) && plain)
            .then(|| of_degree((network.degree() / unit) as usize, ranks) * unit as f64);
        let rank = (0..ranks).map(of_rank).fold(f64::INFINITY, f64::min);
        let distance = if taken > 0.0 { capacity as f64 / taken } else { f64::INFINITY };
        Bounds { distance, rank, bisection: bisection(network, demands), degree }
    }
}

/// How much of a demand of one for each pair any network of `ranks` ranks with `degree` links of capacity 1 can give, at
/// most: `degree / sum of depths in the tree`.
pub fn of_degree(degree: usize, ranks: usize) -> f64 {
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
