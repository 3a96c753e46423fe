//! What becomes of an allgather when its graph is expanded.
//!
//! Below, a hop `(v, C): u -> w in t` passes parts `C` of rank v's block from u on to w in step `t`.

use super::gather::{common, Gather, GatherStep};
use super::wiring::LinkIndex;
use super::ExpandError;
use crate::units::Rank;

/// The most parts of blocks that all ranks together may receive: each is written out.
const MOST_RECEIVED: usize = 1 << 23;

/// Whether a schedule of this size is small enough.
fn check(ranks: usize, parts: usize) -> Result<(), ExpandError> {
    let received = ranks.saturating_mul(ranks).saturating_mul(parts);
    (received <= MOST_RECEIVED).then_some(()).ok_or(ExpandError::Large { ranks, parts })
}

/// On the line graph, every rank first sends its block to all ranks that follow it. Then each hop `(v, C): u -> w in t`
/// becomes `(v'v, C): uw -> ww' in t + 1` for all links into v and out of w. Parallel links share the parts.
pub(super) fn line(base: &Gather, wiring: &LinkIndex) -> Result<Gather, ExpandError> {
    let most = (0..wiring.links.len()).map(|link| wiring.beside(link).len()).fold(1, common);
    check(wiring.links.len(), base.parts * most)?;
    let base = base.clone().cut(most);
    let parts = base.parts;
    let whole = |link: usize| (link * parts, (link + 1) * parts);
    let mut first = GatherStep::new();
    for (link, (_, target)) in wiring.links.iter().enumerate() {
        for next in &wiring.out[*target] {
            first.entry((link, *next)).or_default().push(whole(link));
        }
    }
    let mut steps = vec![first];
    for hops in &base.steps {
        let mut expanded = GatherStep::new();
        for ((u, w), runs) in hops {
            let side: Vec<usize> = wiring.between(*u, *w);
            for (v, part) in base.blocks(runs) {
                let link = side[part % most * side.len() / most];
                for next in &wiring.out[*w] {
                    let blocks = wiring.into[v].iter().filter(|block| *block != next);
                    let runs = blocks.map(|block| (block * parts + part, block * parts + part + 1));
                    expanded.entry((link, *next)).or_default().extend(runs);
                }
            }
        }
        steps.push(expanded);
    }
    Ok(Gather { ranks: wiring.links.len(), parts, steps })
}

/// With `n` copies of every rank, each hop `(v, C): u -> w in t` becomes `(v_i, C): u_i -> w_j in t` for all copies.
/// Once all ranks with a link to v have v's block, the other copies of v get it from all of them, an equal share from
/// each.
pub(super) fn degree(base: &Gather, wiring: &LinkIndex, n: usize) -> Result<Gather, ExpandError> {
    let shares = |links: &Vec<usize>| common(base.parts, n * links.len()) / base.parts;
    let times = wiring.into.iter().map(shares).fold(1, common);
    check(base.ranks * n, base.parts * times)?;
    let base = base.clone().cut(times);
    let parts = base.parts;
    let mut steps: Vec<GatherStep> = Vec::new();
    for hops in &base.steps {
        let mut expanded = GatherStep::new();
        for ((u, w), runs) in hops {
            for (i, j) in pairs(n) {
                let own = base.blocks(runs).into_iter().map(|(v, part)| (v * n + i) * parts + part);
                expanded.insert((u * n + i, w * n + j), own.map(|chunk| (chunk, chunk + 1)).collect());
            }
        }
        steps.push(expanded);
    }
    let when = returned(&base, wiring);
    steps.resize(steps.len().max(when + 1), GatherStep::new());
    for (v, into) in wiring.into.iter().enumerate() {
        let share = parts / (n * into.len());
        for (i, j) in pairs(n).filter(|(i, j)| i != j) {
            let mut at = (v * n + i) * parts;
            for (link, copy) in into.iter().flat_map(|link| (0..n).map(move |copy| (link, copy))) {
                let (u, _) = wiring.links[*link];
                steps[when].entry((u * n + copy, v * n + j)).or_default().push((at, at + share));
                at += share;
            }
        }
    }
    Ok(Gather { ranks: base.ranks * n, parts, steps })
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (0..n).map(move |j| (i, j)))
}

/// The first step before which all ranks with a link to a rank have that rank's whole block.
fn returned(base: &Gather, wiring: &LinkIndex) -> usize {
    let mut after = 0;
    for (step, hops) in base.steps.iter().enumerate() {
        for ((_, w), runs) in hops {
            let back = |v: Rank| wiring.out[*w].iter().any(|link| wiring.links[*link].1 == v);
            if base.blocks(runs).into_iter().any(|(v, _)| back(v)) {
                after = step + 1;
            }
        }
    }
    after
}

/// On the product of `n` copies of the graph, part `i` of every block is gathered along dimension `i`, then along the
/// next one, and so on, so that all dimensions are always in use.
pub(super) fn power(base: &Gather, n: usize) -> Result<Gather, ExpandError> {
    let (size, parts) = (base.ranks, base.parts);
    let ranks = size.pow(n as u32);
    check(ranks, n * parts)?;
    let stride = |dimension: usize| size.pow((n - 1 - dimension) as u32);
    let mut steps = vec![GatherStep::new(); n * base.steps.len()];
    for (slice, phase) in pairs(n) {
        let along = stride((slice + phase) % n);
        let done: Vec<usize> = (slice..slice + phase).map(|dimension| stride(dimension % n)).collect();
        // All combinations of coordinates in the finished dimensions.
        let mut lines = vec![0];
        for stride in &done {
            lines = lines.iter().flat_map(|start| (0..size).map(move |at| start + at * stride)).collect();
        }
        for (step, hops) in base.steps.iter().enumerate() {
            for ((u, w), runs) in hops {
                let blocks = base.blocks(runs);
                for x in (0..ranks).filter(|x| x / along % size == *u) {
                    let start = done.iter().fold(x - u * along, |start, s| start - x / s % size * s);
                    let chunks = blocks.iter().flat_map(|(v, part)| {
                        let first = start + v * along;
                        lines.iter().map(move |line| ((first + line) * n + slice) * parts + part)
                    });
                    let hop = steps[phase * base.steps.len() + step].entry((x, x - u * along + w * along));
                    hop.or_default().extend(chunks.map(|chunk| (chunk, chunk + 1)));
                }
            }
        }
    }
    Ok(Gather { ranks, parts: n * parts, steps })
}

/// One half of every block goes by `base`, the other by `against`, which uses the reverse links.
pub(super) fn bidirectional(base: Gather, against: Gather) -> Result<Gather, ExpandError> {
    let parts = common(base.parts, against.parts);
    check(base.ranks, 2 * parts)?;
    let mut steps = vec![GatherStep::new(); base.steps.len().max(against.steps.len())];
    let ranks = base.ranks;
    for (half, gather) in [base, against].into_iter().enumerate() {
        let times = parts / gather.parts;
        let gather = gather.cut(times);
        for (step, hops) in gather.steps.iter().enumerate() {
            for (way, runs) in hops {
                let chunk = |(v, part): (Rank, usize)| (2 * v + half) * parts + part;
                let chunks = gather.blocks(runs).into_iter().map(chunk);
                steps[step].entry(*way).or_default().extend(chunks.map(|chunk| (chunk, chunk + 1)));
            }
        }
    }
    Ok(Gather { ranks, parts: 2 * parts, steps })
}
