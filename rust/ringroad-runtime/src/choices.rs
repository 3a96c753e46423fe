//! Which algorithm for which call.
//!
//! Rank 0 makes the choice once, when the communicator is made: for every collective a table that says from how many
//! bytes on which algorithm is to be used. The cheapest by the cost model it is, unless measurements or the user's rules
//! say otherwise. The others take over its tables, so that differing settings or rounding cannot lead to differing
//! choices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use ringroad_core::algorithms::{self, Member};
use ringroad_core::cost::{
    rank, Candidate, Comparison, CostModel, Origin, Ranked, Rule, ScheduleCost, StepCost, SwitchRange,
    SwitchTable,
};
use ringroad_core::plan::{Command, LowerOptions, Near, Plan};
use ringroad_core::schedule::{Expression, Expressions};
use ringroad_core::{Bytes, Collective, Topology};
use serde::{Deserialize, Serialize};

use crate::cache::CacheMode;
use crate::config::{warn_once, Algorithms};
use crate::error::{Error, Result};
use crate::judging::{Contest, Judge};
use crate::profile::{Place, Profile};
use crate::schedules::Schedules;

/// What the user and earlier measurements say about the choice.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Which algorithms may be used. One that is named need not be consistent.
    pub algorithms: Algorithms,
    /// Whether floats are added up in one order for all sizes.
    pub size_invariant: bool,
    /// Rules of the user's; the first that fits counts. Those for this number of ranks must be for algorithms that the
    /// topology has.
    pub rules: Vec<Rule>,
    /// What was measured; counts where no rule does.
    pub measured: Vec<Rule>,
    /// After how long nothing more is made for the graph; `None` for no such limit.
    pub synthesis_budget: Option<Duration>,
    /// Where schedules are kept that were made for a graph, if they are.
    pub schedule_cache: Option<PathBuf>,
}

/// Vectors are cut into pieces of at least so many bytes.
const SHORTEST: usize = 64;

/// How plans are made, whatever the algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lowering {
    /// The most bytes in one message.
    pub segment: usize,
    /// The most bytes of a vector at a time.
    pub part: usize,
    /// Whether these parts take turns with two areas of scratch memory.
    pub two_areas: bool,
    /// Whether the ranks of a host share a cache, by and large.
    pub cache: CacheMode,
}

/// What rank 0 decided for everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The network.
    pub topology: Topology,
    /// What it is assumed to be like.
    pub model: CostModel,
    /// How plans are made.
    pub lowering: Lowering,
    /// Where the ranks are.
    pub place: Place,
    /// The file with the measurements that model and choice come from, if they do.
    pub profile: Option<String>,
    /// A table for each collective (with root 0).
    tables: Vec<Choice>,
    /// The schedules in them that were made for the graph.
    made: Vec<Made>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Choice {
    collective: Collective,
    /// For floating-point data.
    floats: Selection,
    /// For data that comes out the same in any order.
    any: Selection,
}

/// A schedule that was made for the graph, which all ranks must have alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    collective: Collective,
    algorithm: String,
    digest: String,
}

/// A table, and what it was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Selection {
    table: SwitchTable,
    among: Vec<String>,
}

/// Why a call runs what it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The network.
    pub topology: Topology,
    /// The collective.
    pub collective: Collective,
    /// The vector.
    pub bytes: Bytes,
    /// What runs.
    pub algorithm: String,
    /// What it was chosen by.
    pub origin: Origin,
    /// From how many bytes on it does, and up to and including how many.
    pub range: (Bytes, Bytes),
    /// All that could run, with their costs, the fastest by the model first.
    pub candidates: Vec<(Ranked, ScheduleCost)>,
    /// The best of the others, and how it compares; `None` where there is no other.
    pub runner_up: Option<(String, Comparison)>,
}

/// All algorithms that can perform `collective` on `topology`, with their costs, in catalogue order.
pub fn candidates(topology: &Topology, collective: Collective) -> Result<Vec<Candidate>> {
    costs(topology, collective, algorithms::available(topology, collective))
}

fn costs(topology: &Topology, collective: Collective, members: Vec<Member>) -> Result<Vec<Candidate>> {
    Judge::new(topology, &Schedules::default(), None).all(collective, members)
}

fn candidates_of(topology: &Topology, collective: Collective, names: &[String]) -> Result<Vec<Candidate>> {
    let members = names.iter().map(|name| algorithms::find(name)).collect::<std::result::Result<_, _>>()?;
    costs(topology, collective.with_root(0), members)
}

/// Kind, bytes and operands of operations, in ascending order.
type Shape = Vec<(u8, usize, usize)>;

