//! Selects the fastest candidate for a number of bytes.
//!
//! The cost of a candidate is a linear function of the bytes, so the cheapest candidates form a lower envelope.
//! Costs within about one part in 10¹² of each other count as equal, and among equals the earlier candidate wins: the
//! order of the catalogue is the order of preference.
//!
//! Where candidates were simulated with ranks that run freely, these times count instead of the costs. Of the candidates
//! that take almost the least, the cheapest wins.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::line::{fastest, overtakes, LinearTime};
use super::model::CostModel;
use crate::algorithms::Member;
use crate::units::{Bytes, Seconds};

/// A candidate's place among the others for a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// The cost.
    pub seconds: Seconds,
    /// [`Candidate::free_seconds`].
    pub free_seconds: Option<Seconds>,
    /// [`Candidate::seconds`] divided by those of the best candidate; 1 for the best.
    pub ratio: f64,
}

/// Candidates that take up to this many times as long as the fastest, where ranks run freely, count as equally fast.
const ALIKE: f64 = 1.01;

/// Whether any candidate was simulated.
fn is_simulated<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> bool {
    candidates.into_iter().any(|candidate| candidate.free.is_known())
}

/// The place of the best candidate for `bytes`; `None` where there is none.
fn best(model: &CostModel, candidates: &[&Candidate], lines: &[LinearTime], bytes: Bytes) -> Option<usize> {
    if !is_simulated(candidates.iter().copied()) {
        return fastest(lines, bytes);
    }
    let time =
        |candidate: &&Candidate| candidate.free.competes(bytes).then(|| candidate.seconds(model, bytes));
    let times: Vec<Option<Seconds>> = candidates.iter().map(time).collect();
    let Some(least) = times.iter().copied().flatten().reduce(f64::min) else { return fastest(lines, bytes) };
    let is_near = |place: &usize| times[*place].is_some_and(|seconds| seconds <= ALIKE * least);
    let near: Vec<usize> = (0..candidates.len()).filter(is_near).collect();
    let lines: Vec<LinearTime> = near.iter().map(|place| lines[*place]).collect();
    fastest(&lines, bytes).map(|place| near[place])
}

/// All candidates with their times for `bytes`, the best first. The first is the one that [`SwitchTable::pick`] returns.
pub fn rank<'a>(model: &CostModel, candidates: &'a [Candidate], bytes: Bytes) -> Vec<Ranked<'a>> {
    let lines: Vec<LinearTime> = candidates.iter().map(|c| LinearTime::from_cost(model, &c.cost)).collect();
    let Some(first) = best(model, &candidates.iter().collect::<Vec<_>>(), &lines, bytes) else {
        return Vec::new();
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    if is_simulated(candidates) {
        let seconds = |place: usize| candidates[place].seconds(model, bytes);
        order.sort_by(|a, b| (*a != first).cmp(&(*b != first)).then(seconds(*a).total_cmp(&seconds(*b))));
    } else {
        order.sort_by(|a, b| lines[*a].compare(&lines[*b], bytes));
    }
    let least = candidates[first].seconds(model, bytes);
    let ranked = order.into_iter().map(|place| {
        let candidate = &candidates[place];
        let all = candidate.seconds(model, bytes);
        Ranked {
            candidate,
            seconds: model.seconds(&candidate.cost, bytes),
            free_seconds: candidate.free_seconds(model, bytes),
            ratio: if all > least { all / least } else { 1.0 },
        }
    });
    let mut ranked: Vec<Ranked<'a>> = ranked.collect();
    keep_ascending(&mut ranked);
    ranked
}

/// Raises ratios that are below an earlier one: the best comes first, and may take slightly longer than others.
pub(crate) fn keep_ascending(ranked: &mut [Ranked<'_>]) {
    let mut last = 1.0;
    for row in ranked {
        last = row.ratio.max(last);
        row.ratio = last;
    }
}

/// Why an algorithm was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The cost model predicts that it is the fastest.
    #[default]
    Model,
    /// It was measured to be the fastest.
    Measured,
    /// A rule of the user's names it.
    Rules,
    /// No other algorithm may be used.
    Only,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The algorithm for all sizes from `from_bytes` up to the next range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRange {
    /// The first size.
    pub from_bytes: Bytes,
    /// The algorithm.
    pub algorithm: Member,
    /// Why it was chosen.
    #[serde(default)]
    pub origin: Origin,
}

impl SwitchRange {
    fn new(from_bytes: Bytes, algorithm: Member, origin: Origin) -> SwitchRange {
        SwitchRange { from_bytes, algorithm, origin }
    }

    pub(super) fn measured(from_bytes: Bytes, algorithm: Member) -> SwitchRange {
        SwitchRange::new(from_bytes, algorithm, Origin::Measured)
    }
}

/// The fastest algorithm for every number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredSwitchTable")]
pub struct SwitchTable {
    ranges: Vec<SwitchRange>,
}

/// Why a switch table cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There are no candidates.
    #[error("there is no algorithm to choose from")]
    Empty,
    /// The ranges do not cover all sizes once, in ascending order. The number is the index of the first wrong range.
    #[error("the ranges of a switch table begin at 0 bytes and ascend, but range {0} does not")]
    Order(usize),
}

