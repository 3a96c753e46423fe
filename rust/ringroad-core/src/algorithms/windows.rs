//! Growing windows: plans for an allreduce of whole vectors in ceil(log3 n) steps, for any number of ranks on a ring.
//!
//! Juerss, Addanki, Schmid: Trivance, arXiv 2602.17254, exchange whole vectors with a partner on each side; that counts
//! every contribution once only if n is a power of three. Here a rank keeps what it receives as separate pieces, each a
//! sum over some neighbours in a row, and sends the sum of some adjacent pieces. All ranks do the same, so a plan tells
//! offsets from a rank. What arrives lies next to what is there already; in the end this window is the whole ring.
//!
//! ```text
//! n = 7   at first       .  .  .  0  .  .  .      a number is a piece, in order of arrival
//!         after step 0   .  .  2  0  1  .  .      from +1 and from -1: piece 0
//!         after step 1   4  4  2  0  1  3  3      from +2: pieces 0 and 1, from -2: pieces 2 and 0
//! ```
//!
//! No formula for the best plan is known, so it is searched for. For some n, as 25 and 26, both messages of a step have
//! to come from the same side, as they always do in Bruck, Ho: Efficient global combine operations in multi-port
//! message-passing systems, Parallel Processing Letters 3(4), 1993. Their plan is the last resort.
//!
//! Cost: ceil(log3 n) steps of at most two vectors; a link carries about (n-1)/2 vectors each way, up to 5/3 of that
//! where n is little less than a power of three.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use super::ceil_log;

/// One message of a step: every rank receives from the rank `distance` places up (modulo n) the sum of its pieces over
/// offsets `first..=last` relative to the sender. The receiver's offsets `distance + first` and on lie right below or
/// above its window, and what earlier messages of the step add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many places up the sender is; negative if it is down.
    pub distance: isize,
    /// The lowest offset.
    pub first: isize,
    /// The highest offset.
    pub last: isize,
}

/// A window told by pieces: every rank receives the sum of these from the rank `distance` places up (modulo n).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How many places up the sender is; negative if it is down.
    pub distance: isize,
    /// Pieces of the sender, in order of their offsets. Piece 0 is a rank's own vector; the others are numbered in the
    /// order in which the plan lists the messages that bring them.
    pub pieces: Vec<usize>,
}

/// For every step its one or two windows. The plan for a number of ranks is always the same, and up to 243 ranks none
/// loads the links less. A search takes milliseconds, for thousands of ranks tenths of a second: plans are kept.
pub fn plan(ranks: usize) -> Arc<Vec<Vec<Window>>> {
    static PLANS: Mutex<BTreeMap<usize, Arc<Vec<Vec<Window>>>>> = Mutex::new(BTreeMap::new());
    let plans = || PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = plans().get(&ranks).cloned();
    kept.unwrap_or_else(|| {
        let found = Arc::new(search(ranks));
        plans().entry(ranks).or_insert(found).clone()
    })
}

/// For every step its messages, in the order of the plan's windows.
pub fn messages(plan: &[Vec<Window>]) -> Vec<Vec<Message>> {
    let mut held = vec![(0, 0)];
    let mut steps = Vec::new();
    for step in plan {
        let message = |window: &Window| {
            let sent = |piece: &usize| window.first <= held[*piece].0 && held[*piece].1 <= window.last;
            let mut pieces: Vec<usize> = (0..held.len()).filter(sent).collect();
            pieces.sort_by_key(|piece| held[*piece]);
            Message { distance: window.distance, pieces }
        };
        steps.push(step.iter().map(message).collect());
        held.extend(step.iter().map(|w| (w.distance + w.first, w.distance + w.last)));
    }
    steps
}

/// How many vectors the busier direction of the links carries, summed over the steps; at least (n-1)/2. A message takes
/// the shorter way, and where both are n/2 long, half of it each.
#[cfg(test)]
pub fn link_load(ranks: usize, plan: &[Vec<Window>]) -> f64 {
    plan.iter().map(|step| half_load(ranks, step)).sum::<isize>() as f64 / 2.0
}

/// Twice the load of one step, which is an integer.
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

/// The plan of Bruck and Ho, which exists for every number: a rank's window begins with its own vector and grows up
/// to a third of n, and last to n. Where three windows would be too much, senders leave out their own vector.
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

/// How many states the search keeps in a step. Up to 243 ranks a fifth of that finds what keeping all of them does.
const BREADTH: usize = 1000;

/// The plan with the least load. A step that widens the window by m has a load of m/2 or more, and what is more is
/// waste. At first none is allowed, then more and more: the less is, the fewer states there are.
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

