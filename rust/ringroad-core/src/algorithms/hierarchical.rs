//! Hierarchical: direct exchanges within hosts, any other algorithm between them.
//!
//! Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994, have hybrids of collectives
//! over the rows and columns of a grid; here hosts are its rows. Ranks with the same number in their hosts form a
//! group, which works on one slice of the vector. So all ranks share the traffic over the network, and a host's cable
//! carries each byte no more often than if the host were one rank.
//!
//! ```text
//! hosts:2x3    allreduce    0 1 2 | 3 4 5    reduce-scatter within each host, directly
//!                           0-3  1-4  2-5    each pair: allreduce of a third of the vector, by the member's algorithm
//!                           0 1 2 | 3 4 5    allgather within each host, directly
//! ```
//!
//! A reduce-scatter is the first half of this, an allgather the second half. In a broadcast the root scatters the
//! vector within its host, every group broadcasts its slice, and hosts gather the slices; a reduce does that backwards.
//!
//! For short vectors the slices are not worth their steps. Instead, a host's ranks send each other whole vectors and
//! add them up in the same order. Then every group exchanges the host's sum, which all ranks of the host have.
//!
//! Cost, for R ranks on a host: two steps and 2(R-1)/R of the vector, plus 1/R of what the network's algorithm sends;
//! one phase takes half of the former; a reduce sends (R-1)/R first. With whole vectors, one step and R-1 vectors, plus
//! what the network's algorithm sends. Hosts with different numbers of ranks are for [`super::unequal_hosts`].

use super::catalogue::flat::FLAT;
use super::dimension_wise::{nested, LineAllreduce, SliceCourse};
use super::{direct, gather_sum, Algorithm, CostLine, ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{ChunkSet, Schedule, Send, Step};
use crate::units::{ChunkId, Rank};

/// The algorithms that groups may use between hosts.
pub(super) const NETWORKS: &[&str] = &[
    "ring",
    "halving-doubling",
    "recursive-doubling",
    "swing",
    "trivance",
    "bruck",
    "direct",
    "direct-latency",
    "binomial",
    "double-binary-tree",
    "scatter-allgather",
];

/// The algorithms that they may use with whole vectors.
pub(super) const WHOLE: &[&str] = &["recursive-doubling", "direct-latency", "gather-sum"];

/// The dimensions of the grid.
const ACROSS: usize = 0;
const WITHIN: usize = 1;

/// The algorithm that one of [`NETWORKS`] or [`WHOLE`] names.
pub(super) fn network(name: &str) -> &'static Algorithm {
    FLAT.iter().find(|algorithm| algorithm.name == name).expect("it is in the catalogue")
}

/// Whether the algorithm works between the hosts of `shape`, for all collectives that it offers.
pub(super) fn works(name: &str, shape: &Shape) -> bool {
    network(name).offers.iter().all(|offer| (offer.requirement.admits)(&hosts(shape)))
}

/// The hosts, each as one rank.
fn hosts(shape: &Shape) -> Shape {
    Shape::ring(if shape.hosts().is_empty() { shape.ranks() } else { shape.hosts().len() })
}

/// The ranks of one host.
fn host(shape: &Shape) -> Shape {
    Shape::ring(shape.per_host())
}

/// Calls `ask` for the network's algorithm, with the default parameter for this number of hosts.
fn between<T>(
    request: &ScheduleRequest<'_>,
    network_name: &str,
    collective: Collective,
    ask: impl Fn(&ScheduleRequest<'_>) -> T,
) -> T {
    let shape = &hosts(request.shape);
    let values = network(network_name).parameter.as_ref().map(|family| (family.values)(shape));
    let parameter = values.and_then(|values| values.first().copied()).unwrap_or(0);
    ask(&ScheduleRequest { shape, collective, parameter, ..*request })
}

pub(super) fn across(request: &ScheduleRequest<'_>, network_name: &str, collective: Collective) -> Schedule {
    let offer = network(network_name).offer(collective).expect("only networks that perform it are offered");
    let schedule = between(request, network_name, collective, |request| offer.construct.schedule(request));
    schedule.expect("no network between hosts is searched for")
}

fn across_cost(request: &ScheduleRequest<'_>, network_name: &str) -> CostLine {
    let offer =
        network(network_name).offer(request.collective).expect("only networks that perform it are offered");
    let cost = between(request, network_name, request.collective, |request| offer.construct.cost(request));
    cost.expect("no network between hosts is searched for")
}

/// Allreduce, reduce-scatter, allgather, broadcast and reduce, on hosts of equally many ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    match request.collective {
        Collective::Broadcast { root } | Collective::Reduce { root } => rooted(request, root),
        _ => everywhere(request),
    }
}

/// The collectives without a root, as those of a torus with the dimensions hosts and ranks per host.
fn everywhere(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter, .. } = *request;
    let within =
        |collective| direct::schedule(&ScheduleRequest { shape: &host(shape), collective, ..*request });
    let line = |dimension| match dimension {
        ACROSS => {
            let network = across(request, NETWORKS[parameter], collective);
            LineAllreduce::one_way(network, collective != Collective::Allgather)
        }
        _ => LineAllreduce {
            inward: within(Collective::ReduceScatter),
            complete: (0..shape.per_host()).map(|rank| ChunkSet::range(rank, rank + 1)).collect(),
            outward: within(Collective::Allgather),
        },
    };
    let schedule = on_grid(request, line);
    if collective != Collective::Allreduce {
        return schedule;
    }
    // The chunks of each rank's slice get adjacent numbers.
    let (slices, chunks) = (shape.per_host(), schedule.chunks);
    let number = |chunk: ChunkId| chunk % slices * (chunks / slices) + chunk / slices;
    Schedule { name: name.to_owned(), ..schedule.renumbered(&(0..chunks).map(number).collect::<Vec<_>>()) }
}

