//! Hamiltonian cycles of a torus that share no cable: as many as it has dimensions, all cables between them.
//!
//! Every dimension starts as a colour of its own, which makes a cycle of every line. A switch gives the four cables of a
//! square whose opposite sides have the same colour to the other colour each: both colours are cycles through all ranks
//! again, and where opposite sides were on different cycles these are joined. Squares are tried at random, with a fixed
//! seed, so that all ranks find the same, until every colour is one cycle. Switches that join are made, others now and
//! then. Where a torus of two dimensions has c columns, a multiple of c rows, and c - 1 has no factor in common with the
//! rows, a formula does it: one cycle goes along the first row, steps down instead of closing, and so on.
//!
//! ```text
//! torus:3x3    0-1-2  3  4  5  6  7  8           the first cycle by the formula: 0 1 2 5 3 4 7 8 6 0
//!              rows and columns are three        the second has the other cables: 0 3 6 7 1 4 5 8 2 0
//!              cycles each at first
//! ```
//!
//! Other tori of two dimensions grow from a small one by two rows or two columns at a time.
//!
//! A dimension of two ranks has two cables, one for each port. Of a torus of 2 by an odd number there are no two cycles:
//! each had one of the two cables in every column, and so crossed between the rows an odd number of times. Of 2 by 2 by
//! any number switches find none.

use super::shape::Shape;
use crate::schedule::Cycle;
use crate::units::{Port, Rank};

/// Whether as many cycles as dimensions, of which there are several, are found.
pub(super) fn exist(shape: &Shape) -> bool {
    let mut sizes: Vec<usize> = shape.wide().into_iter().map(|d| shape.sizes()[d]).collect();
    sizes.sort_unstable();
    match sizes[..] {
        [] | [_] => false,
        [2, other] => other % 2 == 0,
        [2, 2, _] => false,
        _ => true,
    }
}

/// The cycles, each from rank 0; they must [`exist`].
pub(super) fn cycles(shape: &Shape) -> Vec<Cycle> {
    let mut colours = Colours::new(shape);
    colours.join();
    (0..colours.count).map(|colour| colours.cycle(colour)).collect()
}

/// Any one cycle from rank 0, on every torus.
pub(super) fn one(shape: &Shape) -> Cycle {
    let wide = shape.wide();
    match wide[..] {
        [] => Cycle { ranks: vec![0], ports: vec![0] },
        [dimension] => {
            Cycle { ranks: (0..shape.ranks()).collect(), ports: vec![2 * dimension; shape.ranks()] }
        }
        _ if exist(shape) => cycles(shape).swap_remove(0),
        _ => there_and_back(shape),
    }
}

/// Along one line of a dimension and back along the next, where the others are one or two dimensions of two ranks.
fn there_and_back(shape: &Shape) -> Cycle {
    let (twos, others): (Vec<usize>, Vec<usize>) =
        shape.wide().into_iter().partition(|d| shape.sizes()[*d] == 2);
    // If all are of two ranks, one stands for the other dimension.
    let along = *others.first().unwrap_or(&twos[twos.len() - 1]);
    let turns: Vec<Port> = match twos[..] {
        [a, b, ..] => vec![2 * b, 2 * a, 2 * b + 1, 2 * a + 1],
        _ => vec![2 * twos[0]; 2],
    };
    let mut cycle = Cycle::default();
    let mut line = 0;
    for (number, turn) in turns.into_iter().enumerate() {
        let size = shape.sizes()[along];
        for step in 0..size {
            let (at, port) =
                if number % 2 == 0 { (step, 2 * along) } else { (size - 1 - step, 2 * along + 1) };
            cycle.ranks.push(shape.with(line, along, at));
            cycle.ports.push(if step + 1 < size { port } else { turn });
        }
        line = shape.with(line, turn / 2, 1 - line / shape.stride(turn / 2) % 2);
    }
    cycle
}

