//! Exchanges of whole vectors in which receivers need different sums. All ranks act alike.
//!
//! A rank receives pieces of the result, and sends sums of pieces. Two pieces are inseparable if no later message needs
//! one of them without the other; a rank adds inseparable pieces up as they arrive. Other pieces stay in slots of their
//! own. A sum to be sent is made in place of its parts if these are not needed separately any more, otherwise beside
//! them.
//!
//! ```text
//! n = 7    step 0    sends piece 0 to both sides      slot 0: 0      slot 1: 1        slot 2: 2
//!          then      makes 0+1 apart, 0+2 in place    slot 0: 0+2    slot 1: 1        slot 3: 0+1
//!          step 1    sends these, receives 3 and 4    slot 0: 0+2    slot 1: 1+3+4
//! ```

use super::dimension_wise::{line, whole};
use crate::schedule::{Action, ChunkSet, Local, Motion, Schedule, Send, Step};
use crate::units::{Port, Slot};

/// What position 0 sends: the sum of some pieces. Piece 0 is the position's own vector. The others are the pieces that
/// it receives, one per message, numbered in the order of the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PieceSum {
    pub destination: usize,
    pub port: Port,
    pub pieces: Pieces,
}

/// A set of pieces, one bit each.
pub(super) type Pieces = u64;

/// A sum of pieces and its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    pieces: Pieces,
    slot: Slot,
}

/// The allreduce on a ring of `size` in which position 0 sends these messages in each step. Motions determine what the
/// other positions send. The result is the sum of all pieces.
pub(super) fn exchange(name: &str, size: usize, motion: Motion, steps: &[Vec<PieceSum>]) -> Schedule {
    let mut rank = Position::default();
    let mut schedule = line(name, size, motion);
    for (index, messages) in steps.iter().enumerate() {
        let later = &steps[index + 1..];
        let mut step = Step { sends: rank.transfer(messages, later), locals: Vec::new() };
        rank.join(later, &mut step.locals);
        if let [next, later @ ..] = later {
            rank.prepare(next, later, &mut step.locals);
        }
        schedule.steps.push(step);
    }
    debug_assert!(
        matches!(rank.parts[..], [Sum { slot: 0, .. }]),
        "{name} over {size} leaves {:?}",
        rank.parts
    );
    schedule
}

/// Whether no later message needs some of these pieces without the others. The result needs them all.
fn inseparable(pieces: Pieces, later: &[Vec<PieceSum>]) -> bool {
    later
        .iter()
        .flatten()
        .all(|message| matches!(message.pieces & pieces, 0) || message.pieces & pieces == pieces)
}

/// The state of a rank.
struct Position {
    /// Sums that together contain every piece once.
    parts: Vec<Sum>,
    /// Additional sums that the next step sends.
    extra: Vec<Sum>,
    pieces: usize,
}

impl Default for Position {
    fn default() -> Position {
        Position { parts: vec![Sum { pieces: 1, slot: 0 }], extra: Vec::new(), pieces: 1 }
    }
}

impl Position {
    fn vacant(&self) -> Slot {
        let taken = |slot: &Slot| self.parts.iter().chain(&self.extra).any(|sum| sum.slot == *slot);
        (1..).find(|slot| !taken(slot)).expect("there are more slots than sums")
    }

    /// A step's sends. An arriving piece is added to a sum that it is inseparable from, if there is one; else it gets a
    /// slot.
    fn transfer(&mut self, messages: &[PieceSum], later: &[Vec<PieceSum>]) -> Vec<Send> {
        let before = self.parts.len();
        let sent: Vec<Slot> = messages.iter().map(|message| self.slot_of(message.pieces)).collect();
        let mut sends = Vec::new();
        for (message, from) in messages.iter().zip(sent) {
            let piece = 1 << self.pieces;
            self.pieces += 1;
            let fits = |sum: &&mut Sum| inseparable(sum.pieces | piece, later);
            let (action, into) = match self.parts[..before].iter_mut().find(fits) {
                Some(sum) => {
                    sum.pieces |= piece;
                    (Action::Reduce, sum.slot)
                }
                None => {
                    let slot = self.vacant();
                    self.parts.push(Sum { pieces: piece, slot });
                    (Action::Copy, slot)
                }
            };
            sends.push(Send { action, from, into, ..whole(message.destination, message.port) });
        }
        self.extra.clear();
        sends
    }

