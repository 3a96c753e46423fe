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

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, TopologyResult, Traits};
use super::{text, Link, Topology, TopologyError};

pub(super) static FAT_TREE: Family = Family {
    name: "fattree",
    example: "fattree:4x8",
    summary: "4 switches of 8 ranks; append :2 for half the bandwidth up, :1x2 for each level",
    source: "Leiserson: Fat-trees: universal networks for hardware-efficient supercomputing, IEEE Transactions on Computers C-34(10), 1985",
    form: SpecForm::Parts(read),
};

const LAYOUT: FamilyLayout =
    FamilyLayout { family: &FAT_TREE, ports: PortRule::Uplink, ends: Ends::First, traits: Traits::NONE };

fn read(parts: &[&str]) -> Option<TopologyResult> {
    let (sizes, ratios) = match parts {
        [sizes] => (sizes, Vec::new()),
        [sizes, ratios] => (sizes, ratios.split('x').map(text::ratio).collect::<Option<Vec<f64>>>()?),
        _ => return None,
    };
    Some(Topology::fat_tree(&text::sizes(sizes)?, &ratios))
}

fn spec(sizes: &[usize], ratios: &[f64]) -> String {
    let tree = FAT_TREE.spec(text::join(sizes));
    match ratios.split_first() {
        None => tree,
        Some((first, rest)) if rest.iter().all(|ratio| ratio == first) => match *first == 1.0 {
            true => tree,
            false => format!("{tree}:{first}"),
        },
        Some(_) => format!("{tree}:{}", text::join(ratios)),
    }
}

impl Topology {
    /// Levels of switches with so many below each, from the top down; the last size is that of ranks. `ratios` say how
    /// many times as much bandwidth leads into a switch from below as leads up from it, for every level but the highest,
    /// from the top down; one ratio is for all, and none are 1.
    pub fn fat_tree(sizes: &[usize], ratios: &[f64]) -> Result<Topology, TopologyError> {
        let written = || spec(sizes, ratios);
        let malformed = || TopologyError::Malformed { spec: written(), example: FAT_TREE.example };
        let levels = sizes.len().checked_sub(1).ok_or_else(malformed)?;
        let ranks = check_size(sizes, 2 * sizes.len(), written)?;
        let each = match *ratios {
            [] => vec![1.0; levels],
            [one] => vec![one; levels],
            ref each => each.to_vec(),
        };
        if each.len() != levels {
            return Err(FAT_TREE.unfit(
                written(),
                "there is one ratio for all levels of switches below the highest, or one for each",
            ));
        }
        if !each.iter().all(|ratio| RATIOS.contains(ratio)) {
            return Err(FAT_TREE.unfit(
                written(),
                "bandwidth up is at most that from below, and at least a millionth of it",
            ));
        }
        let links = links(sizes, &each);
        Ok(Topology::member(LAYOUT, spec(sizes, &each), ranks, nodes(sizes), links))
    }
}

/// The ratios that make sense.
const RATIOS: std::ops::RangeInclusive<f64> = 1.0..=1e6;

/// A switch more than there are uplinks of switches, the ranks' own included.
fn nodes(sizes: &[usize]) -> usize {
    levels(sizes).iter().sum::<usize>()
}

/// How many nodes each level has: the ranks first, the top switch last.
fn levels(sizes: &[usize]) -> Vec<usize> {
    (0..=sizes.len()).rev().map(|level| sizes[..level].iter().product()).collect()
}

/// The links of a fat tree. `ratios` has one for every level of switches but the highest, from the top down.
fn links(sizes: &[usize], ratios: &[f64]) -> Vec<Link> {
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
