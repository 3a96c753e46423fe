//! Growing windows: plans for an allreduce of whole vectors in ceil(log3 n) steps, for any number of ranks on a ring.
//!
//! Juerss, Addanki, Schmid: Trivance, arXiv 2602.17254, exchange whole vectors with a partner on each side. That counts
//! every contribution once only if n is a power of three. Here a rank keeps what it receives as separate pieces. Each
//! piece is the sum over some consecutive neighbours. A message is the sum of some adjacent pieces. All ranks act
//! alike, so a plan uses offsets relative to a rank. The window is the range of offsets that the pieces cover. Each
//! arriving piece extends it at one end, until it covers the whole ring.
//!
//! ```text
//! n = 7   at first       .  .  .  0  .  .  .      a number is a piece, in order of arrival
//!         after step 0   .  .  2  0  1  .  .      from +1 and from -1: piece 0
//!         after step 1   4  4  2  0  1  3  3      from +2: pieces 0 and 1, from -2: pieces 2 and 0
//! ```
//!
//! No formula for the best plan is known, so it is searched for. For some n, such as 25 and 26, both messages of a step
//! have to come from the same side, as they always do in Bruck, Ho: Efficient global combine operations in multi-port
//! message-passing systems, Parallel Processing Letters 3(4), 1993. Their plan is the fallback.
//!
//! Cost: ceil(log3 n) steps of at most two vectors; a link carries about (n-1)/2 vectors in each direction, and up to
//! 5/3 of that if n is a little less than a power of three.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use super::ceil_log;

/// One message of a step: every rank receives from the rank `distance` places up (modulo n) the sum of its pieces over
/// the offsets `first..=last` relative to the sender. For the receiver these offsets begin at `distance + first`; they
/// lie directly below or above its window, which includes what earlier messages of the step add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of places up to the sender; negative if the sender is down.
    pub distance: isize,
    /// The lowest offset.
    pub first: isize,
    /// The highest offset.
    pub last: isize,
}

/// A message in terms of pieces: every rank receives the sum of these from the rank `distance` places up (modulo n).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowMessage {
    /// The number of places up to the sender; negative if the sender is down.
    pub distance: isize,
    /// The sender's pieces, in the order of their offsets. Piece 0 is a rank's own vector; the others are numbered in
    /// the order in which the plan lists the messages that bring them.
    pub pieces: Vec<usize>,
}

/// The plan for a number of ranks: one or two windows for every step. It is always the same, and up to 243 ranks no
/// plan loads the links less. A search takes milliseconds, with thousands of ranks tenths of a second, so plans are
/// cached.
pub fn plan(ranks: usize) -> Arc<Vec<Vec<Window>>> {
    static PLANS: Mutex<BTreeMap<usize, Arc<Vec<Vec<Window>>>>> = Mutex::new(BTreeMap::new());
    let plans = || PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = plans().get(&ranks).cloned();
    kept.unwrap_or_else(|| {
        let found = Arc::new(search(ranks));
        plans().entry(ranks).or_insert(found).clone()
    })
}

/// The messages of every step, in the order of the plan's windows.
pub fn messages(plan: &[Vec<Window>]) -> Vec<Vec<WindowMessage>> {
    let mut held = vec![(0, 0)];
    let mut steps = Vec::new();
    for step in plan {
        let message = |window: &Window| {
            let sent = |piece: &usize| window.first <= held[*piece].0 && held[*piece].1 <= window.last;
            let mut pieces: Vec<usize> = (0..held.len()).filter(sent).collect();
            pieces.sort_by_key(|piece| held[*piece]);
            WindowMessage { distance: window.distance, pieces }
        };
        steps.push(step.iter().map(message).collect());
        held.extend(step.iter().map(|w| (w.distance + w.first, w.distance + w.last)));
    }
    steps
}

/// The number of vectors that the busier direction of the links carries, summed over the steps; at least (n-1)/2. A
/// message takes the shorter way around. If both are n/2 long, half of it takes each.
#[cfg(test)]
pub fn link_load(ranks: usize, plan: &[Vec<Window>]) -> f64 {
    plan.iter().map(|step| half_load(ranks, step)).sum::<isize>() as f64 / 2.0
}

