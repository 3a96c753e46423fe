//! Disturbances: ranks that are late or slow, and links that are slow or have failed.

use crate::random::Random;
use crate::topology::Topology;
use crate::units::{LinkId, NodeId, Rank, Seconds};

/// The disturbances of a simulation. There are none by default.
///
/// Links are named by their ends, in the direction of the bytes. All parallel links between two nodes are disturbed
/// together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// Ranks that enter the call late, and by how many seconds. Entries for the same rank add up.
    pub late: Vec<(Rank, Seconds)>,
    /// Ranks whose processor is slow, and how many times as long it takes to start messages, to accept messages and to
    /// reduce. Entries for the same rank multiply.
    pub slow_ranks: Vec<(Rank, f64)>,
    /// Links from one node to another that are slow, and the fraction of their bandwidth that they have. Entries for
    /// the same links multiply.
    pub slow_links: Vec<(NodeId, NodeId, f64)>,
    /// Links from one node to another that have failed. Routes go around them.
    pub failed_links: Vec<(NodeId, NodeId)>,
}

/// A scenario that does not fit the network.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// The schedule does not have this rank.
    #[error("rank {rank} is late or slow, but the schedule has only ranks 0 to {}", ranks - 1)]
    NoSuchRank {
        /// The rank.
        rank: Rank,
        /// How many ranks the schedule has.
        ranks: usize,
    },
    /// A lateness that is negative or not finite.
    #[error(
        "rank {rank} cannot be {seconds} seconds late; give zero or a positive number, for example 1e-3"
    )]
    Late {
        /// The rank.
        rank: Rank,
        /// The requested lateness.
        seconds: Seconds,
    },
    /// A factor that is zero, negative or not finite.
    #[error("{what} cannot be {factor} times as {property}; give a positive number")]
    Factor {
        /// The rank or the links.
        what: String,
        /// `slow` or `fast`.
        property: &'static str,
        /// The requested factor.
        factor: f64,
    },
    /// No link leads from one node to the other.
    #[error("no link leads from node {origin} to node {target} on {topology}; {neighbours}")]
    NoSuchLink {
        /// The node at which the link would start.
        origin: NodeId,
        /// The node at which the link would end.
        target: NodeId,
        /// The topology's spec.
        topology: String,
        /// A text that names the nodes to which links lead.
        neighbours: String,
    },
}

/// A scenario resolved to a value for each rank and each link.
pub(super) struct Conditions {
    /// When each rank enters the call.
    pub late: Vec<Seconds>,
    /// How many times as long each rank's processor takes.
    pub slowness: Vec<f64>,
    /// The fraction of its bandwidth that each link has.
    pub speed: Vec<f64>,
    /// The links that have failed, in ascending order.
    pub failed: Vec<LinkId>,
}

impl Scenario {
    /// A scenario in which ranks enter the call at uniformly distributed times from 0 to `spread` seconds. The same
    /// `seed` gives the same times.
    pub fn skew(ranks: usize, spread: Seconds, seed: u64) -> Scenario {
        let mut random = Random::at(Random::at(seed).bits());
        let late = |rank| (rank, spread * (random.bits() as f64 / u64::MAX as f64));
        Scenario { late: (0..ranks).map(late).collect(), ..Scenario::default() }
    }

    /// Checks the scenario and resolves it to ranks and links.
    pub(super) fn resolve(&self, topology: &Topology, ranks: usize) -> Result<Conditions, ScenarioError> {
        let mut late = vec![0.0; ranks];
        for &(rank, seconds) in &self.late {
            let slot = late.get_mut(rank).ok_or(ScenarioError::NoSuchRank { rank, ranks })?;
            if !(seconds >= 0.0 && seconds.is_finite()) {
                return Err(ScenarioError::Late { rank, seconds });
            }
            *slot += seconds;
        }
        let mut slowness = vec![1.0; ranks];
        for &(rank, factor) in &self.slow_ranks {
            let slot = slowness.get_mut(rank).ok_or(ScenarioError::NoSuchRank { rank, ranks })?;
            check_factor(factor, "slow", || format!("rank {rank}"))?;
            *slot *= factor;
        }
        let mut speed = vec![1.0; topology.links().len()];
        for &(origin, target, factor) in &self.slow_links {
            check_factor(factor, "fast", || format!("the link from node {origin} to node {target}"))?;
            links_between(topology, origin, target)?.into_iter().for_each(|link| speed[link] *= factor);
        }
        let mut failed = Vec::new();
        for &(origin, target) in &self.failed_links {
            failed.extend(links_between(topology, origin, target)?);
        }
        failed.sort_unstable();
        failed.dedup();
        Ok(Conditions { late, slowness, speed, failed })
    }
}

fn check_factor(factor: f64, property: &'static str, what: impl Fn() -> String) -> Result<(), ScenarioError> {
    if factor > 0.0 && factor.is_finite() {
        return Ok(());
    }
    Err(ScenarioError::Factor { what: what(), property, factor })
}

/// The links from `origin` to `target`; an error where there are none.
fn links_between(topology: &Topology, origin: NodeId, target: NodeId) -> Result<Vec<LinkId>, ScenarioError> {
    let links = topology.links().iter().enumerate();
    let found: Vec<LinkId> =
        links.filter(|(_, link)| (link.source, link.target) == (origin, target)).map(|(id, _)| id).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let leaving = topology.links().iter().filter(|link| link.source == origin);
    let mut targets: Vec<NodeId> = leaving.map(|link| link.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let names: Vec<String> = targets.iter().map(NodeId::to_string).collect();
    let neighbours = match names.len() {
        0 => format!("no link leads away from node {origin}"),
        _ => format!("from node {origin} links lead to {}", names.join(", ")),
    };
    Err(ScenarioError::NoSuchLink { origin, target, topology: topology.spec(), neighbours })
}
