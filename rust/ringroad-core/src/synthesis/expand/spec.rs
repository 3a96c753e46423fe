//! Schedules for graphs whose specs say which smaller graphs they are made of.

use super::{allreduce, load, ExpandError, Expansion};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::synthesis::{bfb, Budget, Digraph, Unsuitable};
use crate::topology::{operands, Topology};

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

/// The most ranks of an expanded schedule, since it is written out for all of them.
pub const MOST_RANKS: usize = 512;

/// Whether the topology's spec names an expansion (`line(...)`, `degree(...)`, `power(...)`, `bidirectional(...)`) of a
/// graph whose schedules can be expanded.
pub fn is_suitable(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS
        && made_of(topology).is_some_and(|(_, base)| bfb::is_suitable(&base).is_ok())
}

/// Whether an expanded schedule may be better than breadth-first broadcast: not if that one loads links as little as
/// any schedule can.
pub fn may_help(topology: &Topology) -> bool {
    is_suitable(topology)
        && bfb::costs(topology).is_ok_and(|costs| costs.iter().any(|cost| !cost.is_optimal()))
}

/// The schedule of the graph that the topology's spec says it is made of, expanded. Assumes that all links are alike.
/// For reduce-scatter, allgather, and allreduce as one after the other.
pub fn schedule(name: &str, topology: &Topology, collective: Collective) -> Result<Schedule, ExpandError> {
    schedule_within(name, topology, collective, Budget::UNLIMITED)
}

/// As [`schedule`], as long as `budget` allows.
pub fn schedule_within(
    name: &str,
    topology: &Topology,
    collective: Collective,
    budget: Budget<'_>,
) -> Result<Schedule, ExpandError> {
    if collective == Collective::Allreduce {
        let phase = |collective| schedule_within(name, topology, collective, budget);
        return Ok(allreduce(&phase(Collective::ReduceScatter)?, &phase(Collective::Allgather)?)?);
    }
    let (expansion, base) = made_of(topology).ok_or_else(|| ExpandError::Plain(topology.spec()))?;
    expansion.onto(topology, &base, &best(name, &base, collective, budget)?, budget)
}

/// The schedule that loads links the least: breadth-first broadcast, which never takes more steps, or, if the spec
/// names an expansion, the expanded one.
pub(super) fn best(
    name: &str,
    topology: &Topology,
    collective: Collective,
    budget: Budget<'_>,
) -> Result<Schedule, ExpandError> {
    let direct = bfb::schedule_within(name, topology, collective, budget)?;
    if !may_help(topology) {
        return Ok(direct);
    }
    let network = Digraph::from_topology(topology);
    Ok(match schedule_within(name, topology, collective, budget) {
        Ok(expanded) if load(&expanded, &network) < load(&direct, &network) => expanded,
        Err(ExpandError::Unsuitable(Unsuitable::Spent(spent))) => return Err(Unsuitable::Spent(spent).into()),
        // Too large to be written out, for example.
        _ => direct,
    })
}
