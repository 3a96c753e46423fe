//! Breadth-first broadcast: every block takes shortest ways only, and all its ranks at the same distance have it at the
//! same time.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5. In step t
//! of the allgather every rank receives the blocks of all ranks at distance t, from neighbours that are one nearer to them.
//! Which neighbour sends what is the only freedom, and what it costs at best has a formula, without a linear program: a
//! step takes as long as the worst set of links that end at one rank, measured by the blocks that can come by no other
//! link (see [`share`]). A reduce-scatter is the allgather of the transposed graph, backwards.
//!
//! ```text
//! Petersen graph, as seen from rank u    step 1: its 3 neighbours' blocks, one by each link
//!                                        step 2: the 6 others', two by each link
//! ```
//!
//! Where steps need blocks in parts, all ranks may take as long in a step as the slowest of them: the time is the same, and
//! fewer parts do (the denominators of so many steps, instead of those of all ranks).
//!
//! Cost: as many steps as the graph's diameter and (n-1)/n of the vector, in each phase. On many graphs, all that are
//! arc-transitive among them, no allgather loads the busiest link less.

pub mod share;

use std::collections::BTreeMap;

use super::{Network, Ratio, Unsuitable};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Slice, Step, Symmetry};
use crate::topology::Topology;
use crate::units::{Rank, Seconds};
use share::{assign, least_time, Class, Mask, MOST_LINKS};

/// Parts of all blocks that a schedule has at most, unless each block needs no more than a few.
const MOST_PARTS: usize = 1 << 16;
const FEW_PARTS: usize = 16;

/// What a breadth-first allgather costs, at best.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// For every step, how many blocks a unit of a link's capacity carries.
    pub loads: Vec<Ratio>,
    /// How many blocks the vector has.
    pub ranks: usize,
    /// Bytes per second of a unit of capacity.
    pub unit: f64,
    /// The most units that leave or reach a rank.
    pub degree: u64,
}

impl Cost {
    /// What the busiest link of every step carries for a unit of its capacity, summed over the steps, in vectors.
    pub fn load(&self) -> Ratio {
        self.loads.iter().copied().sum::<Ratio>() * Ratio::new(1u64, self.ranks as u64)
    }

    /// The same in units of what all links of a rank carry together: (n-1)/n is the least that there is.
    pub fn bandwidth(&self) -> Ratio {
        self.load() * Ratio::new(self.degree, 1u64)
    }

    /// Whether it is that least, where all ranks have the same links.
    pub fn is_optimal(&self) -> bool {
        self.bandwidth() == Ratio::new(self.ranks as u64 - 1, self.ranks as u64)
    }

    /// The seconds that each byte of the vector takes.
    pub fn seconds_per_byte(&self) -> Seconds {
        self.load().to_f64() / self.unit
    }
}

/// The costs of a breadth-first allgather on a topology, and of a reduce-scatter, without making them.
pub fn costs(topology: &Topology) -> Result<[Cost; 2], Unsuitable> {
    let network = Network::of(topology);
    let cost = |network: &Network| Ok(Flood::of(network)?.cost());
    Ok([cost(&network)?, cost(&network.transposed())?])
}

/// What all ranks reach breadth first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// How many steps an allgather, or a reduce-scatter, has: the graph's diameter, from rank to rank.
    pub steps: usize,
    /// Whether all ranks look alike, so that one rank's row stands for all.
    pub symmetric: bool,
}

/// What all ranks reach, if the graph is suitable.
pub fn reach(topology: &Topology) -> Result<Reach, Unsuitable> {
    let network = Network::of(topology);
    check_degrees(&network)?;
    let symmetric = network.symmetry().is_some();
    let goals = if symmetric { 1 } else { network.ranks() };
    let farthest = |most: u32, goal| Ok(most.max(reached(goal, &network.hops_to(goal))?));
    let steps = (0..goals).try_fold(0, farthest)? as usize;
    Ok(Reach { steps, symmetric })
}

/// Whether all ranks look alike, if the graph is suitable: everybody reaches rank 0, and it everybody.
pub fn is_suitable(topology: &Topology) -> Result<bool, Unsuitable> {
    let network = Network::of(topology);
    check_degrees(&network)?;
    for (network, turned) in [(&network, false), (&network.transposed(), true)] {
        reached(0, &network.hops_to(0)).map_err(|error| match error {
            Unsuitable::Apart { from, to } if turned => Unsuitable::Apart { from: to, to: from },
            other => other,
        })?;
    }
    Ok(network.symmetry().is_some())
}

