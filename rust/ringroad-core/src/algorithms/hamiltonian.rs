//! Hamiltonian cycles of a torus: as many cycles through all ranks as there are dimensions, no two of which share a
//! cable.
//!
//! Kotzig: Every Cartesian product of two circuits is decomposable into two Hamiltonian circuits, CRM report, 1973.
//! Aubert, Schneider: Décomposition de la somme cartésienne d'un cycle et de l'union de deux cycles hamiltoniens en
//! cycles hamiltoniens, Discrete Mathematics 38, 1982. They prove that sides of at least 3 are sufficient. The
//! construction is ours. For two dimensions, it starts with a small torus from a table and adds two rows or two columns
//! as often as needed (see `lengthen`). For another dimension of n ranks, it makes n copies of the cycles so far. The
//! copies of the first cycle and the new dimension form a torus of two dimensions. Switches join the copies of each
//! other cycle (see `Switch`).
//!
//! ```text
//!      |   |          4 x 3, the first of two cycles;
//!   ---o   o   o---   the second one has all other cables
//!          |   |
//!      o---o   o
//!      |       |
//!      o---o---o
//!
//!   ---o   o---o---
//!      |   |
//! ```
//!
//! Cost: for two dimensions, time proportional to the number of ranks. A switch walks along the cycles that it changes;
//! three dimensions of n take n - 1 switches.

use super::shape::Shape;
use crate::schedule::Cycle;
use crate::units::Port;

/// Whether [`cycles`] finds as many cycles as there are dimensions, of which there must be several. There are none for
/// 2 x odd, 2 x 2 x odd, and 2 x 2 x 2.
pub(super) fn exist(shape: &Shape) -> bool {
    let sides: Vec<usize> = order(shape).iter().map(|dimension| shape.sizes()[*dimension]).collect();
    match sides[..] {
        [] | [_] => false,
        // A cycle goes around the odd side an even number of times, since its length and the other sides are even. So
        // it crosses at least twice between any two layers, except for one pair of layers, and there are too few cables
        // for that.
        [2, odd] | [2, 2, odd] if odd % 2 == 1 => false,
        // An enumeration of all cycles shows: here, and for 2 x 2 x 3, which the argument leaves open, no three fit
        // together.
        [2, 2, 2] => false,
        // There are cycles, but the search could take long.
        [2, .., odd] if odd % 2 == 1 => shape.ranks() <= 512,
        _ => true,
    }
}

/// As many cycles as dimensions, each from rank 0. They must [`exist`]. Together they use every cable once. The result
/// is the same on every machine.
pub(super) fn cycles(shape: &Shape) -> Vec<Cycle> {
    let order = order(shape);
    let mut colouring = Colouring::line(shape.sizes()[order[0]]);
    for (before, dimension) in order.iter().enumerate().skip(1) {
        colouring = colouring.with_dimension(shape.sizes()[*dimension]);
        colouring.improve();
        let improved = colouring.clone();
        let last = before + 1 == order.len();
        if !colouring.search(if last { usize::MAX } else { 100_000 }) {
            // Cycles may exist only with the dimensions that are still missing.
            colouring = improved;
        }
    }
    (0..order.len()).map(|colour| colouring.cycle(colour, shape, &order)).collect()
}

/// One cycle from rank 0, on every torus.
pub(super) fn one(shape: &Shape) -> Cycle {
    let order = order(shape);
    let Some((first, others)) = order.split_first() else { return Cycle { ranks: vec![0], ports: vec![0] } };
    let line = Colouring::line(shape.sizes()[*first]);
    let grow = |colouring: Colouring, dimension: &usize| colouring.with_dimension(shape.sizes()[*dimension]);
    others.iter().fold(line, grow).cycle(0, shape, &order)
}

/// The order in which dimensions are added: even before odd, then short before long.
fn order(shape: &Shape) -> Vec<usize> {
    let mut order = shape.wide();
    order.sort_by_key(|dimension| (shape.sizes()[*dimension] % 2, shape.sizes()[*dimension]));
    order
}

/// The colours of the cables that lead down and right from each place of a torus of two dimensions, row by row.
type CableColours = Vec<Vec<[usize; 2]>>;

/// Two Hamiltonian cycles of a torus of two dimensions. If the number of columns is even, so must be the number of
/// rows.
fn grid(rows: usize, columns: usize) -> Option<CableColours> {
    // The cables of the first cycle lead down from |, right from -, and in both directions from +.
    let base: &[&str] = match (rows % 2, columns % 2) {
        (0, 0) => &["|-", "-|"],
        (0, _) => &[".|+", "+.|", "--.", "|+-"],
        _ => &["--|", "-|-", "|--"],
    };
    let colours = |place| ["|+", "-+"].map(|first| usize::from(!first.contains(place)));
    let base_grid = base.iter().map(|row| row.chars().map(colours).collect()).collect();
    (rows >= base.len()).then(|| lengthen(lengthen(base_grid, rows), columns))
}

