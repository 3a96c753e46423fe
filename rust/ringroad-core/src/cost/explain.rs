//! Why an algorithm is the fastest, and what would make another one so.

use serde::{Deserialize, Serialize};

use super::line::{overtaken_at, Crossing, Line};
use super::model::CostModel;
use super::select::Candidate;
use super::step::ScheduleCost;
use crate::units::{Bytes, Seconds};

/// A part of the time that a schedule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Starting steps.
    Steps,
    /// Further messages of the same step.
    Messages,
    /// Further senders to the same port.
    Incast,
    /// Links' latencies.
    Hops,
    /// Bytes on the most loaded links.
    Bytes,
    /// Reducing.
    Reduction,
}

/// The time of a schedule, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
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

impl Terms {
    /// What `model` says of `cost` for a vector of `bytes`.
    pub fn of(model: &CostModel, cost: &ScheduleCost, bytes: Bytes) -> Terms {
        let free = CostModel { step_latency: 0.0, message_latency: 0.0, incast_latency: 0.0, ..*model };
        let hops = free.fixed(cost);
        let messages = CostModel { message_latency: model.message_latency, ..free }.fixed(cost) - hops;
        let incast = CostModel { incast_latency: model.incast_latency, ..free }.fixed(cost) - hops;
        // Where reductions overlap transfers, what of them takes longer than those.
        let transfer = CostModel { reduce_cost: 0.0, ..*model }.per_byte(cost);
        let bytes = bytes as f64;
        Terms {
            steps: model.fixed(cost) - messages - incast - hops,
            messages,
            incast,
            hops,
            bytes: transfer * bytes,
            reduction: (model.per_byte(cost) - transfer) * bytes,
        }
    }

    /// Each with its name.
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

    /// Their sum.
    pub fn seconds(&self) -> Seconds {
        self.all().iter().map(|(_, seconds)| seconds).sum()
    }
}

/// What would have to be different for `rival` to be as fast as `best`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The faster one's time.
    pub best: Terms,
    /// The other one's.
    pub rival: Terms,
    /// By how much of the best one's time the rival takes longer; 0 where they differ by rounding only. Negative where
    /// the model does not agree that the best one is.
    pub margin: f64,
    /// From how many bytes on, or up to how many, the rival is faster.
    pub bytes: Option<Crossing>,
    /// If this term of all algorithms took this many times as long as it does, both would be equally fast.
    pub factors: Vec<(Term, f64)>,
}

impl Comparison {
    /// Compares two candidates, of which `best` is the faster one for `bytes`.
    pub fn of(model: &CostModel, best: &Candidate, rival: &Candidate, bytes: Bytes) -> Comparison {
        let terms = |candidate: &Candidate| Terms::of(model, &candidate.cost, bytes);
        let (winner, other) = (terms(best), terms(rival));
        let behind = other.seconds() - winner.seconds();
        let factor = |((term, a), (_, b)): ((Term, Seconds), (Term, Seconds))| {
            let factor = 1.0 - behind / (b - a);
            // Less is a difference of rounding.
            let differ = (b - a).abs() > 1e-9 * winner.seconds();
            (differ && factor.is_finite() && factor > 0.0).then_some((term, factor))
        };
        Comparison {
            best: winner,
            rival: other,
            margin: if behind.abs() > 1e-9 * winner.seconds() { behind / winner.seconds() } else { 0.0 },
            bytes: overtaken_at(Line::of(model, &best.cost), Line::of(model, &rival.cost), bytes),
            factors: winner.all().into_iter().zip(other.all()).filter_map(factor).collect(),
        }
    }
}
