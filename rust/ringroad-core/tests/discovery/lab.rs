//! A network to be discovered: it answers probes and carries flows as the real one would.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ringroad_core::discovery::{
    assemble, experiments, next_experiments, trace_targets, Effort, Evidence, Flow, Flows, FoundNetwork,
    HostFacts, Latency, Round, TracedRoute, Wiring,
};
use ringroad_core::topology::{Routes, Routing, Topology};

/// Random numbers from 0 to 1.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() * end as f64) as usize
    }

    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

/// From so many ranks on, only the paths that are traced are worked out.
const MANY: usize = 100;

/// How the network behaves.
#[derive(Debug, Clone)]
pub struct Manners {
    /// How many answers are lost.
    pub loss: f64,
    /// How far rates are off at most.
    pub noise: f64,
    /// How many flows are slower by up to a half, because something disturbs them.
    pub disturbed: f64,
    /// Hosts that never answer.
    pub silent: Vec<usize>,
    /// Hosts that answer by the address of another one.
    pub liars: Vec<(usize, usize)>,
    /// Whether routers answer by the address of the interface towards the asker.
    pub aliases: bool,
    /// What a host sends and receives at most.
    pub nic: f64,
    /// Whether nothing between hosts answers or counts as a hop.
    pub opaque: bool,
}

pub const GOOD: Manners = Manners {
    loss: 0.0,
    noise: 0.01,
    disturbed: 0.0,
    silent: Vec::new(),
    liars: Vec::new(),
    aliases: true,
    nic: f64::INFINITY,
    opaque: false,
};

/// Hosts, then switches.
pub struct Lab {
    pub hosts: usize,
    pub host_of: Vec<usize>,
    /// The directed links with what they carry.
    pub links: BTreeMap<(usize, usize), f64>,
    /// The nodes on the way from one host to another.
    pub paths: BTreeMap<(usize, usize), Vec<usize>>,
    pub manners: Manners,
    dice: Dice,
}

impl Lab {
    /// A topology as it is wired in a testbed, with rank `r` at the position `places[r]`. Ranks in one memory are on one
    /// host.
    pub fn new(topology: &Topology, places: &[usize], manners: Manners) -> Lab {
        let ranks = topology.ranks();
        // The memory of a rank, where it has one, is its host.
        let memory = |rank: usize| {
            let own = topology.links_out_of(rank);
            let target = topology.links()[own[0]].target;
            if topology.per_host() > 1 || topology.spec().starts_with("hosts") {
                target
            } else {
                rank
            }
        };
        let mut number: BTreeMap<usize, usize> = BTreeMap::new();
        let mut host_of = Vec::new();
        for place in places {
            let next = number.len();
            host_of.push(*number.entry(memory(*place)).or_insert(next));
        }
        let hosts = number.len();
        for node in ranks..topology.nodes() {
            let next = number.len();
            number.entry(node).or_insert(next);
        }
        let node = |node: usize| number.get(&node).copied().unwrap_or_else(|| number[&memory(node)]);
        let mut links = BTreeMap::new();
        for link in topology.links() {
            let ends = (node(link.source), node(link.target));
            if ends.0 != ends.1 {
                *links.entry(ends).or_insert(0.0) += link.bytes_per_second();
            }
        }
        let paths = paths(topology, &node)
            .or_else(|| paths(&topology.clone().with_routing(Routing::SinglePath).unwrap(), &node));
        Lab { hosts, host_of, links, paths: paths.unwrap(), manners, dice: Dice::new(places.len() as u64) }
    }

    fn main(node: usize) -> IpAddr {
        Ipv4Addr::from(0x0a4d_0000 + node as u32).into()
    }

    fn end(node: usize, towards: usize) -> IpAddr {
        Ipv4Addr::from(0x6400_0000 + ((node as u32) << 12) + towards as u32).into()
    }

    pub fn facts(&self) -> Vec<HostFacts> {
        let facts = |host: usize| {
            let near = self.links.keys().filter(|(from, _)| *from == host).map(|(_, to)| Lab::end(host, *to));
            let addresses = [Lab::main(host)].into_iter().chain(near).collect();
            HostFacts { name: format!("host{host}"), addresses }
        };
        (0..self.hosts).map(facts).collect()
    }

    pub fn traces(&mut self) -> Vec<TracedRoute> {
        let pairs = (0..self.hosts)
            .flat_map(|from| trace_targets(from, self.hosts).into_iter().map(move |to| (from, to)));
        pairs.collect::<Vec<_>>().into_iter().map(|(from, to)| self.trace(from, to)).collect()
    }

    fn trace(&mut self, from: usize, to: usize) -> TracedRoute {
        let way = if self.manners.opaque { vec![from, to] } else { self.paths[&(from, to)].clone() };
        let mut hops = Vec::new();
        for pair in way.windows(2) {
            let (before, node) = (pair[0], pair[1]);
            let is_host = node < self.hosts;
            let answers = self.dice.roll() >= self.manners.loss && !self.manners.silent.contains(&node);
            let has_interface = self.links.contains_key(&(node, before));
            let facing = (is_host || self.manners.aliases) && has_interface && node != to;
            let liar = self
                .manners
                .liars
                .iter()
                .find(|(liar, _)| *liar == node)
                .map(|(_, victim)| Lab::main(*victim));
            let own = if facing { Lab::end(node, before) } else { Lab::main(node) };
            hops.push(answers.then(|| liar.unwrap_or(own)));
        }
        let reached = hops.last().is_some_and(Option::is_some);
        TracedRoute { from, to, hops, reached }
    }

