//! Racks merged from pairs of hosts.

use std::collections::BTreeMap;

/// Of the pairs of hosts of a rack, so many may have been slow by accident.
const ACCIDENTS: f64 = 0.05;
/// How much it counts that a flow was fast while no other was slow.
const WEAK: f64 = 0.01;

/// How often a pair of hosts was fast while others were slow, fast while none was, and slow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PairCounts {
    pub fast: usize,
    pub idle: usize,
    pub slow: usize,
}

impl PairCounts {
    /// How much speaks for one rack, if that is more than what speaks against it.
    fn score(self) -> Option<(f64, f64)> {
        let good = self.fast as f64 + WEAK * self.idle as f64;
        let part = self.fast as f64 / (self.fast + self.slow).max(1) as f64;
        let fits = good > 0.0 && (self.slow == 0 || part >= 1.0 - ACCIDENTS);
        fits.then_some((part, good))
    }

    fn plus(self, more: PairCounts) -> PairCounts {
        PairCounts { fast: self.fast + more.fast, idle: self.idle + more.idle, slow: self.slow + more.slow }
    }
}

/// Merges the two racks whose pairs were fast most often, as long as there are such.
pub(super) fn merged(hosts: usize, pairs: &BTreeMap<(usize, usize), PairCounts>) -> Vec<Vec<usize>> {
    let mut racks: Vec<Vec<usize>> = (0..hosts).map(|host| vec![host]).collect();
    // The same counts between racks, which are merged as racks are.
    let mut pairs = pairs.clone();
    loop {
        let scored = pairs.iter().filter_map(|(pair, counts)| Some((counts.score()?, *pair)));
        let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((_, (one, other))) = best else { break };
        let moved = std::mem::take(&mut racks[other]);
        racks[one].extend(moved);
        let mut merged: BTreeMap<(usize, usize), PairCounts> = BTreeMap::new();
        let now = |rack: usize| if rack == other { one } else { rack };
        for ((a, b), counts) in pairs {
            let (a, b) = (now(a).min(now(b)), now(a).max(now(b)));
            if a != b {
                let sum = merged.entry((a, b)).or_default();
                *sum = sum.plus(counts);
            }
        }
        pairs = merged;
    }
    racks.retain(|hosts| !hosts.is_empty());
    racks.iter_mut().for_each(|hosts| hosts.sort_unstable());
    racks
}