/// Whether no coefficients of the model tell two costs apart, but for rounding.
fn alike(a: &ScheduleCost, b: &ScheduleCost) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let same = |(a, b): (&StepCost, &StepCost)| {
        (a.messages, a.hops) == (b.messages, b.hops)
            && a.incast == b.incast
            && close(a.extra_latency, b.extra_latency)
            && close(a.link_load, b.link_load)
            && close(a.reduced, b.reduced)
            && close(a.copied, b.copied)
            && a.all.messages == b.all.messages
            && close(a.all.sent, b.all.sent)
            && close(a.all.reduced, b.all.reduced)
    };
    a.steps.len() == b.steps.len() && a.steps.iter().zip(&b.steps).all(same)
}

impl Choices {
    /// Chooses.
    pub fn make(
        topology: Topology,
        model: CostModel,
        lowering: Lowering,
        place: Place,
        wishes: &Wishes,
    ) -> Result<Choices> {
        let (tables, made) = choose(&topology, &model, &Collective::ALL, wishes)?;
        Ok(Choices { topology, model, lowering, place, profile: None, tables, made })
    }

    /// What is wrong with choices that another rank has made for so many ranks, of which so many on each host are near each
    /// other.
    pub(crate) fn check(&self, ranks: usize, per_host: usize) -> std::result::Result<(), String> {
        let Lowering { segment, part, .. } = self.lowering;
        for (what, found) in [("topology", &self.topology), ("place", &self.place.topology)] {
            if found.ranks() != ranks {
                return Err(format!("its {what} has {} ranks, but there are {ranks}", found.ranks()));
            }
        }
        if self.place.per_host != per_host {
            return Err(format!("it says {} ranks per host, but there are {per_host}", self.place.per_host));
        }
        if segment.min(part) < SHORTEST {
            return Err(format!("it cuts vectors into pieces of {segment} and {part} bytes"));
        }
        for collective in Collective::ALL {
            let of_it = |choice: &&Choice| choice.collective == collective.with_root(0);
            let Some(Choice { floats, any, .. }) = self.tables.iter().find(of_it) else {
                return Err(format!("it has no table for {}", collective.name()));
            };
            let ranges = [floats, any].into_iter().flat_map(|selection| selection.table.ranges());
            for name in ranges.map(|range| &range.algorithm) {
                let algorithm = algorithms::find(name).map_err(|error| error.to_string())?;
                if algorithm.algorithm().offer(collective).is_none() {
                    return Err(format!("it takes {name} for {}", collective.name()));
                }
            }
        }
        Ok(())
    }

    /// The digest that a schedule must have: what rank 0 made for the graph, if it did.
    pub(crate) fn digest(&self, collective: Collective, algorithm: &str) -> Option<&str> {
        let is = |made: &&Made| made.collective == collective && made.algorithm == algorithm;
        self.made.iter().find(is).map(|made| &*made.digest)
    }

    fn selection(&self, collective: Collective, any_order: bool) -> &Selection {
        let choice = self
            .tables
            .iter()
            .find(|t| t.collective == collective.with_root(0))
            .expect("there is a table for every collective");
        if any_order {
            &choice.any
        } else {
            &choice.floats
        }
    }

    /// The algorithm for a vector of `bytes`. `any_order`: whether the result does not depend on the order of
    /// reduction, as for integers.
    pub fn pick(&self, collective: Collective, bytes: Bytes, any_order: bool) -> &str {
        self.selection(collective, any_order).table.pick(bytes)
    }

    /// From how many bytes on which algorithm is chosen for floating-point data.
    pub fn switch_points(&self, collective: Collective) -> &[SwitchRange] {
        self.selection(collective, false).table.ranges()
    }

    /// The algorithms that the choice for floating-point data is made among, the first of those that cost the same and
    /// come down to the same operations: what is worth measuring.
    pub fn contestants(&self, collective: Collective) -> Result<Vec<String>> {
        let among = &self.selection(collective, false).among;
        let mut found: Vec<(Candidate, Shape)> = Vec::new();
        for candidate in candidates_of(&self.topology, collective, among)? {
            let shape = self.shape(collective, &candidate.name)?;
            if !found.iter().any(|(other, s)| *s == shape && alike(&other.cost, &candidate.cost)) {
                found.push((candidate, shape));
            }
        }
        Ok(found.into_iter().map(|(candidate, _)| candidate.name).collect())
    }