    /// What each flow gets if all run at once: all rates rise together until a link is full, whose flows then stay.
    pub fn round(&mut self, flows: &Flows) -> Round {
        // The NICs of both hosts are links, too.
        let (out, into) = (usize::MAX, usize::MAX - 1);
        let path = |pair: &(usize, usize)| {
            let hops = self.paths[pair].windows(2).map(|hop| (hop[0], hop[1]));
            hops.chain([(pair.0, out), (into, pair.1)]).collect()
        };
        let paths: Vec<Vec<(usize, usize)>> = flows.iter().map(path).collect();
        let mut left = self.links.clone();
        left.extend(
            (0..self.hosts)
                .flat_map(|host| [((host, out), self.manners.nic), ((into, host), self.manners.nic)]),
        );
        let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
        while rates.contains(&None) {
            let mut open: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for (path, _) in paths.iter().zip(&rates).filter(|(_, rate)| rate.is_none()) {
                path.iter().for_each(|hop| *open.entry(*hop).or_insert(0) += 1);
            }
            let level = |(hop, count): (&(usize, usize), &usize)| (left[hop] / *count as f64, *hop);
            let (share, full) =
                open.iter().map(level).min_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
            for (path, rate) in paths.iter().zip(&mut rates) {
                if rate.is_none() && path.contains(&full) {
                    *rate = Some(share);
                    path.iter().for_each(|hop| *left.get_mut(hop).unwrap() -= share);
                }
            }
        }
        let Manners { noise, disturbed, .. } = self.manners;
        let flow = |((from, to), rate): (&(usize, usize), Option<f64>)| {
            let part = 1.0 + noise * (2.0 * self.dice.roll() - 1.0);
            let slowed = disturbed > 0.0 && self.dice.roll() < disturbed;
            let part = if slowed { part * (1.0 - 0.5 * self.dice.roll()) } else { part };
            Flow {
                from: *from,
                to: *to,
                bytes_per_second: rate.unwrap() * part,
                spread: noise,
                starved: false,
            }
        };
        Round { flows: flows.iter().zip(rates).map(flow).collect() }
    }

    /// Everything that the hosts find out.
    pub fn evidence(&mut self) -> Evidence {
        let (hosts, traces) = (self.facts(), self.traces());
        let wiring = Wiring::from_traces(&hosts, &traces);
        let effort = Effort::default();
        let rounds = experiments(&wiring, effort);
        assert!(rounds.len() <= effort.rounds && rounds.is_empty() == (self.hosts < 2));
        let rounds = rounds.iter().map(|flows| self.round(flows)).collect();
        let mut evidence =
            Evidence { hosts, host_of: self.host_of.clone(), traces, rounds, latencies: Vec::new() };
        for stage in 0.. {
            let next = next_experiments(&evidence, effort);
            if next.is_empty() {
                break;
            }
            assert!(stage < 40, "there must be an end to it");
            evidence.rounds.extend(next.iter().map(|flows| self.round(flows)));
        }
        for (from, to) in self.paths.keys().filter(|(from, _)| *from < 8) {
            let hops = self.paths[&(*from, *to)].len() - 1;
            let seconds = 20e-6 * hops as f64 * (1.0 + 0.3 * self.dice.roll());
            evidence.latencies.push(Latency { from: *from, to: *to, seconds });
        }
        evidence
    }

    pub fn discover(&mut self) -> FoundNetwork {
        assemble(&self.evidence()).unwrap()
    }
}

/// The single paths between hosts, or `None` where there are several.
fn paths(
    topology: &Topology,
    node: &impl Fn(usize) -> usize,
) -> Option<BTreeMap<(usize, usize), Vec<usize>>> {
    let mut routes = Routes::new(topology);
    let mut paths = BTreeMap::new();
    let ranks = topology.ranks();
    // Of many ranks only the paths that are traced are worked out.
    let traced = |rank: usize| if ranks < MANY { None } else { Some(trace_targets(node(rank), ranks)) };
    let traced: Vec<Option<Vec<usize>>> = (0..ranks).map(traced).collect();
    for (from, to) in (0..ranks * ranks).map(|pair| (pair % ranks, pair / ranks)) {
        let is_traced = traced[from].as_ref().is_none_or(|traced| traced.binary_search(&node(to)).is_ok());
        if node(from) == node(to) || !is_traced {
            continue;
        }
        let route = routes.route(from, to).unwrap();
        let ends = |(link, _): &(usize, f64)| {
            let link = &topology.links()[*link];
            (node(link.source), node(link.target))
        };
        let hops: BTreeSet<(usize, usize)> = route.shares.iter().map(ends).filter(|(a, b)| a != b).collect();
        let mut way = vec![node(from)];
        while way.last() != Some(&node(to)) && way.len() <= hops.len() {
            let next = hops.iter().find(|(at, _)| Some(at) == way.last()).map(|(_, to)| *to);
            way.push(next.unwrap());
        }
        if way.len() != hops.len() + 1 || way.last() != Some(&node(to)) {
            return None;
        }
        paths.insert((node(from), node(to)), way);
    }
    Some(paths)
}
