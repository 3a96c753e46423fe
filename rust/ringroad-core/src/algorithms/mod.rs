//! The catalogue of algorithms: named constructors of schedules, with what they require and what they cost.
//!
//! An algorithm is data: a row of [`catalogue()`] whose offers say which collectives it performs, on which shapes, and
//! in how many steps. It has no communication code; its constructor returns a [`Schedule`]. Reduce-scatter, allgather
//! and allreduce of most families come from tables of in-trees (see [`in_trees`]).
//!
//! Some algorithms are families with a parameter. A [`Member`] is an algorithm with its parameter set; members are what
//! is built, compared and chosen. A member's name is the algorithm's name, followed by a colon and the parameter if
//! there is one: `swing`, `generalized:2`, or `hierarchical:swing` where the values have names.
//!
//! On a torus, ports are those of [`Topology::port_link`]. Behind a switch and on hosts, ranks count as a ring: port 0
//! leads to rank + 1 and port 1 to rank - 1. A message leaves by the shorter way around.
//!
//! Schedules that are made for a graph ([`crate::synthesis`]) are ordinary algorithms with two differences: their
//! requirement checks the graph and not only the grid, and they say on which topologies they are candidates by
//! default (not on whole tori, where a known algorithm is as good).

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
mod expanded;
mod flow;
mod fold;
mod gather_sum;
mod generalized;
pub mod given;
mod ground;
mod halving_doubling;
mod hamiltonian;
mod hierarchical;
mod hybrid;
pub mod in_trees;
mod leaders;
mod nested;
mod pairwise;
mod prefix_chain;
mod prefix_doubling;
mod recursive_doubling;
mod ring;
mod scatter_allgather;
mod shape;
mod shape_merged;
mod slots;
mod swing;
mod trees;
mod trivance;
mod unequal_hosts;
mod windows;

use std::cmp::Ordering;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use bruck_alltoall::along_dimensions;
pub use error::{Unavailable, UnknownAlgorithm};
pub use generalized::best_r;
pub use ground::Ground;
pub use shape::Shape;

use crate::collective::{is_name, Collective};
use crate::schedule::Schedule;
use crate::synthesis::{Budget, Spent, Unsuitable};
use crate::topology::Topology;

/// The most ranks of a schedule. With more than 8192 ranks, algorithms that go around all of them can be compared but
/// not run: a rank sends its neighbour two messages for each other rank, and a plan cannot number more messages (see
/// [`crate::plan::MAX_MESSAGES`]).
pub const MAX_RANKS: usize = 1 << 16;
/// The most ranks in one dimension.
pub const MAX_LENGTH: usize = 1 << 13;

/// A named way to perform one or several collectives.
#[derive(Debug)]
pub struct Algorithm {
    /// The name that users write, in kebab-case.
    pub name: &'static str,
    /// The idea in one line.
    pub summary: &'static str,
    /// The source: paper and section.
    pub source: &'static str,
    /// The most ports by which a rank sends at once.
    pub ports: Ports,
    /// The parameter of a family; `None` if the algorithm has no parameter.
    pub parameter: Option<Parameter>,
    /// The collectives it performs.
    pub offers: &'static [Offer],
    bit_identical: fn(&ScheduleRequest<'_>) -> bool,
}

/// The number of ports by which a rank sends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// One.
    One,
    /// Both ports of a dimension.
    Two,
    /// Both ports of every dimension.
    All,
    /// All ports of the rank.
    Any,
}

impl Ports {
    /// The number of ports on `topology`.
    pub fn count(self, topology: &Topology) -> usize {
        match self {
            Ports::One => 1,
            Ports::Two => 2,
            Ports::All => 2 * Shape::from_topology(topology).wide().len().max(1),
            // Behind a switch, ranks count as a ring, which has two ports.
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

/// The parameter that distinguishes the members of a family.
#[derive(Debug)]
pub struct Parameter {
    /// Its name in the literature.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The values worth trying on a shape, ascending. The first is the default.
    pub values: fn(&Shape) -> Vec<usize>,
    /// Whether a value is possible on a shape.
    pub admits: fn(&Shape, usize) -> bool,
    /// How users write values.
    pub naming: Naming,
}

/// How users write the values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// As numbers.
    Number,
    /// By the names of the values 0, 1, ...
    Names(&'static [&'static str]),
    /// As the first digits of a digest.
    Digest,
}

impl Naming {
    /// How many digits of a digest make a value.
    const DIGITS: usize = 12;

    fn text(self, value: usize) -> String {
        match self {
            Naming::Number => value.to_string(),
            Naming::Names(names) => names.get(value).map_or_else(|| value.to_string(), |n| (*n).to_owned()),
            Naming::Digest => format!("{value:0width$x}", width = Naming::DIGITS),
        }
    }

