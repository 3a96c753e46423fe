//! What goes wrong when an algorithm is chosen by hand, and what to choose instead.

use super::{available, catalogue, Requirement, MAX_RANKS};
use crate::collective::Collective;
use crate::units::Rank;
use strsim::levenshtein;

/// An algorithm does not perform this collective over this number of ranks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// More ranks than a schedule can be written out for.
    #[error(
        "{collective} over {ranks} ranks is too large; schedules are written out for up to {MAX_RANKS} ranks"
    )]
    TooManyRanks {
        /// The collective.
        collective: Collective,
        /// How many ranks were asked for.
        ranks: usize,
    },
    /// Nobody takes part.
    #[error("{collective} needs at least one rank")]
    NoRanks {
        /// The collective.
        collective: Collective,
    },
    /// The root takes no part.
    #[error("{} needs a root below its {ranks} ranks, not {root}", collective.name())]
    Root {
        /// The collective.
        collective: Collective,
        /// Its root.
        root: Rank,
        /// How many ranks take part.
        ranks: usize,
    },
    /// The algorithm performs the collective, but not over this number of ranks.
    #[error("{algorithm} needs {requirement} of ranks, not {ranks}; {}", use_instead(*ranks, *collective, alternatives))]
    Ranks {
        /// The algorithm.
        algorithm: &'static str,
        /// What it needs.
        requirement: Requirement,
        /// How many ranks take part.
        ranks: usize,
        /// The collective.
        collective: Collective,
        /// The algorithms that perform it.
        alternatives: Vec<&'static str>,
    },
    /// The algorithm does not perform the collective at all.
    #[error("{algorithm} performs no {}; {}", collective.name(), use_instead(*ranks, *collective, alternatives))]
    Collective {
        /// The algorithm.
        algorithm: &'static str,
        /// How many ranks take part.
        ranks: usize,
        /// The collective.
        collective: Collective,
        /// The algorithms that perform it.
        alternatives: Vec<&'static str>,
    },
}

impl Unavailable {
    pub(super) fn ranks(
        algorithm: &'static str,
        requirement: Requirement,
        ranks: usize,
        collective: Collective,
    ) -> Unavailable {
        let alternatives = names(ranks, collective);
        Unavailable::Ranks { algorithm, requirement, ranks, collective, alternatives }
    }

    pub(super) fn collective(algorithm: &'static str, ranks: usize, collective: Collective) -> Unavailable {
        let alternatives = names(ranks, collective);
        Unavailable::Collective { algorithm, ranks, collective, alternatives }
    }
}

fn names(ranks: usize, collective: Collective) -> Vec<&'static str> {
    available(ranks, collective).map(|a| a.name).collect()
}

fn use_instead(ranks: usize, collective: Collective, alternatives: &[&str]) -> String {
    format!("for {} over {ranks} ranks use {}", collective.name(), join(alternatives, "or"))
}

/// `a, b or c`.
fn join(words: &[&str], last: &str) -> String {
    match words {
        [init @ .., end] if !init.is_empty() => format!("{} {last} {end}", init.join(", ")),
        _ => words.concat(),
    }
}

/// No algorithm has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm {name:?}; did you mean {nearest}? There are {}", join(&all_names(), "and"))]
pub struct UnknownAlgorithm {
    /// What was asked for.
    pub name: String,
    /// The most similar name that exists.
    pub nearest: &'static str,
}

impl UnknownAlgorithm {
    pub(super) fn new(name: &str) -> UnknownAlgorithm {
        let wanted = name.to_ascii_lowercase();
        let nearest = all_names().into_iter().min_by_key(|n| levenshtein(n, &wanted)).unwrap_or_default();
        UnknownAlgorithm { name: name.to_owned(), nearest }
    }
}

fn all_names() -> Vec<&'static str> {
    catalogue().iter().map(|a| a.name).collect()
}
