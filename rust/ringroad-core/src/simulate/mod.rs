//! The flow simulator: it drives the executors of all ranks over a model of the network.
//!
//! It runs the same plans in the same [`crate::executor::Executor`] as the runtime. Messages take time but carry no
//! data:
//!
//! - A message first takes its start-up time, and then its links: all links of its route at the same time with
//!   cut-through, or one hop after the other where nodes store messages before they forward them. Its bytes are split
//!   over paths as in [`crate::topology::Routes`]. It is sent at one rate, its fair share of the most contended of its
//!   links (see `fair`). It arrives one route latency after its last byte has left.
//! - Messages by one port to the same peer leave one after the other.
//! - A rank's processor performs one reduction after the other, at `reduce_cost` seconds per byte. Copies take no time.
//! - Messages between ranks that share memory (`hosts:2x4`) take the links to and from the memory, as in the cost
//!   model. Zero-copy reads, by which the runtime saves time, are not simulated.
//!
//! The coefficients are those of the [`CostModel`], which computes the same times without simulating events. In
//! synchronous steps both agree if fair shares keep the most loaded link of every step busy to the end of the step, and
//! if messages are those of the schedule (not cut, and not left out because they are empty). At free pace ranks
//! pipeline and do not wait for each other.
//!
//! A simulation is deterministic: the same arguments give the same bits on every machine.

mod agenda;
mod fair;
mod paths;
mod record;
mod run;
mod scenario;
mod traffic;

use std::sync::Arc;

use serde::Serialize;

use crate::collective::Collective;
use crate::cost::{CostModel, Inlets};
use crate::plan::{Command, Counts, LowerError, LowerOptions, Plan, PlannedCommand};
use crate::schedule::{Schedule, VerifyError};
use crate::synthesis::{Budget, Spent};
use crate::topology::{Link, Topology};
use crate::trace::Trace;
use crate::units::{Bytes, LinkId, NodeId, Rank, Seconds};

pub use scenario::{Scenario, ScenarioError};

use record::SimulationRecord;
use run::SimulationRun;
use traffic::Traffic;

/// The default of [`Simulator::eager`], in bytes.
pub const DEFAULT_EAGER: usize = 8 << 10;

/// Whether ranks wait for each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// Synchronous steps, as the cost model assumes. The messages of a step leave together, when the slowest rank has
    /// started its messages, and arrive together. The next step starts when the slowest rank has finished its
    /// reductions. With [`CostModel::overlapped`], ranks have then already reduced for as long as the transfer took.
    #[default]
    Synchronous,
    /// As in the runtime: every operation starts as soon as the operations that it depends on have completed. Each
    /// message has its own start-up time of `step_latency`. A rank starts messages, and accepts messages, at least
    /// `message_latency` apart, and accepts messages of different ranks by the same port at least `incast_latency`
    /// apart. Reductions overlap transfers wherever messages are cut into segments, whatever [`CostModel::overlapped`]
    /// is.
    Free,
}

/// When nodes forward messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// While they arrive.
    #[default]
    CutThrough,
    /// When they have arrived completely.
    StoreAndForward,
}

/// The parameters of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulator {
    /// The coefficients of network and software.
    pub model: CostModel,
    /// Whether ranks wait for each other.
    pub pace: Pace,
    /// When nodes forward messages.
    pub forwarding: Forwarding,
    /// The longest eager message, in bytes. A longer message leaves only when its receiver has posted its receive
    /// (rendezvous). Without effect in synchronous steps.
    pub eager: usize,
    /// The options of lowering.
    pub lowering: LowerOptions,
    /// Whether to record the timeline and the loads of each step, which takes memory for every message.
    pub details: bool,
}

impl Default for Simulator {
    fn default() -> Self {
        Simulator {
            model: CostModel::default(),
            pace: Pace::default(),
            forwarding: Forwarding::default(),
            eager: DEFAULT_EAGER,
            lowering: LowerOptions::default(),
            details: true,
        }
    }
}

/// The result of a simulation. All times are in seconds from its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename = "OutcomeReport")]
pub struct Outcome {
    /// When the last rank finished.
    pub seconds: Seconds,
    /// When each rank finished.
    pub finished: Vec<Seconds>,
    /// When the last operation of each step completed; 0 for a step without operations.
    pub step_ends: Vec<Seconds>,
    /// How many messages were sent.
    pub messages: usize,
    /// The bytes that each link carried.
    pub loads: Vec<f64>,
    /// For each step, the bytes that each link carried, without links that carried nothing. Empty without details.
    #[serde(skip)]
    pub step_loads: Vec<Vec<(LinkId, f64)>>,
    /// The timeline. Empty without details; reductions that took no time are left out.
    #[serde(skip)]
    pub trace: Trace,
}