/// Twice the load of one step, which is a whole number.
fn half_load<'a>(ranks: usize, step: impl IntoIterator<Item = &'a Window>) -> isize {
    let (mut downwards, mut upwards) = (0, 0);
    for window in step {
        let down = window.distance.rem_euclid(ranks as isize);
        let up = ranks as isize - down;
        downwards += if down < up { 2 * down } else { 0 };
        upwards += if up < down { 2 * up } else { 0 };
        if up == down {
            downwards += down;
            upwards += up;
        }
    }
    downwards.max(upwards)
}

/// The plan of Bruck and Ho, which exists for every number of ranks. A rank's window begins with its own vector, grows
/// to a third of n (rounded up), and in the last step to n. Where three windows would be too much, senders leave out
/// their own vector.
fn bruck_ho(ranks: usize) -> Vec<Vec<Window>> {
    let steps = ceil_log(3, ranks) as u32;
    let width = |step: u32| ranks.div_ceil(3usize.pow(steps - step)) as isize;
    let step = |step: u32| {
        let (now, missing) = (width(step), width(step + 1) - width(step));
        let window = |at, len| Window { distance: at - (now - len), first: now - len, last: now - 1 };
        let more = missing - missing / 2;
        let windows = [window(now, more), window(now + more, missing - more)];
        windows.into_iter().filter(|w| w.first <= w.last).collect()
    };
    (0..steps).map(step).collect()
}

/// The number of states that the search keeps in a step. Up to 243 ranks, a fifth of it finds the same plans as keeping
/// all.
const BREADTH: usize = 1000;

/// The plan with the least load. A step that widens the window by m has a load of at least m/2; the excess is waste.
/// The search first allows no waste, then more and more, because less waste leaves fewer states.
fn search(ranks: usize) -> Vec<Vec<Window>> {
    let fallback = bruck_ho(ranks);
    let most = fallback.iter().map(|step| half_load(ranks, step)).sum::<isize>() - (ranks as isize - 1);
    let mut allowed = 0;
    loop {
        if let Some(plan) = search_within(ranks, allowed) {
            return plan;
        }
        if allowed >= most {
            return fallback;
        }
        allowed = most.min(2 * allowed + 1 + ranks as isize / 64);
    }
}

/// The least wasteful plan with a waste of at most `allowed`; `None` if the search finds none.
fn search_within(ranks: usize, allowed: isize) -> Option<Vec<Vec<Window>>> {
    let steps = ceil_log(3, ranks) as u32;
    let mut states = vec![RankState { pieces: vec![1], lowest: 0, wasted: 0, plan: Vec::new() }];
    for step in 1..=steps {
        // Each later step can at most triple the window.
        let least = ranks.div_ceil(3usize.pow(steps - step)) as isize;
        let widths = least..=if step < steps { isize::MAX } else { least };
        let mut extensions = Vec::new();
        for (parent, state) in states.iter().enumerate() {
            state.extend(ranks, &widths, allowed, |extension| extensions.push((parent, extension)));
        }
        states = select(&states, extensions);
    }
    states.into_iter().next().map(|state| state.plan)
}

/// The states that the search keeps. The least wasteful state of every width comes first, then the second of every
/// width, and so on, since nobody knows in advance which widths will fit in the end.
fn select(states: &[RankState], mut extensions: Vec<(usize, Extension)>) -> Vec<RankState> {
    extensions.sort_by_key(|(_, e)| (e.width, e.wasted));
    for alike in extensions.chunk_by_mut(|(_, a), (_, b)| a.width == b.width) {
        alike.iter_mut().enumerate().for_each(|(place, (_, extension))| extension.place = place);
    }
    extensions.sort_by_key(|(_, e)| (e.place, e.wasted));
    let mut seen = BTreeSet::new();
    let extended = extensions.iter().map(|(parent, extension)| states[*parent].extended(extension));
    extended.filter(|state| seen.insert(state.pieces.clone())).take(BREADTH).collect()
}

