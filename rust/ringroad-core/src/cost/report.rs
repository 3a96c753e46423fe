//! What the cost model says of schedules, as data for users.

use serde::Serialize;

use super::deficiencies::Deficiencies;
use super::model::CostModel;
use super::select::Ranked;
use super::step::ScheduleCost;
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// The cost of a schedule on a network for a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// The time of the schedule.
    pub seconds: Seconds,
    /// The part of the time that does not depend on the bytes.
    pub fixed: Seconds,
    /// What each byte of the vector adds.
    pub per_byte: Seconds,
    /// The number of steps.
    pub steps: usize,
    /// The hops of the longest route of each step, summed over the steps.
    pub hops: usize,
    /// What the most loaded link of each step carries, summed over the steps, as a fraction of the message.
    pub link_load: f64,
    /// What the most loaded link carries over the whole schedule, as a fraction of the message.
    pub max_link_load: f64,
    /// [`Deficiencies::latency`].
    pub latency_deficiency: f64,
    /// [`Deficiencies::bandwidth`].
    pub bandwidth_deficiency: f64,
    /// [`Deficiencies::congestion`].
    pub congestion_deficiency: f64,
    /// [`Deficiencies::worst_link`].
    pub worst_link: f64,
}

/// The cost of an algorithm among those of others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename = "Candidate")]
pub struct CandidateCost {
    /// The algorithm.
    pub algorithm: Member,
    /// Whether all ranks end with the same bits after a sum of floats.
    pub bit_identical: bool,
    /// The time, in units of the time of the fastest.
    pub ratio: f64,
    /// As in [`Cost`], like all that follow.
    pub seconds: Seconds,
    /// As in [`Cost`].
    pub fixed: Seconds,
    /// As in [`Cost`].
    pub per_byte: Seconds,
    /// As in [`Cost`].
    pub steps: usize,
    /// As in [`Cost`].
    pub hops: usize,
    /// As in [`Cost`].
    pub link_load: f64,
    /// As in [`Cost`].
    pub max_link_load: f64,
    /// As in [`Cost`].
    pub latency_deficiency: f64,
    /// As in [`Cost`].
    pub bandwidth_deficiency: f64,
    /// As in [`Cost`].
    pub congestion_deficiency: f64,
    /// As in [`Cost`].
    pub worst_link: f64,
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

impl CandidateCost {
    /// The cost of a candidate that has this place among the others.
    pub fn new(ranked: &Ranked<'_>, cost: Cost) -> CandidateCost {
        CandidateCost {
            algorithm: ranked.candidate.member,
            bit_identical: ranked.candidate.bit_identical,
            ratio: ranked.ratio,
            seconds: ranked.seconds,
            fixed: cost.fixed,
            per_byte: cost.per_byte,
            steps: cost.steps,
            hops: cost.hops,
            link_load: cost.link_load,
            max_link_load: cost.max_link_load,
            latency_deficiency: cost.latency_deficiency,
            bandwidth_deficiency: cost.bandwidth_deficiency,
            congestion_deficiency: cost.congestion_deficiency,
            worst_link: cost.worst_link,
        }
    }
}
