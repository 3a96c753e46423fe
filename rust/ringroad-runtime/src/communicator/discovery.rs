//! What a communicator can be given besides: what finds out its network while ranks meet, and what follows its changes.

use std::sync::Arc;

use ringroad_core::Rank;

use super::Means;
use crate::adaptation::Adaptation;
use crate::bootstrap::{hosts, EndpointInfo, Rendezvous};
use crate::choice::choices::Choices;
use crate::choice::report::DiscoveryReport;
use crate::error::Result;

/// Finds out what a network is, and follows its changes. Ranks without it use the network that the user names, or else one
/// that suits any.
#[derive(Debug, Clone, Copy)]
pub struct Discovery {
    /// Finds out what joins the hosts of these ranks, if they are several. Collective.
    pub(crate) explore: fn(&mut Rendezvous, &[EndpointInfo], Rank, &Means) -> Result<Explored>,
    /// What follows the changes; `None` if these ranks do not watch their network.
    pub(crate) adapt: fn(Group) -> Option<Arc<dyn Adaptation>>,
}

/// What a rank knows of the network before it opens its devices.
#[derive(Default)]
pub(crate) struct Explored {
    /// Rank 0's.
    pub report: DiscoveryReport,
    /// The interface by whose address most other hosts reach this one.
    pub interface: Option<String>,
    /// The bytes per second of the slowest flow that was measured.
    pub slowest: Option<f64>,
}

impl Explored {
    /// Where nobody looks.
    pub fn nothing(endpoints: &[EndpointInfo]) -> Explored {
        let hosts = hosts(endpoints).into_iter().max().unwrap_or(0) + 1;
        let failure = Some("nothing looks for it".to_owned());
        Explored { report: DiscoveryReport { hosts, failure, ..Default::default() }, ..Explored::default() }
    }
}

/// The ranks of a communicator, and how they have begun.
pub(crate) struct Group {
    pub name: String,
    pub rank: Rank,
    pub endpoints: Arc<Vec<EndpointInfo>>,
    /// What rank 0 has decided at first.
    pub choices: Arc<Choices>,
    pub means: Arc<Means>,
}
