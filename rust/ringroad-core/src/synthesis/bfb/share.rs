//! Jobs that may each use some of a few links: how fast all can be done, and which link does what.
//!
//! Jobs that may use the same links form one class. All jobs can be done within a time `T` if and only if, for every
//! set of links, the jobs that may use no other links fit into what these carry in that time (Hall's condition). So the
//! least time is the largest ratio of the two over all sets.

use crate::synthesis::Ratio;

/// A set of links, one bit each.
pub type Mask = u128;

/// The largest number of links.
pub const MOST_LINKS: usize = Mask::BITS as usize;

/// Up to this number of links, `least_time` examines all sets; beyond, only sets that prevent a flow.
const FEW_LINKS: usize = 8;

/// Jobs that may use the same links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobClass {
    /// The links, at least one.
    pub links: Mask,
    /// The amount of work.
    pub amount: u64,
}

fn bits(mask: Mask) -> impl Iterator<Item = usize> {
    let rests = std::iter::successors(Some(mask), |rest| Some(rest & rest.wrapping_sub(1)));
    rests.take_while(|rest| *rest != 0).map(|rest| rest.trailing_zeros() as usize)
}

fn capacity(links: Mask, capacities: &[u64]) -> u64 {
    bits(links).map(|link| capacities[link]).sum()
}

/// The least time in which the links can do all classes.
pub fn least_time(classes: &[JobClass], capacities: &[u64]) -> Ratio {
    match classes {
        [] => Ratio::ZERO,
        [only] => Ratio::new(only.amount, capacity(only.links, capacities)),
        _ if capacities.len() <= FEW_LINKS => by_sets(classes, capacities),
        _ => by_flows(classes, capacities),
    }
}

/// Computes the least time from all sets of links.
fn by_sets(classes: &[JobClass], capacities: &[u64]) -> Ratio {
    let sets = 1usize << capacities.len();
    let mut within = vec![0u64; sets];
    let mut carried = vec![0u64; sets];
    classes.iter().for_each(|class| within[class.links as usize] += class.amount);
    for (link, capacity) in capacities.iter().enumerate() {
        for set in (0..sets).filter(|set| set >> link & 1 == 1) {
            within[set] += within[set ^ 1 << link];
            carried[set] += capacity;
        }
    }
    let longer = |a: &usize, b: &usize| (within[*a] * carried[*b]).cmp(&(within[*b] * carried[*a]));
    (1..sets).max_by(longer).map_or(Ratio::ZERO, |set| Ratio::new(within[set], carried[set]))
}

/// Starts with the set of all links. While no flow fits into the time of the current set, goes on to a set that
/// prevents it.
fn by_flows(classes: &[JobClass], capacities: &[u64]) -> Ratio {
    let ratio = |set: Mask| {
        let within: u64 = classes.iter().filter(|c| c.links & !set == 0).map(|c| c.amount).sum();
        Ratio::new(within, capacity(set, capacities))
    };
    let mut time = ratio(classes.iter().fold(0, |all, class| all | class.links));
    loop {
        let (numerator, denominator) = (time.numerator() as u64, time.denominator() as u64);
        let scaled = |class: &JobClass| JobClass { amount: class.amount * denominator, ..*class };
        let classes: Vec<JobClass> = classes.iter().map(scaled).collect();
        let capacities: Vec<u64> = capacities.iter().map(|c| c * numerator).collect();
        match assign(&classes, &capacities) {
            Ok(_) => return time,
            Err(set) => time = ratio(set),
        }
    }
}

/// The work that each class gives to each link, as `flow[class][link]`, if the links can do all of it. Otherwise the
/// error is a set of links that cannot do the work that may use no other links. Classes are assigned in turn; a later
/// one moves the work of earlier ones only where it must.
pub fn assign(classes: &[JobClass], capacities: &[u64]) -> Result<Vec<Vec<u64>>, Mask> {
    let mut left = capacities.to_vec();
    let mut flow = vec![vec![0; capacities.len()]; classes.len()];
    for (number, class) in classes.iter().enumerate() {
        let mut rest = class.amount;
        for link in bits(class.links) {
            let taken = rest.min(left[link]);
            flow[number][link] += taken;
            left[link] -= taken;
            rest -= taken;
        }
        while rest > 0 {
            rest -= augment(number, rest, classes, &mut left, &mut flow)?;
        }
    }
    Ok(flow)
}

