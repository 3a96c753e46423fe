//! The exact costs of breadth-first broadcast on a graph: on Cayley graphs from one node's row, else from all rows.
//!
//! In step `t` a node receives the blocks of all ranks at distance `t`, by any of the links that lie on a shortest
//! path. The step takes as long as the busiest link needs ([`least_time`]). The bandwidth term is `d
//! / N` times the sum of the steps, in units of the time that a node takes to send the whole vector.

use ringroad_core::synthesis::bfb::share::{least_time, JobClass, Mask};
use ringroad_core::synthesis::Ratio;
use ringroad_core::topology::moore_steps;

use super::group::MetacyclicGroup;

/// The costs of a graph of `ranks` nodes with `degree` links in and out of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphCost {
    /// The steps of an allgather, which are as many as those of a reduce-scatter: the diameter.
    pub steps: usize,
    /// The bandwidth term of the allgather, in units of vector / bandwidth of a node.
    pub allgather: Ratio,
    /// The bandwidth term of the reduce-scatter.
    pub reduce_scatter: Ratio,
    /// Whether every step of the allgather takes as long as that of the reduce-scatter, so that each direction of all
    /// links can handle half of the vector.
    pub even: bool,
}

/// The least possible bandwidth term: a rank receives what all other ranks have.
pub fn least_bandwidth(ranks: usize) -> Ratio {
    Ratio::new(ranks as u64 - 1, ranks as u64)
}

impl GraphCost {
    /// The costs of a graph on which both collectives have the least bandwidth term.
    pub fn optimal(ranks: usize, steps: usize) -> GraphCost {
        let least = least_bandwidth(ranks);
        GraphCost { steps, allgather: least, reduce_scatter: least, even: true }
    }

    /// Whether both collectives have the least bandwidth term.
    pub fn is_optimal(&self, ranks: usize) -> bool {
        let least = least_bandwidth(ranks);
        self.allgather == least && self.reduce_scatter == least
    }

    /// The bandwidth term of an allreduce.
    pub fn allreduce(&self) -> Ratio {
        self.allgather + self.reduce_scatter
    }

    /// Whether it is no worse than the other one in any respect.
    pub fn is_as_good_as(&self, other: &GraphCost) -> bool {
        self.steps <= other.steps
            && self.allgather <= other.allgather
            && self.reduce_scatter <= other.reduce_scatter
            && (self.even || !other.even)
    }
}

/// The node to which each link of each node leads: `heads[node * degree + port]`.
#[derive(Debug, Clone)]
struct RegularDigraph {
    degree: usize,
    heads: Vec<u32>,
}

impl RegularDigraph {
    fn ranks(&self) -> usize {
        self.heads.len() / self.degree
    }

    /// The graph with all links reversed. `None` if some node has more or fewer links in than out.
    fn transposed(&self) -> Option<RegularDigraph> {
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
        Some(RegularDigraph { degree: self.degree, heads })
    }
}

/// The nodes in the order of their distance from the start, with the first links of all shortest paths to each.
struct ShortestPaths {
    distance: Vec<u8>,
    first: Vec<u32>,
    /// The last links of all shortest paths to each node, by their numbers at the link's source; only for Cayley
    /// graphs.
    last: Vec<u32>,
    order: Vec<u32>,
}

const UNSEEN: u8 = u8::MAX;

impl ShortestPaths {
    fn new(ranks: usize) -> ShortestPaths {
        let (distance, masks) = (vec![UNSEEN; ranks], vec![0; ranks]);
        ShortestPaths { distance, first: masks.clone(), last: masks, order: Vec::with_capacity(ranks) }
    }

    /// Searches a graph breadth first, where `next` says to which node a port leads. Returns the steps until all nodes
    /// are reached; `None` if that takes more than `most` or is impossible.
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

    /// The load of every step's busiest link if the links of each node's mask share the job for that node.
    fn loads(&self, masks: &[u32], degree: usize) -> Vec<Ratio> {
        let level = |a: &u32, b: &u32| self.distance[*a as usize] == self.distance[*b as usize];
        let capacities = vec![1; degree];
        let load = |level: &[u32]| {
            let mut masks: Vec<u32> = level.iter().map(|node| masks[*node as usize]).collect();
            // Sorted so that equal masks are adjacent; those with the fewest links, which have the least choice, come
            // first.
            masks.sort_unstable_by_key(|mask| (mask.count_ones(), *mask));
            let alike = masks.chunk_by(|a, b| a == b);
            let class = |alike: &[u32]| JobClass { links: Mask::from(alike[0]), amount: alike.len() as u64 };
            least_time(&alike.map(class).collect::<Vec<JobClass>>(), &capacities)
        };
        self.order[1..].chunk_by(level).map(load).collect()
    }
}

