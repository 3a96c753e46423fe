//! The flow simulator: the executors of all ranks, driven over a model of the network.
//!
//! It runs what the runtime runs (plans, lowered from the schedule, in the same [`crate::executor::Executor`]), where
//! messages take time instead of carrying data:
//!
//! - A message of `b` bytes first takes its start-up, and then its links: all links of its route at once while it cuts
//!   through, or one hop after the other where nodes store messages before they pass them on. Its bytes are split over
//!   shortest paths as [`crate::topology::Routes`] says, and it leaves at one rate, its fair share of the most contended
//!   of its links (see `fair`). The route's latency after its last byte has left, it is there.
//! - Messages by one port to the same peer leave one after the other.
//! - A rank's processor reduces one piece after the other, at `reduce_cost` seconds per byte. Copies are free.
//! - Each rank has a processor of its own, unless the model says that they share some cores. Then each message keeps a core
//!   busy for `message_latency`, half of it at the sender and half at the receiver, and so do reductions for their time.
//! - Ranks that share memory (`hosts:2x4`) send each other messages over the links to it and from it, as the cost model
//!   has it. What the runtime saves by reading where data lies is not simulated.
//!
//! What the network and the software are like is said by the [`CostModel`], which is the same model without the course
//! of events. In synchronous steps both agree wherever fair shares keep the most loaded link of every step busy to the
//! step's end, and messages are those of the schedule (neither cut nor left out because they are empty). Running freely,
//! ranks pipeline and do not wait for each other.
//!
//! Nothing is left to chance: the same arguments give the same bits, on every machine.

mod agenda;
mod fair;
mod paths;
mod record;
mod run;
mod scenario;
mod traffic;

use std::sync::Arc;

use crate::collective::Collective;
use crate::cost::{CostModel, Inlets};
use crate::plan::{Counts, LowerError, LowerOptions, Plan};
use crate::schedule::{Schedule, VerifyError};
use crate::topology::Topology;
use crate::trace::Trace;
use crate::units::{Bytes, LinkId, NodeId, Rank, Seconds};

pub use scenario::{Scenario, ScenarioError};

use record::Record;
use run::Run;
use traffic::Traffic;

/// Longer messages wait for their receiver, unless told otherwise.
pub const DEFAULT_EAGER: usize = 8 << 10;

/// Whether ranks wait for each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// As the cost model assumes: the messages of a step leave together when the slowest rank has started its own, and
    /// arrive together, and the next step begins when the slowest rank has reduced what it got. If the model says that
    /// transfers and reductions overlap, ranks have then reduced for as long as the transfer took.
    #[default]
    Synchronous,
    /// As the runtime does: every operation begins as soon as what it depends on is done. Each message has a start-up of
    /// its own of `step_latency`, and messages that a rank starts, or takes, follow each other by `message_latency`,
    /// and those that other ranks send to one of its ports by `incast_latency`.
    /// Reductions overlap transfers wherever messages are cut into segments, whatever the model says.
    Free,
}

/// How nodes pass messages on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// As they come.
    #[default]
    CutThrough,
    /// When they are complete.
    StoreAndForward,
}

/// How to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulator {
    /// What the network and the software are like.
    pub model: CostModel,
    /// Whether ranks wait for each other.
    pub pace: Pace,
    /// How nodes pass messages on.
    pub forwarding: Forwarding,
    /// Longer messages do not leave before their receiver has room for them. Without effect in synchronous steps.
    pub eager: usize,
    /// How plans are made.
    pub lowering: LowerOptions,
    /// Whether to keep the timeline and the loads of each step, which takes memory for every message.
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

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// When the last rank was done.
    pub seconds: Seconds,
    /// When each rank was done.
    pub finished: Vec<Seconds>,
    /// When each step's last operation was done; 0 where it has none.
    pub step_ends: Vec<Seconds>,
    /// How many messages were sent.
    pub messages: usize,
    /// The bytes that each link carried.
    pub loads: Vec<f64>,
    /// The same for each step, without the links that carried nothing. Empty without details.
    pub step_loads: Vec<Vec<(LinkId, f64)>>,
    /// What happened when. Empty without details; reductions that took no time are left out.
    pub trace: Trace,
}

impl Outcome {
    /// The link with the most bytes, and how many; `None` where there are no links.
    pub fn busiest_link(&self) -> Option<(LinkId, f64)> {
        let loads = self.loads.iter().copied().enumerate();
        loads.reduce(|most, link| if link.1 > most.1 { link } else { most })
    }
}

/// Why there is nothing to simulate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The schedule does not perform its collective.
    #[error(transparent)]
    Schedule(#[from] VerifyError),
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
    /// The vector cannot be divided or is too long.
    #[error("{bytes} bytes are not divisible by {ranks} ranks, each of which gets a block of equal size in an all-to-all; take {} bytes", bytes.div_ceil(*ranks as u64) * *ranks as u64)]
    Indivisible {
        /// The vector's length.
        bytes: Bytes,
        /// How many ranks.
        ranks: usize,
    },
    /// A plan cannot be made.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// What goes wrong does not fit the network.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// No way is left between ranks that talk to each other.
    #[error("{}", cut_off(topology, failed, pairs))]
    CutOff {
        /// The topology's spec.
        topology: String,
        /// The ends of the links that failed.
        failed: Vec<(NodeId, NodeId)>,
        /// Who cannot send to whom.
        pairs: Vec<(Rank, Rank)>,
    },
}

/// So many are named in an error.
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
    format!("on {topology} without the links {links}, {cannot}; take an algorithm that does not need these ways, or let fewer links fail")
}

impl Simulator {
    /// Runs `schedule` for a vector of `bytes` on `topology`, whose first ranks are the schedule's.
    pub fn run(
        &self,
        schedule: &Schedule,
        topology: &Topology,
        bytes: Bytes,
        scenario: &Scenario,
    ) -> Result<Outcome, SimulationError> {
        schedule.verify()?;
        let (ranks, available) = (schedule.ranks, topology.ranks());
        if ranks > available {
            let (name, topology) = (schedule.name.clone(), topology.spec());
            return Err(SimulationError::TooFewRanks { name, ranks, topology, available });
        }
        let conditions = scenario.resolve(topology, ranks)?;
        let plans = self.plans(schedule, bytes)?;
        // All ways to one destination in a row, which is what finding them is fast at.
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
        let record = Record::new(self.details, schedule, topology.links().len());
        Ok(Run::new(self, plans, &conditions, Inlets::new(topology), traffic, record).finish())
    }

    /// Every rank's plan, for elements of one byte.
    fn plans(&self, schedule: &Schedule, bytes: Bytes) -> Result<Vec<Arc<Plan>>, SimulationError> {
        let Schedule { ranks, collective, .. } = *schedule;
        let too_large = LowerError::TooLarge { elements: usize::MAX, element_bytes: 1 };
        let bytes_here = usize::try_from(bytes).map_err(|_| too_large)?;
        // As equal as they can be.
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
