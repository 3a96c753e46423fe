//! The records of a simulation, from which its outcome is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::traffic::{StartedOperation, Transmission};
use crate::schedule::Schedule;
use crate::trace::{Trace, TraceEvent, TraceKind};
use crate::units::{LinkId, Rank, Seconds};

#[derive(Default)]
pub(super) struct SimulationRecord {
    /// Whether to record events and the loads of each step.
    detailed: bool,
    algorithm: Arc<str>,
    events: Vec<TraceEvent>,
    /// The bytes by step and link.
    step_loads: Vec<BTreeMap<LinkId, f64>>,
    pub loads: Vec<f64>,
    pub messages: usize,
    /// When the last operation of each step completed.
    pub step_ends: Vec<Seconds>,
    pub finished: Vec<Seconds>,
}

impl SimulationRecord {
    pub fn new(detailed: bool, schedule: &Schedule, links: usize) -> SimulationRecord {
        let steps = schedule.steps.len();
        SimulationRecord {
            detailed,
            algorithm: schedule.name.as_str().into(),
            step_loads: vec![BTreeMap::new(); if detailed { steps } else { 0 }],
            loads: vec![0.0; links],
            step_ends: vec![0.0; steps],
            finished: vec![0.0; schedule.ranks],
            ..SimulationRecord::default()
        }
    }

    /// Records that a message starts to take links.
    pub fn load(&mut self, message: &Transmission, shares: &[(LinkId, f64)]) {
        for &(link, share) in shares {
            let bytes = share * message.bytes as f64;
            self.loads[link] += bytes;
            if self.detailed && bytes > 0.0 {
                *self.step_loads[message.step as usize].entry(link).or_default() += bytes;
            }
        }
    }

    pub fn complete(&mut self, step: u32, now: Seconds) {
        if let Some(end) = self.step_ends.get_mut(step as usize) {
            *end = end.max(now);
        }
    }

    pub fn message(&mut self, kind: TraceKind, message: &Transmission, side: StartedOperation, now: Seconds) {
        if !self.detailed {
            return;
        }
        let (rank, peer) = match kind {
            TraceKind::Send => (message.source, message.destination),
            _ => (message.destination, message.source),
        };
        self.events.push(TraceEvent {
            kind,
            rank,
            peer,
            bytes: message.bytes as u64,
            sequence: 0,
            message: message.number,
            step: Some(message.step),
            algorithm: Some(self.algorithm.clone()),
            call: None,
            start: side.start,
            end: Some(now),
        });
    }

    pub fn computation(
        &mut self,
        kind: TraceKind,
        rank: Rank,
        bytes: usize,
        step: u32,
        [start, end]: [Seconds; 2],
    ) {
        if self.detailed {
            let end = Some(end);
            let (sequence, message, step) = (0, 0, Some(step));
            let bytes = bytes as u64;
            self.events.push(TraceEvent {
                kind,
                rank,
                peer: rank,
                bytes,
                sequence,
                message,
                step,
                algorithm: Some(self.algorithm.clone()),
                call: None,
                start,
                end,
            });
        }
    }

    /// The timeline in the order of the events' start, and the bytes of every link in every step.
    pub fn details(&mut self) -> (Trace, Vec<Vec<(LinkId, f64)>>) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.rank.cmp(&b.rank)));
        let loads = std::mem::take(&mut self.step_loads).into_iter().map(|step| step.into_iter().collect());
        (Trace { events }, loads.collect())
    }
}