/// A colour for every cable, such that every rank has two ports of each colour.
struct Colours {
    ranks: usize,
    /// How many ports there are, those of dimensions of one rank included.
    ports: usize,
    dimensions: Vec<usize>,
    /// How many colours there are.
    count: usize,
    /// Of rank `r` and port `p` at `r * ports + p`: whereto it leads.
    neighbours: Vec<Rank>,
    /// And what colour it has.
    colours: Vec<usize>,
    /// Of colour `c` and rank `r` at `c * ranks + r`: by which port the cycle comes, and by which it leaves.
    through: Vec<[Port; 2]>,
    /// Which cycle it is.
    cycles: Vec<usize>,
    /// How many cycles there are of all colours, and how many there have been.
    left: usize,
    named: usize,
}

/// A corner of a square: the rank, and its ports along the two colours.
type Corner = (Rank, Port, Port);

impl Colours {
    fn new(shape: &Shape) -> Colours {
        let (ranks, ports, dimensions) = (shape.ranks(), 2 * shape.sizes().len(), shape.wide());
        let neighbour = |rank: Rank, port: Port| {
            let (dimension, size) = (port / 2, shape.sizes()[port / 2]);
            let at = rank / shape.stride(dimension) % size;
            shape.with(rank, dimension, (at + if port.is_multiple_of(2) { 1 } else { size - 1 }) % size)
        };
        let all = || (0..ranks).flat_map(|rank| (0..ports).map(move |port| (rank, port)));
        let by_dimension = |port: Port| dimensions.iter().position(|d| *d == port / 2).unwrap_or(0);
        let mut colours = Colours {
            ranks,
            ports,
            count: dimensions.len(),
            neighbours: all().map(|(rank, port)| neighbour(rank, port)).collect(),
            colours: all().map(|(_, port)| by_dimension(port)).collect(),
            through: Vec::new(),
            cycles: vec![0; dimensions.len() * ranks],
            left: 0,
            named: 0,
            dimensions,
        };
        match colours.dimensions[..] {
            [down, across] if shape.sizes()[down].min(shape.sizes()[across]) > 2 => {
                if !colours.apply_formula(shape) && shape.ranks() > SMALL {
                    colours.paint(shape, [down, across], &grid(shape.sizes()[down], shape.sizes()[across]));
                }
            }
            _ => colours.zigzag(shape),
        }
        colours.trace();
        colours
    }

    /// Colours the cables of two dimensions by the formula, if it holds.
    fn apply_formula(&mut self, shape: &Shape) -> bool {
        let [first, second] = self.dimensions[..] else { return false };
        for (down, across) in [(first, second), (second, first)] {
            let (rows, columns) = (shape.sizes()[down], shape.sizes()[across]);
            if !rows.is_multiple_of(columns) || gcd(rows, columns - 1) > 1 {
                continue;
            }
            // The first cycle goes down where it has gone along all of a row, instead of closing it.
            let goes_down = |row: usize, column: usize| column == (2 * columns - 1 - row % columns) % columns;
            let colours = |row, column| if goes_down(row, column) { [0, 1] } else { [1, 0] };
            let row = |row| (0..columns).map(|column| colours(row, column)).collect();
            self.paint(shape, [down, across], &(0..rows).map(row).collect());
            return true;
        }
        false
    }

    /// Colours the cables of two dimensions.
    fn paint(&mut self, shape: &Shape, [down, across]: [usize; 2], grid: &Grid) {
        for rank in 0..self.ranks {
            let at = shape.coordinates(rank);
            let [below, right] = grid[at[down]][at[across]];
            for (port, colour) in [(2 * down, below), (2 * across, right)] {
                let next = self.neighbours[rank * self.ports + port];
                self.colours[rank * self.ports + port] = colour;
                self.colours[next * self.ports + (port ^ 1)] = colour;
            }
        }
    }

