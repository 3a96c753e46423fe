//! Selection: chooses the algorithm for each call among candidates whose costs are known.

mod candidates;
mod distinct;
mod explanation;
mod formats;
mod free_running;
mod orders;
mod preferences;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use candidates::candidates;
pub use distinct::distinct_candidates;
pub use explanation::{Contest, Explanation, Overview, SwitchPoints};
pub use formats::FormatCost;
pub use free_running::{promising, runs_freely, simulate, SIMULATED_SIZES};
pub use preferences::Algorithms;

use self::orders::{one_order, orders};
use crate::algorithms::{self, Member, Unavailable};
use crate::collective::Collective;
use crate::cost::{rank, Candidate, CostError, CostModel, Origin, Rule, SwitchTable, TableError};
use crate::plan::LowerError;
use crate::topology::Topology;

/// The selected algorithm for every number of bytes, and the candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// The selected algorithm for every number of bytes.
    pub table: SwitchTable,
    /// The candidates, in catalogue order.
    pub among: Vec<Member>,
}

impl Selection {
    /// One algorithm for all sizes.
    pub fn always(member: Member) -> Selection {
        Selection { table: SwitchTable::always(member), among: vec![member] }
    }
}

/// The choice for a collective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The collective, with root 0 where it has a root.
    pub collective: Collective,
    /// The selection for floating-point data.
    pub floats: Selection,
    /// The selection for data whose reduction does not depend on the order.
    pub any: Selection,
}

impl Choice {
    /// The algorithms that it uses for some size.
    pub fn chosen(&self) -> BTreeSet<Member> {
        let ranges = self.floats.table.ranges().iter().chain(self.any.table.ranges());
        ranges.map(|range| range.algorithm).collect()
    }
}

/// What the choice depends on besides costs.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Whether floating-point data must be added up in the same order for all sizes.
    pub size_invariant: bool,
    /// The user's rules. The first rule that fits counts.
    pub rules: &'a [Rule],
    /// The rules from measurements, which count where no rule of the user's fits.
    pub measured: &'a [Rule],
}

/// A member of the catalogue and its candidate.
#[derive(Debug, Clone)]
pub struct Contender<'a> {
    /// The member.
    pub member: Member,
    /// The candidate, with its cost or a lower bound of its cost.
    pub candidate: &'a Candidate,
    /// Whether the candidate has its cost, not only a bound.
    pub is_exact: bool,
    /// Whether it is used only where a rule of the user's names it.
    pub by_rule: bool,
}

/// Why a rule of the user's is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// The algorithm cannot be used.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Ranks would end with different bits of a sum of floats.
    #[error("{0} gives ranks different bits of a sum of floats, so it is used for other data only")]
    Bits(Member),
    /// Sums of floats would depend on the size.
    #[error("{0} is left out for floats, which are added up in one order whatever the size; it is used for other data only")]
    Order(Member),
}

/// Why no algorithm can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// An algorithm cannot be used.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The cost of an algorithm cannot be computed.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// A switch table cannot be made.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A schedule cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A rule for this number of ranks names an algorithm that they cannot use.
    #[error(transparent)]
    Rule(Unavailable),
    /// The preferences exclude all algorithms.
    #[error("every algorithm for {} on {topology} is left out", collective.name())]
    NoneLeft {
        /// The collective.
        collective: Collective,
        /// The topology's spec.
        topology: String,
    },
    /// No algorithm that may be used adds up in the same order for all sizes.
    #[error("no algorithm that may be used for {} on {topology} adds up in one order whatever the size; {}", collective.name(), advice(others))]
    NoOrder {
        /// The collective.
        collective: Collective,
        /// The topology's spec.
        topology: String,
        /// The algorithms that do so but may not be used.
        others: Vec<Member>,
    },
}

fn advice(others: &[Member]) -> String {
    match others {
        [] => "none does on so many ranks: direct-ordered does on up to 256".to_owned(),
        others => {
            let names: Vec<String> = others.iter().map(Member::name).collect();
            format!("allow one of: {}", names.join(", "))
        }
    }
}

/// Whether the choice depends on the orders in which algorithms add up.
pub fn is_ordered(topology: &Topology, collective: Collective, size_invariant: bool) -> bool {
    size_invariant && collective.reduces() && topology.ranks() > 1
}

