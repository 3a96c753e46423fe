//! Lower bounds on steps.

/// The fewest steps in which all of `ranks` can be reached over `degree` links each. In `k` steps a rank reaches at
/// most `1 + d + ... + d^k` ranks (the Moore bound). `usize::MAX` if no number of steps is enough.
pub fn moore_steps(ranks: usize, degree: usize) -> usize {
    steps(ranks, degree, degree)
}

/// The same if all links have a reverse link, so that one link leads back: `1 + d + d (d - 1) + d (d - 1)^2 + ...`.
pub fn undirected_moore_steps(ranks: usize, degree: usize) -> usize {
    steps(ranks, degree, degree.saturating_sub(1))
}

fn steps(ranks: usize, first: usize, factor: usize) -> usize {
    let (mut reached, mut level, mut steps) = (1usize, first, 0);
    while reached < ranks {
        if level == 0 {
            return usize::MAX;
        }
        reached = reached.saturating_add(level);
        level = level.saturating_mul(factor);
        steps += 1;
    }
    steps
}