fn check_degrees(network: &Network) -> Result<(), Unsuitable> {
    let neighbours = |rank: Rank| network.incoming(rank).len().max(network.outgoing(rank).len());
    match (0..network.ranks()).find(|rank| neighbours(*rank) > MOST_LINKS) {
        Some(rank) => Err(Unsuitable::Degree { rank, neighbours: neighbours(rank), most: MOST_LINKS }),
        None => Ok(()),
    }
}

/// The most hops to `goal`, if everybody reaches it.
fn reached(goal: Rank, hops: &[u32]) -> Result<u32, Unsuitable> {
    match hops.iter().position(|hops| *hops == u32::MAX) {
        Some(from) => Err(Unsuitable::Apart { from, to: goal }),
        None => Ok(hops.iter().copied().max().unwrap_or(0)),
    }
}

/// The breadth-first allgather, reduce-scatter, or allreduce as the one after the other.
pub fn schedule(name: &str, topology: &Topology, collective: Collective) -> Result<Schedule, Unsuitable> {
    let network = Network::of(topology);
    let turned = network.transposed();
    let gather = || Flood::of(&network);
    let scatter = || Flood::of(&turned);
    match collective {
        Collective::Allgather => gather().map(|flood| flood.allgather(name, flood.parts(&[]))),
        Collective::ReduceScatter => scatter().map(|flood| flood.reduce_scatter(name, flood.parts(&[]))),
        Collective::Allreduce => {
            let (scatter, gather) = (scatter()?, gather()?);
            let parts = scatter.parts(&gather.loads);
            let first = scatter.reduce_scatter(name, parts);
            Ok(first.compose(&gather.allgather(name, parts)).expect("both have the same parts"))
        }
        other => Err(Unsuitable::Collective(other)),
    }
}

/// All blocks on their way to all ranks, or to rank 0 where that stands for all.
struct Flood<'a> {
    network: &'a Network,
    /// The slice of the whole vector that symmetric ranks make, without its chunks.
    symmetry: Option<Slice>,
    /// What each rank receives, for those ranks that are looked at.
    rows: Vec<Row>,
    /// For every step, how many blocks a unit of capacity carries.
    loads: Vec<Ratio>,
}

/// The blocks that a rank receives: in which step, and by which of its links they may come.
type Row = BTreeMap<(u32, Mask), Vec<Rank>>;
/// Those of them that are alike.
type Jobs<'a> = (&'a (u32, Mask), &'a Vec<Rank>);

/// The parts of a rank's block that an arc carries: `(rank, first part, one past the last)`.
type Parts = Vec<(Rank, u64, u64)>;