/// Inserts pairs of rows between the last row and the first one, then exchanges rows and columns.
///
/// Both cycles have cables between these rows. In the first row of a pair, a strand of cycle 0 that comes from above
/// goes right until just before the next strand, and on down. The strands of cycle 1 take the remaining steps to the
/// right. The second row takes all strands back. So the cycles visit all new places and stay connected as before.
fn lengthen(mut grid: CableColours, rows: usize) -> CableColours {
    let above: Vec<usize> = grid[grid.len() - 1].iter().map(|[down, _]| *down).collect();
    let mut shifted = above.clone();
    shifted.rotate_left(1);
    let row = |down: &[usize]| down.iter().zip(&shifted).map(|(down, next)| [*down, 1 - next]).collect();
    while grid.len() < rows {
        grid.extend([row(&shifted), row(&above)]);
    }
    let column = |x: usize| grid.iter().map(|row| [row[x][1], row[x][0]]).collect();
    (0..above.len()).map(column).collect()
}

/// A colouring of all cables in which every vertex has two cables of each colour, so that the cables of a colour form
/// cycles.
#[derive(Clone)]
struct Colouring {
    /// The first dimension is the fastest one in the numbering of vertices. Vertex numbers are not ranks.
    sides: Vec<usize>,
    /// The vertex to which each port of each vertex leads.
    next: Vec<Vec<usize>>,
    /// The ports by which the cycle of a colour enters and leaves each vertex.
    ports: Vec<Vec<[Port; 2]>>,
    /// A number that identifies the cycle of a colour through each vertex.
    names: Vec<Vec<usize>>,
    fresh: usize,
    cycles: isize,
}

/// A square of four cables with colours a and b in turn, which exchange colours. Each vertex keeps two cables of each
/// colour.
///
/// ```text
///   z --a-- w       z --b-- w      Two cycles of colour a become one. If both cables are on one cycle, it stays one if it
///   b       b  -->  a       a      takes them in the same direction, as in y -> x ... z -> w; otherwise it falls into
///   y --a-- x       y --b-- x      two. The same holds for b.
/// ```
struct Switch {
    colours: [usize; 2],
    /// The vertices x, y, w, z, each with its ports of colours a and b.
    corners: [(usize, Port, Port); 4],
    /// The change in the number of cycles of the two colours.
    growth: isize,
}

impl Colouring {
    fn line(side: usize) -> Colouring {
        Colouring::new(&[side], vec![vec![[1, 0]; side]])
    }

    fn new(sides: &[usize], ports: Vec<Vec<[Port; 2]>>) -> Colouring {
        let vertices = sides.iter().product();
        let mut next = vec![vec![]; vertices];
        for (vertex, next) in next.iter_mut().enumerate() {
            let mut stride = 1;
            for side in sides {
                let coordinate = vertex / stride % side;
                let at = |c: usize| vertex - coordinate * stride + c % side * stride;
                next.extend([at(coordinate + 1), at(coordinate + side - 1)]);
                stride *= side;
            }
        }
        let names = vec![vec![0; vertices]; ports.len()];
        let mut colouring = Colouring { sides: sides.to_vec(), next, ports, names, fresh: 0, cycles: 0 };
        for colour in 0..colouring.ports.len() {
            for vertex in 0..vertices {
                if colouring.names[colour][vertex] == 0 {
                    colouring.walk(colour, vertex);
                    colouring.cycles += 1;
                }
            }
        }
        colouring
    }

    /// Numbers the cycle of `colour` through `start`, and gives it a direction.
    fn walk(&mut self, colour: usize, start: usize) {
        self.fresh += 1;
        let mut vertex = start;
        while self.names[colour][vertex] != self.fresh {
            self.names[colour][vertex] = self.fresh;
            let leave = self.ports[colour][vertex][1];
            vertex = self.next[vertex][leave];
            let ports = &mut self.ports[colour][vertex];
            if ports[0] != leave ^ 1 {
                ports.swap(0, 1);
            }
        }
    }

    /// The cycle of `colour` through vertex 0: its vertices, and the ports by which it leaves them.
    fn path(&self, colour: usize) -> Vec<(usize, Port)> {
        let at = |vertex: usize| (vertex, self.ports[colour][vertex][1]);
        let on = |(vertex, port): &(usize, Port)| Some(at(self.next[*vertex][*port])).filter(|(v, _)| *v > 0);
        std::iter::successors(Some(at(0)), on).collect()
    }

