//! Computes what candidates cost, as far as it matters for the choice.
//!
//! On a large network most candidates are never chosen. Each starts with a lower bound of its cost that takes no time
//! to find. Only candidates that would win by their bounds are evaluated more closely: first their schedules are
//! made, which gives a better bound, then their routes are found. When the costs of all winners are exact, no other
//! candidate can win, whatever its cost. So the choice is the same as among all costs, and does not depend on the
//! speed of any thread, unless the time for schedules that are made for the graph runs out.
//!
//! Where ranks are placed on a network, candidates are judged by their schedules for the positions, which cost as much.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::algorithms::{Ground, Member};
use ringroad_core::cost::{Bounds, Candidate, CostModel, ScheduleCost, SwitchTable};
use ringroad_core::plan::MAX_MESSAGES;
use ringroad_core::selection::{promising, runs_freely, simulate, Contender, SIMULATED_SIZES};
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Routes;
use ringroad_core::{Bytes, Collective, Schedule, Topology};

use crate::choice::schedule_cache::{KnownSchedule, Schedules};
use crate::error::{Error, Result};
use crate::os::lock::Mutex;
use crate::os::messages::warn_once;

/// More bytes than any vector has: no processor's address space is larger. Candidates that would win only beyond this
/// do not matter.
const MOST_BYTES: Bytes = 1 << 48;

/// From this many ranks on it pays to compute bounds first.
const MANY: usize = 128;
/// From this many on, to share the work among the cores, too: each thread leaves megabytes that the C library keeps.
const SHARED: usize = 512;

/// How well the cost of a candidate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CostKnowledge {
    /// A lower bound for any schedule.
    Early,
    /// A lower bound for its schedule, whatever the routes.
    Built,
    Exact,
}

/// The candidates for a collective.
pub(crate) struct CandidateSet {
    pub collective: Collective,
    members: Vec<Member>,
    /// The candidates, with what is known about their costs.
    candidates: Vec<Candidate>,
    levels: Vec<CostKnowledge>,
    /// Their schedules, as the parts that they are composed of.
    schedules: Vec<Option<Arc<[Schedule]>>>,
    /// Digests of the schedules that were made for the graph.
    digests: Vec<Option<String>>,
    /// Those whose costs are needed even if they do not win.
    needed: BTreeSet<Member>,
    /// Those that are used only where a rule names them.
    by_rule: Vec<Member>,
}

/// Computes costs on a network.
pub(crate) struct Evaluator<'a> {
    topology: &'a Topology,
    /// Bounds on the network of the positions.
    bounds: Option<Bounds<'a>>,
    /// Whether routes are computed by formulas, so that bounds are no cheaper than costs.
    formulas: bool,
    /// On the network of the positions, one for each core.
    routes: Vec<Routes<'a>>,
    kept: &'a Schedules,
    start: Instant,
    /// The time for schedules that are made for the graph. Those that take longer are no candidates.
    budget: Option<Duration>,
}

/// The result of evaluating a candidate.
struct Look {
    cost: ScheduleCost,
    level: CostKnowledge,
    schedule: Option<Arc<[Schedule]>>,
    digest: Option<String>,
}

