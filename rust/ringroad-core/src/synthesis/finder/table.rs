//! The table `bases.txt`: the results of a search through many graphs.
//!
//! Each line is for one number of ranks and one kind of graphs. It has an entry for each degree from 2 on, or `-` if
//! there is none. Kinds: `d` and `u` are random Cayley graphs ([`super::draw`]; with `u`, all links have a reverse
//! link), `k` are generalised Kautz graphs. An entry consists of points separated by commas. A point consists of the
//! number of the draw (for `d` and `u` only), the steps, and the bandwidth terms of allgather and reduce-scatter unless
//! these are the least possible, separated by colons.
//!
//! `cargo run --release -p ringroad-core --example bases` writes the file anew.

use super::bases::{Base, Name};
use super::closure::Closure;
use super::draw::Urn;
use super::evaluate::{digraph, Cost, Digraph};
use crate::synthesis::Ratio;

/// The largest number of ranks in the table.
pub const TABLE_RANKS: usize = 2000;
/// The largest degree in the table.
pub const TABLE_DEGREE: usize = 16;
/// The number of graphs that are drawn for an entry: between these two, fewer for larger graphs.
const DRAWS: usize = 400;
const FEW_DRAWS: usize = 50;
/// The approximate number of links that are examined for an entry.
const EFFORT: usize = 2_400_000;

/// Searches for bases with `ranks` ranks and returns their lines of the table. Takes up to some seconds.
pub fn lines(ranks: usize) -> String {
    let mut lines = String::new();
    let degrees = || 2..=TABLE_DEGREE;
    let drawn: Vec<[Vec<(usize, Cost)>; 2]> =
        degrees().map(|degree| [false, true].map(|undirected| draw(ranks, degree, undirected))).collect();
    for (index, kind) in ["d", "u"].into_iter().enumerate() {
        let entry = |found: &[Vec<(usize, Cost)>; 2]| -> String {
            let points = found[index].iter().map(|(number, cost)| format!("{number}:{}", text(ranks, cost)));
            join(points.collect())
        };
        lines += &line(ranks, kind, drawn.iter().map(entry).collect());
    }
    let kautz = degrees().zip(&drawn).map(|(degree, found)| {
        let fewest = found.iter().flatten().map(|(_, cost)| cost.steps).min().unwrap_or(usize::MAX);
        // A generalised Kautz graph needs at most this number of steps. It is examined only if that is fewer.
        let steps = (1..).find(|steps| degree.pow(*steps) >= ranks).unwrap_or(1) as usize;
        let cost =
            (steps < fewest && degree < ranks).then(|| digraph(&generalized_kautz(ranks, degree))).flatten();
        join(cost.into_iter().map(|cost| text(ranks, &cost)).collect())
    });
    lines += &line(ranks, "k", kautz.collect());
    lines
}

/// The table without the points that are no better than what can be made of the others.
pub fn pruned(table: &str) -> String {
    let closure = Closure::of(&Table::parse(table, |_| true), 2..=TABLE_RANKS, TABLE_DEGREE);
    let prune = |text: &str| -> Option<String> {
        let mut words = text.split(' ');
        let (ranks, letter) = (words.next()?.parse().ok()?, words.next()?);
        let kind = Kind::of(letter)?;
        let entry = |(word, degree): (&str, usize)| {
            let points = word.split(',').filter(|point| *point != "-");
            let needed = points.filter(|point| {
                let entry = read_point(ranks, kind, point);
                entry.is_some_and(|entry| closure.points(ranks, degree).iter().any(|point| point.is(&entry)))
            });
            join(needed.map(str::to_owned).collect())
        };
        Some(line(ranks, letter, words.zip(2..).map(entry).collect()))
    };
    table.lines().map(|line| prune(line).expect("the table is well-formed")).collect()
}

/// The best random Cayley graphs with the numbers of their draws.
pub(super) fn draw(ranks: usize, degree: usize, undirected: bool) -> Vec<(usize, Cost)> {
    // Inverses form pairs, unless an element is its own inverse; groups of odd order have no such element except the
    // neutral one.
    if ranks <= degree || undirected && degree % 2 == 1 && ranks % 2 == 1 {
        return Vec::new();
    }
    let draws = (EFFORT / (ranks * degree)).clamp(FEW_DRAWS, DRAWS);
    Urn::new(ranks, degree, undirected).best(draws)
}

/// The generalised Kautz graph: node `x` has links to `-degree x - a` for all `a` from 1 to the degree (Imase and Itoh
/// 1983).
pub(super) fn generalized_kautz(ranks: usize, degree: usize) -> Digraph {
    let head = |x: usize, a: usize| ((degree + 1) * ranks - (degree * x % ranks + a)) % ranks;
    let heads = (0..ranks).flat_map(|x| (1..=degree).map(move |a| head(x, a) as u32)).collect();
    Digraph { degree, heads }
}