/// The bytes that a link carried in a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkLoad {
    /// The step of the schedule.
    pub step: usize,
    /// The link.
    pub link: LinkId,
    /// The node where the link starts.
    pub source: NodeId,
    /// The node where it ends.
    pub target: NodeId,
    /// What it carried.
    pub bytes: f64,
    /// How long that takes at the link's bandwidth.
    pub seconds: Seconds,
}

impl Outcome {
    /// For each step the link that needs the longest time, of equal links the first; `None` for a step in which no link
    /// carried anything, and without details.
    pub fn busiest_links(&self, topology: &Topology, model: &CostModel) -> Vec<Option<LinkLoad>> {
        let mut busiest: Vec<Option<LinkLoad>> = vec![None; self.step_ends.len()];
        for load in self.link_loads(topology, model) {
            if busiest[load.step].is_none_or(|most| load.seconds > most.seconds) {
                busiest[load.step] = Some(load);
            }
        }
        busiest
    }

    /// The bytes of every link in every step, with the times that they take by this model. Empty without details.
    pub fn link_loads(&self, topology: &Topology, model: &CostModel) -> Vec<LinkLoad> {
        let load = |(step, &(link, bytes)): (usize, &(LinkId, f64))| {
            let Link { source, target, bandwidth, capacity, .. } = topology.links()[link];
            let seconds = bytes / (model.bandwidth.unwrap_or(bandwidth) * capacity);
            LinkLoad { step, link, source, target, bytes, seconds }
        };
        let steps = self.step_loads.iter().enumerate();
        steps.flat_map(|(step, loads)| loads.iter().map(move |one| (step, one))).map(load).collect()
    }

    /// The link that carried the most bytes, and how many; `None` where there are no links.
    pub fn busiest_link(&self) -> Option<(LinkId, f64)> {
        let loads = self.loads.iter().copied().enumerate();
        loads.reduce(|most, link| if link.1 > most.1 { link } else { most })
    }
}

/// Why a simulation is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The schedule does not perform its collective.
    #[error(transparent)]
    Schedule(#[from] VerifyError),
    /// The schedule is for more ranks than the topology has.
    #[error("the schedule {name:?} is for {ranks} ranks, but {topology} has {available}; give a topology with at least {ranks}")]
    TooFewRanks {
        /// The schedule's name.
        name: String,
        /// How many ranks the schedule has.
        ranks: usize,
        /// The topology's spec.
        topology: String,
        /// How many ranks the topology has.
        available: usize,
    },
    /// The vector of an all-to-all cannot be divided into equal blocks.
    #[error("an all-to-all over {ranks} ranks has blocks of equal size, but {bytes} bytes are not divisible by {ranks}; use {} bytes", bytes.div_ceil(*ranks as u64) * *ranks as u64)]
    Indivisible {
        /// The vector's length.
        bytes: Bytes,
        /// How many ranks there are.
        ranks: usize,
    },
    /// A plan cannot be made.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The scenario does not fit the network.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The caller has ended it.
    #[error(transparent)]
    Spent(#[from] Spent),
    /// No path is left between ranks that exchange messages.
    #[error("{}", cut_off(topology, failed, pairs))]
    CutOff {
        /// The topology's spec.
        topology: String,
        /// The ends of the failed links.
        failed: Vec<(NodeId, NodeId)>,
        /// The pairs of a source and a destination without a path.
        pairs: Vec<(Rank, Rank)>,
    },
}

/// How many pairs, and how many links, an error names.
const NAMED: usize = 4;

fn cut_off(topology: &str, failed: &[(NodeId, NodeId)], pairs: &[(Rank, Rank)]) -> String {
    let list = |all: Vec<String>| match all.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", all[..NAMED].join(", ")),
        _ => all.join(", "),
    };
    let cannot = list(
        pairs.iter().map(|(source, target)| format!("rank {source} cannot reach rank {target}")).collect(),
    );
    let mut failed = failed.to_vec();
    failed.dedup();
    if failed.is_empty() {
        return format!("on {topology} {cannot}");
    }
    let links = list(failed.iter().map(|(source, target)| format!("{source}→{target}")).collect());
    format!("on {topology} without the links {links}, {cannot}; use an algorithm that does not need these routes, or let fewer links fail")
}

