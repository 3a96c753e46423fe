//! The link model. Steps follow each other, and the time of a step is the sum of
//!
//! - `step_latency`,
//! - `hops · hop_latency`, for the longest route,
//! - `bytes / bandwidth`, for the most loaded link, and `reduce_cost · bytes reduced`, for the busiest rank (only the
//!   longer of these two if they are overlapped),
//! - `message_latency`, for every message but the first that the busiest rank sends or receives,
//! - `incast_latency`, for every rank but the first whose messages arrive by the busiest port.
//!
//! Links with an extra latency take longer, and links with another capacity than 1 have another bandwidth; this
//! distinguishes steps within a host from steps between hosts. For ranks that share the cores of one host, see
//! [`CostModel::cores`].

use serde::{Deserialize, Serialize};

use super::incast::DEFAULT_INCAST_LATENCY;
use super::step::{ScheduleCost, StepCost};
use crate::units::{Bytes, Seconds};

/// The default time to start a step, in seconds: posting a message and noticing that it has arrived.
pub const DEFAULT_STEP_LATENCY: Seconds = 0.5e-6;

/// The coefficients of the cost model. The default has [`DEFAULT_STEP_LATENCY`], [`DEFAULT_INCAST_LATENCY`] and the
/// latencies and bandwidths of the topology's links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// The start-up time of a step (alpha), which counts once however many messages the step has.
    pub step_latency: Seconds,
    /// The time of every message but the first that a rank sends or receives in the same step. 0 by default, as if
    /// every port had hardware of its own.
    #[serde(default)]
    pub message_latency: Seconds,
    /// The time of every rank but the first that sends to the same port in the same step, except ranks of the same host
    /// (see [`StepCost::incast`]). 0 in models that were stored before this coefficient existed.
    #[serde(default)]
    pub incast_latency: Seconds,
    /// The time per hop, without the links' extra latencies. `None`: the latencies of the topology's links.
    pub hop_latency: Option<Seconds>,
    /// The bandwidth of every link of capacity 1, in bytes per second. `None`: the bandwidths of the topology's links.
    pub bandwidth: Option<f64>,
    /// The seconds that a rank takes to reduce one byte (gamma); 0 by default.
    #[serde(default)]
    pub reduce_cost: Seconds,
    /// The seconds that a rank takes to encode or decode one byte of the vector, where messages have a wire format.
    #[serde(default)]
    pub codec_cost: Seconds,
    /// Whether a step's reduction overlaps its transfer, so that only the longer of the two counts. Otherwise they
    /// follow each other.
    #[serde(default)]
    pub overlapped: bool,
    /// The number of cores, for ranks that share memory and take turns on these cores. The work of all ranks is then
    /// divided by the cores, but takes at least as long as the busiest rank's part. A message costs `message_latency`
    /// (half of it at the sender, half at the receiver), a byte that is sent is a copy at `bandwidth`, and a byte that
    /// is reduced costs `reduce_cost`. There is no incast.
    #[serde(default)]
    pub cores: Option<usize>,
    /// With `cores`: the ranks have hosts of their own, which one machine emulates. The cores then share out messages and
    /// reductions only. Bytes pass links, and `bandwidth` is that of links.
    #[serde(default)]
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
            codec_cost: 0.0,
            overlapped: false,
            cores: None,
            over_links: false,
        }
    }
}

impl CostModel {
    /// The seconds that the schedule takes for a vector of `bytes`.
    pub fn seconds(&self, cost: &ScheduleCost, bytes: Bytes) -> Seconds {
        self.fixed(cost) + self.per_byte(cost) * bytes as f64
    }

    /// The part of the seconds that does not depend on the bytes.
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
    pub(crate) fn is_in_memory(&self) -> bool {
        self.cores.is_some() && !self.over_links
    }

    /// The seconds that encoding and decoding add to a call of `ranks` ranks on a vector of `bytes`: in an allreduce, a
    /// rank encodes and decodes about twice its length.
    pub fn codec(&self, ranks: usize, bytes: Bytes) -> Seconds {
        let each = 4.0 * bytes as f64 * self.codec_cost;
        self.shared_out(ranks as f64 * each, each).unwrap_or(each)
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
