//! The table: the results of a search through many graphs.
//!
//! Each line is for one number of ranks and one kind of graphs. It has an entry for each degree from 2 on, or `-` if
//! there is none. Kinds: `d` and `u` are random Cayley graphs ([`super::draw`]; with `u`, all links have a reverse
//! link), `k` are generalised Kautz graphs. An entry consists of points separated by commas. A point consists of the
//! number of the draw (for `d` and `u` only), the steps, and by how much the bandwidth terms exceed the least possible,
//! separated by colons. The excess is in parts of a vector that a rank has of it: allgather, and reduce-scatter unless it
//! is equal; it is left out if both are 0.
//!
//! `bases.zlib` is the table, compressed. `cargo run --release -p ringroad-lab --example bases` writes it anew.

use std::sync::LazyLock;

use ringroad_core::synthesis::Ratio;

use super::evaluate::{least_bandwidth, GraphCost};

/// The table as text.
pub static TABLE: LazyLock<String> = LazyLock::new(|| {
    let text = miniz_oxide::inflate::decompress_to_vec_zlib(include_bytes!("bases.zlib"));
    String::from_utf8(text.expect("the table is compressed")).expect("the table is text")
});

/// The largest number of ranks in the table.
pub const TABLE_RANKS: usize = 2000;
/// The largest degree in the table.
pub const TABLE_DEGREE: usize = 16;
/// The kind of graphs of a line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GraphKind {
    Directed,
    Undirected,
    Kautz,
}

impl GraphKind {
    pub(super) fn from_letter(letter: &str) -> Option<GraphKind> {
        Some(match letter {
            "d" => GraphKind::Directed,
            "u" => GraphKind::Undirected,
            "k" => GraphKind::Kautz,
            _ => return None,
        })
    }
}

/// A point of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableEntry {
    pub(super) kind: GraphKind,
    /// The number of the draw; 0 for generalised Kautz graphs.
    pub(super) number: usize,
    pub(super) cost: GraphCost,
}

/// The parsed table.
pub(super) struct GraphTable {
    /// Entries by ranks, then by degree.
    entries: Vec<Vec<Vec<TableEntry>>>,
}

impl GraphTable {
    /// Reads the lines of the table for the numbers of ranks that are `wanted`.
    pub(super) fn read(wanted: impl Fn(usize) -> bool) -> GraphTable {
        GraphTable::parse(&TABLE, wanted)
    }

    pub(super) fn parse(text: &str, wanted: impl Fn(usize) -> bool) -> GraphTable {
        let mut entries = vec![Vec::new(); TABLE_RANKS + 1];
        for line in text.lines() {
            let (ranks, rest) = line.split_once(' ').unwrap_or_default();
            let ranks: usize = ranks.parse().expect("each line begins with the number of ranks");
            if wanted(ranks) {
                let row: &mut Vec<Vec<TableEntry>> = &mut entries[ranks];
                row.resize(TABLE_DEGREE + 1, Vec::new());
                read_line(ranks, rest, row).expect("the table is well-formed");
            }
        }
        GraphTable { entries }
    }

    pub(super) fn entries(&self, ranks: usize, degree: usize) -> &[TableEntry] {
        self.entries.get(ranks).and_then(|row| row.get(degree)).map_or(&[], Vec::as_slice)
    }
}

/// Reads a line without its number of ranks into one row for each degree.
fn read_line(ranks: usize, line: &str, rows: &mut [Vec<TableEntry>]) -> Option<()> {
    let mut words = line.split(' ');
    let kind = GraphKind::from_letter(words.next()?)?;
    for (row, word) in rows[2..].iter_mut().zip(words) {
        for point in word.split(',').filter(|point| *point != "-") {
            row.push(read_point(ranks, kind, point)?);
        }
    }
    Some(())
}

pub(super) fn read_point(ranks: usize, kind: GraphKind, point: &str) -> Option<TableEntry> {
    let mut parts = point.split(':');
    let number = if kind == GraphKind::Kautz { 0 } else { parts.next()?.parse().ok()? };
    let steps = parts.next()?.parse().ok()?;
    let term = |excess: &str| {
        let (above, below) = excess.split_once('/').unwrap_or((excess, "1"));
        let excess = Ratio::new(above.parse::<u64>().ok()?, below.parse::<u64>().ok()?);
        Some(least_bandwidth(ranks) + excess * Ratio::new(1u64, ranks as u64))
    };
    let cost = match (parts.next(), parts.next()) {
        (None, _) => GraphCost::optimal(ranks, steps),
        // The table does not say whether the steps of both collectives are equal. Graphs with reverse links have equal
        // ones.
        (Some(gather), scatter) => GraphCost {
            steps,
            allgather: term(gather)?,
            reduce_scatter: term(scatter.unwrap_or(gather))?,
            even: kind == GraphKind::Undirected,
        },
    };
    Some(TableEntry { kind, number, cost })
}
