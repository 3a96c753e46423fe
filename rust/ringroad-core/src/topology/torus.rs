//! Tori, and rings as tori of one dimension: every rank has two links per dimension longer than 1, up and down.
//!
//! ```text
//! torus:2x3    0 ⇄ 1 ⇄ 2 ⇄ (0)     rank = 3·y + x at (y, x); port 0 and 1: y + 1 and y − 1,
//!              ⇅   ⇅   ⇅                                      port 2 and 3: x + 1 and x − 1
//!              3 ⇄ 4 ⇄ 5 ⇄ (3)
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::Link;
use crate::units::{LinkId, Port, Rank};

pub(super) fn links(sizes: &[usize], ranks: usize) -> Vec<Link> {
    let mut links = Vec::with_capacity(ranks * ports(sizes));
    for rank in 0..ranks {
        let mut stride = ranks;
        for &size in sizes {
            stride /= size;
            if size > 1 {
                let coordinate = rank / stride % size;
                let at = |c: usize| rank - coordinate * stride + c % size * stride;
                links.push(Link::between(rank, at(coordinate + 1)));
                links.push(Link::between(rank, at(coordinate + size - 1)));
            }
        }
    }
    links
}

/// The links that leave a rank.
fn ports(sizes: &[usize]) -> usize {
    2 * sizes.iter().filter(|size| **size > 1).count()
}

pub(super) fn port_link(sizes: &[usize], rank: Rank, port: Port) -> Option<LinkId> {
    let dimension = port / 2;
    let wired = *sizes.get(dimension)? > 1;
    wired.then(|| rank * ports(sizes) + ports(&sizes[..dimension]) + port % 2)
}

pub(crate) fn coordinates(sizes: &[usize], rank: Rank) -> Vec<usize> {
    let mut rest = rank;
    let mut coordinates = vec![0; sizes.len()];
    for (coordinate, size) in coordinates.iter_mut().zip(sizes).rev() {
        *coordinate = rest % size;
        rest /= size;
    }
    coordinates
}

pub(super) fn rank_at(sizes: &[usize], coordinates: &[usize]) -> Rank {
    sizes.iter().zip(coordinates).fold(0, |rank, (size, coordinate)| rank * size + coordinate % size)
}
