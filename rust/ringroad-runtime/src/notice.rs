//! What a rank that gives up tells the others.

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

/// Why a rank has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// Ranks made different calls.
    Mismatch { number: u64 },
    /// A rank is gone.
    Peer { rank: Rank },
    /// The deadline of a collective passed.
    Timeout { number: u64 },
    /// The deadline of a message between two ranks passed.
    LateMessage,
    /// The user said so.
    Abort,
}

impl Reason {
    /// The collective call that it is about.
    pub fn number(&self) -> Option<u64> {
        match *self {
            Reason::Mismatch { number } | Reason::Timeout { number } => Some(number),
            _ => None,
        }
    }
}

/// Why, the story for people, the sender's latest collective calls by number, and the last one before which, with itself,
/// all have ended there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub reason: Reason,
    pub story: String,
    pub calls: Vec<(u64, String)>,
    #[serde(default)]
    pub ended: u64,
}

impl Notice {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a notice holds only numbers and text")
    }

    pub fn parse(payload: &[u8]) -> Option<Notice> {
        serde_json::from_slice(payload).ok()
    }
}
