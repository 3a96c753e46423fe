//! Breadth-first broadcast: every block takes shortest paths only, and all ranks at the same distance from its owner
//! receive it in the same step.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5. In
//! step t of the allgather every rank receives the blocks of all ranks at distance t, from neighbours that are one hop
//! closer to them. Only the choice of the neighbour is free. A formula gives the cost of the best choice, without a
//! linear program: a step takes as long as the worst set of links that end at one rank, measured by the blocks that can
//! come by no other link (see [`share`]). A reduce-scatter is the allgather of the transposed graph, run backwards.
//!
//! ```text
//! Petersen graph, as seen from rank u    step 1: its 3 neighbours' blocks, one by each link
//!                                        step 2: the 6 others', two by each link
//! ```
//!
//! Some steps need blocks cut into parts. Every rank may then take as long in a step as the slowest rank does. The
//! total time is the same, and fewer parts are enough: their number follows from one denominator per step, not one per
//! rank and step.
//!
//! Cost: in each phase, as many steps as the graph's diameter, and (n-1)/n of the vector. On many graphs, among them
//! all arc-transitive ones, no allgather loads the busiest link less.

pub mod share;

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Budget, Digraph, Ratio, Spent, Unsuitable};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Slice, Step, Symmetry};
use crate::topology::Topology;
use crate::units::{Rank, Seconds};
use share::{assign, least_time, JobClass, Mask, MOST_LINKS};

/// The most parts of all blocks together. Each block may have `FEW_PARTS` parts in any case.
const MOST_PARTS: usize = 1 << 16;
const FEW_PARTS: usize = 16;

/// The cost of the best breadth-first allgather.
#[derive(Debug, Clone, PartialEq)]
pub struct BreadthFirstCost {
    /// For each step, the number of blocks that the busiest link carries per unit of its capacity.
    pub loads: Vec<Ratio>,
    /// The number of blocks of the vector, one for each rank.
    pub ranks: usize,
    /// Bytes per second of a unit of capacity.
    pub unit: f64,
    /// The largest total capacity, in units, that leaves or reaches one rank.
    pub degree: u64,
}

impl BreadthFirstCost {
    /// The load of the busiest link per unit of capacity, summed over the steps, as a fraction of the message.
    pub fn load(&self) -> Ratio {
        self.loads.iter().copied().sum::<Ratio>() * Ratio::new(1u64, self.ranks as u64)
    }

    /// The load relative to the capacity of all links of a rank together. The least possible value is (n-1)/n.
    pub fn bandwidth(&self) -> Ratio {
        self.load() * Ratio::new(self.degree, 1u64)
    }

    /// Whether the bandwidth term is the least possible, if all ranks have the same links.
    pub fn is_optimal(&self) -> bool {
        self.bandwidth() == Ratio::new(self.ranks as u64 - 1, self.ranks as u64)
    }

    /// The seconds per byte of the vector.
    pub fn seconds_per_byte(&self) -> Seconds {
        self.load().to_f64() / self.unit
    }
}

/// The costs of a breadth-first allgather and of a reduce-scatter on a topology, without making the schedules.
pub fn costs(topology: &Topology) -> Result<[BreadthFirstCost; 2], Unsuitable> {
    let network = Digraph::from_topology(topology);
    let cost = |network: &Digraph| Flood::from_network(network, Budget::UNLIMITED).map(Flood::cost);
    Ok([cost(&network)?, cost(&network.transposed())?])
}

/// The cost of a collective by breadth-first broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BreadthFirst {
    /// The number of steps.
    pub steps: usize,
    /// What all links of a rank carry together, as a fraction of the message.
    pub bandwidth: Ratio,
}

impl BreadthFirst {
    /// The cost of an allgather, a reduce-scatter or an allreduce on a topology.
    pub fn from_topology(topology: &Topology, collective: Collective) -> Result<BreadthFirst, Unsuitable> {
        let [gather, scatter] = costs(topology)?;
        let phases = match collective {
            Collective::Allgather => vec![gather],
            Collective::ReduceScatter => vec![scatter],
            Collective::Allreduce => vec![scatter, gather],
            other => return Err(Unsuitable::Collective(other)),
        };
        let steps = phases.iter().map(|cost| cost.loads.len()).sum();
        Ok(BreadthFirst { steps, bandwidth: phases.iter().map(BreadthFirstCost::bandwidth).sum() })
    }
}

/// The size of a breadth-first schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreadthFirstSize {
    /// The steps of an allgather, or of a reduce-scatter: the graph's diameter over ranks alone.
    pub steps: usize,
    /// Whether all ranks look alike, so that one rank's row stands for all.
    pub symmetric: bool,
}

