//! Why there are no routes.

use ringroad_core::synthesis::Unsuitable;
use ringroad_core::topology::TopologyError;
use ringroad_core::units::LinkId;

/// Why there are no routes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoRoutes {
    /// Some ranks do not reach each other.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The paths do not form a table for this topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// More virtual channels than a table can hold.
    #[error("the routes on {spec} need more than 256 virtual channels; use shorter routes, or the other way to assign channels (turns or lash)")]
    TooManyChannels {
        /// The topology.
        spec: String,
    },
    /// Routes on which messages can deadlock.
    #[error("routes on {spec} can deadlock: messages on them may wait for each other in a cycle of {} links, {}", cycle.len(), listed(cycle))]
    Deadlock {
        /// The topology.
        spec: String,
        /// Links and channels. A message that holds one of them may wait for the next, and one that holds the last may
        /// wait for the first.
        cycle: Vec<(LinkId, u8)>,
    },
}

fn listed(cycle: &[(LinkId, u8)]) -> String {
    let hop = |(link, channel): &(LinkId, u8)| format!("{link} (channel {channel})");
    cycle.iter().map(hop).collect::<Vec<String>>().join(", ")
}
