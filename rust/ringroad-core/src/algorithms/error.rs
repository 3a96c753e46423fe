//! Errors in the choice of an algorithm, each with alternatives.

use super::{
    catalogue, Algorithm, Naming, Offer, Parameter, Ports, Requirement, ScheduleRequest, SearchObstacle,
    Shape, MAX_LENGTH, MAX_RANKS,
};
use crate::collective::Collective;
use crate::topology::Topology;
use crate::units::Rank;
use strsim::levenshtein;

/// Why an algorithm does not perform a collective on a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// There are more ranks than a schedule may have.
    #[error(
        "{collective} over {ranks} ranks is too large; schedules are made for up to {MAX_RANKS} ranks, and {MAX_LENGTH} in a dimension"
    )]
    TooManyRanks {
        /// The collective.
        collective: Collective,
        /// The number of ranks.
        ranks: usize,
    },
    /// The root is not one of the ranks.
    #[error("{} needs a root below its {ranks} ranks, not {root}", collective.name())]
    Root {
        /// The collective.
        collective: Collective,
        /// Its root.
        root: Rank,
        /// The number of ranks.
        ranks: usize,
    },
    /// The algorithm performs the collective, but not on this shape.
    #[error("{algorithm} needs {requirement}, not {shape}; {}", use_instead(shape, *collective, alternatives))]
    Shape {
        /// The algorithm.
        algorithm: &'static str,
        /// The requirement that is not met.
        requirement: &'static str,
        /// The ring or torus, or the topology's spec.
        shape: String,
        /// The collective.
        collective: Collective,
        /// The algorithms that perform the collective there.
        alternatives: Vec<&'static str>,
    },
    /// The algorithm does not perform the collective at all.
    #[error("{algorithm} performs no {}; {}", collective.name(), use_instead(shape, *collective, alternatives))]
    Collective {
        /// The algorithm.
        algorithm: &'static str,
        /// The ring or torus.
        shape: String,
        /// The collective.
        collective: Collective,
        /// The algorithms that perform the collective there.
        alternatives: Vec<&'static str>,
    },
    /// The family has no such member on this shape.
    #[error(
        "{algorithm} has no {parameter} = {value} for {collective} on {shape}, only {}",
        join(values, "and")
    )]
    Parameter {
        /// The algorithm.
        algorithm: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The value that was asked for.
        value: String,
        /// The collective.
        collective: Collective,
        /// The ring or torus.
        shape: String,
        /// The values worth trying.
        values: Vec<String>,
    },
    /// The given schedule performs something else.
    #[error("{name} cannot be used for {collective} over {ranks} ranks: {why}")]
    Given {
        /// The member.
        name: String,
        /// The collective.
        collective: Collective,
        /// The number of ranks.
        ranks: usize,
        /// Why not.
        why: String,
    },
    /// A search found no schedule for this graph.
    #[error("{algorithm} finds no schedule for {} on {topology}: {why}; {}", collective.name(), use_instead(topology, *collective, alternatives))]
    Graph {
        /// The algorithm.
        algorithm: String,
        /// The collective.
        collective: Collective,
        /// The topology's spec.
        topology: String,
        /// Why not.
        why: String,
        /// The other algorithms that perform the collective there.
        alternatives: Vec<&'static str>,
    },
    /// The caller has ended the search for a schedule.
    #[error("the time for making {algorithm}'s schedule of {} on {topology} has run out", collective.name())]
    Spent {
        /// The algorithm.
        algorithm: String,
        /// The collective.
        collective: Collective,
        /// The topology's spec.
        topology: String,
    },
}

impl Unavailable {
    pub(super) fn search(request: &ScheduleRequest<'_>, why: SearchObstacle) -> Unavailable {
        let ScheduleRequest { name, topology, collective, .. } = *request;
        match why {
            SearchObstacle::None(why) => Unavailable::graph(request, why),
            SearchObstacle::Spent(_) => {
                Unavailable::Spent { algorithm: name.to_owned(), collective, topology: topology.spec() }
            }
        }
    }

    fn graph(request: &ScheduleRequest<'_>, why: String) -> Unavailable {
        let ScheduleRequest { name, topology, collective, .. } = *request;
        let base = name.split(':').next().unwrap_or(name);
        let others = names(topology, collective).into_iter().filter(|other| *other != base);
        Unavailable::Graph {
            algorithm: name.to_owned(),
            collective,
            topology: topology.spec(),
            why,
            alternatives: others.collect(),
        }
    }

