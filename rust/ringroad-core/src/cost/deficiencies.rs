//! How far a schedule is from the optimum in steps, bytes and shared links.
//!
//! De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024, arXiv 2401.09356, section 2.2. There the time of an allreduce of
//! n bytes among p ranks on a torus of D dimensions is `log2(p) · alpha · Λ + n / D · beta · Ψ · Ξ`. Here the three
//! factors are counted from the schedule and its routes, step by step, so that the formula holds exactly. Erratum: for
//! algorithms that exchange whole vectors, the table of the paper lists as Ξ a bound of the whole product Ψ · Ξ.

use serde::{Deserialize, Serialize};

use super::step::ScheduleCost;
use crate::collective::Collective;
use crate::topology::Topology;

/// The factors by which a schedule exceeds the optimum; 1 is optimal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Deficiencies {
    /// Λ: the number of steps divided by log2 of the number of ranks.
    pub latency: f64,
    /// Ψ: what the busiest port of each step sends, summed over the steps, divided by what a port would send if the
    /// bytes that every rank must send were spread over all ports: n / D for an allreduce, half of it for other
    /// collectives. (The exact optimum is a p-th less, so an optimal schedule has Ψ = 1 - 1/p.)
    pub bandwidth: f64,
    /// Ξ: what the most loaded link of each step carries, summed over the steps, divided by the sum in Ψ. It is larger
    /// than 1 where messages share links.
    pub congestion: f64,
    /// Ψ · Ξ: what the most loaded link of each step carries, summed over the steps, in the unit of Ψ.
    pub worst_link: f64,
}

impl ScheduleCost {
    /// The deficiencies of the schedule of `collective` for all ranks of `topology` that has this cost. Ranks that are
    /// not on a grid have one port each, which makes D one half.
    pub fn deficiencies(&self, collective: Collective, topology: &Topology) -> Deficiencies {
        let wide = topology.dimensions().iter().filter(|size| **size > 1).count();
        let ports = if wide > 0 { 2 * wide } else { 1 };
        let phases = if collective == Collective::Allreduce { 2.0 } else { 1.0 };
        let unit = phases / ports as f64;
        let ratio = |value: f64, optimum: f64| if value == optimum { 1.0 } else { value / optimum };
        let steps = self.steps.len() as f64;
        let sent: f64 = self.steps.iter().map(|step| step.port_load).sum();
        let carried = self.link_load();
        Deficiencies {
            latency: ratio(steps, (topology.ranks() as f64).log2()),
            bandwidth: sent / unit,
            congestion: ratio(carried, sent),
            worst_link: carried / unit,
        }
    }
}
