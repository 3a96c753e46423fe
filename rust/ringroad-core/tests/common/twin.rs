//! Two ways to compute the result of a call: by replaying the schedule chunk by chunk, and by the definition of the
//! collective.

use std::collections::HashMap;
use std::ops::Range;

use ringroad_core::{Action, Collective, Rank, Schedule, Send};

use super::element::Element;

/// How many elements the input of `rank` has, where one block (or the whole vector, without blocks) has `elements`.
pub fn input_len(collective: Collective, ranks: usize, rank: Rank, elements: usize) -> usize {
    match collective {
        Collective::Allreduce | Collective::Reduce { .. } | Collective::Scan | Collective::Exscan => elements,
        Collective::Allgather | Collective::Gather { .. } => elements,
        Collective::ReduceScatter | Collective::Alltoall => ranks * elements,
        Collective::Broadcast { root } => elements * usize::from(rank == root),
        Collective::Scatter { root } => ranks * elements * usize::from(rank == root),
    }
}

/// How many elements the output of `rank` has.
pub fn output_len(collective: Collective, ranks: usize, rank: Rank, elements: usize) -> usize {
    match collective {
        Collective::Allreduce | Collective::Broadcast { .. } | Collective::Scan => elements,
        Collective::Exscan => elements * usize::from(rank > 0),
        Collective::ReduceScatter | Collective::Scatter { .. } => elements,
        Collective::Allgather | Collective::Alltoall => ranks * elements,
        Collective::Reduce { root } => elements * usize::from(rank == root),
        Collective::Gather { root } => ranks * elements * usize::from(rank == root),
    }
}

/// Whether `rank` has both an input and an output, so that they can share memory.
pub fn has_both(collective: Collective, rank: Rank) -> bool {
    collective.root().is_none_or(|root| root == rank) && (collective != Collective::Exscan || rank > 0)
}

/// The elements at which the input and the output start in the memory that they share.
pub fn shared_starts(collective: Collective, rank: Rank, elements: usize) -> (usize, usize) {
    match collective {
        Collective::Allgather | Collective::Gather { .. } => (rank * elements, 0),
        Collective::ReduceScatter | Collective::Scatter { .. } => (0, rank * elements),
        _ => (0, 0),
    }
}

/// The outputs of all ranks by the definition of the collective. `inputs` are already multiplied.
pub fn answer<T: Element>(
    collective: Collective,
    inputs: &[Vec<T>],
    elements: usize,
    average: bool,
) -> Vec<Vec<T>> {
    let ranks = inputs.len();
    let block = |vector: &[T], b: usize| vector[b * elements..(b + 1) * elements].to_vec();
    let sum_of = |inputs: &[Vec<T>]| -> Vec<T> {
        let add = |a: Vec<T>, b: &Vec<T>| a.into_iter().zip(b).map(|(x, y)| x.add(*y)).collect();
        let sum: Vec<T> = inputs[1..].iter().fold(inputs[0].clone(), add);
        sum.into_iter().map(|x| if average { x.divide(ranks) } else { x }).collect()
    };
    let sum = || sum_of(inputs);
    let only = |root: Rank, vector: Vec<T>| -> Vec<Vec<T>> {
        (0..ranks).map(|rank| if rank == root { vector.clone() } else { Vec::new() }).collect()
    };
    match collective {
        Collective::Allreduce => vec![sum(); ranks],
        Collective::Reduce { root } => only(root, sum()),
        Collective::ReduceScatter => {
            let sum = sum();
            (0..ranks).map(|rank| block(&sum, rank)).collect()
        }
        Collective::Allgather => vec![inputs.concat(); ranks],
        Collective::Gather { root } => only(root, inputs.concat()),
        Collective::Broadcast { root } => vec![inputs[root].clone(); ranks],
        Collective::Scatter { root } => (0..ranks).map(|rank| block(&inputs[root], rank)).collect(),
        Collective::Alltoall => {
            (0..ranks).map(|rank| inputs.iter().flat_map(|i| block(i, rank)).collect()).collect()
        }
        Collective::Scan => (0..ranks).map(|rank| sum_of(&inputs[..=rank])).collect(),
        Collective::Exscan => {
            let before = (1..ranks).map(|rank| sum_of(&inputs[..rank]));
            std::iter::once(Vec::new()).chain(before).collect()
        }
    }
}