    /// Between the two lines of a dimension of two ranks, both cables along another dimension always have the same colour,
    /// and no switch can change that. So planes of such a dimension and another even one begin with two cycles that
    /// cross between the lines at every rank, one where the other does not go on along its line.
    fn zigzag(&mut self, shape: &Shape) {
        let mut left = self.dimensions.clone();
        while let Some(two) = left.iter().position(|d| shape.sizes()[*d] == 2).map(|at| left.remove(at)) {
            let even = left.iter().position(|d| shape.sizes()[*d].is_multiple_of(2));
            let Some(other) = even.map(|at| left.remove(at)) else { continue };
            let colour = |dimension| self.dimensions.iter().position(|d| *d == dimension).unwrap_or(0);
            let pair = [colour(two), colour(other)];
            let cell = |line: usize, at: usize| [pair[line], pair[(line + at) % 2]];
            let line = |line| (0..shape.sizes()[other]).map(|at| cell(line, at)).collect();
            self.paint(shape, [two, other], &(0..2).map(line).collect());
        }
    }

    /// Finds all cycles.
    fn trace(&mut self) {
        let pair = |colours: &Colours, rank: Rank, colour| -> [Port; 2] {
            let wired = |port: &Port| colours.dimensions.contains(&(port / 2));
            let own = |port: &Port| colours.colours[rank * colours.ports + port] == colour;
            let mut ports = (0..colours.ports).filter(wired).filter(own);
            std::array::from_fn(|_| ports.next().expect("every rank has two ports of each colour"))
        };
        let all = (0..self.count).flat_map(|colour| (0..self.ranks).map(move |rank| (rank, colour)));
        self.through = all.map(|(rank, colour)| pair(self, rank, colour)).collect();
        for colour in 0..self.count {
            for rank in 0..self.ranks {
                if self.cycles[colour * self.ranks + rank] == 0 {
                    self.walk(colour, rank);
                    self.left += 1;
                }
            }
        }
    }

    /// Follows the cycle of a colour around from a rank, turns everybody on it the same way, and gives it a new name.
    fn walk(&mut self, colour: usize, start: Rank) {
        self.named += 1;
        let mut rank = start;
        loop {
            let place = colour * self.ranks + rank;
            self.cycles[place] = self.named;
            let leave = self.through[place][1];
            rank = self.neighbours[rank * self.ports + leave];
            let next = &mut self.through[colour * self.ranks + rank];
            if next[0] != leave ^ 1 {
                next.swap(0, 1);
            }
            if rank == start {
                return;
            }
        }
    }

    /// Switches squares until every colour is one cycle.
    fn join(&mut self) {
        let mut random = Random(1);
        while self.left > self.count {
            let choice = random.next();
            let pick = |shift: u32, end: usize| (choice >> shift) as u16 as usize % end;
            let rank = (choice >> 32) as usize % self.ranks;
            let first = pick(0, self.count);
            let second = (first + 1 + pick(8, self.count - 1)) % self.count;
            let port = |which: usize, up: u32| 2 * self.dimensions[which] + (choice >> up & 1) as usize;
            let Some(corners) = self.square(rank, port(first, 24), port(second, 25)) else { continue };
            let growth = self.growth(&corners);
            // Joining is what is wanted; for the rest, rarely enough that joining prevails.
            let chance = match growth {
                ..0 => 1,
                0 => 8,
                _ => 64,
            };
            if random.next().is_multiple_of(chance) {
                self.switch(&corners);
                self.left = self.left.wrapping_add_signed(growth);
            }
        }
    }

