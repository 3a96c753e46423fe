//! One direction of a cable, and what it carries.

use serde::{Deserialize, Serialize};

use super::TopologyError;
use crate::units::{NodeId, Seconds};

/// Bandwidth of a link unless told otherwise, in bytes per second: 100 Gb/s.
pub const DEFAULT_BANDWIDTH: f64 = 12.5e9;
/// Latency of a link unless told otherwise, including what the node at its end takes to pass a message on.
pub const DEFAULT_LATENCY: Seconds = 0.5e-6;

/// One direction of a cable.
///
/// A hop takes [`Link::seconds`], in two parts: `latency`, which whoever knows the network may state for all links at
/// once, and `extra_latency`, which is this link's own. What the node at a link's end takes to pass a message on is
/// counted with the link, once: as part of a stated latency, or as extra latency
/// ([`Topology::with_processing`](super::Topology::with_processing)), never as a third number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where it starts.
    pub source: NodeId,
    /// Where it ends.
    pub target: NodeId,
    /// Bytes per second, of a link of capacity 1.
    pub bandwidth: f64,
    /// From the first byte in to the first byte out, of a link without extra latency.
    pub latency: Seconds,
    /// How many times that bandwidth this link has. Whoever states one bandwidth for all links, as
    /// [`Topology::with_links`](super::Topology::with_links) and the cost model may, leaves this alone: memory remains
    /// faster than the network.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub capacity: f64,
    /// How much longer than that latency this link takes. Whoever states one latency for all links leaves this alone.
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
    /// A link with the default properties.
    pub fn between(source: NodeId, target: NodeId) -> Link {
        let (bandwidth, latency) = (DEFAULT_BANDWIDTH, DEFAULT_LATENCY);
        Link { source, target, bandwidth, latency, capacity: 1.0, extra_latency: 0.0 }
    }

    /// Bytes per second, all in all.
    pub fn bytes_per_second(&self) -> f64 {
        self.bandwidth * self.capacity
    }

    /// From the first byte in to the first byte out, all in all.
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
