//! Virtual channels: messages that wait for each other must not do so in a circle.
//!
//! A message that holds a channel of a link waits for the next one of its path. If no circle of such dependencies exists,
//! there is no deadlock (Dally, Seitz: Deadlock-free message routing in multiprocessor interconnection networks, IEEE
//! Transactions on Computers 36, 1987).
//!
//! ```text
//! labels of a path's nodes   7 -> 3 -> 5 -> 6 -> 2 -> 4      a link to a smaller label leads up
//!                             up   down down  up   down
//! channel                      0    0    0    1    1         the next one at each turn from down to up
//! ```
//!
//! Within a channel paths lead up and then down, and they never go back to a lower channel: no circle.

use std::collections::HashSet;

use super::super::measure::{search, Adjacency};
use super::super::{Link, Topology, TopologyError};
use super::layers::Layers;
use super::RoutingTable;
use crate::units::{LinkId, NodeId};

/// From so many roots nodes are numbered, where the best numbering is looked for.
pub(super) const ROOTS: usize = 8;

/// How hops get their channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// The next one at each turn, by the order in which a search from a root finds nodes. The root with the fewest
    /// channels is taken.
    Turns,
    /// One for the whole path, the first one in which there is no circle yet (LASH: Skeie, Lysne, Theiss: Layered shortest
    /// path routing in irregular system area networks, IPDPS 2002).
    Lash,
}

impl RoutingTable {
    /// The same paths on virtual channels that cannot deadlock, as is checked; all on channel 0 where that is enough.
    pub fn with_channels(&self, topology: &Topology, way: Channels) -> Result<RoutingTable, TopologyError> {
        let plain = RoutingTable { channels: Vec::new(), ..self.clone() };
        if plain.is_deadlock_free() {
            return Ok(plain);
        }
        let too_many = || TopologyError::TooManyChannels { spec: topology.spec() };
        let channels = match way {
            Channels::Turns => plain.turns(topology),
            Channels::Lash => plain.layers(topology),
        };
        let made = RoutingTable { channels: channels.ok_or_else(too_many)?, ..plain };
        match made.circle() {
            None => Ok(made),
            Some(circle) => Err(TopologyError::Deadlock { spec: topology.spec(), circle }),
        }
    }

    /// Whether no messages on these paths and channels can wait for each other in a circle.
    pub fn is_deadlock_free(&self) -> bool {
        self.circle().is_none()
    }

    /// Links and channels of which each may be waited for by who holds the one before, and the first one by who holds the
    /// last.
    pub fn circle(&self) -> Option<Vec<(LinkId, u8)>> {
        let node = |(link, channel): (LinkId, u8)| (link as u32, channel);
        let mut found = HashSet::new();
        for (source, target) in self.pairs() {
            let hops = self.hops(source, target).map(node);
            found.extend(hops.clone().zip(hops.skip(1)));
        }
        let mut waits: Vec<(Held, Held)> = found.into_iter().collect();
        waits.sort_unstable();
        circle(&waits).map(|held| held.into_iter().map(|(link, channel)| (link as LinkId, channel)).collect())
    }

    /// The channels of all hops by turns; `None` where there are more than can be counted.
    fn turns(&self, topology: &Topology) -> Option<Vec<u8>> {
        let labels = Labels::from_some_roots(topology, ROOTS);
        let either = labels.flat_map(|labels| [labels.turned(), labels]);
        let best = either.min_by_key(|labels| self.most_turns(topology, labels))?;
        let mut channels = Vec::with_capacity(self.links.len());
        for (source, target) in self.pairs() {
            for channel in turns_of(self.path(source, target), topology, &best) {
                channels.push(u8::try_from(channel).ok()?);
            }
        }
        Some(channels)
    }

    fn most_turns(&self, topology: &Topology, labels: &Labels) -> usize {
        let last = |(source, target)| turns_of(self.path(source, target), topology, labels).last();
        self.pairs().filter_map(last).max().unwrap_or(0)
    }

