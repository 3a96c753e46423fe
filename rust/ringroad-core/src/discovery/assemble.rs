//! From evidence to a topology.

use serde::{Deserialize, Serialize};

use super::error::DiscoveryError;
use super::evidence::Evidence;
use super::network::Network;
use super::opaque;
use super::ranks::Placed;
use super::rates::Rate;
use super::wiring::Wiring;
use crate::topology::Topology;
use crate::units::Rank;

/// A network as it was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The network, with rates and routes.
    pub topology: Topology,
    /// The spec of the network of the catalogue that it is, such as `torus:3x3`.
    pub recognised: Option<String>,
    /// The position of each rank on that network.
    pub positions: Option<Vec<Rank>>,
    /// What is known of each link of the topology.
    pub links: Vec<LinkFacts>,
    /// What is not certain or not as it should be, in plain sentences.
    pub notes: Vec<String>,
}

/// What is known of a link.
pub type LinkFacts = Rate;

/// Makes a topology of what was seen and measured.
pub fn assemble(evidence: &Evidence) -> Result<Found, DiscoveryError> {
    check(evidence)?;
    let wiring = Wiring::of(&evidence.hosts, &evidence.traces);
    let mut notes = wiring.notes.clone();
    let mut network = Network::routed(&wiring, evidence);
    if wiring.is_opaque() || !network.is_connected() {
        network = opaque::network(evidence, &mut notes);
    }
    network.complete(evidence);
    let Placed { graph, rates, .. } = Placed::new(&network, evidence)?;
    Ok(Found { topology: graph, recognised: None, positions: None, links: rates, notes })
}

fn check(evidence: &Evidence) -> Result<(), DiscoveryError> {
    let hosts = evidence.hosts.len();
    if evidence.host_of.is_empty() {
        return Err(DiscoveryError::NoRanks);
    }
    match evidence.host_of.iter().enumerate().find(|(_, host)| **host >= hosts) {
        Some((rank, host)) => Err(DiscoveryError::NoHost { rank, host: *host, hosts }),
        None => Ok(()),
    }
}