    /// The value of a text that a user has written; `None` if there is no such value.
    fn value(self, text: &str) -> Option<usize> {
        match self {
            Naming::Number => text.parse().ok(),
            Naming::Names(names) => names.iter().position(|name| is_name(text, name)),
            Naming::Digest => (text.len() == Naming::DIGITS).then(|| usize::from_str_radix(text, 16).ok())?,
        }
    }
}

/// One collective that an algorithm performs.
#[derive(Debug)]
pub struct Offer {
    /// The collective, with root 0 where there is one; every other root is offered as well.
    pub collective: Collective,
    /// The shapes on which it performs it.
    pub requirement: Requirement,
    /// Which values of the family's parameter perform it; `None` if all do.
    pub only: Option<fn(usize) -> bool>,
    /// Whether every element of the result is known to be `((0 + 1) + 2) + ...`, the ranks' values added in the order
    /// of the ranks, whatever the root. If false, it is not known.
    pub in_rank_order: bool,
    construct: Construct,
}

/// How a schedule is made, and what is known of its cost.
#[derive(Debug, Clone, Copy)]
enum Construct {
    /// A schedule wherever the requirement is met, with a formula for its cost.
    Always(fn(&ScheduleRequest<'_>) -> Schedule, fn(&ScheduleRequest<'_>) -> CostLine),
    /// The same, for a schedule that consists of two schedules in turn.
    InTurn(fn(&ScheduleRequest<'_>) -> [Schedule; 2], fn(&ScheduleRequest<'_>) -> CostLine),
    /// A search for a schedule. If it finds none, it says why. There may be a way to its cost without it.
    Search(SearchFunction, Option<SearchCost>),
}

type SearchFunction = fn(&ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle>;
type SearchCost = fn(&ScheduleRequest<'_>) -> Result<CostLine, SearchObstacle>;

/// Why a search has no schedule.
#[derive(Debug)]
pub(crate) enum SearchObstacle {
    /// There is none, or none was found.
    None(String),
    /// Its caller has ended it.
    Spent(Spent),
}

impl From<Spent> for SearchObstacle {
    fn from(spent: Spent) -> SearchObstacle {
        SearchObstacle::Spent(spent)
    }
}

impl From<Unsuitable> for SearchObstacle {
    fn from(error: Unsuitable) -> SearchObstacle {
        match error {
            Unsuitable::Spent(spent) => SearchObstacle::Spent(spent),
            other => SearchObstacle::None(other.to_string()),
        }
    }
}

impl Construct {
    fn schedule(self, request: &ScheduleRequest<'_>) -> Result<Schedule, Unavailable> {
        match self {
            Construct::Always(schedule, _) => Ok(schedule(request)),
            Construct::InTurn(parts, _) => {
                let [first, second] = parts(request);
                Ok(first.compose(&second).expect("the parts divide the vector into the same chunks"))
            }
            Construct::Search(search, _) => search(request).map_err(|why| Unavailable::search(request, why)),
        }
    }

    fn parts(self, request: &ScheduleRequest<'_>) -> Result<Vec<Schedule>, Unavailable> {
        match self {
            Construct::InTurn(parts, _) => Ok(parts(request).into()),
            whole => Ok(vec![whole.schedule(request)?]),
        }
    }

    fn cost(self, request: &ScheduleRequest<'_>) -> Result<CostLine, Unavailable> {
        match self {
            Construct::Always(_, cost) | Construct::InTurn(_, cost) => Ok(cost(request)),
            Construct::Search(_, Some(cost)) => {
                cost(request).map_err(|why| Unavailable::search(request, why))
            }
            Construct::Search(_, None) => Ok(CostLine::from_schedule(&self.schedule(request)?)),
        }
    }
}

impl Offer {
    /// Whether it holds for this value of the family's parameter, or for any value if `parameter` is `None`.
    pub fn has(&self, parameter: Option<usize>) -> bool {
        self.only.is_none_or(|only| parameter.is_none_or(only))
    }
}

/// A request for a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduleRequest<'a> {
    /// The member's name.
    pub name: &'a str,
    /// The whole network, even where the shape is only a part of it.
    pub topology: &'a Topology,
    pub shape: &'a Shape,
    pub collective: Collective,
    /// 0 if the algorithm has none.
    pub parameter: usize,
    /// How long a search for the schedule may go on.
    pub budget: Budget<'a>,
}

/// The networks on which an algorithm works.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// A text that reads as "needs ...".
    pub text: &'static str,
    admits: fn(&Shape) -> bool,
    /// A further condition, for schedules that are made for a graph.
    fits: fn(&Topology) -> bool,
    /// Whether the schedule is made for the graph, which may take long.
    made: bool,
    /// Where the algorithm is a candidate without being asked for: not where another one is known to be as good.
    worth_trying: fn(&Topology) -> bool,
}

impl Requirement {
    /// Whether the algorithm works on `topology`.
    pub fn admits(self, topology: &Topology) -> bool {
        (self.admits)(&Shape::from_topology(topology)) && (self.fits)(topology.base())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// The cost of a schedule, independent of any network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// The number of steps.
    pub steps: usize,
    /// What the busiest rank sends over all its ports, as a fraction of the vector.
    pub sent: f64,
}

impl CostLine {
    /// That of a schedule without a formula.
    fn from_schedule(schedule: &Schedule) -> CostLine {
        CostLine { steps: schedule.steps.len(), sent: schedule.max_sent() }
    }
}

/// All algorithms.
pub fn catalogue() -> impl Iterator<Item = &'static Algorithm> + Clone {
    catalogue::rows()
}

/// An algorithm, with a value of its parameter if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    algorithm: &'static Algorithm,
    /// `None` lets the shape decide the value.
    parameter: Option<usize>,
}