    /// The channels of all hops where each path has one.
    fn layers(&self, topology: &Topology) -> Option<Vec<u8>> {
        let mut layers = Layers::new(topology);
        let mut channels = Vec::with_capacity(self.links.len());
        for (source, target) in self.pairs() {
            let path = self.path(source, target);
            let layer = u8::try_from(layers.take(path)).ok()?;
            channels.extend(path.iter().map(|_| layer));
        }
        Some(channels)
    }
}

/// Of every hop, how many turns from down to up come before it.
fn turns_of<'a>(
    path: &'a [u32],
    topology: &'a Topology,
    labels: &'a Labels,
) -> impl Iterator<Item = usize> + 'a {
    path.iter().scan((0, true), |(turns, was_up), link| {
        let up = labels.is_up(&topology.links()[*link as usize]);
        *turns += usize::from(up && !*was_up);
        *was_up = up;
        Some(*turns)
    })
}

/// A number for each node, all different.
pub(super) struct Labels(Vec<usize>);

impl Labels {
    /// In the order in which a search from the root finds them.
    fn from_root(topology: &Topology, outgoing: &Adjacency, root: NodeId) -> Labels {
        let (_, order) = search(outgoing, |id| topology.links()[id].target, root);
        let mut labels = vec![usize::MAX; topology.nodes()];
        order.iter().enumerate().for_each(|(label, node)| labels[*node] = label);
        let missing = labels.iter_mut().filter(|label| **label == usize::MAX);
        missing.enumerate().for_each(|(more, label)| *label = order.len() + more);
        Labels(labels)
    }

    /// From up to so many roots, rank 0 and others.
    pub fn from_some_roots(topology: &Topology, roots: usize) -> impl Iterator<Item = Labels> + '_ {
        let outgoing = Adjacency::new(topology.nodes(), topology.links().iter().map(|link| link.source));
        let nodes = topology.nodes();
        let roots = roots.min(nodes);
        (0..roots).map(move |root| Labels::from_root(topology, &outgoing, root * nodes / roots))
    }

    /// The other way round: what led up leads down.
    fn turned(&self) -> Labels {
        Labels(self.0.iter().map(|label| self.0.len() - label).collect())
    }

    /// Whether a link leads to a smaller label.
    pub fn is_up(&self, link: &Link) -> bool {
        self.0[link.target] < self.0[link.source]
    }
}

/// A link and a channel.
type Held = (u32, u8);

/// A circle among these pairs, which are sorted, if there is one: depth first, as far as each node for the first time.
fn circle(waits: &[(Held, Held)]) -> Option<Vec<Held>> {
    let first = |node: Held| waits.partition_point(|(from, _)| *from < node);
    let mut entered = vec![false; waits.len()];
    // Where the pairs of a node begin, which stands for it, and the next of them to be looked at.
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut on_path = HashSet::new();
    for start in 0..waits.len() {
        if first(waits[start].0) != start || std::mem::replace(&mut entered[start], true) {
            continue;
        }
        path.push((start, start));
        on_path.insert(start);
        while let Some((node, next)) = path.last_mut() {
            let here = *node;
            let pair = waits.get(*next).filter(|pair| pair.0 == waits[here].0);
            *next += 1;
            let Some((_, to)) = pair else {
                on_path.remove(&here);
                path.pop();
                continue;
            };
            let to_node = first(*to);
            if on_path.contains(&to_node) && waits[to_node].0 == *to {
                let begin = path.iter().position(|(node, _)| *node == to_node)?;
                return Some(path[begin..].iter().map(|(node, _)| waits[*node].0).collect());
            }
            let has_pairs = waits.get(to_node).is_some_and(|pair| pair.0 == *to);
            if has_pairs && !std::mem::replace(&mut entered[to_node], true) {
                path.push((to_node, to_node));
                on_path.insert(to_node);
            }
        }
    }
    None
}
