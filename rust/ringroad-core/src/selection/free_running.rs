//! Finds out what the best candidates take where ranks run freely, by simulation.
//!
//! Costs add up steps. The simulator lets every rank begin an operation as soon as it can, as the runtime does. That takes
//! time for every message, so only candidates that are among the best by their costs are simulated, for a few sizes, and
//! only while ranks and messages are few. The limits count messages, not time: all machines find the same.

use std::collections::BTreeMap;

use crate::algorithms::Member;
use crate::collective::Collective;
use crate::cost::{Candidate, CostModel, Trial};
use crate::schedule::Schedule;
use crate::simulate::{Pace, Simulator};
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// The sizes for which candidates are simulated.
pub const SIMULATED_SIZES: [Bytes; 9] =
    [8, 256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// From this many ranks on nothing is simulated.
const MANY: usize = 128;
/// The most messages of all simulations for one collective and size, on few ranks.
const MOST_MESSAGES: usize = 10_000;
/// The same, times the number of ranks: messages among many ranks take longer to simulate.
const MOST_MESSAGES_OF_RANKS: usize = 120_000;
/// So many of the cheapest candidates are simulated first.
const CHEAPEST: usize = 8;
/// The part of the start-ups of steps that is not hidden behind other steps, however well a schedule overlaps them.
const START_UP: f64 = 0.05;

/// Whether anything is simulated for calls on this network. Where ranks take turns on the cores of one host, the cost of
/// the cores' work decides.
pub fn runs_freely(topology: &Topology, model: &CostModel) -> bool {
    (2..MANY).contains(&topology.ranks()) && !model.is_in_memory()
}

/// About what a candidate takes at best: the busiest link's work in all steps, and a part of the start-ups.
fn least(model: &CostModel, candidate: &Candidate, bytes: Bytes) -> Seconds {
    let cost = &candidate.cost;
    let (all, busiest) = (cost.link_load(), cost.busiest_link);
    let overlapped = if all > 0.0 { (busiest / all).min(1.0) } else { 1.0 };
    START_UP * model.fixed(cost) + overlapped * model.per_byte(cost) * bytes as f64
}

/// The places of the candidates that may be the fastest for `bytes`, in the order in which they are simulated: first some of
/// the cheapest, then those that may take the least.
pub fn promising(model: &CostModel, candidates: &[Candidate], bytes: Bytes) -> Vec<usize> {
    let sorted = |mut places: Vec<usize>, seconds: &dyn Fn(&Candidate) -> Seconds| {
        places.sort_by(|a, b| seconds(&candidates[*a]).total_cmp(&seconds(&candidates[*b])));
        places
    };
    // Floats are given to candidates alone that give all ranks the same bits.
    let some = |identical: bool| {
        (0..candidates.len()).filter(move |place| candidates[*place].bit_identical == identical)
    };
    let mut order = Vec::new();
    for identical in [true, false] {
        let places = sorted(some(identical).collect(), &|one| model.seconds(&one.cost, bytes));
        let Some(first) = places.first() else { continue };
        let limit = model.seconds(&candidates[*first].cost, bytes);
        let (cheapest, others) = places.split_at(places.len().min(CHEAPEST));
        order.extend_from_slice(cheapest);
        let others = others.iter().copied().filter(|place| least(model, &candidates[*place], bytes) < limit);
        order.extend(sorted(others.collect(), &|one| least(model, one, bytes)));
    }
    order
}

/// Simulates the best candidates by their costs. `schedule` returns the schedule of a member, if it can be made.
pub fn simulate(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    candidates: &mut [Candidate],
    mut schedule: impl FnMut(Member) -> Option<Schedule>,
) {
    if !runs_freely(topology, model) || candidates.len() < 2 {
        return;
    }
    let simulator = Simulator { model: *model, pace: Pace::Free, details: false, ..Simulator::default() };
    let collective = collective.with_root(0);
    let mut schedules: BTreeMap<Member, Option<Schedule>> = BTreeMap::new();
    for size in SIMULATED_SIZES {
        // Blocks of an all-to-all have equal lengths.
        let ranks = topology.ranks() as Bytes;
        let bytes = if collective.has_blocks() { size.div_ceil(ranks) * ranks } else { size };
        let mut trials = vec![Trial::Hopeless; candidates.len()];
        let mut left = MOST_MESSAGES.min(MOST_MESSAGES_OF_RANKS / topology.ranks());
        // The shortest time so far of all candidates, and of those that give all ranks the same bits.
        let mut shortest = [f64::INFINITY; 2];
        for place in promising(model, candidates, size) {
            let candidate = &candidates[place];
            let identical = usize::from(candidate.bit_identical);
            if least(model, candidate, bytes) >= shortest[identical] {
                continue;
            }
            let messages: usize = candidate.cost.steps.iter().map(|step| step.all.messages).sum();
            if messages > left {
                trials[place] = Trial::TooLong;
                continue;
            }
            let made = schedules.entry(candidate.member).or_insert_with(|| schedule(candidate.member));
            let run = made.as_ref().map(|made| simulator.run_if_short(made, topology, bytes, left));
            let Some(Ok(Some(outcome))) = run else {
                trials[place] = Trial::TooLong;
                continue;
            };
            left -= outcome.messages.min(left);
            shortest[..=identical].iter_mut().for_each(|least| *least = least.min(outcome.seconds));
            let ratio = outcome.seconds / model.seconds(&candidate.cost, bytes);
            trials[place] = if ratio.is_finite() { Trial::Simulated(ratio) } else { Trial::TooLong };
        }
        // Longer pipelines of a family overlap as those do that were simulated.
        let steps = |place: &usize| candidates[*place].cost.steps.len();
        for place in (0..trials.len()).filter(|place| trials[*place] == Trial::TooLong).collect::<Vec<_>>() {
            let family = |other: usize| candidates[other].member.algorithm().name;
            let is_like = |other: &usize| {
                matches!(trials[*other], Trial::Simulated(_)) && family(*other) == family(place)
            };
            let longest = (0..trials.len()).filter(is_like).max_by_key(steps);
            trials[place] = longest.map_or(Trial::TooLong, |other| trials[other]);
        }
        for (candidate, trial) in candidates.iter_mut().zip(trials) {
            candidate.free.insert(size, trial);
        }
    }
}
