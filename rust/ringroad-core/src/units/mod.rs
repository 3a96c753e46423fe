//! Type aliases for indices and quantities, and names that were meant. Quantities are in bytes and seconds, never in
//! multiples of them; what users write may have other units.

mod read;

use strsim::levenshtein;

pub use read::{bandwidth, bytes, seconds, NotAQuantity};

/// A process of the job: `0..ranks`.
pub type Rank = usize;
/// A node of a [`crate::Topology`]. Ranks come first, then switches and the memories of hosts.
pub type NodeId = usize;
/// A directed link of a [`crate::Topology`]: an index into [`crate::Topology::links`].
pub type LinkId = usize;
/// A piece of the vector: `0..Schedule::chunks`.
pub type ChunkId = usize;
/// The number of an outgoing link at its rank. On tori port `2d` leads upwards along dimension `d` and port `2d + 1`
/// downwards, so that `port ^ 1` is the opposite direction.
pub type Port = usize;
/// One of the places in which a rank keeps a value of a chunk. Slot 0 is the vector itself: it holds the input at the
/// start and the result at the end.
pub type Slot = usize;
/// A number of bytes.
pub type Bytes = u64;
/// A duration or a point in time, in seconds.
pub type Seconds = f64;

/// Bytes per second as bits per second, with three digits: `98.8 Mbit/s`.
pub fn rate_text(bytes_per_second: f64) -> String {
    let bits = 8.0 * bytes_per_second;
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let (unit, size) = units.into_iter().find(|unit| bits >= 0.9995 * unit.1).unwrap_or(("bit/s", 1.0));
    let number = bits / size;
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    let text = format!("{number:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    format!("{text} {unit}")
}

/// The name with the fewest typing errors, where there are two or fewer.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = names.map(|name| (levenshtein(word, name), name)).min()?;
    (distance <= 2).then_some(name)
}

/// What errors say before the list of all names: which was perhaps meant.
pub fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or("expected ".to_owned(), |name| format!("did you mean {name}? Expected "))
}