fn line(ranks: usize, kind: &str, mut entries: Vec<String>) -> String {
    while entries.last().is_some_and(|entry| entry == "-") {
        entries.pop();
    }
    if entries.is_empty() {
        return String::new();
    }
    format!("{ranks} {kind} {}\n", entries.join(" "))
}

fn join(points: Vec<String>) -> String {
    if points.is_empty() {
        "-".to_owned()
    } else {
        points.join(",")
    }
}

fn text(ranks: usize, cost: &Cost) -> String {
    if cost.is_optimal(ranks) {
        cost.steps.to_string()
    } else {
        format!("{}:{}:{}", cost.steps, cost.allgather, cost.reduce_scatter)
    }
}

/// The kind of graphs of a line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directed,
    Undirected,
    Kautz,
}

impl Kind {
    fn of(letter: &str) -> Option<Kind> {
        Some(match letter {
            "d" => Kind::Directed,
            "u" => Kind::Undirected,
            "k" => Kind::Kautz,
            _ => return None,
        })
    }
}

/// A point of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// The number of the draw; 0 for generalised Kautz graphs.
    pub(super) number: usize,
    pub(super) cost: Cost,
}

impl Entry {
    pub(super) fn base(&self, ranks: usize, degree: usize) -> Base {
        let name = match self.kind {
            Kind::Kautz => Name::Spec(format!("generalized-kautz:{degree}:{ranks}")),
            kind => Name::Drawn(self.number, kind == Kind::Undirected),
        };
        let regular = self.kind != Kind::Kautz || ranks.is_multiple_of(degree + 1);
        Base { name, cost: self.cost, undirected: self.kind == Kind::Undirected, regular }
    }
}

/// The parsed table.
pub(super) struct Table {
    /// Entries by ranks, then by degree.
    entries: Vec<Vec<Vec<Entry>>>,
}

impl Table {
    /// Reads the lines of `bases.txt` for the numbers of ranks that are `wanted`.
    pub(super) fn read(wanted: impl Fn(usize) -> bool) -> Table {
        Table::parse(include_str!("bases.txt"), wanted)
    }

    fn parse(text: &str, wanted: impl Fn(usize) -> bool) -> Table {
        let mut entries = vec![Vec::new(); TABLE_RANKS + 1];
        for line in text.lines() {
            let (ranks, rest) = line.split_once(' ').unwrap_or_default();
            let ranks: usize = ranks.parse().expect("each line begins with the number of ranks");
            if wanted(ranks) {
                let row: &mut Vec<Vec<Entry>> = &mut entries[ranks];
                row.resize(TABLE_DEGREE + 1, Vec::new());
                read_line(ranks, rest, row).expect("the table is well-formed");
            }
        }
        Table { entries }
    }

    pub(super) fn entries(&self, ranks: usize, degree: usize) -> &[Entry] {
        self.entries.get(ranks).and_then(|row| row.get(degree)).map_or(&[], Vec::as_slice)
    }
}

/// Reads a line without its number of ranks into one row for each degree.
fn read_line(ranks: usize, line: &str, rows: &mut [Vec<Entry>]) -> Option<()> {
    let mut words = line.split(' ');
    let kind = Kind::of(words.next()?)?;
    for (row, word) in rows[2..].iter_mut().zip(words) {
        for point in word.split(',').filter(|point| *point != "-") {
            row.push(read_point(ranks, kind, point)?);
        }
    }
    Some(())
}

fn read_point(ranks: usize, kind: Kind, point: &str) -> Option<Entry> {
    let mut parts = point.split(':');
    let number = if kind == Kind::Kautz { 0 } else { parts.next()?.parse().ok()? };
    let steps = parts.next()?.parse().ok()?;
    let fraction = |text: &str| {
        let (above, below) = text.split_once('/').unwrap_or((text, "1"));
        Some(Ratio::new(above.parse::<u64>().ok()?, below.parse::<u64>().ok()?))
    };
    let cost = match (parts.next(), parts.next()) {
        (None, None) => Cost::optimal(ranks, steps),
        // The table does not say whether the steps of both collectives are equal. Graphs with reverse links have equal
        // ones.
        (Some(gather), Some(scatter)) => Cost {
            steps,
            allgather: fraction(gather)?,
            reduce_scatter: fraction(scatter)?,
            even: kind == Kind::Undirected,
        },
        _ => return None,
    };
    Some(Entry { kind, number, cost })
}
