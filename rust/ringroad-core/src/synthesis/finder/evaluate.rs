//! What breadth-first broadcast costs on a graph, exactly: on Cayley graphs from one node's row, else from all.
//!
//! A node gets in step `t` what comes from ranks at distance `t`, by any of the links that lie on a shortest path. The
//! step lasts as long as the busiest link needs ([`crate::synthesis::bfb::share`]), and the bandwidth term is `d / N` times the sum
//! of the steps, in units of the time that a node takes to send the whole vector.

use super::group::Group;
use crate::synthesis::bfb::share::{least_time, Class, Mask};
use crate::synthesis::Ratio;

/// Costs of a graph of `ranks` nodes with `degree` links in and out of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cost {
    /// Steps of an allgather, and as many of a reduce-scatter: the diameter.
    pub steps: usize,
    /// Bandwidth term of the allgather, in units of vector / bandwidth of a node.
    pub allgather: Ratio,
    /// The same of the reduce-scatter.
    pub reduce_scatter: Ratio,
    /// Whether every step of one takes as long as that of the other, so that both directions of all links can work on
    /// half of the vector each.
    pub even: bool,
}

/// The least possible bandwidth term: a rank gets what the other ones have.
pub fn least_bandwidth(ranks: usize) -> Ratio {
    Ratio::new(ranks as u64 - 1, ranks as u64)
}

impl Cost {
    /// Of a graph whose both collectives take the least time for their bytes.
    pub fn optimal(ranks: usize, steps: usize) -> Cost {
        let least = least_bandwidth(ranks);
        Cost { steps, allgather: least, reduce_scatter: least, even: true }
    }

    /// Whether both collectives take the least time for their bytes.
    pub fn is_optimal(&self, ranks: usize) -> bool {
        let least = least_bandwidth(ranks);
        self.allgather == least && self.reduce_scatter == least
    }

    /// The bandwidth term of an allreduce.
    pub fn allreduce(&self) -> Ratio {
        self.allgather + self.reduce_scatter
    }

    /// No worse than the other one in anything.
    pub fn is_as_good_as(&self, other: &Cost) -> bool {
        self.steps <= other.steps
            && self.allgather <= other.allgather
            && self.reduce_scatter <= other.reduce_scatter
            && (self.even || !other.even)
    }
}

/// The ends of the links of every node, port by port: `heads[node * degree + port]`.
#[derive(Debug, Clone)]
pub(super) struct Digraph {
    pub(super) degree: usize,
    pub(super) heads: Vec<u32>,
}

impl Digraph {
    pub(super) fn ranks(&self) -> usize {
        self.heads.len() / self.degree
    }

    /// The links the other way round. `None` where not as many end at every node as start there.
    pub(super) fn transposed(&self) -> Option<Digraph> {
        let mut free: Vec<usize> = (0..self.ranks()).map(|node| node * self.degree).collect();
        let mut heads = vec![0; self.heads.len()];
        for (link, head) in self.heads.iter().enumerate() {
            let place = &mut free[*head as usize];
            if *place == (*head as usize + 1) * self.degree {
                return None;
            }
            heads[*place] = (link / self.degree) as u32;
            *place += 1;
        }
        Some(Digraph { degree: self.degree, heads })
    }
}

/// Nodes in the order of their distance from the first one, with the links by which shortest paths to them begin.
struct Search {
    distance: Vec<u8>,
    first: Vec<u32>,
    /// The links by which shortest paths to them end, numbered at the far end; only where all nodes look alike.
    last: Vec<u32>,
    order: Vec<u32>,
}

const UNSEEN: u8 = u8::MAX;

impl Search {
    fn new(ranks: usize) -> Search {
        let (distance, masks) = (vec![UNSEEN; ranks], vec![0; ranks]);
        Search { distance, first: masks.clone(), last: masks, order: Vec::with_capacity(ranks) }
    }

    /// Looks through a graph; the steps it takes to reach all, if at most `most`. `next` is where a port leads.
    fn run(
        &mut self,
        start: usize,
        degree: usize,
        most: usize,
        next: impl Fn(usize, usize) -> usize,
    ) -> Option<usize> {
        self.distance.fill(UNSEEN);
        self.first.fill(0);
        self.last.fill(0);
        self.order.clear();
        self.order.push(start as u32);
        self.distance[start] = 0;
        let mut at = 0;
        while let Some(&node) = self.order.get(at) {
            let node = node as usize;
            let step = self.distance[node] + 1;
            for port in 0..degree {
                let head = next(node, port);
                if self.distance[head] == UNSEEN {
                    if usize::from(step) > most {
                        return None;
                    }
                    self.distance[head] = step;
                    self.order.push(head as u32);
                }
                if self.distance[head] == step {
                    self.first[head] |= if step == 1 { 1 << port } else { self.first[node] };
                    self.last[head] |= 1 << port;
                }
            }
            at += 1;
        }
        let all = self.order.len() == self.distance.len();
        all.then(|| usize::from(self.distance[self.order[at - 1] as usize]))
    }

