//! Kautz and de Bruijn graphs: digraphs with very many ranks for their number of links per rank and their diameter.
//!
//! ```text
//! kautz:2:1              line(complete:3): ranks are links of K3, with a link to each link of K3 that continues them
//! generalized-kautz:2:7  x → −2x − 1, −2x − 2 modulo 7, for any number of ranks (Imase and Itoh, "A design for
//!                        directed graphs with minimum diameter", IEEE Transactions on Computers C-32(8), 1983)
//! de-bruijn:2:3          x → 2x, 2x + 1 modulo 8: a hop shifts a digit in
//! ```
//!
//! A rank has a port for each digit. A link from a rank to itself is left out, and the ports after it move down by one.

use super::circulant::MOST_DIMENSIONS;
use super::family::{check_size, Family, SpecForm};
use super::operators::line_links;
use super::{Link, Topology, TopologyError, MAX_RANKS};

pub(super) static KAUTZ: Family = Family {
    name: "kautz",
    example: "kautz:4:1",
    summary: "4 links out of each rank; the line graph, once, of the complete graph of 5",
    source: "Kautz: Bounds on directed (d, k) graphs, 1968",
    form: SpecForm::Numbers(Topology::kautz),
};

pub(super) static GENERALIZED_KAUTZ: Family = Family {
    name: "generalized-kautz",
    example: "generalized-kautz:4:1024",
    summary: "4 links out of each rank, for any number of ranks: x to -4x - 1, ... -4x - 4",
    source: "Imase, Itoh: A design for directed graphs with minimum diameter, IEEE Transactions on Computers C-32(8), 1983",
    form: SpecForm::Numbers(Topology::generalized_kautz),
};

pub(super) static DE_BRUIJN: Family = Family {
    name: "de-bruijn",
    example: "de-bruijn:2:4",
    summary: "2^4 ranks: links from x to 2x and 2x + 1, without loops",
    source: "de Bruijn: A combinatorial problem, 1946",
    form: SpecForm::Numbers(Topology::de_bruijn),
};

impl Topology {
    /// K(d, n): the line digraph, taken `n` times, of the complete graph of `d + 1` ranks. It has d^n (d + 1) ranks.
    pub fn kautz(d: usize, n: usize) -> Result<Topology, TopologyError> {
        let spec = || KAUTZ.spec(format!("{d}:{n}"));
        if d == 0 {
            return Err(KAUTZ.unfit(spec(), "ranks need a link"));
        }
        let ranks = power(d, n).and_then(|ranks| ranks.checked_mul(d.checked_add(1)?));
        let ranks = check_size(&[ranks.unwrap_or(usize::MAX)], d, spec)?;
        let complete = (0..=d).flat_map(|a| (1..=d).map(move |step| Link::between(a, (a + step) % (d + 1))));
        let (_, links) = (0..n).fold((d + 1, complete.collect()), |(nodes, links): (usize, Vec<Link>), _| {
            (links.len(), line_links(nodes, &links))
        });
        Topology::listed(spec(), ranks, links)
    }

    /// `m` ranks, with links from x to −d·x − a modulo `m` for a = 1 to `d`, but none from a rank to itself.
    pub fn generalized_kautz(d: usize, m: usize) -> Result<Topology, TopologyError> {
        let spec = || GENERALIZED_KAUTZ.spec(format!("{d}:{m}"));
        check_size(&[m], d, spec)?;
        if d == 0 {
            return Err(GENERALIZED_KAUTZ.unfit(spec(), "ranks need a link"));
        }
        let to = |x: usize, port: usize| (m - (d * x + port + 1) % m) % m;
        Topology::regular(spec(), m, d, to)
    }

    /// d^n ranks, with links from x to d·x + a for a = 0 to `d` − 1, but none from a rank to itself.
    pub fn de_bruijn(d: usize, n: usize) -> Result<Topology, TopologyError> {
        let spec = || DE_BRUIJN.spec(format!("{d}:{n}"));
        if d < 2 || n == 0 {
            return Err(DE_BRUIJN.unfit(spec(), "it needs 2 links or more, and a digit"));
        }
        let ranks = check_size(&[power(d, n).unwrap_or(usize::MAX)], d, spec)?;
        Topology::regular(spec(), ranks, d, |x, port| (d * x + port) % ranks)
    }
}

/// `d` to the power `n`; `None` where a topology cannot have that many ranks.
fn power(d: usize, n: usize) -> Option<usize> {
    let small = n <= MOST_DIMENSIONS;
    small.then(|| d.checked_pow(n as u32)).flatten().filter(|power| *power <= MAX_RANKS)
}
