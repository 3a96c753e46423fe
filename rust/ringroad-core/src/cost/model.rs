//! The link model: steps follow each other, and a step takes
//! `step_latency + hops · hop_latency + most loaded link's bytes / bandwidth + reduce_cost · bytes reduced` (or the longer
//! of the last two, if they are overlapped), `message_latency` for every message but the first that the busiest rank
//! sends or receives, and `incast_latency` for every rank but the first whose messages come in by the busiest port. Links
//! with an extra latency or another capacity than 1 are slower or faster than that, which tells steps within a host from
//! steps between hosts. Ranks that take turns on the cores of one host are another matter, see [`CostModel::cores`].

use serde::{Deserialize, Serialize};

use super::incast::DEFAULT_INCAST_LATENCY;
use super::step::{ScheduleCost, StepCost};
use crate::units::{Bytes, Seconds};

/// What it takes to start a step, unless told otherwise: posting a message and noticing that it arrived.
pub const DEFAULT_STEP_LATENCY: Seconds = 0.5e-6;

/// What the network and the software are assumed to be like. The default is [`DEFAULT_STEP_LATENCY`],
/// [`DEFAULT_INCAST_LATENCY`] and the topology's own links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Start-up time of every step (alpha), paid once however many messages it has.
    pub step_latency: Seconds,
    /// What every further message that a rank sends or receives in the same step costs; 0 unless told otherwise, as if
    /// ports were served by hardware of their own.
    #[serde(default)]
    pub message_latency: Seconds,
    /// What every further rank adds that sends to the same port in the same step, ranks of the same host aside (see
    /// [`StepCost::incast`]). Models that were stored before there was such a term do without.
    #[serde(default)]
    pub incast_latency: Seconds,
    /// Time per hop, besides links' extra latency; `None` takes the latencies of the topology's links.
    pub hop_latency: Option<Seconds>,
    /// Bytes per second of every link of capacity 1; `None` takes the bandwidths of the topology's links.
    pub bandwidth: Option<f64>,
    /// Seconds that a rank takes to reduce one byte (gamma); 0 unless told otherwise.
    #[serde(default)]
    pub reduce_cost: Seconds,
    /// Whether what arrives is reduced while more arrives, so that of a step's transfer and its reduction only the longer
    /// one counts; else they follow each other.
    #[serde(default)]
    pub overlapped: bool,
    /// For ranks that share memory and take turns on so many cores. Then the cores share out what all ranks do, though
    /// nothing takes less than the busiest rank needs for its part: every message costs `message_latency`, half of it the
    /// sender and half the receiver, every byte that is sent a copy at `bandwidth`, and every byte that is reduced
    /// `reduce_cost`. Nothing passes a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// With `cores`: the ranks have hosts of their own, which one machine emulates. The cores then share out messages and
    /// reductions only. Bytes pass links, and `bandwidth` is that of links.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_links: bool,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            step_latency: DEFAULT_STEP_LATENCY,
            message_latency: 0.0,
            incast_latency: DEFAULT_INCAST_LATENCY,
            hop_latency: None,
            bandwidth: None,
            reduce_cost: 0.0,
            overlapped: false,
            cores: None,
            over_links: false,
        }
    }
}

impl CostModel {
    /// How long the schedule takes for a vector of `bytes`.
    pub fn seconds(&self, cost: &ScheduleCost, bytes: Bytes) -> Seconds {
        self.fixed(cost) + self.per_byte(cost) * bytes as f64
    }

    /// The part that does not depend on the bytes.
    pub fn fixed(&self, cost: &ScheduleCost) -> Seconds {
        let latency = |step: &StepCost| match self.hop_latency {
            Some(hop_latency) => step.hops as f64 * hop_latency + step.extra_latency,
            None => step.latency,
        };
        let messages = |step: &StepCost| {
            let busiest = step.messages as f64 / 2.0;
            self.shared_out(step.all.messages as f64, busiest)
                .unwrap_or(step.messages.saturating_sub(1) as f64)
        };
        let incast = if self.is_in_memory() { 0.0 } else { self.incast_latency };
        let further = |step: &StepCost| messages(step) * self.message_latency + step.incast as f64 * incast;
        cost.steps.iter().map(|step| self.step_latency + further(step) + latency(step)).sum()
    }

    /// Whether bytes are copied in the memory of one host instead of sent over links.
    fn is_in_memory(&self) -> bool {
        self.cores.is_some() && !self.over_links
    }

    /// What each core has to do of what all ranks do, where they take turns: no less than the busiest one does.
    pub(crate) fn shared_out(&self, all: f64, busiest: f64) -> Option<f64> {
        self.cores.map(|cores| (all / cores as f64).max(busiest))
    }

    /// The seconds that each byte of the vector adds.
    pub fn per_byte(&self, cost: &ScheduleCost) -> Seconds {
        let per_byte = |step: &StepCost| {
            let transfer = match self.bandwidth {
                Some(bandwidth) => {
                    let copies = self.shared_out(step.all.sent, step.copied);
                    copies.filter(|_| self.is_in_memory()).unwrap_or(step.link_load) / bandwidth
                }
                None => step.seconds_per_byte,
            };
            let reduced = self.shared_out(step.all.reduced, step.reduced).unwrap_or(step.reduced);
            let reduction = reduced * self.reduce_cost;
            if self.overlapped {
                transfer.max(reduction)
            } else {
                transfer + reduction
            }
        };
        cost.steps.iter().map(per_byte).sum()
    }
}