impl<'a> Evaluator<'a> {
    pub fn new(topology: &'a Topology, kept: &'a Schedules, budget: Option<Duration>) -> Evaluator<'a> {
        let start = Instant::now();
        let many = topology.ranks() >= MANY;
        let base = topology.base();
        let mut routes = vec![Routes::new(base)];
        let formulas = routes[0].have_formulas();
        routes.resize_with(if topology.ranks() < SHARED { 1 } else { cores() }, || Routes::new(base));
        let bounds = if many || topology.is_irregular() { Bounds::new(base) } else { None };
        Evaluator { topology, bounds, formulas, routes, kept, start, budget }
    }

    /// The candidates for `collective`, with bounds if those may save work. `by_rule`: those that are used only where a rule
    /// names them. `needed`: those whose costs are needed in any case.
    pub fn contest(
        &self,
        collective: Collective,
        mut members: Vec<Member>,
        by_rule: Vec<Member>,
        needed: BTreeSet<Member>,
    ) -> Result<CandidateSet> {
        members.extend(&by_rule);
        let (mut candidates, mut levels) = (Vec::new(), Vec::new());
        for member in &members {
            let bit_identical = member.bit_identical(self.topology, collective);
            let steps = match member.is_made_for_graph(collective) {
                true => None,
                false => Some(member.cost_line(self.topology, collective)?.steps),
            };
            let cost = match &self.bounds {
                Some(bounds) => bounds.collective_cost(collective, steps),
                None => {
                    ScheduleCost { steps: vec![Default::default(); steps.unwrap_or(0)], busiest_link: 0.0 }
                }
            };
            candidates.push(Candidate::new(*member, cost, bit_identical));
            levels.push(CostKnowledge::Early);
        }
        let count = members.len();
        let mut contest = CandidateSet {
            collective,
            members,
            candidates,
            levels,
            schedules: vec![None; count],
            digests: vec![None; count],
            needed,
            by_rule,
        };
        contest.drop_those_that_cannot_run();
        Ok(contest)
    }

    /// Evaluates candidates until the costs of all winners, and of all that are needed, are exact.
    pub fn settle(&mut self, model: &CostModel, contests: &mut [CandidateSet]) -> Result<()> {
        let mut late = Vec::new();
        loop {
            let mut open: Vec<(usize, usize)> = Vec::new();
            for (place, contest) in contests.iter().enumerate() {
                open.extend(self.open(model, contest)?.into_iter().map(|index| (place, index)));
            }
            if open.is_empty() {
                break;
            }
            let looks = self.evaluate_open(contests, &open);
            let mut gone = vec![BTreeSet::new(); contests.len()];
            for ((place, index), look) in open.into_iter().zip(looks) {
                let contest = &mut contests[place];
                let (member, only) = (contest.members[index], contest.members.len() == 1);
                match look {
                    Some(Ok(look)) => {
                        contest.record_look(index, look);
                    }
                    Some(Err(error)) if only || !member.is_made_for_graph(contest.collective) => {
                        return Err(error)
                    }
                    // A search that finds nothing is no error, unless it is the only candidate.
                    Some(Err(_)) => drop(gone[place].insert(member)),
                    None => {
                        late.push(format!("{} by {member}", contest.collective.name()));
                        gone[place].insert(member);
                    }
                }
            }
            for (contest, gone) in contests.iter_mut().zip(gone) {
                contest.retain(|candidate| !gone.contains(&candidate.member));
                contest.drop_those_that_cannot_run();
            }
        }
        if !late.is_empty() {
            let (seconds, topology) = (self.budget.unwrap_or_default().as_secs_f64(), self.topology);
            let text = format!(
                "choosing on {topology} leaves out {}: making schedules has taken the {seconds} s that it may; \
                 RINGROAD_BUDGET=synthesis=10s allows more",
                late.join(", ")
            );
            warn_once(&text, &text);
        }
        Ok(())
    }

    /// Simulates the best candidates of settled contests.
    pub fn simulate(&self, model: &CostModel, contests: &mut [CandidateSet]) {
        let Evaluator { topology, kept, .. } = *self;
        shared_out(&mut vec![(); cores()], contests, |contest, ()| {
            let collective = contest.collective;
            let schedule = |member| kept.schedule(topology, member, collective, 0, None).ok();
            simulate(topology, model, collective, &mut contest.candidates, schedule);
        });
    }

    /// The candidates of a contest to be evaluated next: winners by what is known, those to be simulated, and needed ones.
    /// Of those that are made for the graph only one at a time, as its cost may show that the others cannot win.
    fn open(&self, model: &CostModel, contest: &CandidateSet) -> Result<Vec<usize>> {
        let exact = |index: &usize| contest.levels[*index] == CostKnowledge::Exact;
        let all =
            |index: usize| self.bounds.is_none() || self.topology.ranks() < MANY && !contest.is_made(index);
        let mut winners = if self.bounds.is_some() { contest.winners(model)? } else { BTreeSet::new() };
        if runs_freely(self.topology, model) {
            let near = |size| promising(model, &contest.candidates, size);
            let near = SIMULATED_SIZES.into_iter().flat_map(near);
            winners.extend(near.map(|place| contest.members[place]));
        }
        let wanted = |index: &usize| {
            let member = &contest.members[*index];
            all(*index) || winners.contains(member) || contest.needed.contains(member)
        };
        let open: Vec<usize> =
            (0..contest.members.len()).filter(|index| !exact(index) && wanted(index)).collect();
        let (made, others): (Vec<usize>, Vec<usize>) = open.into_iter().partition(|i| contest.is_made(*i));
        Ok(if others.is_empty() { made.into_iter().take(1).collect() } else { others })
    }

    /// Evaluates each of `open`, except if the time ends before its schedule is made. Each thread takes the next one when
    /// it is free; the results do not depend on which thread computes them.
    fn evaluate_open(
        &mut self,
        contests: &[CandidateSet],
        open: &[(usize, usize)],
    ) -> Vec<Option<Result<Look>>> {
        let Evaluator { topology, routes, kept, start, budget, .. } = self;
        let bounds = self.bounds.as_ref().filter(|_| !self.formulas);
        let look = |&(place, index): &(usize, usize), routes: &mut Routes<'a>| {
            let contest = &contests[place];
            let (member, collective) = (contest.members[index], contest.collective);
            if contest.is_made(index) {
                let alone = contest.members.len() == 1;
                let go_on = || alone || budget.is_none_or(|budget| start.elapsed() < budget);
                let ground = member.ground(topology, collective);
                let known = on_routes(&ground, routes, |routes| {
                    kept.cost(ground.topology, member, ground.collective, routes, Budget::new(&go_on))
                });
                return known.map(|known| known.map(Look::from_known)).transpose();
            }
            let ground = member.ground(topology, collective);
            let schedule = match &contest.schedules[index] {
                Some(schedule) => Ok(schedule.clone()),
                None => member.parts(ground.topology, ground.collective).map(Arc::from).map_err(Error::from),
            };
            let closer = |schedule: Arc<[Schedule]>| {
                let step = match bounds.filter(|bounds| is_same(bounds.topology(), ground.topology)) {
                    Some(bounds) if contest.levels[index] == CostKnowledge::Early => {
                        (ScheduleCost::at_least(&schedule, bounds)?, CostKnowledge::Built)
                    }
                    _ => {
                        let cost =
                            on_routes(&ground, routes, |routes| ScheduleCost::in_turn(&schedule, routes));
                        (cost?, CostKnowledge::Exact)
                    }
                };
                let schedule = (step.1 == CostKnowledge::Built).then_some(schedule);
                Ok(Look { cost: step.0, level: step.1, schedule, digest: None })
            };
            Some(schedule.and_then(closer))
        };
        shared_out(routes, open, look)
    }

    /// All these members with their costs, in the same order. Members made for the graph that cannot be made are left
    /// out.
    pub fn all(&mut self, collective: Collective, members: &[Member]) -> Result<Vec<Candidate>> {
        let Evaluator { topology, routes, kept, .. } = self;
        let cost = |member: &Member, routes: &mut Routes<'a>| {
            let made = member.is_made_for_graph(collective);
            let ground = member.ground(topology, collective);
            let cost = on_routes(&ground, routes, |routes| match made {
                true => kept
                    .cost(ground.topology, *member, ground.collective, routes, Budget::UNLIMITED)
                    .map(|known| known.map(|k| k.cost)),
                false => member
                    .parts(ground.topology, ground.collective)
                    .map_err(Error::from)
                    .and_then(|parts| Ok(Some(ScheduleCost::in_turn(&parts, routes)?))),
            });
            let candidate = |cost| Candidate::new(*member, cost, member.bit_identical(topology, collective));
            match cost {
                Err(_) if made && members.len() > 1 => Ok(None),
                cost => cost.map(|cost| cost.map(candidate)),
            }
        };
        let all: Result<Vec<Option<Candidate>>> = shared_out(routes, members, cost).into_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn is_same(one: &Topology, other: &Topology) -> bool {
    std::ptr::eq(one, other)
}

