//! How a network has changed since it was found out or named, as far as present traces and flows show it.
//!
//! A cable over which no route leads any more counts as gone. Of a flow that is slower than it was to be, some link on its
//! way is slow: one that no flow proves to be as fast as it was. What is as fast as before, within what measurements are
//! worth, is left as it was, so that a network that recovers is again the one that it was.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::discovery::{Round, TracedRoute};
use crate::topology::{Link, Routes, Topology, TopologyError};
use crate::units::{LinkId, NodeId, Rank};

/// A link that carries between so much and so much of what it did counts as unchanged.
const UNCHANGED: std::ops::Range<f64> = 0.67..1.5;
/// A link that carried so much of what it can is as fast as it was.
const PROVEN: f64 = 0.8;
/// A flow of which one try was so much slower than another is not steady.
const STEADY: f64 = 0.8;
/// Factors that differ by less are made the same, so that what is alike stays alike.
const ALIKE: f64 = 1.15;

/// How a network differs from what it was at first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Cables over which no route leads any more, by their ends, the lower one first.
    pub gone: Vec<(NodeId, NodeId)>,
    /// From which node to which: how many times as much as at first all links between them carry.
    pub factors: Vec<(NodeId, NodeId, f64)>,
}

/// What was seen of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// How it differs from what it was at first.
    pub changes: Changes,
    /// Whether flows were slow, but not in the same way each time, so that more may have changed.
    pub is_doubtful: bool,
}

/// A link between two nodes that differs between two states of a network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The node where it starts.
    pub source: NodeId,
    /// The node where it ends.
    pub target: NodeId,
    /// The bytes per second of all links between them before; 0 if there was none.
    pub before: f64,
    /// The same now.
    pub now: f64,
}

/// A network as it was at first, and who measures it.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// The bandwidth that links of capacity 1 have, if not their own.
    pub bandwidth: Option<f64>,
    /// The rank of each host that asks, sends and receives.
    pub leaders: &'a [Rank],
}

/// The links of a flow's way, with the part of it on each, and the flow.
type Crossing = (Vec<(LinkId, f64)>, Tried);

impl Base<'_> {
    fn rate(&self, link: LinkId) -> f64 {
        let link = &self.topology.links()[link];
        self.bandwidth.map_or(link.bytes_per_second(), |bandwidth| bandwidth * link.capacity)
    }

    /// Whether a link joins hosts: within a host nothing is measured.
    fn is_cable(&self, link: LinkId) -> bool {
        let (hosts, ranks) = (self.topology.hosts_of_ranks(), self.topology.ranks());
        let Some(link) = self.topology.links().get(link) else { return false };
        let shared =
            |node: NodeId| node < ranks && hosts.iter().filter(|host| **host == hosts[node]).count() > 1;
        !shared(link.source) && !shared(link.target)
    }

    /// The flows that show how fast the links are, in rounds of flows that run at the same time. Of networks without
    /// switches, over each link at once; otherwise between hosts at several distances.
    pub fn probes(&self) -> Vec<Vec<(usize, usize)>> {
        let hosts = self.leaders.len();
        let host = |node: NodeId| self.leaders.iter().position(|leader| *leader == node);
        let links = self.topology.links().iter();
        let direct: BTreeSet<(usize, usize)> =
            links.filter_map(|link| host(link.source).zip(host(link.target))).collect();
        let switched = (0..self.topology.links().len()).any(|id| {
            let link = &self.topology.links()[id];
            self.is_cable(id) && (host(link.source).is_none() || host(link.target).is_none())
        });
        if !switched {
            return vec![direct.into_iter().collect()];
        }
        let mut distances: Vec<usize> = vec![1, hosts / 2, hosts - 1];
        distances.retain(|distance| (1..hosts).contains(distance));
        distances.dedup();
        let round = |distance: usize| (0..hosts).map(move |host| (host, (host + distance) % hosts)).collect();
        distances.into_iter().map(round).collect()
    }

    /// What has changed, given what was known before, the present routes, and how fast flows are: the rounds of
    /// [`Base::probes`], once or several times.
    pub fn observe(&self, before: &Changes, traces: &[TracedRoute], rounds: &[Round]) -> Observation {
        let gone = self.gone(before, traces);
        let Ok(left) = without(self.topology, &gone) else {
            return Observation { changes: before.clone(), is_doubtful: false };
        };
        let rounds = Tried::from_rounds(rounds, self.probes().len());
        let (factors, is_doubtful) = Measuring::new(self, &left).factors(before, &rounds);
        Observation { changes: Changes { factors, gone }, is_doubtful }
    }

    /// Of two hosts that a cable joins, one traces a way to the other. If that has one hop, the cable is there.
    fn gone(&self, before: &Changes, traces: &[TracedRoute]) -> Vec<(NodeId, NodeId)> {
        let mut gone: BTreeSet<(NodeId, NodeId)> = before.gone.iter().copied().collect();
        let joined: BTreeSet<(NodeId, NodeId)> =
            self.topology.links().iter().map(|link| (link.source, link.target)).collect();
        for trace in traces.iter().filter(|trace| trace.reached && !trace.hops.is_empty()) {
            let (Some(from), Some(to)) = (self.leaders.get(trace.from), self.leaders.get(trace.to)) else {
                continue;
            };
            if joined.contains(&(*from, *to)) || joined.contains(&(*to, *from)) {
                let pair = (*from.min(to), *from.max(to));
                match trace.hops.len() {
                    1 => gone.remove(&pair),
                    _ => gone.insert(pair),
                };
            }
        }
        gone.into_iter().collect()
    }
}