/// Finds a member by its name. Ignores case, and whether `-` or `_` joins words. With a family's name alone, the shape
/// decides the parameter.
pub fn find(name: &str) -> Result<Member, UnknownAlgorithm> {
    let (base, value) = match name.split_once(':') {
        Some((base, value)) => (base, Some(value)),
        None => (name, None),
    };
    if is_name(base, given::NAME) {
        return value.and_then(given::find).ok_or_else(|| UnknownAlgorithm::given(name));
    }
    let algorithm = catalogue().find(|algorithm| is_name(base, algorithm.name));
    let algorithm = algorithm.ok_or_else(|| UnknownAlgorithm::new(name, base))?;
    let parameter = match (value, &algorithm.parameter) {
        (None, _) => None,
        (Some(value), Some(parameter)) => {
            let unknown = || UnknownAlgorithm::parameter(name, algorithm, Some(parameter));
            Some(parameter.naming.value(value).ok_or_else(unknown)?)
        }
        (Some(_), None) => return Err(UnknownAlgorithm::parameter(name, algorithm, None)),
    };
    Ok(Member { algorithm, parameter })
}

/// The members that can perform `collective` on `topology`, with every parameter worth trying, in catalogue order.
/// There is at least one for every collective on up to 4096 ranks, and beyond for every collective except the
/// all-to-all and the scans.
pub fn available(topology: &Topology, collective: Collective) -> Vec<Member> {
    let offered = |algorithm: &&'static Algorithm| {
        let tried = |needs: Requirement| (needs.worth_trying)(topology.base()) && needs.admits(topology);
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

    /// The offer for `collective`, for any root.
    pub fn offer(&self, collective: Collective) -> Option<&'static Offer> {
        self.offers.iter().find(|offer| offer.collective == collective.with_root(0))
    }

    /// The members of the family that are worth trying on `topology`, for any collective. An algorithm without a
    /// parameter has one member.
    pub fn members(&'static self, topology: &Topology) -> Vec<Member> {
        let member = |parameter| Member { algorithm: self, parameter };
        match &self.parameter {
            None => vec![member(None)],
            Some(family) => (family.values)(&Shape::from_topology(topology))
                .into_iter()
                .map(|v| member(Some(v)))
                .collect(),
        }
    }
}

