//! Allgathers in the form that expansions need: who passes on whose blocks to whom, without ports. A reduce-scatter is
//! an allgather on the transposed graph, read backwards.

use std::collections::BTreeMap;

use super::wiring::LinkIndex;
use super::ExpandError;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Step};
use crate::synthesis::ratio::gcd;
use crate::synthesis::Digraph;
use crate::units::{ChunkId, Rank};

/// The chunks that each pair of ranks passes on in one step, as runs.
pub(super) type GatherStep = BTreeMap<(Rank, Rank), Vec<(ChunkId, ChunkId)>>;

/// An allgather of blocks of `parts` parts: part `p` of rank `r`'s block is chunk `r * parts + p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gather {
    pub(super) ranks: usize,
    pub(super) parts: usize,
    /// The hops of each step. Runs of chunks may touch.
    pub(super) steps: Vec<GatherStep>,
}

/// The least common multiple.
pub(super) fn common(a: usize, b: usize) -> usize {
    a / gcd(a as u128, b as u128) as usize * b
}

impl Gather {
    /// Reads an allgather schedule, or a reduce-scatter schedule as an allgather on the transposed graph.
    pub(super) fn from_schedule(schedule: &Schedule) -> Result<Gather, ExpandError> {
        let (ranks, collective) = (schedule.ranks, schedule.collective);
        let backwards = match collective {
            Collective::Allgather => false,
            Collective::ReduceScatter => true,
            other => return Err(ExpandError::Collective(other)),
        };
        if schedule.slots() > 1 {
            return Err(ExpandError::Slots(schedule.name.clone()));
        }
        let hops = |step: &Step| {
            let mut hops = GatherStep::new();
            for send in &step.sends {
                let way = (send.source, send.destination);
                let way = if backwards { (way.1, way.0) } else { way };
                hops.entry(way).or_default().extend_from_slice(send.chunks.runs());
            }
            hops
        };
        let mut steps: Vec<GatherStep> = schedule.expand().steps.iter().map(hops).collect();
        if backwards {
            steps.reverse();
        }
        Ok(Gather { ranks, parts: schedule.chunks / ranks, steps })
    }

    /// The same allgather with every part cut into `times` parts.
    pub(super) fn cut(mut self, times: usize) -> Gather {
        for runs in self.steps.iter_mut().flat_map(|hops| hops.values_mut()) {
            runs.iter_mut().for_each(|run| *run = (run.0 * times, run.1 * times));
        }
        self.parts *= times;
        self
    }

    /// The chunks of a hop, each as the rank that owns the block and the part.
    pub(super) fn blocks(&self, runs: &[(ChunkId, ChunkId)]) -> Vec<(Rank, usize)> {
        let chunks = runs.iter().flat_map(|run| run.0..run.1);
        chunks.map(|chunk| (chunk / self.parts, chunk % self.parts)).collect()
    }

    /// A hop that follows no link; `None` if all follow links.
    pub(super) fn astray(&self, wiring: &LinkIndex) -> Option<(Rank, Rank)> {
        let ways = self.steps.iter().flat_map(|hops| hops.keys().copied());
        ways.into_iter().find(|(from, to)| wiring.between(*from, *to).is_empty())
    }

    /// The schedule on `network`. This must be an allgather on that graph, or, for a reduce-scatter, on its transposed
    /// graph.
    pub(super) fn schedule(
        self,
        name: &str,
        network: &Digraph,
        collective: Collective,
    ) -> Result<Schedule, ExpandError> {
        let backwards = collective == Collective::ReduceScatter;
        let mut schedule = Schedule::empty(name, collective, self.ranks, self.ranks * self.parts);
        let action = if backwards { Action::Reduce } else { Action::Copy };
        let mut steps = self.steps;
        if backwards {
            steps.reverse();
        }
        for hops in steps {
            let mut sends = Vec::with_capacity(hops.len());
            // On a one-way ring, all blocks of a hop may be the receiver's own. Such a hop has no runs.
            for ((from, to), runs) in hops.into_iter().filter(|(_, runs)| !runs.is_empty()) {
                let (source, destination) = if backwards { (to, from) } else { (from, to) };
                let port = network.port(source, destination);
                let port = port.ok_or_else(|| ExpandError::NoLink {
                    name: name.to_owned(),
                    source_rank: source,
                    destination,
                })?;
                let chunks = ChunkSet::from(runs);
                sends.push(Send { source, destination, chunks, action, port, from: 0, into: 0 });
            }
            sends.sort_by_key(|send| (send.source, send.port));
            schedule.push(sends);
        }
        Ok(schedule)
    }
}