#[derive(Deserialize)]
struct StoredSwitchTable {
    ranges: Vec<SwitchRange>,
}

impl TryFrom<StoredSwitchTable> for SwitchTable {
    type Error = TableError;

    fn try_from(stored: StoredSwitchTable) -> Result<Self, Self::Error> {
        SwitchTable::new(stored.ranges)
    }
}

impl SwitchTable {
    /// The table with these ranges, of which the first starts at 0 bytes and which ascend.
    pub fn new(ranges: Vec<SwitchRange>) -> Result<SwitchTable, TableError> {
        let start = ranges.first().ok_or(TableError::Empty)?.from_bytes;
        if start != 0 {
            return Err(TableError::Order(0));
        }
        match ranges.windows(2).position(|pair| pair[0].from_bytes >= pair[1].from_bytes) {
            Some(index) => Err(TableError::Order(index + 1)),
            None => Ok(SwitchTable { ranges }),
        }
    }

    /// The table with one algorithm for every number of bytes.
    pub fn always(algorithm: Member) -> SwitchTable {
        SwitchTable { ranges: vec![SwitchRange::new(0, algorithm, Origin::Only)] }
    }

    /// The table with the fastest of `candidates` for every number of bytes; among equals the earliest.
    pub fn build<'a>(
        model: &CostModel,
        candidates: impl IntoIterator<Item = &'a Candidate>,
    ) -> Result<SwitchTable, TableError> {
        let candidates: Vec<&Candidate> = candidates.into_iter().collect();
        let lines: Vec<LinearTime> =
            candidates.iter().map(|c| LinearTime::from_cost(model, &c.cost)).collect();
        if is_simulated(candidates.iter().copied()) {
            return SwitchTable::search(model, &candidates, &lines);
        }
        let mut ranges = Vec::new();
        let mut next = Some(0);
        while let Some(from_bytes) = next {
            let best = fastest(&lines, from_bytes).ok_or(TableError::Empty)?;
            ranges.push(SwitchRange::new(from_bytes, candidates[best].member, Origin::Model));
            next = None;
            for rival in 0..lines.len() {
                // Only a rival that overtakes before the first one found so far matters.
                let until = next.map_or(Bytes::MAX, |next| next - 1);
                next = overtakes(&lines, rival, best, from_bytes, until).or(next);
            }
        }
        SwitchTable::new(ranges)
    }

    /// The table where it is known what candidates take while ranks run freely: the best for every power of two, and
    /// between two of these where it changes.
    fn search(
        model: &CostModel,
        candidates: &[&Candidate],
        lines: &[LinearTime],
    ) -> Result<SwitchTable, TableError> {
        let best = |bytes| best(model, candidates, lines, bytes).ok_or(TableError::Empty);
        let mut ranges = Vec::new();
        let mut last = (0, best(0)?);
        ranges.push(SwitchRange::new(0, candidates[last.1].member, Origin::Model));
        for size in (0..Bytes::BITS).map(|power| 1 << power) {
            // The sizes up to which the best is still to be found, the next one last.
            let mut open = vec![(size, best(size)?)];
            while let Some(&(bytes, place)) = open.last() {
                if place != last.1 && bytes - last.0 > 1 {
                    let middle = last.0 + (bytes - last.0) / 2;
                    open.push((middle, best(middle)?));
                    continue;
                }
                if place != last.1 {
                    ranges.push(SwitchRange::new(bytes, candidates[place].member, Origin::Model));
                }
                last = (bytes, place);
                open.pop();
            }
        }
        SwitchTable::new(ranges)
    }

    /// The ranges in ascending order; the first starts at 0 bytes.
    pub fn ranges(&self) -> &[SwitchRange] {
        &self.ranges
    }

    /// The same table, but with `algorithm` for the sizes from `from` up to and including `to`.
    pub fn overlaid(&self, from: Bytes, to: Bytes, algorithm: Member, origin: Origin) -> SwitchTable {
        let mut ranges: Vec<SwitchRange> =
            self.ranges.iter().filter(|r| r.from_bytes < from).cloned().collect();
        ranges.push(SwitchRange::new(from, algorithm, origin));
        if let Some(after) = to.checked_add(1) {
            ranges.push(SwitchRange { from_bytes: after, ..*self.range(after) });
            ranges.extend(self.ranges.iter().filter(|r| r.from_bytes > after).cloned());
        }
        ranges.dedup_by(|next, before| (next.algorithm, next.origin) == (before.algorithm, before.origin));
        SwitchTable { ranges }
    }

    /// The range that contains `bytes`.
    pub fn range(&self, bytes: Bytes) -> &SwitchRange {
        let after = self.ranges.partition_point(|r| r.from_bytes <= bytes);
        &self.ranges[after - 1]
    }

    /// The algorithm for `bytes`.
    pub fn pick(&self, bytes: Bytes) -> Member {
        self.range(bytes).algorithm
    }
}
