//! The places of slots in the buffers of programs for GPUs: input, output and scratch memory, each an array of chunks.

use std::collections::{BTreeSet, HashMap};

use crate::collective::Collective;
use crate::schedule::{ChunkSet, Schedule};
use crate::units::{ChunkId, Rank, Slot};

/// A buffer of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProgramBuffer {
    /// What the caller gives.
    Input,
    /// What the caller gets.
    Output,
    /// What the program needs besides.
    Scratch,
}

impl ProgramBuffer {
    /// Its name in the formats.
    pub fn letter(self) -> &'static str {
        match self {
            ProgramBuffer::Input => "i",
            ProgramBuffer::Output => "o",
            ProgramBuffer::Scratch => "s",
        }
    }
}

/// A buffer and the chunk in it.
pub type Location = (ProgramBuffer, usize);

/// Chunks whose places follow each other at both ends: the first place at each, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The place of the first chunk where it is read.
    pub source: Location,
    /// The place of the first chunk where it is written.
    pub target: Location,
    /// How many chunks there are.
    pub count: usize,
}

/// The places of all slots. Collectives are in place, but for the all-to-all.
pub struct SlotPlaces {
    collective: Collective,
    ranks: usize,
    chunks: usize,
    scratch: Vec<HashMap<(Slot, ChunkId), usize>>,
}

impl SlotPlaces {
    /// The places for a schedule that is written out.
    pub fn new(schedule: &Schedule) -> SlotPlaces {
        let Schedule { collective, ranks, chunks, .. } = *schedule;
        let mut buffers = SlotPlaces { collective, ranks, chunks, scratch: vec![HashMap::new(); ranks] };
        let mut used: Vec<BTreeSet<(Slot, ChunkId)>> = vec![BTreeSet::new(); ranks];
        let mut note = |rank: Rank, slot: Slot, set: &ChunkSet| {
            let outside = set.iter().filter(|chunk| buffers.home(rank, *chunk, slot).is_none());
            used[rank].extend(outside.map(|chunk| (slot, chunk)));
        };
        for step in &schedule.steps {
            for send in &step.sends {
                note(send.source, send.from, &send.chunks);
                note(send.destination, send.into, &send.chunks);
            }
            for local in &step.locals {
                note(local.rank, local.from, &local.chunks);
                note(local.rank, local.into, &local.chunks);
            }
        }
        buffers.scratch = used
            .into_iter()
            .map(|used| used.into_iter().enumerate().map(|(place, key)| (key, place)).collect())
            .collect();
        buffers
    }

    /// Whether input and output share memory.
    pub fn in_place(&self) -> bool {
        self.collective != Collective::Alltoall
    }

    /// How many chunks the vector has.
    pub fn vector(&self) -> usize {
        self.collective.chunks_per_vector(self.ranks, self.chunks)
    }

    /// How many chunks the rank's scratch memory has.
    pub fn scratch(&self, rank: Rank) -> usize {
        self.scratch[rank].len()
    }

    /// The place of a slot in the input or output.
    fn home(&self, rank: Rank, chunk: ChunkId, slot: Slot) -> Option<Location> {
        if slot != 0 {
            return None;
        }
        let SlotPlaces { collective, ranks, chunks, .. } = *self;
        match collective {
            Collective::Alltoall => {
                let piece = chunk % (chunks / (ranks * ranks));
                let at = |block: usize| block * (chunks / (ranks * ranks)) + piece;
                let output = collective
                    .output_block(ranks, chunks, rank, chunk)
                    .map(|b| (ProgramBuffer::Output, at(b)));
                output.or_else(|| {
                    collective.input_block(ranks, chunks, rank, chunk).map(|b| (ProgramBuffer::Input, at(b)))
                })
            }
            Collective::Allgather | Collective::Broadcast { .. } | Collective::Gather { .. } => {
                Some((ProgramBuffer::Output, chunk))
            }
            _ => Some((ProgramBuffer::Input, chunk)),
        }
    }

    /// The place of a slot that the schedule uses.
    fn place(&self, rank: Rank, chunk: ChunkId, slot: Slot) -> Location {
        let home = self.home(rank, chunk, slot);
        home.unwrap_or_else(|| (ProgramBuffer::Scratch, self.scratch[rank][&(slot, chunk)]))
    }

    /// The blocks that a rank of an all-to-all sends itself, from input to output.
    pub fn own(&self, rank: Rank) -> Option<Run> {
        if self.in_place() {
            return None;
        }
        let count = self.chunks / (self.ranks * self.ranks);
        let first = rank * count;
        Some(Run { source: (ProgramBuffer::Input, first), target: (ProgramBuffer::Output, first), count })
    }

    /// The places of chunks at two ranks, as few runs as possible of at most `most` chunks.
    pub fn runs(&self, from: (Rank, Slot), into: (Rank, Slot), chunks: &ChunkSet, most: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for chunk in chunks.iter() {
            let source = self.place(from.0, chunk, from.1);
            let target = self.place(into.0, chunk, into.1);
            let follows = |(buffer, first): Location, count, next| next == (buffer, first + count);
            match runs.last_mut() {
                Some(Run { source: s, target: t, count })
                    if *count < most && follows(*s, *count, source) && follows(*t, *count, target) =>
                {
                    *count += 1;
                }
                _ => runs.push(Run { source, target, count: 1 }),
            }
        }
        runs
    }
}
