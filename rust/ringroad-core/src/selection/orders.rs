//! The orders in which algorithms add up, for results that do not depend on the size of a call.

use std::collections::BTreeMap;

use crate::algorithms::{Member, Unavailable};
use crate::collective::Collective;
use crate::cost::{Candidate, CostModel};
use crate::schedule::{Expression, Expressions};
use crate::topology::Topology;

/// The order in which an algorithm adds up every element.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AdditionOrder {
    /// The expression for every root, or a single one where there is no root. Expressions of the same root are
    /// comparable.
    Known(Vec<Expression>),
    /// An order that would take too long to compare with those of other algorithms. The name is the algorithm's, so
    /// that the order equals only itself.
    Own(Member),
}

/// The most places that are replayed for all roots together: those of a tree on 1024 ranks.
const MOST_PLACES: usize = 1 << 20;

/// The order in which each algorithm adds up every element. Algorithms that add up elements in different orders are
/// absent.
pub(super) fn orders(
    topology: &Topology,
    collective: Collective,
    members: &[Member],
) -> Result<BTreeMap<Member, AdditionOrder>, Unavailable> {
    let roots = if collective.root().is_some() { topology.ranks() } else { 1 };
    let mut orders: BTreeMap<Member, AdditionOrder> =
        members.iter().map(|member| (*member, AdditionOrder::Known(Vec::new()))).collect();
    for root in 0..roots {
        // One root at a time, so that the expressions of all roots need not be kept.
        let mut expressions = Expressions::new(topology.ranks());
        for member in members {
            let Some(AdditionOrder::Known(known)) = orders.get_mut(member) else { continue };
            let collective = collective.with_root(root);
            if member.in_rank_order(collective) {
                known.push(expressions.in_rank_order());
                continue;
            }
            let schedule = member.build(topology, collective)?;
            let places = schedule.ranks * schedule.slots() * schedule.chunks;
            let too_many = roots > 1 && places.saturating_mul(roots) > MOST_PLACES;
            let expression = if too_many { None } else { expressions.expression_of(&schedule) };
            match expression {
                Some(expression) => known.push(expression),
                // The result at the root has one chunk, and so one expression.
                None if too_many && schedule.chunks == 1 => {
                    orders.insert(*member, AdditionOrder::Own(*member));
                }
                None => {
                    orders.remove(member);
                }
            }
        }
    }
    Ok(orders)
}

/// The sizes at which orders are compared, as powers of two: typical sizes of calls.
const TYPICAL: std::ops::Range<u32> = 3..28;

/// The candidates that add up every element in the same order, for the order with the least geometric mean of the time
/// over typical sizes; `None` where no candidate has an order.
pub(super) fn one_order(
    model: &CostModel,
    candidates: &[Candidate],
    orders: &BTreeMap<Member, AdditionOrder>,
) -> Option<Vec<Candidate>> {
    let mut families: BTreeMap<&AdditionOrder, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(order) = orders.get(&candidate.member) {
            families.entry(order).or_default().push(candidate.clone());
        }
    }
    let time = |family: &[Candidate]| -> f64 {
        let best = |bytes| family.iter().map(|c| c.seconds(model, bytes)).fold(f64::INFINITY, f64::min);
        TYPICAL.map(|power| best(1 << power).ln()).sum()
    };
    families.into_values().min_by(|a, b| time(a).total_cmp(&time(b)))
}
