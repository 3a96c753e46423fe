//! The link model: steps follow each other, and a step takes
//! `step_latency + hops · hop_latency + most loaded link's bytes / bandwidth + reduce_cost · bytes reduced` (or the longer
//! of the last two, if they are overlapped), `message_latency` for every message but the first that the busiest rank
//! sends or receives, and `incast_latency` for every rank but the first whose messages come in by the busiest port. Links with an extra latency or another capacity than 1 are slower or faster than that, which tells
//! steps within a host from steps between hosts. Ranks that take turns on the cores of one host are another matter, see
//! [`CostModel::cores`].
//!
//! Routes are minimal (see [`crate::topology::Routes`]). Everything is computed from the schedule itself, so that a
//! schedule from a file is judged like one of the library's own. All sums run in the order of the schedule: every
//! machine gets the same bits, and with them the same choice.

use serde::{Deserialize, Serialize};

use super::bound::Bounds;
use super::incast::{Inlets, DEFAULT_INCAST_LATENCY};
use super::traffic::{self, Totals};
use crate::collective::Collective;
use crate::plan::Counts;
use crate::schedule::{Schedule, Transfer, View};
use crate::topology::{Routes, Topology, Unreachable};
use crate::units::{Bytes, Rank, Seconds};

/// What it takes to start a step, unless told otherwise: posting a message and noticing that it arrived.
pub const DEFAULT_STEP_LATENCY: Seconds = 0.5e-6;

/// What the network and the software are assumed to be like. The default is [`DEFAULT_STEP_LATENCY`],
/// [`DEFAULT_INCAST_LATENCY`] and the topology's own links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Start-up time of every step (alpha), paid once however many messages it has.
    pub step_latency: Seconds,
    /// What every further message that a rank sends or receives in the same step costs; 0 unless told otherwise, as if
    /// ports were served by hardware of their own.
    #[serde(default)]
    pub message_latency: Seconds,
    /// What every further rank adds that sends to the same port in the same step, ranks of the same host aside (see
    /// [`StepCost::incast`]). Models that were stored before there was such a term do without.
    #[serde(default)]
    pub incast_latency: Seconds,
    /// Time per hop, besides links' extra latency; `None` takes the latencies of the topology's links.
    pub hop_latency: Option<Seconds>,
    /// Bytes per second of every link of capacity 1; `None` takes the bandwidths of the topology's links.
    pub bandwidth: Option<f64>,
    /// Seconds that a rank takes to reduce one byte (gamma); 0 unless told otherwise.
    #[serde(default)]
    pub reduce_cost: Seconds,
    /// Whether what arrives is reduced while more arrives, so that of a step's transfer and its reduction only the longer
    /// one counts; else they follow each other.
    #[serde(default)]
    pub overlapped: bool,
    /// For ranks that share memory and take turns on so many cores. Then the cores share out what all ranks do, though
    /// nothing takes less than the busiest rank needs for its part: every message costs `message_latency`, half of it the
    /// sender and half the receiver, every byte that is sent a copy at `bandwidth`, and every byte that is reduced
    /// `reduce_cost`. Nothing passes a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            step_latency: DEFAULT_STEP_LATENCY,
            message_latency: 0.0,
            incast_latency: DEFAULT_INCAST_LATENCY,
            hop_latency: None,
            bandwidth: None,
            reduce_cost: 0.0,
            overlapped: false,
            cores: None,
        }
    }
}

/// Why a schedule has no cost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// The schedule is for more ranks than there are.
    #[error("the schedule {name:?} is for {ranks} ranks, but {topology} has {available}; give a topology with at least {ranks}")]
    TooFewRanks {
        /// The schedule's name.
        name: String,
        /// Its ranks.
        ranks: usize,
        /// The topology's spec.
        topology: String,
        /// Its ranks.
        available: usize,
    },
    /// No vector, or a rank that the schedule does not have; [`Schedule::verify`] says more.
    #[error("the schedule {name:?} is malformed: {what}")]
    Malformed {
        /// The schedule's name.
        name: String,
        /// What does not fit.
        what: String,
    },
    /// A message has no way to its destination.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// The cost of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// How many messages the busiest rank sends, or receives.
    pub messages: usize,
    /// How many ranks send to a rank by its busiest port besides the first one, if those of other hosts spread evenly over
    /// the links that end there.
    #[serde(default)]
    pub incast: usize,
    /// The most hops that a message takes.
    pub hops: usize,
    /// The largest sum of link latencies on a message's way.
    pub latency: Seconds,
    /// The largest sum of extra latencies on a message's way.
    #[serde(default)]
    pub extra_latency: Seconds,
    /// What the most loaded link carries, in vectors; of what a link of greater capacity carries, as much less counts.
    pub link_load: f64,
    /// The largest time that a link needs for its load, per byte of the vector.
    pub seconds_per_byte: f64,
    /// What the busiest rank reduces, in vectors.
    pub reduced: f64,
    /// What the busiest port of a rank sends, in vectors. A rank behind a switch or on a host has one.
    #[serde(default)]
    pub port_load: f64,
    /// What the busiest rank copies where messages are read in their senders' memory, in vectors: what it sends to be
    /// reduced, and what it receives to keep it.
    #[serde(default)]
    pub copied: f64,
    /// What all ranks do.
    #[serde(default)]
    pub all: Work,
}

