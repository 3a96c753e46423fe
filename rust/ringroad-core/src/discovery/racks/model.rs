//! How well racks explain the rates that were measured.
//!
//! The rates of flows that share hosts' cables and racks' uplinks are max-min fair: all rise together until something is
//! full. An uplink is taken to carry the most that has crossed it. Hosts move between racks while that brings the rates
//! nearer to those that were measured.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

use super::super::matchings::{pairs, Flows};
use super::{rack_of, Load, Rates};

/// Sums of rates, by rack and direction.
type RackTraffic = [Vec<f64>; 2];

/// From so many hosts on, racks stay as they were merged.
const MANY: usize = 100;
/// How often every host may move.
const ITERATIONS: usize = 6;
/// How much nearer, in flows that are wholly wrong, a move must bring the rates.
const GAIN: f64 = 0.1;
/// What is full to this factor is full at the same time.
const TOGETHER: f64 = 1.02;
/// How much it counts that a flow is slower than expected.
const DISTURBED: f64 = 0.5;
/// A rate that is off by more, relative to what its hosts can do, wants to be explained.
const OFF: f64 = 0.1;

/// Of this many matchings, the one that tells the most is run.
const CANDIDATES: usize = 60;
/// If a host in another rack would make the rates wrong by no more than this, its place is doubtful.
const DOUBTFUL: f64 = 0.8;

/// The matching that tells best where the hosts stand whose places are the most doubtful; `None` if all are certain.
pub(super) fn telling(
    racks: &[Vec<usize>],
    rounds: &[Rates],
    limits: &[[f64; 2]],
    seed: usize,
) -> Option<Flows> {
    let hosts = limits.len();
    if hosts >= MANY {
        return None;
    }
    let rack_of = rack_of(racks, hosts);
    let model = RackModel { rounds, limits };
    let now = model.error(&rack_of);
    let mut doubts: Vec<(f64, Vec<usize>)> = Vec::new();
    for host in 0..hosts {
        for rack in numbers(&rack_of).into_iter().filter(|rack| *rack != rack_of[host]) {
            let next = moved(&rack_of, host, rack);
            doubts.push((model.error(&next) - now, next));
        }
    }
    doubts.retain(|(more, _)| *more < DOUBTFUL);
    doubts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (here, others) = (model.crossing(&rack_of), doubts.iter().take(hosts));
    let others: Vec<_> = others.map(|(_, next)| (next, model.crossing(next))).collect();
    let mut draw = Random::new(seed as u64);
    let difference = |flows: &Flows| -> f64 {
        let rates: Rates = flows.iter().map(|pair| (*pair, Load::default())).collect();
        let expected = model.rates(&rates, &rack_of, &here);
        let off = |(next, crossing): &(&Vec<usize>, RackTraffic)| {
            let other = model.rates(&rates, next, crossing);
            let parts = rates.keys().zip(expected.iter().zip(other));
            parts
                .map(|((from, to), (one, other))| (one - other).abs() / limits[*from][0].min(limits[*to][1]))
                .sum::<f64>()
        };
        others.iter().map(off).sum()
    };
    let candidates = (0..CANDIDATES).map(|_| pairs(&draw.permutation(hosts)));
    let best =
        candidates.map(|flows| (difference(&flows), flows)).max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(difference, _)| *difference > OFF).map(|(_, flows)| flows)
}

/// Moves hosts between racks, and merges racks, as long as that explains the rates better.
pub(super) fn improve(racks: &mut Vec<Vec<usize>>, rounds: &[Rates], limits: &[[f64; 2]]) {
    let hosts = limits.len();
    if hosts >= MANY {
        return;
    }
    let mut rack_of = rack_of(racks, hosts);
    let model = RackModel { rounds, limits };
    let mut errors = model.errors(&rack_of);
    // Takes the racks if they explain more.
    let try_racks = |racks: &mut Vec<usize>, next: Vec<usize>, errors: &mut Vec<f64>, gain: f64| {
        let new = model.errors(&next);
        if new.iter().sum::<f64>() < errors.iter().sum::<f64>() - gain {
            (*racks, *errors) = (next, new);
        }
    };
    for _ in 0..ITERATIONS {
        let before: f64 = errors.iter().sum();
        for host in 0..hosts {
            let is_alone = rack_of.iter().filter(|rack| **rack == rack_of[host]).count() == 1;
            if !is_alone && errors[host] < OFF {
                continue;
            }
            // A number that nobody has is a rack of one's own.
            let free = (0..hosts).find(|rack| !rack_of.contains(rack));
            for rack in numbers(&rack_of).into_iter().chain(free) {
                let next = moved(&rack_of, host, rack);
                try_racks(&mut rack_of, next, &mut errors, GAIN);
            }
        }
        // Fewer racks are the better explanation, if they are as good a one.
        for one in numbers(&rack_of) {
            for other in numbers(&rack_of).into_iter().filter(|other| *other > one) {
                let size = |wanted| rack_of.iter().filter(|rack| **rack == wanted).count();
                let next: Vec<usize> =
                    rack_of.iter().map(|rack| if *rack == other { one } else { *rack }).collect();
                // A host that is alone fits into one rack only.
                let fits = |host: usize| {
                    let most = model.error(&next) + DOUBTFUL;
                    let mut elsewhere =
                        numbers(&rack_of).into_iter().filter(|rack| ![one, other].contains(rack));
                    elsewhere.all(|rack| model.error(&moved(&rack_of, host, rack)) > most)
                };
                let alone = [one, other].into_iter().filter(|rack| size(*rack) == 1);
                let mut alone = alone.map(|rack| (0..hosts).find(|host| rack_of[*host] == rack));
                let is_free = numbers(&rack_of).len() > 2 && alone.all(|host| host.is_some_and(fits));
                let gain = match size(one).min(size(other)) {
                    1 if is_free => -DOUBTFUL / 2.0,
                    _ if is_free => -1e-9,
                    _ => GAIN,
                };
                try_racks(&mut rack_of, next, &mut errors, gain);
            }
        }
        if errors.iter().sum::<f64>() >= before - GAIN {
            break;
        }
    }
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    rack_of.iter().enumerate().for_each(|(host, rack)| found.entry(*rack).or_default().push(host));
    *racks = found.into_values().collect();
}

