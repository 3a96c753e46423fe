//! Virtual channels, which keep messages from waiting for each other in a cycle.
//!
//! A message that holds a channel of a link waits for a channel of the next link of its path. Without a cycle of such
//! dependencies there is no deadlock (Dally, Seitz: Deadlock-free message routing in multiprocessor interconnection
//! networks, IEEE Transactions on Computers 36, 1987).
//!
//! ```text
//! labels of a path's nodes   7 -> 3 -> 5 -> 6 -> 2 -> 4      a link to a smaller label leads up
//!                             up   down down  up   down
//! channel                      0    0    0    1    1         the next channel at each turn from down to up
//! ```
//!
//! Within a channel paths lead up first and then down, and a path never returns to a lower channel. So there is no
//! cycle.
//!
//! An independent search over links and channels checks that no cycle is left.

use std::collections::HashSet;

use ringroad_core::topology::{breadth_first, Adjacency, Link, RoutingTable, Topology};
use ringroad_core::units::{LinkId, NodeId};

use super::layers::Layers;
use super::NoRoutes;

/// How many roots are tried to find the best numbering of nodes.
pub(super) const ROOTS: usize = 8;

/// How channels are assigned to hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// A path uses the next channel at each turn from down to up. Nodes are labelled in the order in which a search
    /// from a root finds them, or in the reverse order. Of up to 8 roots the one that needs the fewest channels is
    /// taken.
    Turns,
    /// A whole path uses one channel: the first one in which it closes no cycle (LASH: Skeie, Lysne, Theiss: Layered
    /// shortest path routing in irregular system area networks, IPDPS 2002).
    Lash,
}

/// The same paths on virtual channels on which they cannot deadlock, which is checked; all on channel 0 where one
/// channel is enough. An error where more than 256 channels are needed.
pub fn with_channels(
    table: &RoutingTable,
    topology: &Topology,
    way: Channels,
) -> Result<RoutingTable, NoRoutes> {
    let plain = table.clone().on_channels(Vec::new());
    if cycle(&plain).is_none() {
        return Ok(plain);
    }
    let channels = match way {
        Channels::Turns => turns(&plain, topology),
        Channels::Lash => layers(&plain, topology),
    };
    let channels = channels.ok_or_else(|| NoRoutes::TooManyChannels { spec: topology.spec() })?;
    let made = plain.on_channels(channels);
    match cycle(&made) {
        None => Ok(made),
        Some(cycle) => Err(NoRoutes::Deadlock { spec: topology.spec(), cycle }),
    }
}

/// A cycle of links and channels, or `None` where there is none: a message that holds one of them may wait for the
/// next, and one that holds the last may wait for the first.
pub fn cycle(table: &RoutingTable) -> Option<Vec<(LinkId, u8)>> {
    let node = |(link, channel): (LinkId, u8)| (link as u32, channel);
    let mut found = HashSet::new();
    for (source, target) in table.pairs() {
        let hops = table.hops(source, target).map(node);
        found.extend(hops.clone().zip(hops.skip(1)));
    }
    let mut waits: Vec<(Held, Held)> = found.into_iter().collect();
    waits.sort_unstable();
    cycle_of(&waits).map(|held| held.into_iter().map(|(link, channel)| (link as LinkId, channel)).collect())
}

/// The channels of all hops by [`Channels::Turns`]; `None` where there are more than 256.
fn turns(table: &RoutingTable, topology: &Topology) -> Option<Vec<u8>> {
    let labels = Labels::from_some_roots(topology, ROOTS);
    let either = labels.flat_map(|labels| [labels.turned(), labels]);
    let best = either.min_by_key(|labels| most_turns(table, topology, labels))?;
    let mut channels = Vec::new();
    for (source, target) in table.pairs() {
        for channel in turns_of(table.path(source, target), topology, &best) {
            channels.push(u8::try_from(channel).ok()?);
        }
    }
    Some(channels)
}

fn most_turns(table: &RoutingTable, topology: &Topology, labels: &Labels) -> usize {
    let last = |(source, target)| turns_of(table.path(source, target), topology, labels).last();
    table.pairs().filter_map(last).max().unwrap_or(0)
}

/// The channels of all hops by [`Channels::Lash`]; `None` where there are more than 256.
fn layers(table: &RoutingTable, topology: &Topology) -> Option<Vec<u8>> {
    let mut layers = Layers::new(topology);
    let mut channels = Vec::new();
    for (source, target) in table.pairs() {
        let path = table.path(source, target);
        let layer = u8::try_from(layers.place_path(path)).ok()?;
        channels.extend(path.iter().map(|_| layer));
    }
    Some(channels)
}

/// For every hop, how many turns from down to up come before it.
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

/// A different number for each node.
pub(super) struct Labels(Vec<usize>);

impl Labels {
    /// Numbers the nodes in the order in which a search from `root` finds them.
    fn from_root(topology: &Topology, outgoing: &Adjacency, root: NodeId) -> Labels {
        let (_, order) = breadth_first(outgoing, |id| topology.links()[id].target, root);
        let mut labels = vec![usize::MAX; topology.nodes()];
        order.iter().enumerate().for_each(|(label, node)| labels[*node] = label);
        let missing = labels.iter_mut().filter(|label| **label == usize::MAX);
        missing.enumerate().for_each(|(more, label)| *label = order.len() + more);
        Labels(labels)
    }

    /// The numberings from up to `roots` roots: rank 0 and nodes at equal distances in the order of numbers.
    pub fn from_some_roots(topology: &Topology, roots: usize) -> impl Iterator<Item = Labels> + '_ {
        let outgoing = Adjacency::new(topology.nodes(), topology.links().iter().map(|link| link.source));
        let nodes = topology.nodes();
        let roots = roots.min(nodes);
        (0..roots).map(move |root| Labels::from_root(topology, &outgoing, root * nodes / roots))
    }

    /// The reverse numbering: a link that led up leads down.
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

/// A cycle among these pairs, which are sorted, or `None` where there is none. A depth-first search that enters each
/// node once.
fn cycle_of(waits: &[(Held, Held)]) -> Option<Vec<Held>> {
    let first = |node: Held| waits.partition_point(|(from, _)| *from < node);
    let mut entered = vec![false; waits.len()];
    // For each node on the path, the index of its first pair, which identifies the node, and of its next pair to
    // follow.
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
