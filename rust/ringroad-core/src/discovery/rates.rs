//! Capacities of edges, from the rates of flows that crossed them.
//!
//! An edge carries at least what has crossed it in one round, and every flow fills some edge of its way. Where one edge
//! of a flow's way only was as full as ever, it is what held the flow back, and so its capacity is measured. What a starved
//! flow brought is a lower bound, unless another round shows the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::Round;
use super::wiring::Wiring;

/// How a rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Nothing has crossed the link, or only starved flows have that were like no others: it is taken to be like the others of
    /// its kind, if these are not slower.
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
/// Two starved loads of many agree by chance, three hardly.
pub(super) const SURE: usize = 3;

/// Whether two rates may be the same.
pub(super) fn are_like(one: f64, other: f64) -> bool {
    FULL * one.max(other) <= one.min(other)
}

/// Bytes per second of one flow, or of several together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub rate: f64,
    pub spread: f64,
    pub starved: bool,
}

impl Load {
    pub fn add(&mut self, more: Load) {
        self.rate += more.rate;
        self.spread = self.spread.max(more.spread);
        self.starved |= more.starved;
    }
}

/// The flows of a round by their hosts. What cannot be is left out.
pub(super) fn flows(round: &Round, hosts: usize) -> BTreeMap<(usize, usize), Load> {
    let mut flows: BTreeMap<(usize, usize), Load> = BTreeMap::new();
    for flow in round.flows.iter().filter(|flow| flow.is_plausible(hosts)) {
        let spread = if flow.spread.is_finite() { flow.spread.abs().min(1.0) } else { 1.0 };
        let load = Load { rate: flow.bytes_per_second, spread, starved: flow.starved };
        flows.entry((flow.from, flow.to)).or_default().add(load);
    }
    flows
}

/// The loads of one thing in several rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Loads(Vec<Load>);

impl Loads {
    pub fn push(&mut self, load: Load) {
        self.0.push(load);
    }

    pub fn highest(&self) -> f64 {
        self.0.iter().fold(0.0, |highest, load| load.rate.max(highest))
    }

    /// Whether flows were starved in all rounds that show about the highest load, and these are fewer than so many.
    pub fn is_starved(&self, enough: usize) -> bool {
        let highest = self.highest();
        self.near(highest).all(|round| self.0[round].starved)
            && (1..enough).contains(&self.near(highest).count())
    }

    /// The mean of those that are about as high as the highest, and their spread; disturbances make loads lower, and
    /// noise makes the highest too high.
    pub fn capacity(&self) -> Option<(f64, f64)> {
        self.up_to(self.highest())
    }

    /// The same where flows of several hosts add up: busy hosts begin at different times, so that one sum may be too high,
    /// and only a load that two rounds show counts.
    pub fn shared_capacity(&self) -> Option<(f64, f64)> {
        let repeated = self.0.iter().map(|load| load.rate);
        let repeated = repeated.filter(|load| *load > 0.0 && self.near(*load).count() > 1);
        self.up_to(repeated.reduce(f64::max).unwrap_or(self.highest()))
    }

    /// This capacity, which is known so, and whether starved loads show it that may agree by chance.
    pub fn rate(&self, capacity: Option<(f64, f64)>, how: How) -> Option<(Rate, bool)> {
        capacity
            .map(|(bytes_per_second, spread)| (Rate { bytes_per_second, spread, how }, self.is_starved(SURE)))
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
        rounds
            .filter(move |(_, load)| (FULL * highest..=highest).contains(&load.rate))
            .map(|(round, _)| round)
    }

    /// The mean of the loads that are about as high as this one and no higher, and their spread.
    fn up_to(&self, highest: f64) -> Option<(f64, f64)> {
        let full: Vec<&Load> = self.near(highest).map(|round| &self.0[round]).collect();
        if full.is_empty() || highest <= 0.0 {
            return None;
        }
        let mean = full.iter().map(|load| load.rate).sum::<f64>() / full.len() as f64;
        let spread = full.iter().map(|load| load.spread.max((load.rate - mean).abs() / mean));
        Some((mean, spread.fold(0.0, f64::max)))
    }
}

/// The capacity of every edge that flows have crossed, and whether starved loads show it that may agree by chance.
pub(super) fn capacities(wiring: &Wiring, rounds: &[Round]) -> Vec<Option<(Rate, bool)>> {
    let mut loads = vec![Loads::default(); wiring.edges.len()];
    let mut all = Vec::new();
    for round in rounds {
        let mut sums: BTreeMap<usize, Load> = BTreeMap::new();
        let mut paths = Vec::new();
        for ((from, to), load) in flows(round, wiring.hosts) {
            let Some(path) = wiring.path(from, to) else { continue };
            path.iter().for_each(|edge| sums.entry(*edge).or_default().add(load));
            paths.push(path);
        }
        sums.iter().for_each(|(edge, load)| loads[*edge].push(*load));
        all.push((sums, paths));
    }
    let mut measured = vec![false; wiring.edges.len()];
    for (sums, paths) in &all {
        for path in paths {
            let is_full = |edge: &&usize| sums[*edge].rate >= FULL * loads[**edge].highest();
            let mut full = path.iter().filter(is_full);
            if let (Some(edge), None) = (full.next(), full.next()) {
                measured[*edge] = true;
            }
        }
    }
    let rate = |(loads, measured): (&Loads, bool)| {
        let how = if measured { How::Measured } else { How::Derived };
        loads.rate(loads.capacity(), how)
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
            loads.iter().for_each(|rate| all.push(Load { rate: *rate, ..Load::default() }));
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
