//! Explains why an algorithm is the fastest, and what would make another one the fastest.

use std::collections::BTreeMap;

use serde::Serialize;

use super::candidate::Candidate;
use super::model::CostModel;
use super::select::SwitchTable;
use super::step::ScheduleCost;
use crate::units::{Bytes, Seconds};

/// A part of the time that a schedule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The start-up of steps.
    Steps,
    /// Messages beyond the first of a rank's step.
    Messages,
    /// Senders beyond the first of a port.
    Incast,
    /// The latencies of links.
    Hops,
    /// The bytes on the most loaded links.
    Bytes,
    /// Reductions.
    Reduction,
}

/// The time of a schedule by terms, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeTerms {
    /// [`Term::Steps`].
    pub steps: Seconds,
    /// [`Term::Messages`].
    pub messages: Seconds,
    /// [`Term::Incast`].
    pub incast: Seconds,
    /// [`Term::Hops`].
    pub hops: Seconds,
    /// [`Term::Bytes`].
    pub bytes: Seconds,
    /// [`Term::Reduction`].
    pub reduction: Seconds,
}

impl TimeTerms {
    /// The terms of `cost` by `model`, for a vector of `bytes`.
    pub fn from_cost(model: &CostModel, cost: &ScheduleCost, bytes: Bytes) -> TimeTerms {
        let free = CostModel { step_latency: 0.0, message_latency: 0.0, incast_latency: 0.0, ..*model };
        let hops = free.fixed(cost);
        let messages = CostModel { message_latency: model.message_latency, ..free }.fixed(cost) - hops;
        let incast = CostModel { incast_latency: model.incast_latency, ..free }.fixed(cost) - hops;
        // Where reductions overlap transfers, the reduction counts only as far as it takes longer than the transfer.
        let transfer = CostModel { reduce_cost: 0.0, ..*model }.per_byte(cost);
        let bytes = bytes as f64;
        TimeTerms {
            steps: model.fixed(cost) - messages - incast - hops,
            messages,
            incast,
            hops,
            bytes: transfer * bytes,
            reduction: (model.per_byte(cost) - transfer) * bytes,
        }
    }

    /// Each term with its seconds.
    pub fn all(&self) -> [(Term, Seconds); 6] {
        [
            (Term::Steps, self.steps),
            (Term::Messages, self.messages),
            (Term::Incast, self.incast),
            (Term::Hops, self.hops),
            (Term::Bytes, self.bytes),
            (Term::Reduction, self.reduction),
        ]
    }

    /// The sum of all terms.
    pub fn seconds(&self) -> Seconds {
        self.all().iter().map(|(_, seconds)| seconds).sum()
    }
}

/// How a rival compares with the best candidate, and what would make both equally fast.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The time of the best candidate.
    pub best: TimeTerms,
    /// The time of the rival.
    pub rival: TimeTerms,
    /// How much longer the rival takes, as a fraction of the best candidate's time ([`Candidate::seconds`]). 0 where the two
    /// differ by rounding only. Negative where the rival is predicted to be faster.
    pub margin: f64,
    /// The smallest and the largest number of bytes for which the rival is faster, or no largest; `None` where it never is.
    pub bytes: Option<(Bytes, Option<Bytes>)>,
    /// Terms with a factor: if the term of both candidates were multiplied by the factor, both would be equally fast.
    pub factors: BTreeMap<Term, f64>,
}

impl Comparison {
    /// Compares two candidates, of which `best` is the faster one for `bytes`.
    pub fn from_candidates(
        model: &CostModel,
        best: &Candidate,
        rival: &Candidate,
        bytes: Bytes,
    ) -> Comparison {
        let terms = |candidate: &Candidate| TimeTerms::from_cost(model, &candidate.cost, bytes);
        let (winner, other) = (terms(best), terms(rival));
        let behind = other.seconds() - winner.seconds();
        let factor = |((term, a), (_, b)): ((Term, Seconds), (Term, Seconds))| {
            let factor = 1.0 - behind / (b - a);
            // A smaller difference is due to rounding.
            let differ = (b - a).abs() > 1e-9 * winner.seconds();
            (differ && factor.is_finite() && factor > 0.0).then_some((term, factor))
        };
        let [winners, others] = [best, rival].map(|candidate| candidate.seconds(model, bytes));
        let longer = others - winners;
        Comparison {
            best: winner,
            rival: other,
            margin: if longer.abs() > 1e-9 * winners { longer / winners } else { 0.0 },
            bytes: overtaken_at(model, best, rival, bytes),
            factors: winner.all().into_iter().zip(other.all()).filter_map(factor).collect(),
        }
    }
}

/// From how many bytes on and up to how many `rival` beats `best`; `None` where it never does, and where it does so for
/// `bytes`. Of several ranges the next one, or the last one before.
fn overtaken_at(
    model: &CostModel,
    best: &Candidate,
    rival: &Candidate,
    bytes: Bytes,
) -> Option<(Bytes, Option<Bytes>)> {
    let table = SwitchTable::build(model, [best, rival]).ok()?;
    if table.pick(bytes) == rival.member {
        return None;
    }
    let ranges = table.ranges();
    let wins = |place: &usize| ranges[*place].algorithm == rival.member;
    let here = ranges.partition_point(|range| range.from_bytes <= bytes);
    let place = (here..ranges.len()).find(wins).or_else(|| (0..here).rev().find(wins))?;
    Some((ranges[place].from_bytes, ranges.get(place + 1).map(|next| next.from_bytes - 1)))
}
