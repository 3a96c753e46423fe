//! What calls with a wire format would take, and how large their errors may be.

use serde::Serialize;

use super::Contest;
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::cost::Candidate;
use crate::schedule::Rounding;
use crate::units::{Bytes, Seconds};
use crate::wire::Wire;

/// A wire format, and the fastest algorithm with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormatCost {
    /// The name of the format; `exact` where elements are sent as they are.
    pub wire: &'static str,
    /// The algorithm.
    pub algorithm: Member,
    /// What it is predicted to take, with encoding and decoding.
    pub seconds: Seconds,
    /// The bytes that are sent for a vector.
    pub bytes: Bytes,
    /// The most roundings on the way of a rank's value into the result.
    pub roundings: u32,
    /// The most by which the result differs from the exact one, as a fraction of the sum of the ranks' largest magnitudes.
    pub bound: f64,
}

/// Whether calls of this collective take a format.
fn takes_formats(collective: Collective) -> bool {
    use Collective::{Allgather, Allreduce, Alltoall, Broadcast, ReduceScatter};
    matches!(collective, Allreduce | ReduceScatter | Allgather | Broadcast { .. } | Alltoall)
}

impl Contest<'_> {
    /// For exact elements and for every format that shortens elements of `element_bytes` bytes, the fastest algorithm
    /// whose error has the bound `max_error`, the fastest first. Formats with which none has it for every vector are left
    /// out. `element_bytes`: 0 for elements that are always exact.
    pub fn formats(&self, bytes: Bytes, element_bytes: usize, max_error: f64) -> Vec<FormatCost> {
        let is_safe = |wire: &Wire| wire.is_bounded() || max_error == f64::INFINITY;
        let has = |wire: &Wire| {
            takes_formats(self.choice.collective) && wire.shortens(element_bytes) && is_safe(wire)
        };
        let all = Wire::ALL.into_iter().filter(has).map(Some);
        let cost = |wire| self.format(wire, bytes, element_bytes, max_error);
        let mut found: Vec<FormatCost> = std::iter::once(None).chain(all).filter_map(cost).collect();
        found.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        found
    }

    fn format(
        &self,
        wire: Option<Wire>,
        bytes: Bytes,
        element_bytes: usize,
        max_error: f64,
    ) -> Option<FormatCost> {
        let among = &self.choice.floats.among;
        let sent = wire.map_or(bytes, |wire| (bytes as f64 * wire.ratio(element_bytes)) as Bytes);
        let codec = wire.map_or(0.0, |_| self.model.codec(self.topology.ranks(), bytes));
        let seconds = |candidate: &Candidate| candidate.seconds(self.model, sent) + codec;
        let mut candidates: Vec<_> =
            self.candidates.iter().filter(|candidate| among.contains(&candidate.member)).collect();
        candidates.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        candidates.into_iter().find_map(|candidate| {
            let roundings = match wire {
                None => 0,
                Some(_) => self.roundings(candidate.member)?,
            };
            let bound = wire.map_or(0.0, |wire| wire.bound(roundings, element_bytes));
            (bound <= max_error).then(|| FormatCost {
                wire: wire.map_or("exact", Wire::name),
                algorithm: candidate.member,
                seconds: seconds(candidate),
                bytes: sent,
                roundings,
                bound,
            })
        })
    }

    /// `None` where the algorithm cannot be built.
    fn roundings(&self, member: Member) -> Option<u32> {
        let schedule = member.build(self.topology, self.choice.collective).ok()?;
        let found = Rounding::from_schedule(&schedule).map(|rounding| rounding.roundings);
        Some(found.unwrap_or_else(|| Rounding::most(schedule.steps.len())))
    }
}
