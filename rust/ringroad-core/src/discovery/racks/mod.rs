//! Which hosts stand in one rack, from rates alone.
//!
//! In a matching every flow has the cables of its two hosts to itself. If it is slower than these, it shared something
//! on the way: its hosts are in different racks. If it is as fast as they are, while others that do share something are
//! slower than it, its hosts are probably in one. Racks are merged from such pairs, and what they are taken to be is
//! tested by flows that all stay inside, and by flows that all leave.

mod merge;
mod model;

use std::collections::{BTreeMap, BTreeSet};

use merge::{merged, PairCounts};

use super::evidence::{Evidence, Round};
use super::matchings::{pairs, Flows};
use super::rates::{flows, Load, Loads, FULL};
use super::rounding::median;
use crate::random::Random;

/// A flow below this part of what its hosts can do is slow.
const SLOW: f64 = 0.88;
/// A flow whose acknowledgements wait in the queues of the flow back takes long to begin, and is at least this fast then.
const LATE: f64 = 0.45;
/// If no more flows than this are slow, they are by accident.
const RARE: f64 = 0.02;
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
    /// Whether flows were slow, and not by accident.
    pub is_shared: bool,
    /// The rounds in which no host has two flows in one direction, and what each host can send and receive.
    matched: Vec<Rates>,
    limits: Vec<[f64; 2]>,
}

type Rates = BTreeMap<(usize, usize), Load>;

impl Racks {
    pub fn from_evidence(evidence: &Evidence) -> Racks {
        let hosts = evidence.hosts.len();
        let rounds: Vec<Rates> = evidence.rounds.iter().map(|round| flows(round, hosts)).collect();
        let best = best(&rounds);
        let ones: Vec<usize> = (0..hosts).collect();
        let cables: Vec<[Loads; 2]> = loads(&best, hosts, &ones, |_, _| true);
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
                .map(|(pair, load)| (*pair, load.rate, load.rate / limits[pair.0][0].min(limits[pair.1][1])))
                .collect()
        };
        let relative: Vec<_> = rounds.iter().map(relative).collect();
        let mut pairs: BTreeMap<(usize, usize), PairCounts> = BTreeMap::new();
        let mut is_slow = vec![BTreeMap::new(); rounds.len()];
        for (flows, is_slow) in relative.iter().zip(&mut is_slow) {
            let slow = median(flows.iter().filter(|flow| flow.2 < SLOW).map(|flow| flow.1));
            let back: BTreeMap<(usize, usize), f64> =
                flows.iter().map(|(pair, _, part)| (*pair, *part)).collect();
            for (pair, rate, part) in flows {
                let counts = pairs.entry((pair.0.min(pair.1), pair.0.max(pair.1))).or_default();
                // Where the flow back was fast, this one may only have begun late.
                let is_late = *part > LATE && back.get(&(pair.1, pair.0)).is_some_and(|back| *back > FULL);
                match (*part < SLOW, *part > FULL, slow) {
                    (true, ..) => counts.slow += usize::from(!is_late),
                    (_, true, None) => counts.idle += 1,
                    (_, true, Some(slow)) if *rate > 1.1 * slow => counts.fast += 1,
                    _ => {}
                }
                is_slow.insert(*pair, *part < SLOW);
            }
        }
        let all = || is_slow.iter().flat_map(BTreeMap::values);
        let is_shared = all().filter(|slow| **slow).count() as f64 > RARE * all().count() as f64;
        let mut racks = merged(hosts, &pairs);
        // Where hosts have several flows, how these share their cables says more than where hosts stand.
        let matched: Vec<Rates> = rounds.iter().filter(|rates| is_matching(rates)).cloned().collect();
        if is_shared {
            model::improve(&mut racks, &matched, &limits);
        }
        racks.sort();
        let rack_of = rack_of(&racks, hosts);
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
        Racks { racks, cables, uplinks, is_shared, matched, limits }
    }

    /// A matching that tells where the hosts stand whose places are doubtful, if there is one.
    pub fn telling(&self, seed: usize) -> Option<Flows> {
        model::telling(&self.racks, &self.matched, &self.limits, seed)
    }

    /// The flows of a round that alone showed how much can leave a rack or enter it, if they have not been run again.
    pub fn unrepeated(&self, evidence: &Evidence) -> Option<Flows> {
        let flows =
            |round: &Round| -> Flows { round.flows.iter().map(|flow| (flow.from, flow.to)).collect() };
        let racks = self.racks.iter().zip(&self.uplinks).filter(|(hosts, _)| hosts.len() > 1);
        let rounds = racks.flat_map(|(_, ways)| ways).filter_map(|(loads, _)| loads.unrepeated());
        let is_first = |flows_here: &Flows| {
            evidence.rounds.iter().filter(|round| flows(round) == *flows_here).count() == 1
        };
        rounds.map(|round| flows(&evidence.rounds[round])).find(is_first)
    }

    /// Two rounds that test the racks. In one half of the hosts, those that seem slow first, send inside and half leave, and
    /// hosts that are alone are paired with some that may be in their rack; in the other all leave.
    pub fn tests(&self, seed: usize) -> Vec<Flows> {
        let mut draw = Random::new(seed as u64);
        let mut shuffled = |hosts: &[usize]| -> Vec<usize> {
            draw.permutation(hosts.len()).into_iter().map(|place| hosts[place]).collect()
        };
        let mut racks: Vec<Vec<usize>> = self.racks.iter().map(|hosts| shuffled(hosts)).collect();
        racks = shuffled(&(0..racks.len()).collect::<Vec<usize>>())
            .into_iter()
            .map(|at| racks[at].clone())
            .collect();
        let leaving = leaving(&racks);
        let (alone, mut rest): (Vec<_>, Vec<_>) = racks.into_iter().partition(|hosts| hosts.len() == 1);
        let mut mixed = Flows::new();
        let mut unpaired = Vec::new();
        for (at, host) in alone.into_iter().flatten().enumerate() {
            let count = rest.len().max(1);
            let other =
                rest.get_mut((seed / 2 + at) % count).filter(|hosts| hosts.len() > 1).and_then(Vec::pop);
            other.map_or_else(|| unpaired.push(host), |other| mixed.extend([(host, other), (other, host)]));
        }
        for hosts in &mut rest {
            hosts.sort_by_key(|host| !self.is_doubtful(*host));
            let outside = hosts.split_off(hosts.len() / 4 * 2);
            mixed.extend(pairs(hosts));
            *hosts = outside;
        }
        rest.extend(unpaired.into_iter().map(|host| vec![host]));
        mixed.extend(self::leaving(&rest));
        [mixed, leaving].into_iter().filter(|flows: &Flows| !flows.is_empty()).collect()
    }

    /// Whether a host seems slower than others, perhaps because no flow of it has had the way to itself.
    fn is_doubtful(&self, host: usize) -> bool {
        let usual = median(self.cables.iter().map(|[out, _]| out.highest()));
        usual.is_some_and(|usual| self.cables[host].iter().any(|loads| loads.highest() < SLOW * usual))
    }

    /// Whether some hosts are in no rack though others are, or all are in one, which explains nothing.
    pub fn has_open(&self) -> bool {
        let alone = self.racks.iter().filter(|hosts| hosts.len() == 1).count();
        (alone > 0 && alone < self.racks.len()) || self.racks.len() == 1
    }
}

