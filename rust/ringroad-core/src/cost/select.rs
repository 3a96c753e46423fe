//! Selects the fastest candidate for a number of bytes.
//!
//! The seconds of a candidate are a linear function of the bytes, so the fastest candidates form a lower envelope.
//! Costs within about one part in 10¹² of each other count as equal, and among equals the earlier candidate wins: the
//! order of the catalogue is the order of preference.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::line::{fastest, overtakes, Line};
use super::model::CostModel;
use super::step::ScheduleCost;
use crate::algorithms::Member;
use crate::units::{Bytes, Seconds};

/// An algorithm that could serve a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The algorithm.
    #[serde(rename = "name")]
    pub member: Member,
    /// The cost of its schedule.
    pub cost: ScheduleCost,
    /// Whether all ranks end with the same bits. The functions here do not exclude candidates that do not ensure this:
    /// the caller must leave them out where it matters.
    pub bit_identical: bool,
}

/// A candidate's place among the others for a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The candidate.
    pub candidate: &'a Candidate,
    /// The predicted seconds.
    pub seconds: Seconds,
    /// The seconds divided by those of the best candidate; 1 for the best.
    pub ratio: f64,
}

/// All candidates with their times for `bytes`, the best first. The first is the one that [`SwitchTable::pick`] returns.
pub fn rank<'a>(model: &CostModel, candidates: &'a [Candidate], bytes: Bytes) -> Vec<Ranked<'a>> {
    let mut order: Vec<(Line, &Candidate)> =
        candidates.iter().map(|c| (Line::of(model, &c.cost), c)).collect();
    order.sort_by(|a, b| a.0.compare(&b.0, bytes));
    let best = order.first().map_or(0.0, |(_, c)| model.seconds(&c.cost, bytes));
    let mut last = best;
    let ranked = order.into_iter().map(|(_, candidate)| {
        let seconds = model.seconds(&candidate.cost, bytes);
        // Candidates whose costs differ by rounding only are in catalogue order. The maximum keeps ratios ascending.
        last = last.max(seconds);
        Ranked { candidate, seconds, ratio: if last > best { last / best } else { 1.0 } }
    });
    ranked.collect()
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
#[serde(try_from = "StoredTable")]
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
struct StoredTable {
    ranges: Vec<SwitchRange>,
}

impl TryFrom<StoredTable> for SwitchTable {
    type Error = TableError;

    fn try_from(stored: StoredTable) -> Result<Self, Self::Error> {
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
        let (members, lines): (Vec<Member>, Vec<Line>) =
            candidates.into_iter().map(|c| (c.member, Line::of(model, &c.cost))).unzip();
        let mut ranges = Vec::new();
        let mut next = Some(0);
        while let Some(from_bytes) = next {
            let best = fastest(&lines, from_bytes).ok_or(TableError::Empty)?;
            ranges.push(SwitchRange::new(from_bytes, members[best], Origin::Model));
            next = None;
            for rival in 0..lines.len() {
                // Only a rival that overtakes before the first one found so far matters.
                let until = next.map_or(Bytes::MAX, |next| next - 1);
                next = overtakes(&lines, rival, best, from_bytes, until).or(next);
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
