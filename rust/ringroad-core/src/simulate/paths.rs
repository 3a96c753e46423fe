//! The paths of messages: which links a message takes at the same time, and their latency.

use std::collections::HashMap;
use std::sync::Arc;

use super::fair::Shares;
use super::{Forwarding, SimulationError};
use crate::cost::CostModel;
use crate::topology::{Route, Routes, Topology};
use crate::units::{LinkId, NodeId, Rank, Seconds};

/// Links that a message takes at the same time.
pub(super) struct PathStage {
    /// The links, and the fraction of the message that each link carries.
    pub shares: Shares,
    /// The seconds from when the last byte leaves until it is at the end of the stage.
    pub latency: Seconds,
}

/// The stages of a message in order: a single stage with cut-through, one for each hop with store-and-forward.
pub(super) type MessagePath = Arc<[PathStage]>;

/// The paths between all pairs that exchange messages. Never iterated over.
pub(super) type MessagePaths = HashMap<(Rank, Rank), MessagePath>;

/// Finds the paths between `pairs` of `(destination, source)`, which is fastest if they are sorted. An error where a
/// pair has no path without the failed links.
pub(super) fn find(
    topology: &Topology,
    failed: &[LinkId],
    pairs: &[(Rank, Rank)],
    model: &CostModel,
    forwarding: Forwarding,
) -> Result<MessagePaths, SimulationError> {
    let degraded = (!failed.is_empty()).then(|| topology.without_link_ids(failed));
    let mut routes = Routes::new(degraded.as_ref().map_or(topology, |(left, _)| left));
    let number = |link: LinkId| degraded.as_ref().map_or(link, |(_, numbers)| numbers[link]);
    let mut paths = MessagePaths::new();
    let mut cut_off = Vec::new();
    for &(destination, source) in pairs {
        let Ok(route) = routes.route(source, destination) else {
            cut_off.push((source, destination));
            continue;
        };
        let shares = route.shares.iter().map(|&(link, share)| (number(link), share)).collect::<Vec<_>>();
        let path = match forwarding {
            Forwarding::CutThrough => {
                vec![PathStage { latency: latency(&route, model), shares: shares.into() }]
            }
            Forwarding::StoreAndForward => hops(topology, model, source, &shares),
        };
        paths.insert((source, destination), path.into());
    }
    if cut_off.is_empty() {
        return Ok(paths);
    }
    let name = |link: &LinkId| (topology.links()[*link].source, topology.links()[*link].target);
    Err(SimulationError::CutOff {
        topology: topology.spec(),
        failed: failed.iter().map(name).collect(),
        pairs: cut_off,
    })
}

fn latency(route: &Route, model: &CostModel) -> Seconds {
    match model.hop_latency {
        Some(hop_latency) => route.hops as f64 * hop_latency + route.extra_latency,
        None => route.latency,
    }
}

/// The stages of a route with store-and-forward: its links by their distance from the source. The links closest to the
/// source come first in `shares`.
fn hops(topology: &Topology, model: &CostModel, source: NodeId, shares: &[(LinkId, f64)]) -> Vec<PathStage> {
    let mut distance = HashMap::from([(source, 0)]);
    let mut stages: Vec<(Vec<(LinkId, f64)>, Seconds)> = Vec::new();
    for &(id, share) in shares {
        let link = topology.links()[id];
        let from = distance[&link.source];
        distance.insert(link.target, from + 1);
        if stages.len() == from {
            stages.push((Vec::new(), 0.0));
        }
        let (links, latency) = &mut stages[from];
        links.push((id, share));
        *latency = latency.max(model.hop_latency.unwrap_or(link.latency) + link.extra_latency);
    }
    stages.into_iter().map(|(links, latency)| PathStage { shares: links.into(), latency }).collect()
}
