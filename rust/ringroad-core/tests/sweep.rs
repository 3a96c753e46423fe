//! Tests every member of every family on many more networks: the verifier accepts its schedules, and they cost what its
//! cost line says.
//!
//! By default these are all rings up to 65 ranks, tori of many shapes, and hosts; `RINGROAD_TEST_FULL=1` adds more and
//! larger ones.

#[path = "common/members.rs"]
mod members;

use members::brief_members;
use ringroad_core::algorithms::{catalogue, Algorithm, Member};
use ringroad_core::{Collective, Topology};

/// Tori that are square or not, with even and odd sizes, powers or not.
const TORI: [&[usize]; 14] = [
    &[2, 4],
    &[4, 4],
    &[6, 4],
    &[3, 3],
    &[9, 9],
    &[3, 9],
    &[7, 5],
    &[8, 16],
    &[5, 4, 3],
    &[4, 4, 4],
    &[3, 3, 3, 2],
    &[2, 2, 2, 2, 2],
    &[8, 8],
    &[16, 4],
];

const LARGE_TORI: [&[usize]; 6] = [&[27, 27], &[16, 16, 16], &[64, 64], &[9, 9, 9], &[15, 17], &[12, 10, 6]];

/// Beyond this many ranks an all-to-all, with a block for every pair, is too large to test.
const PAIRS: usize = 300;

/// Beyond this many ranks packing trees for every rank takes seconds.
const FORESTS: usize = 32;

fn full() -> bool {
    std::env::var_os("RINGROAD_TEST_FULL").is_some()
}

/// Verifies the collective and compares it with its cost line.
fn check(member: Member, topology: &Topology, collective: Collective) {
    let what = format!("{member} {collective} on {topology}");
    let schedule = member.build(topology, collective).unwrap_or_else(|error| panic!("{what}: {error}"));
    schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
    let cost = member.cost_line(topology, collective).unwrap();
    assert_eq!(schedule.steps.len(), cost.steps, "{what}: steps");
    let sent = schedule.max_sent();
    assert!((sent - cost.sent).abs() < 1e-9, "{what}: {sent} sent, not {cost:?}");
}

fn sweep(algorithm: &'static Algorithm, topology: &Topology) {
    if algorithm.name == "trees" && topology.ranks() > FORESTS && !full() {
        return;
    }
    for member in brief_members(algorithm, topology) {
        for collective in algorithm.collectives() {
            let too_large = collective == Collective::Alltoall && topology.ranks() > PAIRS;
            if member.supports(topology, collective).is_ok() && !too_large {
                let root = topology.ranks() / 3;
                check(member, topology, collective.with_root(root));
            }
        }
    }
}

/// Tests all families on all these networks, on as many threads as there are cores.
fn sweep_all(topologies: &[Topology]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for core in 0..cores {
            scope.spawn(move || {
                for topology in topologies.iter().skip(core).step_by(cores) {
                    catalogue().for_each(|algorithm| sweep(algorithm, topology));
                }
            });
        }
    });
}

#[test]
fn rings() {
    let largest = if full() { 257 } else { 65 };
    sweep_all(&(2..=largest).map(|ranks| Topology::ring(ranks).unwrap()).collect::<Vec<_>>());
}

#[test]
fn hosts() {
    let most = if full() { 12 } else { 6 };
    let pairs = (1..=most).flat_map(|hosts| (1..=most).map(move |per_host| (hosts, per_host)));
    let larger = [(16, 8), (9, 16), (64, 2), (2, 64), (50, 5)];
    let all = pairs.chain(larger).map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
    sweep_all(&all.collect::<Vec<_>>());
}

#[test]
fn tori() {
    let larger: &[&[usize]] = if full() { &LARGE_TORI } else { &[] };
    let sizes = TORI.iter().chain(larger);
    sweep_all(&sizes.map(|sizes| Topology::torus(sizes).unwrap()).collect::<Vec<_>>());
}
