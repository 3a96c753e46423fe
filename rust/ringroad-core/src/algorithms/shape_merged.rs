//! From blocks to whole vectors: a reduce-scatter's in-trees become an allreduce without an allgather.
//!
//! Every block has its own tree, along which its parts are added up. If all ranks need everything, a rank does not send
//! its part of a block: it sends what that part would be for the whole vector. It sends as many vectors as its blocks
//! have different sets of contributors. All of these may be equal, as in
//!
//! ```text
//! halving and doubling, n = 8    step 0    0 gives the blocks 1 3 5 7 to 1      each has: 0
//!                                step 1    0 gives the blocks 2 6 to 2          each has: 0 1
//!                                step 2    0 gives the block  4 to 4            it has:   0 1 2 3
//! ```
//!
//! Cost: as many steps as the reduce-scatter, one vector per message.

use super::in_trees::{Give, Table};
use super::slots::{exchange, PieceSum, Pieces};
use crate::schedule::Schedule;

/// The allreduce of whole vectors along the trees of a symmetric table; `None` if one vector per port and step is not
/// enough.
pub(super) fn allreduce(name: &str, table: &Table) -> Option<Schedule> {
    Some(exchange(name, table.size(), table.motion()?, &messages(table)?))
}

/// The messages of position 0 in every step; `None` if a message would need several vectors.
fn messages(table: &Table) -> Option<Vec<Vec<PieceSum>>> {
    let (size, motion) = (table.size(), table.motion()?);
    // The pieces that position 0 has of each block.
    let mut held: Vec<Pieces> = vec![1; size];
    let mut pieces = 1;
    let mut steps = Vec::new();
    for level in 0..table.levels() {
        let mut gives: Vec<(Give, usize)> = (1..size).map(|block| (table.give(0, block), block)).collect();
        gives.retain(|(give, _)| give.level == level);
        gives.sort_by_key(|(give, _)| (give.port, give.parent));
        let before = held.clone();
        let mut step = Vec::new();
        for message in gives.chunk_by(|(a, _), (b, _)| a == b) {
            let (Give { parent, port, .. }, first) = message[0];
            if message.iter().any(|(_, block)| before[*block] != before[first]) {
                return None;
            }
            step.push(PieceSum { destination: parent, port, pieces: before[first] });
            // Position 0 receives what its parent receives, seen from the parent's place.
            message.iter().for_each(|(_, block)| held[motion.back(size, parent, *block)] |= 1 << pieces);
            pieces += 1;
        }
        steps.push(step);
    }
    // The position's own block contains the result.
    (held[0] == (1 << pieces) - 1).then_some(steps)
}
