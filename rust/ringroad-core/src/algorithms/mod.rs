//! The catalogue of algorithms: named constructors of schedules, with what they require and what they cost.
//!
//! An algorithm is data: a row of [`catalogue()`] whose offers say which collectives it performs, on which shapes, and in
//! how many steps. It has no communication code; its constructor returns a [`Schedule`]. Reduce-scatter, allgather and
//! allreduce of most families come from tables of in-trees (see [`in_trees`]).
//!
//! Some algorithms are families with a parameter; a [`Member`] is an algorithm with its parameter settled, and what is
//! built, compared and chosen. Its name is that of the algorithm, with the parameter behind a colon: `swing`,
//! `generalized:2`, or `hierarchical:swing` where the parameter has names.
//!
//! On a torus ports are those of [`Topology::port_link`]; behind a switch and on hosts ranks count as a ring, of which
//! port 0 leads to rank + 1 and port 1 to rank - 1. A message leaves by the shorter way.

mod bfb;
mod binomial;
mod bruck;
mod bruck_alltoall;
mod bucket;
mod butterfly;
mod catalogue;
mod dimension_wise;
mod direct;
mod direct_ordered;
mod distances;
mod double_tree;
mod elimination;
mod error;
mod flow;
mod fold;
mod gather_sum;
mod generalized;
mod halving_doubling;
mod hamiltonian;
mod hierarchical;
mod hybrid;
pub mod in_trees;
mod leaders;
mod nested;
mod pairwise;
mod recursive_doubling;
mod ring;
mod scatter_allgather;
mod shape;
mod shape_merged;
mod slots;
mod swing;
mod trees;
mod trivance;
mod windows;

use std::cmp::Ordering;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use error::{Unavailable, UnknownAlgorithm};
pub use generalized::best_r;
pub use shape::Shape;

use crate::collective::{is_name, Collective};
use crate::schedule::Schedule;
use crate::topology::Topology;

/// The most ranks that a schedule is made for. Above 8192 ranks, what goes around all of them can be judged but not run: a
/// rank sends its neighbour two messages for each other one, and no more can be told apart (see
/// [`crate::plan::MAX_MESSAGES`]).
pub const MAX_RANKS: usize = 1 << 16;
/// The most of them in a dimension.
pub const MAX_LENGTH: usize = 1 << 13;

/// A named way to perform one or several collectives.
#[derive(Debug)]
pub struct Algorithm {
    /// What users write, in kebab-case.
    pub name: &'static str,
    /// The idea in one line.
    pub summary: &'static str,
    /// Where it comes from: paper and section.
    pub source: &'static str,
    /// By how many ports a rank sends at once, at most.
    pub ports: Ports,
    /// What distinguishes the members of a family.
    pub parameter: Option<Parameter>,
    /// The collectives it performs.
    pub offers: &'static [Offer],
    consistent: fn(&Request<'_>) -> bool,
}

/// By how many ports a rank sends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// One.
    One,
    /// Both ports of a dimension.
    Two,
    /// Both ports of every dimension.
    All,
    /// All that there are.
    Any,
}

impl Ports {
    /// How many that are on `topology`.
    pub fn count(self, topology: &Topology) -> usize {
        match self {
            Ports::One => 1,
            Ports::Two => 2,
            Ports::All => 2 * Shape::of(topology).wide().len().max(1),
            // Behind a switch ranks count as a ring, whose ports are two.
            Ports::Any => topology.max_degree().max(2),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ports::One => "1",
            Ports::Two => "2",
            Ports::All => "2D",
            Ports::Any => "all",
        })
    }
}

/// What distinguishes the members of a family.
#[derive(Debug)]
pub struct Parameter {
    /// What the literature calls it.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
    /// The values worth trying on a shape, ascending; the first is taken where none is given.
    pub values: fn(&Shape) -> Vec<usize>,
    /// Whether a value makes sense on a shape.
    pub admits: fn(&Shape, usize) -> bool,
    /// What the values 0, 1, ... are called; empty where they are numbers.
    pub names: &'static [&'static str],
}

