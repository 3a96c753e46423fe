//! Searches for the distances of nested sets of offsets that load the links of a ring or a torus least, for a given
//! number of steps.
//!
//! Let S_K = { 0 }, and let S_k be S_{k+1} plus the offsets at a distance of d_k to either side of it. If S_0 is the
//! whole ring, the distances define a reduce-scatter: a rank whose offset from a block's own rank is in S_k but not in
//! S_{k+1} gives the block away in step k, over a distance of d_k, to an offset in S_{k+1}. There can be few large
//! steps, or many small ones that load the links less. Trivance (Juerss, Addanki, Schmid, arXiv 2602.17254) has the
//! fewest steps. The ring of Zhao et al. (arXiv 2202.03356), with n/2 distances of 1, has the least load. A search
//! finds distances between these two.
//!
//! ```text
//! n = 16    Trivance: 1, 3, 4                              here: 1, 2, 5
//!   S_2     { 0, 4, 12 }                            2 * 4  { 0, 5, 11 }                             2 * 5
//!   S_1     { 0, 1, 3, 4, 7, 9, 12, 13, 15 }        6 * 3  { 0, 2, 3, 5, 7, 9, 11, 13, 14 }         6 * 2
//!   S_0     all                                     7 * 1  all                                      7 * 1
//!                                             33/16 = 2.06                                   29/16 = 1.81
//! ```
//!
//! On a torus of D dimensions, D collectives run at once, each on its own m/D bytes. Collective c takes its first step
//! in dimension c, the next in dimension c + 1, and so on, and skips dimensions that have no levels left. One half of
//! each runs with all signs flipped, so that both directions of a link carry the same load.
//!
//! Cost: 2 (K_1 + .. + K_D) steps, 2(N-1)/N of the vector. The busiest link carries m/D times the link load in bytes:
//! for a ring the sum of d_k (|S_k| - |S_{k+1}|) / n, for D equal dimensions the sum of d_k (|S_k|^D - |S_{k+1}|^D) /
//! n^D.

mod improve;
mod least;
mod nest;
#[cfg(test)]
mod tests;
mod torus;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use self::least::least;
use super::ceil_log;

/// The number of plans that are cached.
const KEPT: usize = 1 << 10;

/// The distances of every dimension, by sizes and levels.
type Plans = BTreeMap<(Vec<usize>, Vec<usize>), Vec<Vec<usize>>>;

static PLANS: Mutex<Plans> = Mutex::new(BTreeMap::new());

/// The distances of every dimension: step k of a dimension in the reduce-scatter goes over the k-th distance.
///
/// Levels are clamped: fewer than [`fewest`] do not reach every rank, and more than half the size are useless.
/// Dimensions of equal size and levels get equal distances. The result depends only on the arguments, on all ranks and
/// machines. It loads the links no more than Trivance's distances if those have as many levels.
pub fn plan(sizes: &[usize], levels: &[usize]) -> Vec<Vec<usize>> {
    assert_eq!(sizes.len(), levels.len(), "every dimension needs a number of levels");
    let clamped = sizes.iter().zip(levels).map(|(&size, levels)| *levels.clamp(&fewest(size), &(size / 2)));
    let key = (sizes.to_vec(), clamped.collect::<Vec<_>>());
    let plans = || PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = plans().get(&key) {
        return known.clone();
    }
    let found = least(&key.0, &key.1);
    let mut plans = plans();
    if plans.len() >= KEPT {
        plans.pop_first();
    }
    plans.insert(key, found.clone());
    found
}

/// The numbers of levels that are worth trying, as `(extra, levels)`: every dimension has `extra` levels more than the
/// fewest, but at most half its size. `extra` is 0 to 6, then 12, 24, ..., and last the number with which all distances
/// are 1.
///
/// More levels do not always load the links less, especially if the sizes differ much, so callers should compare the
/// loads.
pub fn members(sizes: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let most = sizes.iter().map(|&size| size / 2 - fewest(size)).max().unwrap_or(0);
    let doubled = std::iter::successors(Some(12), |extra| Some(2 * extra));
    let extras = (0..=6).chain(doubled).take_while(|extra| *extra < most).chain([most]);
    let levels = |extra: usize| sizes.iter().map(|&size| (fewest(size) + extra).min(size / 2)).collect();
    extras.map(|extra| (extra, levels(extra))).collect()
}

/// The fewest levels with which every rank of a ring is reached.
pub fn fewest(size: usize) -> usize {
    ceil_log(3, size)
}

/// Trivance's own distances: 1, 3, 9, ..., and last half of what remains to be covered.
pub fn trivance(n: usize) -> Vec<usize> {
    let powers = (0..fewest(n)).map(|level| 3usize.pow(level as u32));
    powers.map(|power| if 3 * power < n { power } else { (n - power).div_ceil(2) }).collect()
}