/// Makes room for up to `wanted` of a class by moving the work of other classes from link to link until one has room
/// left. Returns how much was placed. The error is the set of all links that the search reached.
fn augment(
    class: usize,
    wanted: u64,
    classes: &[JobClass],
    left: &mut [u64],
    flow: &mut [Vec<u64>],
) -> Result<u64, Mask> {
    // For each link, the class by which it was reached, and the link from which that class would move.
    let mut reached: Vec<Option<(usize, Option<usize>)>> = vec![None; left.len()];
    let mut queue: Vec<usize> = Vec::new();
    let mut seen: Mask = 0;
    for link in bits(classes[class].links) {
        reached[link] = Some((class, None));
        seen |= 1 << link;
        queue.push(link);
    }
    let mut next = 0;
    while let Some(&link) = queue.get(next) {
        next += 1;
        if left[link] > 0 {
            return Ok(shift(link, wanted, &reached, left, flow));
        }
        for other in (0..classes.len()).filter(|other| flow[*other][link] > 0) {
            for further in bits(classes[other].links & !seen) {
                reached[further] = Some((other, Some(link)));
                queue.push(further);
            }
            seen |= classes[other].links;
        }
    }
    Err(seen)
}

/// Moves as much work as possible along the path by which `end` was reached, and returns the amount.
fn shift(
    end: usize,
    wanted: u64,
    reached: &[Option<(usize, Option<usize>)>],
    left: &mut [u64],
    flow: &mut [Vec<u64>],
) -> u64 {
    let way = || {
        let mut at = Some(end);
        std::iter::from_fn(move || {
            let link = at?;
            let (class, from) = reached[link]?;
            at = from;
            Some((link, class, from))
        })
    };
    let moved = way().filter_map(|(_, class, from)| from.map(|from| flow[class][from]));
    let amount = moved.chain([wanted, left[end]]).min().unwrap_or(0);
    for (link, class, from) in way() {
        flow[class][link] += amount;
        from.into_iter().for_each(|from| flow[class][from] -= amount);
    }
    left[end] -= amount;
    amount
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random number below `below`, the same on every machine.
    fn chance(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) % below
    }

    #[test]
    fn flows_tell_what_all_sets_tell() {
        let mut state = 7;
        for _ in 0..2000 {
            let links = 1 + chance(&mut state, 7) as usize;
            let capacities: Vec<u64> = (0..links).map(|_| 1 + chance(&mut state, 4)).collect();
            let class = |state: &mut u64| JobClass {
                links: Mask::from(1 + chance(state, (1 << links) - 1)),
                amount: 1 + chance(state, 9),
            };
            let classes: Vec<JobClass> = (0..1 + chance(&mut state, 8)).map(|_| class(&mut state)).collect();
            let time = by_sets(&classes, &capacities);
            assert_eq!(by_flows(&classes, &capacities), time, "{classes:?} {capacities:?}");
            let times = time.denominator() as u64;
            let scaled: Vec<JobClass> =
                classes.iter().map(|c| JobClass { amount: c.amount * times, ..*c }).collect();
            let room: Vec<u64> = capacities.iter().map(|c| c * time.numerator() as u64).collect();
            let flow = assign(&scaled, &room).unwrap();
            for (class, row) in scaled.iter().zip(&flow) {
                assert_eq!(row.iter().sum::<u64>(), class.amount);
                assert!((0..links).all(|link| row[link] == 0 || class.links >> link & 1 == 1));
            }
            assert!((0..links).all(|link| flow.iter().map(|row| row[link]).sum::<u64>() <= room[link]));
        }
    }
}
