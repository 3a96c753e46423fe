//! The digest of a schedule, by which ranks check that they have the same schedule.

use super::{Action, ChunkSet, Motion, Schedule, Slice, Step};
use crate::digest::Fnv;

impl Schedule {
    /// A digest of 32 hexadecimal digits, the same on every machine and in every version. It covers the name, the
    /// collective, the ranks, chunks, symmetry and all steps. It is not cryptographic: an attacker can construct two
    /// schedules with the same digest.
    pub fn digest(&self) -> String {
        let Schedule { name, collective, ranks, chunks, symmetry, steps } = self;
        let mut hash = Fnv::new();
        hash.text(name);
        hash.text(collective.name());
        hash.numbers(collective.root().into_iter().collect::<Vec<_>>().into_iter());
        hash.number(*ranks);
        hash.number(*chunks);
        let slices = symmetry.as_ref().map_or(&[][..], |symmetry| &symmetry.slices);
        hash.number(slices.len());
        slices.iter().for_each(|slice| take_slice(&mut hash, slice));
        hash.number(steps.len());
        steps.iter().for_each(|step| take_step(&mut hash, step));
        hash.digits()
    }
}

fn take_slice(hash: &mut Fnv, slice: &Slice) {
    let Slice { axes, chunks, cycle, group, ranks } = slice;
    hash.number(axes.len());
    for axis in axes {
        let motion = match axis.motion {
            Motion::Shift => 0,
            Motion::Reflect => 1,
            Motion::Flip => 2,
            Motion::MirroredFlip => 3,
        };
        [axis.size, axis.blocks, motion].into_iter().for_each(|number| hash.number(number));
    }
    hash.numbers(chunks.iter().copied());
    hash.number(usize::from(cycle.is_some()));
    if let Some(cycle) = cycle {
        hash.numbers(cycle.ranks.iter().copied());
        hash.numbers(cycle.ports.iter().copied());
    }
    let generators = group.as_ref().map_or(&[][..], |group| group.products());
    hash.number(generators.len());
    generators.iter().for_each(|row| hash.numbers(row.iter().copied()));
    ranks.iter().for_each(|ranks| hash.numbers(ranks.iter().copied()));
}

fn take_step(hash: &mut Fnv, step: &Step) {
    let action = |action: Action| usize::from(action == Action::Reduce);
    let take_chunks = |hash: &mut Fnv, chunks: &ChunkSet| {
        hash.number(chunks.runs().len());
        for (start, end) in chunks.runs() {
            hash.number(*start);
            hash.number(end - start);
        }
    };
    hash.number(step.sends.len());
    for send in &step.sends {
        let numbers = [send.source, send.destination, action(send.action), send.port, send.from, send.into];
        numbers.into_iter().for_each(|number| hash.number(number));
        take_chunks(hash, &send.chunks);
    }
    hash.number(step.locals.len());
    for local in &step.locals {
        let numbers = [local.rank, action(local.action), local.from, local.into];
        numbers.into_iter().for_each(|number| hash.number(number));
        take_chunks(hash, &local.chunks);
    }
}