    /// What the first and the last rank do for a vector of middling length.
    fn shape(&self, collective: Collective, algorithm: &str) -> Result<Shape> {
        /// A multiple of all chunks that a few ranks may make of a vector.
        const ELEMENTS: usize = 27_720;
        let schedule = algorithms::find(algorithm)?.build(&self.topology, collective.with_root(0))?;
        let ranks = schedule.ranks;
        let all_near = self.place.per_host == ranks;
        let near = Near { ranks: vec![all_near; ranks].into(), ..Near::default() };
        let options = LowerOptions { near, ..LowerOptions::default() };
        let mut shape = Shape::new();
        for rank in [0, ranks - 1] {
            let plan = Plan::lower(&schedule, rank, ELEMENTS, 4, &options)?;
            shape.extend(plan.operations().iter().map(|operation| match operation.command {
                Command::Send { source, .. } => (0, source.bytes, 1),
                Command::Receive { target, .. } => (1, target.bytes, 1),
                Command::Expect { bytes, .. } => (2, bytes, 1),
                Command::Reduce { target, sources, also } => {
                    (3, target.bytes, 2 * plan.sources(sources).len() + usize::from(also.is_some()))
                }
                Command::Copy { target, .. } => (4, target.bytes, 1),
                Command::Premultiply { .. } | Command::Average { .. } | Command::Release { .. } => (5, 0, 1),
            }));
        }
        shape.sort_unstable();
        Ok(shape)
    }

    /// Why [`Choices::pick`] picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        let Selection { table, among } = self.selection(collective, any_order);
        let members =
            among.iter().map(|name| algorithms::find(name)).collect::<std::result::Result<_, _>>()?;
        let candidates = costs(&self.topology, collective, members)?;
        Ok(explain(&self.topology, &self.model, &candidates, table, collective, bytes))
    }
}

impl Profile {
    /// Why a communicator in this profile's place picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        let topology = &self.place.topology;
        let Selection { table, among } = self.selection(collective, any_order)?;
        let candidates = candidates_of(topology, collective, &among)?;
        Ok(explain(topology, &self.fit.model, &candidates, &table, collective, bytes))
    }

    /// From how many bytes on such a communicator picks which algorithm.
    pub fn switch_points(&self, collective: Collective, any_order: bool) -> Result<Vec<SwitchRange>> {
        Ok(self.selection(collective, any_order)?.table.ranges().to_vec())
    }

    fn selection(&self, collective: Collective, any_order: bool) -> Result<Selection> {
        let wishes = Wishes { measured: self.rules.clone(), ..Wishes::default() };
        let (mut choices, _) =
            choose(&self.place.topology, &self.fit.model, &[collective.with_root(0)], &wishes)?;
        let Choice { floats, any, .. } = choices.remove(0);
        Ok(if any_order { any } else { floats })
    }
}

/// Why `table`, made of these candidates, has what it has for `bytes`.
pub fn explain(
    topology: &Topology,
    model: &CostModel,
    candidates: &[Candidate],
    table: &SwitchTable,
    collective: Collective,
    bytes: Bytes,
) -> Explanation {
    let SwitchRange { from_bytes, algorithm, origin } = table.range(bytes).clone();
    let next = table.ranges().iter().map(|range| range.from_bytes).find(|from| *from > bytes);
    let ranked = rank(model, candidates, bytes);
    let find = |name: &str| candidates.iter().find(|candidate| candidate.name == name);
    let other = ranked.iter().map(|row| &*row.name).find(|name| *name != algorithm).and_then(find);
    let runner_up = find(&algorithm)
        .zip(other)
        .map(|(best, rival)| (rival.name.clone(), Comparison::of(model, best, rival, bytes)));
    let range = (from_bytes, next.map_or(Bytes::MAX, |next| next - 1));
    let with_cost = |row: Ranked| {
        let cost = find(&row.name).map(|candidate| candidate.cost.clone()).unwrap_or_default();
        (row, cost)
    };
    let candidates = ranked.into_iter().map(with_cost).collect();
    Explanation {
        topology: topology.clone(),
        collective,
        bytes,
        algorithm,
        origin,
        range,
        candidates,
        runner_up,
    }
}

/// Whether floats are to be added up in one order, which has to be found out.
fn is_ordered(topology: &Topology, collective: Collective, wishes: &Wishes) -> bool {
    wishes.size_invariant && collective.reduces() && topology.ranks() > 1
}

