//! What was found by looking through many graphs, so that nobody has to do that again: `bases.txt`.
//!
//! A line is for one number of ranks and one kind of graphs, and has an entry for each degree from 2 on, `-` where there
//! is nothing. Kinds: `d` and `u` are drawn Cayley graphs ([`super::draw`]; of `u` links lead both ways), `k` are
//! generalised Kautz graphs. An entry has points separated by commas: the number of the draw (of `d` and `u`), the steps, and
//! unless they are the least possible the bandwidth terms of allgather and reduce-scatter, separated by colons.
//!
//! `cargo run --release -p ringroad-core --example bases` writes the file anew.

use super::evaluate::Cost;
use crate::synthesis::Ratio;

/// Up to how many ranks the table goes.
pub const TABLE_RANKS: usize = 2000;
/// Up to which degree the table goes.
pub const TABLE_DEGREE: usize = 16;
/// What a line of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directed,
    Undirected,
    Kautz,
}

impl Kind {
    pub(super) fn of(letter: &str) -> Option<Kind> {
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

    pub(super) fn parse(text: &str, wanted: impl Fn(usize) -> bool) -> Table {
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

pub(super) fn read_point(ranks: usize, kind: Kind, point: &str) -> Option<Entry> {
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
