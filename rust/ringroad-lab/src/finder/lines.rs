//! Writes the lines of the table (see [`super::table`]).

use ringroad_core::synthesis::Ratio;

use super::closure::Closure;
use super::draw::draw;
use super::evaluate::{kautz, GraphCost};
use super::table::{read_point, GraphKind, GraphTable, TABLE_DEGREE, TABLE_RANKS};

/// Searches for bases with `ranks` ranks and returns their lines of the table. Takes up to some seconds.
pub fn lines(ranks: usize) -> String {
    let mut lines = String::new();
    let degrees = || 2..=TABLE_DEGREE;
    let drawn: Vec<[Vec<(usize, GraphCost)>; 2]> =
        degrees().map(|degree| [false, true].map(|undirected| draw(ranks, degree, undirected))).collect();
    for (index, kind) in ["d", "u"].into_iter().enumerate() {
        let entry = |found: &[Vec<(usize, GraphCost)>; 2]| -> String {
            let points = found[index].iter().map(|(number, cost)| format!("{number}:{}", text(ranks, cost)));
            join(points.collect())
        };
        lines += &line(ranks, kind, drawn.iter().map(entry).collect());
    }
    let kautz = degrees().zip(&drawn).map(|(degree, found)| {
        let fewest = found.iter().flatten().map(|(_, cost)| cost.steps).min().unwrap_or(usize::MAX);
        let cost = kautz(ranks, degree, fewest);
        join(cost.into_iter().map(|cost| text(ranks, &cost)).collect())
    });
    lines += &line(ranks, "k", kautz.collect());
    lines
}

/// A table as it is stored.
pub fn compressed(table: &str) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(table.as_bytes(), 10)
}

/// The table without the points that are no better than what can be made of the others.
pub fn pruned(table: &str) -> String {
    let closure = Closure::from_table(&GraphTable::parse(table, |_| true), 2..=TABLE_RANKS, TABLE_DEGREE);
    let prune = |text: &str| -> Option<String> {
        let mut words = text.split(' ');
        let (ranks, letter) = (words.next()?.parse().ok()?, words.next()?);
        let kind = GraphKind::from_letter(letter)?;
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

fn text(ranks: usize, cost: &GraphCost) -> String {
    if cost.is_optimal(ranks) {
        return cost.steps.to_string();
    }
    let ranks = ranks as u128;
    let excess = |term: Ratio| {
        let least = (ranks - 1) * term.denominator();
        Ratio::new(ranks * term.numerator() - least, term.denominator()).to_string()
    };
    let (gather, scatter) = (excess(cost.allgather), excess(cost.reduce_scatter));
    match gather == scatter {
        true => format!("{}:{gather}", cost.steps),
        false => format!("{}:{gather}:{scatter}", cost.steps),
    }
}
