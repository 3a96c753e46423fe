//! What the cost model says of schedules, as data for users.

use serde::Serialize;

use super::candidate::Candidate;
use super::deficiencies::Deficiencies;
use super::model::CostModel;
use super::select::Ranked;
use super::step::ScheduleCost;
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// `Cost`, and `CandidateCost` with the same fields behind those of a candidate.
macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// The cost of a schedule on a network for a number of bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
        pub struct Cost {
            $($(#[$doc])* pub $field: $type,)*
        }

        /// The cost of an algorithm among those of others.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(rename = "Candidate")]
        pub struct CandidateCost {
            /// The algorithm.
            pub algorithm: Member,
            /// Whether all ranks end with the same bits after a sum of floats.
            pub bit_identical: bool,
            /// What it takes where ranks run freely, by simulation; `None` where that was not simulated.
            pub free_seconds: Option<Seconds>,
            /// The time where ranks run freely, if that is known, otherwise the cost, in units of that of the fastest.
            pub ratio: f64,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl CandidateCost {
            /// The cost of a candidate that has this place among the others.
            pub fn new(ranked: &Ranked<'_>, cost: Cost) -> CandidateCost {
                let Candidate { member: algorithm, bit_identical, .. } = *ranked.candidate;
                let Ranked { free_seconds, ratio, .. } = *ranked;
                CandidateCost { algorithm, bit_identical, free_seconds, ratio, $($field: cost.$field,)* }
            }
        }
    };
}

costs! {
    /// The time of the schedule.
    seconds: Seconds,
    /// The part of the time that does not depend on the bytes.
    fixed: Seconds,
    /// What each byte of the vector adds.
    per_byte: Seconds,
    /// The number of steps.
    steps: usize,
    /// The hops of the longest route of each step, summed over the steps.
    hops: usize,
    /// What the most loaded link of each step carries, summed over the steps, as a fraction of the message.
    link_load: f64,
    /// What the most loaded link carries over the whole schedule, as a fraction of the message.
    max_link_load: f64,
    /// [`Deficiencies::latency`].
    latency_deficiency: f64,
    /// [`Deficiencies::bandwidth`].
    bandwidth_deficiency: f64,
    /// [`Deficiencies::congestion`].
    congestion_deficiency: f64,
    /// [`Deficiencies::worst_link`].
    worst_link: f64,
}

impl CostModel {
    /// The cost of a schedule of `collective` on a network.
    pub fn cost(
        &self,
        cost: &ScheduleCost,
        collective: Collective,
        topology: &Topology,
        bytes: Bytes,
    ) -> Cost {
        let Deficiencies { latency, bandwidth, congestion, worst_link } =
            cost.deficiencies(collective, topology);
        Cost {
            seconds: self.seconds(cost, bytes),
            fixed: self.fixed(cost),
            per_byte: self.per_byte(cost),
            steps: cost.steps.len(),
            hops: cost.hops(),
            link_load: cost.link_load(),
            max_link_load: cost.busiest_link,
            latency_deficiency: latency,
            bandwidth_deficiency: bandwidth,
            congestion_deficiency: congestion,
            worst_link,
        }
    }
}