/// The state of a rank after some steps.
struct RankState {
    /// The lengths of its pieces, in the order of their offsets.
    pieces: Vec<isize>,
    /// The lowest offset.
    lowest: isize,
    /// The waste so far, in half-loads: the load beyond what the window needs.
    wasted: isize,
    /// The steps that led here.
    plan: Vec<Vec<Window>>,
}

/// One more step.
struct Extension {
    step: [Option<Window>; 2],
    width: isize,
    wasted: isize,
    /// The number of extensions to the same width with less waste.
    place: usize,
}

/// The runs of adjacent pieces with a given total length: the lowest and the highest offset at which one begins.
struct RunOffsets {
    len: isize,
    lowest: isize,
    highest: isize,
}

impl RankState {
    /// All steps that lead to one of `widths`: a message from above, and possibly another from either side. Two
    /// messages from below are left out; up to 243 ranks they would not make any plan better.
    fn extend(
        &self,
        ranks: usize,
        widths: &RangeInclusive<isize>,
        allowed: isize,
        mut found: impl FnMut(Extension),
    ) {
        let now: isize = self.pieces.iter().sum();
        let end = self.lowest + now;
        let mut consider = |grown: isize, step: [Option<Window>; 2]| {
            let wasted = self.wasted + half_load(ranks, step.iter().flatten()) - grown;
            if widths.contains(&(now + grown)) && wasted <= allowed {
                found(Extension { step, width: now + grown, wasted, place: 0 });
            }
        };
        // Of equal runs, the one nearest to its destination travels the shortest distance.
        let window = |at, first, len| Some(Window { distance: at - first, first, last: first + len - 1 });
        let above = |at, run: &RunOffsets| window(at, run.highest, run.len);
        let below = |run: &RunOffsets| window(self.lowest - run.len, run.lowest, run.len);
        let runs = self.runs();
        for one in &runs {
            consider(one.len, [above(end, one), None]);
            let short = runs.partition_point(|other| now + one.len + other.len < *widths.start());
            let fitting = |other: &&RunOffsets| now + one.len + other.len <= *widths.end();
            for other in runs[short..].iter().take_while(fitting) {
                consider(one.len + other.len, [above(end, one), below(other)]);
                consider(one.len + other.len, [above(end, one), above(end + one.len, other)]);
            }
        }
    }

    fn runs(&self) -> Vec<RunOffsets> {
        let mut places: BTreeMap<isize, (isize, isize)> = BTreeMap::new();
        let mut first = self.lowest;
        for (i, piece) in self.pieces.iter().enumerate() {
            let mut len = 0;
            for next in &self.pieces[i..] {
                len += next;
                places.entry(len).or_insert((first, first)).1 = first;
            }
            first += piece;
        }
        places.into_iter().map(|(len, (lowest, highest))| RunOffsets { len, lowest, highest }).collect()
    }