fn without(topology: &Topology, gone: &[(NodeId, NodeId)]) -> Result<Topology, TopologyError> {
    let joined = |pair: &&(NodeId, NodeId)| {
        let ends = |link: &Link| (link.source, link.target);
        topology.links().iter().any(|link| ends(link) == **pair || ends(link) == (pair.1, pair.0))
    };
    topology.without_links(&gone.iter().filter(joined).copied().collect::<Vec<_>>())
}

/// A flow that was tried several times.
#[derive(Debug, Clone, Copy)]
struct Tried {
    from: usize,
    to: usize,
    /// The most bytes per second.
    fastest: f64,
    /// Whether it was tried more than once, and about as fast each time. A host that has no time to send or to receive
    /// makes flows slow, too, but not twice in the same way.
    is_steady: bool,
}

impl Tried {
    /// The flows of each of so many rounds, which follow each other again and again.
    fn from_rounds(rounds: &[Round], count: usize) -> Vec<Vec<Tried>> {
        let tries = |first: usize| {
            let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
            for flow in rounds.iter().skip(first).step_by(count.max(1)).flat_map(|round| &round.flows) {
                rates.entry((flow.from, flow.to)).or_default().push(flow.bytes_per_second);
            }
            let tried = |((from, to), rates): ((usize, usize), Vec<f64>)| {
                let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
                let fastest = rates.iter().copied().fold(0.0, f64::max);
                Tried { from, to, fastest, is_steady: rates.len() > 1 && least >= STEADY * fastest }
            };
            rates.into_iter().map(tried).collect()
        };
        (0..count).map(tries).collect()
    }
}

/// Flows over the links that are left.
struct Measuring<'a> {
    base: &'a Base<'a>,
    left: &'a Topology,
    /// What each link carries, as far as is known.
    rates: Vec<f64>,
    /// The most that was seen on each link at a time.
    seen: Vec<f64>,
}

