//! Computes what schedules cost on a topology.
//!
//! Messages take the topology's routes (see [`crate::topology::Routes`]). Everything is computed from the schedule
//! itself, so a schedule from a file is assessed like one of the library's own. All sums run in the order of the
//! schedule, so every machine gets the same bits and makes the same choice.

use super::bound::Bounds;
use super::incast::Inlets;
use super::step::{CostError, ScheduleCost, StepCost, StepTotals};
use super::traffic::{self, Totals};
use crate::collective::Collective;
use crate::plan::Counts;
use crate::schedule::{Schedule, Transfer, View};
use crate::topology::{Routes, Topology};
use crate::units::Rank;

impl ScheduleCost {
    /// The cost of `schedule` on `topology`, whose first ranks are the ranks of the schedule.
    pub fn from_schedule(schedule: &Schedule, topology: &Topology) -> Result<ScheduleCost, CostError> {
        ScheduleCost::with_routes(schedule, &mut Routes::new(topology))
    }

    /// As [`ScheduleCost::from_schedule`], with routes that can be reused for other schedules on the same topology.
    pub fn with_routes(schedule: &Schedule, routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        ScheduleCost::in_turn(std::slice::from_ref(schedule), routes)
    }

    /// As [`ScheduleCost::with_routes`], for schedules that are performed one after the other. Their vectors must have
    /// the same number of chunks.
    pub fn in_turn(schedules: &[Schedule], routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        let vector = chunks_per_vector(schedules, routes.topology())?;
        let views: Vec<View<'_>> = schedules.iter().map(Schedule::view).collect();
        ScheduleCost::seen(&views, vector, routes)
    }

    /// As [`ScheduleCost::with_routes`], for blocks with these lengths, in any unit. For reduce-scatter, allgather,
    /// gather and scatter there is a length for each rank, and the figures are fractions of all blocks together.
    /// For an all-to-all there is a length for each pair, by source, then by target, and the figures are fractions of
    /// what a rank sends on average. Blocks of length 0 are not sent, and steps without messages are left out.
    pub fn with_blocks(
        schedule: &Schedule,
        lengths: &[usize],
        routes: &mut Routes<'_>,
    ) -> Result<ScheduleCost, CostError> {
        check(schedule, routes.topology())?;
        let all = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length)).unwrap_or(0);
        let Schedule { ref name, collective, ranks, chunks, .. } = *schedule;
        if !Counts::PerBlock(lengths).fits(collective, ranks) || all == 0 {
            let what = format!(
                "{} block lengths with the sum {all} do not fit {collective} over {ranks} ranks; give a length for each rank (in a \
                 reduce_scatter, allgather, gather or scatter) or for each pair of ranks (in an alltoall), not all of them 0",
                lengths.len()
            );
            return Err(CostError::Malformed { name: name.clone(), what });
        }
        let per_block = chunks / lengths.len();
        let mut written = schedule.written(|set| set.iter().any(|chunk| lengths[chunk / per_block] > 0));
        written.steps.retain(|step| !step.sends.is_empty() || !step.locals.is_empty());
        let vectors = if collective == Collective::Alltoall { ranks } else { 1 };
        let vector = per_block as f64 * all as f64 / vectors as f64;
        ScheduleCost::seen(&[written.view_of_blocks(lengths)], vector, routes)
    }

    /// The cost of schedules on a vector of `vector` chunks, or of units that the views count instead.
    fn seen(views: &[View<'_>], vector: f64, routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        let mut totals = Totals::new(routes);
        let (topology, mut steps) = (routes.topology(), Vec::new());
        for view in views {
            let alike = StepClasses::from_view(view);
            if routes.lattice().is_none() {
                // Finding routes is fastest with all routes to one destination in a row.
                let mut pairs: Vec<(Rank, Rank)> = Vec::new();
                for step in alike.different() {
                    let unknown = |t: &Transfer| !routes.is_known(t.source, t.destination);
                    let transfers = view.transfers(step).into_iter().filter(unknown);
                    pairs.extend(transfers.map(|t| (t.destination, t.source)));
                }
                pairs.sort_unstable();
                pairs.dedup();
                for (destination, source) in pairs {
                    routes.route(source, destination)?;
                }
            }
            let links = |index: usize| {
                traffic::step_cost(view, index, vector, routes, &mut totals, alike.times[index])
            };
            steps.extend(alike.steps(view, topology, vector, links)?);
        }
        Ok(ScheduleCost { steps, busiest_link: totals.most(routes) / vector })
    }

    /// A lower bound of the cost of these schedules one after the other on the bounds' topology. It needs no routes: a
    /// message counts with the fewest possible hops, and all links share the load equally.
    pub fn at_least(schedules: &[Schedule], bounds: &Bounds<'_>) -> Result<ScheduleCost, CostError> {
        let vector = chunks_per_vector(schedules, bounds.topology())?;
        let mut steps: Vec<StepCost> = Vec::new();
        for view in schedules.iter().map(Schedule::view) {
            let links = |index: usize| bounds.step_cost(&view, index, vector);
            steps.extend(StepClasses::from_view(&view).steps(&view, bounds.topology(), vector, links)?);
        }
        let busiest_link = steps.iter().map(|step| step.link_load).sum();
        Ok(ScheduleCost { steps, busiest_link })
    }
}

