//! Explains why a call uses its algorithm.

use serde::{Deserialize, Serialize};

use crate::algorithms::Member;
use crate::collective::Collective;
use crate::cost::{
    rank, Candidate, Comparison, CostModel, Origin, Ranked, ScheduleCost, SwitchRange, SwitchTable,
};
use crate::topology::Topology;
use crate::units::Bytes;

/// Why a call uses its algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The network.
    pub topology: Topology,
    /// The collective.
    pub collective: Collective,
    /// The size of the vector.
    pub bytes: Bytes,
    /// What runs.
    pub algorithm: Member,
    /// Why the algorithm was chosen.
    pub origin: Origin,
    /// The smallest and the largest size around `bytes` for which this choice holds.
    pub range: (Bytes, Bytes),
    /// All candidates with their costs, the fastest by the model first.
    pub candidates: Vec<(Ranked, ScheduleCost)>,
    /// The best of the other candidates, and how it compares; `None` where there is no other.
    pub runner_up: Option<(Member, Comparison)>,
}

/// Why `table`, which was made from these candidates, has its algorithm for `bytes`.
pub fn explain(
    topology: &Topology,
    model: &CostModel,
    candidates: &[Candidate],
    table: &SwitchTable,
    collective: Collective,
    bytes: Bytes,
) -> Explanation {
    let SwitchRange { from_bytes, algorithm, origin } = *table.range(bytes);
    let next = table.ranges().iter().map(|range| range.from_bytes).find(|from| *from > bytes);
    let ranked = rank(model, candidates, bytes);
    let find = |member: Member| candidates.iter().find(|candidate| candidate.member == member);
    let other = ranked.iter().map(|row| row.member).find(|member| *member != algorithm).and_then(find);
    let runner_up = find(algorithm)
        .zip(other)
        .map(|(best, rival)| (rival.member, Comparison::of(model, best, rival, bytes)));
    let range = (from_bytes, next.map_or(Bytes::MAX, |next| next - 1));
    let with_cost = |row: Ranked| {
        let cost = find(row.member).map(|candidate| candidate.cost.clone()).unwrap_or_default();
        (row, cost)
    };
    let candidates = ranked.into_iter().map(with_cost).collect();
    Explanation {
        topology: topology.clone(),
        collective,
        bytes,
        algorithm,
        origin,
        range,
        candidates,
        runner_up,
    }
}