/// The racks with this host in another one.
fn moved(rack_of: &[usize], host: usize, rack: usize) -> Vec<usize> {
    let mut next = rack_of.to_vec();
    next[host] = rack;
    next
}

/// The numbers of racks, each once.
fn numbers(rack_of: &[usize]) -> BTreeSet<usize> {
    rack_of.iter().copied().collect()
}

struct RackModel<'a> {
    rounds: &'a [Rates],
    limits: &'a [[f64; 2]],
}

impl RackModel<'_> {
    /// The most that has left each rack, and entered it.
    fn crossing(&self, rack_of: &[usize]) -> RackTraffic {
        let mut most: RackTraffic = [vec![0.0; rack_of.len()], vec![0.0; rack_of.len()]];
        for rates in self.rounds {
            let mut sums: RackTraffic = [vec![0.0; rack_of.len()], vec![0.0; rack_of.len()]];
            for ((from, to), load) in rates.iter().filter(|((from, to), _)| rack_of[*from] != rack_of[*to]) {
                sums[0][rack_of[*from]] += load.rate;
                sums[1][rack_of[*to]] += load.rate;
            }
            for (most, sums) in most.iter_mut().zip(sums) {
                most.iter_mut().zip(sums).for_each(|(most, sum)| *most = sum.max(*most));
            }
        }
        most
    }

    fn error(&self, rack_of: &[usize]) -> f64 {
        self.errors(rack_of).iter().sum()
    }

    /// By how much rates are off that racks lead to expect, relative to what their hosts can do: half for each host.
    fn errors(&self, rack_of: &[usize]) -> Vec<f64> {
        let most = self.crossing(rack_of);
        let mut errors = vec![0.0; rack_of.len()];
        for rates in self.rounds {
            let expected = self.rates(rates, rack_of, &most);
            for (((from, to), load), expected) in rates.iter().zip(expected) {
                let limit = self.limits[*from][0].min(self.limits[*to][1]);
                // Disturbances make flows slower, and nothing makes them faster.
                let weight = if load.rate < expected { DISTURBED } else { 1.0 };
                let off = (weight * (expected - load.rate).abs() / limit).min(1.0);
                let off = if off < OFF / 2.0 { 0.0 } else { off };
                errors[*from] += off / 2.0;
                errors[*to] += off / 2.0;
            }
        }
        errors
    }

    /// The fair rates of these flows.
    fn rates(&self, rates: &Rates, rack_of: &[usize], uplinks: &RackTraffic) -> Vec<f64> {
        let hosts = rack_of.len();
        // Hosts out, hosts in, racks out, racks in.
        let mut left: Vec<f64> = self.limits.iter().map(|limit| limit[0]).collect();
        left.extend(self.limits.iter().map(|limit| limit[1]));
        left.extend(uplinks.iter().flatten());
        let uses = |(from, to): (usize, usize)| {
            let crosses = rack_of[from] != rack_of[to];
            let count = if crosses { 4 } else { 2 };
            ([from, hosts + to, 2 * hosts + rack_of[from], 3 * hosts + rack_of[to]], count)
        };
        let flows: Vec<([usize; 4], usize)> = rates.keys().map(|pair| uses(*pair)).collect();
        let mut count = vec![0usize; left.len()];
        flows.iter().for_each(|(used, number)| used[..*number].iter().for_each(|at| count[*at] += 1));
        let mut found = vec![None; flows.len()];
        for _ in 0..flows.len() {
            let levels = left.iter().zip(&count).filter(|(_, count)| **count > 0);
            let Some(level) = levels.map(|(left, count)| left / *count as f64).reduce(f64::min) else {
                break;
            };
            let full: Vec<bool> = left
                .iter()
                .zip(&count)
                .map(|(left, count)| *count > 0 && left / *count as f64 <= TOGETHER * level)
                .collect();
            for ((used, number), found) in flows.iter().zip(&mut found) {
                let used = &used[..*number];
                if found.is_none() && used.iter().any(|at| full[*at]) {
                    *found = Some(level);
                    used.iter().for_each(|at| {
                        (left[*at], count[*at]) = ((left[*at] - level).max(0.0), count[*at] - 1)
                    });
                }
            }
        }
        found.into_iter().map(|rate| rate.unwrap_or(0.0)).collect()
    }
}
