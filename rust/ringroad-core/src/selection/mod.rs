//! Which algorithm for which call: the choice among candidates whose costs are known.

mod contestants;
mod explanation;
mod orders;
mod preferences;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use contestants::contestants;
pub use explanation::{explain, Explanation};
pub use preferences::Algorithms;

use self::orders::{one_order, orders};
use crate::algorithms::{self, Member, Unavailable};
use crate::collective::Collective;
use crate::cost::{rank, Candidate, CostModel, Origin, Rule, SwitchTable, TableError};
use crate::plan::LowerError;
use crate::topology::Topology;

/// Which algorithm from how many bytes on, and what it was chosen among.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// Which from how many bytes on.
    pub table: SwitchTable,
    /// In catalogue order.
    pub among: Vec<Member>,
}

impl Selection {
    /// The same for all sizes.
    pub fn always(member: Member) -> Selection {
        Selection { table: SwitchTable::always(member), among: vec![member] }
    }
}

/// What is chosen for a collective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// With root 0 where there is one.
    pub collective: Collective,
    /// For floating-point data.
    pub floats: Selection,
    /// For data that comes out the same in any order.
    pub any: Selection,
}

/// What else counts than costs.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Whether floats are to be added up in one order for all sizes.
    pub size_invariant: bool,
    /// The user's rules; the first that fits counts.
    pub rules: &'a [Rule],
    /// What was measured; counts where no rule does.
    pub measured: &'a [Rule],
}

/// A candidate, and what is known of it.
#[derive(Debug, Clone)]
pub struct Contender<'a> {
    /// Of the catalogue.
    pub member: Member,
    /// With its cost, or a bound of that.
    pub candidate: &'a Candidate,
    /// Whether it is the cost.
    pub is_exact: bool,
}

/// Why nothing can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// An algorithm cannot be had.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is no table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A schedule cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A rule for this number of ranks names an algorithm that they cannot use.
    #[error(transparent)]
    Rule(Unavailable),
    /// Nothing is left.
    #[error("every algorithm for {} on {topology} is left out", collective.name())]
    NoneLeft {
        /// For which collective.
        collective: Collective,
        /// On which network.
        topology: String,
    },
    /// Nothing that may be used adds up in one order.
    #[error("no algorithm that may be used for {} on {topology} adds up in one order whatever the size; {}", collective.name(), advice(others))]
    NoOrder {
        /// For which collective.
        collective: Collective,
        /// On which network.
        topology: String,
        /// Those that would.
        others: Vec<Member>,
    },
}

fn advice(others: &[Member]) -> String {
    match others {
        [] => "none at all is known to on so many ranks; take at most 256, for direct-ordered".to_owned(),
        others => {
            let names: Vec<String> = others.iter().map(Member::name).collect();
            format!("allow one of {}", names.join(", "))
        }
    }
}

/// Whether orders have to be found out.
pub fn is_ordered(topology: &Topology, collective: Collective, size_invariant: bool) -> bool {
    size_invariant && collective.reduces() && topology.ranks() > 1
}

/// The algorithms that preferences allow.
pub fn allowed(
    topology: &Topology,
    collective: Collective,
    preferences: &Algorithms,
) -> Result<Vec<Member>, SelectionError> {
    let all = algorithms::available(topology, collective);
    let preferred = preferences.preferred(collective);
    let left = |mut members: Vec<Member>| {
        members.retain(|member| !preferences.excludes(collective, member));
        match members.is_empty() {
            true => Err(SelectionError::NoneLeft { collective, topology: topology.to_string() }),
            false => Ok(members),
        }
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

/// Of whom the costs matter even if they are not the fastest: where orders are compared those of all, and of a family that
/// a rule or a measurement is about those of its members.
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

/// Chooses for a collective; also the rules that cannot be kept, and why: they were for any number of ranks.
pub fn decide(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    contenders: &[Contender<'_>],
    terms: Terms<'_>,
) -> Result<(Choice, Vec<(Rule, Unavailable)>), SelectionError> {
    let members: Vec<Member> = contenders.iter().map(|contender| contender.member).collect();
    let among = |keep: &dyn Fn(&Candidate) -> bool| -> Vec<Contender<'_>> {
        contenders.iter().filter(|contender| keep(contender.candidate)).cloned().collect()
    };
    let floats = if is_ordered(topology, collective, terms.size_invariant) {
        let candidates: Vec<Candidate> = contenders.iter().map(|c| c.candidate.clone()).collect();
        let found = one_order(model, &candidates, &orders(topology, collective, &members)?);
        let found = found.map_or_else(|| Err(no_order(topology, collective)?), Ok)?;
        among(&|candidate| found.iter().any(|one| one.member == candidate.member))
    } else {
        match among(&|candidate| candidate.consistent) {
            none if none.is_empty() => contenders.to_vec(),
            consistent => consistent,
        }
    };
    let mut unkept = Vec::new();
    let floats = select(topology, model, collective, &floats, terms, &mut unkept)?;
    let any = select(topology, model, collective, contenders, terms, &mut Vec::new())?;
    Ok((Choice { collective, floats, any }, unkept))
}

/// The cheapest of some contenders for every size, and over it what rules and measurements say. The first rule that fits
/// counts, and so it is laid on last; a rule counts more than a measurement.
fn select(
    topology: &Topology,
    model: &CostModel,
    collective: Collective,
    some: &[Contender<'_>],
    terms: Terms<'_>,
    unkept: &mut Vec<(Rule, Unavailable)>,
) -> Result<Selection, SelectionError> {
    let exact = some.iter().filter(|contender| contender.is_exact).map(|contender| contender.candidate);
    let mut table = match some {
        [only] => SwitchTable::always(only.member),
        _ => SwitchTable::build(model, exact)?,
    };
    let measured = terms.measured.iter().map(|rule| (rule, Origin::Measured));
    let rules = terms.rules.iter().map(|rule| (rule, Origin::Rules));
    for (rule, origin) in rules.chain(measured).rev().filter(|(rule, _)| rule.collective == collective) {
        let member = rule.algorithm;
        if origin == Origin::Rules {
            if let Err(error) = member.supports(topology, collective) {
                // One for any number of ranks is for larger and smaller groups of the job, too.
                if rule.ranks.is_some() {
                    return Err(SelectionError::Rule(error));
                }
                unkept.push((rule.clone(), error));
                continue;
            }
        }
        // A family's name stands for its member that is the cheapest at the lower end of the range.
        let covered = some.iter().filter(|contender| member.covers(&contender.member));
        let covered: Vec<Candidate> = covered.map(|contender| contender.candidate.clone()).collect();
        if let Some(best) = rank(model, &covered, rule.from_bytes).first() {
            table = table.overlaid(rule.from_bytes, rule.to_bytes, best.member, origin);
        }
    }
    Ok(Selection { table, among: some.iter().map(|contender| contender.member).collect() })
}

/// The error where no algorithm that may be used adds up in one order: it names those that would.
fn no_order(topology: &Topology, collective: Collective) -> Result<SelectionError, SelectionError> {
    let others = orders(topology, collective, &algorithms::available(topology, collective))?;
    let others = others.into_keys().collect();
    Ok(SelectionError::NoOrder { collective, topology: topology.to_string(), others })
}
