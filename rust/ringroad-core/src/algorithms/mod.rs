//! The catalogue of algorithms: named constructors of schedules, with what they require and what they cost.
//!
//! An algorithm is data: a row of [`catalogue`] whose offers say which collectives it performs, for which numbers of
//! ranks, and in how many steps. It has no communication code; its constructor returns a [`Schedule`]. Reduce-scatter,
//! allgather and allreduce of most families come from one table of in-trees (see [`in_trees`]).
//!
//! Ports are those of a ring: port 0 leads to rank + 1, port 1 to rank - 1, and a message leaves by the shorter way.

mod binomial;
mod catalogue;
mod error;
mod fold;
mod halving_doubling;
pub mod in_trees;
mod pairwise;
mod recursive_doubling;
mod ring;
mod scatter_allgather;
mod swing;
mod trivance;

use std::fmt;

pub use error::{Unavailable, UnknownAlgorithm};

use crate::collective::Collective;
use crate::schedule::Schedule;

/// Schedules are written out for every rank, which no machine can do for more than this many.
pub const MAX_RANKS: usize = 1 << 14;

/// A named way to perform one or several collectives.
#[derive(Debug)]
pub struct Algorithm {
    /// What users write, in kebab-case.
    pub name: &'static str,
    /// The idea in one line.
    pub summary: &'static str,
    /// Where it comes from: paper and section.
    pub source: &'static str,
    /// By how many ports of a ring a rank sends at once, at most.
    pub ports: usize,
    /// The collectives it performs.
    pub offers: &'static [Offer],
    consistent: fn(usize) -> bool,
}

/// One collective that an algorithm performs.
#[derive(Debug)]
pub struct Offer {
    /// The collective, with root 0 where there is one; every other root is offered as well.
    pub collective: Collective,
    /// For which numbers of ranks.
    pub requirement: Requirement,
    construct: fn(&str, usize, Collective) -> Schedule,
    cost: fn(usize) -> CostLine,
}

/// For which numbers of ranks an algorithm works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// Every number.
    Any,
    /// 1, 2, 4, 8, ...
    PowerOfTwo,
    /// 1, 3, 9, 27, ...
    PowerOfThree,
}

impl Requirement {
    /// Whether it works for `ranks` ranks.
    pub fn admits(self, ranks: usize) -> bool {
        match self {
            Requirement::Any => ranks > 0,
            Requirement::PowerOfTwo => ranks.is_power_of_two(),
            Requirement::PowerOfThree => 3usize.checked_pow(ceil_log(3, ranks) as u32) == Some(ranks),
        }
    }
}

/// Reads as "needs ... of ranks".
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Requirement::Any => "any number",
            Requirement::PowerOfTwo => "a power of two",
            Requirement::PowerOfThree => "a power of three",
        })
    }
}

/// What a schedule costs, independent of any network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// How many steps.
    pub steps: usize,
    /// What the busiest rank sends, over all its ports, as a fraction of the vector.
    pub sent: f64,
}

/// All algorithms.
pub fn catalogue() -> &'static [Algorithm] {
    catalogue::CATALOGUE
}

/// The algorithm of this name; case does not matter, nor whether `-` or `_` joins the words.
pub fn find(name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    let wanted = name.to_ascii_lowercase().replace('_', "-");
    catalogue().iter().find(|a| a.name == wanted).ok_or_else(|| UnknownAlgorithm::new(name))
}

/// The algorithms that perform `collective` over `ranks` ranks. There is at least one for every collective.
pub fn available(ranks: usize, collective: Collective) -> impl Iterator<Item = &'static Algorithm> {
    catalogue()
        .iter()
        .filter(move |a| a.offer(collective).is_some_and(|offer| offer.requirement.admits(ranks)))
}

impl Algorithm {
    /// The collectives it performs, with root 0 where there is one.
    pub fn collectives(&self) -> impl Iterator<Item = Collective> {
        self.offers.iter().map(|offer| offer.collective)
    }

    /// What is offered for `collective`, whatever its root.
    pub fn offer(&self, collective: Collective) -> Option<&'static Offer> {
        self.offers.iter().find(|offer| offer.collective == collective.with_root(0))
    }

    fn check(&self, ranks: usize, collective: Collective) -> Result<&'static Offer, Unavailable> {
        if ranks == 0 {
            return Err(Unavailable::NoRanks { collective });
        }
        if ranks > MAX_RANKS {
            return Err(Unavailable::TooManyRanks { collective, ranks });
        }
        if let Some(root) = collective.root().filter(|root| *root >= ranks) {
            return Err(Unavailable::Root { collective, root, ranks });
        }
        match self.offer(collective) {
            Some(offer) if offer.requirement.admits(ranks) => Ok(offer),
            Some(offer) => Err(Unavailable::ranks(self.name, offer.requirement, ranks, collective)),
            None => Err(Unavailable::collective(self.name, ranks, collective)),
        }
    }

    /// Whether `collective` over `ranks` ranks is offered; the error says why not and what to use instead.
    pub fn supports(&self, ranks: usize, collective: Collective) -> Result<(), Unavailable> {
        self.check(ranks, collective).map(|_| ())
    }

    /// The schedule of `collective` for `ranks` ranks.
    pub fn build(&self, ranks: usize, collective: Collective) -> Result<Schedule, Unavailable> {
        let offer = self.check(ranks, collective)?;
        Ok((offer.construct)(self.name, ranks, collective))
    }

    /// Steps and volume of that schedule, from the closed formula and without building it.
    pub fn cost_line(&self, ranks: usize, collective: Collective) -> Result<CostLine, Unavailable> {
        let offer = self.check(ranks, collective)?;
        Ok((offer.cost)(ranks))
    }

    /// Whether all ranks end with bit-identical results when floating-point numbers are reduced.
    ///
    /// They do where every chunk is reduced along one tree and then copied. Algorithms that exchange whole vectors add
    /// the same numbers in another order on every rank, and floating-point addition is commutative but not associative.
    pub fn consistent(&self, ranks: usize) -> bool {
        (self.consistent)(ranks)
    }
}

/// The least `k` with `base^k >= number`.
fn ceil_log(base: usize, number: usize) -> usize {
    let mut power = 1usize;
    let mut exponent = 0;
    while power < number {
        power = power.saturating_mul(base);
        exponent += 1;
    }
    exponent
}
