//! Which network of the catalogue a graph is, and which of its positions each rank has.

mod candidates;
mod damaged;
mod factors;
mod isomorphism;
mod shape;

use damaged::damaged;
use isomorphism::{find, StepBudget};
pub(super) use shape::Recognised;
use shape::SimpleGraph;

use crate::topology::Topology;

/// For how many steps graphs are compared, and how many more for each node: a few dozen milliseconds for 64 ranks.
const STEPS: [usize; 2] = [500_000, 8_000];

/// The network of the catalogue that has this wiring, and whether the search for it ended early. If ranks have the right
/// numbers on one network, this is taken; otherwise the first that is the same but for the numbers. A ring is always one.
pub(super) fn recognise(graph: &Topology, has_memories: bool) -> (Option<Recognised>, bool) {
    let shape = SimpleGraph::from_topology(graph);
    let mut budget = StepBudget(STEPS[0] + STEPS[1] * shape.nodes());
    let mut bases = Vec::new();
    for spec in candidates::specs(&shape, has_memories) {
        let Ok(base) = Topology::parse(&spec) else { continue };
        let candidate = SimpleGraph::from_topology(&base);
        let similar = candidate.nodes() == shape.nodes() && candidate.edges() == shape.edges();
        if !similar || candidate.degrees() != shape.degrees() {
            continue;
        }
        let keep = !spec.starts_with("ring:");
        if let Some(place) = find(&shape, &candidate, keep, &mut budget) {
            return (Some(Recognised { base, place }), false);
        }
        bases.push((base, candidate));
    }
    let mut profiles: Option<Vec<Vec<(usize, usize)>>> = None;
    for (base, candidate) in bases {
        let known =
            profiles.get_or_insert_with(|| (0..shape.ranks).map(|rank| shape.profile(rank)).collect());
        if !known.contains(&candidate.profile(0)) {
            continue;
        }
        if let Some(place) = find(&shape, &candidate, false, &mut budget) {
            return (Some(Recognised { base, place }), false);
        }
    }
    let found = damaged(&shape);
    let is_early = found.is_none() && budget.is_spent();
    (found, is_early)
}