/// Calls `work` with these routes if they are those of the ground, otherwise with routes made for it.
fn on_routes<'a, T>(
    ground: &Ground<'a>,
    routes: &mut Routes<'a>,
    work: impl FnOnce(&mut Routes<'a>) -> T,
) -> T {
    match is_same(ground.topology, routes.topology()) {
        true => work(routes),
        false => work(&mut Routes::new(ground.topology)),
    }
}

/// Applies `work` to each item, on a thread for each of `tools`, or on fewer where no more can be started; returns the
/// results in the order of the items.
fn shared_out<W: Send, I: IntoIterator, R: Send>(
    tools: &mut [W],
    items: I,
    work: impl Fn(I::Item, &mut W) -> R + Sync,
) -> Vec<R>
where
    I::IntoIter: ExactSizeIterator + Send,
{
    let items = items.into_iter();
    let helpers = items.len().min(tools.len()).saturating_sub(1);
    let Some((own, others)) = tools.split_first_mut() else { return Vec::new() };
    let next = Mutex::new(items.enumerate());
    let take = |tool: &mut W| {
        let mut done = Vec::new();
        loop {
            let item = next.lock().next();
            let Some((place, item)) = item else { return done };
            done.push((place, work(item, tool)));
        }
    };
    let mut done = thread::scope(|scope| {
        let take = &take;
        let start = |tool| thread::Builder::new().spawn_scoped(scope, move || take(tool)).ok();
        let helpers: Vec<_> = others[..helpers].iter_mut().filter_map(start).collect();
        let mut done = take(own);
        for helper in helpers {
            done.extend(helper.join().expect("costs do not panic"));
        }
        done
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, made)| made).collect()
}

