//! Selects the algorithms to measure: of those with the same cost and the same operations, only the first.

use super::SelectionError;
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::cost::{Candidate, ScheduleCost, StepCost};
use crate::plan::{Command, LocalRanks, LowerOptions, Plan};
use crate::topology::Topology;

/// The kind, bytes and operands of all operations, in ascending order.
type OperationProfile = Vec<(u8, usize, usize)>;

/// Whether two costs are equal, except for rounding, whatever the coefficients of the model are.
fn alike(a: &ScheduleCost, b: &ScheduleCost) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let same = |(a, b): (&StepCost, &StepCost)| {
        (a.messages, a.hops) == (b.messages, b.hops)
            && a.incast == b.incast
            && close(a.extra_latency, b.extra_latency)
            && close(a.link_load, b.link_load)
            && close(a.reduced, b.reduced)
            && close(a.copied, b.copied)
            && a.all.messages == b.all.messages
            && close(a.all.sent, b.all.sent)
            && close(a.all.reduced, b.all.reduced)
    };
    a.steps.len() == b.steps.len() && a.steps.iter().zip(&b.steps).all(same)
}

/// The operations of the first and the last rank for a vector of medium length. `all_local`: whether all ranks share
/// memory.
fn shape(
    topology: &Topology,
    collective: Collective,
    member: &Member,
    all_local: bool,
) -> Result<OperationProfile, SelectionError> {
    /// A multiple of all numbers of chunks into which the schedules of a few ranks divide a vector.
    const ELEMENTS: usize = 27_720;
    let schedule = member.build(topology, collective.with_root(0))?;
    let ranks = schedule.ranks;
    let local = LocalRanks { ranks: vec![all_local; ranks].into(), ..LocalRanks::default() };
    let options = LowerOptions { local, ..LowerOptions::default() };
    let mut shape = OperationProfile::new();
    for rank in [0, ranks - 1] {
        let plan = Plan::lower(&schedule, rank, ELEMENTS, 4, &options)?;
        shape.extend(plan.operations().iter().map(|operation| match operation.command {
            Command::Send { source, .. } => (0, source.bytes, 1),
            Command::Receive { target, .. } => (1, target.bytes, 1),
            Command::Expect { bytes, .. } => (2, bytes, 1),
            Command::Reduce { target, sources, also } => {
                (3, target.bytes, 2 * plan.sources(sources).len() + usize::from(also.is_some()))
            }
            Command::Copy { target, .. } => (4, target.bytes, 1),
            Command::Encode { source, .. } => (6, source.bytes, 1),
            Command::Decode { target, .. } => (7, target.bytes, 1),
            Command::Premultiply { .. } | Command::Average { .. } | Command::Release { .. } => (5, 0, 1),
        }));
    }
    shape.sort_unstable();
    Ok(shape)
}

/// The members to measure, in the order of the candidates: the first of each group of candidates that are alike.
pub fn distinct_candidates(
    topology: &Topology,
    collective: Collective,
    candidates: impl IntoIterator<Item = Candidate>,
    all_local: bool,
) -> Result<Vec<Member>, SelectionError> {
    let mut found: Vec<(Candidate, OperationProfile)> = Vec::new();
    for candidate in candidates {
        let shape = shape(topology, collective, &candidate.member, all_local)?;
        if !found.iter().any(|(other, s)| *s == shape && alike(&other.cost, &candidate.cost)) {
            found.push((candidate, shape));
        }
    }
    Ok(found.into_iter().map(|(candidate, _)| candidate.member).collect())
}
