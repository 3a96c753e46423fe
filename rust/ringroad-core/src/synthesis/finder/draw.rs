//! Cayley graphs drawn by lot, always the same ones: a draw is a number, and a table of good ones has numbers only.

use super::bounds::{moore_steps, undirected_moore_steps};
use super::evaluate::{cayley, least_bandwidth, Cost};
use super::group::{products, Group};
use super::random::Random;

/// How many graphs are drawn for an entry of the table: fewer where each takes long.
const DRAWS: usize = 400;
const FEW_DRAWS: usize = 50;
/// How many links are looked at for an entry, about.
const EFFORT: usize = 2_400_000;

/// Cayley graphs of all groups of an order that [`super::group`] has, with so many generators.
pub(super) struct Urn {
    degree: usize,
    /// Whether with every generator its inverse is one.
    undirected: bool,
    cyclic: Group,
    products: Vec<Group>,
}

/// A Cayley graph, by its number in the urn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) group: Group,
    pub(super) generators: Vec<usize>,
}

impl Urn {
    pub(super) fn new(order: usize, degree: usize, undirected: bool) -> Urn {
        let products = products(order);
        let noncommutative = products.iter().any(|group| !group.is_abelian());
        // Where there are groups that do not commute, these reach more in as many steps.
        let kept = products.into_iter().filter(|group| !(noncommutative && group.is_abelian())).collect();
        Urn { degree, undirected, cyclic: Group::cyclic(order), products: kept }
    }

    /// The graph of this number; `None` where it came to nothing.
    pub(super) fn draw(&self, number: usize) -> Option<Drawn> {
        let order = self.cyclic.order();
        let seed = [order, self.degree, usize::from(self.undirected), number];
        let mut random = Random::new(&seed.map(|word| word as u64));
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

    /// The best of the first `draws`: for ever fewer steps the one with the least bandwidth terms.
    pub(super) fn best(&self, draws: usize) -> Vec<(usize, Cost)> {
        let ranks = self.cyclic.order();
        let bound = least_bandwidth(ranks);
        let least = if self.undirected { undirected_moore_steps } else { moore_steps }(ranks, self.degree);
        let mut kept: Vec<(usize, Cost)> = Vec::new();
        let mut most = usize::MAX;
        for number in 0..draws {
            let Some(drawn) = self.draw(number) else { continue };
            let Some(cost) = cayley(&drawn.group, &drawn.generators, most) else { continue };
            let better = |a: &Cost, b: &Cost| a.steps <= b.steps && a.allreduce() <= b.allreduce();
            if kept.iter().any(|(_, other)| better(other, &cost)) {
                continue;
            }
            kept.retain(|(_, other)| !better(&cost, other));
            kept.push((number, cost));
            if cost.allreduce() == bound + bound {
                if cost.steps <= least {
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

/// The best drawn Cayley graphs with their numbers.
pub(super) fn draw(ranks: usize, degree: usize, undirected: bool) -> Vec<(usize, Cost)> {
    // Inverses come in pairs unless an element is its own, of which groups of odd order have none.
    if ranks <= degree || undirected && degree % 2 == 1 && ranks % 2 == 1 {
        return Vec::new();
    }
    let draws = (EFFORT / (ranks * degree)).clamp(FEW_DRAWS, DRAWS);
    Urn::new(ranks, degree, undirected).best(draws)
}
