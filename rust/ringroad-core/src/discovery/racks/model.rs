//! How well racks explain the rates that were measured.
//!
//! The rates of flows that share hosts' cables and racks' uplinks are max-min fair: all rise together until something is
//! full. An uplink is taken to carry the most that has crossed it. Hosts move between racks while that brings the rates
//! nearer to those that were measured.

use std::collections::{BTreeMap, BTreeSet};

use super::Rates;

/// Sums of rates, by rack and direction.
type Crossing = [Vec<f64>; 2];

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

/// Moves hosts between racks, and merges racks, as long as that explains the rates better.
pub(super) fn improve(racks: &mut Vec<Vec<usize>>, rounds: &[Rates], limits: &[[f64; 2]]) {
    let hosts = limits.len();
    if hosts >= MANY {
        return;
    }
    let mut rack_of = vec![0; hosts];
    racks
        .iter()
        .enumerate()
        .for_each(|(rack, members)| members.iter().for_each(|host| rack_of[*host] = rack));
    let model = Model { rounds, limits };
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
                let mut next = rack_of.clone();
                next[host] = rack;
                try_racks(&mut rack_of, next, &mut errors, GAIN);
            }
        }
        // Fewer racks are the better explanation, if they are as good a one.
        for one in numbers(&rack_of) {
            for other in numbers(&rack_of).into_iter().filter(|other| *other > one) {
                let size = |wanted| rack_of.iter().filter(|rack| **rack == wanted).count();
                let is_free = size(one).min(size(other)) > 1 && numbers(&rack_of).len() > 2;
                let gain = if is_free { -1e-9 } else { GAIN };
                let next = rack_of.iter().map(|rack| if *rack == other { one } else { *rack }).collect();
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

/// The numbers of racks, each once.
fn numbers(rack_of: &[usize]) -> BTreeSet<usize> {
    rack_of.iter().copied().collect()
}

struct Model<'a> {
    rounds: &'a [Rates],
    limits: &'a [[f64; 2]],
}

impl Model<'_> {
    /// By how much rates are off that racks lead to expect, relative to what their hosts can do: half for each host.
    fn errors(&self, rack_of: &[usize]) -> Vec<f64> {
        let mut most: Crossing = [vec![0.0; rack_of.len()], vec![0.0; rack_of.len()]];
        for rates in self.rounds {
            let mut sums: Crossing = [vec![0.0; rack_of.len()], vec![0.0; rack_of.len()]];
            for ((from, to), (rate, _)) in
                rates.iter().filter(|((from, to), _)| rack_of[*from] != rack_of[*to])
            {
                sums[0][rack_of[*from]] += rate;
                sums[1][rack_of[*to]] += rate;
            }
            for (most, sums) in most.iter_mut().zip(sums) {
                most.iter_mut().zip(sums).for_each(|(most, sum)| *most = sum.max(*most));
            }
        }
        let mut errors = vec![0.0; rack_of.len()];
        for rates in self.rounds {
            let expected = self.rates(rates, rack_of, &most);
            for (((from, to), (rate, _)), expected) in rates.iter().zip(expected) {
                let limit = self.limits[*from][0].min(self.limits[*to][1]);
                // Disturbances make flows slower, and nothing makes them faster.
                let weight = if *rate < expected { DISTURBED } else { 1.0 };
                let off = (weight * (expected - rate).abs() / limit).min(1.0);
                let off = if off < OFF / 2.0 { 0.0 } else { off };
                errors[*from] += off / 2.0;
                errors[*to] += off / 2.0;
            }
        }
        errors
    }

    /// The fair rates of these flows.
    fn rates(&self, rates: &Rates, rack_of: &[usize], uplinks: &Crossing) -> Vec<f64> {
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
