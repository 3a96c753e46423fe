//! Graphs whose ranks are the numbers modulo n and whose port `p` adds the same number at every rank: circulants,
//! complete graphs, and rings with parallel links. A rotation maps each port to itself, so one rank's links determine
//! all others'.
//!
//! ```text
//! circulant:8:1,3    0 ── 1, 7, 3, 5       ports: + first offset, − first offset, + second offset, ...
//! directed-circulant:8:1,3    0 → 1, 3     a port for each offset
//! complete:4                  0 → 1, 2, 3  port p leads to rank + p + 1
//! complete-bipartite:3        0 → 1, 3, 5  even ranks and odd ones, of 6
//! biring:4:5         0 ═══ 1 ═══ 2 ...     ports: up, down, up, down, ...
//! uniring:2:5        0 ══> 1 ══> 2 ...
//! ```
//!
//! Links come rank by rank, and port by port within a rank.

use super::family::{check_size, Family, SpecForm};
use super::{hyperx, text, Link, Topology, TopologyError, MAX_LINKS};

pub(super) static CIRCULANT: Family = Family {
    name: "circulant",
    example: "circulant:16:3,4",
    summary: "16 ranks, each with cables to the ranks 3 and 4 further up and down",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::List(|n, offsets| Some(Topology::circulant(text::number(n)?, &text::numbers(offsets)?))),
};

pub(super) static DIRECTED_CIRCULANT: Family = Family {
    name: "directed-circulant",
    example: "directed-circulant:8:1,3",
    summary: "8 ranks, each with links to the ranks 1 and 3 further up",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::List(|n, offsets| {
        Some(Topology::directed_circulant(text::number(n)?, &text::numbers(offsets)?))
    }),
};

pub(super) static COMPLETE: Family = Family {
    name: "complete",
    example: "complete:5",
    summary: "a link to every other rank",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Number(Topology::complete),
};

pub(super) static COMPLETE_BIPARTITE: Family = Family {
    name: "complete-bipartite",
    example: "complete-bipartite:4",
    summary: "two sides of 4 ranks, with all cables across; 3x5 for sides of 3 and 5",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Parts(|parts| match (parts.len(), &text::sizes(parts.first()?)?[..]) {
        (1, [n]) => Some(Topology::complete_bipartite(*n, *n)),
        (1, [a, b]) => Some(Topology::complete_bipartite(*a, *b)),
        _ => None,
    }),
};

pub(super) static HAMMING: Family = Family {
    name: "hamming",
    example: "hamming:2:3",
    summary: "2 dimensions of 3: wired as hyperx:3x3, with a port for every link and no grid",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Numbers(Topology::hamming),
};

pub(super) static UNIRING: Family = Family {
    name: "uniring",
    example: "uniring:4:5",
    summary: "5 ranks in one direction, by 4 parallel links",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Numbers(Topology::uniring),
};

pub(super) static BIRING: Family = Family {
    name: "biring",
    example: "biring:2:5",
    summary: "5 ranks, 2 links out of each: half up, half down",
    source:
        "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356)",
    form: SpecForm::Numbers(Topology::biring),
};

impl Topology {
    /// `n` ranks, each with cables to the ranks that are one of the offsets up and down. An offset of half of `n` leads
    /// to the same rank up and down, and has one link. An offset that is given twice has parallel links.
    pub fn circulant(n: usize, offsets: &[usize]) -> Result<Topology, TopologyError> {
        let spec = || CIRCULANT.spec(format!("{n}:{}", text::list(offsets)));
        check_offsets(&CIRCULANT, n, 2 * offsets.len(), offsets, spec)?;
        let both = |offset: &usize| {
            let opposite = n - offset;
            [*offset].into_iter().chain((opposite != *offset).then_some(opposite))
        };
        shifted(spec(), n, &offsets.iter().flat_map(both).collect::<Vec<usize>>())
    }

    /// `n` ranks, each with links to the ranks that are one of the offsets up. An offset that is given twice has
    /// parallel links.
    pub fn directed_circulant(n: usize, offsets: &[usize]) -> Result<Topology, TopologyError> {
        let spec = || DIRECTED_CIRCULANT.spec(format!("{n}:{}", text::list(offsets)));
        check_offsets(&DIRECTED_CIRCULANT, n, offsets.len(), offsets, spec)?;
        shifted(spec(), n, offsets)
    }