impl<'a> Measuring<'a> {
    fn new(base: &'a Base<'a>, left: &'a Topology) -> Measuring<'a> {
        let rate = |link: &Link| {
            base.bandwidth.map_or(link.bytes_per_second(), |bandwidth| bandwidth * link.capacity)
        };
        let rates = left.links().iter().map(rate).collect();
        Measuring { base, left, rates, seen: vec![0.0; left.links().len()] }
    }

    fn factors(mut self, before: &Changes, rounds: &[Vec<Tried>]) -> (Vec<(NodeId, NodeId, f64)>, bool) {
        let paths = self.paths(rounds);
        for flows in &paths {
            let mut carried = vec![0.0; self.seen.len()];
            for (way, flow) in flows {
                way.iter().for_each(|(link, share)| carried[*link] += flow.fastest * share);
            }
            self.seen.iter_mut().zip(carried).for_each(|(seen, carried)| *seen = carried.max(*seen));
        }
        let (mut blamed, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for flows in &paths {
            let expected = fair(&self.rates, flows);
            for ((way, flow), expected) in flows.iter().zip(expected) {
                let ratio = flow.fastest / expected;
                if ratio < UNCHANGED.start {
                    let into = if flow.is_steady { &mut blamed } else { &mut doubtful };
                    into.extend(self.suspects(way));
                } else if ratio >= UNCHANGED.end {
                    let full = |link: &LinkId| self.seen[*link] >= UNCHANGED.end * self.rates[*link];
                    blamed.extend(way.iter().map(|(link, _)| *link).filter(full));
                }
            }
        }
        // Cables mostly become slow in both directions.
        let ends = |link: LinkId| (self.left.links()[link].source, self.left.links()[link].target);
        let reversed: BTreeSet<_> = blamed.iter().map(|link| ends(*link)).map(|(a, b)| (b, a)).collect();
        blamed.extend(doubtful.iter().copied().filter(|link| reversed.contains(&ends(*link))));
        let measured = |link: LinkId| (link, self.seen[link] / self.rates[link]);
        let outside = |(_, factor): &(LinkId, f64)| *factor > 0.0 && !UNCHANGED.contains(factor);
        let doubtful: Vec<(NodeId, NodeId)> = doubtful.difference(&blamed).map(|link| ends(*link)).collect();
        let known = before.factors.iter().filter(|(a, b, _)| doubtful.contains(&(*a, *b))).copied();
        let known: Vec<(NodeId, NodeId, f64)> = known.collect();
        let mut factors = self.rounded(blamed.into_iter().map(measured).filter(outside).collect());
        factors.extend(known);
        factors.sort_by_key(|(source, target, _)| (*source, *target));
        factors.dedup_by_key(|(source, target, _)| (*source, *target));
        (factors, !doubtful.is_empty())
    }

    /// For each round, the flows with the links of their paths.
    fn paths(&self, rounds: &[Vec<Tried>]) -> Vec<Vec<Crossing>> {
        let mut routes = Routes::new(self.left);
        let mut way = |flow: &Tried| {
            let (from, to) = (*self.base.leaders.get(flow.from)?, *self.base.leaders.get(flow.to)?);
            let route = routes.route(from, to).ok()?;
            (flow.fastest > 0.0 && !route.shares.is_empty()).then(|| (route.shares.clone(), *flow))
        };
        rounds.iter().map(|round| round.iter().filter_map(&mut way).collect()).collect()
    }

    /// The links on a slow flow's way that may be the reason: those that no flow shows to be fast, or else the least fast.
    fn suspects(&self, way: &[(LinkId, f64)]) -> Vec<LinkId> {
        let share = |link: LinkId| self.seen[link] / self.rates[link];
        let cables: Vec<LinkId> =
            way.iter().map(|(link, _)| *link).filter(|link| self.is_cable(*link)).collect();
        let slow: Vec<LinkId> = cables.iter().copied().filter(|link| share(*link) < PROVEN).collect();
        // Links of the same way that are equally fast cannot be told apart: the widest are not the reason.
        let narrow = slow.iter().map(|link| self.rates[*link]).fold(f64::INFINITY, f64::min);
        slow.into_iter().filter(|link| self.rates[*link] <= narrow * ALIKE).collect()
    }

    fn is_cable(&self, link: LinkId) -> bool {
        let link = &self.left.links()[link];
        let same = |other: &Link| (other.source, other.target) == (link.source, link.target);
        self.base.topology.links().iter().position(same).is_some_and(|id| self.base.is_cable(id))
    }

    /// Both directions of a cable, and factors that hardly differ, get the same factor.
    fn rounded(&self, mut found: Vec<(LinkId, f64)>) -> Vec<(NodeId, NodeId, f64)> {
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut factors = Vec::new();
        for group in found.chunk_by(|a, b| b.1 < a.1 * ALIKE) {
            let mean = group.iter().map(|(_, factor)| factor.ln()).sum::<f64>() / group.len() as f64;
            factors.extend(group.iter().map(|(link, _)| {
                let link = &self.left.links()[*link];
                (link.source, link.target, mean.exp())
            }));
        }
        factors
    }
}

/// The rates of flows that share links fairly.
fn fair(rates: &[f64], flows: &[Crossing]) -> Vec<f64> {
    let (mut left, mut found) = (rates.to_vec(), vec![f64::NAN; flows.len()]);
    loop {
        let mut weight = vec![0.0; rates.len()];
        let open = || (0..flows.len()).filter(|flow| found[*flow].is_nan());
        open().for_each(|flow| flows[flow].0.iter().for_each(|(link, share)| weight[*link] += share));
        let level = |link: LinkId| left[link].max(0.0) / weight[link];
        let full = (0..rates.len()).filter(|link| weight[*link] > 1e-9);
        let Some(full) = full.min_by(|a, b| level(*a).total_cmp(&level(*b))) else { return found };
        let rate = level(full);
        let on = |flow: &usize| flows[*flow].0.iter().any(|(link, _)| *link == full);
        let settled: Vec<usize> = open().filter(on).collect();
        for flow in settled {
            found[flow] = rate;
            flows[flow].0.iter().for_each(|(link, share)| left[*link] -= share * rate);
        }
    }
}

impl Changes {
    /// Whether the network is as it was at first.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.factors.is_empty()
    }

    /// Whether two states are the same, within what measurements are worth.
    pub fn is_like(&self, other: &Changes) -> bool {
        let factor = |changes: &Changes, ends: (NodeId, NodeId)| {
            changes.factors.iter().find(|(a, b, _)| (*a, *b) == ends).map_or(1.0, |(_, _, factor)| *factor)
        };
        let ends = self.factors.iter().chain(&other.factors).map(|(a, b, _)| (*a, *b));
        let like = |ends| UNCHANGED.contains(&(factor(self, ends) / factor(other, ends)));
        self.gone == other.gone && ends.into_iter().all(like)
    }

    /// The network as it is now. Where ranks are wired to each other, it becomes a graph, for which schedules can be made.
    pub fn apply(&self, base: &Topology) -> Result<Topology, TopologyError> {
        let left = without(base, &self.gone)?;
        let changed = left.map_links(|_, link| {
            let ends = |(source, target, _): &&(NodeId, NodeId, f64)| {
                (*source, *target) == (link.source, link.target)
            };
            if let Some((_, _, factor)) = self.factors.iter().find(ends) {
                link.capacity *= factor;
            }
        })?;
        let is_plain = changed.nodes() == changed.ranks() && changed.host_sizes().is_empty();
        if self.is_empty() || !is_plain {
            return Ok(changed);
        }
        let (ranks, nodes) = (changed.ranks(), changed.nodes());
        let graph = Topology::from_links("changed", ranks, nodes, changed.links().to_vec())?;
        // Ranks that are placed on a grid are not in its order.
        graph.with_dimensions(if base.positions().is_none() { base.dimensions() } else { &[] })
    }

    /// How this state differs from another one.
    pub fn since(&self, before: &Changes, base: &Base<'_>) -> Vec<Difference> {
        let ends: BTreeSet<(NodeId, NodeId)> =
            base.topology.links().iter().map(|link| (link.source, link.target)).collect();
        let difference = |(source, target): (NodeId, NodeId)| {
            let (before, now) = (before.rate(source, target, base), self.rate(source, target, base));
            ((now - before).abs() > 1e-6 * before.max(now)).then_some(Difference {
                source,
                target,
                before,
                now,
            })
        };
        ends.into_iter().filter_map(difference).collect()
    }

    /// The bytes per second from one node to the next.
    fn rate(&self, source: NodeId, target: NodeId, base: &Base<'_>) -> f64 {
        if self.gone.contains(&(source.min(target), source.max(target))) {
            return 0.0;
        }
        let leads_there = |id: &LinkId| {
            let link = &base.topology.links()[*id];
            (link.source, link.target) == (source, target)
        };
        let all: f64 = (0..base.topology.links().len()).filter(leads_there).map(|id| base.rate(id)).sum();
        let factor = self.factors.iter().find(|(a, b, _)| (*a, *b) == (source, target));
        all * factor.map_or(1.0, |(_, _, factor)| *factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Flow;

    const RATE: f64 = 12.5e6;

    fn base(spec: &str) -> Topology {
        Topology::parse(spec).unwrap().with_links(Some(RATE), Some(1e-4)).unwrap()
    }

    /// The rounds of probes on the network as it is, with some noise, several times.
    fn measured(base: &Base<'_>, now: &Changes, tries: usize) -> Vec<Round> {
        let topology = now.apply(base.topology).unwrap();
        let changed = Base { topology: &topology, ..*base };
        let measuring = Measuring::new(&changed, &topology);
        let flow =
            |(from, to): &(usize, usize)| Tried { from: *from, to: *to, fastest: 1.0, is_steady: true };
        let rounds: Vec<Vec<Tried>> =
            base.probes().iter().map(|flows| flows.iter().map(flow).collect()).collect();
        let paths = measuring.paths(&rounds);
        let round = |seed: usize, flows: &[Crossing]| {
            let noise = |number: usize| 0.95 + 0.01 * ((number + seed) * 7 % 10) as f64;
            let rates = fair(&measuring.rates, flows).into_iter().enumerate();
            let flow = |(number, (rate, (_, flow))): (usize, (f64, &(_, Tried)))| Flow {
                from: flow.from,
                to: flow.to,
                bytes_per_second: rate * noise(number),
                spread: 0.0,
                starved: false,
            };
            Round { flows: rates.map(|(number, rate)| (number, (rate, &flows[number]))).map(flow).collect() }
        };
        (0..tries)
            .flat_map(|seed| paths.iter().map(move |flows| (seed, flows)))
            .map(|(seed, flows)| round(seed, flows))
            .collect()
    }

    #[test]
    fn slow_links_are_found_and_found_to_recover() {
        let cases: &[(&str, &[(NodeId, NodeId)])] = &[
            ("ring:4", &[(0, 1), (1, 0)]),
            ("ring:9", &[(0, 1), (1, 0), (5, 4)]),
            ("torus:3x3", &[(0, 1), (1, 0)]),
            ("hypercube:3", &[(3, 7)]),
            ("switch:6", &[(2, 6), (6, 2)]),
            ("hosts:3x2", &[]),
        ];
        for (spec, slow) in cases {
            let topology = base(spec);
            let hosts = topology.hosts_of_ranks();
            let leaders: Vec<Rank> = (0..hosts.iter().max().unwrap() + 1)
                .map(|host| hosts.iter().position(|h| *h == host).unwrap())
                .collect();
            let base = Base { topology: &topology, bandwidth: None, leaders: &leaders };
            let factors = slow.iter().map(|(a, b)| (*a, *b, 0.25)).collect();
            let now = Changes { gone: vec![], factors };
            let found = base.observe(&Changes::default(), &[], &measured(&base, &now, 2)).changes;
            let ends = |changes: &Changes| -> BTreeSet<(NodeId, NodeId)> {
                changes.factors.iter().map(|(a, b, _)| (*a, *b)).collect()
            };
            assert_eq!(ends(&found), ends(&now), "{spec}: {found:?}");
            assert!(
                found.factors.iter().all(|(_, _, factor)| (factor / 0.25 - 1.0).abs() < 0.1),
                "{found:?}"
            );
            assert_eq!(found.since(&Changes::default(), &base).len(), slow.len());
            let again = base.observe(&found, &[], &measured(&base, &Changes::default(), 2)).changes;
            assert!(again.is_empty(), "{spec}: {again:?}");
        }
    }

    /// Hosts without time to send or receive make flows slow, but not twice in the same way.
    #[test]
    fn flows_that_vary_prove_nothing() {
        let topology = base("ring:4");
        let base = Base { topology: &topology, bandwidth: None, leaders: &[0, 1, 2, 3] };
        let slow = Changes { gone: vec![], factors: vec![(0, 1, 0.25)] };
        let once = measured(&base, &slow, 1);
        let seen = base.observe(&Changes::default(), &[], &once);
        assert!(seen.changes.is_empty() && seen.is_doubtful, "once is not enough");
        let slower = Changes { gone: vec![], factors: vec![(0, 1, 0.1)] };
        let twice = [once, measured(&base, &slower, 1)].concat();
        assert!(base.observe(&Changes::default(), &[], &twice).changes.is_empty());
        assert_eq!(base.observe(&slow, &[], &twice).changes, slow, "what was known stays");
    }

    #[test]
    fn a_cable_that_is_routed_around_is_gone() {
        let topology = base("ring:4");
        let base = Base { topology: &topology, bandwidth: None, leaders: &[0, 1, 2, 3] };
        let trace = |from: usize, to: usize, hops: usize| TracedRoute {
            from,
            to,
            hops: vec![None; hops],
            reached: true,
        };
        let gone =
            base.observe(&Changes::default(), &[trace(0, 1, 3), trace(1, 2, 1), trace(0, 2, 2)], &[]).changes;
        assert_eq!(gone.gone, [(0, 1)]);
        assert_eq!(gone.apply(&topology).unwrap().links().len(), 6);
        let unknown = base.observe(&gone, &[TracedRoute { reached: false, ..trace(0, 1, 0) }], &[]).changes;
        assert_eq!(unknown, gone, "silence says nothing");
        assert!(base.observe(&gone, &[trace(1, 0, 1)], &[]).changes.is_empty());
    }

    #[test]
    fn links_of_other_rates_than_stated_are_found() {
        let topology = base("ring:4").with_links(Some(12.5e9), None).unwrap();
        let base = Base { topology: &topology, bandwidth: None, leaders: &[0, 1, 2, 3] };
        let factors = topology.links().iter().map(|link| (link.source, link.target, 0.001)).collect();
        let found = base
            .observe(&Changes::default(), &[], &measured(&base, &Changes { gone: vec![], factors }, 2))
            .changes;
        let present = found.apply(&topology).unwrap();
        let rates: BTreeSet<u64> =
            present.links().iter().map(|link| link.bytes_per_second() as u64).collect();
        assert_eq!((present.links().len(), rates.len()), (8, 1), "{rates:?}");
    }
}
