//! An algorithm that could serve a call, with what it costs.
//!
//! A cost adds up steps, as if all ranks began each of them together. Ranks do not: those that are ahead share links with
//! those that are behind, and the steps of a pipeline overlap. So for some sizes a candidate also has the ratio of the time
//! that ranks take that run freely to its cost.

use serde::{Deserialize, Serialize};

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
    /// What the schedule takes where ranks run freely.
    #[serde(default)]
    pub free: FreeRunning,
}

/// What is known for one size of a schedule whose ranks run freely.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Trial {
    /// The ratio of its time to its cost.
    Simulated(f64),
    /// A simulation would have taken too long, so its cost stands.
    TooLong,
    /// It cannot be the fastest.
    Hopeless,
}

/// What is known of a schedule whose ranks run freely, for some sizes in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FreeRunning {
    trials: Vec<(Bytes, Trial)>,
}

impl FreeRunning {
    /// Adds what is known for a size.
    pub fn insert(&mut self, bytes: Bytes, trial: Trial) {
        let place = self.trials.partition_point(|(size, _)| *size < bytes);
        self.trials.insert(place, (bytes, trial));
    }

    /// Whether it was simulated for any size.
    pub fn is_known(&self) -> bool {
        self.trials.iter().any(|(_, trial)| matches!(trial, Trial::Simulated(_)))
    }

    /// The trials for the nearest size up to `bytes`, and for the nearest larger one.
    fn around(&self, bytes: Bytes) -> [Option<(Bytes, Trial)>; 2] {
        let next = self.trials.partition_point(|(size, _)| *size <= bytes);
        [next.checked_sub(1).map(|place| self.trials[place]), self.trials.get(next).copied()]
    }

    /// Whether it may be the fastest for `bytes`.
    pub fn competes(&self, bytes: Bytes) -> bool {
        self.around(bytes).into_iter().flatten().any(|(_, trial)| trial != Trial::Hopeless)
    }

    /// The ratio of its time to its cost for `bytes`, between those of the sizes around.
    pub fn ratio(&self, bytes: Bytes) -> Option<f64> {
        let known = self.around(bytes).map(|side| match side {
            Some((size, Trial::Simulated(ratio))) => Some((size, ratio)),
            _ => None,
        });
        match known {
            [Some((small, a)), Some((large, b))] => {
                let [small, large, bytes] = [small, large, bytes].map(|size| libm::log2(size.max(1) as f64));
                Some(a + (b - a) * (bytes - small) / (large - small))
            }
            [one, other] => one.or(other).map(|(_, ratio)| ratio),
        }
    }
}

impl Candidate {
    /// A candidate that no simulation has run.
    pub fn new(member: Member, cost: ScheduleCost, bit_identical: bool) -> Candidate {
        Candidate { member, cost, bit_identical, free: FreeRunning::default() }
    }

    /// What it takes where ranks run freely; `None` where that was not found out around this size.
    pub fn free_seconds(&self, model: &CostModel, bytes: Bytes) -> Option<Seconds> {
        Some(self.free.ratio(bytes)? * model.seconds(&self.cost, bytes))
    }

    /// What it is predicted to take: where ranks run freely if that is known, otherwise its cost.
    pub fn seconds(&self, model: &CostModel, bytes: Bytes) -> Seconds {
        self.free_seconds(model, bytes).unwrap_or_else(|| model.seconds(&self.cost, bytes))
    }
}