    /// The cycle of `colour` through rank 0, for dimensions that were added in this `order`.
    fn cycle(&self, colour: usize, shape: &Shape, order: &[usize]) -> Cycle {
        let mut ranks = vec![0];
        for dimension in order {
            let all = (0..shape.sizes()[*dimension]).flat_map(|c| ranks.iter().map(move |rank| (*rank, c)));
            ranks = all.map(|(rank, c)| shape.with(rank, *dimension, c)).collect();
        }
        let path = self.path(colour).into_iter();
        let (ranks, ports) =
            path.map(|(vertex, port)| (ranks[vertex], 2 * order[port / 2] + port % 2)).unzip();
        Cycle { ranks, ports }
    }

    /// `side` copies, joined by another dimension. Colour 0 must be one cycle.
    fn with_dimension(&self, side: usize) -> Colouring {
        let vertices = self.next.len();
        let sides = [&self.sides[..], &[side]].concat();
        let (up, down) = (2 * self.sides.len(), 2 * self.sides.len() + 1);
        let mut ports: Vec<_> = self.ports.iter().map(|ports| ports.repeat(side)).collect();
        ports.insert(0, vec![[down, up]; side * vertices]);
        let Some(grid) = grid(vertices, side) else {
            // For 2 x odd, colour 0 is the two long cycles; the first improvement joins them.
            let mut colouring = Colouring::new(&sides, ports);
            colouring.improve();
            return colouring;
        };
        for (row, (vertex, leave)) in self.path(0).into_iter().enumerate() {
            for column in 0..side {
                let (above, left) = ((row + vertices - 1) % vertices, (column + side - 1) % side);
                let mut coloured = [
                    (grid[above][column][0], self.ports[0][vertex][0]),
                    (grid[row][column][0], leave),
                    (grid[row][left][1], down),
                    (grid[row][column][1], up),
                ];
                coloured.sort_unstable();
                let [a, b, c, d] = coloured.map(|(_, port)| port);
                ports[0][column * vertices + vertex] = [a, b];
                ports[1][column * vertices + vertex] = [c, d];
            }
        }
        Colouring::new(&sides, ports)
    }

    /// The switch of the square that two ports of a vertex span; `None` unless its cables have two colours in turn.
    fn switch(&self, x: usize, a: Port, b: Port) -> Option<Switch> {
        let colour = |port| self.ports.iter().position(|ports| ports[x].contains(&port));
        let colours = [colour(a)?, colour(b).filter(|other| Some(*other) != colour(a))?];
        let (y, w) = (self.next[x][a], self.next[x][b]);
        let z = self.next[y][b];
        // Opposite cables leave by the same port, except that on a side of 2 the other port leads to the same vertex.
        let opposite = |colour: usize, vertex: usize, port: Port| {
            let fits = |p: &Port| self.next[vertex][*p] == z && self.ports[colour][vertex].contains(p);
            [port, port ^ 1].into_iter().find(fits)
        };
        let (c, d) = (opposite(colours[0], w, a)?, opposite(colours[1], y, b)?);
        let growth = |colour: usize, (u, p): (usize, Port), (v, q): (usize, Port)| {
            let (names, ports) = (&self.names[colour], &self.ports[colour]);
            let splits = isize::from((ports[u][1] == p) != (ports[v][1] == q));
            if names[u] == names[v] {
                splits
            } else {
                -1
            }
        };
        let corners = [(x, a, b), (y, a ^ 1, d), (w, c, b ^ 1), (z, c ^ 1, d ^ 1)];
        let growth = growth(colours[0], (x, a), (w, c)) + growth(colours[1], (x, b), (y, d));
        Some(Switch { colours, corners, growth })
    }

    fn apply(&mut self, switch: &Switch) {
        let [a, b] = switch.colours;
        for (vertex, p, q) in switch.corners {
            for (colour, old, new) in [(a, p, q), (b, q, p)] {
                let ports = &mut self.ports[colour][vertex];
                ports[usize::from(ports[0] != old)] = new;
            }
        }
        let [x, y, w, _] = switch.corners.map(|(vertex, ..)| vertex);
        for (colour, other) in [(a, y), (b, w)] {
            self.walk(colour, x);
            if self.names[colour][other] != self.names[colour][x] {
                self.walk(colour, other);
            }
        }
        self.cycles += switch.growth;
    }

    fn solved(&self) -> bool {
        self.cycles == self.ports.len() as isize
    }

