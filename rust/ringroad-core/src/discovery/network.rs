//! The network between hosts, with what its links carry, before ranks are put onto it.

use std::collections::{BTreeMap, VecDeque};

use super::evidence::Evidence;
use super::latency::latencies;
use super::rates::{are_like, capacities, How, Rate};
use super::rounding::{median, round};
use super::wiring::Wiring;
use crate::topology::{connected, DEFAULT_BANDWIDTH, DEFAULT_LATENCY};
use crate::units::Seconds;

/// Hosts, then switches, and what joins them.
#[derive(Debug, Clone)]
pub(super) struct Cabling {
    pub hosts: usize,
    pub nodes: usize,
    pub cables: Vec<Cable>,
    /// The cables on the way from one host to another, where it is known.
    pub paths: BTreeMap<(usize, usize), Vec<usize>>,
}

/// A link between two nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cable {
    pub from: usize,
    pub to: usize,
    pub rate: Rate,
    /// Whether starved flows have shown the rate that may agree by chance, so that it may be higher.
    pub starved: bool,
    pub seconds: Seconds,
}

/// Of how many pairs the paths are known, and how many there are.
pub(super) enum Traced {
    None,
    Some(usize, usize),
    All,
}

impl Cable {
    /// A link of which this rate is known, if any, and whether starved flows have shown it.
    pub fn new(from: usize, to: usize, known: Option<(Rate, bool)>) -> Cable {
        let nothing = Rate { bytes_per_second: 0.0, spread: 0.0, how: How::Assumed };
        let (rate, starved) = known.unwrap_or((nothing, false));
        Cable { from, to, rate, starved, seconds: DEFAULT_LATENCY }
    }

    /// How many of its ends are hosts.
    fn kind(&self, hosts: usize) -> usize {
        usize::from(self.from < hosts) + usize::from(self.to < hosts)
    }
}

impl Cabling {
    /// The network that traces show.
    pub fn routed(wiring: &Wiring, evidence: &Evidence) -> Cabling {
        let rates = capacities(wiring, &evidence.rounds);
        let edges = wiring.edges.iter().zip(rates);
        let cables = edges.map(|(edge, rate)| Cable::new(edge.from, edge.to, rate)).collect();
        let paths = wiring.paths.iter().map(|path| ((path.from, path.to), path.edges.clone())).collect();
        Cabling { hosts: wiring.hosts, nodes: wiring.nodes(), cables, paths }
    }

    /// Whether every host reaches every other one.
    pub fn is_connected(&self) -> bool {
        connected(self.hosts, self.nodes, self.cables.iter().map(|cable| (cable.from, cable.to))).is_ok()
    }

    /// Of how many pairs of hosts the paths are known.
    pub fn traced_ways(&self) -> Traced {
        let pairs = self.hosts * (self.hosts - 1);
        match self.paths.len() {
            0 => Traced::None,
            known if known < pairs => Traced::Some(known, pairs),
            _ => Traced::All,
        }
    }

    /// Believes starved rates that are like a sure one of the kind, or like most others of it; the rest are assumed. Returns how
    /// many these are.
    pub fn judge_starved(&mut self) -> usize {
        for kind in 0..3 {
            let rates = |starved: bool| -> Vec<f64> {
                let some = self.cables.iter().filter(|cable| cable.kind(self.hosts) == kind);
                let some =
                    some.filter(|cable| cable.starved == starved).map(|cable| cable.rate.bytes_per_second);
                some.filter(|rate| *rate > 0.0).collect()
            };
            let (starved, mut known) = (rates(true), rates(false));
            // To wait for a core makes a flow slower, never faster, and most flows not equally slow.
            let highest = starved.iter().copied().fold(0.0, f64::max);
            if starved.iter().filter(|rate| are_like(**rate, highest)).count() > 1.max(starved.len() / 2) {
                known.push(highest);
            }
            for cable in self.cables.iter_mut().filter(|cable| cable.kind(self.hosts) == kind) {
                cable.starved &= !known.iter().any(|rate| are_like(*rate, cable.rate.bytes_per_second));
            }
        }
        let doubtful = self.cables.iter_mut().filter(|cable| cable.starved);
        doubtful.map(|cable| cable.rate.how = How::Assumed).count()
    }

    /// Assumes rates where there are none, gives equal links equal rates, and adds latencies.
    pub fn complete(&mut self, evidence: &Evidence) {
        for kind in 0..3 {
            let rate =
                |cable: &Cable| (cable.rate.how != How::Assumed).then_some(cable.rate.bytes_per_second);
            let of_kind = |cable: &&Cable| cable.kind(self.hosts) == kind;
            let like = median(self.cables.iter().filter(of_kind).filter_map(rate));
            let like = like.or_else(|| median(self.cables.iter().filter_map(rate)));
            // What starved flows brought is still more than nothing.
            let least = || {
                let rates = self.cables.iter().map(|cable| cable.rate.bytes_per_second);
                rates.reduce(f64::max).filter(|rate| *rate > 0.0)
            };
            let like = like.or_else(least).unwrap_or(DEFAULT_BANDWIDTH);
            let members: Vec<usize> =
                (0..self.cables.len()).filter(|at| of_kind(&&self.cables[*at])).collect();
            for at in &members {
                let Cable { rate, starved, .. } = &mut self.cables[*at];
                // Hosts are alike more often than what joins routers.
                if rate.how == How::Assumed && (kind > 0 || !*starved) {
                    rate.bytes_per_second = like.max(rate.bytes_per_second);
                }
            }
            let mut rates: Vec<f64> =
                members.iter().map(|at| self.cables[*at].rate.bytes_per_second).collect();
            let spread = median(members.iter().map(|at| self.cables[*at].rate.spread)).unwrap_or(0.0);
            round(&mut rates, spread);
            for (at, rate) in members.iter().zip(rates) {
                self.cables[*at].rate.bytes_per_second = rate;
            }
        }
        let plausible = evidence.latencies.iter().filter(|latency| latency.is_plausible(self.hosts));
        let samples =
            plausible.filter_map(|latency| Some((self.way(latency.from, latency.to)?, latency.seconds)));
        if let Some(latencies) = latencies(self.cables.len(), &samples.collect::<Vec<_>>()) {
            for (cable, seconds) in self.cables.iter_mut().zip(latencies) {
                cable.seconds = seconds;
            }
        }
    }

    /// The way from one host to another: the known one, or a shortest.
    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        if let Some(way) = self.paths.get(&(from, to)) {
            return Some(way.clone());
        }
        let mut out = vec![Vec::new(); self.nodes];
        self.cables.iter().enumerate().for_each(|(number, cable)| out[cable.from].push(number));
        let mut by = vec![None; self.nodes];
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            for number in &out[node] {
                let next = self.cables[*number].to;
                if next != from && by[next].is_none() {
                    by[next] = Some(*number);
                    open.push_back(next);
                }
            }
        }
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let number: usize = by[at]?;
            way.push(number);
            at = self.cables[number].from;
        }
        way.reverse();
        Some(way)
    }
}