/// Chooses for several collectives: what is found out for one helps the others.
fn choose(
    topology: &Topology,
    model: &CostModel,
    collectives: &[Collective],
    wishes: &Wishes,
) -> Result<(Vec<Choice>, Vec<Made>)> {
    let kept = Schedules::new(wishes.schedule_cache.clone());
    let mut judge = Judge::new(topology, &kept, wishes.synthesis_budget);
    let (mut choices, mut contests) = (Vec::new(), Vec::new());
    for &collective in collectives {
        let wanted = allowed(topology, collective, &wishes.algorithms)?;
        let ordered = is_ordered(topology, collective, wishes);
        match (&wanted[..], ordered) {
            ([only], false) if !only.is_made_for_graph(collective) => {
                let selection =
                    Selection { table: SwitchTable::always(&only.name()), among: vec![only.name()] };
                choices.push(Choice { collective, floats: selection.clone(), any: selection });
            }
            _ => {
                let needed = needed(collective, &wanted, ordered, wishes)?;
                contests.push(judge.contest(collective, wanted, needed)?);
            }
        }
    }
    judge.settle(model, &mut contests)?;
    let mut made = Vec::new();
    for contest in contests {
        let choice = decide(topology, model, &contest, wishes)?;
        let ranges = choice.floats.table.ranges().iter().chain(choice.any.table.ranges());
        let names: BTreeSet<&String> = ranges.map(|range| &range.algorithm).collect();
        made.extend(names.into_iter().filter_map(|algorithm| {
            let (collective, digest) = (contest.collective, contest.digest(algorithm)?.clone());
            Some(Made { collective, algorithm: algorithm.clone(), digest })
        }));
        choices.push(choice);
    }
    choices.sort_by_key(|choice| collectives.iter().position(|c| *c == choice.collective));
    Ok((choices, made))
}

/// Of whom the costs matter even if they are not the fastest: where orders are compared those of all, and of a family that
/// a rule or a measurement is about those of its members.
fn needed(
    collective: Collective,
    members: &[Member],
    ordered: bool,
    wishes: &Wishes,
) -> Result<BTreeSet<String>> {
    let rules = wishes.rules.iter().chain(&wishes.measured).filter(|rule| rule.collective == collective);
    let named: Vec<Member> =
        rules.map(|rule| algorithms::find(&rule.algorithm)).collect::<std::result::Result<_, _>>()?;
    let matters = |member: &&Member| ordered || named.iter().any(|named| named.covers(member));
    Ok(members.iter().filter(matters).map(Member::name).collect())
}

fn decide(topology: &Topology, model: &CostModel, contest: &Contest, wishes: &Wishes) -> Result<Choice> {
    let (collective, wanted) = (contest.collective, &contest.candidates);
    let floats = if is_ordered(topology, collective, wishes) {
        let members: Vec<Member> = wanted
            .iter()
            .map(|candidate| algorithms::find(&candidate.name))
            .collect::<std::result::Result<_, _>>()?;
        one_order(topology, model, collective, wanted, &orders(topology, collective, &members)?)?
    } else {
        let consistent: Vec<Candidate> = wanted.iter().filter(|c| c.consistent).cloned().collect();
        if consistent.is_empty() {
            wanted.clone()
        } else {
            consistent
        }
    };
    let select = |some: &[Candidate]| select(topology, model, contest, some, wishes);
    Ok(Choice { collective, floats: select(&floats)?, any: select(wanted)? })
}

/// The cheapest of some of a contest's candidates for every size, under what rules and measurements say of them.
fn select(
    topology: &Topology,
    model: &CostModel,
    contest: &Contest,
    some: &[Candidate],
    wishes: &Wishes,
) -> Result<Selection> {
    let collective = contest.collective;
    let among: Vec<String> = some.iter().map(|candidate| candidate.name.clone()).collect();
    let mut table = SwitchTable::build(model, some.iter().filter(|c| contest.is_exact(&c.name)))?;
    if let [only] = some {
        table = SwitchTable::always(&only.name);
    }
    // The first rule that fits counts, and so it is laid on last; a rule counts more than a measurement.
    let measured = wishes.measured.iter().map(|rule| (rule, Origin::Measured));
    let rules = wishes.rules.iter().map(|rule| (rule, Origin::Rules));
    for (rule, origin) in rules.chain(measured).rev().filter(|(rule, _)| rule.collective == collective) {
        let member = algorithms::find(&rule.algorithm)?;
        if origin == Origin::Rules {
            if let Err(error) = member.supports(topology, collective) {
                let text = format!("a rule of RINGROAD_TUNER_FILE cannot be kept: {error}");
                // One for any number of ranks is for larger and smaller groups of the job, too.
                if rule.ranks.is_some() {
                    return Err(Error::Config(text));
                }
                warn_once(&format!("{rule:?}"), &text);
                continue;
            }
        }
        // A family's name stands for its member that is the cheapest at the lower end of the range.
        let covered: Vec<Candidate> = some
            .iter()
            .filter(|c| algorithms::find(&c.name).is_ok_and(|m| member.covers(&m)))
            .cloned()
            .collect();
        let at = rule.from_bytes;
        if let Some(best) = rank(model, &covered, at).first() {
            table = table.overlaid(at, rule.to_bytes, &best.name, origin);
        }
    }
    Ok(Selection { table, among })
}