    pub(super) fn shape(
        algorithm: &Algorithm,
        requirement: Requirement,
        topology: &Topology,
        collective: Collective,
    ) -> Unavailable {
        // Algorithms for any graph depend on links, not on a shape.
        let shape = match algorithm.ports {
            Ports::Any => topology.spec(),
            _ => Shape::from_topology(topology).to_string(),
        };
        let (requirement, alternatives) = (requirement.text, names(topology, collective));
        Unavailable::Shape { algorithm: algorithm.name, requirement, shape, collective, alternatives }
    }

    pub(super) fn collective(
        algorithm: &'static str,
        topology: &Topology,
        collective: Collective,
    ) -> Unavailable {
        let (shape, alternatives) = (Shape::from_topology(topology), names(topology, collective));
        Unavailable::Collective { algorithm, shape: shape.to_string(), collective, alternatives }
    }

    pub(super) fn parameter(
        algorithm: &'static str,
        family: &Parameter,
        value: usize,
        shape: &Shape,
        offer: &Offer,
    ) -> Unavailable {
        let (parameter, collective) = (family.name, offer.collective);
        let offered = (family.values)(shape).into_iter().filter(|value| offer.has(Some(*value)));
        let values = offered.map(|value| family.naming.text(value)).collect();
        let value = family.naming.text(value);
        Unavailable::Parameter { algorithm, parameter, value, collective, shape: shape.to_string(), values }
    }
}

fn names(topology: &Topology, collective: Collective) -> Vec<&'static str> {
    let offered = |a: &&Algorithm| a.offer(collective).is_some_and(|o| o.requirement.admits(topology));
    catalogue().filter(offered).map(|a| a.name).collect()
}

fn use_instead(shape: &str, collective: Collective, alternatives: &[&str]) -> String {
    format!("for {} on {shape} use {}", collective.name(), join(alternatives, "or"))
}

/// Joins words as in `a, b or c`.
fn join<T: AsRef<str>>(words: &[T], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [init @ .., end] if !init.is_empty() => format!("{} {last} {end}", init.join(", ")),
        all => all.concat(),
    }
}

/// No algorithm has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAlgorithm {
    /// There is no such algorithm.
    #[error("unknown algorithm {name:?}; did you mean {nearest}? Expected one of: {}", all_names().join(", "))]
    Name {
        /// The name that was asked for.
        name: String,
        /// The most similar name.
        nearest: &'static str,
    },
    /// A given schedule that this process does not have.
    #[error("unknown schedule {name:?}: this process has not read it; name its file instead, as file:PATH")]
    Given {
        /// The name that was asked for.
        name: String,
    },
    /// The text after the colon is no value of the parameter.
    #[error("unknown algorithm {name:?}; {expected}")]
    Parameter {
        /// The name that was asked for.
        name: String,
        /// What to write instead.
        expected: String,
    },
}

impl UnknownAlgorithm {
    pub(super) fn new(name: &str, base: &str) -> UnknownAlgorithm {
        let plain = base.to_ascii_lowercase().replace('_', "-");
        let nearest = all_names().into_iter().min_by_key(|n| levenshtein(n, &plain)).unwrap_or_default();
        UnknownAlgorithm::Name { name: name.to_owned(), nearest }
    }

    pub(super) fn given(name: &str) -> UnknownAlgorithm {
        UnknownAlgorithm::Given { name: name.to_owned() }
    }

    pub(super) fn parameter(
        name: &str,
        algorithm: &Algorithm,
        family: Option<&Parameter>,
    ) -> UnknownAlgorithm {
        let expected = match family {
            None => format!("{} has no parameter", algorithm.name),
            Some(Parameter { name, meaning, naming, .. }) => {
                let one_of = match naming {
                    Naming::Names(names) => format!(": {}", join(names, "or")),
                    Naming::Number | Naming::Digest => String::new(),
                };
                format!("write {}:{name}, where {name} is {meaning}{one_of}", algorithm.name)
            }
        };
        UnknownAlgorithm::Parameter { name: name.to_owned(), expected }
    }
}

fn all_names() -> Vec<&'static str> {
    catalogue().map(|a| a.name).collect()
}