/// The size of the graph's breadth-first schedule, or why the graph has none.
pub fn reach(topology: &Topology) -> Result<BreadthFirstSize, Unsuitable> {
    let network = Digraph::from_topology(topology);
    check_degrees(&network)?;
    let symmetric = network.symmetry().is_some();
    let goals = if symmetric { 1 } else { network.ranks() };
    let farthest = |most: u32, goal| reached(goal, &network.hops_to(goal)).map(|hops| most.max(hops));
    let steps = (0..goals).try_fold(0, farthest)? as usize;
    Ok(BreadthFirstSize { steps, symmetric })
}

/// Whether all ranks look alike, or why the graph has no schedule: rank 0 must reach every rank, and every rank must
/// reach it.
pub fn is_suitable(topology: &Topology) -> Result<bool, Unsuitable> {
    let network = Digraph::from_topology(topology);
    check_degrees(&network)?;
    for (network, turned) in [(&network, false), (&network.transposed(), true)] {
        reached(0, &network.hops_to(0)).map_err(|error| match error {
            Unsuitable::Apart { from, to } if turned => Unsuitable::Apart { from: to, to: from },
            other => other,
        })?;
    }
    Ok(network.symmetry().is_some())
}

fn check_degrees(network: &Digraph) -> Result<(), Unsuitable> {
    let neighbours = |rank: Rank| network.incoming(rank).len().max(network.outgoing(rank).len());
    match (0..network.ranks()).find(|rank| neighbours(*rank) > MOST_LINKS) {
        Some(rank) => Err(Unsuitable::Degree { rank, neighbours: neighbours(rank), most: MOST_LINKS }),
        None => Ok(()),
    }
}

/// The most hops from any rank to `goal`, or an error if some rank does not reach it.
fn reached(goal: Rank, hops: &[u32]) -> Result<u32, Unsuitable> {
    match hops.iter().position(|hops| *hops == u32::MAX) {
        Some(from) => Err(Unsuitable::Apart { from, to: goal }),
        None => Ok(hops.iter().copied().max().unwrap_or(0)),
    }
}

/// The breadth-first allgather or reduce-scatter, or the allreduce that runs reduce-scatter and then allgather.
pub fn schedule(name: &str, topology: &Topology, collective: Collective) -> Result<Schedule, Unsuitable> {
    schedule_within(name, topology, collective, Budget::UNLIMITED)
}

/// As [`schedule`], as long as `budget` allows.
pub fn schedule_within(
    name: &str,
    topology: &Topology,
    collective: Collective,
    budget: Budget<'_>,
) -> Result<Schedule, Unsuitable> {
    let network = Digraph::from_topology(topology);
    let turned = network.transposed();
    let gather = || Flood::from_network(&network, budget);
    let scatter = || Flood::from_network(&turned, budget);
    match collective {
        Collective::Allgather => {
            let gather = gather()?;
            Ok(gather.allgather(name, gather.parts(&[]), budget)?)
        }
        Collective::ReduceScatter => {
            let scatter = scatter()?;
            Ok(scatter.reduce_scatter(name, scatter.parts(&[]), budget)?)
        }
        Collective::Allreduce => {
            let (scatter, gather) = (scatter()?, gather()?);
            let parts = scatter.parts(&gather.loads);
            let first = scatter.reduce_scatter(name, parts, budget)?;
            Ok(first.compose(&gather.allgather(name, parts, budget)?).expect("both have the same parts"))
        }
        other => Err(Unsuitable::Collective(other)),
    }
}

/// The flow of all blocks to all ranks, or to rank 0 only where that stands for all.
struct Flood<'a> {
    network: &'a Digraph,
    /// The slice of the whole vector that describes the symmetry, without its chunks, if all ranks look alike.
    symmetry: Option<Slice>,
    /// What each examined rank receives: all ranks, or rank 0 only.
    rows: Vec<BlockArrivals>,
    /// For each step, the number of blocks that the busiest link carries per unit of its capacity.
    loads: Vec<Ratio>,
}

/// The blocks that a rank receives, by the step and the set of links by which they may come.
type BlockArrivals = BTreeMap<(u32, Mask), Vec<Rank>>;
/// The blocks of one step that may come by the same links.
type Jobs<'a> = (&'a (u32, Mask), &'a Vec<Rank>);

/// The parts of a rank's block that an arc carries: `(rank, first part, one past the last)`.
type BlockParts = Vec<(Rank, u64, u64)>;