impl Member {
    /// The member that stands for a message from one rank to another, which is always sent directly.
    pub fn for_messages() -> Member {
        find("direct").expect("it is in the catalogue")
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The parameter, if it is set.
    pub fn parameter(&self) -> Option<usize> {
        self.parameter
    }

    /// The name that users write, such as `swing` or `generalized:2`.
    pub fn name(&self) -> String {
        match (self.parameter, &self.algorithm.parameter) {
            (Some(value), Some(family)) => format!("{}:{}", self.algorithm.name, family.naming.text(value)),
            _ => self.algorithm.name.to_owned(),
        }
    }

    /// Whether this member's name means `other`, too: a family's name stands for all its members.
    pub fn covers(&self, other: &Member) -> bool {
        self == other || self.parameter.is_none() && self.algorithm.name == other.algorithm.name
    }

    /// Whether the schedule of `collective` is made for the given graph, and not for a whole kind of networks.
    pub fn is_made_for_graph(&self, collective: Collective) -> bool {
        self.algorithm.offer(collective).is_some_and(|offer| offer.requirement.made)
    }

    /// Whether it is a schedule of the user's own.
    fn is_given(&self) -> bool {
        std::ptr::eq(self.algorithm, &given::FAMILY)
    }

    /// Whether this member is known to add up every element in the order of the ranks (see [`Offer::in_rank_order`]).
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
            (_, Some(value)) if self.is_given() => {
                let obstacle = given::obstacle(value, collective, ranks);
                obstacle.map_or(Ok(offer), |why| {
                    Err(Unavailable::Given { name: self.name(), collective, ranks, why })
                })
            }
            (Some(family), Some(value)) if !(family.admits)(shape, value) || !offer.has(Some(value)) => {
                Err(Unavailable::parameter(name, family, value, shape, offer))
            }
            _ => Ok(offer),
        }
    }

    /// The parameter; if it is not set, the first value that performs the collective.
    fn settled(&self, shape: &Shape, collective: Collective) -> usize {
        let offered =
            |value: &usize| self.algorithm.offer(collective).is_some_and(|offer| offer.has(Some(*value)));
        let first = |family: &Parameter| (family.values)(shape).into_iter().find(offered).unwrap_or(0);
        self.parameter.unwrap_or_else(|| self.algorithm.parameter.as_ref().map_or(0, first))
    }

    /// Succeeds if the member performs `collective` on `topology`. The error says why not, and what to use instead.
    pub fn supports(&self, topology: &Topology, collective: Collective) -> Result<(), Unavailable> {
        let ground = self.ground(topology, collective);
        self.check(topology, &ground.shape(), collective).map(|_| ())
    }

    /// The schedule of `collective` on `topology`.
    pub fn build(&self, topology: &Topology, collective: Collective) -> Result<Schedule, Unavailable> {
        self.build_within(topology, collective, Budget::UNLIMITED)
    }

    /// As [`Member::build`]. If the schedule is made for the graph, the search ends when `budget` says so, with
    /// [`Unavailable::Spent`]; all other schedules are made at once.
    pub fn build_within(
        &self,
        topology: &Topology,
        collective: Collective,
        budget: Budget<'_>,
    ) -> Result<Schedule, Unavailable> {
        let schedule = self.construct(topology, collective, budget, Construct::schedule)?;
        Ok(self.ground(topology, collective).place(schedule))
    }

    /// The schedules of which that schedule is composed, in order. Their costs add up to its cost. If all ranks act
    /// alike in each part but not in the whole, examining the parts takes far less time (see
    /// [`crate::cost::ScheduleCost::in_turn`]).
    pub fn parts(&self, topology: &Topology, collective: Collective) -> Result<Vec<Schedule>, Unavailable> {
        let parts = self.construct(topology, collective, Budget::UNLIMITED, Construct::parts)?;
        let ground = self.ground(topology, collective);
        Ok(parts.into_iter().map(|part| ground.place(part)).collect())
    }

    fn construct<T>(
        &self,
        topology: &Topology,
        collective: Collective,
        budget: Budget<'_>,
        make: impl Fn(Construct, &ScheduleRequest<'_>) -> Result<T, Unavailable>,
    ) -> Result<T, Unavailable> {
        let ground = self.ground(topology, collective);
        let shape = ground.shape();
        let offer = self.check(topology, &shape, collective)?;
        let (name, parameter) = (&self.name(), self.settled(&shape, collective));
        let Ground { topology, collective, .. } = ground;
        make(
            offer.construct,
            &ScheduleRequest { name, topology, shape: &shape, collective, parameter, budget },
        )
    }

    /// The steps and the volume of that schedule. Computed by a formula if there is one, else from the schedule.
    pub fn cost_line(&self, topology: &Topology, collective: Collective) -> Result<CostLine, Unavailable> {
        self.construct(topology, collective, Budget::UNLIMITED, Construct::cost)
    }

    /// Whether all ranks end with bit-identical results when floating-point numbers are reduced.
    ///
    /// They do if every chunk is reduced along one tree and then copied. Where ranks exchange whole vectors, each may
    /// add the same numbers in a different order, and floating-point addition is commutative but not associative.
    pub fn bit_identical(&self, topology: &Topology, collective: Collective) -> bool {
        let ground = self.ground(topology, collective);
        let (Ground { topology, collective, .. }, shape) = (ground, ground.shape());
        let (name, parameter) = (self.algorithm.name, self.settled(&shape, collective));
        let budget = Budget::UNLIMITED;
        (self.algorithm.bit_identical)(&ScheduleRequest {
            name,
            topology,
            shape: &shape,
            collective,
            parameter,
            budget,
        })
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Member) -> bool {
        (self.algorithm.name, self.parameter) == (other.algorithm.name, other.parameter)
    }
}

impl Eq for Member {}

/// Orders members by their names.
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

/// Written as the member's name.
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

/// The smallest `k` with `base^k >= number`.
fn ceil_log(base: usize, number: usize) -> usize {
    let mut power = 1usize;
    let mut exponent = 0;
    while power < number {
        power = power.saturating_mul(base);
        exponent += 1;
    }
    exponent
}
