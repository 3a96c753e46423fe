//! Which algorithm performs which call.
//!
//! Rank 0 makes the choices once, when the communicator is made: for every collective a table of algorithms by the
//! number of bytes. The table has the cheapest algorithms by the cost model, unless measurements or the user's rules
//! say otherwise. The other ranks use rank 0's tables, so that different settings or rounding cannot lead to
//! different choices.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ringroad_core::algorithms::{self, given, Member};
use ringroad_core::cost::{Candidate, CostModel, FreeRunning, Rule, SwitchRange};
use ringroad_core::discovery::Mismatch;
use ringroad_core::selection::{
    allowed, decide, distinct_candidates, is_ordered, named_by_rules, needed, runs_freely, simulate,
    suited_to_any_network, Choice, Contender, Contest, Explanation, Overview, Selection, SelectionError,
    Terms, Unkept,
};
use ringroad_core::{Bytes, Collective, Topology};
use serde::{Deserialize, Serialize};

use crate::choice::evaluation::Evaluator;
use crate::choice::profile::{Profile, Site};
use crate::choice::schedule_cache::Schedules;
use crate::choice::user_schedules::Sent;
use crate::config::{Algorithms, TopologySource};
use crate::error::{Error, Result};
use crate::os::fork::Global;
use crate::os::machine::cache::CacheMode;
use crate::os::messages::warn_once;

/// What the user wants of the choice, and what was measured earlier.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// The algorithms that may be used. One that is named need not give the same bits everywhere.
    pub algorithms: Algorithms,
    /// Whether any algorithm is used where none of these can be.
    pub is_part: bool,
    /// Whether only algorithms are used that suit any network, unless some are named.
    pub anywhere: bool,
    /// Whether floats are added up in one order for all sizes.
    pub size_invariant: bool,
    /// The user's rules. The first one that fits is used. Rules for this number of ranks must name algorithms that
    /// the topology has.
    pub rules: Vec<Rule>,
    /// Rules from measurements, used where no rule of the user fits.
    pub measured: Vec<Rule>,
    /// The time after which no more schedules are made for the graph; `None` for no limit.
    pub synthesis_budget: Option<Duration>,
    /// The directory in which schedules that were made for a graph are kept, if they are.
    pub schedule_cache: Option<PathBuf>,
}

impl Wishes {
    fn terms(&self) -> Terms<'_> {
        let Wishes { size_invariant, rules, measured, .. } = self;
        Terms { size_invariant: *size_invariant, rules, measured }
    }
}

/// A network, the model where it counts, a collective, and the members whose costs are asked for.
type CostQuestion = (Topology, Option<CostModel>, Collective, Vec<Member>);

/// Vectors are cut into pieces of at least this many bytes.
const SHORTEST: usize = 64;

/// How plans are made, whatever the algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoweringSettings {
    /// The most bytes in one message.
    pub segment: usize,
    /// The most bytes of a vector that are processed at a time.
    pub part: usize,
    /// Whether these parts take turns with two areas of scratch memory.
    pub two_areas: bool,
    /// Whether the ranks of a host mostly share a cache.
    pub cache: CacheMode,
}

/// Where what is known of the network comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkOrigin {
    /// The user.
    Given,
    /// The ranks, who have found it out.
    Found,
    /// Nowhere: nothing is known but which ranks share a host.
    Assumed,
}

impl NetworkOrigin {
    /// Whether communicators of some of the ranks find out anew, where they cannot stand on a part of this network.
    pub(crate) fn source_for_parts(self) -> TopologySource {
        match self {
            NetworkOrigin::Given | NetworkOrigin::Found => TopologySource::Auto,
            NetworkOrigin::Assumed => TopologySource::Off,
        }
    }
}

/// What rank 0 has decided for all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The given schedules among the candidates. They come first, because what follows names them.
    given: Vec<Sent>,
    /// The network.
    pub topology: Topology,
    /// Where the network comes from.
    pub origin: NetworkOrigin,
    /// What is to be said of how it was found out.
    pub notes: Vec<String>,
    /// How the network that the user has named differs from the one that the ranks have found.
    pub mismatch: Option<Mismatch>,
    /// The assumed costs of the network.
    pub model: CostModel,
    /// How plans are made.
    pub lowering: LoweringSettings,
    /// The place of the ranks.
    pub place: Site,
    /// The file of the profile that the model and the choice come from, if they do.
    pub profile: Option<String>,
    /// A table for each collective (with root 0).
    tables: Vec<Choice>,
    /// The schedules that were made for the graph and that the tables use.
    made: Vec<MadeSchedule>,
    /// What the algorithms of the tables are predicted to take.
    costs: Vec<PredictedTime>,
}