/// What all ranks do together in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// How many messages they send.
    pub messages: usize,
    /// What is in them, in vectors.
    pub sent: f64,
    /// What they reduce, in vectors.
    pub reduced: f64,
}

/// The cost of a schedule on a topology, for any number of bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduleCost {
    /// The cost of each step.
    pub steps: Vec<StepCost>,
    /// What the busiest link carries in all steps together, in vectors, as in [`StepCost::link_load`].
    pub busiest_link: f64,
}

impl ScheduleCost {
    /// The cost of `schedule` on `topology`, whose first ranks are the schedule's.
    pub fn of(schedule: &Schedule, topology: &Topology) -> Result<ScheduleCost, CostError> {
        ScheduleCost::with_routes(schedule, &mut Routes::new(topology))
    }

    /// As [`ScheduleCost::of`], with routes that other schedules on the same topology have found already.
    pub fn with_routes(schedule: &Schedule, routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        ScheduleCost::in_turn(std::slice::from_ref(schedule), routes)
    }

    /// As [`ScheduleCost::with_routes`], of schedules on vectors of as many chunks that are performed one after the other.
    pub fn in_turn(schedules: &[Schedule], routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        let vector = chunks_per_vector(schedules, routes.topology())?;
        let views: Vec<View<'_>> = schedules.iter().map(Schedule::view).collect();
        ScheduleCost::seen(&views, vector, routes)
    }