/// What each link carries in each step of `schedule`, as a fraction of the message. Unlike the loads in a
/// [`StepCost`], it is not divided by the link's capacity.
pub fn link_loads(schedule: &Schedule, topology: &Topology) -> Result<Vec<Vec<f64>>, CostError> {
    check(schedule, topology)?;
    let (vector, view) = (schedule.chunks_per_vector() as f64, schedule.view());
    let routes = &mut Routes::new(topology);
    let load = |step: usize| -> Result<Vec<f64>, CostError> {
        let chunks = traffic::spread(&view.transfers(step), routes, |_| ())?;
        Ok(chunks.into_iter().map(|chunks| chunks / vector).collect())
    };
    (0..schedule.steps.len()).map(load).collect()
}

/// Which steps have the same cost, so that it is computed once.
struct StepClasses {
    /// For every step, the first step with the same cost.
    first: Vec<usize>,
    /// For every step that is the first, how many steps have its cost; 0 for the others.
    times: Vec<usize>,
}

impl StepClasses {
    fn from_view(view: &View<'_>) -> StepClasses {
        let first = view.first_alike();
        let mut times = vec![0usize; first.len()];
        first.iter().for_each(|first| times[*first] += 1);
        StepClasses { first, times }
    }

    fn different(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.first.len()).filter(|index| self.first[*index] == *index)
    }

    /// The costs of all steps. `links` returns the part of a step's cost that depends on links.
    fn steps(
        &self,
        view: &View<'_>,
        topology: &Topology,
        vector: f64,
        mut links: impl FnMut(usize) -> Result<StepCost, CostError>,
    ) -> Result<Vec<StepCost>, CostError> {
        let inlets = Inlets::new(topology);
        let mut steps = vec![StepCost::default(); self.first.len()];
        for index in self.different() {
            let cost = links(index)?;
            let port_load = traffic::busiest_port(view, index, topology) as f64 / vector;
            let (messages, reduced) = (view.messages(index), view.reduced(index) as f64 / vector);
            let incast = inlets.further_in_step(view, index);
            let [all_messages, all_sent, all_reduced] = view.all(index);
            let all = StepTotals {
                messages: all_messages,
                sent: all_sent as f64 / vector,
                reduced: all_reduced as f64 / vector,
            };
            let copied = view.copied(index) as f64 / vector;
            steps[index] = StepCost { messages, incast, reduced, port_load, copied, all, ..cost };
        }
        Ok(self.first.iter().map(|first| steps[*first]).collect())
    }
}

/// How many chunks the vector of these schedules has; an error where they differ.
fn chunks_per_vector(schedules: &[Schedule], topology: &Topology) -> Result<f64, CostError> {
    let Some(first) = schedules.first() else { return Ok(1.0) };
    let vector = first.chunks_per_vector();
    for schedule in schedules {
        check(schedule, topology)?;
        if schedule.chunks_per_vector() != vector {
            let what = format!(
                "its vector has {} chunks, but that of {:?}, the first schedule, has {vector}",
                schedule.chunks_per_vector(),
                first.name
            );
            return Err(CostError::Malformed { name: schedule.name.clone(), what });
        }
    }
    Ok(vector as f64)
}

fn check(schedule: &Schedule, topology: &Topology) -> Result<(), CostError> {
    let (name, ranks, available) = (schedule.name.clone(), schedule.ranks, topology.ranks());
    if ranks > available {
        return Err(CostError::TooFewRanks { name, ranks, topology: topology.spec(), available });
    }
    if ranks == 0 || schedule.chunks_per_vector() == 0 {
        let what = format!("{} chunks over {ranks} ranks leave nothing to send", schedule.chunks);
        return Err(CostError::Malformed { name, what });
    }
    // Not `check_indices`: unlike a replay, costs need no set of ranks for every rank.
    schedule.check_named().map_err(|what| CostError::Malformed { name, what })?;
    Ok(())
}