/// What an algorithm is predicted to take, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PredictedTime {
    collective: Collective,
    algorithm: Member,
    fixed: f64,
    per_byte: f64,
    free: FreeRunning,
}

/// What is decided for several collectives.
#[derive(Default)]
struct Decided {
    tables: Vec<Choice>,
    made: Vec<MadeSchedule>,
    costs: Vec<PredictedTime>,
}

/// A schedule that was made for the graph. All ranks must have the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeSchedule {
    collective: Collective,
    algorithm: Member,
    digest: String,
}

/// All algorithms that can perform `collective` on `topology`, with their costs, in catalogue order, and after them
/// `given` schedules.
pub fn candidates(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    given: &[Member],
) -> Result<Vec<Candidate>> {
    given.iter().try_for_each(|member| member.supports(topology, collective))?;
    let members = [&algorithms::available(topology, collective), given].concat();
    costs(topology, model, collective, &members)
}

/// The costs of these members, without members that cannot be built.
///
/// The latest result is kept: people ask about several sizes on one network, and an answer takes seconds on thousands
/// of ranks.
fn costs(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    members: &[Member],
) -> Result<Vec<Candidate>> {
    static LATEST: Global<Option<(CostQuestion, Vec<Candidate>)>> = Global::new();
    let collective = collective.with_root(0);
    let counts = runs_freely(topology, model).then_some(*model);
    if let Some(((on, by, performed, among), found)) = &*LATEST.lock() {
        if *performed == collective && among == members && *by == counts && on == topology {
            return Ok(found.clone());
        }
    }
    let kept = Schedules::default();
    let mut found = Evaluator::new(topology, &kept, None).all(collective, members)?;
    let schedule = |member| kept.schedule(topology, member, collective, 0, None).ok();
    simulate(topology, model, collective, &mut found, schedule);
    let question = (topology.clone(), counts, collective, members.to_vec());
    *LATEST.lock() = Some((question, found.clone()));
    Ok(found)
}

/// The candidates of a choice with their costs.
fn candidates_of(topology: &Topology, model: &CostModel, choice: &Choice) -> Result<Vec<Candidate>> {
    let mut members = choice.any.among.clone();
    // Rules may name others.
    members.extend(choice.chosen().into_iter().filter(|member| !choice.any.among.contains(member)));
    costs(topology, model, choice.collective, &members)
}

impl Choices {
    /// Makes the choices.
    pub fn make(
        topology: Topology,
        model: CostModel,
        lowering: LoweringSettings,
        place: Site,
        wishes: &Wishes,
    ) -> Result<Choices> {
        let Decided { tables, made, costs } = choose(&topology, &model, &Collective::ALL, wishes)?;
        let selections = tables.iter().flat_map(|choice| [&choice.floats, &choice.any]);
        let among: BTreeSet<Member> =
            selections.flat_map(|selection| selection.among.iter().copied()).collect();
        let given = among.into_iter().filter(|member| given::schedule(*member).is_some()).map(Sent).collect();
        let (origin, notes) = (NetworkOrigin::Given, Vec::new());
        Ok(Choices {
            given,
            topology,
            origin,
            notes,
            mismatch: None,
            model,
            lowering,
            place,
            profile: None,
            tables,
            made,
            costs,
        })
    }