/// The allreduce that exchanges whole vectors.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter, .. } = *request;
    on_grid(request, |dimension| match dimension {
        ACROSS => LineAllreduce::one_way(across(request, WHOLE[parameter], collective), true),
        _ => LineAllreduce::one_way(gather_sum::at_once(name, &host(shape)), true),
    })
}

/// Runs within hosts, then between them, and back.
fn on_grid(request: &ScheduleRequest<'_>, line: impl Fn(usize) -> LineAllreduce) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let grid = Shape::new(vec![hosts(shape).ranks(), shape.per_host()]);
    let course = SliceCourse { order: vec![WITHIN, ACROSS], mirrored: false };
    nested(name, collective, &grid, &[course], |_, dimension| line(dimension))
}

/// Broadcast and reduce, in which the root's host does more than others.
fn rooted(request: &ScheduleRequest<'_>, root: Rank) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter, .. } = *request;
    let (ranks, per_host) = (shape.ranks(), shape.per_host());
    let (home, place) = (root / per_host, root % per_host);
    let network = across(request, NETWORKS[parameter], collective.with_root(home));
    let slice =
        |set: &ChunkSet| set.iter().flat_map(|s| s * network.chunks..(s + 1) * network.chunks).collect();
    // `on_host` makes the steps of one host, `group` those of one group.
    let on_host = |collective, host: usize| {
        let part = direct::schedule(&ScheduleRequest {
            shape: &self::host(shape),
            collective,
            parameter: 0,
            ..*request
        })
        .expand();
        lifted(&part, WITHIN, |rank| host * per_host + rank, slice)
    };
    let group = |number: usize| {
        let own = move |set: &ChunkSet| set.iter().map(|chunk| number * network.chunks + chunk).collect();
        lifted(&network.expand(), ACROSS, |host| host * per_host + number, own)
    };
    let scatter = on_host(Collective::Scatter { root: place }, home);
    let mut gather = side_by_side((0..ranks / per_host).map(|host| on_host(Collective::Allgather, host)));
    // The root has all slices already.
    gather.iter_mut().for_each(|step| step.sends.retain(|send| send.destination != root));
    let groups = side_by_side((0..per_host).map(group));
    let schedule = |steps, collective| Schedule {
        steps,
        ..Schedule::empty(name, collective, ranks, per_host * network.chunks)
    };
    if let Collective::Broadcast { .. } = collective {
        return schedule(scatter.into_iter().chain(groups).chain(gather).collect(), collective);
    }
    let backwards = |steps| {
        let part = schedule(steps, Collective::Broadcast { root });
        part.reverse().expect("broadcasts can be reversed").steps
    };
    schedule(backwards(gather).into_iter().chain(groups).chain(backwards(scatter)).collect(), collective)
}

/// The steps of a schedule along a dimension of the grid, with its ranks and chunks renamed.
fn lifted(
    schedule: &Schedule,
    dimension: usize,
    rank: impl Fn(Rank) -> Rank,
    chunks: impl Fn(&ChunkSet) -> ChunkSet,
) -> Vec<Step> {
    let send = |send: &Send| Send {
        source: rank(send.source),
        destination: rank(send.destination),
        chunks: chunks(&send.chunks),
        port: 2 * dimension + send.port,
        ..*send
    };
    let step = |step: &Step| Step { sends: step.sends.iter().map(send).collect(), locals: Vec::new() };
    schedule.steps.iter().map(step).collect()
}

/// The steps of parts that run side by side and have equally many steps.
fn side_by_side(parts: impl Iterator<Item = Vec<Step>>) -> Vec<Step> {
    let joint = |mut all: Vec<Step>, part: Vec<Step>| {
        all.iter_mut().zip(part).for_each(|(step, more)| step.sends.extend(more.sends));
        all
    };
    parts.reduce(joint).unwrap_or_default()
}

/// One or two direct steps, and 1/R of what the network's algorithm sends.
pub(super) fn cost(request: &ScheduleRequest<'_>) -> CostLine {
    let network = across_cost(request, NETWORKS[request.parameter]);
    let (hosts, per_host) = (hosts(request.shape).ranks() as f64, request.shape.per_host() as f64);
    let phase = (per_host - 1.0) / per_host;
    let (steps, sent) = match request.collective {
        Collective::Allreduce | Collective::Broadcast { .. } => (2, 2.0 * phase + network.sent / per_host),
        Collective::Reduce { .. } => {
            // The busiest rank is one beside the root, which still passes on what its group has, or any rank of another
            // host.
            let scatters = ["direct", "scatter-allgather"].contains(&NETWORKS[request.parameter]);
            let beside = if scatters { (hosts - 1.0) / hosts } else { 0.0 };
            (2, phase + network.sent.max(1.0 + beside) / per_host)
        }
        _ => (1, phase + network.sent / per_host),
    };
    CostLine { steps: steps + network.steps, sent }
}

/// One step of whole vectors, and what the network's algorithm sends.
pub(super) fn latency_cost(request: &ScheduleRequest<'_>) -> CostLine {
    let network = across_cost(request, WHOLE[request.parameter]);
    CostLine { steps: 1 + network.steps, sent: (request.shape.per_host() - 1) as f64 + network.sent }
}
