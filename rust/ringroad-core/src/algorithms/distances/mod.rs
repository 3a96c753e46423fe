//! The distances of nested sets of offsets that load the links of a ring or a torus least, for any number of steps.
//!
//! Let S_K = { 0 } and S_k = S_{k+1} with what lies d_k to either side of it. If S_0 is the whole ring, this is a
//! reduce-scatter: a rank at an offset from a block's own rank that is in S_k but not in S_{k+1} gives the block away in
//! step k, by d_k to an offset in S_{k+1}. Few large steps, or many small ones that load the links less: Trivance
//! (Juerss, Addanki, Schmid, arXiv 2602.17254) has the fewest steps, and n/2 distances of 1 are the ring of Zhao et al.
//! (arXiv 2202.03356), the least load there is. The distances between them are found by search.
//!
//! ```text
//! n = 16    Trivance: 1, 3, 4                              here: 1, 2, 5
//!   S_2     { 0, 4, 12 }                            2 * 4  { 0, 5, 11 }                             2 * 5
//!   S_1     { 0, 1, 3, 4, 7, 9, 12, 13, 15 }        6 * 3  { 0, 2, 3, 5, 7, 9, 11, 13, 14 }         6 * 2
//!   S_0     all                                     7 * 1  all                                      7 * 1
//!                                             33/16 = 2.06                                   29/16 = 1.81
//! ```
//!
//! On a torus of D dimensions, D collectives run at once on their own m/D bytes; collective c takes its first step in
//! dimension c, the next in dimension c + 1, and so on, and passes over dimensions whose levels are used up. One half of
//! each runs with all signs flipped, so that both directions of a link carry the same.
//!
//! Cost: 2 (K_1 + .. + K_D) steps, 2(N-1)/N of the vector, bytes of the busiest link m/D times the link load: for a ring
//! the sum of d_k (|S_k| - |S_{k+1}|) / n, for D dimensions alike that of d_k (|S_k|^D - |S_{k+1}|^D) / n^D.

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

/// How many plans are kept.
const KEPT: usize = 1 << 10;

/// Sizes and levels, and for every dimension its distances.
type Plans = BTreeMap<(Vec<usize>, Vec<usize>), Vec<Vec<usize>>>;

static PLANS: Mutex<Plans> = Mutex::new(BTreeMap::new());

/// For every dimension its distances: step k of the dimension in the reduce-scatter goes by the k-th.
///
/// Levels are clamped: fewer than [`fewest`] do not reach everybody, and beyond half the size there is nothing left to
/// do. Dimensions of equal size and levels get equal distances. The answer depends on the arguments alone, on all ranks
/// and machines. It loads the links no more than Trivance's distances if those have as many levels.
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

/// The numbers of levels that are worth a try: `(extra, levels)`, where every dimension has `extra` levels more than the
/// fewest, but at most half its size. The extra levels are 0 to 6, then 12, 24, ..., and last what all ones need.
///
/// More levels do not always load the links less, least of all if the sizes differ much: compare.
pub fn members(sizes: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let most = sizes.iter().map(|&size| size / 2 - fewest(size)).max().unwrap_or(0);
    let doubled = std::iter::successors(Some(12), |extra| Some(2 * extra));
    let extras = (0..=6).chain(doubled).take_while(|extra| *extra < most).chain([most]);
    let levels = |extra: usize| sizes.iter().map(|&size| (fewest(size) + extra).min(size / 2)).collect();
    extras.map(|extra| (extra, levels(extra))).collect()
}

/// The fewest levels that reach everybody on a ring.
pub fn fewest(size: usize) -> usize {
    ceil_log(3, size)
}

/// Trivance's own distances: 1, 3, 9, ... and last half of what is then left to cover.
pub fn trivance(n: usize) -> Vec<usize> {
    let powers = (0..fewest(n)).map(|level| 3usize.pow(level as u32));
    powers.map(|power| if 3 * power < n { power } else { (n - power).div_ceil(2) }).collect()
}
