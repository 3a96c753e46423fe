//! Schedules for graphs whose specs say which smaller graphs they are made of.

use super::{allreduce, load, ExpandError, Expansion};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::synthesis::{bfb, Network, Ratio};
use crate::topology::{operands, Topology};
use crate::units::{Bytes, Seconds};

/// The call for which a schedule is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// The start-up time of each step.
    pub alpha: Seconds,
    /// The size of the vector.
    pub bytes: Bytes,
    /// The bandwidth of a rank in bytes per second, over all its links.
    pub bandwidth: f64,
}

impl Workload {
    /// The time of `steps` steps with a bandwidth term in units of vector / bandwidth.
    pub fn seconds(&self, steps: usize, term: Ratio) -> Seconds {
        steps as f64 * self.alpha + term.to_f64() * self.bytes as f64 / self.bandwidth
    }
}

/// The expansion and the base graph that the topology's spec names, as in `line(ring:4)`; `None` for other specs.
fn made_of(topology: &Topology) -> Option<(Expansion, Topology)> {
    let spec = topology.spec();
    let (operator, operands, numbers) = operands(&spec)?;
    let number = || numbers.first()?.parse::<usize>().ok();
    let expansion = match operator {
        "line" => Expansion::Line,
        "bidirectional" => Expansion::Bidirectional,
        "degree" => Expansion::Degree(number()?),
        "power" => Expansion::Power(number()?),
        _ => return None,
    };
    Some((expansion, Topology::parse(operands[0]).ok()?))
}

/// The faster of two schedules: breadth-first broadcast, and, if the topology's spec names an expansion (`line(...)`,
/// `degree(...)`, `power(...)`, `bidirectional(...)`), the expanded best schedule of the base graph. Assumes that all
/// links are alike. For reduce-scatter, allgather, and allreduce as one after the other.
pub fn best(
    name: &str,
    topology: &Topology,
    collective: Collective,
    workload: &Workload,
) -> Result<Schedule, ExpandError> {
    if collective == Collective::Allreduce {
        let phase = |collective| best(name, topology, collective, workload);
        return Ok(allreduce(&phase(Collective::ReduceScatter)?, &phase(Collective::Allgather)?)?);
    }
    let direct = bfb::schedule(name, topology, collective)?;
    let Some((expansion, base)) = made_of(topology) else { return Ok(direct) };
    let expanded = expansion.onto(topology, &base, &best(name, &base, collective, workload)?)?;
    let network = Network::of(topology);
    let seconds = |schedule: &Schedule| {
        let term = load(schedule, &network) * Ratio::new(network.degree(), 1u64);
        workload.seconds(schedule.steps.len(), term)
    };
    Ok(if seconds(&expanded) < seconds(&direct) { expanded } else { direct })
}