impl<'a> Flood<'a> {
    fn from_network(network: &'a Digraph, budget: Budget<'_>) -> Result<Flood<'a>, Unsuitable> {
        let ranks = network.ranks();
        let symmetry = network.symmetry();
        check_degrees(network)?;
        let mut hops = vec![Vec::new(); ranks];
        let mut look = |goal: Rank| -> Result<(), Unsuitable> {
            if hops[goal].is_empty() {
                budget.check()?;
                hops[goal] = network.hops_to(goal);
                reached(goal, &hops[goal])?;
            }
            Ok(())
        };
        if symmetry.is_some() {
            look(0)?;
            network.incoming(0).iter().try_for_each(|arc| look(network.arcs()[*arc].source))?;
        } else {
            (0..ranks).try_for_each(look)?;
        }
        let looked_at = 0..if symmetry.is_some() { 1 } else { ranks };
        let rows = looked_at.map(|rank| {
            budget.check()?;
            Ok(row(network, &hops, rank))
        });
        let rows = rows.collect::<Result<_, Spent>>()?;
        let mut flood = Flood { network, symmetry, rows, loads: Vec::new() };
        flood.loads = flood.least_times(budget)?;
        Ok(flood)
    }

    fn capacities(&self, rank: Rank) -> Vec<u64> {
        self.network.incoming(rank).iter().map(|arc| self.network.arcs()[*arc].capacity).collect()
    }

    fn least_times(&self, budget: Budget<'_>) -> Result<Vec<Ratio>, Spent> {
        let mut times: Vec<Ratio> = Vec::new();
        for (rank, row) in self.rows.iter().enumerate() {
            let capacities = self.capacities(rank);
            for (number, jobs) in steps(row) {
                budget.check()?;
                let time = least_time(&classes(&jobs, 1), &capacities);
                times.resize(times.len().max(number + 1), Ratio::ZERO);
                times[number] = times[number].max(time);
            }
        }
        Ok(times)
    }

    fn cost(self) -> BreadthFirstCost {
        let Flood { network, loads, .. } = self;
        BreadthFirstCost { loads, ranks: network.ranks(), unit: network.unit(), degree: network.degree() }
    }

    /// The number of parts of each block: the fewest that make the steps of this flood and the given `others` as short
    /// as possible.
    fn parts(&self, others: &[Ratio]) -> u64 {
        let most = (MOST_PARTS / self.network.ranks()).max(FEW_PARTS) as u64;
        let loads: Vec<Ratio> = self.loads.iter().chain(others).copied().collect();
        let total = |parts: u64| Ratio::new(loads.iter().map(|l| l.ceil_times(parts)).sum::<u128>(), parts);
        (1..=most).min_by_key(|parts| (total(*parts), *parts)).unwrap_or(1)
    }

    /// For each step, the parts that each busy arc carries, to all ranks or to rank 0 only. Arcs are in the order of
    /// the ranks where they end.
    fn carried(&self, parts: u64, budget: Budget<'_>) -> Result<Vec<Vec<(usize, BlockParts)>>, Spent> {
        let mut steps: Vec<Vec<(usize, BlockParts)>> = vec![Vec::new(); self.loads.len()];
        for (rank, row) in self.rows.iter().enumerate() {
            let (incoming, capacities) = (self.network.incoming(rank), self.capacities(rank));
            for (step, jobs) in self::steps(row) {
                budget.check()?;
                let each = self.loads[step].ceil_times(parts) as u64;
                let room: Vec<u64> = capacities.iter().map(|capacity| capacity * each).collect();
                let flow = assign(&classes(&jobs, parts), &room).expect("no step is shorter than it must be");
                let mut carried: Vec<BlockParts> = vec![Vec::new(); incoming.len()];
                for ((_, blocks), flow) in jobs.into_iter().zip(flow) {
                    deal(blocks, parts, flow, &mut carried);
                }
                let busy = incoming.iter().copied().zip(carried).filter(|(_, parts)| !parts.is_empty());
                steps[step].extend(busy);
            }
        }
        Ok(steps)
    }

    fn allgather(&self, name: &str, parts: u64, budget: Budget<'_>) -> Result<Schedule, Spent> {
        let mut schedule = self.empty(name, Collective::Allgather, parts);
        for arcs in self.carried(parts, budget)? {
            let mut step = Step::default();
            for (id, carried) in arcs {
                budget.check()?;
                let arc = self.network.arcs()[id];
                // With symmetry, what rank 0 receives also says what it sends, once it is seen from the sender's
                // position.
                let back = self.symmetry.as_ref().map(|slice| (slice, slice.between(arc.source, 0)));
                let moved = |rank: Rank| back.map_or(rank, |(slice, back)| slice.moved(back, rank));
                let (source, destination) = match self.symmetry {
                    Some(_) => (0, moved(arc.target)),
                    None => (arc.source, arc.target),
                };
                let carried = carried.into_iter().map(|(rank, a, b)| (moved(rank), a, b)).collect();
                let send = Send { source, destination, action: Action::Copy, port: arc.port, ..nothing() };
                step.sends.extend(self.sends(send, carried, parts));
            }
            schedule.steps.push(step);
        }
        Ok(schedule)
    }

    /// The network must be the transposed graph.
    fn reduce_scatter(&self, name: &str, parts: u64, budget: Budget<'_>) -> Result<Schedule, Spent> {
        let mut schedule = self.empty(name, Collective::ReduceScatter, parts);
        for arcs in self.carried(parts, budget)?.into_iter().rev() {
            let mut step = Step::default();
            for (id, carried) in arcs {
                budget.check()?;
                let arc = self.network.arcs()[id];
                let (source, destination) = (arc.target, arc.source);
                let send = Send { source, destination, action: Action::Reduce, port: arc.port, ..nothing() };
                step.sends.extend(self.sends(send, carried, parts));
            }
            schedule.steps.push(step);
        }
        Ok(schedule)
    }

    fn empty(&self, name: &str, collective: Collective, parts: u64) -> Schedule {
        let (ranks, parts) = (self.network.ranks(), parts as usize);
        let mut schedule = Schedule::empty(name, collective, ranks, ranks * parts);
        let slice = |slice: &Slice, part: usize| Slice {
            chunks: (0..ranks).map(|rank| rank * parts + part).collect(),
            ..slice.clone()
        };
        let slices = |whole: &Slice| (0..parts).map(|part| slice(whole, part)).collect();
        schedule.symmetry = self.symmetry.as_ref().map(|whole| Symmetry { slices: slices(whole) });
        schedule
    }

    /// The message of an arc. With symmetry, one message for each part, because all chunks of a message are in one
    /// slice.
    fn sends(&self, send: Send, carried: BlockParts, parts: u64) -> Vec<Send> {
        let chunk = |rank: Rank, part: u64| rank * parts as usize + part as usize;
        if self.symmetry.is_none() {
            let runs: Vec<_> =
                carried.iter().map(|(rank, a, b)| (chunk(*rank, *a), chunk(*rank, *b))).collect();
            return vec![Send { chunks: ChunkSet::from(runs), ..send }];
        }
        let of_part = |part: u64| {
            let has = |(_, a, b): &&(Rank, u64, u64)| (*a..*b).contains(&part);
            let chunks: ChunkSet = carried.iter().filter(has).map(|(rank, ..)| chunk(*rank, part)).collect();
            Send { chunks, ..send.clone() }
        };
        (0..parts).map(of_part).filter(|send| send.chunks.max().is_some()).collect()
    }
}

