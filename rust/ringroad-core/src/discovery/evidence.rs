//! What the ranks have seen and measured, as they report it.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::units::Seconds;

/// Everything that is known of a network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The hosts; all other numbers of hosts are indices into them.
    pub hosts: Vec<HostFacts>,
    /// The host of every rank.
    pub host_of: Vec<usize>,
    /// The routes that hosts have traced.
    pub traces: Vec<TracedRoute>,
    /// The experiments, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// Times from one host to another.
    pub latencies: Vec<Latency>,
}

/// What a host says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// The addresses of all interfaces that lead out.
    pub addresses: Vec<IpAddr>,
}

/// The way from one host to another, as its nodes have answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedRoute {
    /// The host that asked.
    pub from: usize,
    /// The host that it asked for.
    pub to: usize,
    /// The addresses that answered after one hop, after two and so on; `None` where nobody did. If the target was
    /// reached, it is the last.
    pub hops: Vec<Option<IpAddr>>,
    /// Whether the target answered.
    pub reached: bool,
}

/// Flows that ran at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The flows.
    pub flows: Vec<Flow>,
}

/// What one host sent to another during a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The sending host.
    pub from: usize,
    /// The receiving host.
    pub to: usize,
    /// What arrived in a second.
    pub bytes_per_second: f64,
    /// How much the rate varied, relative to it.
    pub spread: f64,
    /// Whether an end of the flow waited for its core: links carry at least this rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starved: bool,
}

/// How long a short message takes from one host to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The sending host.
    pub from: usize,
    /// The receiving host.
    pub to: usize,
    /// One way, the least of several.
    pub seconds: Seconds,
}

/// The rates in bytes per second and the times in seconds that can be true.
const RATES: std::ops::RangeInclusive<f64> = 1.0..=1e15;
const TIMES: std::ops::RangeInclusive<f64> = 1e-12..=1e6;

impl Flow {
    /// Whether the flow is one between two of so many hosts, and has a rate.
    pub(super) fn is_plausible(&self, hosts: usize) -> bool {
        let fits = self.from < hosts && self.to < hosts && self.from != self.to;
        fits && RATES.contains(&self.bytes_per_second)
    }
}

impl Latency {
    /// As [`Flow::is_plausible`].
    pub(super) fn is_plausible(&self, hosts: usize) -> bool {
        let fits = self.from < hosts && self.to < hosts && self.from != self.to;
        fits && TIMES.contains(&self.seconds)
    }
}
