//! Layers of paths without cycles. A path goes into the first layer in which a topological order of the links still
//! exists with it.
//!
//! Pearce, Kelly: A dynamic topological sort algorithm for directed acyclic graphs, ACM Journal of Experimental
//! Algorithmics 11, 2006.

use ringroad_core::topology::{Adjacency, Link, Topology};
use ringroad_core::units::LinkId;

/// What a layer knows about a pair of consecutive links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PairState {
    Unknown,
    Taken,
    /// The pair would close a cycle, now and for ever: a layer never loses pairs.
    Refused,
}

/// The layers that have been made.
pub(super) struct Layers<'a> {
    turns: TurnNumbers<'a>,
    layers: Vec<Layer>,
}

/// The numbers of all pairs of consecutive links: the second starts where the first ends.
struct TurnNumbers<'a> {
    links: &'a [Link],
    outgoing: Adjacency,
    incoming: Adjacency,
    /// The number of each link's first pair.
    first: Vec<usize>,
    /// The place of each link among the links that leave its source.
    place: Vec<usize>,
}

struct Layer {
    pairs: Vec<PairState>,
    /// The place of each link in an order in which every taken pair leads upwards.
    order: Vec<u32>,
    /// The number of the last search that found each link. `search` is the number of the last search.
    seen: Vec<u32>,
    search: u32,
}

impl<'a> Layers<'a> {
    pub fn new(topology: &'a Topology) -> Layers<'a> {
        let (nodes, links) = (topology.nodes(), topology.links());
        let outgoing = Adjacency::new(nodes, links.iter().map(|link| link.source));
        let incoming = Adjacency::new(nodes, links.iter().map(|link| link.target));
        let mut place = vec![0; links.len()];
        for node in 0..nodes {
            outgoing.links_of(node).iter().enumerate().for_each(|(at, link)| place[*link] = at);
        }
        let mut first = vec![0];
        first.extend(links.iter().scan(0, |sum, link| {
            *sum += outgoing.links_of(link.target).len();
            Some(*sum)
        }));
        Layers { turns: TurnNumbers { links, outgoing, incoming, first, place }, layers: Vec::new() }
    }

    /// Puts a path into the first layer that it fits, which may be a new one, and returns the layer's number.
    pub fn place_path(&mut self, path: &[u32]) -> usize {
        let turns = &self.turns;
        let found = self.layers.iter_mut().position(|layer| layer.take_path(turns, path));
        found.unwrap_or_else(|| {
            let mut layer = Layer::new(turns);
            layer.take_path(turns, path);
            self.layers.push(layer);
            self.layers.len() - 1
        })
    }
}

impl TurnNumbers<'_> {
    fn number(&self, from: LinkId, to: LinkId) -> usize {
        self.first[from] + self.place[to]
    }
}

impl Layer {
    fn new(turns: &TurnNumbers<'_>) -> Layer {
        let links = turns.links.len();
        let pairs = vec![PairState::Unknown; turns.first[links]];
        Layer { pairs, order: (0..links as u32).collect(), seen: vec![0; links], search: 0 }
    }

    /// Takes all pairs of a path, or none of them; returns whether it has taken them.
    fn take_path(&mut self, turns: &TurnNumbers<'_>, path: &[u32]) -> bool {
        let pairs = || path.windows(2).map(|pair| (pair[0] as LinkId, pair[1] as LinkId));
        let known = |(from, to): (LinkId, LinkId)| self.pairs[turns.number(from, to)];
        if pairs().any(|pair| known(pair) == PairState::Refused) {
            return false;
        }
        let mut new: Vec<(LinkId, LinkId)> =
            pairs().filter(|pair| known(*pair) == PairState::Unknown).collect();
        let mut fails = None;
        for (count, (from, to)) in new.iter().enumerate() {
            if !self.add(turns, *from, *to) {
                fails = Some(count);
                break;
            }
        }
        let Some(count) = fails else { return true };
        let (from, to) = new[count];
        new.drain(..count).for_each(|(from, to)| self.pairs[turns.number(from, to)] = PairState::Unknown);
        // A pair that closes a cycle only with the other pairs of its path may be taken later.
        let alone = count > 0 && self.add(turns, from, to);
        self.pairs[turns.number(from, to)] = if alone { PairState::Unknown } else { PairState::Refused };
        false
    }

    /// Takes a pair unless it closes a cycle; returns whether it has taken the pair.
    fn add(&mut self, turns: &TurnNumbers<'_>, from: LinkId, to: LinkId) -> bool {
        let (first, last) = (self.order[to], self.order[from]);
        if first < last {
            let after = |link: LinkId| {
                let next = turns.outgoing.links_of(turns.links[link].target).iter();
                next.map(move |next| (*next, turns.number(link, *next)))
            };
            let Some(behind) = self.reach(to, Some(from), after, |place| place <= last) else { return false };
            let before = |link: LinkId| {
                let next = turns.incoming.links_of(turns.links[link].source).iter();
                next.map(move |next| (*next, turns.number(*next, link)))
            };
            let ahead = self.reach(from, None, before, |place| place >= first);
            self.reorder(ahead.unwrap_or_default(), behind);
        }
        self.pairs[turns.number(from, to)] = PairState::Taken;
        true
    }

    /// All links that are reached from `start` over taken pairs and whose places are `within`, sorted by place; `None`
    /// where `stop` is one of them. `next` returns the links that a link forms a pair with, and the numbers of these
    /// pairs.
    fn reach<N: Iterator<Item = (LinkId, usize)>>(
        &mut self,
        start: LinkId,
        stop: Option<LinkId>,
        next: impl Fn(LinkId) -> N,
        within: impl Fn(u32) -> bool,
    ) -> Option<Vec<LinkId>> {
        self.search += 1;
        self.seen[start] = self.search;
        let mut found = vec![start];
        let mut done = 0;
        while let Some(&link) = found.get(done) {
            done += 1;
            for (other, pair) in next(link) {
                let open = self.seen[other] != self.search && within(self.order[other]);
                if !open || self.pairs[pair] != PairState::Taken {
                    continue;
                }
                if Some(other) == stop {
                    return None;
                }
                self.seen[other] = self.search;
                found.push(other);
            }
        }
        found.sort_unstable_by_key(|link| self.order[*link]);
        Some(found)
    }

    /// Redistributes the places of all these links: `ahead` gets the lowest of them, `behind` the others.
    fn reorder(&mut self, ahead: Vec<LinkId>, behind: Vec<LinkId>) {
        let all: Vec<LinkId> = ahead.into_iter().chain(behind).collect();
        let mut places: Vec<u32> = all.iter().map(|link| self.order[*link]).collect();
        places.sort_unstable();
        all.into_iter().zip(places).for_each(|(link, place)| self.order[link] = place);
    }
}