/// The algorithms for a collective that the preferences allow, in catalogue order; an error where there are none.
pub fn allowed(
    topology: &Topology,
    collective: Collective,
    preferences: &Algorithms,
) -> Result<Vec<Member>, SelectionError> {
    let mut all = algorithms::available(topology, collective);
    let fits = |member: &&Member| member.supports(topology, collective).is_ok();
    all.extend(preferences.given(collective).iter().filter(fits));
    let left = |mut members: Vec<Member>| {
        members.retain(|member| !preferences.excludes(collective, member));
        match members.is_empty() {
            true => Err(SelectionError::NoneLeft { collective, topology: topology.to_string() }),
            false => Ok(members),
        }
    };
    let preferred = preferences.preferred(collective);
    let Some(first) = preferred.first() else { return left(all) };
    let wanted = covered(topology, collective, &all, preferred);
    if wanted.is_empty() {
        // Return why the first named algorithm cannot be used.
        first.supports(topology, collective)?;
    }
    left(wanted)
}

/// Of `all` those that the user has named, and what he has named besides.
fn covered(topology: &Topology, collective: Collective, all: &[Member], named: &[Member]) -> Vec<Member> {
    let is_named = |member: &&Member| named.iter().any(|named| named.covers(member));
    let found: Vec<Member> = all.iter().filter(is_named).copied().collect();
    // A parameter may be valid, but not one that `available` returns; and an algorithm may not be worth trying.
    let more = named.iter().filter(|named| !found.iter().any(|found| named.covers(found)));
    let more = more.filter(|member| member.supports(topology, collective).is_ok());
    found.iter().chain(more).copied().collect()
}

/// The algorithms that rules of the user's name, without those that compete for all sizes anyway (`members`). None where
/// the user has named algorithms himself: that comes before rules.
pub fn named_by_rules(
    topology: &Topology,
    collective: Collective,
    preferences: &Algorithms,
    rules: &[Rule],
    members: &[Member],
) -> Vec<Member> {
    if !preferences.preferred(collective).is_empty() {
        return Vec::new();
    }
    let of_it = rules.iter().filter(|rule| rule.collective == collective);
    let named: Vec<Member> = of_it.map(|rule| rule.algorithm).collect();
    let mut found = covered(topology, collective, &algorithms::available(topology, collective), &named);
    found.retain(|member| !members.contains(member) && !preferences.excludes(collective, member));
    found.sort_unstable();
    found.dedup();
    found
}

/// The algorithms whose messages go to neighbours in the order of ranks, or are few and short: no network of which nothing
/// is known makes them slow. On one switch they also avoid that many senders meet at one receiver, which tcp answers with
/// lost packets.
const ANYWHERE: &[&str] = &["ring", "bidirectional-ring", "recursive-doubling"];
/// The collectives for which there are such algorithms.
const EVERYWHERE: &[Collective] = &[Collective::Allreduce, Collective::ReduceScatter, Collective::Allgather];

/// Of these members those that suit any network; all of them if none does.
pub fn suited_to_any_network(collective: Collective, members: Vec<Member>) -> Vec<Member> {
    let suits = |member: &Member| {
        let name = member.name();
        ANYWHERE.contains(&name.rsplit(':').next().unwrap_or_default())
    };
    let suited: Vec<Member> = members.iter().filter(|member| suits(member)).copied().collect();
    if suited.is_empty() || !EVERYWHERE.contains(&collective) {
        return members;
    }
    suited
}

/// The members whose exact costs are needed even if they are not the fastest: all members where orders are
/// compared (`ordered`), otherwise those that a rule or a measurement names, by their own name or that of their family.
pub fn needed(
    collective: Collective,
    members: &[Member],
    ordered: bool,
    terms: Terms<'_>,
) -> BTreeSet<Member> {
    let rules = terms.rules.iter().chain(terms.measured).filter(|rule| rule.collective == collective);
    let named: Vec<Member> = rules.map(|rule| rule.algorithm).collect();
    let matters = |member: &&Member| ordered || named.iter().any(|named| named.covers(member));
    members.iter().filter(matters).copied().collect()
}