/// The least wasteful plan that wastes no more than `allowed`.
fn search_within(ranks: usize, allowed: isize) -> Option<Vec<Vec<Window>>> {
    let steps = ceil_log(3, ranks) as u32;
    let mut states = vec![State { pieces: vec![1], lowest: 0, wasted: 0, plan: Vec::new() }];
    for step in 1..=steps {
        // No later step can do more than triple the window.
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

/// The states that are worth going on with. The least wasteful of every width come first, then the second, and so on:
/// which widths will fit in the end is not known before.
fn select(states: &[State], mut extensions: Vec<(usize, Extension)>) -> Vec<State> {
    extensions.sort_by_key(|(_, e)| (e.width, e.wasted));
    for alike in extensions.chunk_by_mut(|(_, a), (_, b)| a.width == b.width) {
        alike.iter_mut().enumerate().for_each(|(place, (_, extension))| extension.place = place);
    }
    extensions.sort_by_key(|(_, e)| (e.place, e.wasted));
    let mut seen = BTreeSet::new();
    let extended = extensions.iter().map(|(parent, extension)| states[*parent].extended(extension));
    extended.filter(|state| seen.insert(state.pieces.clone())).take(BREADTH).collect()
}

/// What a rank holds after some steps.
struct State {
    /// The lengths of its pieces, in order of their offsets.
    pieces: Vec<isize>,
    /// The lowest offset.
    lowest: isize,
    /// Half-loads beyond those that the window needs.
    wasted: isize,
    /// How it got there.
    plan: Vec<Vec<Window>>,
}

/// One more step.
struct Extension {
    step: [Option<Window>; 2],
    width: isize,
    wasted: isize,
    /// How many extensions to the same width waste less.
    place: usize,
}

/// Adjacent pieces of some total length: the lowest and the highest offset at which there are such.
struct Run {
    len: isize,
    lowest: isize,
    highest: isize,
}

impl State {
    /// The steps that lead to one of `widths`: a message from above, and maybe another from either side. Two from below
    /// are left out; up to 243 ranks no plan would be better for them.
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
        // Of equal runs the one nearest to where it is wanted comes the shortest way.
        let window = |at, first, len| Some(Window { distance: at - first, first, last: first + len - 1 });
        let above = |at, run: &Run| window(at, run.highest, run.len);
        let below = |run: &Run| window(self.lowest - run.len, run.lowest, run.len);
        let runs = self.runs();
        for one in &runs {
            consider(one.len, [above(end, one), None]);
            let short = runs.partition_point(|other| now + one.len + other.len < *widths.start());
            let fitting = |other: &&Run| now + one.len + other.len <= *widths.end();
            for other in runs[short..].iter().take_while(fitting) {
                consider(one.len + other.len, [above(end, one), below(other)]);
                consider(one.len + other.len, [above(end, one), above(end + one.len, other)]);
            }
        }
    }

    fn runs(&self) -> Vec<Run> {
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
        places.into_iter().map(|(len, (lowest, highest))| Run { len, lowest, highest }).collect()
    }

    fn extended(&self, extension: &Extension) -> State {
        let step: Vec<Window> = extension.step.iter().flatten().copied().collect();
        let (mut pieces, mut lowest) = (self.pieces.clone(), self.lowest);
        for window in &step {
            let (first, len) = (window.distance + window.first, window.last - window.first + 1);
            pieces.insert(if first < lowest { 0 } else { pieces.len() }, len);
            lowest = lowest.min(first);
        }
        let plan = self.plan.iter().cloned().chain([step]).collect();
        State { pieces, lowest, wasted: extension.wasted, plan }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> impl Iterator<Item = usize> {
        (1..=260).chain([300, 400, 512, 700, 728, 729, 1000, 4096])
    }

    /// Counts how often each contribution, by its offset modulo n, is in each piece of a rank; all ranks hold the same.
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
            let step = |step: Vec<Message>| step.into_iter().map(|m| (m.distance, m.pieces)).collect();
            messages(&plan(ranks)).into_iter().map(step).collect()
        };
        let first = vec![(1, vec![0]), (-1, vec![0])];
        assert_eq!(told(7), [first.clone(), vec![(2, vec![0, 1]), (-2, vec![2, 0])]]);
        let both_from_above = vec![(3, vec![2, 0, 1]), (6, vec![2, 0, 1])];
        assert_eq!(told(25), [first, both_from_above, vec![(7, vec![1, 3, 4]), (-9, vec![2, 0, 1, 3, 4])]]);
    }
}