/// The algorithms that the preferences allow.
fn allowed(topology: &Topology, collective: Collective, preferences: &Algorithms) -> Result<Vec<Member>> {
    let all = algorithms::available(topology, collective);
    let preferred = preferences.preferred(collective);
    let excluded = |member: &Member| preferences.excludes(collective, member);
    let left = |members: Vec<Member>| -> Result<Vec<Member>> {
        let left: Vec<Member> = members.into_iter().filter(|member| !excluded(member)).collect();
        if left.is_empty() {
            return Err(Error::Config(format!(
                "every algorithm for {} on {topology} is left out by ^ in RINGROAD_ALGO or algorithm=; leave out fewer",
                collective.name()
            )));
        }
        Ok(left)
    };
    let Some(first) = preferred.first() else { return left(all) };
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
    left(wanted)
}

/// In which order an algorithm adds up every element.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// For every root, where there is one. Those of one root can be compared.
    Known(Vec<Expression>),
    /// In some order, which it would take too long to compare with that of any other algorithm than this.
    Own(String),
}

/// Places that are replayed for all roots together, at most: a tree on 1024 ranks.
const MOST_PLACES: usize = 1 << 20;

/// The order in which each algorithm adds up every element, where it has one.
fn orders(
    topology: &Topology,
    collective: Collective,
    members: &[Member],
) -> Result<BTreeMap<String, Order>> {
    let roots = if collective.root().is_some() { topology.ranks() } else { 1 };
    let mut orders: BTreeMap<String, Order> =
        members.iter().map(|member| (member.name(), Order::Known(Vec::new()))).collect();
    for root in 0..roots {
        // Roots are looked at one by one, and not all their expressions kept.
        let mut expressions = Expressions::new(topology.ranks());
        for member in members {
            let name = member.name();
            let Some(Order::Known(known)) = orders.get_mut(&name) else { continue };
            let collective = collective.with_root(root);
            if member.in_rank_order(collective) {
                known.push(expressions.in_rank_order());
                continue;
            }
            let schedule = member.build(topology, collective)?;
            let places = schedule.ranks * schedule.slots() * schedule.chunks;
            let too_many = roots > 1 && places.saturating_mul(roots) > MOST_PLACES;
            let expression = if too_many { None } else { expressions.of(&schedule) };
            match expression {
                Some(expression) => known.push(expression),
                // The root's result is of one chunk, and so of one expression.
                None if too_many && schedule.chunks == 1 => {
                    orders.insert(name.clone(), Order::Own(name));
                }
                None => {
                    orders.remove(&name);
                }
            }
        }
    }
    Ok(orders)
}

/// Sizes at which orders are compared: powers of two that calls have.
const TYPICAL: std::ops::Range<u32> = 3..28;

/// The candidates that add up every element in one and the same order: of all orders the one with which calls of all
/// sizes take the least time, as the geometric mean has it.
fn one_order(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    candidates: &[Candidate],
    orders: &BTreeMap<String, Order>,
) -> Result<Vec<Candidate>> {
    let mut families: BTreeMap<&Order, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(order) = orders.get(&candidate.name) {
            families.entry(order).or_default().push(candidate.clone());
        }
    }
    let time = |family: &[Candidate]| -> f64 {
        let best = |bytes| family.iter().map(|c| model.seconds(&c.cost, bytes)).fold(f64::INFINITY, f64::min);
        TYPICAL.map(|power| best(1 << power).ln()).sum()
    };
    let best = families.into_values().min_by(|a, b| time(a).total_cmp(&time(b)));
    match best {
        Some(best) => Ok(best),
        None => Err(no_order(topology, collective)?),
    }
}

/// The error where no algorithm that may be used adds up in one order: it names those that would.
fn no_order(topology: &Topology, collective: Collective) -> Result<Error> {
    let others = orders(topology, collective, &algorithms::available(topology, collective))?;
    let others: Vec<String> = others.into_keys().collect();
    let advice = match &others[..] {
        [] => "none at all is known to on so many ranks; take at most 256, for direct-ordered".to_owned(),
        others => format!("allow one of {}", others.join(", ")),
    };
    Ok(Error::Config(format!(
        "no algorithm that may be used for {} on {topology} adds up in one order whatever the size; {advice}, or unset RINGROAD_DETERMINISTIC",
        collective.name()
    )))
}
