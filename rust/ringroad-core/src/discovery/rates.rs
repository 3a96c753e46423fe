//! Capacities of edges, from the rates of flows that crossed them.
//!
//! An edge carries at least what has crossed it in one round, and every flow fills some edge of its way. Where one edge
//! of a flow's way only was as full as ever, it is what held the flow back, and so its capacity is measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::Round;
use super::wiring::Wiring;

/// How a rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Nothing has crossed the link: it is taken to be like the others.
    Assumed,
    /// So much has crossed the link, and perhaps another one held it back.
    Derived,
    /// The link was what held flows back.
    Measured,
}

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// In bytes per second.
    pub bytes_per_second: f64,
    /// How much that varied, relative to it.
    pub spread: f64,
    /// How it is known.
    pub how: How,
}

/// An edge is as full as ever from this part of its highest load on.
pub(super) const FULL: f64 = 0.93;

/// The rates of the flows of a round by their hosts, with their spreads. What cannot be is left out.
pub(super) fn flows(round: &Round, hosts: usize) -> BTreeMap<(usize, usize), (f64, f64)> {
    let mut flows: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for flow in round.flows.iter().filter(|flow| flow.is_plausible(hosts)) {
        let sum = flows.entry((flow.from, flow.to)).or_insert((0.0, 0.0));
        let spread = if flow.spread.is_finite() { flow.spread.abs().min(1.0) } else { 1.0 };
        *sum = (sum.0 + flow.bytes_per_second, sum.1.max(spread));
    }
    flows
}

/// The loads of one thing in several rounds, with their spreads.
#[derive(Debug, Clone, Default)]
pub(super) struct Loads(Vec<(f64, f64)>);

impl Loads {
    pub fn push(&mut self, load: f64, spread: f64) {
        self.0.push((load, spread));
    }

    pub fn highest(&self) -> f64 {
        self.0.iter().fold(0.0, |highest, (load, _)| load.max(highest))
    }

    /// The mean of those that are about as high as the highest, and their spread; disturbances make loads lower, and
    /// noise makes the highest too high.
    pub fn capacity(&self) -> Option<(f64, f64)> {
        self.up_to(self.highest())
    }

    /// The same where flows of several hosts add up: busy hosts begin at different times, so that one sum may be too high,
    /// and only a load that two rounds show counts.
    pub fn shared_capacity(&self) -> Option<(f64, f64)> {
        let repeated = self.0.iter().map(|(load, _)| *load);
        let repeated = repeated.filter(|load| *load > 0.0 && self.near(*load).count() > 1);
        self.up_to(repeated.reduce(f64::max).unwrap_or(self.highest()))
    }

    /// The round that showed the highest load, if no other has shown about as much.
    pub fn unrepeated(&self) -> Option<usize> {
        let mut rounds = self.near(self.highest());
        let first = rounds.next()?;
        rounds.next().is_none().then_some(first)
    }

    /// The rounds that showed a load that is about as high as this one and no higher.
    fn near(&self, highest: f64) -> impl Iterator<Item = usize> + '_ {
        let rounds = self.0.iter().enumerate();
        rounds.filter(move |(_, (load, _))| (FULL * highest..=highest).contains(load)).map(|(round, _)| round)
    }

    /// The mean of the loads that are about as high as this one and no higher, and their spread.
    fn up_to(&self, highest: f64) -> Option<(f64, f64)> {
        let full: Vec<&(f64, f64)> = self.near(highest).map(|round| &self.0[round]).collect();
        if full.is_empty() || highest <= 0.0 {
            return None;
        }
        let mean = full.iter().map(|(load, _)| load).sum::<f64>() / full.len() as f64;
        let spread = full.iter().map(|(load, spread)| spread.max((load - mean).abs() / mean));
        Some((mean, spread.fold(0.0, f64::max)))
    }
}

/// The capacity of every edge that flows have crossed.
pub(super) fn capacities(wiring: &Wiring, rounds: &[Round]) -> Vec<Option<Rate>> {
    let mut loads = vec![Loads::default(); wiring.edges.len()];
    let mut all = Vec::new();
    for round in rounds {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        let mut paths = Vec::new();
        for ((from, to), (rate, spread)) in flows(round, wiring.hosts) {
            let Some(path) = wiring.path(from, to) else { continue };
            for edge in path {
                let sum = sums.entry(*edge).or_default();
                *sum = (sum.0 + rate, sum.1.max(spread));
            }
            paths.push(path);
        }
        sums.iter().for_each(|(edge, (load, spread))| loads[*edge].push(*load, *spread));
        all.push((sums, paths));
    }
    let mut measured = vec![false; wiring.edges.len()];
    for (sums, paths) in &all {
        for path in paths {
            let is_full = |edge: &&usize| sums[*edge].0 >= FULL * loads[**edge].highest();
            let mut full = path.iter().filter(is_full);
            if let (Some(edge), None) = (full.next(), full.next()) {
                measured[*edge] = true;
            }
        }
    }
    let rate = |(loads, measured): (&Loads, bool)| {
        let how = if measured { How::Measured } else { How::Derived };
        loads.capacity().map(|(bytes_per_second, spread)| Rate { bytes_per_second, spread, how })
    };
    loads.iter().zip(measured).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_load_counts_if_it_comes_again() {
        let capacity = |loads: &[f64], is_shared: bool| {
            let mut all = Loads::default();
            loads.iter().for_each(|load| all.push(*load, 0.0));
            let found = if is_shared { all.shared_capacity() } else { all.capacity() };
            found.map(|(load, _)| load)
        };
        assert_eq!(capacity(&[50.0, 73.0, 20.0, 48.0], true), Some(49.0));
        assert_eq!(capacity(&[50.0, 73.0, 20.0, 48.0], false), Some(73.0));
        assert_eq!(capacity(&[50.0, 73.0], true), Some(73.0));
        assert_eq!(capacity(&[0.0, 0.0, 7.0], true), Some(7.0));
        assert_eq!(capacity(&[0.0, 0.0], true), None);
    }
}
