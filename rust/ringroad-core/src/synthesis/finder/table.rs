//! What was found by looking through many graphs, so that nobody has to do that again: `bases.txt`.
//!
//! A line is for one number of ranks and one kind of graphs, and has an entry for each degree from 2 on, `-` where there
//! is nothing. Kinds: `d` and `u` are drawn Cayley graphs ([`super::draw`]; of `u` links lead both ways), `k` are
//! generalised Kautz graphs. An entry has points separated by commas: the number of the draw (of `d` and `u`), the steps, and
//! unless they are the least possible the bandwidth terms of allgather and reduce-scatter, separated by colons.
//!
//! `cargo run --release -p ringroad-core --example bases` writes the file anew.

use super::bases::{Base, Name};
use super::closure::Closure;
use super::draw::Urn;
use super::evaluate::{digraph, Cost, Digraph};
use crate::synthesis::Ratio;

/// Up to how many ranks the table goes.
pub const TABLE_RANKS: usize = 2000;
/// Up to which degree the table goes.
pub const TABLE_DEGREE: usize = 16;
/// How many graphs are drawn for an entry of the table: fewer where each takes long.
const DRAWS: usize = 400;
const FEW_DRAWS: usize = 50;
/// How many links are looked at for an entry, about.
const EFFORT: usize = 2_400_000;

/// Looks for bases of so many ranks and tells their lines of the table. Takes up to some seconds.
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
        // They need at most so many steps; only if that is fewer they are worth a look.
        let steps = (1..).find(|steps| degree.pow(*steps) >= ranks).unwrap_or(1) as usize;
        let cost =
            (steps < fewest && degree < ranks).then(|| digraph(&generalized_kautz(ranks, degree))).flatten();
        join(cost.into_iter().map(|cost| text(ranks, &cost)).collect())
    });
    lines += &line(ranks, "k", kautz.collect());
    lines
}

/// The table without what is no better than what can be made of the rest.
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

/// The best drawn Cayley graphs with their numbers.
pub(super) fn draw(ranks: usize, degree: usize, undirected: bool) -> Vec<(usize, Cost)> {
    // Inverses come in pairs unless an element is its own, of which groups of odd order have none.
    if ranks <= degree || undirected && degree % 2 == 1 && ranks % 2 == 1 {
        return Vec::new();
    }
    let draws = (EFFORT / (ranks * degree)).clamp(FEW_DRAWS, DRAWS);
    Urn::new(ranks, degree, undirected).best(draws)
}

/// Node `x` has links to `-degree x - a`, for all `a` from 1 to the degree (Imase and Itoh 1983).
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

/// What a line of the table is about.
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
    /// Of the draw.
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

/// The table, read.
pub(super) struct Table {
    /// By ranks, then by degree.
    entries: Vec<Vec<Vec<Entry>>>,
}

impl Table {
    /// What `bases.txt` has for the ranks that are asked for.
    pub(super) fn read(wanted: impl Fn(usize) -> bool) -> Table {
        Table::parse(include_str!("bases.txt"), wanted)
    }

    fn parse(text: &str, wanted: impl Fn(usize) -> bool) -> Table {
        let mut entries = vec![Vec::new(); TABLE_RANKS + 1];
        for line in text.lines() {
            let (ranks, rest) = line.split_once(' ').unwrap_or_default();
            let ranks: usize = ranks.parse().expect("lines begin with how many ranks");
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

/// A line without its ranks, into one row for each degree.
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
        // Whether steps are alike both ways is not told; links both ways make them so.
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
