//! From a call to the plan that performs it: which algorithm, and what this rank has to do.
//!
//! Rank 0 makes the choice once, when the communicator is made: for every collective a table that says from how many
//! bytes on which algorithm is the cheapest. The others take over its tables, so that differing settings or rounding
//! cannot lead to differing choices.

use std::collections::HashMap;
use std::sync::Arc;

use ringroad_core::algorithms::{self, Algorithm};
use ringroad_core::cost::{Candidate, CostModel, ScheduleCost, SwitchRange, SwitchTable};
use ringroad_core::plan::LowerOptions;
use ringroad_core::topology::Routes;
use ringroad_core::{Bytes, Collective, Plan, Rank, Schedule, Topology};
use serde::{Deserialize, Serialize};

use crate::config::Algorithms;
use crate::error::{Error, Result};

/// Plans kept for calls to come. A training loop repeats a few hundred.
const PLANS: usize = 2048;

/// What rank 0 decided for everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The network.
    pub topology: Topology,
    /// What it is assumed to be like.
    pub model: CostModel,
    /// The most bytes in one message.
    pub segment: usize,
    /// A table for each collective (with root 0).
    tables: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Choice {
    collective: Collective,
    /// Among the algorithms that leave the same bits on all ranks in floating point.
    consistent: SwitchTable,
    /// Among all: for data that comes out the same in any order.
    any: SwitchTable,
}

/// All algorithms that can perform `collective` on `topology`, with their costs, in catalogue order.
pub fn candidates(topology: &Topology, collective: Collective) -> Result<Vec<Candidate>> {
    let ranks = topology.ranks();
    let mut routes = Routes::new(topology);
    algorithms::available(ranks, collective)
        .map(|algorithm| {
            let cost = ScheduleCost::with_routes(&algorithm.build(ranks, collective)?, &mut routes)?;
            Ok(Candidate { name: algorithm.name.to_owned(), cost, consistent: algorithm.consistent(ranks) })
        })
        .collect()
}

impl Choices {
    /// Chooses. `preferences` restrict the candidates; a preferred algorithm need not be consistent.
    pub fn make(
        topology: Topology,
        model: CostModel,
        segment: usize,
        preferences: &Algorithms,
    ) -> Result<Choices> {
        let tables = Collective::ALL.into_iter().map(|collective| {
            let all = candidates(&topology, collective)?;
            let wanted = allowed(&topology, collective, &all, preferences)?;
            let table = |some: &[Candidate]| SwitchTable::build(&model, some).map_err(Error::from);
            let any = table(&wanted)?;
            let consistent: Vec<Candidate> = wanted.iter().filter(|c| c.consistent).cloned().collect();
            let consistent = if consistent.is_empty() { any.clone() } else { table(&consistent)? };
            Ok(Choice { collective, consistent, any })
        });
        let tables = tables.collect::<Result<_>>()?;
        Ok(Choices { topology, model, segment, tables })
    }

    fn table(&self, collective: Collective, any_order: bool) -> &SwitchTable {
        let choice = self
            .tables
            .iter()
            .find(|t| t.collective == collective.with_root(0))
            .expect("there is a table for every collective");
        if any_order {
            &choice.any
        } else {
            &choice.consistent
        }
    }

    /// The algorithm for a vector of `bytes`. `any_order`: whether the result does not depend on the order of
    /// reduction, as for integers.
    pub fn pick(&self, collective: Collective, bytes: Bytes, any_order: bool) -> &str {
        self.table(collective, any_order).pick(bytes)
    }

    /// From how many bytes on which algorithm is chosen for floating-point data.
    pub fn switch_points(&self, collective: Collective) -> &[SwitchRange] {
        self.table(collective, false).ranges()
    }
}

/// The candidates that the preferences allow.
fn allowed(
    topology: &Topology,
    collective: Collective,
    all: &[Candidate],
    preferences: &Algorithms,
) -> Result<Vec<Candidate>> {
    let names = preferences.preferred(collective);
    let Some(first) = names.first() else { return Ok(all.to_vec()) };
    let wanted: Vec<Candidate> = all.iter().filter(|c| names.contains(&c.name.as_str())).cloned().collect();
    if wanted.is_empty() {
        // Say why the first one named cannot be had.
        algorithms::find(first)?.supports(topology.ranks(), collective)?;
    }
    Ok(wanted)
}

/// Everything that a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub collective: Collective,
    pub elements: usize,
    pub element_bytes: usize,
    pub any_order: bool,
    pub in_place: bool,
    pub premultiply: bool,
    pub average: bool,
    /// Chosen by the caller, instead of by the tables.
    pub algorithm: Option<&'static str>,
}

/// A plan, and the algorithm it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub algorithm: Arc<str>,
    pub plan: Arc<Plan>,
}

pub(crate) struct Planner {
    rank: Rank,
    pub choices: Choices,
    schedules: HashMap<(&'static str, Collective), Arc<Schedule>>,
    plans: HashMap<Key, Planned>,
}

impl Planner {
    pub fn new(rank: Rank, choices: Choices) -> Planner {
        Planner { rank, choices, schedules: HashMap::new(), plans: HashMap::new() }
    }

    /// The plan for a call, made now or kept from an earlier one.
    pub fn plan(&mut self, key: &Key) -> Result<Planned> {
        if let Some(planned) = self.plans.get(key) {
            return Ok(planned.clone());
        }
        let ranks = self.choices.topology.ranks();
        let blocks = key.collective.blocks_per_vector(ranks);
        let bytes = (key.elements * key.element_bytes * blocks) as Bytes;
        let name = key.algorithm.unwrap_or_else(|| self.choices.pick(key.collective, bytes, key.any_order));
        let algorithm = algorithms::find(name)?;
        let schedule = self.schedule(algorithm, key.collective)?;
        let options = LowerOptions {
            in_place: key.in_place,
            premultiply: key.premultiply,
            average: key.average,
            segment: self.choices.segment,
            ..LowerOptions::default()
        };
        let plan = Plan::lower(&schedule, self.rank, key.elements, key.element_bytes, &options)?;
        let planned = Planned { algorithm: algorithm.name.into(), plan: Arc::new(plan) };
        if self.plans.len() >= PLANS {
            self.plans.clear();
        }
        self.plans.insert(*key, planned.clone());
        Ok(planned)
    }

    /// The verified schedule of `algorithm`.
    fn schedule(&mut self, algorithm: &'static Algorithm, collective: Collective) -> Result<Arc<Schedule>> {
        if let Some(schedule) = self.schedules.get(&(algorithm.name, collective)) {
            return Ok(schedule.clone());
        }
        let schedule = Arc::new(algorithm.build(self.choices.topology.ranks(), collective)?);
        schedule.verify()?;
        self.schedules.insert((algorithm.name, collective), schedule.clone());
        Ok(schedule)
    }
}