fn bandwidth(loads: &[Ratio], ranks: usize, degree: usize) -> Ratio {
    let sum = loads.iter().fold(Ratio::ZERO, |sum, load| sum + *load);
    sum * Ratio::new(degree as u64, ranks as u64)
}

/// The costs of a Cayley graph; `None` unless it is connected with a diameter of at most `most`. Takes one search.
pub(super) fn cayley(group: &MetacyclicGroup, generators: &[usize], most: usize) -> Option<GraphCost> {
    let (ranks, degree) = (group.order(), generators.len());
    let moves: Vec<Vec<u32>> = generators.iter().map(|generator| group.moved_by(*generator)).collect();
    let mut search = ShortestPaths::new(ranks);
    let steps =
        search.run(0, degree, most.min(usize::from(UNSEEN) - 1), |node, port| moves[port][node] as usize)?;
    // The last link on the path from the neutral element to `g` is the last generator of a shortest word for `g`.
    let gathering = search.loads(&search.last, degree);
    let scattering = if group.is_abelian() { gathering.clone() } else { search.loads(&search.first, degree) };
    let allgather = bandwidth(&gathering, ranks, degree);
    let reduce_scatter = bandwidth(&scattering, ranks, degree);
    Some(GraphCost { steps, allgather, reduce_scatter, even: gathering == scattering })
}

/// The costs of a generalised Kautz graph; `None` unless it takes fewer steps than `fewest`.
pub(super) fn kautz(ranks: usize, degree: usize, fewest: usize) -> Option<GraphCost> {
    // It takes as many steps as the Moore bound, or one more: only the search tells which.
    let worth_a_look =
        degree < ranks && moore_steps(ranks, degree, false).is_some_and(|steps| steps < fewest);
    worth_a_look.then(|| digraph(&generalized_kautz(ranks, degree), fewest - 1)).flatten()
}

/// The costs of any graph with equal degrees; `None` unless every node reaches every other in `most` steps.
fn digraph(graph: &RegularDigraph, most: usize) -> Option<GraphCost> {
    let transposed = graph.transposed()?;
    // An allgather brings each node the blocks of the nodes upstream, which are downstream in the transposed graph.
    let gathering = slowest(&transposed, most)?;
    let scattering = slowest(graph, most)?;
    let (ranks, degree) = (graph.ranks(), graph.degree);
    Some(GraphCost {
        steps: gathering.len(),
        allgather: bandwidth(&gathering, ranks, degree),
        reduce_scatter: bandwidth(&scattering, ranks, degree),
        even: gathering == scattering,
    })
}

/// For every step, the load of the busiest link over all nodes, for messages that run against the links. `None` if
/// there are more than `most` steps.
fn slowest(graph: &RegularDigraph, most: usize) -> Option<Vec<Ratio>> {
    let mut search = ShortestPaths::new(graph.ranks());
    let mut slowest: Vec<Ratio> = Vec::new();
    for start in 0..graph.ranks() {
        let next = |node, port| graph.heads[node * graph.degree + port] as usize;
        search.run(start, graph.degree, most.min(usize::from(UNSEEN) - 1), next)?;
        let loads = search.loads(&search.first, graph.degree);
        slowest.resize(slowest.len().max(loads.len()), Ratio::ZERO);
        slowest.iter_mut().zip(loads).for_each(|(most, load)| *most = load.max(*most));
    }
    Some(slowest)
}

/// The generalised Kautz graph: node `x` has links to `-degree x - a` for all `a` from 1 to the degree (Imase and Itoh
/// 1983).
fn generalized_kautz(ranks: usize, degree: usize) -> RegularDigraph {
    let head = |x: usize, a: usize| ((degree + 1) * ranks - (degree * x % ranks + a)) % ranks;
    let heads = (0..ranks).flat_map(|x| (1..=degree).map(move |a| head(x, a) as u32)).collect();
    RegularDigraph { degree, heads }
}