/// Chooses the algorithms for a collective. Also returns the rules of the user's that cannot be followed, or not for floats,
/// and why. An algorithm that cannot be used is an error instead if the rule is for this number of ranks.
pub fn decide(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    contenders: &[Contender<'_>],
    terms: Terms<'_>,
) -> Result<(Choice, Vec<(Rule, Unkept)>), SelectionError> {
    let free = || contenders.iter().filter(|contender| !contender.by_rule);
    let members: Vec<Member> = free().map(|contender| contender.member).collect();
    let among = |keep: &dyn Fn(&Candidate) -> bool| -> Vec<Contender<'_>> {
        contenders.iter().filter(|contender| keep(contender.candidate)).cloned().collect()
    };
    let is_ordered = is_ordered(topology, collective, terms.size_invariant);
    let floats = if is_ordered {
        let candidates: Vec<Candidate> = free().map(|c| c.candidate.clone()).collect();
        let found = one_order(model, &candidates, &orders(topology, collective, &members)?);
        let found = found.map_or_else(|| Err(no_order(topology, collective)?), Ok)?;
        among(&|candidate| found.iter().any(|one| one.member == candidate.member))
    } else {
        match among(&|candidate| candidate.bit_identical) {
            none if none.iter().all(|contender| contender.by_rule) => contenders.to_vec(),
            bit_identical => bit_identical,
        }
    };
    let mut unkept = Vec::new();
    let any = select(topology, model, collective, contenders, terms, &mut unkept)?;
    let why = if is_ordered { Unkept::Order } else { Unkept::Bits };
    let is_left = |rule: &&Rule| {
        let covers = |some: &[Contender<'_>]| some.iter().any(|one| rule.algorithm.covers(&one.member));
        rule.collective == collective && covers(contenders) && !covers(&floats)
    };
    unkept.extend(terms.rules.iter().filter(is_left).map(|rule| (rule.clone(), why(rule.algorithm))));
    let floats = select(topology, model, collective, &floats, terms, &mut Vec::new())?;
    Ok((Choice { collective, floats, any }, unkept))
}

/// Selects the cheapest of some contenders for every size, and then overlays the algorithms of measurements and rules.
/// The first rule that fits counts, so it is overlaid last; rules of the user's are overlaid after measurements.
fn select(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    some: &[Contender<'_>],
    terms: Terms<'_>,
    unkept: &mut Vec<(Rule, Unkept)>,
) -> Result<Selection, SelectionError> {
    let free: Vec<&Contender<'_>> = some.iter().filter(|contender| !contender.by_rule).collect();
    let exact = free.iter().filter(|contender| contender.is_exact).map(|contender| contender.candidate);
    let mut table = match free[..] {
        [only] => SwitchTable::always(only.member),
        _ => SwitchTable::build(model, exact)?,
    };
    let measured = terms.measured.iter().map(|rule| (rule, Origin::Measured));
    let rules = terms.rules.iter().map(|rule| (rule, Origin::Rules));
    for (rule, origin) in rules.chain(measured).rev().filter(|(rule, _)| rule.collective == collective) {
        let member = rule.algorithm;
        if origin == Origin::Rules {
            if let Err(error) = member.supports(topology, collective) {
                // A rule for any number of ranks may be meant for larger or smaller groups of the job.
                if rule.ranks.is_some() {
                    return Err(SelectionError::Rule(error));
                }
                unkept.push((rule.clone(), error.into()));
                continue;
            }
        }
        // The name of a family means its member that is the cheapest at the lower end of the range.
        let covered = some.iter().filter(|contender| member.covers(&contender.member));
        let covered: Vec<Candidate> = covered.map(|contender| contender.candidate.clone()).collect();
        if let Some(best) = rank(model, &covered, rule.from_bytes).first() {
            table = table.overlaid(rule.from_bytes, rule.to_bytes, best.candidate.member, origin);
        }
    }
    Ok(Selection { table, among: free.iter().map(|contender| contender.member).collect() })
}

/// The error that no algorithm that may be used adds up in one order, with the names of those that would.
fn no_order(topology: &Topology, collective: Collective) -> Result<SelectionError, SelectionError> {
    let others = orders(topology, collective, &algorithms::available(topology, collective))?;
    let others = others.into_keys().collect();
    Ok(SelectionError::NoOrder { collective, topology: topology.to_string(), others })
}
