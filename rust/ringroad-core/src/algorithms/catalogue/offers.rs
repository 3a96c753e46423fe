//! Constructors of offers for the rows of the catalogue.

use super::super::{Construct, CostLine, Offer, Requirement, ScheduleRequest, SearchCost, SearchFunction};
use crate::collective::Collective;
use crate::schedule::Schedule;

pub(super) const ALLREDUCE: Collective = Collective::Allreduce;
pub(super) const REDUCE_SCATTER: Collective = Collective::ReduceScatter;
pub(super) const ALLGATHER: Collective = Collective::Allgather;
pub(super) const BROADCAST: Collective = Collective::Broadcast { root: 0 };
pub(super) const REDUCE: Collective = Collective::Reduce { root: 0 };
pub(super) const GATHER: Collective = Collective::Gather { root: 0 };
pub(super) const SCATTER: Collective = Collective::Scatter { root: 0 };
pub(super) const ALLTOALL: Collective = Collective::Alltoall;
pub(super) const SCAN: Collective = Collective::Scan;
pub(super) const EXSCAN: Collective = Collective::Exscan;

pub(super) type ScheduleFunction = fn(&ScheduleRequest<'_>) -> Schedule;
pub(super) type PartsFunction = fn(&ScheduleRequest<'_>) -> [Schedule; 2];
pub(super) type CostFunction = fn(&ScheduleRequest<'_>) -> CostLine;

pub(super) const fn offer(
    collective: Collective,
    requirement: Requirement,
    make: ScheduleFunction,
    cost: CostFunction,
) -> Offer {
    let construct = Construct::Always(make, cost);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// An offer of two schedules that run one after the other.
pub(super) const fn in_turn(
    collective: Collective,
    requirement: Requirement,
    parts: PartsFunction,
    cost: CostFunction,
) -> Offer {
    let construct = Construct::InTurn(parts, cost);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// An offer whose schedule is found by a search.
pub(super) const fn found(collective: Collective, requirement: Requirement, search: SearchFunction) -> Offer {
    let construct = Construct::Search(search, None);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// Offers of reduce-scatter, allgather and allreduce whose schedules are found by a search, and their cost without it.
pub(super) const fn found_phases(
    requirement: Requirement,
    search: SearchFunction,
    cost: SearchCost,
) -> [Offer; 3] {
    const fn costed(offer: Offer, search: SearchFunction, cost: SearchCost) -> Offer {
        Offer { construct: Construct::Search(search, Some(cost)), ..offer }
    }
    [
        costed(found(ALLREDUCE, requirement, search), search, cost),
        costed(found(REDUCE_SCATTER, requirement, search), search, cost),
        costed(found(ALLGATHER, requirement, search), search, cost),
    ]
}

/// An offer that adds every element up in the order of the ranks.
pub(super) const fn in_rank_order(offer: Offer) -> Offer {
    Offer { in_rank_order: true, ..offer }
}

/// An offer for these values of the family's parameter only.
pub(super) const fn only(values: fn(usize) -> bool, offer: Offer) -> Offer {
    Offer { only: Some(values), ..offer }
}

/// Offers of reduce-scatter, allgather and, with twice the cost, allreduce.
pub(super) const fn phases(
    requirement: Requirement,
    construct: ScheduleFunction,
    costs: [CostFunction; 2],
) -> [Offer; 3] {
    let [phase, both] = costs;
    [
        offer(ALLREDUCE, requirement, construct, both),
        offer(REDUCE_SCATTER, requirement, construct, phase),
        offer(ALLGATHER, requirement, construct, phase),
    ]
}
