//! What is found out about the cost of a schedule, step by step, before anybody says what latencies and bandwidths are.

use serde::{Deserialize, Serialize};

use crate::topology::Unreachable;
use crate::units::Seconds;

/// Why a schedule has no cost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// The schedule is for more ranks than there are.
    #[error("the schedule {name:?} is for {ranks} ranks, but {topology} has {available}; give a topology with at least {ranks}")]
    TooFewRanks {
        /// The schedule's name.
        name: String,
        /// Its ranks.
        ranks: usize,
        /// The topology's spec.
        topology: String,
        /// Its ranks.
        available: usize,
    },
    /// No vector, or a rank that the schedule does not have; [`crate::Schedule::verify`] says more.
    #[error("the schedule {name:?} is malformed: {what}")]
    Malformed {
        /// The schedule's name.
        name: String,
        /// What does not fit.
        what: String,
    },
    /// A message has no way to its destination.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// The cost of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// How many messages the busiest rank sends, or receives.
    pub messages: usize,
    /// How many ranks send to a rank by its busiest port besides the first one, if those of other hosts spread evenly over
    /// the links that end there.
    #[serde(default)]
    pub incast: usize,
    /// The most hops that a message takes.
    pub hops: usize,
    /// The largest sum of link latencies on a message's way.
    pub latency: Seconds,
    /// The largest sum of extra latencies on a message's way.
    #[serde(default)]
    pub extra_latency: Seconds,
    /// What the most loaded link carries, in vectors; of what a link of greater capacity carries, as much less counts.
    pub link_load: f64,
    /// The largest time that a link needs for its load, per byte of the vector.
    pub seconds_per_byte: f64,
    /// What the busiest rank reduces, in vectors.
    pub reduced: f64,
    /// What the busiest port of a rank sends, in vectors. A rank behind a switch or on a host has one.
    #[serde(default)]
    pub port_load: f64,
    /// What the busiest rank copies where messages are read in their senders' memory, in vectors: what it sends to be
    /// reduced, and what it receives to keep it.
    #[serde(default)]
    pub copied: f64,
    /// What all ranks do.
    #[serde(default)]
    pub all: Work,
}

/// What all ranks do together in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// How many messages they send.
    pub messages: usize,
    /// What is in them, in vectors.
    pub sent: f64,
    /// What they reduce, in vectors.
    pub reduced: f64,
}

/// The cost of a schedule on a topology, for any number of bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduleCost {
    /// The cost of each step.
    pub steps: Vec<StepCost>,
    /// What the busiest link carries in all steps together, in vectors, as in [`StepCost::link_load`].
    pub busiest_link: f64,
}

impl ScheduleCost {
    /// The hops of all steps' longest routes.
    pub fn hops(&self) -> usize {
        self.steps.iter().map(|s| s.hops).sum()
    }

    /// What the most loaded link of each step carries, summed over the steps, in vectors.
    pub fn link_load(&self) -> f64 {
        self.steps.iter().map(|s| s.link_load).sum()
    }
}