impl Look {
    fn from_known(known: KnownSchedule) -> Look {
        let KnownSchedule { cost, digest } = known;
        Look { cost, level: CostKnowledge::Exact, schedule: None, digest: Some(digest) }
    }
}

impl CandidateSet {
    fn is_made(&self, index: usize) -> bool {
        self.members[index].is_made_for_graph(self.collective)
    }

    /// The candidates with their costs, and whether these are exact.
    pub fn contenders(&self) -> impl Iterator<Item = Contender<'_>> {
        let known = self.candidates.iter().zip(&self.levels);
        self.members.iter().zip(known).map(|(member, (candidate, level))| Contender {
            member: *member,
            candidate,
            is_exact: *level == CostKnowledge::Exact,
            by_rule: self.by_rule.contains(member),
        })
    }

    /// The digest of an algorithm's schedule if that was made for the graph.
    pub fn made(&self, member: Member) -> Option<&String> {
        let index = self.members.iter().position(|candidate| *candidate == member)?;
        self.digests[index].as_ref()
    }

    /// The fastest candidates for any number of bytes: of all candidates, and of those that are bit-identical.
    fn winners(&self, model: &CostModel) -> Result<BTreeSet<Member>> {
        let mut winners = BTreeSet::new();
        let free = || self.candidates.iter().filter(|candidate| !self.by_rule.contains(&candidate.member));
        for any in [true, false] {
            let some: Vec<&Candidate> = free().filter(|c| any || c.bit_identical).collect();
            if !some.is_empty() {
                let table = SwitchTable::build(model, some)?;
                let ranges = table.ranges().iter().filter(|range| range.from_bytes <= MOST_BYTES);
                winners.extend(ranges.map(|range| range.algorithm));
            }
        }
        Ok(winners)
    }

    fn record_look(&mut self, index: usize, look: Look) {
        self.candidates[index].cost = look.cost;
        self.levels[index] = look.level;
        self.schedules[index] = look.schedule;
        self.digests[index] = look.digest;
    }

    /// Drops candidates with more steps than tags can number, if others remain: they might send a neighbour more
    /// messages than tags can tell apart.
    fn drop_those_that_cannot_run(&mut self) {
        let runs = |candidate: &Candidate| candidate.cost.steps.len() <= MAX_MESSAGES as usize;
        if self.candidates.iter().any(runs) {
            self.retain(runs);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Candidate) -> bool) {
        let kept: Vec<bool> = self.candidates.iter().map(keep).collect();
        fn filter<T>(all: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            all.retain(|_| kept.next().copied().unwrap_or(false));
        }
        filter(&mut self.candidates, &kept);
        filter(&mut self.members, &kept);
        filter(&mut self.levels, &kept);
        filter(&mut self.schedules, &kept);
        filter(&mut self.digests, &kept);
    }
}
