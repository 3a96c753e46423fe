//! What happened when: one type for predicted and measured timelines.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rank, Seconds};

/// What an event was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// From posting a send until its memory was free again.
    Send,
    /// From posting a receive until the data was there.
    Receive,
}

/// One event of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// What it was.
    pub kind: TraceKind,
    /// Whose event.
    pub rank: Rank,
    /// The other side.
    pub peer: Rank,
    /// Message size.
    pub bytes: Bytes,
    /// Which call of the communicator.
    pub sequence: u32,
    /// Which message between the two ranks within the call.
    pub message: u32,
    /// When it began, from the start of the trace.
    pub start: Seconds,
    /// When it was complete, or `None` where it never was.
    pub end: Option<Seconds>,
}

/// A timeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The events, by their beginning.
    pub events: Vec<TraceEvent>,
}