impl Parameter {
    /// What users write for a value.
    fn text(&self, value: usize) -> String {
        self.names.get(value).map_or_else(|| value.to_string(), |name| (*name).to_owned())
    }

    /// The value that users write so.
    fn value(&self, text: &str) -> Option<usize> {
        if self.names.is_empty() {
            text.parse().ok()
        } else {
            self.names.iter().position(|name| is_name(text, name))
        }
    }
}

/// One collective that an algorithm performs.
#[derive(Debug)]
pub struct Offer {
    /// The collective, with root 0 where there is one; every other root is offered as well.
    pub collective: Collective,
    /// On which shapes.
    pub requirement: Requirement,
    /// The values of the family's parameter with which it is offered, if it is not offered with all.
    pub only: Option<fn(usize) -> bool>,
    /// Whether every element of the result is `((0 + 1) + 2) + ...`, the ranks' values added up in their order, whatever
    /// the root. Others may do so as well; of these it need not be found out.
    pub in_rank_order: bool,
    construct: Construct,
}

/// How a schedule is made, and what is known of its cost.
#[derive(Debug, Clone, Copy)]
enum Construct {
    /// Wherever the requirement is met, with a formula for its cost.
    Always(fn(&Request<'_>) -> Schedule, fn(&Request<'_>) -> CostLine),
    /// Likewise, as two schedules in turn.
    InTurn(fn(&Request<'_>) -> [Schedule; 2], fn(&Request<'_>) -> CostLine),
    /// If a search finds one; else it says why not.
    Search(fn(&Request<'_>) -> Result<Schedule, String>),
}

impl Construct {
    fn schedule(self, request: &Request<'_>) -> Result<Schedule, Unavailable> {
        match self {
            Construct::Always(schedule, _) => Ok(schedule(request)),
            Construct::InTurn(parts, _) => {
                let [first, second] = parts(request);
                Ok(first.compose(&second).expect("the parts divide the vector into the same chunks"))
            }
            Construct::Search(search) => search(request).map_err(|why| Unavailable::graph(request, why)),
        }
    }

    fn parts(self, request: &Request<'_>) -> Result<Vec<Schedule>, Unavailable> {
        match self {
            Construct::InTurn(parts, _) => Ok(parts(request).into()),
            whole => Ok(vec![whole.schedule(request)?]),
        }
    }

    fn cost(self, request: &Request<'_>) -> Result<CostLine, Unavailable> {
        match self {
            Construct::Always(_, cost) | Construct::InTurn(_, cost) => Ok(cost(request)),
            Construct::Search(_) => {
                let schedule = self.schedule(request)?;
                Ok(CostLine { steps: schedule.steps.len(), sent: schedule.max_sent() })
            }
        }
    }
}

impl Offer {
    /// Whether it is made for this value of the family's parameter, or for some if that is left open.
    pub fn has(&self, parameter: Option<usize>) -> bool {
        self.only.is_none_or(|only| parameter.is_none_or(only))
    }
}

/// What is to be built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The member's name.
    pub name: &'a str,
    /// The whole network, also where the shape is that of a part of it.
    pub topology: &'a Topology,
    pub shape: &'a Shape,
    pub collective: Collective,
    /// 0 where the algorithm has none.
    pub parameter: usize,
}

/// On which networks an algorithm works.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// Reads as "needs ...".
    pub text: &'static str,
    admits: fn(&Shape) -> bool,
    /// For what is made for the graph as it is.
    fits: fn(&Topology) -> bool,
    /// Whether it is: then making it may take long.
    made: bool,
    /// Where it is tried unasked: not where something else is known to be as good.
    worth_trying: fn(&Topology) -> bool,
}

impl Requirement {
    /// Whether it works on `topology`.
    pub fn admits(self, topology: &Topology) -> bool {
        (self.admits)(&Shape::of(topology)) && (self.fits)(topology)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
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
pub fn catalogue() -> impl Iterator<Item = &'static Algorithm> + Clone {
    catalogue::rows()
}

/// An algorithm, with its parameter if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    algorithm: &'static Algorithm,
    /// `None` leaves it to the shape.
    parameter: Option<usize>,
}

