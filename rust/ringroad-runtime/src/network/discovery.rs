//! What the network of a communicator is, found out anew.

use std::time::Duration;

use ringroad_core::discovery::{Evidence, FoundNetwork};
use serde::{Deserialize, Serialize};

use super::{found, gather, DiscoveryLimits};
use crate::bootstrap::Exchange;
use crate::communicator::{CallExchange, Communicator, GoOn, Patience};
use crate::error::{Error, Result};

/// What the ranks have found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Discovered {
    /// The network.
    pub found: FoundNetwork,
    /// What it follows from.
    pub evidence: Evidence,
}

/// Finds out how the hosts of a communicator's ranks are connected, in about `budget`. Ranks of one host have nothing to find
/// out. All ranks call this, like a collective, and get the same result.
pub fn discover(
    communicator: &Communicator,
    budget: Duration,
    timeout: Option<Duration>,
    go_on: &GoOn,
) -> Result<Discovered> {
    let patience = Patience::new(timeout.unwrap_or(communicator.timeout()) + budget, go_on);
    let mut calls = CallExchange { communicator, patience, internal: false };
    let ports = communicator.means().ok().and_then(|means| means.config.tcp_ports);
    let limits = DiscoveryLimits { budget, ports, memory: None, rounds: usize::MAX, probes: None };
    let evidence = gather(&mut calls, communicator.endpoints(), communicator.rank(), &limits)?.evidence;
    let found = (communicator.rank() == 0).then(|| found(&evidence));
    let text = found.map(|found| serde_json::to_vec(&found).expect("numbers and text can be written"));
    let all = calls.collect("found", &text.unwrap_or_default(), usize::MAX)?;
    let found: std::result::Result<FoundNetwork, String> = serde_json::from_slice(&all[0])
        .map_err(|error| Error::Topology(format!("what rank 0 has found cannot be read: {error}")))?;
    Ok(Discovered { found: found.map_err(Error::Topology)?, evidence })
}
