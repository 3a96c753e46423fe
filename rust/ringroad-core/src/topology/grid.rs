//! Coordinates on a grid of ranks, which are numbered like the elements of a C array: the last dimension varies
//! fastest.

use super::Link;
use crate::units::{NodeId, Port, Rank};

pub(crate) fn coordinates(sizes: &[usize], rank: Rank) -> Vec<usize> {
    let mut rest = rank;
    let mut coordinates = vec![0; sizes.len()];
    for (coordinate, size) in coordinates.iter_mut().zip(sizes).rev() {
        *coordinate = rest % size;
        rest /= size;
    }
    coordinates
}

/// The port of the shorter way around the dimension in which two ranks differ; the upper one if both ways are equally
/// long. For ranks that differ in several dimensions, the first of them counts.
pub(crate) fn port_towards(sizes: &[usize], source: Rank, destination: Rank) -> Port {
    let (mut dimension, mut up, mut stride) = (0, 0, 1);
    for (d, size) in sizes.iter().enumerate().rev() {
        let (from, to) = (source / stride % size, destination / stride % size);
        if from != to {
            (dimension, up) = (d, (to + size - from) % size);
        }
        stride *= size;
    }
    let size = sizes[dimension];
    2 * dimension + usize::from(2 * up > size)
}

pub(super) fn rank_at(sizes: &[usize], coordinates: &[usize]) -> Rank {
    sizes.iter().zip(coordinates).fold(0, |rank, (size, coordinate)| rank * size + coordinate % size)
}

/// The difference between the numbers of neighbours along `dimension`.
fn stride(sizes: &[usize], dimension: usize) -> usize {
    sizes[dimension + 1..].iter().product()
}

pub(super) fn coordinate(sizes: &[usize], rank: Rank, dimension: usize) -> usize {
    rank / stride(sizes, dimension) % sizes[dimension]
}

/// The rank with the coordinates of `rank`, except that its coordinate along `dimension` is `to` modulo the size.
pub(super) fn moved(sizes: &[usize], rank: Rank, dimension: usize, to: usize) -> Rank {
    let (stride, size) = (stride(sizes, dimension), sizes[dimension]);
    rank - rank / stride % size * stride + to % size * stride
}

/// The next rank up or down along `dimension`, around the end of the dimension.
pub(super) fn shifted(sizes: &[usize], rank: Rank, dimension: usize, up: bool) -> Rank {
    let from = coordinate(sizes, rank, dimension);
    moved(sizes, rank, dimension, if up { from + 1 } else { from + sizes[dimension] - 1 })
}

/// The links to `neighbour(rank, dimension, up)`, rank by rank, dimension by dimension, up before down.
pub(super) fn links(sizes: &[usize], neighbour: impl Fn(Rank, usize, bool) -> Option<NodeId>) -> Vec<Link> {
    let mut links = Vec::new();
    for rank in 0..sizes.iter().product() {
        for dimension in 0..sizes.len() {
            for up in [true, false] {
                links.extend(neighbour(rank, dimension, up).map(|target| Link::between(rank, target)));
            }
        }
    }
    links
}
