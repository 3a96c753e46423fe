//! In which step each chunk goes over each arc of its path.
//!
//! Every chunk takes increasing steps that are the least busy on its arcs. A dynamic program over arcs and steps finds
//! them, with prices that grow exponentially with how busy an arc is in a step. Chunks choose again until the steps are
//! nearly as short as the flow allows.

use libm::exp;

use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::synthesis::{Budget, Digraph, Spent};

use super::chunks::{in_chunks, in_few_chunks, Trip};
use super::Concurrent;

/// How steeply prices grow with load at first, and by which factor that increases after each iteration over all chunks.
const STEEP: f64 = 12.0;
const STEEPER: f64 = 1.25;
/// The most iterations, and the most iterations without a gain.
const LOOKS: usize = 16;
const MAX_STALLED_ITERATIONS: usize = 3;
/// Steps that take at most this many times what the flow needs are short enough.
const ENOUGH: f64 = 1.002;

/// How many chunks go over each arc in each step, and how many should.
struct ArcTimetable {
    /// Of each arc.
    capacity: Vec<f64>,
    steps: usize,
    /// By step, then by arc.
    counts: Vec<u32>,
    room: Vec<f64>,
    steep: f64,
    price: Vec<f64>,
    least: Vec<f64>,
}

impl ArcTimetable {
    /// Spreads what the busiest arc carries evenly over the steps; where that is no whole number, steps differ by one
    /// chunk.
    fn new(network: &Digraph, load: f64, steps: usize) -> ArcTimetable {
        let capacity = network.capacities();
        let mut room = Vec::with_capacity(steps * capacity.len());
        for step in 0..steps {
            for capacity in &capacity {
                let all = (capacity * load + 1e-9).floor();
                let until = |step: usize| (all * step as f64 / steps as f64).floor();
                room.push((until(step + 1) - until(step)).max(0.5));
            }
        }
        let mut made = ArcTimetable {
            capacity,
            steps,
            counts: vec![0; room.len()],
            price: vec![0.0; room.len()],
            room,
            steep: STEEP,
            least: Vec::new(),
        };
        made.price_all();
        made
    }

    fn price_all(&mut self) {
        (0..self.price.len()).for_each(|cell| self.price[cell] = self.price_of(cell));
    }

    /// The price of another chunk in a cell.
    fn price_of(&self, cell: usize) -> f64 {
        exp((self.steep * (f64::from(self.counts[cell] + 1) / self.room[cell] - 1.0)).min(300.0))
    }

    fn change(&mut self, arcs: &[u32], times: &[u16], by: i32) {
        for (arc, time) in arcs.iter().zip(times) {
            let cell = *time as usize * self.capacity.len() + *arc as usize;
            self.counts[cell] = self.counts[cell].saturating_add_signed(by);
            self.price[cell] = self.price_of(cell);
        }
    }

    /// Chooses the cheapest steps for a path, each later than the one before.
    fn choose(&mut self, arcs: &[u32], times: &mut [u16]) {
        let (all, steps) = (self.capacity.len(), self.steps);
        let width = steps + 1;
        // `least[j * width + t]` is the least cost of the first `j` arcs within the first `t` steps.
        self.least.clear();
        self.least.resize((arcs.len() + 1) * width, f64::INFINITY);
        self.least[..width].fill(0.0);
        for (index, arc) in arcs.iter().enumerate() {
            let (before, now) = (index * width, (index + 1) * width);
            for time in index + 1..=steps {
                let taken = self.least[before + time - 1] + self.price[(time - 1) * all + *arc as usize];
                self.least[now + time] = self.least[now + time - 1].min(taken);
            }
        }
        let mut time = steps;
        for index in (0..arcs.len()).rev() {
            let now = (index + 1) * width;
            while self.least[now + time - 1] <= self.least[now + time] {
                time -= 1;
            }
            times[index] = (time - 1) as u16;
            time -= 1;
        }
    }

    /// The time of all steps together, in chunks per unit of capacity.
    fn length(&self) -> f64 {
        let full = |(count, capacity): (&u32, &f64)| f64::from(*count) / capacity;
        let longest = |step: &[u32]| step.iter().zip(&self.capacity).map(full).fold(0.0, f64::max);
        // A network of one rank has no arcs, and chunks of 0 are not allowed.
        self.counts.chunks(self.capacity.len().max(1)).map(longest).sum()
    }
}

/// The steps in which trips go over their arcs.
struct Times {
    /// The time of all steps together, in chunks per unit of capacity.
    length: f64,
    /// For each trip, the step of each of its arcs.
    of_trips: Vec<Vec<u16>>,
    steps: usize,
}

