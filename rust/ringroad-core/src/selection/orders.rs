//! In which orders algorithms add up, so that results need not depend on the size of a call.

use std::collections::BTreeMap;

use crate::algorithms::{Member, Unavailable};
use crate::collective::Collective;
use crate::cost::{Candidate, CostModel};
use crate::schedule::{Expression, Expressions};
use crate::topology::Topology;

/// In which order an algorithm adds up every element.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// For every root, where there is one. Those of one root can be compared.
    Known(Vec<Expression>),
    /// In some order, which it would take too long to compare with that of any other algorithm than this.
    Own(Member),
}

/// Places that are replayed for all roots together, at most: a tree on 1024 ranks.
const MOST_PLACES: usize = 1 << 20;

/// The order in which each algorithm adds up every element, where it has one.
pub(super) fn orders(
    topology: &Topology,
    collective: Collective,
    members: &[Member],
) -> Result<BTreeMap<Member, Order>, Unavailable> {
    let roots = if collective.root().is_some() { topology.ranks() } else { 1 };
    let mut orders: BTreeMap<Member, Order> =
        members.iter().map(|member| (*member, Order::Known(Vec::new()))).collect();
    for root in 0..roots {
        // Roots are looked at one by one, and not all their expressions kept.
        let mut expressions = Expressions::new(topology.ranks());
        for member in members {
            let Some(Order::Known(known)) = orders.get_mut(member) else { continue };
            let collective = collective.with_root(root);
            if member.in_rank_order(collective) {
                known.push(expressions.in_rank_order());
                continue;
            }
            let schedule = member.build(topology, collective)?;
            let places = schedule.ranks * schedule.slots() * schedule.chunks;
            let too_many = roots > 1 && places.saturating_mul(roots) > MOST_PLACES;
            let expression = if too_many { None } else { expressions.of(&schedule) };
            match expression {
                Some(expression) => known.push(expression),
                // The root's result is of one chunk, and so of one expression.
                None if too_many && schedule.chunks == 1 => {
                    orders.insert(*member, Order::Own(*member));
                }
                None => {
                    orders.remove(member);
                }
            }
        }
    }
    Ok(orders)
}

/// Sizes at which orders are compared: powers of two that calls have.
const TYPICAL: std::ops::Range<u32> = 3..28;

/// The candidates that add up every element in one and the same order: of all orders the one with which calls of all
/// sizes take the least time, as the geometric mean has it.
pub(super) fn one_order(
    model: &CostModel,
    candidates: &[Candidate],
    orders: &BTreeMap<Member, Order>,
) -> Option<Vec<Candidate>> {
    let mut families: BTreeMap<&Order, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(order) = orders.get(&candidate.member) {
            families.entry(order).or_default().push(candidate.clone());
        }
    }
    let time = |family: &[Candidate]| -> f64 {
        let best = |bytes| family.iter().map(|c| model.seconds(&c.cost, bytes)).fold(f64::INFINITY, f64::min);
        TYPICAL.map(|power| best(1 << power).ln()).sum()
    };
    families.into_values().min_by(|a, b| time(a).total_cmp(&time(b)))
}