    /// Checks choices that another rank has made, for this many ranks of which `per_host` on each host are local to each
    /// other. An error says what is wrong.
    pub(crate) fn check(&self, ranks: usize, per_host: usize) -> std::result::Result<(), String> {
        let LoweringSettings { segment, part, .. } = self.lowering;
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
            for member in ranges.map(|range| range.algorithm) {
                if member.algorithm().offer(collective).is_none() {
                    return Err(format!("it takes {member} for {}", collective.name()));
                }
            }
        }
        Ok(())
    }

    /// The digest that this schedule must have, if rank 0 made it for the graph.
    pub(crate) fn digest(&self, collective: Collective, algorithm: Member) -> Option<&str> {
        let is = |made: &&MadeSchedule| made.collective == collective && made.algorithm == algorithm;
        self.made.iter().find(is).map(|made| &*made.digest)
    }

    /// What a vector of `bytes` bytes is predicted to take by this algorithm, if that is known.
    pub(crate) fn seconds(&self, collective: Collective, algorithm: Member, bytes: Bytes) -> Option<f64> {
        let of_it =
            |line: &&PredictedTime| (line.collective, line.algorithm) == (collective.with_root(0), algorithm);
        let line = self.costs.iter().find(of_it)?;
        let cost = line.fixed + line.per_byte * bytes as f64;
        let seconds = cost * line.free.ratio(bytes).unwrap_or(1.0);
        (seconds > 0.0 && seconds.is_finite()).then_some(seconds)
    }

    /// The algorithms whose costs are known, among which a call that may round chooses.
    pub(crate) fn known(&self, collective: Collective) -> Vec<Member> {
        let among = &self.selection(collective, false).among;
        let of_it = |line: &&PredictedTime| {
            line.collective == collective.with_root(0) && among.contains(&line.algorithm)
        };
        self.costs.iter().filter(of_it).map(|line| line.algorithm).collect()
    }

    /// Whether all ranks share memory: then messages are never the limit.
    pub(crate) fn is_one_host(&self) -> bool {
        self.place.per_host == self.topology.ranks()
    }

    fn choice(&self, collective: Collective) -> &Choice {
        let of_it = |choice: &&Choice| choice.collective == collective.with_root(0);
        self.tables.iter().find(of_it).expect("there is a table for every collective")
    }

    fn selection(&self, collective: Collective, any_order: bool) -> &Selection {
        self.choice(collective).selection(any_order)
    }

    /// The algorithm for a vector of `bytes` bytes. `any_order`: whether the result does not depend on the order of
    /// reduction, as for integers.
    pub fn pick(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Member {
        self.selection(collective, any_order).table.pick(bytes)
    }

    /// The ranges of bytes and the algorithm chosen in each, for floating-point data.
    pub fn switch_points(&self, collective: Collective) -> &[SwitchRange] {
        self.selection(collective, false).table.ranges()
    }

    /// The algorithms worth measuring: those among which the choice for floating-point data is made. Of several with
    /// the same cost and the same operations, only the first is included.
    pub fn distinct_candidates(&self, collective: Collective) -> Result<Vec<Member>> {
        let among = &self.selection(collective, false).among;
        let candidates = costs(&self.topology, &self.model, collective, among)?;
        // A profile outlives the process, which alone knows its given schedules.
        let candidates = candidates.into_iter().filter(|one| given::schedule(one.member).is_none());
        Ok(distinct_candidates(&self.topology, collective, candidates, self.is_one_host())?)
    }

    /// Why [`Choices::pick`] picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        self.reasons(self.choice(collective), bytes, any_order)
    }

    /// The fastest of these by the cost model, for all data.
    pub fn by_cost(&self, collective: Collective, among: &[Member]) -> Result<Choice> {
        let candidates = costs(&self.topology, &self.model, collective, among)?;
        let choice = Choice::by_cost(collective, &self.model, &candidates)?;
        Ok(Choice { floats: choice.any.clone(), ..choice })
    }

    /// Why this choice picks what it does.
    pub fn reasons(&self, choice: &Choice, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        let Choices { topology, model, .. } = self;
        let candidates = &candidates_of(topology, model, choice)?;
        Ok(Contest { topology, model, candidates, choice }.explain(bytes, any_order))
    }
}

impl Profile {
    /// Why a communicator in this profile's place picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        self.with_contest(collective, |contest| contest.explain(bytes, any_order))
    }

    /// What such a communicator picks for all sizes, and why for these.
    pub fn overview(&self, collective: Collective, sizes: &[Bytes]) -> Result<Overview> {
        self.with_contest(collective, |contest| contest.overview(sizes))
    }

    /// The ranges of bytes and the algorithm that such a communicator picks in each.
    pub fn switch_points(&self, collective: Collective, any_order: bool) -> Result<Vec<SwitchRange>> {
        Ok(self.choice(collective)?.selection(any_order).table.ranges().to_vec())
    }

    fn with_contest<T>(&self, collective: Collective, ask: impl FnOnce(&Contest<'_>) -> T) -> Result<T> {
        let (topology, model, choice) = (&self.place.topology, &self.fit.model, &self.choice(collective)?);
        let candidates = &candidates_of(topology, model, choice)?;
        Ok(ask(&Contest { topology, model, candidates, choice }))
    }

    fn choice(&self, collective: Collective) -> Result<Choice> {
        let wishes = Wishes { measured: self.rules.clone(), ..Wishes::default() };
        let mut decided = choose(&self.place.topology, &self.fit.model, &[collective.with_root(0)], &wishes)?;
        Ok(decided.tables.remove(0))
    }
}

