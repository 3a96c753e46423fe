//! All algorithms for a collective with their exact costs, one after the other. The runtime does the same with several
//! threads, and keeps schedules in files.

use super::{simulate, SelectionError};
use crate::algorithms::{self, Member};
use crate::collective::Collective;
use crate::cost::{Candidate, CostModel, ScheduleCost};
use crate::topology::{Routes, Topology};

/// All algorithms that can perform `collective` on `topology`, with their costs, in catalogue order. Algorithms for which
/// no schedule is found for the graph are left out, unless there is no other.
pub fn candidates(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
) -> Result<Vec<Candidate>, SelectionError> {
    let members = algorithms::available(topology, collective);
    let mut routes = Routes::new(topology);
    let mut found = Vec::new();
    for member in &members {
        match candidate(topology, *member, collective, &mut routes) {
            Err(_) if members.len() > 1 && member.is_made_for_graph(collective) => {}
            candidate => found.push(candidate?),
        }
    }
    let schedule = |member: Member| member.build(topology, collective.with_root(0)).ok();
    simulate(topology, model, collective, &mut found, schedule);
    Ok(found)
}

fn candidate(
    topology: &Topology,
    member: Member,
    collective: Collective,
    routes: &mut Routes<'_>,
) -> Result<Candidate, SelectionError> {
    let cost = ScheduleCost::in_turn(&member.parts(topology, collective)?, routes)?;
    Ok(Candidate::new(member, cost, member.bit_identical(topology, collective)))
}