impl Simulator {
    /// Simulates `schedule` for a vector of `bytes` on `topology`, whose first ranks are the ranks of the schedule.
    pub fn run(
        &self,
        schedule: &Schedule,
        topology: &Topology,
        bytes: Bytes,
        scenario: &Scenario,
    ) -> Result<Outcome, SimulationError> {
        self.run_within(schedule, topology, bytes, scenario, Budget::UNLIMITED)
    }

    /// The same, as long as the caller lets it go on.
    pub fn run_within(
        &self,
        schedule: &Schedule,
        topology: &Topology,
        bytes: Bytes,
        scenario: &Scenario,
        budget: Budget<'_>,
    ) -> Result<Outcome, SimulationError> {
        schedule.verify()?;
        let (ranks, available) = (schedule.ranks, topology.ranks());
        if ranks > available {
            let (name, topology) = (schedule.name.clone(), topology.spec());
            return Err(SimulationError::TooFewRanks { name, ranks, topology, available });
        }
        let plans = self.plans(schedule, bytes)?;
        self.run_plans(schedule, topology, plans, scenario, budget)
    }

    /// Simulates a schedule that is known to perform its collective, unless it sends more than `most` messages.
    pub(crate) fn run_if_short(
        &self,
        schedule: &Schedule,
        topology: &Topology,
        bytes: Bytes,
        most: usize,
    ) -> Result<Option<Outcome>, SimulationError> {
        let plans = self.plans(schedule, bytes)?;
        let is_send = |operation: &&PlannedCommand| matches!(operation.command, Command::Send { .. });
        let sends = |plan: &Arc<Plan>| plan.operations().iter().filter(is_send).count();
        if plans.iter().map(sends).sum::<usize>() > most {
            return Ok(None);
        }
        self.run_plans(schedule, topology, plans, &Scenario::default(), Budget::UNLIMITED).map(Some)
    }

    fn run_plans(
        &self,
        schedule: &Schedule,
        topology: &Topology,
        plans: Vec<Arc<Plan>>,
        scenario: &Scenario,
        budget: Budget<'_>,
    ) -> Result<Outcome, SimulationError> {
        let conditions = scenario.resolve(topology, schedule.ranks)?;
        // Finding routes is fastest with all routes to one destination in a row.
        let talks = |(rank, plan): (Rank, &Arc<Plan>)| -> Vec<(Rank, Rank)> {
            plan.peers().iter().flat_map(|peer| [(*peer, rank), (rank, *peer)]).collect()
        };
        let mut pairs: Vec<(Rank, Rank)> = plans.iter().enumerate().flat_map(talks).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let paths = paths::find(topology, &conditions.failed, &pairs, &self.model, self.forwarding)?;
        let capacity = |(link, speed): (&crate::topology::Link, &f64)| {
            self.model.bandwidth.unwrap_or(link.bandwidth) * link.capacity * speed
        };
        let traffic = Traffic::new(paths, topology.links().iter().zip(&conditions.speed).map(capacity));
        let record = SimulationRecord::new(self.details, schedule, topology.links().len());
        Ok(SimulationRun::new(self, plans, &conditions, Inlets::new(topology), traffic, record)
            .finish(budget)?)
    }

    /// The plans of all ranks, for elements of one byte.
    pub fn plans(&self, schedule: &Schedule, bytes: Bytes) -> Result<Vec<Arc<Plan>>, SimulationError> {
        let Schedule { ranks, collective, .. } = *schedule;
        let too_large = LowerError::TooLarge { elements: usize::MAX, element_bytes: 1 };
        let bytes_here = usize::try_from(bytes).map_err(|_| too_large)?;
        // Blocks differ by at most one byte.
        let start = |rank: usize| (bytes_here as u128 * rank as u128 / ranks.max(1) as u128) as usize;
        let blocks: Vec<usize> = (0..ranks).map(|rank| start(rank + 1) - start(rank)).collect();
        let counts = match collective {
            _ if !collective.has_blocks() => Counts::Equal(bytes_here),
            _ if bytes_here.is_multiple_of(ranks) => Counts::Equal(bytes_here / ranks),
            Collective::Alltoall => return Err(SimulationError::Indivisible { bytes, ranks }),
            _ => Counts::PerBlock(&blocks),
        };
        let lower = |rank| Plan::lower(schedule, rank, counts, 1, &self.lowering).map(Arc::new);
        Ok((0..ranks).map(lower).collect::<Result<_, _>>()?)
    }
}
