//! Sets of chunks, stored as sorted runs, because messages mostly contain contiguous chunks.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::units::ChunkId;

/// A set of chunks: ascending, disjoint, non-adjacent half-open runs `[start, end)`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Vec<(ChunkId, ChunkId)>", into = "Vec<(ChunkId, ChunkId)>")]
pub struct ChunkSet(Runs);

/// Most sets are one run, which needs no memory of its own.
#[derive(Clone)]
enum Runs {
    One((ChunkId, ChunkId)),
    Any(Vec<(ChunkId, ChunkId)>),
}

impl ChunkSet {
    /// The chunks `start..end`.
    pub fn range(start: ChunkId, end: ChunkId) -> ChunkSet {
        if start < end {
            ChunkSet(Runs::One((start, end)))
        } else {
            ChunkSet::default()
        }
    }

    /// The set with these runs, which ascend and do not touch.
    fn from_runs(runs: Vec<(ChunkId, ChunkId)>) -> ChunkSet {
        match runs[..] {
            [run] => ChunkSet(Runs::One(run)),
            _ => ChunkSet(Runs::Any(runs)),
        }
    }

    /// How many bytes of memory the set takes besides its own size.
    pub(super) fn footprint(&self) -> usize {
        match &self.0 {
            Runs::One(_) => 0,
            Runs::Any(runs) => size_of_val(&**runs),
        }
    }

    /// How many chunks the set has.
    pub fn len(&self) -> usize {
        self.runs().iter().map(|(s, e)| e - s).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// The runs `(start, end)` in ascending order; no two of them touch.
    pub fn runs(&self) -> &[(ChunkId, ChunkId)] {
        match &self.0 {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Any(runs) => runs,
        }
    }

    /// The chunks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.runs().iter().flat_map(|&(s, e)| s..e)
    }

    /// Whether `chunk` is in the set.
    pub fn contains(&self, chunk: ChunkId) -> bool {
        let after = self.runs().partition_point(|&(start, _)| start <= chunk);
        after > 0 && chunk < self.runs()[after - 1].1
    }

    /// Whether any chunk is in both sets.
    pub fn overlaps(&self, other: &ChunkSet) -> bool {
        let (mut left, mut right) = (self.runs().iter().peekable(), other.runs().iter().peekable());
        while let (Some(&&(s, e)), Some(&&(t, f))) = (left.peek(), right.peek()) {
            if s < f && t < e {
                return true;
            }
            // The run that ends first cannot overlap a later run of the other set.
            if e <= f {
                left.next();
            } else {
                right.next();
            }
        }
        false
    }

    /// The highest chunk; `None` where the set is empty.
    pub fn max(&self) -> Option<ChunkId> {
        self.runs().last().map(|&(_, e)| e - 1)
    }
}

impl Default for ChunkSet {
    fn default() -> Self {
        ChunkSet(Runs::Any(Vec::new()))
    }
}

impl PartialEq for ChunkSet {
    fn eq(&self, other: &Self) -> bool {
        self.runs() == other.runs()
    }
}

impl Eq for ChunkSet {}

impl Hash for ChunkSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.runs().hash(state);
    }
}

impl fmt::Debug for ChunkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkSet").field("runs", &self.runs()).finish()
    }
}

impl From<Vec<(ChunkId, ChunkId)>> for ChunkSet {
    fn from(mut runs: Vec<(ChunkId, ChunkId)>) -> Self {
        runs.retain(|(s, e)| s < e);
        runs.sort_unstable();
        let mut merged: Vec<(ChunkId, ChunkId)> = Vec::with_capacity(runs.len());
        for (start, end) in runs {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        ChunkSet::from_runs(merged)
    }
}

impl From<ChunkSet> for Vec<(ChunkId, ChunkId)> {
    fn from(set: ChunkSet) -> Self {
        match set.0 {
            Runs::One(run) => vec![run],
            Runs::Any(runs) => runs,
        }
    }
}

impl FromIterator<ChunkId> for ChunkSet {
    fn from_iter<T: IntoIterator<Item = ChunkId>>(chunks: T) -> Self {
        let mut chunks = chunks.into_iter();
        let Some(first) = chunks.next() else { return ChunkSet::default() };
        let (mut end, mut next) = (first + 1, chunks.next());
        while next == Some(end) {
            (end, next) = (end + 1, chunks.next());
        }
        let Some(next) = next else { return ChunkSet::range(first, end) };
        let (runs, ascend) = runs((first, end), std::iter::once(next).chain(chunks));
        if ascend {
            return ChunkSet::from_runs(runs);
        }
        sorted(runs)
    }
}

/// The set with these runs, which may be in any order and overlap.
fn sorted(runs: Vec<(ChunkId, ChunkId)>) -> ChunkSet {
    let (first, end) = runs.iter().fold((ChunkId::MAX, 0), |(a, b), run| (a.min(run.0), b.max(run.1)));
    // Where the chunks lie close together, a bit map takes less time than sorting.
    if (end - first) / 64 > runs.len() {
        return ChunkSet::from(runs);
    }
    let mut words = vec![0u64; (end - first).div_ceil(64)];
    for chunk in runs.into_iter().flat_map(|(start, end)| start - first..end - first) {
        words[chunk / 64] |= 1 << (chunk % 64);
    }
    let set = words.into_iter().enumerate().flat_map(|(index, word)| {
        let rests = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
        rests.take_while(|rest| *rest != 0).map(move |r| first + 64 * index + r.trailing_zeros() as usize)
    });
    set.collect()
}

/// Runs of the chunks in the given order, after a first run, and whether the runs ascend.
fn runs(first: (ChunkId, ChunkId), chunks: impl Iterator<Item = ChunkId>) -> (Vec<(ChunkId, ChunkId)>, bool) {
    let mut runs = vec![first];
    let mut ascend = true;
    for chunk in chunks {
        match runs.last_mut() {
            Some((_, end)) if chunk == *end => *end += 1,
            last => {
                ascend &= last.is_none_or(|(_, end)| chunk > *end);
                runs.push((chunk, chunk + 1));
            }
        }
    }
    (runs, ascend)
}

impl fmt::Display for ChunkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(start, end)) in self.runs().iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            if end == start + 1 {
                write!(f, "{comma}{start}")?;
            } else {
                write!(f, "{comma}{start}-{}", end - 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn seeded() -> ProptestConfig {
        let rng_seed = proptest::test_runner::RngSeed::Fixed(11);
        ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(seeded())]

        /// Chunks close together or far apart, in any order, with repetitions.
        #[test]
        fn a_set_has_each_chunk_once(
            chunks in prop::collection::vec(any::<u32>(), 0..200),
            spread in prop::sample::select(vec![4u32, 64, 300, 100_000, u32::MAX]),
        ) {
            let chunks: Vec<ChunkId> = chunks.into_iter().map(|c| (c % spread) as usize).collect();
            let set: ChunkSet = chunks.iter().copied().collect();
            let expected: BTreeSet<ChunkId> = chunks.iter().copied().collect();
            prop_assert!(set.iter().eq(expected.iter().copied()));
            prop_assert!(set.runs().windows(2).all(|pair| pair[0].1 < pair[1].0));
            prop_assert_eq!(set, ChunkSet::from(chunks.into_iter().map(|c| (c, c + 1)).collect::<Vec<_>>()));
        }
    }
}
