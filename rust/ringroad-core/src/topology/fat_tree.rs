//! Fat trees: levels of switches, in which a switch has as much bandwidth up as down unless it is oversubscribed
//! (Leiserson, "Fat-trees: universal networks for hardware-efficient supercomputing", IEEE Transactions on Computers
//! C-34(10), 1985).
//!
//! ```text
//! fattree:2x3:1.5    ┌────⇅──8──⇅────┐        two switches of three ranks; rank r is number r % 3 at switch r / 3
//!                    6               7        up to the top: 3 / 1.5 = twice the bandwidth of a rank's link
//!                 ┌─⇅┼──┐         ┌─⇅┼──┐
//!                 0  1  2         3  4  5
//! ```
//!
//! Sizes are written from the top down: pods, switches of a pod, ranks of a switch. The oversubscription ratio is the
//! bandwidth from below a switch divided by its bandwidth up. There is one ratio for all levels, or one for each, from
//! the top down. A node here, with one link of greater capacity up, stands for several real switches and cables over
//! which bytes spread evenly.
//!
//! Links come in pairs, up and down: first those of the ranks, then those of the lowest switches, and so on. Switches
//! are numbered in the same order.

use super::Link;

/// The valid oversubscription ratios.
pub(super) const RATIOS: std::ops::RangeInclusive<f64> = 1.0..=1e6;

/// How many nodes there are, ranks and switches.
pub(super) fn nodes(sizes: &[usize]) -> usize {
    levels(sizes).iter().sum::<usize>()
}

/// How many nodes each level has: the ranks first, the top switch last.
fn levels(sizes: &[usize]) -> Vec<usize> {
    (0..=sizes.len()).rev().map(|level| sizes[..level].iter().product()).collect()
}

/// The links of a fat tree. `ratios` has one for every level of switches but the highest, from the top down.
pub(super) fn links(sizes: &[usize], ratios: &[f64]) -> Vec<Link> {
    let levels = levels(sizes);
    let mut links = Vec::with_capacity(2 * (nodes(sizes) - 1));
    let (mut first, mut capacity) = (0, 1.0);
    for (height, count) in levels[..sizes.len()].iter().enumerate() {
        let below = sizes.len() - 1 - height;
        let next = first + count;
        for child in 0..*count {
            let parent = next + child / sizes[below];
            let pair = [Link::between(first + child, parent), Link::between(parent, first + child)];
            links.extend(pair.map(|link| Link { capacity, ..link }));
        }
        if below > 0 {
            capacity *= sizes[below] as f64 / ratios[below - 1];
        }
        first = next;
    }
    links
}
