//! Links: the directions of cables, with their bandwidths and latencies.

use serde::{Deserialize, Serialize};

use super::TopologyError;
use crate::units::{NodeId, Seconds};

/// The default bandwidth of a link in bytes per second: 100 Gb/s.
pub const DEFAULT_BANDWIDTH: f64 = 12.5e9;
/// The default latency of a link in seconds, which includes the time that the node at its end takes to forward a
/// message.
pub const DEFAULT_LATENCY: Seconds = 0.5e-6;

/// One direction of a cable.
///
/// A hop takes [`Link::seconds`]. They have two parts: `latency`, which a user may set for all links at once, and
/// `extra_latency`, which is this link's own. The time that the node at a link's end takes to forward a message is
/// counted once, with the link: as part of the latency, or as extra latency
/// ([`Topology::with_processing`](super::Topology::with_processing)), never as a third number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The node at which the link starts.
    pub source: NodeId,
    /// The node at which the link ends.
    pub target: NodeId,
    /// The bandwidth of a link of capacity 1, in bytes per second.
    pub bandwidth: f64,
    /// The time from the first byte in to the first byte out on a link without extra latency, in seconds.
    pub latency: Seconds,
    /// How many times `bandwidth` this link has. A bandwidth that is set for all links, as
    /// [`Topology::with_links`](super::Topology::with_links) and the cost model can, does not change this: memory
    /// remains faster than the network.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub capacity: f64,
    /// How much longer than `latency` this link takes, in seconds. A latency that is set for all links does not change
    /// this.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_latency: Seconds,
}

fn one() -> f64 {
    1.0
}

fn is_one(number: &f64) -> bool {
    *number == 1.0
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Link {
    /// Where it begins and where it ends.
    pub(super) fn ends(&self) -> (NodeId, NodeId) {
        (self.source, self.target)
    }

    /// A link with the default bandwidth and latency.
    pub fn between(source: NodeId, target: NodeId) -> Link {
        let (bandwidth, latency) = (DEFAULT_BANDWIDTH, DEFAULT_LATENCY);
        Link { source, target, bandwidth, latency, capacity: 1.0, extra_latency: 0.0 }
    }

    /// The bandwidth of this link in bytes per second: `bandwidth` times `capacity`.
    pub fn bytes_per_second(&self) -> f64 {
        self.bandwidth * self.capacity
    }

    /// The time from the first byte in to the first byte out: `latency` plus `extra_latency`.
    pub fn seconds(&self) -> Seconds {
        self.latency + self.extra_latency
    }

    pub(super) fn check(&self) -> Result<(), TopologyError> {
        check(self.bandwidth, self.latency)?;
        check_relative(self.capacity, self.extra_latency)
    }
}

pub(super) fn check(bandwidth: f64, latency: Seconds) -> Result<(), TopologyError> {
    if !(bandwidth > 0.0 && bandwidth.is_finite()) {
        return Err(TopologyError::Bandwidth(bandwidth));
    }
    if !(latency >= 0.0 && latency.is_finite()) {
        return Err(TopologyError::Latency(latency));
    }
    Ok(())
}

pub(super) fn check_relative(capacity: f64, extra_latency: Seconds) -> Result<(), TopologyError> {
    if !(capacity > 0.0 && capacity.is_finite()) {
        return Err(TopologyError::Capacity(capacity));
    }
    check(DEFAULT_BANDWIDTH, extra_latency)
}