/// The member of this name; case does not matter, nor whether `-` or `_` joins the words. A family's name alone leaves
/// the parameter to the shape.
pub fn find(name: &str) -> Result<Member, UnknownAlgorithm> {
    let (base, value) = match name.split_once(':') {
        Some((base, value)) => (base, Some(value)),
        None => (name, None),
    };
    let algorithm = catalogue().find(|algorithm| is_name(base, algorithm.name));
    let algorithm = algorithm.ok_or_else(|| UnknownAlgorithm::new(name, base))?;
    let parameter = match (value, &algorithm.parameter) {
        (None, _) => None,
        (Some(value), Some(parameter)) => {
            let unknown = || UnknownAlgorithm::parameter(name, algorithm, Some(parameter));
            Some(parameter.value(value).ok_or_else(unknown)?)
        }
        (Some(_), None) => return Err(UnknownAlgorithm::parameter(name, algorithm, None)),
    };
    Ok(Member { algorithm, parameter })
}

/// What can perform `collective` on `topology`, with every parameter worth trying, in catalogue order. There is at least
/// one for every collective among up to 4096 ranks, and beyond them for every one but the all-to-all.
pub fn available(topology: &Topology, collective: Collective) -> Vec<Member> {
    let offered = |algorithm: &&'static Algorithm| {
        let tried = |needs: Requirement| (needs.worth_trying)(topology) && needs.admits(topology);
        algorithm.offer(collective).is_some_and(|offer| tried(offer.requirement))
    };
    let members = |algorithm: &'static Algorithm| {
        let has = |member: &Member| algorithm.offer(collective).is_some_and(|o| o.has(member.parameter));
        algorithm.members(topology).into_iter().filter(has)
    };
    catalogue().filter(offered).flat_map(members).collect()
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

    /// The members of the family that are worth trying on `topology`, whatever the collective; of an algorithm without
    /// a parameter the only one.
    pub fn members(&'static self, topology: &Topology) -> Vec<Member> {
        let member = |parameter| Member { algorithm: self, parameter };
        match &self.parameter {
            None => vec![member(None)],
            Some(family) => {
                (family.values)(&Shape::of(topology)).into_iter().map(|v| member(Some(v))).collect()
            }
        }
    }
}

impl Member {
    /// What a message from one rank to another counts as: whoever has something sends it at once.
    pub fn of_messages() -> Member {
        find("direct").expect("it is in the catalogue")
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The parameter, if it is settled.
    pub fn parameter(&self) -> Option<usize> {
        self.parameter
    }

    /// What users write, such as `swing` or `generalized:2`.
    pub fn name(&self) -> String {
        match (self.parameter, &self.algorithm.parameter) {
            (Some(value), Some(family)) => format!("{}:{}", self.algorithm.name, family.text(value)),
            _ => self.algorithm.name.to_owned(),
        }
    }

    /// Whether `other` is meant where this one is named: a family's name stands for all its members.
    pub fn covers(&self, other: &Member) -> bool {
        self == other || self.parameter.is_none() && self.algorithm.name == other.algorithm.name
    }

    /// Whether the schedule of `collective` is made for the graph, and not written down once for all networks of a kind.
    pub fn is_made_for_graph(&self, collective: Collective) -> bool {
        self.algorithm.offer(collective).is_some_and(|offer| offer.requirement.made)
    }

    /// Whether it is known to add up every element in the order of the ranks (see [`Offer::in_rank_order`]).
    pub fn in_rank_order(&self, collective: Collective) -> bool {
        self.algorithm.offer(collective).is_some_and(|offer| offer.in_rank_order)
    }

    fn check(
        &self,
        topology: &Topology,
        shape: &Shape,
        collective: Collective,
    ) -> Result<&'static Offer, Unavailable> {
        let ranks = shape.ranks();
        if ranks > MAX_RANKS || shape.sizes().iter().any(|size| *size > MAX_LENGTH) {
            return Err(Unavailable::TooManyRanks { collective, ranks });
        }
        if let Some(root) = collective.root().filter(|root| *root >= ranks) {
            return Err(Unavailable::Root { collective, root, ranks });
        }
        let name = self.algorithm.name;
        let Some(offer) = self.algorithm.offer(collective) else {
            return Err(Unavailable::collective(name, topology, collective));
        };
        if !offer.requirement.admits(topology) {
            return Err(Unavailable::shape(self.algorithm, offer.requirement, topology, collective));
        }
        match (&self.algorithm.parameter, self.parameter) {
            (Some(family), Some(value)) if !(family.admits)(shape, value) || !offer.has(Some(value)) => {
                Err(Unavailable::parameter(name, family, value, shape, offer))
            }
            _ => Ok(offer),
        }
    }