    /// The square that begins with two ports of a rank, if its opposite sides have the same colours: corner by corner
    /// with the ports along the first colour and along the second, the opposite corner last.
    fn square(&self, x: Rank, p: Port, q: Port) -> Option<[Corner; 4]> {
        let at = |rank: Rank, port: Port| rank * self.ports + port;
        let (a, b) = (self.colours[at(x, p)], self.colours[at(x, q)]);
        let (y, w) = (self.neighbours[at(x, p)], self.neighbours[at(x, q)]);
        let z = self.neighbours[at(y, q)];
        // Between two ranks of a dimension of two there are two cables, of different colours perhaps.
        let opposite = |rank: Rank, port: Port, colour| {
            let fits = |port: &Port| {
                self.neighbours[at(rank, *port)] == z && self.colours[at(rank, *port)] == colour
            };
            [port, port ^ 1].into_iter().find(fits)
        };
        if a == b {
            return None;
        }
        let (r, s) = (opposite(w, p, a)?, opposite(y, q, b)?);
        Some([(x, p, q), (y, p ^ 1, s), (w, r, q ^ 1), (z, r ^ 1, s ^ 1)])
    }

    /// How many cycles more there are after the switch.
    fn growth(&self, [(x, p, q), (y, _, s), (w, r, _), _]: &[Corner; 4]) -> isize {
        let of = |rank: &Rank, port: &Port| self.colours[rank * self.ports + port] * self.ranks + rank;
        let side = |one: (&Rank, &Port), other: (&Rank, &Port)| {
            let (i, j) = (of(one.0, one.1), of(other.0, other.1));
            let parallel = (self.through[i][1] == *one.1) == (self.through[j][1] == *other.1);
            match (self.cycles[i] == self.cycles[j], parallel) {
                (false, _) => -1,
                (true, true) => 0,
                (true, false) => 1,
            }
        };
        side((x, p), (w, r)) + side((x, q), (y, s))
    }

    fn switch(&mut self, corners: &[Corner; 4]) {
        let (x, p, q) = corners[0];
        let [a, b] = [p, q].map(|port| self.colours[x * self.ports + port]);
        for &(rank, p, q) in corners {
            self.colours[rank * self.ports + p] = b;
            self.colours[rank * self.ports + q] = a;
            let exchange = |ports: &mut [Port; 2], old, new| {
                let place = ports.iter_mut().find(|port| **port == old).expect("the colour has this port");
                *place = new;
            };
            exchange(&mut self.through[a * self.ranks + rank], p, q);
            exchange(&mut self.through[b * self.ranks + rank], q, p);
        }
        // The corners are on one new cycle of each colour or on two.
        for colour in [a, b] {
            self.walk(colour, x);
            let name = self.named;
            for &(rank, ..) in &corners[1..] {
                if self.cycles[colour * self.ranks + rank] != name {
                    self.walk(colour, rank);
                    break;
                }
            }
        }
    }

    /// A colour's only cycle.
    fn cycle(&self, colour: usize) -> Cycle {
        let leave = |rank: Rank| self.through[colour * self.ranks + rank][1];
        let next = |rank: &Rank| {
            let next = self.neighbours[rank * self.ports + leave(*rank)];
            (next != 0).then_some(next)
        };
        let ranks: Vec<Rank> = std::iter::successors(Some(0), next).collect();
        let ports = ranks.iter().map(|rank| leave(*rank)).collect();
        Cycle { ranks, ports }
    }
}

/// A colouring of two dimensions: for every row and column the colours of the cable below and of the cable to the right.
type Grid = Vec<Vec<[usize; 2]>>;

/// Tori of two dimensions with so many ranks are left to the search.
const SMALL: usize = 16;

/// Two cycles, grown from those of a torus of 3 or 4 by 3 or 4.
fn grid(rows: usize, columns: usize) -> Grid {
    let base = |size: usize| if size.is_multiple_of(2) { 4 } else { 3 };
    let shape = Shape::new(vec![base(rows), base(columns)]);
    let mut colours = Colours::new(&shape);
    colours.join();
    let at = |row: usize, column: usize, port| {
        colours.colours[(row * base(columns) + column) * colours.ports + port]
    };
    let row = |row| (0..base(columns)).map(|column| [at(row, column, 0), at(row, column, 2)]).collect();
    let small: Grid = (0..base(rows)).map(row).collect();
    transposed(grown(transposed(grown(small, rows)), columns))
}

