//! From a call to the plan that performs it: which algorithm, and what this rank has to do.
//!
//! Rank 0 makes the choice once, when the communicator is made: for every collective a table that says from how many
//! bytes on which algorithm is the cheapest. The others take over its tables, so that differing settings or rounding
//! cannot lead to differing choices.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use ringroad_core::algorithms::{self, Member};
use ringroad_core::cost::{Candidate, CostModel, ScheduleCost, SwitchRange, SwitchTable};
use ringroad_core::plan::{Counts, LowerOptions, Near, MAX_MESSAGES};
use ringroad_core::topology::Routes;
use ringroad_core::{Bytes, Collective, Plan, Rank, Schedule, Topology};
use serde::{Deserialize, Serialize};

use crate::cache::CacheMode;
use crate::config::Algorithms;
use crate::error::{Error, Result};

/// Plans kept for calls to come. A training loop repeats a few hundred.
const PLANS: usize = 2048;

/// The most bytes in one message between ranks that share memory: what is reduced, and what is copied for others to
/// read, stays in a core's own cache.
const NEAR_SEGMENT: usize = 128 << 10;
/// From so many bytes on waiting until others have read takes less time than a copy for them.
pub(crate) const LEND: usize = 32 << 10;

/// What rank 0 decided for everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The network.
    pub topology: Topology,
    /// What it is assumed to be like.
    pub model: CostModel,
    /// The most bytes in one message.
    pub segment: usize,
    /// The most bytes of a vector at a time.
    pub part: usize,
    /// Whether the ranks of a host share a cache, by and large.
    pub cache: CacheMode,
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
    costs(topology, collective, algorithms::available(topology, collective))
}

/// From so many ranks on it pays to share the work out among the cores.
const SHARED_WORK: usize = 1024;

fn costs(topology: &Topology, collective: Collective, members: Vec<Member>) -> Result<Vec<Candidate>> {
    let candidate = |member: &Member, routes: &mut Routes<'_>| {
        let cost = ScheduleCost::with_routes(&member.build(topology, collective)?, routes)?;
        Ok(Candidate { name: member.name(), cost, consistent: member.consistent(topology, collective) })
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if topology.ranks() < SHARED_WORK || cores == 1 {
        let mut routes = Routes::new(topology);
        return members.iter().map(|member| candidate(member, &mut routes)).collect();
    }
    // Whoever is free takes the next one. What a candidate costs does not depend on who takes it.
    let next = AtomicUsize::new(0);
    let work = || {
        let mut routes = Routes::new(topology);
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(member) = members.get(place) else { return done };
            done.push((place, candidate(member, &mut routes)));
        }
    };
    let mut found: Vec<(usize, Result<Candidate>)> = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..cores.min(members.len())).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for helper in helpers {
            found.extend(helper.join().expect("costs do not panic"));
        }
        found
    });
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

impl Choices {
    /// Chooses. `preferences` restrict the candidates; a preferred algorithm need not be consistent.
    pub fn make(
        topology: Topology,
        model: CostModel,
        segment: usize,
        part: usize,
        cache: CacheMode,
        preferences: &Algorithms,
    ) -> Result<Choices> {
        let tables = Collective::ALL.into_iter().map(|collective| {
            let wanted = allowed(&topology, collective, preferences)?;
            if let [only] = wanted[..] {
                let table = SwitchTable::always(&only.name());
                return Ok(Choice { collective, consistent: table.clone(), any: table });
            }
            let mut wanted = costs(&topology, collective, wanted)?;
            // What has more steps may send a neighbour more messages than can be told apart.
            let runs = |candidate: &Candidate| candidate.cost.steps.len() <= MAX_MESSAGES as usize;
            if wanted.iter().any(runs) {
                wanted.retain(runs);
            }
            let table = |some: &[Candidate]| SwitchTable::build(&model, some).map_err(Error::from);
            let any = table(&wanted)?;
            let consistent: Vec<Candidate> = wanted.iter().filter(|c| c.consistent).cloned().collect();
            let consistent = if consistent.is_empty() { any.clone() } else { table(&consistent)? };
            Ok(Choice { collective, consistent, any })
        });
        let tables = tables.collect::<Result<_>>()?;
        Ok(Choices { topology, model, segment, part, cache, tables })
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

/// The algorithms that the preferences allow.
fn allowed(topology: &Topology, collective: Collective, preferences: &Algorithms) -> Result<Vec<Member>> {
    let all = algorithms::available(topology, collective);
    let preferred = preferences.preferred(collective);
    let Some(first) = preferred.first() else { return Ok(all) };
    let wanted: Vec<Member> =
        all.into_iter().filter(|member| preferred.iter().any(|p| p.covers(member))).collect();
    // A parameter may make sense without being worth trying.
    let more = preferred.iter().filter(|p| !wanted.iter().any(|w| p.covers(w)));
    let more: Vec<Member> = more.filter(|p| p.supports(topology, collective).is_ok()).copied().collect();
    let wanted = [wanted, more].concat();
    if wanted.is_empty() {
        // Say why the first one named cannot be had.
        first.supports(topology, collective)?;
    }
    Ok(wanted)
}

/// Everything that a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub collective: Collective,
    pub elements: usize,
    /// Elements of each rank's block, where they differ; `elements` does not count then.
    pub counts: Option<Arc<[usize]>>,
    pub element_bytes: usize,
    pub any_order: bool,
    pub in_place: bool,
    /// Whether near ranks can read the input and the output.
    pub readable: (bool, bool),
    pub premultiply: bool,
    pub average: bool,
    /// Chosen by the caller, instead of by the tables.
    pub algorithm: Option<Member>,
}

impl Key {
    pub fn counts(&self) -> Counts<'_> {
        Counts::of(self.elements, self.counts.as_deref())
    }
}

