//! One router may answer by several addresses: towards each asker by that of the interface which faces it.
//!
//! ```text
//! 0 ── a[R]b ── 1      host 0 sees a on its way to 1, and host 1 sees b on its way back
//! ```
//!
//! Two addresses are taken for one router's where a host has one way out and in, or where the paths there and back have
//! the same length and the same neighbours at this place. They are not where both answer right behind one node, which
//! sees only one side of each router.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::HostFacts;
use super::walk::{Stop, Walk};

/// Which stops are one node.
pub(super) struct Aliases {
    numbers: BTreeMap<Stop, usize>,
    parent: Vec<usize>,
    /// The stops that follow another one in some walk, as pairs of numbers.
    behind: BTreeSet<(usize, usize)>,
    /// The stops that have addresses.
    answering: Vec<usize>,
    /// Pairs that looked like one node, but cannot be.
    refused: BTreeSet<(usize, usize)>,
    /// Nodes that may be others by another address.
    pub unsure: BTreeSet<usize>,
}

impl Aliases {
    pub fn from_walks(hosts: &[HostFacts], walks: &[Walk]) -> Aliases {
        let mut numbers = BTreeMap::new();
        for stop in walks.iter().flat_map(|walk| &walk.stops).flatten() {
            let next = numbers.len();
            numbers.entry(*stop).or_insert(next);
        }
        let answers = |(stop, number): (&Stop, &usize)| matches!(stop, Stop::Router(_)).then_some(*number);
        let answering = numbers.iter().filter_map(answers).collect();
        let (parent, behind, refused) = ((0..numbers.len()).collect(), BTreeSet::new(), BTreeSet::new());
        let mut aliases = Aliases { numbers, parent, behind, answering, refused, unsure: BTreeSet::new() };
        for pair in walks.iter().flat_map(|walk| walk.stops.windows(2)) {
            if let [Some(one), Some(other)] = pair {
                let pair = (aliases.numbers[one], aliases.numbers[other]);
                aliases.behind.insert(pair);
            }
        }
        aliases.join_gateways(hosts, walks);
        aliases.join_mirrored(walks);
        aliases
    }

    /// A stop that stands for all that are one node with this one.
    pub fn node(&self, stop: Stop) -> usize {
        self.root(self.numbers[&stop])
    }

    /// All stops with the node that each is.
    pub fn stops(&self) -> impl Iterator<Item = (Stop, usize)> + '_ {
        self.numbers.iter().map(|(stop, number)| (*stop, self.root(*number)))
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parent[number] != number {
            number = self.parent[number];
        }
        number
    }

    /// The routers next to a host with one way out are one, seen from its two sides.
    fn join_gateways(&mut self, hosts: &[HostFacts], walks: &[Walk]) {
        let mut ends = vec![[BTreeSet::new(), BTreeSet::new()]; hosts.len()];
        for walk in walks.iter().filter(|walk| walk.stops.len() > 1) {
            ends[walk.from][0].extend(walk.stops[1]);
            ends[walk.to][1].extend(walk.stops[walk.stops.len() - 2].filter(|_| walk.reached));
        }
        for (facts, [first, last]) in hosts.iter().zip(ends) {
            let all: Vec<Stop> = first.iter().chain(&last).copied().collect();
            let is_single = facts.addresses.len() == 1 || first.len() == 1;
            if is_single && all.iter().all(|stop| !matches!(stop, Stop::Host(_))) {
                for pair in all.windows(2) {
                    self.join(pair[0], pair[1]);
                }
            }
        }
    }

    /// Joins the stops that mirror each other on the paths there and back, from the ends inwards.
    fn join_mirrored(&mut self, walks: &[Walk]) {
        let whole: BTreeMap<(usize, usize), Vec<Stop>> = walks
            .iter()
            .filter(|walk| walk.reached && walk.stops.len() > 2)
            .map(|walk| ((walk.from, walk.to), walk.stops.iter().flatten().copied().collect()))
            .collect();
        let mut mirrored = Vec::new();
        for ((from, to), there) in whole.iter().filter(|((from, to), _)| from < to) {
            let Some(back) = whole.get(&(*to, *from)).filter(|back| back.len() == there.len()) else {
                continue;
            };
            let back: Vec<Stop> = back.iter().rev().copied().collect();
            mirrored.push((there.clone(), back));
        }
        // First where both neighbours are known to be the same, then where one is.
        for needed in [2, 1] {
            while mirrored.iter().fold(false, |joined, (there, back)| {
                (1..there.len() - 1).fold(joined, |joined, at| {
                    let same = |at: usize| usize::from(self.node(there[at]) == self.node(back[at]));
                    let open = same(at) == 0 && same(at - 1) + same(at + 1) >= needed;
                    joined | (open && self.join(there[at], back[at]))
                })
            }) {}
        }
        let mut unsure = BTreeSet::new();
        for (there, back) in &mirrored {
            let pairs = there.iter().zip(back).filter(|(one, other)| self.may_be_one(**one, **other));
            pairs.for_each(|(one, other)| unsure.extend([self.node(*one), self.node(*other)]));
        }
        self.unsure = unsure;
    }

    /// Whether two stops could be one node, though nothing says that they are.
    fn may_be_one(&self, one: Stop, other: Stop) -> bool {
        let is_host = [one, other].iter().any(|stop| matches!(stop, Stop::Host(_)));
        let (one, other) = (self.node(one), self.node(other));
        !is_host && one != other && !self.are_apart(one, other)
    }

    /// Makes two stops one node, unless they are hosts or cannot be one. Returns whether they have become one.
    fn join(&mut self, one: Stop, other: Stop) -> bool {
        if matches!(one, Stop::Host(_)) || matches!(other, Stop::Host(_)) {
            return false;
        }
        let (one, other) = (self.node(one), self.node(other));
        let pair = (one.min(other), one.max(other));
        if one == other || self.refused.contains(&pair) {
            return false;
        }
        if self.are_apart(one, other) {
            self.refused.insert(pair);
            return false;
        }
        self.parent[pair.1] = pair.0;
        true
    }

    /// Whether both answer behind one node, or one behind the other.
    fn are_apart(&self, one: usize, other: usize) -> bool {
        let before = |node: usize| -> BTreeSet<usize> {
            let to = self.behind.iter().filter(|(_, to)| self.root(*to) == node);
            to.map(|(from, _)| self.root(*from)).collect()
        };
        let (before_one, before_other) = (before(one), before(other));
        let adjacent = before_one.contains(&other) || before_other.contains(&one);
        let answers = |node: usize| self.answering.iter().any(|number| self.root(*number) == node);
        adjacent || (answers(one) && answers(other) && !before_one.is_disjoint(&before_other))
    }
}
