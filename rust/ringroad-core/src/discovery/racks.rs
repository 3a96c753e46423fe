//! Which hosts stand in one rack, from rates alone.
//!
//! In a matching every flow has the cables of its two hosts to itself. If it is slower than these, it shared something
//! on the way: its hosts are in different racks. If it is as fast as they are, while others that do share something are
//! slower than it, its hosts are probably in one. Racks are merged from such pairs, and what they are taken to be is
//! tested by flows that all stay inside, and by flows that all leave.

use std::collections::BTreeMap;

use super::draw::Draw;
use super::evidence::Evidence;
use super::matchings::{pairs, Flows};
use super::rates::{flows, Loads, FULL};
use super::rounding::median;

/// A flow below this part of what its hosts can do is slow.
const SLOW: f64 = 0.88;
/// Of the pairs of hosts of a rack, so many may have been slow by accident.
const ACCIDENTS: f64 = 0.05;
/// With so many times the rate of one flow, flows to several hosts have cables of their own.
const SEPARATE: f64 = 1.5;

/// What flows have told of hosts.
pub(super) struct Racks {
    /// The racks, each with its hosts in order; those that fit nowhere are alone.
    pub racks: Vec<Vec<usize>>,
    /// What each host has sent, and what it has received, over all rounds.
    pub cables: Vec<[Loads; 2]>,
    /// What has left each rack and entered it, and whether it was slow.
    pub uplinks: Vec<[(Loads, bool); 2]>,
    /// Whether any flow was slow.
    pub is_shared: bool,
}

type Rates = BTreeMap<(usize, usize), (f64, f64)>;

impl Racks {
    pub fn of(evidence: &Evidence) -> Racks {
        let hosts = evidence.hosts.len();
        let rounds: Vec<Rates> = evidence.rounds.iter().map(|round| flows(round, hosts)).collect();
        let ones: Vec<usize> = (0..hosts).collect();
        let cables: Vec<[Loads; 2]> = loads(&rounds, hosts, &ones, |_, _| true);
        let limits: Vec<[f64; 2]> = cables
            .iter()
            .map(|loads| loads.each_ref().map(|loads| loads.capacity().map_or(0.0, |(load, _)| load)))
            .collect();
        // For every round its flows, and how fast each is relative to its hosts.
        let relative = |rates: &Rates| -> Vec<((usize, usize), f64, f64)> {
            let alone = |(from, to): (usize, usize)| {
                rates.keys().filter(|pair| pair.0 == from).count() == 1
                    && rates.keys().filter(|pair| pair.1 == to).count() == 1
            };
            let matched = rates.iter().filter(|(pair, _)| alone(**pair));
            matched
                .map(|(pair, (rate, _))| (*pair, *rate, rate / limits[pair.0][0].min(limits[pair.1][1])))
                .collect()
        };
        let relative: Vec<_> = rounds.iter().map(relative).collect();
        let mut pairs: BTreeMap<(usize, usize), [usize; 2]> = BTreeMap::new();
        let mut is_slow = vec![BTreeMap::new(); rounds.len()];
        for (flows, is_slow) in relative.iter().zip(&mut is_slow) {
            let slow = median(flows.iter().filter(|flow| flow.2 < SLOW).map(|flow| flow.1));
            for (pair, rate, part) in flows {
                let counts = pairs.entry((pair.0.min(pair.1), pair.0.max(pair.1))).or_default();
                counts[1] += usize::from(*part < SLOW);
                counts[0] += usize::from(*part > FULL && slow.is_some_and(|slow| *rate > 1.1 * slow));
                is_slow.insert(*pair, *part < SLOW);
            }
        }
        let is_shared = is_slow.iter().flat_map(BTreeMap::values).any(|slow| *slow);
        let racks = merged(hosts, &pairs);
        let mut rack_of = vec![0; hosts];
        racks
            .iter()
            .enumerate()
            .for_each(|(rack, hosts)| hosts.iter().for_each(|host| rack_of[*host] = rack));
        let sums = loads(&rounds, racks.len(), &rack_of, |from, to| rack_of[from] != rack_of[to]);
        let slow = |rack: usize, way: usize| {
            let crosses = |pair: &(usize, usize)| {
                let (from, to) = (rack_of[pair.0], rack_of[pair.1]);
                from != to && [from, to][way] == rack
            };
            is_slow.iter().flatten().any(|(pair, slow)| *slow && crosses(pair))
        };
        let uplinks = sums.into_iter().enumerate();
        let uplinks =
            uplinks.map(|(rack, [out, into])| [(out, slow(rack, 0)), (into, slow(rack, 1))]).collect();
        Racks { racks, cables, uplinks, is_shared }
    }

