//! Points and lines of finite geometries, and the graphs that join each point to the lines through it.
//!
//! ```text
//! points of a projective space over the numbers modulo a prime q: vectors whose first number that is not 0 is 1, in
//! lexicographic order; ranks are the points, then the lines in the order of their points
//!
//! W(q), a generalized quadrangle: all points of three dimensions, and lines on which the form
//!     x0 y1 − x1 y0 + x2 y3 − x3 y2 is 0
//! H(q), the split Cayley hexagon: points of six dimensions with x0 x4 + x1 x5 + x2 x6 = x3², and lines with the six
//!     conditions on p_ij = x_i y_j − x_j y_i below (Tits 1959)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::{Topology, TopologyError};
use crate::units::Rank;

type ProjectivePoint = Vec<usize>;

/// The points among the vectors of `length` numbers modulo `q` for which `fits` holds.
fn points(q: usize, length: u32, fits: impl Fn(&[usize]) -> bool) -> Vec<ProjectivePoint> {
    let digits =
        |number: usize| (0..length).rev().map(|d| number / q.pow(d) % q).collect::<ProjectivePoint>();
    let normal = |point: &ProjectivePoint| point.iter().find(|x| **x != 0) == Some(&1);
    (1..q.pow(length)).map(digits).filter(|point| normal(point) && fits(point)).collect()
}

/// The multiple of a vector whose first number that is not 0 is 1.
fn normalized(q: usize, vector: Vec<usize>) -> ProjectivePoint {
    let first = vector.iter().find(|x| **x != 0).copied().unwrap_or(1);
    let inverse = (1..q).find(|inverse| inverse * first % q == 1).unwrap_or(1);
    vector.into_iter().map(|x| x * inverse % q).collect()
}

/// The lines through pairs of points for which `joined` holds, each as the numbers of its points.
fn lines(
    q: usize,
    points: &[ProjectivePoint],
    joined: impl Fn(&[usize], &[usize]) -> bool,
) -> BTreeSet<Vec<usize>> {
    let number: BTreeMap<&ProjectivePoint, usize> =
        points.iter().enumerate().map(|(at, point)| (point, at)).collect();
    let line = |a: usize, b: usize| {
        let on = |t: usize| points[a].iter().zip(&points[b]).map(|(x, y)| (x + t * y) % q).collect();
        let mut all: Vec<usize> = (1..q).filter_map(|t| number.get(&normalized(q, on(t)))).copied().collect();
        all.extend([a, b]);
        all.sort_unstable();
        all
    };
    let pairs = (0..points.len()).flat_map(|a| (a + 1..points.len()).map(move |b| (a, b)));
    pairs.filter(|(a, b)| joined(&points[*a], &points[*b])).map(|(a, b)| line(a, b)).collect()
}

/// The graph with a cable from every point to each line through it.
fn incidence(spec: &str, points: usize, lines: BTreeSet<Vec<usize>>) -> Result<Topology, TopologyError> {
    let ranks = points + lines.len();
    let cables = lines.into_iter().enumerate();
    let cables = cables.flat_map(|(line, on)| on.into_iter().map(move |point| (point, points + line)));
    Topology::cabled(spec, ranks, cables)
}

/// The incidence graph of W(q).
pub(super) fn quadrangle(spec: &str, q: usize) -> Result<Topology, TopologyError> {
    let points = points(q, 4, |_| true);
    let form = |x: &[usize], y: &[usize]| minor(q, x, y, 0, 1) + minor(q, x, y, 2, 3);
    let lines = lines(q, &points, |x, y| form(x, y) % q == 0);
    incidence(spec, points.len(), lines)
}

/// The incidence graph of H(q).
pub(super) fn hexagon(spec: &str, q: usize) -> Result<Topology, TopologyError> {
    let points = points(q, 7, |x| (x[0] * x[4] + x[1] * x[5] + x[2] * x[6]) % q == x[3] * x[3] % q);
    const EQUAL: [[usize; 4]; 6] =
        [[1, 2, 3, 4], [5, 4, 3, 2], [2, 0, 3, 5], [6, 5, 3, 0], [0, 1, 3, 6], [4, 6, 3, 1]];
    // The line through two points lies in the quadric only where their polar form is 0.
    let polar = |x: &[usize], y: &[usize]| {
        let mixed: usize = [(0, 4), (1, 5), (2, 6)].iter().map(|(i, j)| x[*i] * y[*j] + x[*j] * y[*i]).sum();
        (mixed + 2 * (q - 1) * x[3] * y[3]) % q
    };
    let lines = lines(q, &points, |x, y| {
        polar(x, y) == 0 && EQUAL.iter().all(|[i, j, k, l]| minor(q, x, y, *i, *j) == minor(q, x, y, *k, *l))
    });
    incidence(spec, points.len(), lines)
}

/// p_ij = x_i y_j − x_j y_i, plus a multiple of `q` that keeps it from being negative, modulo `q`.
fn minor(q: usize, x: &[usize], y: &[usize], i: usize, j: usize) -> usize {
    (x[i] * y[j] + q * q - x[j] * y[i]) % q
}

/// The incidence graph of the affine plane of order 4 without its vertical lines: the point (x, y) is on the line y = m
/// x + b. The numbers are 0, 1, w and w + 1 of the field of four elements, which add by exclusive or.
pub(super) fn affine_plane_of_4(spec: &str) -> Result<Topology, TopologyError> {
    const PRODUCTS: [[usize; 4]; 4] = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]];
    let on = |x: usize, line: usize| 4 * x + (PRODUCTS[line / 4][x] ^ (line % 4));
    let cables = (0..16).flat_map(|line| (0..4).map(move |x| (on(x, line) as Rank, 16 + line)));
    Topology::cabled(spec, 32, cables)
}
