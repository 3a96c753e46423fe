//! Trivance: a rank exchanges with two partners at once, one on each side, at three times the distance in every step.
//!
//! Juerss, Addanki, Schmid: Trivance, arXiv 2602.17254, lemma 1 and figure 4. Distances are 1, 3, 9, ... and for other
//! numbers than powers of three the last is the least that still reaches everybody. Which blocks a rank at a given
//! offset from their own rank gives away is read from nested sets of offsets, made from the last step to the first: an
//! offset belongs to the step in which it first appears. The sets are symmetric, and so both ports carry the same load
//! (but for the offset n/2).
//!
//! ```text
//! n = 7   after step 1    { 0 }                          a block is at home
//!         after step 0    { 0, 2, 5 }                    step 1, distance 2: offsets +2 and -2 give it home
//!         at first        { 0, 1, 2, 3, 4, 5, 6 }        step 0, distance 1: +1 and -1 home, +3 to +2, -3 to -2
//! ```
//!
//! Cost: 2 ceil(log3 n) steps, 2(n-1)/n of the vector over two ports.
//! Exchanging whole vectors: log3 n steps, 2 log3 n vectors over two ports, exact for powers of three.

use super::ceil_log;
use super::in_trees::{perform, Give, InTrees};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Port;

/// Reduce-scatter, allgather and allreduce for any number of ranks.
pub(super) fn bandwidth(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let trees = nested(ranks, &distances(ranks));
    perform(name, collective, &trees, &trees)
}

/// The allreduce that exchanges whole vectors, for powers of three.
pub(super) fn latency(name: &str, ranks: usize, _: Collective) -> Schedule {
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, 1);
    for distance in distances(ranks) {
        let exchange = |source, port| Send {
            source,
            destination: moved(ranks, source, distance, port),
            chunks: ChunkSet::range(0, 1),
            action: Action::Reduce,
            port,
        };
        schedule.push((0..ranks).flat_map(|rank| [exchange(rank, 0), exchange(rank, 1)]).collect());
    }
    schedule
}

/// 1, 3, 9, ... and last half of what is then left to cover.
fn distances(ranks: usize) -> Vec<usize> {
    let steps = ceil_log(3, ranks);
    let distance = |step: usize| {
        let power = 3usize.pow(step as u32);
        if step + 1 == steps {
            (ranks - power).div_ceil(2)
        } else {
            power
        }
    };
    (0..steps).map(distance).collect()
}

/// The place `distance` further by `port`.
fn moved(ranks: usize, place: usize, distance: usize, port: Port) -> usize {
    (place + if port == 0 { distance } else { ranks - distance }) % ranks
}

/// The in-trees of any distances by which every offset can be reached from offset 0, each used at most once either way.
fn nested(ranks: usize, distances: &[usize]) -> InTrees {
    let mut ways: Vec<Option<(usize, Port)>> = vec![None; ranks];
    ways[0] = Some((distances.len(), 0));
    for (step, &distance) in distances.iter().enumerate().rev() {
        let inside: Vec<bool> = ways.iter().map(Option::is_some).collect();
        for offset in (0..ranks).filter(|offset| !inside[*offset]) {
            let leads_in = |port: &Port| inside[moved(ranks, offset, distance, *port)];
            // The lower half prefers to go down and the upper half to go up, which balances the ports.
            let nearer = usize::from(2 * offset <= ranks);
            ways[offset] = [nearer, nearer ^ 1].into_iter().find(leads_in).map(|port| (step, port));
        }
    }
    InTrees::new(ranks, |rank, block| {
        let (level, port) = ways[(rank + ranks - block) % ranks].expect("the distances reach every offset");
        Give { level, parent: moved(ranks, rank, distances[level], port), port }
    })
}
