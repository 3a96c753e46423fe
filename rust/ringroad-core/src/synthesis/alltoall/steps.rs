//! In which step each chunk goes over each arc of its path.
//!
//! Every chunk takes increasing steps that are the least busy on its arcs. A dynamic program over arcs and steps finds
//! them, with prices that grow exponentially with how busy an arc is in a step. Chunks choose again until the steps are
//! nearly as short as the flow allows.

use libm::exp;

use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::synthesis::Network;

use super::chunks::{in_chunks, in_few_chunks, Trip};
use super::Concurrent;

/// How steeply prices grow with load at first, and by which factor that increases after each sweep over all chunks.
const STEEP: f64 = 12.0;
const STEEPER: f64 = 1.25;
/// The most sweeps, and the most sweeps without a gain.
const LOOKS: usize = 16;
const PATIENCE: usize = 3;
/// Steps that take at most this many times what the flow needs are short enough.
const ENOUGH: f64 = 1.002;

/// How many chunks go over each arc in each step, and how many should.
struct Timetable<'a> {
    network: &'a Network,
    steps: usize,
    /// By step, then by arc.
    counts: Vec<u32>,
    room: Vec<f64>,
    steep: f64,
    price: Vec<f64>,
    least: Vec<f64>,
}

impl<'a> Timetable<'a> {
    /// Spreads what the busiest arc carries evenly over the steps; where that is no whole number, steps differ by one
    /// chunk.
    fn new(network: &'a Network, load: f64, steps: usize) -> Timetable<'a> {
        let mut room = Vec::with_capacity(steps * network.arcs().len());
        for step in 0..steps {
            for arc in network.arcs() {
                let all = (arc.capacity as f64 * load + 1e-9).floor();
                let until = |step: usize| (all * step as f64 / steps as f64).floor();
                room.push((until(step + 1) - until(step)).max(0.5));
            }
        }
        let mut made = Timetable {
            network,
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
            let cell = *time as usize * self.network.arcs().len() + *arc as usize;
            self.counts[cell] = self.counts[cell].saturating_add_signed(by);
            self.price[cell] = self.price_of(cell);
        }
    }

    /// Chooses the cheapest steps for a path, each later than the one before.
    fn choose(&mut self, arcs: &[u32], times: &mut [u16]) {
        let (all, steps) = (self.network.arcs().len(), self.steps);
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
        let arcs = self.network.arcs();
        let full = |(count, arc): (&u32, &crate::synthesis::Arc)| f64::from(*count) / arc.capacity as f64;
        let longest = |step: &[u32]| step.iter().zip(arcs).map(full).fold(0.0, f64::max);
        // A network of one rank has no arcs, and chunks of 0 are not allowed.
        self.counts.chunks(arcs.len().max(1)).map(longest).sum()
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

/// Chooses how many steps there are and in which of them each trip goes over its arcs. There are at most `steps`, or as
/// many as the longest path has arcs. Prefers fewer steps if they take no longer.
fn times(network: &Network, trips: &[Trip], load: f64, steps: usize) -> Times {
    let longest = trips.iter().map(|trip| trip.arcs.len()).max().unwrap_or(0);
    // A step is useful only if an arc can carry at least one chunk in it.
    let narrowest = network.arcs().iter().map(|arc| arc.capacity).min().unwrap_or(1);
    let most = steps.min((load * narrowest as f64 + 1e-9) as usize).max(longest);
    let mut tried = vec![longest, longest.midpoint(most), most];
    tried.dedup();
    let mut best = Times { length: f64::INFINITY, of_trips: Vec::new(), steps: 0 };
    for steps in tried {
        let (length, of_trips) = times_in(network, trips, load, steps);
        if length < best.length {
            best = Times { length, of_trips, steps };
        }
        if length <= load * ENOUGH {
            break;
        }
    }
    best
}

/// For this number of steps, the time of all steps together and the steps of each trip.
fn times_in(network: &Network, trips: &[Trip], load: f64, steps: usize) -> (f64, Vec<Vec<u16>>) {
    let mut table = Timetable::new(network, load, steps);
    let mut times: Vec<Vec<u16>> = trips.iter().map(|trip| vec![0; trip.arcs.len()]).collect();
    // Long paths have the least choice, so they come first.
    let mut order: Vec<usize> = (0..trips.len()).collect();
    order.sort_by_key(|trip| std::cmp::Reverse(trips[*trip].arcs.len()));
    let (mut best, mut kept, mut improved) = (f64::INFINITY, times.clone(), 0);
    for look in 0..LOOKS {
        for &trip in &order {
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
        if best <= load * ENOUGH || look - improved >= PATIENCE {
            break;
        }
        table.steep *= STEEPER;
        table.price_all();
    }
    (best, kept)
}

/// `relayed` stops adding chunks when loads, or all steps together, exceed the bound by at most this fraction. It also
/// stops if twice as many chunks shorten the steps by less than `CLOSE`.
const CLOSE: f64 = 0.03;
const CLOSE_STEPS: f64 = 0.05;
/// The most chunks of a schedule that is written out for all ranks. Such a schedule takes some seconds and some hundred
/// megabytes.
pub const MOST_CHUNKS: usize = 1 << 20;

/// The all-to-all along the paths of a flow; ranks on a path pass blocks on. Cuts each block into as few chunks as
/// bring the busiest arc, and all steps together, close to the bound: at most `most` chunks, and at most
/// [`MOST_CHUNKS`] in all. Returns the schedule and the number of chunks per block. See [`schedule`] for `steps`.
pub fn relayed(
    name: &str,
    network: &Network,
    flow: &Concurrent,
    most: usize,
    steps: usize,
) -> (Schedule, usize) {
    let most = (MOST_CHUNKS / network.ranks().pow(2)).clamp(1, most.max(1));
    let (mut pieces, mut trips, mut load) = in_few_chunks(network, flow, most, CLOSE);
    let mut best: Option<(f64, Schedule, usize)> = None;
    loop {
        let times = times(network, &trips, load, steps);
        let length = times.length / pieces as f64;
        if best.as_ref().is_some_and(|best| length > best.0 * (1.0 - CLOSE)) {
            break;
        }
        best = Some((length, written(name, network, &trips, pieces, &times), pieces));
        pieces *= 2;
        if length <= flow.bound * (1.0 + CLOSE_STEPS) || pieces > most {
            break;
        }
        (trips, load) = in_chunks(network, flow, pieces);
    }
    let (_, schedule, pieces) = best.expect("there is one of as few chunks as can be");
    (schedule, pieces)
}

/// The all-to-all in which every chunk takes its path from neighbour to neighbour, in at most `steps` steps, or in as
/// many as the longest path has arcs. The busiest arc carries `load` chunks per unit of its capacity.
pub fn schedule(
    name: &str,
    network: &Network,
    trips: &[Trip],
    pieces: usize,
    load: f64,
    steps: usize,
) -> Schedule {
    written(name, network, trips, pieces, &times(network, trips, load, steps))
}

fn written(name: &str, network: &Network, trips: &[Trip], pieces: usize, times: &Times) -> Schedule {
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