    /// Two rounds that test the racks: one whose flows stay inside, and one whose flows leave.
    pub fn tests(&self, seed: usize) -> Vec<Flows> {
        let mut draw = Draw::new(seed as u64);
        let mut shuffled = |hosts: &[usize]| -> Vec<usize> {
            draw.permutation(hosts.len()).into_iter().map(|place| hosts[place]).collect()
        };
        let racks: Vec<Vec<usize>> = self.racks.iter().map(|hosts| shuffled(hosts)).collect();
        let inside = racks.iter().flat_map(|hosts| pairs(hosts)).collect();
        let order = shuffled(&(0..racks.len()).collect::<Vec<usize>>());
        let row: Vec<usize> = order.iter().flat_map(|rack| racks[*rack].iter().copied()).collect();
        let largest = racks.iter().map(Vec::len).max().unwrap_or(0);
        let rack_of = |host: &usize| racks.iter().position(|hosts| hosts.contains(host));
        let leaving = (0..row.len()).map(|at| (row[at], row[(at + largest) % row.len()]));
        let leaving = leaving.filter(|(from, to)| rack_of(from) != rack_of(to)).collect();
        [inside, leaving].into_iter().filter(|flows: &Flows| !flows.is_empty()).collect()
    }
}

/// What each group has sent to others and received from others in every round.
fn loads(
    rounds: &[Rates],
    groups: usize,
    group_of: &[usize],
    counts: impl Fn(usize, usize) -> bool,
) -> Vec<[Loads; 2]> {
    let mut loads = vec![[Loads::default(), Loads::default()]; groups];
    for rates in rounds {
        let mut sums = vec![[(0.0f64, 0.0f64); 2]; groups];
        for ((from, to), (rate, spread)) in rates.iter().filter(|((from, to), _)| counts(*from, *to)) {
            for (group, way) in [(group_of[*from], 0), (group_of[*to], 1)] {
                let sum = &mut sums[group][way];
                *sum = (sum.0 + rate, sum.1.max(*spread));
            }
        }
        for (loads, sums) in loads.iter_mut().zip(sums) {
            loads.iter_mut().zip(sums).for_each(|(loads, (load, spread))| loads.push(load, spread));
        }
    }
    loads
}

/// Merges the two racks whose pairs were fast most often, as long as there are such; `pairs` says how often each pair of
/// hosts was fast and how often it was slow.
fn merged(hosts: usize, pairs: &BTreeMap<(usize, usize), [usize; 2]>) -> Vec<Vec<usize>> {
    let mut racks: Vec<Vec<usize>> = (0..hosts).map(|host| vec![host]).collect();
    // The same counts between racks, which are merged as racks are.
    let mut counts = vec![vec![[0usize; 2]; hosts]; hosts];
    for ((one, other), [fast, slow]) in pairs {
        (counts[*one][*other], counts[*other][*one]) = ([*fast, *slow], [*fast, *slow]);
    }
    loop {
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for one in 0..racks.len() {
            for other in one + 1..racks.len() {
                let [fast, slow] = counts[one][other];
                let part = fast as f64 / (fast + slow).max(1) as f64;
                let fits = fast > 0 && part >= 1.0 - ACCIDENTS;
                if fits && best.is_none_or(|(score, count, ..)| (part, fast) > (score, count)) {
                    best = Some((part, fast, one, other));
                }
            }
        }
        let Some((_, _, one, other)) = best else { break };
        let moved = std::mem::take(&mut racks[other]);
        racks[one].extend(moved);
        for third in 0..racks.len() {
            let more = counts[other][third];
            for (one, other) in [(one, third), (third, one)] {
                let count = &mut counts[one][other];
                *count = [count[0] + more[0], count[1] + more[1]];
            }
        }
        for third in 0..racks.len() {
            (counts[other][third], counts[third][other]) = ([0; 2], [0; 2]);
        }
    }
    racks.retain(|hosts| !hosts.is_empty());
    racks.iter_mut().for_each(|hosts| hosts.sort_unstable());
    racks.sort();
    racks
}

/// Whether hosts have a cable to each of several others: together flows to them are faster than one alone.
pub(super) fn are_separate(evidence: &Evidence) -> bool {
    let hosts = evidence.hosts.len();
    let mut best = vec![[0.0f64; 2]; hosts];
    for round in &evidence.rounds {
        let mut sums = vec![(0.0, 0); hosts];
        for ((from, _), (rate, _)) in flows(round, hosts) {
            sums[from] = (sums[from].0 + rate, sums[from].1 + 1);
        }
        for (best, (sum, count)) in best.iter_mut().zip(sums) {
            let kind = usize::from(count > 1);
            best[kind] = best[kind].max(sum);
        }
    }
    let more = best.iter().filter(|[alone, all]| *alone > 0.0 && *all > 0.0).map(|[alone, all]| all / alone);
    median(more).is_some_and(|more| more >= SEPARATE)
}
