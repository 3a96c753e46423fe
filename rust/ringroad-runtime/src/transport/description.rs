//! What carries messages, as data for users.

use std::fmt;

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

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
