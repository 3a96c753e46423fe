//! All networks of a size that can be made of bases, without building any of them: the steps and bandwidth terms follow
//! by a formula from those of the parts (Zhao et al., arXiv 2202.03356, sections 5.1 to 5.3).
//!
//! | made of G with N ranks, degree d | ranks | degree | steps | bandwidth term |
//! |---|---|---|---|---|
//! | line(G) | dN | d | +1 | +1/N |
//! | degree(G, n) | nN | nd | +1; unchanged but at least 2 if all links have a reverse link | +(n-1)/(nN) |
//! | power(G, n) | N^n | nd | times n | times N/(N-1) (N^n-1)/N^n |
//! | product(G, H), both with the least term | product | sum | sum | the least |
//! | bidirectional(G), if both directions take equally long | N | 2d | unchanged | unchanged |
//!
//! The expanded schedules of [`ringroad_core::synthesis::expand`] cost this or less. Breadth-first broadcast on the
//! network itself takes no more steps than these; its bandwidth term is mostly the same or smaller, but not always.

use std::rc::Rc;

use ringroad_core::synthesis::Ratio;

use super::bases::{bases, BaseNetwork, Name};
use super::evaluate::GraphCost;
use super::table::{GraphKind, GraphTable, TableEntry};

/// A network and its costs.
#[derive(Debug, Clone)]
pub(super) struct CostedNetwork {
    pub(super) ranks: usize,
    pub(super) degree: usize,
    pub(super) cost: GraphCost,
    /// Whether every link has a reverse link.
    pub(super) undirected: bool,
    /// Whether all ranks have as many links as the degree says.
    pub(super) regular: bool,
    how: Construction,
}

/// How a network is made.
#[derive(Debug, Clone)]
enum Construction {
    Base(Name),
    Line(Rc<CostedNetwork>),
    Degree(Rc<CostedNetwork>, usize),
    Power(Rc<CostedNetwork>, usize),
    Product(Rc<CostedNetwork>, Rc<CostedNetwork>),
    Bidirectional(Rc<CostedNetwork>),
}

impl CostedNetwork {
    /// The network's spec.
    pub(super) fn spec(&self) -> String {
        match &self.how {
            Construction::Base(name) => name.spec(self.ranks, self.degree),
            Construction::Line(network) => format!("line({})", network.spec()),
            Construction::Degree(network, copies) => format!("degree({}, {copies})", network.spec()),
            Construction::Power(network, times) => format!("power({}, {times})", network.spec()),
            Construction::Product(left, right) => format!("product({}, {})", left.spec(), right.spec()),
            Construction::Bidirectional(network) => format!("bidirectional({})", network.spec()),
        }
    }

    /// Whether it is the network of this table entry.
    pub(super) fn is(&self, entry: &TableEntry) -> bool {
        match &self.how {
            Construction::Base(Name::Drawn(number, undirected)) => {
                entry.kind != GraphKind::Kautz
                    && (*number, *undirected) == (entry.number, entry.kind == GraphKind::Undirected)
            }
            Construction::Base(Name::Spec(spec)) => {
                entry.kind == GraphKind::Kautz && spec.starts_with("generalized-kautz")
            }
            _ => false,
        }
    }

    /// Whether it is made of other networks.
    pub(super) fn is_made(&self) -> bool {
        !matches!(self.how, Construction::Base(_))
    }

    /// Whether the costs are those of a schedule that is expanded from a smaller network's.
    pub(super) fn is_expanded(&self) -> bool {
        self.is_made() && !matches!(self.how, Construction::Product(..))
    }

    /// Whether it is at least as good as the other one in every respect.
    fn replaces(&self, other: &CostedNetwork) -> bool {
        self.cost.is_as_good_as(&other.cost)
            && self.undirected >= other.undirected
            && self.regular >= other.regular
    }

    fn is_optimal(&self) -> bool {
        self.cost.is_optimal(self.ranks)
    }
}

impl BaseNetwork {
    fn point(self, ranks: usize, degree: usize) -> CostedNetwork {
        let BaseNetwork { name, cost, undirected, regular } = self;
        CostedNetwork { ranks, degree, cost, undirected, regular, how: Construction::Base(name) }
    }
}

/// Changes both bandwidth terms in the same way.
fn with_terms(cost: &GraphCost, steps: usize, change: impl Fn(Ratio) -> Ratio) -> GraphCost {
    GraphCost {
        steps,
        allgather: change(cost.allgather),
        reduce_scatter: change(cost.reduce_scatter),
        ..*cost
    }
}

fn line(network: &Rc<CostedNetwork>) -> CostedNetwork {
    let term = Ratio::new(1u64, network.ranks as u64);
    let cost = with_terms(&network.cost, network.cost.steps + 1, |old| old + term);
    let (ranks, how) = (network.ranks * network.degree, Construction::Line(network.clone()));
    CostedNetwork { ranks, degree: network.degree, cost, undirected: false, regular: true, how }
}

fn degree(network: &Rc<CostedNetwork>, copies: usize) -> CostedNetwork {
    let term = Ratio::new(copies as u64 - 1, (copies * network.ranks) as u64);
    // With reverse links, a copy's block returns in the second step, evenly over all links.
    let steps = if network.undirected { network.cost.steps.max(2) } else { network.cost.steps + 1 };
    let cost = with_terms(&network.cost, steps, |old| old + term);
    let how = Construction::Degree(network.clone(), copies);
    CostedNetwork { ranks: network.ranks * copies, degree: network.degree * copies, cost, how, ..**network }
}

