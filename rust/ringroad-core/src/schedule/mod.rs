//! The waist of the project: a [`Schedule`] says, for all ranks, which rank sends which chunks to which rank in which
//! step.
//!
//! A schedule is a plain value: printable, comparable, serialisable. All sends of a step read the state of the ranks at
//! the start of the step. A received chunk replaces the receiver's or is reduced into it. Everything else in the
//! project (verifier, cost model, lowering, executor) works on any schedule, so an algorithm is just a function that
//! returns one.
//!
//! Where an algorithm must keep partial results apart (because not every receiver needs the same sum), a rank has
//! several *slots* for each chunk, and combines them with local operations at the end of a step.

mod chunks;
mod digest;
mod format;
mod group;
mod order;
mod rounding;
mod rows;
mod symmetry;
mod transform;
mod verify;

use serde::{Deserialize, Serialize};

pub use chunks::ChunkSet;
pub use format::{FormatError, FORMAT_VERSION};
pub use group::Group;
pub use order::{Expression, Expressions, Side};
pub use rounding::Rounding;
pub use rows::{Orbit, Row, Transfer, View};
pub use symmetry::{Axis, Cycle, Motion, Slice, Symmetry};
pub use transform::TransformError;
pub use verify::VerifyError;

use crate::collective::Collective;
use crate::units::{Port, Rank, Slot};

/// What happens to the value that is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The new value replaces it.
    Copy,
    /// The collective's reduction combines it with the new value.
    Reduce,
}

fn is_zero(slot: &Slot) -> bool {
    *slot == 0
}

/// One message from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    /// The sender.
    pub source: Rank,
    /// The receiver.
    pub destination: Rank,
    /// The chunks that are sent.
    pub chunks: ChunkSet,
    /// Whether the receiver copies or reduces the chunks.
    pub action: Action,
    /// The port by which the message leaves the sender.
    pub port: Port,
    /// The sender's slot that is read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: Slot,
    /// The receiver's slot that is written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub into: Slot,
}

/// A local operation: a rank copies or reduces one of its slots into another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// The rank.
    pub rank: Rank,
    /// The chunks whose slots are read and written.
    pub chunks: ChunkSet,
    /// Whether the slot is copied or reduced.
    pub action: Action,
    /// The slot that is read.
    pub from: Slot,
    /// The slot that is written.
    pub into: Slot,
}

/// Sends that may overlap in time, followed by local operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The sends. Sends that reduce into the same chunk do so in this order.
    pub sends: Vec<Send>,
    /// The local operations, which ranks perform in this order when all messages of the step have arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<Local>,
}

/// A collective for all ranks, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The algorithm's name.
    pub name: String,
    /// The collective that the schedule claims to perform; [`Schedule::verify`] checks the claim.
    pub collective: Collective,
    /// How many ranks take part.
    pub ranks: usize,
    /// Into how many equal pieces the data is divided (see [`crate::collective`] for their numbering).
    pub chunks: usize,
    /// How the sends of all ranks follow from those in `steps`. `None` where `steps` has the sends of all ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symmetry: Option<Symmetry>,
    /// The steps, in order. With a symmetry they contain only the sends and local operations of every slice's first
    /// position. [`Schedule::rows`] returns those of one rank, [`Schedule::view`] and [`Schedule::expand`] those of
    /// all.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// A schedule without steps.
    pub fn empty(name: &str, collective: Collective, ranks: usize, chunks: usize) -> Schedule {
        let name = name.to_owned();
        Schedule { name, collective, ranks, chunks, symmetry: None, steps: Vec::new() }
    }

    /// Appends a step, unless it has no sends.
    pub fn push(&mut self, sends: Vec<Send>) {
        if !sends.is_empty() {
            self.steps.push(Step { sends, locals: Vec::new() });
        }
    }

    /// About how many bytes of memory the schedule takes.
    pub fn footprint(&self) -> usize {
        let of_step = |step: &Step| {
            let sends = step.sends.iter().map(|send| size_of::<Send>() + send.chunks.footprint());
            let locals = step.locals.iter().map(|local| size_of::<Local>() + local.chunks.footprint());
            sends.chain(locals).sum::<usize>()
        };
        let slices = self.symmetry.iter().flat_map(|symmetry| &symmetry.slices);
        let symmetry: usize = slices.map(Slice::footprint).sum();
        size_of::<Schedule>() + symmetry + self.steps.iter().map(of_step).sum::<usize>()
    }

    /// How many slots a rank has for each chunk.
    pub fn slots(&self) -> usize {
        let sends = self.steps.iter().flat_map(|s| &s.sends).map(|s| s.from.max(s.into));
        let locals = self.steps.iter().flat_map(|s| &s.locals).map(|l| l.from.max(l.into));
        sends.chain(locals).max().unwrap_or(0) + 1
    }

    /// The largest number of ports by which a rank sends in one step.
    pub fn ports(&self) -> usize {
        let view = self.view();
        let in_step = |step: usize| {
            let mut used: Vec<(Rank, Port)> =
                view.transfers(step).into_iter().map(|t| (t.source, t.port)).collect();
            used.sort_unstable();
            used.dedup();
            used.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0)
        };
        (0..self.steps.len()).map(in_step).max().unwrap_or(0)
    }

    /// How many chunks form the vector of one rank.
    pub fn chunks_per_vector(&self) -> usize {
        self.collective.chunks_per_vector(self.ranks, self.chunks)
    }

    /// The most that any rank sends in all steps, as a fraction of one rank's vector.
    pub fn max_sent(&self) -> f64 {
        let mut sent = vec![0usize; self.ranks];
        let view = self.view();
        for step in 0..self.steps.len() {
            view.transfers(step).into_iter().for_each(|t| sent[t.source] += t.chunks);
        }
        sent.into_iter().max().unwrap_or(0) as f64 / self.chunks_per_vector() as f64
    }
}
