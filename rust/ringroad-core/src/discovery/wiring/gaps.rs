//! Which node stands where nobody has answered: the one that must, by what other traces have seen, or a node that is silent.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::{Stop, Walk};

/// The longest run of missing answers that is looked for among known links.
const LONGEST_GAP: usize = 6;
/// After how many steps the search for a way through a gap ends.
const MOST_STEPS: usize = 2000;
/// How often gaps are looked at again after others were filled.
const PASSES: usize = 3;

/// The links that consecutive answers show, in both directions.
type StopLinks = BTreeMap<Stop, BTreeSet<Stop>>;

/// How many paths lead through a gap.
enum GapPaths {
    None,
    One(Vec<Stop>),
    Several,
}

/// Fills the gaps of all walks, and returns how many walks have one that several nodes could fill; these walks end
/// before it.
pub(super) fn fill(walks: &mut [Walk]) -> usize {
    for _ in 0..PASSES {
        let whole: BTreeMap<(usize, usize), Vec<Option<Stop>>> = walks
            .iter()
            .filter(|walk| walk.reached && !walk.stops.contains(&None))
            .map(|walk| ((walk.from, walk.to), walk.stops.clone()))
            .collect();
        let links = links(walks);
        let mut changed = false;
        for walk in walks.iter_mut() {
            while fill_first(walk, &whole, &links) {
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let links = links(walks);
    let mut unclear = 0;
    // All that are silent so many hops behind one node count as one.
    let mut silent = BTreeMap::new();
    for walk in walks.iter_mut() {
        let mut from = 0;
        while let Some((start, end)) = gap(&walk.stops, from) {
            from = end;
            if matches!(through(&walk.stops, start, end, &links), GapPaths::Several) {
                walk.stops.truncate(start + 1);
                walk.reached = false;
                unclear += 1;
                break;
            }
            for at in start + 1..end {
                let next = silent.len();
                let number = *silent.entry((walk.stops[start], at - start)).or_insert(next);
                walk.stops[at] = Some(Stop::Silent(number));
            }
        }
    }
    unclear
}

fn links(walks: &[Walk]) -> StopLinks {
    let mut links = StopLinks::new();
    for pair in walks.iter().flat_map(|walk| walk.stops.windows(2)) {
        if let [Some(one), Some(other)] = pair {
            links.entry(*one).or_default().insert(*other);
            links.entry(*other).or_default().insert(*one);
        }
    }
    links
}

/// The first run of missing answers from `from` on, as the places of the answers around it.
fn gap(stops: &[Option<Stop>], from: usize) -> Option<(usize, usize)> {
    let missing = (from..stops.len()).find(|at| stops[*at].is_none())?;
    let end = (missing..stops.len()).find(|at| stops[*at].is_some())?;
    Some((missing.checked_sub(1)?, end))
}

/// Fills the first gap for which there is one way only.
fn fill_first(
    walk: &mut Walk,
    whole: &BTreeMap<(usize, usize), Vec<Option<Stop>>>,
    links: &StopLinks,
) -> bool {
    let mut from = 0;
    while let Some((start, end)) = gap(&walk.stops, from) {
        from = end;
        // Routes go by the destination: what a host before the gap sees on its own way there is the rest of this way.
        if let (Some(Stop::Host(host)), true) = (walk.stops[start], walk.reached) {
            let rest = whole.get(&(host, walk.to)).filter(|rest| fits(rest, &walk.stops[start..]));
            if let Some(rest) = rest {
                walk.stops.splice(start.., rest.iter().copied());
                return true;
            }
        }
        if let GapPaths::One(between) = through(&walk.stops, start, end, links) {
            walk.stops.splice(start + 1..end, between.into_iter().map(Some));
            return true;
        }
    }
    false
}

/// Whether a way agrees with one with gaps.
fn fits(whole: &[Option<Stop>], part: &[Option<Stop>]) -> bool {
    whole.len() == part.len() && whole.iter().zip(part).all(|(one, other)| other.is_none() || one == other)
}

/// The paths of the right length over known links from the stop at `start` to that at `end`.
fn through(stops: &[Option<Stop>], start: usize, end: usize, links: &StopLinks) -> GapPaths {
    let (Some(first), Some(last)) = (stops[start], stops[end]) else { return GapPaths::None };
    if end - start - 1 > LONGEST_GAP {
        return GapPaths::None;
    }
    let taken: Vec<Stop> = stops.iter().flatten().copied().collect();
    let mut found = Vec::new();
    let mut steps = 0;
    let mut open = vec![vec![first]];
    while let Some(way) = open.pop() {
        steps += 1;
        if steps > MOST_STEPS || found.len() > 1 {
            return GapPaths::Several;
        }
        let next = way.last().and_then(|stop| links.get(stop)).into_iter().flatten();
        if way.len() == end - start {
            if next.into_iter().any(|stop| *stop == last) {
                found.push(way[1..].to_vec());
            }
            continue;
        }
        let fresh = next.filter(|stop| !taken.contains(stop) && !way.contains(stop));
        open.extend(fresh.map(|stop| [&way[..], &[*stop]].concat()));
    }
    match found.len() {
        0 => GapPaths::None,
        1 => found.pop().map_or(GapPaths::None, GapPaths::One),
        _ => GapPaths::Several,
    }
}
