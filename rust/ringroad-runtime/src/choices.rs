//! Which algorithm for which call.
//!
//! Rank 0 makes the choice once, when the communicator is made: for every collective a table that says from how many
//! bytes on which algorithm is to be used. The cheapest by the cost model it is, unless measurements or the user's rules
//! say otherwise. The others take over its tables, so that differing settings or rounding cannot lead to differing
//! choices.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ringroad_core::algorithms::{self, Member};
use ringroad_core::cost::{Candidate, CostModel, Rule, SwitchRange};
use ringroad_core::selection::{
    allowed, contestants, decide, is_ordered, needed, Choice, Contender, Selection, SelectionError, Terms,
};
pub use ringroad_core::selection::{explain, Explanation};
use ringroad_core::{Bytes, Collective, Topology};
use serde::{Deserialize, Serialize};

use crate::cache::CacheMode;
use crate::config::{warn_once, Algorithms};
use crate::error::{Error, Result};
use crate::judging::Judge;
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

impl Wishes {
    fn terms(&self) -> Terms<'_> {
        let Wishes { size_invariant, rules, measured, .. } = self;
        Terms { size_invariant: *size_invariant, rules, measured }
    }
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

/// A schedule that was made for the graph, which all ranks must have alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    collective: Collective,
    algorithm: Member,
    digest: String,
}

/// All algorithms that can perform `collective` on `topology`, with their costs, in catalogue order.
pub fn candidates(topology: &Topology, collective: Collective) -> Result<Vec<Candidate>> {
    let members = algorithms::available(topology, collective);
    Ok(costs(topology, collective, &members)?.into_iter().map(|(_, candidate)| candidate).collect())
}

/// Those of the members that can be had, with their costs.
fn costs(
    topology: &Topology,
    collective: Collective,
    members: &[Member],
) -> Result<Vec<(Member, Candidate)>> {
    Judge::new(topology, &Schedules::default(), None).all(collective.with_root(0), members)
}

/// Why a selection has what it has for `bytes`.
fn explained(
    topology: &Topology,
    model: &CostModel,
    selection: &Selection,
    collective: Collective,
    bytes: Bytes,
) -> Result<Explanation> {
    let costs = costs(topology, collective, &selection.among)?;
    let candidates: Vec<Candidate> = costs.into_iter().map(|(_, candidate)| candidate).collect();
    Ok(explain(topology, model, &candidates, &selection.table, collective, bytes))
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
            for member in ranges.map(|range| range.algorithm) {
                if member.algorithm().offer(collective).is_none() {
                    return Err(format!("it takes {member} for {}", collective.name()));
                }
            }
        }
        Ok(())
    }

    /// The digest that a schedule must have: what rank 0 made for the graph, if it did.
    pub(crate) fn digest(&self, collective: Collective, algorithm: Member) -> Option<&str> {
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
    pub fn pick(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Member {
        self.selection(collective, any_order).table.pick(bytes)
    }

    /// From how many bytes on which algorithm is chosen for floating-point data.
    pub fn switch_points(&self, collective: Collective) -> &[SwitchRange] {
        self.selection(collective, false).table.ranges()
    }

    /// The algorithms that the choice for floating-point data is made among, the first of those that cost the same and
    /// come down to the same operations: what is worth measuring.
    pub fn contestants(&self, collective: Collective) -> Result<Vec<Member>> {
        let among = &self.selection(collective, false).among;
        let candidates = costs(&self.topology, collective, among)?;
        let all_near = self.place.per_host == self.topology.ranks();
        Ok(contestants(&self.topology, collective, candidates, all_near)?)
    }

    /// Why [`Choices::pick`] picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        let selection = self.selection(collective, any_order);
        explained(&self.topology, &self.model, selection, collective, bytes)
    }
}

impl Profile {
    /// Why a communicator in this profile's place picks what it does.
    pub fn explain(&self, collective: Collective, bytes: Bytes, any_order: bool) -> Result<Explanation> {
        let selection = self.selection(collective, any_order)?;
        explained(&self.place.topology, &self.fit.model, &selection, collective, bytes)
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
        let ordered = is_ordered(topology, collective, wishes.size_invariant);
        match (&wanted[..], ordered) {
            ([only], false) if !only.is_made_for_graph(collective) => {
                let selection = Selection::always(*only);
                choices.push(Choice { collective, floats: selection.clone(), any: selection });
            }
            _ => {
                let needed = needed(collective, &wanted, ordered, wishes.terms());
                contests.push(judge.contest(collective, wanted, needed)?);
            }
        }
    }
    judge.settle(model, &mut contests)?;
    let mut made = Vec::new();
    for contest in contests {
        let collective = contest.collective;
        let contenders: Vec<Contender<'_>> = contest.contenders().collect();
        let (choice, unkept) = decide(topology, model, collective, &contenders, wishes.terms())?;
        for (rule, error) in unkept {
            warn_once(&format!("{rule:?}"), &unkept_rule(&error));
        }
        let ranges = choice.floats.table.ranges().iter().chain(choice.any.table.ranges());
        let chosen: BTreeSet<Member> = ranges.map(|range| range.algorithm).collect();
        made.extend(chosen.into_iter().filter_map(|algorithm| {
            let digest = contest.made(algorithm)?.clone();
            Some(Made { collective, algorithm, digest })
        }));
        choices.push(choice);
    }
    choices.sort_by_key(|choice| collectives.iter().position(|c| *c == choice.collective));
    Ok((choices, made))
}

fn unkept_rule(error: &algorithms::Unavailable) -> String {
    format!("a rule of RINGROAD_TUNER_FILE cannot be kept: {error}")
}

/// What to do is for whoever knows where the wishes came from.
impl From<SelectionError> for Error {
    fn from(error: SelectionError) -> Error {
        match error {
            SelectionError::Rule(error) => Error::Config(unkept_rule(&error)),
            SelectionError::NoneLeft { .. } => {
                Error::Config(format!("{error} by ^ in RINGROAD_ALGO or algorithm=; leave out fewer"))
            }
            SelectionError::NoOrder { .. } => {
                Error::Config(format!("{error}, or unset RINGROAD_DETERMINISTIC"))
            }
            SelectionError::Unavailable(_) | SelectionError::Table(_) | SelectionError::Lower(_) => {
                Error::Schedule(error.to_string())
            }
        }
    }
}
