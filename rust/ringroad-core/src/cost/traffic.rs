//! The loads of links and ports in a step.
//!
//! In general every message is added to the links of its route. On a ring or torus whose links are all alike, the
//! messages of a symmetric schedule along one dimension load all lines of that dimension alike, so one line is
//! computed. If all ranks send the same way, one link of the line is enough. Both count halves of chunks in whole
//! numbers, without rounding.

use std::ops::Range;

use super::step::{CostError, StepCost};
use crate::schedule::{Motion, Orbit, Transfer, View};
use crate::topology::{Lattice, RingWay, Route, Routes, Topology, Unreachable};
use crate::units::Port;

/// What all links have carried in the steps so far.
pub(super) enum Totals {
    /// The chunks of each link.
    Links(Vec<f64>),
    /// The chunks on a ring or torus whose links are all alike.
    Lattice(Field),
}

impl Totals {
    pub fn new(routes: &mut Routes<'_>) -> Totals {
        match routes.lattice() {
            Some(lattice) => Totals::Lattice(Field::new(lattice)),
            None => Totals::Links(vec![0.0; routes.topology().links().len()]),
        }
    }

    /// What the busiest link has carried, in chunks.
    pub fn most(&self, routes: &mut Routes<'_>) -> f64 {
        match (self, routes.lattice()) {
            (Totals::Lattice(field), Some(lattice)) => field.most(lattice) / lattice.link().capacity,
            (Totals::Lattice(_), None) => unreachable!("the totals and the routes are of the same topology"),
            (Totals::Links(chunks), _) => chunks.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The part of a step's cost that depends on links, for a vector of `vector` chunks. The step's loads are added to
/// `totals` `times` times.
pub(super) fn step_cost(
    view: &View<'_>,
    step: usize,
    vector: f64,
    routes: &mut Routes<'_>,
    totals: &mut Totals,
    times: usize,
) -> Result<StepCost, CostError> {
    let topology = routes.topology();
    match (totals, routes.lattice()) {
        (Totals::Lattice(total), Some(lattice)) => {
            let (field, hops) = on_lattice(view, step, lattice);
            total.add(&field, times);
            let (latency, extra_latency) = lattice.latency(hops);
            let link_load = field.most(lattice) / lattice.link().capacity / vector;
            let seconds_per_byte = link_load / lattice.link().bandwidth;
            Ok(StepCost { hops, latency, extra_latency, link_load, seconds_per_byte, ..StepCost::default() })
        }
        (Totals::Links(total), None) => {
            on_links(&view.transfers(step), vector, topology, routes, total, times)
        }
        _ => unreachable!("the totals and the routes are of the same topology"),
    }
}

fn on_links(
    step: &[Transfer],
    vector: f64,
    topology: &Topology,
    routes: &mut Routes<'_>,
    totals: &mut [f64],
    times: usize,
) -> Result<StepCost, CostError> {
    let mut cost = StepCost::default();
    let chunks = spread(step, routes, |route| {
        cost.hops = cost.hops.max(route.hops);
        cost.latency = cost.latency.max(route.latency);
        cost.extra_latency = cost.extra_latency.max(route.extra_latency);
    })?;
    for ((link, chunks), total) in topology.links().iter().zip(chunks).zip(totals) {
        let chunks = chunks / link.capacity;
        *total += chunks * times as f64;
        let load = chunks / vector;
        cost.link_load = cost.link_load.max(load);
        cost.seconds_per_byte = cost.seconds_per_byte.max(load / link.bandwidth);
    }
    Ok(cost)
}

/// The chunks that each link carries. Every message's route is passed to `note`.
pub(super) fn spread(
    step: &[Transfer],
    routes: &mut Routes<'_>,
    mut note: impl FnMut(&Route),
) -> Result<Vec<f64>, Unreachable> {
    let mut chunks = vec![0.0; routes.topology().links().len()];
    for transfer in step {
        let route = routes.route(transfer.source, transfer.destination)?;
        note(&route);
        for &(link, share) in &route.shares {
            chunks[link] += share * transfer.chunks as f64;
        }
    }
    Ok(chunks)
}

/// The load of every link, and the most hops of a message.
fn on_lattice(view: &View<'_>, step: usize, lattice: &mut Lattice) -> (Field, usize) {
    let mut field = Field::new(lattice);
    let mut most = 0;
    let mut one_by_one = |transfers: &mut dyn Iterator<Item = Transfer>, field: &mut Field| {
        for Transfer { source, destination, chunks, .. } in transfers {
            most = most.max(lattice.hops(source, destination));
            lattice.spread(source, destination, chunks as f64, field.own(lattice.links()));
        }
        most
    };
    let Some(orbits) = view.orbits(step) else {
        let most = one_by_one(&mut view.transfers(step).into_iter(), &mut field);
        return (field, most);
    };
    let mut hops = 0;
    for orbit in &orbits {
        hops = hops.max(match straight(orbit, field.sizes()) {
            Some(ways) => {
                ways.iter().map(|(d, motion, goal)| field.add_line(*d, *motion, *goal, orbit)).sum()
            }
            None => one_by_one(&mut orbit.transfers(), &mut field),
        });
    }
    (field, hops)
}

/// For every dimension along which the messages of an orbit go: the dimension, its motion, and the coordinate to which
/// position 0 sends. `None` where these do not determine the load of each line. They do for messages along one
/// dimension, and for messages along several dimensions whose motions are all shifts: then the messages of all ranks
/// load every line as if each rank on the line sent one message along it.
fn straight(orbit: &Orbit<'_>, sizes: &[usize]) -> Option<Vec<(usize, Motion, usize)>> {
    let slice = orbit.slice();
    let placed = slice.cycle.is_some() || slice.ranks.is_some();
    if placed || !slice.axes.iter().map(|axis| axis.size).eq(sizes.iter().copied()) {
        return None;
    }
    let mut ways = Vec::new();
    let mut rest = orbit.goal();
    for (dimension, axis) in slice.axes.iter().enumerate().rev() {
        let goal = rest % axis.size;
        rest /= axis.size;
        if goal > 0 {
            ways.push((dimension, axis.motion, goal));
        }
    }
    (ways.len() <= 1 || ways.iter().all(|(_, motion, _)| *motion == Motion::Shift)).then_some(ways)
}

/// A number of chunks for every link of a lattice: the sum of a part that all parallel lines share and a part for
/// single links.
#[derive(Debug, Clone)]
pub(super) struct Field {
    sizes: Vec<usize>,
    /// The part that parallel lines share, in halves of chunks, by dimension, direction and coordinate of the link's
    /// start.
    lines: Vec<u64>,
    /// The part for single links, in chunks; empty where it is 0.
    links: Vec<f64>,
}

impl Field {
    fn new(lattice: &Lattice) -> Field {
        let sizes = lattice.sizes().to_vec();
        Field { lines: vec![0; 2 * sizes.iter().sum::<usize>()], links: Vec::new(), sizes }
    }

    fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn place(&self, dimension: usize, direction: usize) -> Range<usize> {
        let start = 2 * self.sizes[..dimension].iter().sum::<usize>() + direction * self.sizes[dimension];
        start..start + self.sizes[dimension]
    }

    fn line(&mut self, dimension: usize, direction: usize) -> &mut [u64] {
        let place = self.place(dimension, direction);
        &mut self.lines[place]
    }

    /// The part for single links.
    fn own(&mut self, links: usize) -> &mut [f64] {
        self.links.resize(links, 0.0);
        &mut self.links
    }

    fn add(&mut self, other: &Field, times: usize) {
        self.lines.iter_mut().zip(&other.lines).for_each(|(sum, more)| *sum += more * times as u64);
        if !other.links.is_empty() {
            let links = self.own(other.links.len());
            links.iter_mut().zip(&other.links).for_each(|(sum, more)| *sum += more * times as f64);
        }
    }

    /// The most chunks of a link.
    fn most(&self, lattice: &Lattice) -> f64 {
        let halves = |halves: u64| halves as f64 / 2.0;
        if self.links.is_empty() {
            return halves(self.lines.iter().copied().max().unwrap_or(0));
        }
        let wide = (0..self.sizes.len()).filter(|dimension| self.sizes[*dimension] > 1);
        let lines: Vec<(usize, &[u64])> =
            wide.flat_map(|d| [0, 1].map(|way| (d, &self.lines[self.place(d, way)]))).collect();
        // Links come rank by rank, dimension by dimension, the upper link first.
        let of_rank = |(rank, own): (usize, &[f64])| {
            let sum = |(own, (dimension, line)): (&f64, &(usize, &[u64]))| {
                own + halves(line[lattice.coordinate(rank, *dimension)])
            };
            own.iter().zip(&lines).map(sum).fold(0.0, f64::max)
        };
        self.links.chunks(lines.len()).enumerate().map(of_rank).fold(0.0, f64::max)
    }

    /// Adds the load of the links of a line when each of its positions sends the orbit's message along it; returns the
    /// most hops of a message.
    fn add_line(&mut self, dimension: usize, motion: Motion, goal: usize, orbit: &Orbit<'_>) -> usize {
        let size = self.sizes[dimension];
        let halves = |way: RingWay| (2 * orbit.chunks() / way.parts()) as u64;
        if motion == Motion::Shift {
            let way = RingWay::to(goal, size);
            for direction in (0..2).filter(|direction| way.directions[*direction]) {
                let every = halves(way) * way.hops as u64;
                self.line(dimension, direction).iter_mut().for_each(|link| *link += every);
            }
            return way.hops;
        }
        let mut hops = 0;
        let mut changes = [vec![0i64; size + 1], vec![0i64; size + 1]];
        for position in 0..size {
            let way = RingWay::to((motion.apply(size, position, goal) + size - position) % size, size);
            hops = hops.max(way.hops);
            let amount = halves(way) as i64;
            // A message up takes links that start at the position and above, a message down those at the position and
            // below.
            let starts = [position, (position + size + 1 - way.hops) % size];
            for direction in (0..2).filter(|direction| way.directions[*direction]) {
                let (start, end) = (starts[direction], starts[direction] + way.hops);
                let changes = &mut changes[direction];
                changes[start] += amount;
                changes[end.min(size)] -= amount;
                if end > size {
                    changes[0] += amount;
                    changes[end - size] -= amount;
                }
            }
        }
        for (direction, changes) in changes.iter().enumerate() {
            let mut load = 0;
            for (link, change) in self.line(dimension, direction).iter_mut().zip(changes) {
                load += change;
                *link += load as u64;
            }
        }
        hops
    }
}

/// The most chunks that leave a rank by one port. Without a grid all ports of a rank count as one.
pub(super) fn busiest_port(view: &View<'_>, step: usize, topology: &Topology) -> usize {
    let sizes = topology.dimensions();
    let on_lines = |orbits: Vec<Orbit<'_>>| -> Option<usize> {
        let mut sent = vec![0; 2 * sizes.iter().sum::<usize>()];
        for orbit in &orbits {
            straight(orbit, sizes)?;
            let dimension = orbit.port(0) / 2;
            let size = *sizes.get(dimension)?;
            let stride: usize = sizes[dimension + 1..].iter().product();
            let start = 2 * sizes[..dimension].iter().sum::<usize>();
            for at in 0..size {
                sent[start + orbit.port(at * stride) % 2 * size + at] += orbit.chunks();
            }
        }
        sent.into_iter().max()
    };
    if let Some(most) = view.orbits(step).filter(|_| !sizes.is_empty()).and_then(on_lines) {
        return most;
    }
    let outlet = |port: Port| if sizes.is_empty() { 0 } else { port };
    // For each rank, the ports by which it sends.
    let mut sent: Vec<Vec<(Port, usize)>> = vec![Vec::new(); view.ranks()];
    for transfer in view.transfers(step) {
        let (port, own) = (outlet(transfer.port), &mut sent[transfer.source]);
        match own.iter_mut().find(|(other, _)| *other == port) {
            Some((_, chunks)) => *chunks += transfer.chunks,
            None => own.push((port, transfer.chunks)),
        }
    }
    sent.into_iter().flatten().map(|(_, chunks)| chunks).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::algorithms::available;
    use crate::collective::Collective;
    use crate::cost::{ScheduleCost, StepCost};
    use crate::schedule::Schedule;
    use crate::topology::{Routes, Topology};

    /// Formulas agree with a search for every route and a sum over all messages, for schedules that are written out and
    /// for symmetric ones.
    #[test]
    fn formulas_agree_with_search() {
        let specs = [
            "ring:1",
            "ring:2",
            "ring:8",
            "ring:9",
            "ring:14",
            "torus:2x2",
            "torus:4x4",
            "torus:2x3",
            "torus:1x6",
            "torus:8x4",
            "torus:3x9",
            "torus:5x6",
            "torus:4x2x3",
            "torus:3x3x3",
            "torus:4x4x4",
        ];
        for topology in specs.map(|spec| Topology::parse(spec).unwrap()) {
            let (mut formulas, mut search) = (Routes::new(&topology), Routes::new(&topology).by_search());
            for collective in Collective::ALL {
                for member in available(&topology, collective) {
                    let schedule = member.build(&topology, collective).unwrap();
                    let what = format!("{member}: {collective} on {topology}");
                    check(&schedule, &mut formulas, &mut search, &what);
                }
            }
        }
    }

    fn check(schedule: &Schedule, formulas: &mut Routes<'_>, search: &mut Routes<'_>, what: &str) {
        let slow = ScheduleCost::with_routes(&schedule.expand(), search).unwrap();
        for fast in [schedule, &schedule.expand()] {
            let fast = ScheduleCost::with_routes(fast, formulas).unwrap();
            assert_eq!(fast.steps.len(), slow.steps.len(), "{what}");
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b;
            assert!(close(fast.busiest_link, slow.busiest_link), "{what}: {fast:?} {slow:?}");
            for (fast, slow) in fast.steps.iter().zip(&slow.steps) {
                let whole = |step: &StepCost| (step.messages, step.hops);
                let sums = |step: &StepCost| {
                    [step.link_load, step.seconds_per_byte, step.latency, step.reduced, step.port_load]
                };
                assert_eq!(whole(fast), whole(slow), "{what}");
                let same = sums(fast).into_iter().zip(sums(slow)).all(|(a, b)| close(a, b));
                assert!(same, "{what}: {fast:?} instead of {slow:?}");
            }
        }
    }

    /// Where messages go along one dimension, whole numbers are added, so that the order of summation does not matter.
    #[test]
    fn loads_along_one_dimension_are_exact() {
        let topology = Topology::parse("torus:12x18").unwrap();
        for name in ["swing", "trivance", "bruck", "bucket", "hamiltonian-rings"] {
            let member = crate::algorithms::find(name).unwrap();
            let schedule = member.build(&topology, Collective::Allreduce).unwrap();
            let chunks = schedule.chunks as f64;
            for step in ScheduleCost::from_schedule(&schedule, &topology).unwrap().steps {
                let halves = 2.0 * step.link_load * chunks;
                assert!((halves - halves.round()).abs() < 1e-9, "{name}: {halves}");
                assert_eq!(halves.round() / 2.0 / chunks, step.link_load, "{name}");
            }
        }
    }
}