/// The number of every host's rack.
fn rack_of(racks: &[Vec<usize>], hosts: usize) -> Vec<usize> {
    let mut rack_of = vec![0; hosts];
    let all = racks.iter().enumerate();
    all.for_each(|(rack, members)| members.iter().for_each(|host| rack_of[*host] = rack));
    rack_of
}

/// Whether no host has two flows in one direction.
fn is_matching(rates: &Rates) -> bool {
    let senders: BTreeSet<usize> = rates.keys().map(|pair| pair.0).collect();
    let receivers: BTreeSet<usize> = rates.keys().map(|pair| pair.1).collect();
    senders.len() == rates.len() && receivers.len() == rates.len()
}

/// The rates of the fastest part of flows that have both of their hosts to themselves. Such a part fills no more than a
/// cable, however little was left for the rest.
fn best(rounds: &[Rates]) -> Vec<Rates> {
    let best = |rates: &Rates| -> Rates {
        let count =
            |host: usize, way: usize| rates.keys().filter(|pair| [pair.0, pair.1][way] == host).count();
        let fastest = |(&(from, to), load): (&(usize, usize), &Load)| {
            let is_alone = count(from, 0) == 1 && count(to, 1) == 1 && load.spread < 1.0;
            let rate = if is_alone { load.rate / (1.0 - load.spread) } else { load.rate };
            ((from, to), Load { rate, ..*load })
        };
        rates.iter().map(fastest).collect()
    };
    rounds.iter().map(best).collect()
}

/// A flow from every host, and to every host, that leaves its rack; none for those that have no partner.
fn leaving(racks: &[Vec<usize>]) -> Flows {
    let all = racks.iter().enumerate();
    let mut order: Vec<(usize, usize)> =
        all.flat_map(|(rack, hosts)| hosts.iter().map(move |host| (rack, *host))).collect();
    order.sort_by_key(|(rack, _)| (std::cmp::Reverse(racks[*rack].len()), *rack));
    let largest = racks.iter().map(Vec::len).max().unwrap_or(0);
    let flows = order.iter().enumerate().map(|(at, from)| (*from, order[(at + largest) % order.len()]));
    flows.filter(|(from, to)| from.0 != to.0).map(|(from, to)| (from.1, to.1)).collect()
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
        let mut sums = vec![[Load::default(); 2]; groups];
        for ((from, to), load) in rates.iter().filter(|((from, to), _)| counts(*from, *to)) {
            sums[group_of[*from]][0].add(*load);
            sums[group_of[*to]][1].add(*load);
        }
        for (loads, sums) in loads.iter_mut().zip(sums) {
            loads.iter_mut().zip(sums).for_each(|(loads, load)| loads.push(load));
        }
    }
    loads
}

/// Whether hosts have a cable to each of several others: together flows to them are faster than one alone, also than one of
/// those hosts whose single flows shared nothing.
pub(super) fn are_separate(evidence: &Evidence) -> bool {
    let hosts = evidence.hosts.len();
    let rounds: Vec<Rates> = evidence.rounds.iter().map(|round| flows(round, hosts)).collect();
    let (mut alone, mut together) = (vec![0.0f64; hosts], vec![0.0f64; hosts]);
    for rates in best(&rounds) {
        let mut sums = vec![(0.0, 0); hosts];
        for ((from, _), load) in rates {
            sums[from] = (sums[from].0 + load.rate, sums[from].1 + 1);
        }
        for (host, (sum, count)) in sums.into_iter().enumerate() {
            let kept = if count > 1 { &mut together[host] } else { &mut alone[host] };
            *kept = sum.max(*kept);
        }
    }
    let (Some(all), Some(usual)) = (median(together.into_iter().filter(|sum| *sum > 0.0)), upper(alone))
    else {
        return false;
    };
    all >= SEPARATE * usual
}

/// What a quarter of these exceed, without those that are zero.
fn upper(values: Vec<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * 3).div_ceil(4).checked_sub(1)?).copied()
}
