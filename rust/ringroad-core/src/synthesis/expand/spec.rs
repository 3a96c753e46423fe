//! Schedules of graphs whose specs say what they are made of.

use super::{allreduce, load, ExpandError, Expansion};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::synthesis::{bfb, Network, Ratio};
use crate::topology::{operands, Topology};
use crate::units::{Bytes, Seconds};

/// What a schedule is chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// What every step takes in addition.
    pub alpha: Seconds,
    /// The vector.
    pub bytes: Bytes,
    /// Bytes per second of a rank, over all its links.
    pub bandwidth: f64,
}

impl Workload {
    /// So many steps, with a bandwidth term in units of vector / bandwidth.
    pub fn seconds(&self, steps: usize, term: Ratio) -> Seconds {
        steps as f64 * self.alpha + term.to_f64() * self.bytes as f64 / self.bandwidth
    }
}

/// The expansion by which the topology is made, and of what, as its spec says: `line(ring:4)`.
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

/// The schedule that takes the least time: breadth-first broadcast, or where the topology's spec says that it is made of
/// another one by an expansion (`line(...)`, `degree(...)`, `power(...)`, `bidirectional(...)`) the best schedule of
/// that one expanded. All links are taken to be alike. Reduce-scatter, allgather, or allreduce as one after the other.
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