    /// Applies switches as long as they reduce the number of cycles. No colour gets more cycles.
    fn improve(&mut self) {
        let mut before = isize::MAX;
        while self.cycles < before && !self.solved() {
            before = self.cycles;
            for vertex in 0..self.next.len() {
                for b in (0..self.next[vertex].len()).step_by(2) {
                    for a in (0..b).step_by(2) {
                        if let Some(switch) = self.switch(vertex, a, b).filter(|switch| switch.growth < 0) {
                            self.apply(&switch);
                        }
                    }
                }
            }
        }
    }

    /// Applies random switches with improvements after each until the cycles are right or the budget is spent. This has
    /// been necessary only with sides of 2.
    fn search(&mut self, budget: usize) -> bool {
        // Marsaglia: Xorshift RNGs, Journal of Statistical Software 8, 2003.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 32) % bound as u64) as usize
        };
        for _ in 0..budget / self.next.len() {
            if self.solved() {
                break;
            }
            let (vertex, ports) = (random(self.next.len()), self.next[0].len());
            let a = random(ports);
            let b = (a / 2 * 2 + 2 + random(ports - 2)) % ports;
            let Some(switch) = self.switch(vertex, a, b) else { continue };
            if switch.growth <= 0 || switch.growth == 1 && random(16) == 0 {
                self.apply(&switch);
                self.improve();
            }
        }
        self.solved()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each cycle visits all ranks once, from 0, by cables that exist, and that no cable is used twice.
    fn check_cycles(shape: &Shape, cycles: &[Cycle]) {
        let mut cables = vec![false; shape.ranks() * shape.sizes().len()];
        for Cycle { ranks, ports } in cycles {
            assert_eq!((ranks[0], ranks.len(), ports.len()), (0, shape.ranks(), shape.ranks()), "{shape}");
            let mut visited = vec![false; shape.ranks()];
            for (i, (rank, port)) in ranks.iter().zip(ports).enumerate() {
                assert!(!std::mem::replace(&mut visited[*rank], true), "{shape}: rank {rank} twice");
                let (next, dimension) = (ranks[(i + 1) % ranks.len()], port / 2);
                let (lower, upper) = if port % 2 == 0 { (*rank, next) } else { (next, *rank) };
                let to = (shape.coordinates(lower)[dimension] + 1) % shape.sizes()[dimension];
                assert_eq!(upper, shape.with(lower, dimension, to), "{shape}: port {port} of rank {rank}");
                let cable = lower * shape.sizes().len() + dimension;
                assert!(!std::mem::replace(&mut cables[cable], true), "{shape}: cable {cable} twice");
            }
        }
    }

    /// Checks the cycles of a torus, and returns whether there are as many as dimensions.
    fn check(sizes: &[usize]) -> bool {
        let shape = Shape::new(sizes.to_vec());
        check_cycles(&shape, &[one(&shape)]);
        if exist(&shape) {
            let cycles = cycles(&shape);
            assert_eq!(cycles.len(), shape.wide().len(), "{shape}");
            check_cycles(&shape, &cycles);
        }
        exist(&shape)
    }

    #[test]
    fn two_dimensions() {
        for (rows, columns) in (2..=16).flat_map(|rows| (2..=16).map(move |columns| (rows, columns))) {
            let hopeless = rows.min(columns) == 2 && rows.max(columns) % 2 == 1;
            assert_eq!(check(&[rows, columns]), !hopeless, "{rows} x {columns}");
        }
        for sizes in [[64, 64], [64, 48], [4, 101], [102, 3], [2, 500], [33, 32]] {
            assert!(check(&sizes), "{sizes:?}");
        }
    }

    #[test]
    fn more_dimensions() {
        let tori = "1x4x1x3 3x3x3 4x4x4 3x4x5 5x4x3 5x5x5 4x4x8 4x2x2 2x3x3 3x3x2x3 3x2x2x5 3x3x3x2 2x2x2x2 \
                    2x2x2x2x2 3x2x2x2x2x1x4 3x3x3x3x3 8x8x8 4x4x256 16x16x16";
        for torus in tori.split_whitespace() {
            let sizes: Vec<usize> = torus.split('x').map(|size| size.parse().unwrap()).collect();
            assert!(check(&sizes), "{torus}");
        }
        let none: [&[usize]; 8] =
            [&[1], &[2], &[7], &[1, 5, 1], &[2, 2, 2], &[2, 2, 3], &[2, 9, 2], &[31, 2, 33]];
        for sizes in none {
            assert!(!check(sizes), "{sizes:?}");
        }
    }
}
