//! The nested sets of offsets of a ring.

/// The distances of a ring, and the number of offsets in each of S_0 to S_K. The load depends only on these numbers.
#[derive(Debug, Clone)]
pub(super) struct Nest {
    pub(super) distances: Vec<usize>,
    pub(super) counts: Vec<usize>,
}

impl Nest {
    pub(super) fn new(size: usize, distances: Vec<usize>) -> Option<Nest> {
        let mut counts = vec![1; distances.len() + 1];
        let (mut set, mut wider) = (home(size), Vec::new());
        for (level, &distance) in distances.iter().enumerate().rev() {
            if 2 * distance > size {
                return None;
            }
            counts[level] = widen(&set, distance, &mut wider);
            std::mem::swap(&mut set, &mut wider);
        }
        (counts[0] == size).then_some(Nest { distances, counts })
    }

    /// The number of steps in which no rank sends.
    pub(super) fn idle(&self) -> usize {
        self.counts.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }
}

/// The set of offset 0 alone. A set has one byte for every offset, because plain loops over bytes are fast.
pub(super) fn home(size: usize) -> Vec<u8> {
    (0..size).map(|offset| u8::from(offset == 0)).collect()
}

/// Sets `wider` to a set plus the offsets at `distance` to either side of it. Returns the number of its offsets.
pub(super) fn widen(set: &[u8], distance: usize, wider: &mut Vec<u8>) -> usize {
    let unite = |to: &mut [u8], from: &[u8]| to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
    let rest = set.len() - distance;
    wider.clear();
    wider.extend_from_slice(set);
    unite(&mut wider[distance..], &set[..rest]);
    unite(&mut wider[..distance], &set[rest..]);
    unite(&mut wider[..rest], &set[distance..]);
    unite(&mut wider[rest..], &set[..distance]);
    wider.chunks(255).map(|part| usize::from(part.iter().sum::<u8>())).sum()
}

/// The largest distance of any offset from the set.
pub(super) fn radius(set: &[u8]) -> usize {
    let (mut last, mut gap) = (0, 0);
    for offset in (1..=set.len() / 2).filter(|offset| set[*offset] == 1) {
        gap = gap.max(offset - last);
        last = offset;
    }
    gap.max(set.len() - 2 * last) / 2
}