    /// `n` ranks with a link from every rank to every other one.
    pub fn complete(n: usize) -> Result<Topology, TopologyError> {
        let spec = || COMPLETE.spec(n);
        check_size(&[n], n.saturating_sub(1), spec)?;
        shifted(spec(), n, &(1..n).collect::<Vec<usize>>())
    }

    /// Two sides of `a` and `b` ranks, and a cable between any two ranks of different sides. Sides of the same size are
    /// the even and the odd ranks, which makes all ranks alike. Otherwise the first side's ranks come first.
    pub fn complete_bipartite(a: usize, b: usize) -> Result<Topology, TopologyError> {
        let sizes = if a == b { a.to_string() } else { format!("{a}x{b}") };
        let spec = || COMPLETE_BIPARTITE.spec(&sizes);
        if a == 0 || b == 0 {
            return Err(TopologyError::Zero(spec()));
        }
        let ranks = check_size(&[a.saturating_add(b)], 0, spec)?;
        if 2 * a * b > MAX_LINKS {
            return Err(TopologyError::TooManyLinks(spec()));
        }
        if a == b {
            return shifted(spec(), ranks, &(1..ranks).step_by(2).collect::<Vec<usize>>());
        }
        let other = |rank| if rank < a { a..ranks } else { 0..a };
        let links = (0..ranks).flat_map(|rank| other(rank).map(move |to| Link::between(rank, to)));
        Topology::listed(spec(), ranks, links.collect())
    }

    /// The `n`-th power of a complete graph of `q` ranks. The wiring is that of a HyperX with `n` equal sizes, but
    /// there is no grid, and every link has a port of its own.
    pub fn hamming(n: usize, q: usize) -> Result<Topology, TopologyError> {
        let spec = || HAMMING.spec(format!("{n}:{q}"));
        if n == 0 {
            return Err(HAMMING.unfit(spec(), "it needs a dimension"));
        }
        if n > MOST_DIMENSIONS {
            return Err(TopologyError::TooLarge(spec()));
        }
        let sizes = vec![q; n];
        let ranks = check_size(&sizes, 0, spec)?;
        check_size(&sizes, hyperx::degree(&sizes), spec)?;
        Topology::listed(spec(), ranks, hyperx::links(&sizes))
    }

    /// A ring of `m` ranks in one direction, with `d` parallel links from each to the next.
    pub fn uniring(d: usize, m: usize) -> Result<Topology, TopologyError> {
        let spec = || UNIRING.spec(format!("{d}:{m}"));
        check_size(&[m], d, spec)?;
        if d == 0 {
            return Err(UNIRING.unfit(spec(), "it needs a link from each rank to the next"));
        }
        shifted(spec(), m, &vec![1; d])
    }

    /// A ring of `m` ranks with `d` links out of each, half of them up and half of them down.
    pub fn biring(d: usize, m: usize) -> Result<Topology, TopologyError> {
        let spec = || BIRING.spec(format!("{d}:{m}"));
        check_size(&[m], d, spec)?;
        if d == 0 || !d.is_multiple_of(2) {
            return Err(
                BIRING.unfit(spec(), "as many links lead up as down, so their number is even and not 0")
            );
        }
        shifted(spec(), m, &[1, m - 1].repeat(d / 2))
    }
}

/// The most dimensions of a product. More would make too many ranks, or have sizes of 1, which add nothing.
pub(super) const MOST_DIMENSIONS: usize = super::MAX_RANKS.ilog2() as usize;

fn check_offsets(
    family: &Family,
    n: usize,
    links: usize,
    offsets: &[usize],
    spec: impl Fn() -> String,
) -> Result<(), TopologyError> {
    check_size(&[n], links, &spec)?;
    if offsets.is_empty() || offsets.iter().any(|offset| !(1..n).contains(offset)) {
        return Err(family.unfit(spec(), "offsets are at least 1 and less than the number of ranks"));
    }
    Ok(())
}

/// The graph of the numbers modulo `n` in which port `p` adds `steps[p]`.
fn shifted(spec: String, n: usize, steps: &[usize]) -> Result<Topology, TopologyError> {
    Topology::regular(spec, n, steps.len(), |rank, port| (rank + steps[port]) % n)
}