/// Adds two rows at a time between the last and the first, such that both cycles take in all the new ranks and go on in
/// the first row where they did before. The cables between the last row and the first must have both colours.
fn grown(mut grid: Grid, rows: usize) -> Grid {
    let both = |row: &Vec<[usize; 2]>| row.iter().any(|cell| cell[0] != row[0][0]);
    let last = grid.iter().position(both).expect("both cycles go around in both dimensions");
    grid.rotate_left(last + 1);
    let wrap: Vec<usize> = grid[grid.len() - 1].iter().map(|cell| cell[0]).collect();
    let next = |x: usize| wrap[(x + 1) % wrap.len()];
    while grid.len() < rows {
        grid.push((0..wrap.len()).map(|x| [next(x), 1 - next(x)]).collect());
        grid.push((0..wrap.len()).map(|x| [wrap[x], 1 - next(x)]).collect());
    }
    grid
}

fn transposed(grid: Grid) -> Grid {
    let column = |x: usize| grid.iter().map(|row| [row[x][1], row[x][0]]).collect();
    (0..grid[0].len()).map(column).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// SplitMix64: the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Each cycle visits all ranks once, from 0, by cables that exist; no cable is used twice.
    fn check(shape: &Shape, cycles: &[Cycle]) {
        let mut cables = BTreeSet::new();
        for cycle in cycles {
            let visited: BTreeSet<Rank> = cycle.ranks.iter().copied().collect();
            assert_eq!((cycle.ranks[0], visited.len(), cycle.ranks.len()), (0, shape.ranks(), shape.ranks()));
            for (i, (&rank, &port)) in cycle.ranks.iter().zip(&cycle.ports).enumerate() {
                let next = cycle.ranks[(i + 1) % cycle.ranks.len()];
                let (dimension, size) = (port / 2, shape.sizes()[port / 2]);
                let at = shape.coordinates(rank)[dimension];
                let to = (at + if port.is_multiple_of(2) { 1 } else { size - 1 }) % size;
                assert_eq!(shape.with(rank, dimension, to), next, "{shape}: {rank} by {port}");
                assert!(
                    size == 1 || cables.insert((rank, port)) && cables.insert((next, port ^ 1)),
                    "{shape}"
                );
            }
        }
    }

    fn check_all(sizes: &[usize]) {
        let shape = Shape::new(sizes.to_vec());
        check(&shape, &[one(&shape)]);
        if exist(&shape) {
            let found = cycles(&shape);
            assert_eq!(found.len(), shape.wide().len(), "{shape}");
            check(&shape, &found);
        }
    }

    #[test]
    fn two_dimensions() {
        for rows in 1..=16 {
            (1..=16).for_each(|columns| check_all(&[rows, columns]));
        }
    }

    #[test]
    fn more_dimensions() {
        let all: [&[usize]; 17] = [
            &[1],
            &[2],
            &[7],
            &[1, 1, 4],
            &[2, 2, 2],
            &[3, 3, 3],
            &[4, 4, 4],
            &[3, 4, 5],
            &[5, 5, 5],
            &[4, 4, 8],
            &[5, 1, 3],
            &[3, 3, 3, 2],
            &[2, 2, 2, 2, 2],
            &[2, 2, 3],
            &[2, 4, 2],
            &[2, 3, 5],
            &[8, 8, 8],
        ];
        all.into_iter().for_each(check_all);
    }

    #[test]
    fn large() {
        [&[64, 64][..], &[16, 16, 16], &[27, 27], &[63, 65], &[128, 2]].into_iter().for_each(check_all);
    }

    /// Two dimensions by the formula need no search.
    #[test]
    fn formula() {
        for (rows, columns) in [(3, 3), (9, 3), (5, 5), (10, 5), (7, 7), (4, 4), (16, 4), (8, 4)] {
            let shape = Shape::new(vec![rows, columns]);
            assert_eq!(Colours::new(&shape).apply_formula(&shape), gcd(rows, columns - 1) == 1, "{shape}");
        }
    }
}