/// A plan, and the algorithm it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub algorithm: Arc<str>,
    pub plan: Arc<Plan>,
}

pub(crate) struct Planner {
    rank: Rank,
    /// For each rank whether it is near, or nothing where none is.
    near: Arc<[bool]>,
    pub choices: Choices,
    schedules: HashMap<(Member, Collective), Arc<Schedule>>,
    plans: HashMap<Key, Planned>,
    /// The last one asked for: calls repeat.
    latest: Option<(Key, Planned)>,
}

impl Planner {
    pub fn new(rank: Rank, near: Arc<[bool]>, choices: Choices) -> Planner {
        Planner { rank, near, choices, schedules: HashMap::new(), plans: HashMap::new(), latest: None }
    }

    /// The plan for a call, made now or kept from an earlier one.
    pub fn plan(&mut self, key: &Key) -> Result<Planned> {
        if let Some((_, planned)) = self.latest.as_ref().filter(|(latest, _)| latest == key) {
            return Ok(planned.clone());
        }
        let planned = match self.plans.get(key) {
            Some(planned) => planned.clone(),
            None => self.make_plan(key)?,
        };
        self.latest = Some((key.clone(), planned.clone()));
        Ok(planned)
    }

    fn make_plan(&mut self, key: &Key) -> Result<Planned> {
        let member = match key.algorithm {
            Some(member) => member,
            None => {
                let elements = key.counts().total(key.collective, self.choices.topology.ranks());
                let bytes = elements.and_then(|elements| elements.checked_mul(key.element_bytes));
                let bytes = bytes.unwrap_or(usize::MAX) as Bytes;
                algorithms::find(self.choices.pick(key.collective, bytes, key.any_order))?
            }
        };
        let schedule = self.schedule(member, key.collective)?;
        let options = LowerOptions {
            in_place: key.in_place,
            premultiply: key.premultiply,
            average: key.average,
            segment: self.choices.segment,
            part: self.choices.part,
            near: Near {
                ranks: self.near.clone(),
                segment: NEAR_SEGMENT,
                input: key.readable.0,
                output: key.readable.1,
                lend: LEND,
            },
            ..LowerOptions::default()
        };
        let plan = Plan::lower(&schedule, self.rank, key.counts(), key.element_bytes, &options)?;
        let planned = Planned { algorithm: member.name().into(), plan: Arc::new(plan) };
        if self.plans.len() >= PLANS {
            self.plans.clear();
        }
        self.plans.insert(key.clone(), planned.clone());
        Ok(planned)
    }

    /// The verified schedule of `member`.
    fn schedule(&mut self, member: Member, collective: Collective) -> Result<Arc<Schedule>> {
        if let Some(schedule) = self.schedules.get(&(member, collective)) {
            return Ok(schedule.clone());
        }
        let schedule = Arc::new(member.build(&self.choices.topology, collective)?);
        schedule.verify()?;
        self.schedules.insert((member, collective), schedule.clone());
        Ok(schedule)
    }
}
