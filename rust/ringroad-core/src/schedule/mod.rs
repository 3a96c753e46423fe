//! The waist of the project: a [`Schedule`] says, for all ranks, who sends which chunks to whom in which step.
//!
//! A schedule is a plain value: printable, comparable, serialisable. All sends of a step read the state that the ranks
//! had when the step began; a received chunk is copied over, or reduced into, the receiver's. Everything else in the
//! project (verifier, cost model, lowering, executor) works on any schedule, so that an algorithm is nothing but a
//! function that returns one.

mod chunks;
mod format;
mod transform;
mod verify;

use serde::{Deserialize, Serialize};

pub use chunks::ChunkSet;
pub use format::{FormatError, FORMAT_VERSION};
pub use transform::TransformError;
pub use verify::VerifyError;

use crate::collective::Collective;
use crate::units::{Port, Rank};

/// What the receiver does with what arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Replace the receiver's chunk.
    Copy,
    /// Combine with the receiver's chunk by the collective's reduction.
    Reduce,
}

/// One message from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    /// The sender.
    pub source: Rank,
    /// The receiver.
    pub destination: Rank,
    /// What is sent.
    pub chunks: ChunkSet,
    /// What the receiver does with it.
    pub action: Action,
    /// The outlet by which it leaves the sender.
    pub port: Port,
}

/// Sends that may overlap in time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The sends; those that reduce into the same chunk do so in this order.
    pub sends: Vec<Send>,
}

/// A collective for all ranks, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The algorithm's name.
    pub name: String,
    /// What the schedule claims to perform; [`Schedule::verify`] checks the claim.
    pub collective: Collective,
    /// How many ranks take part.
    pub ranks: usize,
    /// Into how many equal pieces the data is divided (see [`crate::collective`] for their numbering).
    pub chunks: usize,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// A schedule without any step.
    pub fn empty(name: &str, collective: Collective, ranks: usize, chunks: usize) -> Schedule {
        Schedule { name: name.to_owned(), collective, ranks, chunks, steps: Vec::new() }
    }

    /// Appends a step, unless it has no sends.
    pub fn push(&mut self, sends: Vec<Send>) {
        if !sends.is_empty() {
            self.steps.push(Step { sends });
        }
    }

    /// By how many ports a rank sends at once, at most.
    pub fn ports(&self) -> usize {
        let in_step = |step: &Step| {
            let mut used: Vec<(Rank, Port)> = step.sends.iter().map(|s| (s.source, s.port)).collect();
            used.sort_unstable();
            used.dedup();
            used.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0)
        };
        self.steps.iter().map(in_step).max().unwrap_or(0)
    }

    /// All sends, step after step.
    pub fn sends(&self) -> impl Iterator<Item = &Send> {
        self.steps.iter().flat_map(|s| &s.sends)
    }

    /// How many chunks make up the vector of one rank.
    pub fn chunks_per_vector(&self) -> usize {
        self.collective.chunks_per_vector(self.ranks, self.chunks)
    }

    /// The most that any rank sends, as a fraction of the vector.
    pub fn max_sent(&self) -> f64 {
        let mut sent = vec![0usize; self.ranks];
        for send in self.sends() {
            sent[send.source] += send.chunks.len();
        }
        sent.into_iter().max().unwrap_or(0) as f64 / self.chunks_per_vector() as f64
    }

    /// Every rank's peers, in ascending order: whom `rank` sends to or receives from.
    pub fn peers(&self, rank: Rank) -> Vec<Rank> {
        let mut peers: Vec<Rank> = self
            .sends()
            .filter_map(|s| {
                if s.source == rank {
                    Some(s.destination)
                } else {
                    (s.destination == rank).then_some(s.source)
                }
            })
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}