fn power(network: &Rc<CostedNetwork>, times: u32, ranks: usize) -> CostedNetwork {
    let (n, all) = (network.ranks as u64, ranks as u64);
    let factor = Ratio::new(n, n - 1) * Ratio::new(all - 1, all);
    let cost = with_terms(&network.cost, network.cost.steps * times as usize, |old| old * factor);
    let how = Construction::Power(network.clone(), times as usize);
    CostedNetwork { ranks, degree: network.degree * times as usize, cost, how, ..**network }
}

fn product(left: &Rc<CostedNetwork>, right: &Rc<CostedNetwork>) -> CostedNetwork {
    let ranks = left.ranks * right.ranks;
    CostedNetwork {
        ranks,
        degree: left.degree + right.degree,
        cost: GraphCost::optimal(ranks, left.cost.steps + right.cost.steps),
        undirected: left.undirected && right.undirected,
        regular: true,
        how: Construction::Product(left.clone(), right.clone()),
    }
}

fn bidirectional(network: &Rc<CostedNetwork>) -> CostedNetwork {
    CostedNetwork {
        degree: 2 * network.degree,
        undirected: true,
        how: Construction::Bidirectional(network.clone()),
        ..**network
    }
}

/// The best networks of some sizes, for all degrees up to a limit.
pub(super) struct Closure {
    /// Sizes in ascending order, each with the points of every degree.
    sizes: Vec<(usize, Vec<Vec<Rc<CostedNetwork>>>)>,
}

impl Closure {
    /// Computes the networks of these sizes, in ascending order, each made of smaller ones.
    pub(super) fn from_table(
        table: &GraphTable,
        sizes: impl Iterator<Item = usize>,
        degree: usize,
    ) -> Closure {
        let mut closure = Closure { sizes: Vec::new() };
        for ranks in sizes.filter(|ranks| *ranks > 1) {
            closure.sizes.push((ranks, vec![Vec::new(); degree + 1]));
            for degree in 1..=degree {
                let points = closure.best(table, ranks, degree);
                let (_, degrees) = closure.sizes.last_mut().expect("one was just added");
                degrees[degree] = points;
            }
        }
        closure
    }

    /// The points of a size and a degree. None of them replaces another.
    pub(super) fn points(&self, ranks: usize, degree: usize) -> &[Rc<CostedNetwork>] {
        let found = self.sizes.binary_search_by_key(&ranks, |size| size.0);
        found.ok().and_then(|at| self.sizes[at].1.get(degree)).map_or(&[], Vec::as_slice)
    }

    fn best(&self, table: &GraphTable, ranks: usize, out: usize) -> Vec<Rc<CostedNetwork>> {
        let mut kept = Vec::new();
        for base in bases(table, ranks, out) {
            keep(&mut kept, base.point(ranks, out));
        }
        let regular =
            |size: usize, degree: usize| self.points(size, degree).iter().filter(|point| point.regular);
        if out.is_multiple_of(2) {
            regular(ranks, out / 2)
                .filter(|point| point.cost.even)
                .for_each(|p| keep(&mut kept, bidirectional(p)));
        }
        if out > 1 && ranks.is_multiple_of(out) {
            regular(ranks / out, out).for_each(|point| keep(&mut kept, line(point)));
        }
        for n in (2..=out).filter(|n| out.is_multiple_of(*n)) {
            if ranks.is_multiple_of(n) {
                regular(ranks / n, out / n).for_each(|point| keep(&mut kept, degree(point, n)));
            }
            for point in root(ranks, n as u32).into_iter().flat_map(|root| regular(root, out / n)) {
                keep(&mut kept, power(point, n as u32, ranks));
            }
        }
        for (size, degrees) in &self.sizes {
            if size * size > ranks || !ranks.is_multiple_of(*size) {
                continue;
            }
            for (own, left) in degrees.iter().enumerate().take(out) {
                let Some(left) = fastest(left) else { continue };
                if let Some(right) = fastest(self.points(ranks / size, out - own)) {
                    keep(&mut kept, product(left, right));
                }
                let cabled = fastest_undirected(&degrees[own]);
                if let (Some(left), Some(right)) =
                    (cabled, fastest_undirected(self.points(ranks / size, out - own)))
                {
                    keep(&mut kept, product(left, right));
                }
            }
        }
        kept
    }
}

fn keep(kept: &mut Vec<Rc<CostedNetwork>>, point: CostedNetwork) {
    if !kept.iter().any(|other| other.replaces(&point)) {
        kept.retain(|other| !point.replaces(other));
        kept.push(Rc::new(point));
    }
}

/// The point with the fewest steps among those with the least bandwidth term.
fn fastest(points: &[Rc<CostedNetwork>]) -> Option<&Rc<CostedNetwork>> {
    points.iter().filter(|point| point.is_optimal() && point.regular).min_by_key(|point| point.cost.steps)
}

fn fastest_undirected(points: &[Rc<CostedNetwork>]) -> Option<&Rc<CostedNetwork>> {
    let points = points.iter().filter(|point| point.is_optimal() && point.undirected);
    points.min_by_key(|point| point.cost.steps)
}

/// The whole number whose power `n` is `number`, if there is one.
fn root(number: usize, n: u32) -> Option<usize> {
    let near = (number as f64).powf(1.0 / f64::from(n)).round() as usize;
    (near.saturating_sub(1)..=near + 1).find(|root| *root > 1 && root.checked_pow(n) == Some(number))
}