/// How many blocks of all ranks together differ.
pub fn blocks(collective: Collective, ranks: usize) -> usize {
    match collective {
        Collective::Alltoall => ranks * ranks,
        Collective::Allreduce
        | Collective::Broadcast { .. }
        | Collective::Reduce { .. }
        | Collective::Scan
        | Collective::Exscan => 1,
        _ => ranks,
    }
}

/// The places of a chunk: the ranks and ranges in their inputs, and the ranks and ranges in their outputs.
type Places = (Vec<(Rank, Range<usize>)>, Vec<(Rank, Range<usize>)>);

fn places(schedule: &Schedule, chunk: usize, elements: usize) -> Places {
    let ranks = schedule.ranks;
    let pieces = schedule.chunks / blocks(schedule.collective, ranks);
    let (block, piece) = (chunk / pieces, chunk % pieces);
    let within =
        |b: usize| b * elements + elements * piece / pieces..b * elements + elements * (piece + 1) / pieces;
    let all = |b: usize| (0..ranks).map(|rank| (rank, within(b))).collect();
    let one = |rank: Rank, b: usize| vec![(rank, within(b))];
    match schedule.collective {
        Collective::Allreduce | Collective::Scan => (all(0), all(0)),
        Collective::Exscan => (all(0), (1..ranks).map(|rank| (rank, within(0))).collect()),
        Collective::Reduce { root } => (all(0), one(root, 0)),
        Collective::Broadcast { root } => (one(root, 0), all(0)),
        Collective::ReduceScatter => (all(block), one(block, 0)),
        Collective::Allgather => (one(block, 0), all(block)),
        Collective::Gather { root } => (one(block, 0), one(root, block)),
        Collective::Scatter { root } => (one(root, block), one(block, 0)),
        Collective::Alltoall => {
            let (source, target) = (block / ranks, block % ranks);
            (one(source, target), one(target, source))
        }
    }
}

/// Replays the schedule: all sends of a step read the values at the start of the step.
pub fn replay<T: Element>(
    schedule: &Schedule,
    inputs: &[Vec<T>],
    elements: usize,
    average: bool,
) -> Vec<Vec<T>> {
    let Schedule { collective, ranks, chunks, .. } = *schedule;
    let mut held: HashMap<(Rank, usize), Vec<T>> = HashMap::new();
    for chunk in 0..chunks {
        for (rank, range) in places(schedule, chunk, elements).0 {
            held.insert((rank, chunk), inputs[rank][range].to_vec());
        }
    }
    let Schedule { steps, .. } = schedule.expand();
    // Slot 0 of chunk `c` is place `c`, slot 1 place `chunks + c`, and so on.
    let combine = |held: &mut HashMap<(Rank, usize), Vec<T>>, place, action, values: Vec<T>| match action {
        Action::Copy => drop(held.insert(place, values)),
        Action::Reduce => {
            let mine = held.entry(place).or_default().iter_mut();
            mine.zip(values).for_each(|(mine, arrived)| *mine = mine.add(arrived));
        }
    };
    for step in &steps {
        let moves = step.sends.iter().flat_map(|send| send.chunks.iter().map(move |chunk| (send, chunk)));
        let read = |(send, c): (&Send, usize)| held[&(send.source, send.from * chunks + c)].clone();
        let sent: Vec<_> = moves.map(|(send, c)| (send, c, read((send, c)))).collect();
        for (send, chunk, values) in sent {
            combine(&mut held, (send.destination, send.into * chunks + chunk), send.action, values);
        }
        for local in &step.locals {
            for chunk in local.chunks.iter() {
                let values = held[&(local.rank, local.from * chunks + chunk)].clone();
                combine(&mut held, (local.rank, local.into * chunks + chunk), local.action, values);
            }
        }
    }
    let nothing = T::from_bytes(&vec![0; T::BYTES]);
    let mut outputs: Vec<Vec<T>> =
        (0..ranks).map(|rank| vec![nothing; output_len(collective, ranks, rank, elements)]).collect();
    for chunk in 0..chunks {
        for (rank, range) in places(schedule, chunk, elements).1 {
            outputs[rank][range].copy_from_slice(&held[&(rank, chunk)]);
        }
    }
    if average {
        outputs.iter_mut().flatten().for_each(|x| *x = x.divide(ranks));
    }
    outputs
}