    /// The parameter, or where it is left open the first with which the collective is offered.
    fn settled(&self, shape: &Shape, collective: Collective) -> usize {
        let offered =
            |value: &usize| self.algorithm.offer(collective).is_some_and(|offer| offer.has(Some(*value)));
        let first = |family: &Parameter| (family.values)(shape).into_iter().find(offered).unwrap_or(0);
        self.parameter.unwrap_or_else(|| self.algorithm.parameter.as_ref().map_or(0, first))
    }

    /// Whether `collective` on `topology` is offered; the error says why not and what to use instead.
    pub fn supports(&self, topology: &Topology, collective: Collective) -> Result<(), Unavailable> {
        self.check(topology, &Shape::of(topology), collective).map(|_| ())
    }

    /// The schedule of `collective` on `topology`.
    pub fn build(&self, topology: &Topology, collective: Collective) -> Result<Schedule, Unavailable> {
        self.construct(topology, collective, Construct::schedule)
    }

    /// That schedule as what it is composed of: one part after the other costs the same, and where all ranks do alike in a
    /// part but not in the whole, takes far less time to look at (see [`crate::cost::ScheduleCost::in_turn`]).
    pub fn parts(&self, topology: &Topology, collective: Collective) -> Result<Vec<Schedule>, Unavailable> {
        self.construct(topology, collective, Construct::parts)
    }

    fn construct<T>(
        &self,
        topology: &Topology,
        collective: Collective,
        make: impl Fn(Construct, &Request<'_>) -> Result<T, Unavailable>,
    ) -> Result<T, Unavailable> {
        let shape = Shape::of(topology);
        let offer = self.check(topology, &shape, collective)?;
        let (name, parameter) = (&self.name(), self.settled(&shape, collective));
        make(offer.construct, &Request { name, topology, shape: &shape, collective, parameter })
    }

    /// Steps and volume of that schedule, from the closed formula and without building it.
    pub fn cost_line(&self, topology: &Topology, collective: Collective) -> Result<CostLine, Unavailable> {
        let shape = Shape::of(topology);
        let offer = self.check(topology, &shape, collective)?;
        let (name, parameter) = (self.algorithm.name, self.settled(&shape, collective));
        offer.construct.cost(&Request { name, topology, shape: &shape, collective, parameter })
    }

    /// Whether all ranks end with bit-identical results when floating-point numbers are reduced.
    ///
    /// They do where every chunk is reduced along one tree and then copied. Algorithms that exchange whole vectors add
    /// the same numbers in another order on every rank, and floating-point addition is commutative but not associative.
    pub fn consistent(&self, topology: &Topology, collective: Collective) -> bool {
        let shape = Shape::of(topology);
        let (name, parameter) = (self.algorithm.name, self.settled(&shape, collective));
        (self.algorithm.consistent)(&Request { name, topology, shape: &shape, collective, parameter })
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Member) -> bool {
        (self.algorithm.name, self.parameter) == (other.algorithm.name, other.parameter)
    }
}

impl Eq for Member {}

/// By their names, as text.
impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.parameter, other.parameter) {
            (None, None) => self.algorithm.name.cmp(other.algorithm.name),
            _ if self == other => Ordering::Equal,
            _ => self.name().cmp(&other.name()),
        }
    }
}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for Member {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.algorithm.name, self.parameter).hash(state);
    }
}

/// By its name.
impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Member, D::Error> {
        find(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
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
