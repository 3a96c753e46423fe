//! Algorithms for ranks that stand in any order on a known network.

use ringroad_core::algorithms::{available, find};
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::units::Rank;
use ringroad_core::{Collective, Schedule, Topology};

const SPECS: [&str; 12] = [
    "ring:6",
    "ring:7",
    "torus:3x3",
    "torus:2x4",
    "mesh:2x3",
    "hypercube:3",
    "hyperx:3x3",
    "hosts:2x3",
    "hosts:1,2,3",
    "switch:5",
    "petersen",
    "without(torus:3x3, 0-1)",
];

/// Another order for every seed.
fn shuffled(ranks: usize, seed: usize) -> Vec<Rank> {
    let mut positions: Vec<Rank> = (0..ranks).collect();
    positions.sort_by_key(|rank| (rank + 1) * (3 * seed + 40) % 101);
    positions
}

/// All algorithms of the network run on it in any order of ranks, with the same steps and at the same cost.
#[test]
fn algorithms_of_the_positions_run_on_ranks() {
    for (seed, base) in SPECS.map(|spec| Topology::parse(spec).unwrap()).into_iter().enumerate() {
        let positions = shuffled(base.ranks(), seed);
        let placed = base.clone().placed(&positions).unwrap();
        assert!(placed.positions().is_some());
        for (index, collective) in Collective::ALL.into_iter().enumerate() {
            let collective = collective.with_root((seed + index) % base.ranks());
            check(&base, &placed, &positions, collective);
        }
    }
}

fn check(base: &Topology, placed: &Topology, positions: &[Rank], collective: Collective) {
    let there = collective.with_root(collective.root().map_or(0, |root| positions[root]));
    let members = available(placed, collective);
    assert_eq!(members, available(base, there), "{collective} on {placed}");
    for member in members {
        let what = format!("{member}: {collective} on {placed}");
        member.supports(placed, collective).unwrap();
        let schedule = member.build(placed, collective).unwrap();
        assert_eq!((schedule.collective, schedule.ranks), (collective, placed.ranks()), "{what}");
        assert_eq!(schedule.name, member.name(), "{what}");
        schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
        let line = member.cost_line(placed, collective).unwrap();
        assert_eq!(schedule.steps.len(), line.steps, "{what}");
        assert!((schedule.max_sent() - line.sent).abs() < 1e-9, "{what}");
        if collective.is_prefix() || member.in_rank_order(collective) {
            continue;
        }
        assert_eq!(member.bit_identical(placed, collective), member.bit_identical(base, there), "{what}");
        let original = member.build(base, there).unwrap();
        assert_eq!(schedule.symmetry.is_some(), original.symmetry.is_some(), "{what}");
        let written = original.expand().placed(positions).unwrap();
        assert!(sorted(&schedule.expand()) == sorted(&written), "{what}");
        assert_eq!(Schedule::from_json(&schedule.to_json()).unwrap(), schedule, "{what}");
        schedule.expand().verify().unwrap_or_else(|error| panic!("{what}, written out: {error}"));
        let seconds = |schedule: &Schedule, topology: &Topology| {
            let model = CostModel { message_latency: 0.3e-6, reduce_cost: 5e-11, ..CostModel::default() };
            let cost = ScheduleCost::from_schedule(schedule, topology).unwrap();
            [0, 1 << 12, 1 << 24].map(|bytes| model.seconds(&cost, bytes))
        };
        for (here, there) in seconds(&schedule, placed).into_iter().zip(seconds(&original, base)) {
            assert!((here - there).abs() <= 1e-9 * there, "{what}: {here} and {there}");
        }
        let parts = member.parts(placed, collective).unwrap();
        assert_eq!(parts.len(), member.parts(base, there).unwrap().len(), "{what}");
    }
}

/// The schedule with the sends of every step in the order of their ends.
fn sorted(schedule: &Schedule) -> Schedule {
    let mut sorted = schedule.clone();
    for step in &mut sorted.steps {
        step.sends.sort_by_key(|send| (send.source, send.destination, send.port, send.from, send.into));
        step.locals.sort_by_key(|local| local.rank);
    }
    sorted
}

/// The order of additions is that of the ranks, wherever they stand.
#[test]
fn order_is_that_of_ranks() {
    let placed = Topology::parse("switch:4@2,0,3,1").unwrap();
    let ordered = available(&placed, Collective::Allreduce);
    let ordered = ordered.into_iter().find(|member| member.in_rank_order(Collective::Allreduce)).unwrap();
    let schedule = ordered.build(&placed, Collective::Allreduce).unwrap();
    let plain = ordered.build(&Topology::switch(4).unwrap(), Collective::Allreduce).unwrap();
    assert_eq!(schedule, plain);
}

#[test]
fn some_schedules_cannot_be_placed() {
    let ring = Topology::ring(4).unwrap();
    let build = |collective| available(&ring, collective)[0].build(&ring, collective).unwrap();
    for positions in [&[0, 1, 2][..], &[0, 1, 2, 2], &[0, 1, 2, 4]] {
        assert!(build(Collective::Allgather).placed(positions).is_err());
    }
    assert!(build(Collective::Scan).placed(&[1, 0, 2, 3]).is_err());
    let allgather = build(Collective::Allgather);
    assert_eq!(allgather.placed(&[0, 1, 2, 3]).unwrap().expand(), allgather.expand());
}

/// Where all positions act alike, so do all ranks, and large schedules stay short.
#[test]
fn large_networks_stay_symmetric() {
    let base = Topology::parse("torus:32x32").unwrap();
    let placed =
        base.clone().placed(&(0..1024).map(|rank| rank * 389 % 1024).collect::<Vec<Rank>>()).unwrap();
    for collective in [Collective::Allreduce, Collective::Allgather, Collective::Alltoall] {
        let member = find(if collective == Collective::Alltoall { "pairwise" } else { "swing" }).unwrap();
        let (here, there) = (member.build(&placed, collective), member.build(&base, collective));
        let (here, there) = (here.unwrap(), there.unwrap());
        assert!(here.symmetry.is_some());
        assert!(here.footprint() < 2 * there.footprint());
        here.verify().unwrap();
    }
}