    fn extended(&self, extension: &Extension) -> RankState {
        let step: Vec<Window> = extension.step.iter().flatten().copied().collect();
        let (mut pieces, mut lowest) = (self.pieces.clone(), self.lowest);
        for window in &step {
            let (first, len) = (window.distance + window.first, window.last - window.first + 1);
            pieces.insert(if first < lowest { 0 } else { pieces.len() }, len);
            lowest = lowest.min(first);
        }
        let plan = self.plan.iter().cloned().chain([step]).collect();
        RankState { pieces, lowest, wasted: extension.wasted, plan }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> impl Iterator<Item = usize> {
        (1..=260).chain([300, 400, 512, 700, 728, 729, 1000, 4096])
    }

    /// Counts how often each contribution, by its offset modulo n, is in each piece of a rank. All ranks hold the same.
    fn check(ranks: usize, plan: &[Vec<Window>]) {
        let count = ranks as isize;
        let at = |offset: isize| offset.rem_euclid(count) as usize;
        let least = (0..).find(|&steps| 3usize.pow(steps) >= ranks).unwrap();
        assert_eq!(plan.len(), least as usize, "n = {ranks}: steps");
        let mut held = vec![vec![0; ranks]];
        held[0][0] = 1;
        let (mut lowest, mut highest) = (0, 0);
        for (windows, messages) in plan.iter().zip(messages(plan)) {
            assert!(matches!(windows.len(), 1..=2), "n = {ranks}: {windows:?}");
            assert_eq!(windows.len(), messages.len());
            let before = held.clone();
            for (window, message) in windows.iter().zip(&messages) {
                assert_eq!(message.distance, window.distance);
                assert_ne!(at(window.distance), 0, "n = {ranks}: {window:?}");
                let sent =
                    |offset| message.pieces.iter().map(|&piece| before[piece][at(offset)]).sum::<usize>();
                for offset in 0..count {
                    let inside = at(offset - window.first) as isize <= window.last - window.first;
                    assert_eq!(sent(offset), usize::from(inside), "n = {ranks}: {window:?}, {offset}");
                }
                held.push((0..count).map(|offset| sent(offset - window.distance)).collect());
                let (first, last) = (window.distance + window.first, window.distance + window.last);
                assert!(first == highest + 1 || last == lowest - 1, "n = {ranks}: {window:?} leaves a gap");
                (lowest, highest) = (lowest.min(first), highest.max(last));
            }
        }
        assert_eq!(highest - lowest + 1, count, "n = {ranks}: the window");
        for offset in 0..ranks {
            assert_eq!(held.iter().map(|piece| piece[offset]).sum::<usize>(), 1, "n = {ranks}: {offset}");
        }
    }

    #[test]
    fn plans_count_every_contribution_once() {
        sizes().for_each(|ranks| check(ranks, &plan(ranks)));
    }

    #[test]
    fn bruck_and_ho_fit_every_number() {
        sizes().for_each(|ranks| check(ranks, &bruck_ho(ranks)));
    }

    #[test]
    fn loads_are_those_of_an_exhaustive_search() {
        let ranks = [1, 2, 3, 4, 5, 6, 7, 8, 16, 25, 26, 65, 151, 179, 218, 241, 700];
        let twice = [0, 1, 2, 4, 4, 5, 6, 8, 16, 38, 38, 86, 160, 200, 338, 398, 1100];
        for (ranks, twice) in ranks.into_iter().zip(twice) {
            assert_eq!(2.0 * link_load(ranks, &plan(ranks)), f64::from(twice), "n = {ranks}");
        }
        for ranks in sizes() {
            let load = link_load(ranks, &plan(ranks));
            assert!(2.0 * load >= ranks as f64 - 1.0, "n = {ranks}: {load}");
            assert!(load <= link_load(ranks, &bruck_ho(ranks)), "n = {ranks}: {load}");
        }
    }

    #[test]
    fn powers_of_three_are_trivance() {
        for power in 0..8 {
            let step = |k| {
                let (distance, reach) = (3isize.pow(k), (3isize.pow(k) - 1) / 2);
                [distance, -distance].map(|distance| Window { distance, first: -reach, last: reach }).to_vec()
            };
            assert_eq!(*plan(3usize.pow(power)), (0..power).map(step).collect::<Vec<_>>());
        }
    }

    #[test]
    fn pieces_are_numbered_as_they_come() {
        let told = |ranks| -> Vec<Vec<(isize, Vec<usize>)>> {
            let step = |step: Vec<WindowMessage>| step.into_iter().map(|m| (m.distance, m.pieces)).collect();
            messages(&plan(ranks)).into_iter().map(step).collect()
        };
        let first = vec![(1, vec![0]), (-1, vec![0])];
        assert_eq!(told(7), [first.clone(), vec![(2, vec![0, 1]), (-2, vec![2, 0])]]);
        let both_from_above = vec![(3, vec![2, 0, 1]), (6, vec![2, 0, 1])];
        assert_eq!(told(25), [first, both_from_above, vec![(7, vec![1, 3, 4]), (-9, vec![2, 0, 1, 3, 4])]]);
    }
}