    /// The load of every step's busiest link if a job for each node is shared out among the links of its mask.
    fn loads(&self, masks: &[u32], degree: usize) -> Vec<Ratio> {
        let level = |a: &u32, b: &u32| self.distance[*a as usize] == self.distance[*b as usize];
        let capacities = vec![1; degree];
        let load = |level: &[u32]| {
            let mut masks: Vec<u32> = level.iter().map(|node| masks[*node as usize]).collect();
            // Those with the fewest links have the least choice and come first.
            masks.sort_unstable_by_key(|mask| (mask.count_ones(), *mask));
            let alike = masks.chunk_by(|a, b| a == b);
            let class = |alike: &[u32]| Class { links: Mask::from(alike[0]), amount: alike.len() as u64 };
            least_time(&alike.map(class).collect::<Vec<Class>>(), &capacities)
        };
        self.order[1..].chunk_by(level).map(load).collect()
    }
}

fn bandwidth(loads: &[Ratio], ranks: usize, degree: usize) -> Ratio {
    let sum = loads.iter().fold(Ratio::ZERO, |sum, load| sum + *load);
    sum * Ratio::new(degree as u64, ranks as u64)
}

/// Of a Cayley graph, if it is connected and its diameter is at most `most`. Time: that of one search.
pub(super) fn cayley(group: &Group, generators: &[usize], most: usize) -> Option<Cost> {
    let (ranks, degree) = (group.order(), generators.len());
    let moves: Vec<Vec<u32>> = generators.iter().map(|generator| group.moved_by(*generator)).collect();
    let mut search = Search::new(ranks);
    let steps =
        search.run(0, degree, most.min(usize::from(UNSEEN) - 1), |node, port| moves[port][node] as usize)?;
    // What `g` gets from the neutral element comes last over the last generator of a shortest word for `g`.
    let gathering = search.loads(&search.last, degree);
    let scattering = if group.is_abelian() { gathering.clone() } else { search.loads(&search.first, degree) };
    let allgather = bandwidth(&gathering, ranks, degree);
    let reduce_scatter = bandwidth(&scattering, ranks, degree);
    Some(Cost { steps, allgather, reduce_scatter, even: gathering == scattering })
}

/// Of any graph with equal degrees, if every node reaches every other.
pub(super) fn digraph(graph: &Digraph) -> Option<Cost> {
    let transposed = graph.transposed()?;
    // An allgather brings a node what is upstream: downstream of it in the transposed graph.
    let gathering = slowest(&transposed)?;
    let scattering = slowest(graph)?;
    let (ranks, degree) = (graph.ranks(), graph.degree);
    Some(Cost {
        steps: gathering.len(),
        allgather: bandwidth(&gathering, ranks, degree),
        reduce_scatter: bandwidth(&scattering, ranks, degree),
        even: gathering == scattering,
    })
}

/// The load of every step's busiest link of all nodes, of messages that run against the links.
fn slowest(graph: &Digraph) -> Option<Vec<Ratio>> {
    let mut search = Search::new(graph.ranks());
    let mut slowest: Vec<Ratio> = Vec::new();
    for start in 0..graph.ranks() {
        let next = |node, port| graph.heads[node * graph.degree + port] as usize;
        search.run(start, graph.degree, usize::from(UNSEEN) - 1, next)?;
        let loads = search.loads(&search.first, graph.degree);
        slowest.resize(slowest.len().max(loads.len()), Ratio::ZERO);
        slowest.iter_mut().zip(loads).for_each(|(most, load)| *most = load.max(*most));
    }
    Some(slowest)
}

/// Node `x` has links to `-degree x - a`, for all `a` from 1 to the degree (Imase and Itoh 1983).
pub(super) fn generalized_kautz(ranks: usize, degree: usize) -> Digraph {
    let head = |x: usize, a: usize| ((degree + 1) * ranks - (degree * x % ranks + a)) % ranks;
    let heads = (0..ranks).flat_map(|x| (1..=degree).map(move |a| head(x, a) as u32)).collect();
    Digraph { degree, heads }
}
