//! Explains why a call uses its algorithm.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Choice, Selection};
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::cost::{
    keep_ascending, rank, Candidate, CandidateCost, Comparison, CostModel, Origin, Ranked, SwitchRange,
    SwitchTable, TableError, Term, TimeTerms,
};
use crate::topology::Topology;
use crate::units::Bytes;

/// Why a call uses its algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The spec of the network.
    pub topology: String,
    /// The name of the collective.
    pub collective: &'static str,
    /// The size of the vector.
    pub bytes: Bytes,
    /// What runs.
    pub algorithm: Member,
    /// Why the algorithm was chosen.
    pub origin: Origin,
    /// The smallest and the largest size around `bytes` for which this choice holds; `None`: there is no largest.
    pub range: (Bytes, Option<Bytes>),
    /// What predicts the times.
    pub model: CostModel,
    /// All candidates with their costs, the fastest by the model first; also those that may not be chosen for this data.
    pub candidates: Vec<CandidateCost>,
    /// The best of the others that may be chosen; `None` where there is no other.
    pub runner_up: Option<Member>,
    /// [`Comparison::margin`].
    pub margin: Option<f64>,
    /// [`Comparison::best`].
    pub terms: Option<TimeTerms>,
    /// [`Comparison::rival`].
    pub runner_up_terms: Option<TimeTerms>,
    /// [`Comparison::bytes`].
    pub runner_up_bytes: Option<(Bytes, Option<Bytes>)>,
    /// [`Comparison::factors`].
    pub factors: BTreeMap<Term, f64>,
}

/// Which algorithm is chosen for which size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// The name of the collective.
    pub collective: &'static str,
    /// The spec of the network.
    pub topology: String,
    /// The choice for floats, for some sizes.
    pub sizes: Vec<Explanation>,
    /// The choice for all sizes, by the kind of data.
    pub switch_points: SwitchPoints,
}

/// The choice for all sizes, by the kind of data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchPoints {
    /// For floats.
    pub floats: Vec<SwitchRange>,
    /// For data whose reduction does not depend on the order.
    pub integers: Vec<SwitchRange>,
}

/// All algorithms for a collective on a network with their costs, and the choice among them.
pub struct Contest<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// What predicts the times.
    pub model: &'a CostModel,
    /// All candidates.
    pub candidates: &'a [Candidate],
    /// The choice among them.
    pub choice: &'a Choice,
}

impl Choice {
    /// The fastest of the candidates by the cost model. For floats, only those that give all ranks the same bits, if there
    /// are any.
    pub fn by_cost(
        collective: Collective,
        model: &CostModel,
        candidates: &[Candidate],
    ) -> Result<Choice, TableError> {
        let among = |keep: &dyn Fn(&Candidate) -> bool| -> Result<Selection, TableError> {
            let some = candidates.iter().filter(|candidate| keep(candidate));
            let table = SwitchTable::build(model, some.clone())?;
            Ok(Selection { table, among: some.map(|candidate| candidate.member).collect() })
        };
        let any = among(&|_| true)?;
        let bit_identical = candidates.iter().filter(|candidate| candidate.bit_identical).count();
        let floats = match bit_identical {
            0 => any.clone(),
            all if all == candidates.len() => any.clone(),
            _ => among(&|candidate| candidate.bit_identical)?,
        };
        Ok(Choice { collective, floats, any })
    }

    /// The selection for floats, or for data whose reduction does not depend on the order.
    pub fn selection(&self, any_order: bool) -> &Selection {
        if any_order {
            &self.any
        } else {
            &self.floats
        }
    }
}

impl Contest<'_> {
    /// The choice for all sizes, and the reasons for these.
    pub fn overview(&self, sizes: &[Bytes]) -> Overview {
        let ranges = |selection: &Selection| selection.table.ranges().to_vec();
        Overview {
            collective: self.choice.collective.name(),
            topology: self.topology.spec(),
            sizes: sizes.iter().map(|bytes| self.explain(*bytes, false)).collect(),
            switch_points: SwitchPoints {
                floats: ranges(&self.choice.floats),
                integers: ranges(&self.choice.any),
            },
        }
    }

    /// Why the choice is what it is for `bytes`.
    pub fn explain(&self, bytes: Bytes, any_order: bool) -> Explanation {
        let Selection { table, among } = self.choice.selection(any_order);
        let SwitchRange { from_bytes, algorithm, origin } = *table.range(bytes);
        let next = table.ranges().iter().map(|range| range.from_bytes).find(|from| *from > bytes);
        let ranked = self.ranked(algorithm, origin, among, bytes);
        let find = |member: Member| ranked.iter().map(|row| row.candidate).find(|c| c.member == member);
        let rivals = ranked.iter().map(|row| row.candidate.member).filter(|member| among.contains(member));
        let rival = rivals.filter(|member| *member != algorithm).find_map(find);
        let found = find(algorithm).zip(rival);
        let found =
            found.map(|(best, rival)| (rival, Comparison::from_candidates(self.model, best, rival, bytes)));
        let (runner_up, comparison) = found.unzip();
        Explanation {
            topology: self.topology.spec(),
            collective: self.choice.collective.name(),
            bytes,
            algorithm,
            origin,
            range: (from_bytes, next.map(|next| next - 1)),
            model: *self.model,
            candidates: ranked.iter().map(|row| self.cost(row, bytes)).collect(),
            runner_up: runner_up.map(|rival| rival.member),
            margin: comparison.as_ref().map(|found| found.margin),
            terms: comparison.as_ref().map(|found| found.best),
            runner_up_terms: comparison.as_ref().map(|found| found.rival),
            runner_up_bytes: comparison.as_ref().and_then(|found| found.bytes),
            factors: comparison.map(|found| found.factors).unwrap_or_default(),
        }
    }

    /// All candidates; what is chosen by its predicted time leads those that may be chosen.
    fn ranked(&self, chosen: Member, origin: Origin, among: &[Member], bytes: Bytes) -> Vec<Ranked<'_>> {
        let mut ranked = rank(self.model, self.candidates, bytes);
        let first = ranked.iter().position(|row| among.contains(&row.candidate.member));
        let place = ranked.iter().position(|row| row.candidate.member == chosen);
        if let (Some(first), Some(place), Origin::Model) = (first, place, origin) {
            if first < place {
                ranked[first..=place].rotate_right(1);
                keep_ascending(&mut ranked[first..]);
            }
        }
        ranked
    }

    fn cost(&self, row: &Ranked<'_>, bytes: Bytes) -> CandidateCost {
        let cost = self.model.cost(&row.candidate.cost, self.choice.collective, self.topology, bytes);
        CandidateCost::new(row, cost)
    }
}
