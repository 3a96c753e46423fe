//! What carries messages, as data for users.

use std::fmt;

use ringroad_core::Rank;
use serde::Serialize;

/// What carries messages, in words and as data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename = "Transport")]
pub struct Description {
    /// In words, for example `ucx 1.22.0 (cma, posix; devices lo)`.
    pub text: String,
    /// With how many other ranks this one shares memory.
    pub sharing: usize,
    /// Whether long messages are copied out of private memory of ranks that share memory (cross-memory attach).
    pub cma: bool,
    /// The version of UCX, if it carries the other messages.
    pub ucx: Option<String>,
    /// The transports that UCX uses; empty before the first connection.
    pub means: Vec<String>,
    /// The network devices that UCX uses, if they are known.
    pub devices: Vec<String>,
}

/// A connection to another rank, as the kernel has counted it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedConnection {
    /// The rank at the other end.
    pub peer: Rank,
    /// Where that is.
    pub address: String,
    /// The network device of this rank, if the connection uses one only.
    pub device: Option<String>,
    /// Counts the connections to the peer by the same device, from 0.
    pub stream: usize,
    /// The bytes that have been sent.
    pub sent: u64,
    /// The bytes that have come.
    pub received: u64,
    /// The bytes that had to be sent again.
    pub sent_again: u64,
    /// How long an answer usually takes, in seconds.
    pub round_trip: f64,
    /// The bytes per second that have arrived at the peer when it was last measured; short messages make it low.
    pub rate: f64,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
