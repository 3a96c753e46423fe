//! The quantities that determine the cost of a schedule, step by step, to which a [`CostModel`](super::CostModel)
//! applies its coefficients.

use serde::{Deserialize, Serialize};

use crate::topology::Unreachable;
use crate::units::Seconds;

/// Why the cost of a schedule cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// The schedule is for more ranks than the topology has.
    #[error("the schedule {name:?} is for {ranks} ranks, but {topology} has {available}; give a topology with at least {ranks}")]
    TooFewRanks {
        /// The schedule's name.
        name: String,
        /// How many ranks the schedule has.
        ranks: usize,
        /// The topology's spec.
        topology: String,
        /// How many ranks the topology has.
        available: usize,
    },
    /// The schedule has no vector, or names ranks or chunks that do not exist, or its vector does not fit.
    #[error("the schedule {name:?} is malformed: {what}")]
    Malformed {
        /// The schedule's name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A message has no route to its destination.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// The cost of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// The most messages that a rank sends, or that a rank receives.
    pub messages: usize,
    /// The most ranks but the first whose messages arrive by one port of a rank. Ranks of the same host do not count,
    /// and the others spread evenly over the links that end at the rank.
    #[serde(default)]
    pub incast: usize,
    /// The most hops of a message's route.
    pub hops: usize,
    /// The largest latency of a message's route, including extra latencies.
    pub latency: Seconds,
    /// The largest sum of extra latencies on a message's route.
    #[serde(default)]
    pub extra_latency: Seconds,
    /// What the most loaded link carries, as a fraction of the message. The load of each link is divided by its
    /// capacity.
    pub link_load: f64,
    /// The longest time that a link takes for its load, in seconds per byte of the vector.
    pub seconds_per_byte: f64,
    /// The most that a rank reduces, as a fraction of the message.
    pub reduced: f64,
    /// The most that a rank sends by one port, as a fraction of the message. A rank that is not on a grid has one port.
    #[serde(default)]
    pub port_load: f64,
    /// The most that a rank copies where receivers read messages in their senders' memory, as fractions of the
    /// message: what it sends to be reduced, and what it receives to copy.
    #[serde(default)]
    pub copied: f64,
    /// The totals over all ranks.
    #[serde(default)]
    pub all: StepTotals,
}

/// The totals over all ranks in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTotals {
    /// How many messages the ranks send.
    pub messages: usize,
    /// What the ranks send, as a fraction of the message.
    pub sent: f64,
    /// What the ranks reduce, as a fraction of the message.
    pub reduced: f64,
}

/// The cost of a schedule on a topology, for any number of bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduleCost {
    /// The cost of each step.
    pub steps: Vec<StepCost>,
    /// What the busiest link carries in all steps together, as a fraction of the message, counted as in
    /// [`StepCost::link_load`].
    pub busiest_link: f64,
}

impl ScheduleCost {
    /// The hops of the longest route of each step, summed over the steps.
    pub fn hops(&self) -> usize {
        self.steps.iter().map(|s| s.hops).sum()
    }

    /// What the most loaded link of each step carries, summed over the steps, as a fraction of the message.
    pub fn link_load(&self) -> f64 {
        self.steps.iter().map(|s| s.link_load).sum()
    }
}