/// Chooses in which of at most `steps` steps each trip goes over its arcs, or of as many as the longest path has arcs.
/// Prefers fewer steps if they take no longer.
fn times(
    network: &Digraph,
    trips: &[Trip],
    load: f64,
    steps: usize,
    budget: Budget<'_>,
) -> Result<Times, Spent> {
    let longest = trips.iter().map(|trip| trip.arcs.len()).max().unwrap_or(0);
    let most = useful(network, load, steps).max(longest);
    let mut tried = vec![longest, longest.midpoint(most), most];
    tried.dedup();
    let mut best = Times { length: f64::INFINITY, of_trips: Vec::new(), steps: 0 };
    for steps in tried {
        let found = times_in(network, trips, load, steps, budget)?;
        if found.length < best.length {
            best = found;
        }
        if best.length <= load * ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// At most this many steps: a step is useful only if an arc can carry at least one chunk in it.
fn useful(network: &Digraph, load: f64, steps: usize) -> usize {
    let narrowest = network.capacities().into_iter().reduce(f64::min).unwrap_or(1.0);
    steps.min((load * narrowest + 1e-9) as usize)
}

/// Chooses in which of exactly so many steps each trip goes over its arcs.
fn times_in(
    network: &Digraph,
    trips: &[Trip],
    load: f64,
    steps: usize,
    budget: Budget<'_>,
) -> Result<Times, Spent> {
    let mut table = ArcTimetable::new(network, load, steps);
    let mut times: Vec<Vec<u16>> = trips.iter().map(|trip| vec![0; trip.arcs.len()]).collect();
    // Long paths have the least choice, so they come first.
    let mut order: Vec<usize> = (0..trips.len()).collect();
    order.sort_by_key(|trip| std::cmp::Reverse(trips[*trip].arcs.len()));
    let (mut best, mut kept, mut improved) = (f64::INFINITY, times.clone(), 0);
    for look in 0..LOOKS {
        for &trip in &order {
            budget.check()?;
            let arcs = &trips[trip].arcs;
            if look > 0 {
                table.change(arcs, &times[trip], -1);
            }
            table.choose(arcs, &mut times[trip]);
            table.change(arcs, &times[trip], 1);
        }
        let length = table.length();
        if length < best {
            (best, improved) = (length, look);
            kept.clone_from(&times);
        }
        if best <= load * ENOUGH || look - improved >= MAX_STALLED_ITERATIONS {
            break;
        }
        table.steep *= STEEPER;
        table.price_all();
    }
    Ok(Times { length: best, of_trips: kept, steps })
}

/// `relayed` seeks as many chunks as bring the busiest arc within `CLOSE` of the bound, and as many steps as bring all
/// steps together within `CLOSE_STEPS`. More steps must shorten the time by `WORTH`.
const CLOSE: f64 = 0.03;
const CLOSE_STEPS: f64 = 0.05;
const WORTH: f64 = 0.003;
/// A flow that is farther from its bound cannot come as close to it; then this much more than the flow is enough.
const CLOSE_FLOW: f64 = 0.03;
/// The most chunks of a schedule that is written out for all ranks. Such a schedule takes some seconds and some hundred
/// megabytes.
pub const MOST_CHUNKS: usize = 1 << 20;
/// The most chunks of a block and the most chunks in all that nobody asked for; a block may have `FEW` in any case.
const MOST_PIECES: usize = 512;
const MOST_UNASKED: usize = 1 << 18;
const FEW: usize = 8;
/// The most steps that nobody asked for, as multiples of the diameter: first, and in the end.
const STEPS: usize = 3;
const MOST_STEPS: usize = 48;

/// What limits a schedule; `None`: as many as it takes to come close to the bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// The most chunks of a block; there are at most [`MOST_CHUNKS`] in all.
    pub pieces: Option<usize>,
    /// The most steps; there are as many as the longest path has arcs in any case.
    pub steps: Option<usize>,
}

/// A schedule along the paths of a flow.
#[derive(Debug, Clone)]
pub struct Relayed {
    /// The schedule.
    pub schedule: Schedule,
    /// The number of chunks of a block.
    pub pieces: usize,
    /// How full the busiest arc is, in the units of [`Concurrent::load`].
    pub load: f64,
    /// What all steps together take, in the same units: each lasts until its busiest arc is done.
    pub length: f64,
}

/// The all-to-all along the paths of a flow; ranks on a path pass blocks on. Cuts each block into as few chunks, and makes
/// as few steps, as bring the busiest arc and all steps together close to the bound. Where limits prevent that, takes the
/// shortest schedule found.
pub fn relayed(
    name: &str,
    network: &Digraph,
    flow: &Concurrent,
    limits: Limits,
    budget: Budget<'_>,
) -> Result<Relayed, Spent> {
    let ranks = network.ranks();
    let unasked = (MOST_UNASKED / ranks.pow(2)).clamp(FEW, MOST_PIECES);
    let most = limits.pieces.unwrap_or(unasked).min(MOST_CHUNKS / ranks.pow(2)).max(1);
    let near =
        |load: f64, close: f64| load <= (flow.bound * (1.0 + close)).max(flow.load * (1.0 + CLOSE_FLOW));
    let diameter = (0..ranks).flat_map(|rank| network.hops_from(rank)).max().unwrap_or(0) as usize;
    let allowed =
        |times: usize| limits.steps.unwrap_or(usize::MAX).min(times * diameter).min(usize::from(u16::MAX));
    let (mut pieces, mut trips, mut load) = in_few_chunks(network, flow, most.min(FEW), CLOSE, budget)?;
    let mut best: Option<(f64, f64, usize, Vec<Trip>, Times)> = None;
    loop {
        let mut steps = allowed(limits.steps.map_or(STEPS, |_| MOST_STEPS * ranks));
        let mut found = times(network, &trips, load, steps, budget)?;
        // More steps help where the busiest arcs come late on their paths and have nothing to do at first.
        let enough = |times: &Times| near(times.length / pieces as f64, CLOSE_STEPS);
        while !enough(&found) && limits.steps.is_none() && steps < allowed(MOST_STEPS) {
            steps = useful(network, load, 2 * steps);
            if steps <= found.steps {
                break;
            }
            let more = times_in(network, &trips, load, steps, budget)?;
            if more.length > found.length * (1.0 - WORTH) {
                break;
            }
            found = more;
        }
        let length = found.length / pieces as f64;
        let close = near(load / pieces as f64, CLOSE) && enough(&found);
        if close || best.as_ref().is_none_or(|best| length < best.0) {
            best = Some((length, load / pieces as f64, pieces, trips, found));
        }
        if close || 2 * pieces > most {
            break;
        }
        pieces *= 2;
        (trips, load) = in_chunks(network, flow, pieces, budget)?;
    }
    let (length, load, pieces, trips, times) = best.expect("there is one of as few chunks as can be");
    Ok(Relayed { schedule: written(name, network, &trips, pieces, &times), pieces, load, length })
}

/// The all-to-all in which every chunk takes its path from neighbour to neighbour, in at most `steps` steps, or in as
/// many as the longest path has arcs. The busiest arc carries `load` chunks per unit of its capacity.
pub fn schedule(
    name: &str,
    network: &Digraph,
    trips: &[Trip],
    pieces: usize,
    load: f64,
    steps: usize,
    budget: Budget<'_>,
) -> Result<Schedule, Spent> {
    Ok(written(name, network, trips, pieces, &times(network, trips, load, steps, budget)?))
}

fn written(name: &str, network: &Digraph, trips: &[Trip], pieces: usize, times: &Times) -> Schedule {
    let ranks = network.ranks();
    let mut moves: Vec<Vec<(u32, usize)>> = vec![Vec::new(); times.steps];
    for (trip, times) in trips.iter().zip(&times.of_trips) {
        let chunk = (trip.source * ranks + trip.target) * pieces + trip.piece;
        trip.arcs.iter().zip(times).for_each(|(arc, time)| moves[*time as usize].push((*arc, chunk)));
    }
    let mut schedule = Schedule::empty(name, Collective::Alltoall, ranks, ranks * ranks * pieces);
    for mut moves in moves {
        moves.sort_unstable();
        let send = |moves: &[(u32, usize)]| {
            let arc = network.arcs()[moves[0].0 as usize];
            Send {
                source: arc.source,
                destination: arc.target,
                chunks: moves.iter().map(|(_, chunk)| *chunk).collect::<ChunkSet>(),
                action: Action::Copy,
                port: arc.port,
                from: 0,
                into: 0,
            }
        };
        schedule.push(moves.chunk_by(|a, b| a.0 == b.0).map(send).collect());
    }
    schedule
}

/// The most chunks that any rank holds at one time while it passes them on between other ranks.
pub fn held_by_relays(schedule: &Schedule) -> usize {
    let written = schedule.expand();
    let ranks = written.ranks;
    let pieces = written.chunks / (ranks * ranks);
    let passes = |rank: usize, chunk: usize| {
        let pair = chunk / pieces;
        pair / ranks != rank && pair % ranks != rank
    };
    let mut held = vec![0usize; ranks];
    let mut most = 0;
    for send in written.steps.iter().map(|step| &step.sends) {
        // What leaves in a step makes room only for what arrives in later steps.
        for send in send {
            held[send.destination] +=
                send.chunks.iter().filter(|chunk| passes(send.destination, *chunk)).count();
        }
        most = most.max(held.iter().copied().max().unwrap_or(0));
        for send in send {
            held[send.source] -= send.chunks.iter().filter(|chunk| passes(send.source, *chunk)).count();
        }
    }
    most
}