    fn slot_of(&self, pieces: Pieces) -> Slot {
        let sum = self.parts.iter().chain(&self.extra).find(|sum| sum.pieces == pieces);
        sum.expect("it has been prepared").slot
    }

    /// Adds up parts that need not be separate any more.
    fn join(&mut self, later: &[Vec<PieceSum>], locals: &mut Vec<Local>) {
        self.parts.sort_by_key(|sum| sum.slot);
        let mut joined: Vec<Sum> = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            match joined.iter_mut().find(|sum| inseparable(sum.pieces | part.pieces, later)) {
                Some(sum) => {
                    sum.pieces |= part.pieces;
                    locals.push(local(Action::Reduce, part.slot, sum.slot));
                }
                None => joined.push(part),
            }
        }
        self.parts = joined;
    }

    /// Makes the sums that the next step sends.
    fn prepare(&mut self, next: &[PieceSum], later: &[Vec<PieceSum>], locals: &mut Vec<Local>) {
        let mut wanted: Vec<Pieces> = next.iter().map(|message| message.pieces).collect();
        // Sums that replace their parts come last.
        wanted.sort_by_key(|pieces| (inseparable(*pieces, later), pieces.count_ones(), *pieces));
        wanted.dedup();
        for (index, &pieces) in wanted.iter().enumerate() {
            let still = |other: &Pieces| wanted[index..].contains(other) && other & pieces != pieces;
            let is_part = |other: &Pieces| self.parts.iter().any(|sum| sum.pieces == *other);
            let needs = |other: &Pieces| other & pieces != 0 && (still(other) || is_part(other));
            if inseparable(pieces, later) && !wanted.iter().filter(|other| **other != pieces).any(needs) {
                self.add_in_place(pieces, locals);
            } else {
                self.add_apart(pieces, locals);
            }
        }
    }

    /// Makes a sum in place of its parts, in the slot of one of them.
    fn add_in_place(&mut self, pieces: Pieces, locals: &mut Vec<Local>) {
        let (mut inside, outside): (Vec<Sum>, Vec<Sum>) =
            self.parts.iter().partition(|sum| sum.pieces & pieces != 0);
        inside.sort_by_key(|sum| sum.slot);
        let slot = inside[0].slot;
        locals.extend(inside[1..].iter().map(|sum| local(Action::Reduce, sum.slot, slot)));
        self.parts = outside;
        self.parts.push(Sum { pieces, slot });
    }

    /// Makes a sum beside its parts, from as few sums as possible, unless it exists already.
    fn add_apart(&mut self, pieces: Pieces, locals: &mut Vec<Local>) {
        let mut sums: Vec<Sum> = self.parts.iter().chain(&self.extra).copied().collect();
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.pieces.count_ones()));
        let mut rest = pieces;
        sums.retain(|sum| {
            let takes = sum.pieces & !rest == 0;
            rest &= if takes { !sum.pieces } else { Pieces::MAX };
            takes
        });
        if sums.len() > 1 {
            let slot = self.vacant();
            let action = |place| if place == 0 { Action::Copy } else { Action::Reduce };
            locals.extend(sums.iter().enumerate().map(|(i, sum)| local(action(i), sum.slot, slot)));
            self.extra.push(Sum { pieces, slot });
        }
    }
}

fn local(action: Action, from: Slot, into: Slot) -> Local {
    Local { rank: 0, chunks: ChunkSet::range(0, 1), action, from, into }
}