    /// As [`ScheduleCost::with_routes`], where the ranks' blocks have these lengths, in any unit. All figures are still in
    /// vectors, those of all blocks together. For reduce-scatter, allgather, gather and scatter, and for all-to-alls with the
    /// lengths of all pairs, by source, then by target, and figures in the mean of what ranks send.
    pub fn of_blocks(
        schedule: &Schedule,
        lengths: &[usize],
        routes: &mut Routes<'_>,
    ) -> Result<ScheduleCost, CostError> {
        check(schedule, routes.topology())?;
        let all = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length)).unwrap_or(0);
        let Schedule { ref name, collective, ranks, chunks, .. } = *schedule;
        if !Counts::PerBlock(lengths).fits(collective, ranks) || all == 0 {
            let what = format!(
                "{} lengths of blocks, {all} in all, are not those of {collective} over {ranks} ranks; give a length for \
                 each rank, of a reduce_scatter, allgather, gather or scatter, or for each pair, of an alltoall, and not 0 for all",
                lengths.len()
            );
            return Err(CostError::Malformed { name: name.clone(), what });
        }
        let written = schedule.expand();
        let vectors = if collective == Collective::Alltoall { ranks } else { 1 };
        let vector = (chunks / lengths.len()) as f64 * all as f64 / vectors as f64;
        ScheduleCost::seen(&[written.view_of_blocks(lengths)], vector, routes)
    }

    /// Of a vector of so many chunks, or of what the view counts instead.
    fn seen(views: &[View<'_>], vector: f64, routes: &mut Routes<'_>) -> Result<ScheduleCost, CostError> {
        let mut totals = Totals::new(routes);
        let (topology, mut steps) = (routes.topology(), Vec::new());
        for view in views {
            let alike = Alike::of(view);
            if routes.lattice().is_none() {
                // Ask for all routes to one destination in a row, which is what finding them is fast at.
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
            let links =
                |index: usize| traffic::of_step(view, index, vector, routes, &mut totals, alike.times[index]);
            steps.extend(alike.steps(view, topology, vector, links)?);
        }
        Ok(ScheduleCost { steps, busiest_link: totals.most(routes) / vector })
    }

    /// No more than the cost of these schedules in turn on the bounds' topology, and found without looking for routes: a
    /// message takes as many hops as there must be, and all links share the load alike.
    pub fn at_least(schedules: &[Schedule], bounds: &Bounds<'_>) -> Result<ScheduleCost, CostError> {
        let vector = chunks_per_vector(schedules, bounds.topology())?;
        let mut steps: Vec<StepCost> = Vec::new();
        for view in schedules.iter().map(Schedule::view) {
            let links = |index: usize| bounds.of_step(&view, index, vector);
            steps.extend(Alike::of(&view).steps(&view, bounds.topology(), vector, links)?);
        }
        let busiest_link = steps.iter().map(|step| step.link_load).sum();
        Ok(ScheduleCost { steps, busiest_link })
    }

    /// The hops of all steps' longest routes.
    pub fn hops(&self) -> usize {
        self.steps.iter().map(|s| s.hops).sum()
    }

    /// What the most loaded link of each step carries, summed over the steps, in vectors.
    pub fn link_load(&self) -> f64 {
        self.steps.iter().map(|s| s.link_load).sum()
    }
}

/// Which steps are alike, so that one tells what all of them cost.
struct Alike {
    /// For every step the first that is like it.
    first: Vec<usize>,
    /// How many are like it, of those that are first.
    times: Vec<usize>,
}

impl Alike {
    fn of(view: &View<'_>) -> Alike {
        let first = view.first_alike();
        let mut times = vec![0usize; first.len()];
        first.iter().for_each(|first| times[*first] += 1);
        Alike { first, times }
    }

    fn different(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.first.len()).filter(|index| self.first[*index] == *index)
    }

    /// What all steps cost; `links` says what one does as far as links are concerned.
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
            let incast = inlets.of_step(view, index);
            let [all_messages, all_sent, all_reduced] = view.all(index);
            let all = Work {
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

/// How many chunks the vector has that all these schedules are of.
fn chunks_per_vector(schedules: &[Schedule], topology: &Topology) -> Result<f64, CostError> {
    let Some(first) = schedules.first() else { return Ok(1.0) };
    let vector = first.chunks_per_vector();
    for schedule in schedules {
        check(schedule, topology)?;
        if schedule.chunks_per_vector() != vector {
            let what = format!(
                "its vector has {} chunks, and that of {:?} before it {vector}",
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
    // Costs only count: they need no set of ranks for every rank.
    schedule.check_named().map_err(|what| CostError::Malformed { name, what })?;
    Ok(())
}

impl CostModel {
    /// How long the schedule takes for a vector of `bytes`.
    pub fn seconds(&self, cost: &ScheduleCost, bytes: Bytes) -> Seconds {
        self.fixed(cost) + self.per_byte(cost) * bytes as f64
    }

    /// The part that does not depend on the bytes.
    pub fn fixed(&self, cost: &ScheduleCost) -> Seconds {
        let latency = |step: &StepCost| match self.hop_latency {
            Some(hop_latency) => step.hops as f64 * hop_latency + step.extra_latency,
            None => step.latency,
        };
        let messages = |step: &StepCost| {
            let busiest = step.messages as f64 / 2.0;
            self.shared_out(step.all.messages as f64, busiest)
                .unwrap_or(step.messages.saturating_sub(1) as f64)
        };
        let incast = if self.cores.is_some() { 0.0 } else { self.incast_latency };
        let further = |step: &StepCost| messages(step) * self.message_latency + step.incast as f64 * incast;
        cost.steps.iter().map(|step| self.step_latency + further(step) + latency(step)).sum()
    }

    /// What each core has to do of what all ranks do, where they take turns: no less than the busiest one does.
    fn shared_out(&self, all: f64, busiest: f64) -> Option<f64> {
        self.cores.map(|cores| (all / cores as f64).max(busiest))
    }

    /// The seconds that each byte of the vector adds.
    pub fn per_byte(&self, cost: &ScheduleCost) -> Seconds {
        let per_byte = |step: &StepCost| {
            let transfer = match self.bandwidth {
                Some(bandwidth) => {
                    self.shared_out(step.all.sent, step.copied).unwrap_or(step.link_load) / bandwidth
                }
                None => step.seconds_per_byte,
            };
            let reduced = self.shared_out(step.all.reduced, step.reduced).unwrap_or(step.reduced);
            let reduction = reduced * self.reduce_cost;
            if self.overlapped {
                transfer.max(reduction)
            } else {
                transfer + reduction
            }
        };
        cost.steps.iter().map(per_byte).sum()
    }
}