impl<'a> Flood<'a> {
    fn of(network: &'a Network) -> Result<Flood<'a>, Unsuitable> {
        let ranks = network.ranks();
        let symmetry = network.symmetry();
        check_degrees(network)?;
        let mut hops = vec![Vec::new(); ranks];
        let mut look = |goal: Rank| {
            if hops[goal].is_empty() {
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
        let rows = looked_at.map(|rank| row(network, &hops, rank)).collect();
        let mut flood = Flood { network, symmetry, rows, loads: Vec::new() };
        flood.loads = flood.least_times();
        Ok(flood)
    }

    fn capacities(&self, rank: Rank) -> Vec<u64> {
        self.network.incoming(rank).iter().map(|arc| self.network.arcs()[*arc].capacity).collect()
    }

    fn least_times(&self) -> Vec<Ratio> {
        let mut times: Vec<Ratio> = Vec::new();
        for (rank, row) in self.rows.iter().enumerate() {
            let capacities = self.capacities(rank);
            for (number, jobs) in steps(row) {
                let time = least_time(&classes(&jobs, 1), &capacities);
                times.resize(times.len().max(number + 1), Ratio::ZERO);
                times[number] = times[number].max(time);
            }
        }
        times
    }

    fn cost(self) -> Cost {
        let Flood { network, loads, .. } = self;
        Cost { loads, ranks: network.ranks(), unit: network.unit(), degree: network.degree() }
    }

    /// Into how many parts blocks are cut: as few as make the steps, and those of another flood, as short as they can be.
    fn parts(&self, others: &[Ratio]) -> u64 {
        let most = (MOST_PARTS / self.network.ranks()).max(FEW_PARTS) as u64;
        let loads: Vec<Ratio> = self.loads.iter().chain(others).copied().collect();
        let total = |parts: u64| Ratio::new(loads.iter().map(|l| l.ceil_times(parts)).sum::<u128>(), parts);
        (1..=most).min_by_key(|parts| (total(*parts), *parts)).unwrap_or(1)
    }

    /// What every arc carries in every step, to all ranks or to rank 0: arcs in the order of the ranks they end at.
    fn carried(&self, parts: u64) -> Vec<Vec<(usize, Parts)>> {
        let mut steps: Vec<Vec<(usize, Parts)>> = vec![Vec::new(); self.loads.len()];
        for (rank, row) in self.rows.iter().enumerate() {
            let (incoming, capacities) = (self.network.incoming(rank), self.capacities(rank));
            for (step, jobs) in self::steps(row) {
                let each = self.loads[step].ceil_times(parts) as u64;
                let room: Vec<u64> = capacities.iter().map(|capacity| capacity * each).collect();
                let flow = assign(&classes(&jobs, parts), &room).expect("no step is shorter than it must be");
                let mut carried: Vec<Parts> = vec![Vec::new(); incoming.len()];
                for ((_, blocks), flow) in jobs.into_iter().zip(flow) {
                    deal(blocks, parts, flow, &mut carried);
                }
                let busy = incoming.iter().copied().zip(carried).filter(|(_, parts)| !parts.is_empty());
                steps[step].extend(busy);
            }
        }
        steps
    }

    fn allgather(&self, name: &str, parts: u64) -> Schedule {
        let mut schedule = self.empty(name, Collective::Allgather, parts);
        for arcs in self.carried(parts) {
            let mut step = Step::default();
            for (id, carried) in arcs {
                let arc = self.network.arcs()[id];
                // Of symmetric ranks, what rank 0 receives tells what it sends: seen from the sender's place.
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
        schedule
    }

    /// Where the arcs are those of the transposed graph.
    fn reduce_scatter(&self, name: &str, parts: u64) -> Schedule {
        let mut schedule = self.empty(name, Collective::ReduceScatter, parts);
        for arcs in self.carried(parts).into_iter().rev() {
            let mut step = Step::default();
            for (id, carried) in arcs {
                let arc = self.network.arcs()[id];
                let (source, destination) = (arc.target, arc.source);
                let send = Send { source, destination, action: Action::Reduce, port: arc.port, ..nothing() };
                step.sends.extend(self.sends(send, carried, parts));
            }
            schedule.steps.push(step);
        }
        schedule
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

    /// The message, or where ranks are symmetric one for each part of the blocks, all of whose chunks are in one slice.
    fn sends(&self, send: Send, carried: Parts, parts: u64) -> Vec<Send> {
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

/// What a rank receives, by the hops from all to it and to those that it receives from.
fn row(network: &Network, hops: &[Vec<u32>], rank: Rank) -> Row {
    let sources = network.incoming(rank).iter().map(|arc| &*hops[network.arcs()[*arc].source]);
    let (sources, own): (Vec<&[u32]>, &[u32]) = (sources.collect(), &hops[rank]);
    let mut row = Row::new();
    for block in (0..own.len()).filter(|block| *block != rank) {
        let bits = sources.iter().enumerate().filter(|(_, hops)| hops[block] + 1 == own[block]);
        let links = bits.fold(0, |mask, (bit, _)| mask | 1 << bit);
        row.entry((own[block] - 1, links)).or_default().push(block);
    }
    row
}

/// The steps of a row, each with its jobs.
fn steps(row: &Row) -> impl Iterator<Item = (usize, Vec<Jobs<'_>>)> {
    let mut jobs = row.iter().peekable();
    std::iter::from_fn(move || {
        let ((step, _), _) = *jobs.peek()?;
        let here = std::iter::from_fn(|| jobs.next_if(|((other, _), _)| other == step));
        Some((*step as usize, here.collect()))
    })
}

/// The classes of the jobs of one step, of so many parts each.
fn classes(jobs: &[Jobs<'_>], parts: u64) -> Vec<Class> {
    let class =
        |((_, links), blocks): &Jobs<'_>| Class { links: *links, amount: blocks.len() as u64 * parts };
    jobs.iter().map(class).collect()
}

/// Deals the parts of a class's blocks out to the links, as many to each as the flow says: one link after the other, so
/// that few blocks come by several.
fn deal(class: &[Rank], parts: u64, flow: Vec<u64>, carried: &mut [Parts]) {
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