/// Chooses for several collectives at once: what is computed for one is reused for the others.
fn choose(
    topology: &Topology,
    model: &CostModel,
    collectives: &[Collective],
    wishes: &Wishes,
) -> Result<Decided> {
    let kept = Schedules::new(wishes.schedule_cache.clone());
    let mut evaluator = Evaluator::new(topology, &kept, wishes.synthesis_budget);
    let (mut decided, mut contests) = (Decided::default(), Vec::new());
    let everything = Algorithms::default();
    for &collective in collectives {
        let (algorithms, wanted) = match allowed(topology, collective, &wishes.algorithms) {
            Err(error) if wishes.is_part => {
                let text = format!("a part of the ranks chooses among all algorithms, since {error}");
                warn_once(&error.to_string(), &text);
                (&everything, allowed(topology, collective, &everything))
            }
            found => (&wishes.algorithms, found),
        };
        // On a network of which nothing is known, only what suits any network is compared, unless the user has named others.
        let mut wanted = wanted?;
        if wishes.anywhere && algorithms.preferred(collective).is_empty() {
            wanted = suited_to_any_network(collective, wanted);
        }
        let ordered = is_ordered(topology, collective, wishes.size_invariant);
        let by_rule = named_by_rules(topology, collective, algorithms, &wishes.rules, &wanted);
        // Nothing is computed where there is no choice.
        match (&wanted[..], ordered) {
            ([only], false) if !only.is_made_for_graph(collective) && by_rule.is_empty() => {
                let selection = Selection::always(*only);
                decided.tables.push(Choice { collective, floats: selection.clone(), any: selection });
            }
            _ => {
                let mut needed = needed(collective, &wanted, ordered, wishes.terms());
                needed.extend(&by_rule);
                contests.push(evaluator.contest(collective, wanted, by_rule, needed)?);
            }
        }
    }
    // All contests are settled together: schedules and routes that several need are made once.
    evaluator.settle(model, &mut contests)?;
    evaluator.simulate(model, &mut contests);
    for contest in contests {
        let collective = contest.collective;
        let contenders: Vec<Contender<'_>> = contest.contenders().collect();
        let (choice, unkept) = decide(topology, model, collective, &contenders, wishes.terms())?;
        for (rule, error) in unkept {
            warn_once(&format!("{rule:?}"), &unkept_rule(&error));
        }
        let chosen = choice.chosen();
        // With a wire format, others may be the fastest that make a small enough error.
        let among = &choice.floats.among;
        let is_offered = |member: &Member| {
            chosen.contains(member) || among.contains(member) && !member.is_made_for_graph(collective)
        };
        let costs = contenders.iter().filter(|one| one.is_exact && is_offered(&one.member));
        decided.costs.extend(costs.map(|one| {
            let (algorithm, Candidate { cost, free, .. }) = (one.member, one.candidate);
            let (fixed, per_byte) = (model.fixed(cost), model.per_byte(cost));
            PredictedTime { collective, algorithm, fixed, per_byte, free: free.clone() }
        }));
        decided.made.extend(chosen.into_iter().filter_map(|algorithm| {
            let digest = contest.made(algorithm)?.clone();
            Some(MadeSchedule { collective, algorithm, digest })
        }));
        decided.tables.push(choice);
    }
    // Those without a choice were added first.
    decided.tables.sort_by_key(|choice| collectives.iter().position(|c| *c == choice.collective));
    Ok(decided)
}

fn unkept_rule(error: &Unkept) -> String {
    format!("a rule of RINGROAD_TUNER_FILE cannot be kept: {error}")
}

/// Adds what to do, which depends on where the wishes came from.
impl From<SelectionError> for Error {
    fn from(error: SelectionError) -> Error {
        match error {
            SelectionError::Rule(error) => Error::Config(unkept_rule(&error.into())),
            SelectionError::NoneLeft { .. } => {
                Error::Config(format!("{error} by ^ in RINGROAD_ALGO or algorithm=; leave out fewer"))
            }
            SelectionError::NoOrder { .. } => {
                Error::Config(format!("{error}, or unset RINGROAD_DETERMINISTIC"))
            }
            SelectionError::Unavailable(_)
            | SelectionError::Cost(_)
            | SelectionError::Table(_)
            | SelectionError::Lower(_) => Error::Schedule(error.to_string()),
        }
    }
}