fn nothing() -> Send {
    let chunks = ChunkSet::default();
    Send { source: 0, destination: 0, chunks, action: Action::Copy, port: 0, from: 0, into: 0 }
}

/// The row of a rank, from the hops of all ranks to it and to the ranks that it receives from.
fn row(network: &Digraph, hops: &[Vec<u32>], rank: Rank) -> BlockArrivals {
    let sources = network.incoming(rank).iter().map(|arc| &*hops[network.arcs()[*arc].source]);
    let (sources, own): (Vec<&[u32]>, &[u32]) = (sources.collect(), &hops[rank]);
    let mut row = BlockArrivals::new();
    for block in (0..own.len()).filter(|block| *block != rank) {
        let bits = sources.iter().enumerate().filter(|(_, hops)| hops[block] + 1 == own[block]);
        let links = bits.fold(0, |mask, (bit, _)| mask | 1 << bit);
        row.entry((own[block] - 1, links)).or_default().push(block);
    }
    row
}

/// The steps of a row in order, each with its jobs.
fn steps(row: &BlockArrivals) -> impl Iterator<Item = (usize, Vec<Jobs<'_>>)> {
    let mut jobs = row.iter().peekable();
    std::iter::from_fn(move || {
        let ((step, _), _) = *jobs.peek()?;
        let here = std::iter::from_fn(|| jobs.next_if(|((other, _), _)| other == step));
        Some((*step as usize, here.collect()))
    })
}

/// The classes of the jobs of one step, with each block cut into `parts`.
fn classes(jobs: &[Jobs<'_>], parts: u64) -> Vec<JobClass> {
    let class =
        |((_, links), blocks): &Jobs<'_>| JobClass { links: *links, amount: blocks.len() as u64 * parts };
    jobs.iter().map(class).collect()
}

/// Deals the parts of a class's blocks out to the links, as many to each as the flow says. Goes through the links one
/// by one, so that few blocks are spread over several links.
fn deal(class: &[Rank], parts: u64, flow: Vec<u64>, carried: &mut [BlockParts]) {
    let (mut block, mut part) = (0, 0);
    for (link, mut room) in flow.into_iter().enumerate() {
        while room > 0 {
            let taken = room.min(parts - part);
            carried[link].push((class[block], part, part + taken));
            room -= taken;
            part += taken;
            if part == parts {
                (block, part) = (block + 1, 0);
            }
        }
    }
}
