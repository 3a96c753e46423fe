//! Random Cayley graphs, reproducible on every machine: a draw is a number, and the table stores the numbers of good
//! draws.
//!
//! A change of the sequence of draws invalidates the table; a test detects that.

use ringroad_core::random::Random;
use ringroad_core::topology::moore_steps;

use super::evaluate::{cayley, least_bandwidth, GraphCost};
use super::group::{products, MetacyclicGroup};

/// The number of graphs that are drawn for an entry: between these two, fewer for larger graphs.
const DRAWS: usize = 400;
const FEW_DRAWS: usize = 50;
/// The approximate number of links that are examined for an entry.
const EFFORT: usize = 2_400_000;

/// All Cayley graphs of one order with a number of generators, over the groups of [`super::group`].
pub(super) struct Urn {
    degree: usize,
    /// Whether the inverse of every generator is a generator.
    undirected: bool,
    cyclic: MetacyclicGroup,
    products: Vec<MetacyclicGroup>,
}

/// A Cayley graph that was drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) group: MetacyclicGroup,
    pub(super) generators: Vec<usize>,
}

impl Urn {
    pub(super) fn new(order: usize, degree: usize, undirected: bool) -> Urn {
        let products = products(order);
        let noncommutative = products.iter().any(|group| !group.is_abelian());
        // Non-commutative groups reach more elements in the same number of steps, so they are preferred.
        let kept = products.into_iter().filter(|group| !(noncommutative && group.is_abelian())).collect();
        Urn { degree, undirected, cyclic: MetacyclicGroup::cyclic(order), products: kept }
    }

    /// The graph of this number; `None` if the draw fails.
    pub(super) fn draw(&self, number: usize) -> Option<Drawn> {
        let order = self.cyclic.order();
        let seed = [order, self.degree, usize::from(self.undirected), number];
        let mut random = Random::from_words(&seed.map(|word| word as u64));
        let others = !self.products.is_empty() && random.below(5) > 0;
        let group = if others { &self.products[random.below(self.products.len())] } else { &self.cyclic };
        let mut generators: Vec<usize> = Vec::with_capacity(self.degree);
        for _ in 0..8 * self.degree {
            let generator = 1 + random.below(order - 1);
            let inverse = if self.undirected { group.inverse(generator) } else { generator };
            let fits = generators.len() + 1 + usize::from(inverse != generator) <= self.degree;
            if fits && !generators.contains(&generator) {
                generators.push(generator);
                generators.extend((inverse != generator).then_some(inverse));
            }
            if generators.len() == self.degree {
                return Some(Drawn { group: group.clone(), generators });
            }
        }
        None
    }

    /// The best of the first `draws` graphs: those of which no other one is at least as good in steps and bandwidth
    /// terms.
    pub(super) fn best(&self, draws: usize) -> Vec<(usize, GraphCost)> {
        let ranks = self.cyclic.order();
        let bound = least_bandwidth(ranks);
        let least = moore_steps(ranks, self.degree, self.undirected);
        let mut kept: Vec<(usize, GraphCost)> = Vec::new();
        let mut most = usize::MAX;
        for number in 0..draws {
            let Some(drawn) = self.draw(number) else { continue };
            let Some(cost) = cayley(&drawn.group, &drawn.generators, most) else { continue };
            let better = |a: &GraphCost, b: &GraphCost| a.steps <= b.steps && a.allreduce() <= b.allreduce();
            if kept.iter().any(|(_, other)| better(other, &cost)) {
                continue;
            }
            kept.retain(|(_, other)| !better(&cost, other));
            kept.push((number, cost));
            if cost.allreduce() == bound + bound {
                if least.is_some_and(|least| cost.steps <= least) {
                    break;
                }
                most = cost.steps - 1;
            }
        }
        kept
    }
}

impl Drawn {
    pub(super) fn spec(&self) -> String {
        self.group.cayley(&self.generators)
    }
}

/// The best random Cayley graphs with the numbers of their draws.
pub(super) fn draw(ranks: usize, degree: usize, undirected: bool) -> Vec<(usize, GraphCost)> {
    // Inverses form pairs, unless an element is its own inverse; groups of odd order have no such element except the
    // neutral one.
    if ranks <= degree || undirected && degree % 2 == 1 && ranks % 2 == 1 {
        return Vec::new();
    }
    let draws = (EFFORT / (ranks * degree)).clamp(FEW_DRAWS, DRAWS);
    Urn::new(ranks, degree, undirected).best(draws)
}
