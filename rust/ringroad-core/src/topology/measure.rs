//! Numbers that describe a network: degree and diameter.

use super::{Ends, Topology};
use crate::units::{LinkId, NodeId, Port, Rank};

/// Links by node: those of node `v` are `links[first[v]..first[v + 1]]`, ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjacency {
    first: Vec<usize>,
    links: Vec<LinkId>,
}

impl Adjacency {
    /// The links of each of `nodes` nodes. `ends` has the node of every link, in the order of the links.
    pub fn new(nodes: usize, ends: impl Iterator<Item = NodeId> + Clone) -> Adjacency {
        let mut first = vec![0; nodes + 1];
        ends.clone().for_each(|node| first[node + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut links = vec![0; first[nodes]];
        for (link, node) in ends.enumerate() {
            links[next[node]] = link;
            next[node] += 1;
        }
        Adjacency { first, links }
    }

    /// The links at a node.
    pub fn links_of(&self, node: NodeId) -> &[LinkId] {
        &self.links[self.first[node]..self.first[node + 1]]
    }
}

/// How many links each node is away from `start`, `None` where no path leads, and the nodes in the order in which they are
/// found.
pub fn breadth_first(
    outgoing: &Adjacency,
    next: impl Fn(LinkId) -> NodeId,
    start: NodeId,
) -> (Vec<Option<usize>>, Vec<NodeId>) {
    let mut hops = vec![None; outgoing.first.len() - 1];
    let mut queue = vec![start];
    hops[start] = Some(0);
    let mut done = 0;
    while let Some(&node) = queue.get(done) {
        done += 1;
        for target in outgoing.links_of(node).iter().map(|id| next(*id)) {
            if hops[target].is_none() {
                hops[target] = hops[node].map(|hops| hops + 1);
                queue.push(target);
            }
        }
    }
    (hops, queue)
}

/// Checks that every rank reaches every other one over these links: rank 0 reaches all, and all reach rank 0. The error is a
/// pair of ranks without a path from the first to the second.
pub(crate) fn connected(
    ranks: usize,
    nodes: usize,
    links: impl Iterator<Item = (NodeId, NodeId)> + Clone,
) -> Result<(), (NodeId, NodeId)> {
    let missing = |links: Vec<(NodeId, NodeId)>| {
        let outgoing = Adjacency::new(nodes, links.iter().map(|(from, _)| *from));
        let (hops, _) = breadth_first(&outgoing, |id| links[id].1, 0);
        (0..ranks).find(|rank| hops[*rank].is_none())
    };
    if let Some(rank) = missing(links.clone().collect()) {
        return Err((0, rank));
    }
    let turned = links.map(|(from, to)| (to, from)).collect();
    missing(turned).map_or(Ok(()), |rank| Err((rank, 0)))
}

impl Topology {
    /// How many links leave a rank.
    pub fn degree(&self, rank: Rank) -> usize {
        self.links_out_of(rank).len()
    }

    /// The most links that leave a rank.
    pub fn max_degree(&self) -> usize {
        let mut degrees = vec![0; self.nodes()];
        self.links().iter().for_each(|link| degrees[link.source] += 1);
        degrees[..self.ranks()].iter().copied().max().unwrap_or(0)
    }

    /// The most links in a row on a shortest path between two ranks, those to and from switches included.
    pub fn diameter(&self) -> usize {
        if self.positions().is_some() {
            return self.base().diameter();
        }
        let outgoing = Adjacency::new(self.nodes(), self.links().iter().map(|link| link.source));
        let farthest = |start| {
            let (hops, _) = breadth_first(&outgoing, |id| self.links()[id].target, start);
            hops[..self.ranks()].iter().copied().flatten().max().unwrap_or(0)
        };
        self.ends().into_iter().map(farthest).max().unwrap_or(0)
    }

    /// Whether ranks are the elements of a group and links by their numbers its generators, as in
    /// [`Topology::cayley`]: rank `r` has the links `d·r + p` for `p` below `d`, and for every neighbour of rank 0 there
    /// is a motion of all ranks that takes 0 there and every link to one of the same number. Motions may be many; what
    /// the numbers leave open, one fixes.
    pub fn is_cayley(&self) -> bool {
        let (ranks, links) = (self.ranks, &self.links);
        let degree = links.len() / ranks;
        let even = self.nodes == ranks && links.len() == ranks * degree;
        if !even || !links.iter().enumerate().all(|(id, link)| link.source == id / degree) {
            return false;
        }
        let target = |rank: Rank, port: Port| links[degree * rank + port].target;
        (0..degree).all(|port| {
            self.motion_to(target(0, port)).is_some_and(|image| {
                let fits = |rank: Rank| {
                    (0..degree).all(|port| image[target(rank, port)] == target(image[rank], port))
                };
                (0..ranks).all(fits)
            })
        })
    }

    /// Where the motion that keeps links' numbers would take every rank if it took 0 to `start`.
    fn motion_to(&self, start: Rank) -> Option<Vec<Rank>> {
        let degree = self.links.len() / self.ranks;
        let mut image = vec![usize::MAX; self.ranks];
        image[0] = start;
        let mut queue = vec![0];
        let mut done = 0;
        while let Some(&rank) = queue.get(done) {
            done += 1;
            for port in 0..degree {
                let (to, moved) = (self.links[degree * rank + port], self.links[degree * image[rank] + port]);
                if image[to.target] == usize::MAX {
                    image[to.target] = moved.target;
                    queue.push(to.target);
                }
            }
        }
        (done == self.ranks).then_some(image)
    }

    /// Ranks of which one has another at the greatest distance.
    fn ends(&self) -> Vec<Rank> {
        match self.kind.ends() {
            Ends::Some(ends) => ends(self),
            Ends::All if !self.is_cayley() => (0..self.ranks()).collect(),
            Ends::First | Ends::All => vec![0],
        }
    }
}
