//! Hierarchical algorithms on hosts with different numbers of ranks.
//!
//! Each host works like one with as many ranks as the largest. Where it has fewer, ranks take more than one place in
//! turn: they reduce and pass on the slices of all their places, but have only one vector and one block.
//!
//! ```text
//! hosts:1,2,3    places    0 0 0 | 1 2 1 | 3 4 5    the ranks that stand for places; slice 1 of the vector is reduced
//!                                                   within the hosts to ranks 0, 2 and 4, then between these three
//! ```
//!
//! A host's cable carries each byte no more often than if the host were one rank.

use std::collections::BTreeSet;

use super::hierarchical::{self, across, WHOLE};
use super::{gather_sum, CostLine, ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{ChunkSet, Local, Schedule, Send, Step};
use crate::units::{ChunkId, Rank};

/// The ranks of hosts, and the places of each host, as many on all.
struct Places {
    /// The ranks of every host.
    hosts: Vec<std::ops::Range<Rank>>,
    per_host: usize,
}

impl Places {
    fn from_shape(shape: &Shape) -> Places {
        let mut first = 0;
        let ranks = |size: &usize| {
            first += size;
            first - size..first
        };
        let per_host = shape.hosts().iter().copied().max().unwrap_or(1);
        Places { hosts: shape.hosts().iter().map(ranks).collect(), per_host }
    }

    /// The rank at place `number` of a host.
    fn rank(&self, host: usize, number: usize) -> Rank {
        let ranks = &self.hosts[host];
        ranks.start + number % ranks.len()
    }

    /// The first place of a rank, where places are numbered host by host.
    fn first_of(&self, rank: Rank) -> usize {
        let host = self.hosts.partition_point(|ranks| ranks.end <= rank);
        host * self.per_host + rank - self.hosts[host].start
    }

    /// The rank at a place, and whether it is the first one of this rank.
    fn at(&self, place: usize) -> (Rank, bool) {
        let (host, number) = (place / self.per_host, place % self.per_host);
        (self.rank(host, number), number < self.hosts[host].len())
    }
}

/// Allreduce, reduce-scatter, allgather, broadcast and reduce on any hosts.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    match request.shape.has_unequal_hosts() {
        true => sliced(request),
        false => hierarchical::schedule(request),
    }
}

/// The allreduce that exchanges whole vectors, on any hosts.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    match request.shape.has_unequal_hosts() {
        true => whole(request),
        false => hierarchical::latency(request),
    }
}

/// The cost of [`schedule`].
pub(super) fn cost(request: &ScheduleRequest<'_>) -> CostLine {
    match request.shape.has_unequal_hosts() {
        true => CostLine::from_schedule(&sliced(request)),
        false => hierarchical::cost(request),
    }
}

/// The cost of [`latency`].
pub(super) fn latency_cost(request: &ScheduleRequest<'_>) -> CostLine {
    match request.shape.has_unequal_hosts() {
        true => CostLine::from_schedule(&whole(request)),
        false => hierarchical::latency_cost(request),
    }
}

/// The schedule for the places, made by the ranks that stand there.
fn sliced(request: &ScheduleRequest<'_>) -> Schedule {
    let places = Places::from_shape(request.shape);
    let root = request.collective.root().map_or(0, |root| places.first_of(root));
    let shape = &Shape::on_hosts(places.hosts.len(), places.per_host);
    let full = hierarchical::schedule(&ScheduleRequest {
        shape,
        collective: request.collective.with_root(root),
        ..*request
    });
    let blocks = request.collective.blocks_per_vector(shape.ranks());
    let pieces = full.chunks / blocks;
    let chunk = |chunk: ChunkId| match places.at(chunk / pieces) {
        _ if blocks == 1 => Some(chunk),
        (rank, true) => Some(rank * pieces + chunk % pieces),
        (_, false) => None,
    };
    let renumbered = |chunks: &ChunkSet| -> ChunkSet { chunks.iter().filter_map(chunk).collect() };
    let local =
        |local: Local| Local { rank: places.at(local.rank).0, chunks: renumbered(&local.chunks), ..local };
    let send = |send: Send| {
        let (source, destination) = (places.at(send.source).0, places.at(send.destination).0);
        // The root has, or keeps, all slices, not only that of its first place.
        let same_host = send.source / places.per_host == send.destination / places.per_host;
        let needless = same_host
            && match request.collective {
                Collective::Broadcast { root } => destination == root,
                Collective::Reduce { root } => source == root,
                _ => false,
            };
        let port = request.shape.port_towards(source, destination);
        let moved = Send { source, destination, port, chunks: renumbered(&send.chunks), ..send };
        (source != destination && !needless && !moved.chunks.is_empty()).then_some(moved)
    };
    let ranks = request.shape.ranks();
    let chunks = if blocks == 1 { full.chunks } else { ranks * pieces };
    let mut schedule = Schedule::empty(request.name, request.collective, ranks, chunks);
    for step in full.expand().steps {
        let sends: Vec<Send> = once(step.sends.into_iter().filter_map(send)).collect();
        let locals = step.locals.into_iter().map(local).collect();
        schedule.steps.push(Step { sends, locals });
    }
    // Messages of several places become one.
    Schedule::split(request.name, &[schedule]).expect("there is a part")
}

/// The sends without those that repeat another: what a rank would send from each of its places to each of another's.
fn once(sends: impl Iterator<Item = Send>) -> impl Iterator<Item = Send> {
    let mut known = BTreeSet::new();
    sends.filter(move |send| {
        let Send { source, destination, action, from, into, .. } = *send;
        known.insert((source, destination, action, from, into, send.chunks.runs().to_vec()))
    })
}

/// All ranks of a host have its sum, and each gets those of other hosts.
fn whole(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter, .. } = *request;
    let places = Places::from_shape(shape);
    let mut within = Step::default();
    for ranks in &places.hosts {
        for step in gather_sum::at_once(name, &Shape::ring(ranks.len())).steps {
            let send = |send: Send| Send {
                source: ranks.start + send.source,
                destination: ranks.start + send.destination,
                port: shape.port_towards(ranks.start + send.source, ranks.start + send.destination),
                ..send
            };
            within.sends.extend(step.sends.into_iter().map(send));
            within.locals.extend(step.locals.into_iter().map(|l| Local { rank: ranks.start + l.rank, ..l }));
        }
    }
    let network = across(request, WHOLE[parameter], collective).expand();
    let lifted = |step: &Step| {
        let all = |host: usize| places.hosts[host].clone().enumerate();
        let sends = step.sends.iter().flat_map(|send| {
            all(send.destination).map(|(number, destination)| Send {
                source: places.rank(send.source, number),
                destination,
                port: shape.port_towards(places.rank(send.source, number), destination),
                ..send.clone()
            })
        });
        let locals =
            step.locals.iter().flat_map(|l| all(l.rank).map(|(_, rank)| Local { rank, ..l.clone() }));
        Step { sends: sends.collect(), locals: locals.collect() }
    };
    let steps = std::iter::once(within).chain(network.steps.iter().map(lifted)).collect();
    Schedule { steps, ..Schedule::empty(name, Collective::Allreduce, shape.ranks(), network.chunks) }
}
