//! Which flows to run at the same time, so that their rates tell the capacities of links.
//!
//! All direct links are measured at once, each by a flow of its own. What lies behind routers is measured by matchings,
//! in which every host sends to at most one host and receives from at most one: a flow cannot be faster than the cables
//! of its two hosts, so a link that many flows cross fills up where it can.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::matchings::{alone, pairs, tournament, Flows};
use super::wiring::Wiring;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// The most rounds.
    pub rounds: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { rounds: 12 }
    }
}

/// To how many others every host sends at once in an opaque network.
const FAN: usize = 4;
/// From so many hosts on, not all shifts and edges are looked at.
const MANY: usize = 128;

/// The rounds to run, in this order.
pub fn experiments(wiring: &Wiring, effort: Effort) -> Vec<Flows> {
    if wiring.hosts < 2 || effort.rounds == 0 {
        return Vec::new();
    }
    if wiring.is_opaque() {
        return opaque(wiring.hosts, effort);
    }
    let direct = direct(wiring);
    let mut rounds = Vec::new();
    if !direct.is_empty() {
        rounds.push(direct.clone());
        rounds.extend(alone(wiring.hosts, &direct, &BTreeSet::new()).into_iter().take(1));
    }
    rounds.extend(local(wiring));
    let done: BTreeSet<usize> = direct.iter().filter_map(|(from, to)| wiring.edge(*from, *to)).collect();
    rounds.extend(covering(wiring, &done, effort.rounds.saturating_sub(rounds.len())));
    rounds.retain(|round| !round.is_empty());
    rounds.truncate(effort.rounds);
    rounds
}

/// The flows that take one link only.
pub(super) fn direct(wiring: &Wiring) -> Flows {
    let single = wiring.paths.iter().filter(|path| path.edges.len() == 1);
    single.map(|path| (path.from, path.to)).collect()
}

/// Every host to some others at once, which shows whether they share its cable; half of the hosts to the other half; and
/// matchings, all of them if they are few.
fn opaque(hosts: usize, effort: Effort) -> Vec<Flows> {
    let shift = |by: usize| (0..hosts).map(move |host| (host, (host + by) % hosts));
    let fan = FAN.min(hosts - 1);
    let mut rounds = vec![(1..=fan).flat_map(shift).collect(), shift(hosts / 2).collect()];
    let even = hosts + hosts % 2;
    if even - 1 <= effort.rounds.saturating_sub(2) {
        rounds.extend((0..even - 1).map(|round| tournament(hosts, even, round)));
    } else {
        let mut draw = Random::new(hosts as u64);
        while rounds.len() + 2 < effort.rounds {
            rounds.push(pairs(&draw.permutation(hosts)));
        }
    }
    rounds.truncate(effort.rounds);
    rounds
}

/// Hosts behind the same router to each other, in two ways: nothing but their own cables holds them back.
fn local(wiring: &Wiring) -> Vec<Flows> {
    let mut behind: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for path in &wiring.paths {
        if let [first, _] = path.edges[..] {
            behind.entry(wiring.edges[first].to).or_default().extend([path.from, path.to]);
        }
    }
    // Each host in one group only, and none behind another host.
    let mut taken = BTreeSet::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (_, hosts) in behind.range(wiring.hosts..) {
        let hosts: Vec<usize> = hosts.iter().copied().filter(|host| taken.insert(*host)).collect();
        groups.extend((hosts.len() > 1).then_some(hosts));
    }
    let turn = |by: usize| -> Flows {
        let wide = groups.iter().filter(|hosts| hosts.len() > by);
        let pairs = wide
            .flat_map(|hosts| (0..hosts.len()).map(move |at| (hosts[at], hosts[(at + by) % hosts.len()])));
        pairs.filter(|(from, to)| wiring.path(*from, *to).is_some()).collect()
    };
    [1, 2].map(turn).into()
}

/// Matchings that together bring as many flows as possible over every edge that is not `done`; the most useful first.
fn covering(wiring: &Wiring, done: &BTreeSet<usize>, most: usize) -> Vec<Flows> {
    let open: Vec<usize> = (0..wiring.edges.len()).filter(|edge| !done.contains(edge)).collect();
    let crossed: BTreeSet<usize> = wiring.paths.iter().flat_map(|path| path.edges.iter().copied()).collect();
    let open: Vec<usize> = open.into_iter().filter(|edge| crossed.contains(edge)).collect();
    if open.is_empty() {
        return Vec::new();
    }
    let mut candidates = shifts(wiring);
    let focus: Vec<Flows> = sample(&open).map(|edge| focus(wiring, edge)).collect();
    let mut target = vec![0; wiring.edges.len()];
    candidates.extend(focus);
    let loads: Vec<Vec<usize>> = candidates.iter().map(|flows| loads(wiring, flows)).collect();
    for edge in &open {
        target[*edge] = loads.iter().map(|loads| loads[*edge]).max().unwrap_or(0);
    }
    let mut best = vec![0; wiring.edges.len()];
    let mut rounds = Vec::new();
    while rounds.len() < most {
        let gain = |loads: &[usize]| -> f64 {
            let share =
                |edge: &usize| loads[*edge].saturating_sub(best[*edge]) as f64 / target[*edge].max(1) as f64;
            open.iter().map(share).sum()
        };
        let gains = loads.iter().map(|loads| gain(loads)).enumerate();
        let choice = gains.fold((0, 0.0), |kept, next| if next.1 > kept.1 { next } else { kept });
        if choice.1 <= 0.0 {
            break;
        }
        for edge in &open {
            best[*edge] = best[*edge].max(loads[choice.0][*edge]);
        }
        rounds.push(candidates[choice.0].clone());
    }
    rounds
}

/// All of them, or some where they are many.
fn sample(edges: &[usize]) -> impl Iterator<Item = usize> + '_ {
    edges.iter().copied().step_by(edges.len().div_ceil(MANY).max(1))
}

/// Every host to that so many places further on, for all distances, or for powers of two where hosts are many.
fn shifts(wiring: &Wiring) -> Vec<Flows> {
    let hosts = wiring.hosts;
    let by = (1..hosts).filter(|by| hosts <= MANY || by.is_power_of_two());
    let known = |(from, to): &(usize, usize)| wiring.path(*from, *to).is_some();
    by.map(|by| (0..hosts).map(|host| (host, (host + by) % hosts)).filter(known).collect()).collect()
}

/// A matching of flows over this edge, and of others where hosts are left.
fn focus(wiring: &Wiring, edge: usize) -> Flows {
    let (mut sends, mut receives) = (vec![false; wiring.hosts], vec![false; wiring.hosts]);
    let mut flows = Flows::new();
    for over in [true, false] {
        for path in wiring.paths.iter().filter(|path| path.edges.contains(&edge) == over) {
            if !sends[path.from] && !receives[path.to] {
                (sends[path.from], receives[path.to]) = (true, true);
                flows.push((path.from, path.to));
            }
        }
    }
    flows
}

/// How many flows cross each edge.
fn loads(wiring: &Wiring, flows: &[(usize, usize)]) -> Vec<usize> {
    let mut loads = vec![0; wiring.edges.len()];
    let paths = flows.iter().filter_map(|(from, to)| wiring.path(*from, *to));
    paths.flatten().for_each(|edge| loads[*edge] += 1);
    loads
}
