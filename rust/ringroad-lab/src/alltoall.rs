//! A flow as data for users: in seconds, and with links between ranks instead of arcs.

use std::collections::BTreeMap;

use ringroad_core::synthesis::alltoall::{Concurrent, Ended, FlowBounds};
use ringroad_core::synthesis::{Arc, Digraph};
use ringroad_core::units::{Rank, Seconds};
use serde::Serialize;

/// A flow that meets all demands of an all-to-all, with a proven bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowReport {
    /// How long the busiest link is busy.
    pub seconds: Seconds,
    /// A lower bound of that for any flow.
    pub least_seconds: Seconds,
    /// [`Concurrent::gap`].
    pub gap: f64,
    /// [`Concurrent::ended`].
    pub ended: Ended,
    /// [`Concurrent::iterations`].
    pub iterations: usize,
    /// How often a second all demands can be met at most, each for one reason.
    pub bounds: FlowBounds,
    /// All links, parallel ones together.
    pub links: Vec<LinkLoad>,
}

/// The load of all links from one node to another together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkLoad {
    /// The node where the links start.
    pub source: usize,
    /// The node where they end.
    pub target: usize,
    /// Their bytes per second.
    pub bandwidth: f64,
    /// How long they are busy with all demands.
    pub seconds: Seconds,
}

/// One of the paths that a pair's demand takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// The ranks from the source to the target.
    pub ranks: Vec<Rank>,
    /// The share of the pair's demand.
    pub share: f64,
}

impl FlowReport {
    /// What a flow on this network is, for demands of which each is `times` as large as stated.
    pub fn from_flow(flow: &Concurrent, network: &Digraph, times: f64) -> FlowReport {
        let link = |(arc, load): (&Arc, &f64)| LinkLoad {
            source: arc.source,
            target: arc.target,
            bandwidth: arc.bandwidth,
            seconds: times * load / arc.bandwidth,
        };
        let rate = |bound: f64| bound * network.unit() / times;
        let FlowBounds { distance, rank, bisection, degree } = flow.bounds;
        FlowReport {
            seconds: times * flow.load / network.unit(),
            least_seconds: times * flow.bound / network.unit(),
            gap: flow.gap(),
            ended: flow.ended,
            iterations: flow.iterations,
            bounds: FlowBounds {
                distance: rate(distance),
                rank: rate(rank),
                bisection: bisection.map(rate),
                degree: degree.map(rate),
            },
            links: network.arcs().iter().zip(&flow.loads).map(link).collect(),
        }
    }
}

/// The paths of what `source` sends, by target.
pub fn paths(flow: &Concurrent, network: &Digraph, source: Rank) -> BTreeMap<Rank, Vec<Path>> {
    let mut paths: BTreeMap<Rank, Vec<Path>> = BTreeMap::new();
    flow.each_path(source, |target, share, arcs| {
        let next = arcs.iter().map(|arc| network.arcs()[*arc as usize].target);
        let ranks = std::iter::once(source).chain(next).collect();
        paths.entry(target).or_default().push(Path { ranks, share });
    });
    paths
}
