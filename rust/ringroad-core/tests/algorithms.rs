//! Tests every algorithm for every collective that it offers, on 1 to 64 ranks: the verifier accepts its schedules, and
//! they cost what its cost line says. Also tests that the verifier rejects every corruption of these schedules.
//!
//! `RINGROAD_TEST_FULL=1` tests up to 130 ranks, with all members of a family.

#[path = "common/members.rs"]
mod members;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use members::brief_members;
use proptest::prelude::*;
use ringroad_core::algorithms::{
    along_dimensions, available, catalogue, find, Algorithm, Member, Shape, Unavailable,
};
use ringroad_core::cost::{Bounds, CostModel, ScheduleCost};
use ringroad_core::schedule::{Motion, Transfer, VerifyError, View};
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Routes;
use ringroad_core::{Action, Collective, Schedule, Send, Step, Topology};

const RANKS: std::ops::RangeInclusive<usize> = 1..=64;

/// Tori of all kinds: square or not, with even and odd sizes, powers or not, with dimensions of one or two ranks.
const TORI: [&[usize]; 20] = [
    &[2, 2],
    &[2, 4],
    &[4, 2],
    &[4, 4],
    &[6, 4],
    &[3, 3],
    &[9, 9],
    &[3, 9],
    &[7, 5],
    &[1, 6],
    &[5, 1, 3],
    &[2, 3],
    &[8, 16],
    &[5, 4, 3],
    &[4, 4, 4],
    &[3, 3, 3, 2],
    &[2, 2, 2, 2, 2],
    &[4, 8, 2],
    &[10, 6],
    &[8, 8],
];

/// Up to this many hosts and ranks per host are tested, and some larger ones.
const HOSTS: (usize, usize) = (5, 5);
const MORE_HOSTS: [(usize, usize); 5] = [(8, 2), (16, 3), (7, 6), (12, 4), (3, 16)];
const UNEQUAL_HOSTS: [&[usize]; 7] =
    [&[1, 2], &[3, 1], &[1, 2, 3], &[4, 1, 3, 2], &[5, 2, 2, 5, 3], &[1, 8], &[2, 3, 1, 1, 1, 1, 4, 2]];

fn on_hosts() -> Vec<Topology> {
    let pairs = (1..=HOSTS.0).flat_map(|hosts| (1..=HOSTS.1).map(move |per_host| (hosts, per_host)));
    let equal = pairs.chain(MORE_HOSTS).map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
    equal.chain(UNEQUAL_HOSTS.iter().map(|sizes| Topology::hosts_with(sizes).unwrap())).collect()
}

fn on_ring(ranks: usize) -> Topology {
    Topology::ring(ranks).unwrap()
}

fn torus(sizes: &[usize]) -> Topology {
    Topology::torus(sizes).unwrap()
}

/// The collective with every root to test: the first, the middle and the last rank.
fn with_roots(collective: Collective, ranks: usize) -> Vec<Collective> {
    let roots = BTreeSet::from([0, ranks / 2, ranks - 1]);
    let wanted = if collective.root().is_some() { roots.len() } else { 1 };
    roots.into_iter().take(wanted).map(|root| collective.with_root(root)).collect()
}

fn check(member: Member, topology: &Topology, collective: Collective) {
    let what = format!("{member} {collective} on {topology}");
    let offer = member.algorithm().offer(collective).expect("it is one of its collectives");
    let admitted = offer.requirement.admits(topology);
    let schedule = match member.build(topology, collective) {
        Ok(schedule) => schedule,
        Err(error @ Unavailable::Parameter { .. }) => {
            assert!(admitted && !offer.has(member.parameter()), "{what}: {error}");
            return;
        }
        Err(error) => {
            assert!(!admitted, "{what}: {error}");
            assert!(matches!(error, Unavailable::Shape { .. }), "{what}: {error}");
            assert!(member.cost_line(topology, collective).is_err(), "{what}");
            return;
        }
    };
    assert!(admitted, "{what} breaks its own requirement");
    let ranks = topology.ranks();
    assert_eq!(
        (schedule.name.as_str(), schedule.collective, schedule.ranks),
        (&*member.name(), collective, ranks)
    );
    schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
    // The schedule written out must be equivalent.
    let expanded = schedule.expand();
    expanded.verify().unwrap_or_else(|error| panic!("{what}, written out: {error}"));
    check_rows(&schedule, &expanded, &what);

    let cost = member.cost_line(topology, collective).unwrap();
    assert_eq!(schedule.steps.len(), cost.steps, "{what}: steps");
    let sent = schedule.max_sent();
    assert!((sent - cost.sent).abs() < 1e-9, "{what}: {sent} sent, not {cost:?}");
    check_ports(member, topology, &expanded, &what);
    if collective.reduces() && !collective.is_prefix() {
        let bit_identical = member.bit_identical(topology, collective);
        assert!(!bit_identical || is_bit_identical(&expanded), "{what}: not bit-identical");
        // With few ranks there may be only one order of addition, which the catalogue need not know.
        assert!(
            bit_identical || ranks <= 4 || !is_bit_identical(&expanded),
            "{what}: bit-identical after all"
        );
    }

    assert_eq!(Schedule::from_json(&schedule.to_json()).unwrap(), schedule, "{what}: JSON");
    if collective != Collective::Alltoall && !collective.is_prefix() && schedule.slots() == 1 {
        assert_eq!(schedule.reverse().unwrap().reverse().unwrap(), schedule, "{what}: reversed twice");
        assert_eq!(
            sorted(&schedule.reverse().unwrap().expand()),
            sorted(&expanded.reverse().unwrap()),
            "{what}: reversed, written out"
        );
    }
}

/// The steps, with their sends sorted.
fn sorted(schedule: &Schedule) -> Vec<Vec<String>> {
    let lines = |step: &Step| {
        let mut lines: Vec<String> = step.sends.iter().map(|send| format!("{send:?}")).collect();
        lines.sort_unstable();
        lines
    };
    schedule.steps.iter().map(lines).collect()
}

/// The rows of a symmetric schedule are those of the same schedule written out, in the same order, and both count the
/// same messages.
fn check_rows(schedule: &Schedule, expanded: &Schedule, what: &str) {
    let steps = schedule.steps.len();
    for rank in BTreeSet::from([0, 1 % schedule.ranks, schedule.ranks / 2, schedule.ranks - 1]) {
        assert_eq!(schedule.rows(rank), expanded.rows(rank), "{what}: rank {rank}");
    }
    let (schedule, expanded) = (schedule.view(), expanded.view());
    for step in 0..steps {
        let count = |s: &View<'_>| {
            let mut counts: BTreeMap<_, usize> = BTreeMap::new();
            for t in s.transfers(step) {
                *counts.entry((t.source, t.destination, t.port)).or_default() += t.chunks;
            }
            counts
        };
        assert_eq!(count(&schedule), count(&expanded), "{what}: step {step}");
        assert_eq!(schedule.reduced(step), expanded.reduced(step), "{what}: step {step}");
        assert_eq!(schedule.messages(step), expanded.messages(step), "{what}: step {step}");
    }
}

/// No rank sends by more ports in a step than the algorithm declares, and no two messages could be one.
fn check_ports(member: Member, topology: &Topology, schedule: &Schedule, what: &str) {
    let shape = Shape::from_topology(topology);
    let most_ports = member.algorithm().ports.count(topology);

    for (index, step) in schedule.steps.iter().enumerate() {
        let mut ports: HashMap<usize, BTreeSet<usize>> = HashMap::new();
        let mut messages = BTreeSet::new();
        for send in &step.sends {
            ports.entry(send.source).or_default().insert(send.port);
            let message = (
                send.source,
                send.destination,
                send.port,
                send.action == Action::Reduce,
                send.from,
                send.into,
            );
            assert!(messages.insert(message), "{what}: step {index} has {message:?} twice");
        }
        let most = ports.values().map(BTreeSet::len).max().unwrap_or(0);
        assert!(most <= most_ports, "{what}: step {index} uses {most} ports");
        for send in &step.sends {
            assert!(
                topology.port_link(send.source, send.port).is_some(),
                "{what}: step {index} has {send:?}"
            );
            // On hosts all ports are the same link.
            if shape.per_host() == 1 {
                check_direction(&shape, send, what);
            }
        }
    }
}

/// A message to a rank that differs in one coordinate leaves in that dimension, by the shorter way.
fn check_direction(shape: &Shape, send: &Send, what: &str) {
    let (from, to) = (shape.coordinates(send.source), shape.coordinates(send.destination));
    let differ: Vec<usize> = (0..from.len()).filter(|d| from[*d] != to[*d]).collect();
    let [dimension] = differ[..] else { return };
    let size = shape.sizes()[dimension];
    let up = (to[dimension] + size - from[dimension]) % size;
    assert_eq!(send.port / 2, dimension, "{what}: {send:?}");
    let downwards = send.port % 2 == 1;
    assert!(if downwards { 2 * up >= size } else { 2 * up <= size }, "{what}: {send:?} goes the longer way");
}

/// Whether all ranks that end with a chunk have the same expression for it, where a + b equals b + a and nothing else
/// is equal.
fn is_bit_identical(schedule: &Schedule) -> bool {
    let mut terms: HashMap<(usize, usize), usize> = HashMap::new();
    // The expressions by slot and chunk.
    let places = schedule.slots() * schedule.chunks;
    let mut held: Vec<Vec<usize>> = (0..schedule.ranks).map(|rank| vec![rank; places]).collect();
    let mut combine = |action: Action, new: usize, old: usize| {
        let next = schedule.ranks + terms.len();
        match action {
            Action::Copy => new,
            Action::Reduce => *terms.entry((new.min(old), new.max(old))).or_insert(next),
        }
    };
    for step in &schedule.steps {
        let mut after = held.clone();
        for send in &step.sends {
            for chunk in send.chunks.iter() {
                let new = held[send.source][send.from * schedule.chunks + chunk];
                let place = &mut after[send.destination][send.into * schedule.chunks + chunk];
                *place = combine(send.action, new, *place);
            }
        }
        for local in &step.locals {
            for chunk in local.chunks.iter() {
                let new = after[local.rank][local.from * schedule.chunks + chunk];
                let place = &mut after[local.rank][local.into * schedule.chunks + chunk];
                *place = combine(local.action, new, *place);
            }
        }
        held = after;
    }
    (0..schedule.chunks).all(|chunk| {
        let holds = |rank: &usize| {
            schedule.collective.output_block(schedule.ranks, schedule.chunks, *rank, chunk).is_some()
        };
        let results: BTreeSet<usize> =
            (0..schedule.ranks).filter(holds).map(|rank| held[rank][chunk]).collect();
        results.len() == 1
    })
}

fn full() -> bool {
    std::env::var_os("RINGROAD_TEST_FULL").is_some()
}

fn check_on(algorithm: &'static Algorithm, topology: &Topology) {
    let mut members = if full() { algorithm.members(topology) } else { brief_members(algorithm, topology) };
    if topology.ranks() > 32 && !full() {
        members = vec![members[topology.ranks() % members.len()]];
    }
    for member in members {
        for collective in algorithm.collectives() {
            with_roots(collective, topology.ranks()).into_iter().for_each(|c| check(member, topology, c));
        }
    }
}

fn check_all(name: &str) {
    let algorithm = find(name).unwrap().algorithm();
    let ranks = if full() { 1..=130 } else { RANKS };
    let networks = ranks.map(on_ring).chain(TORI.map(torus)).chain(on_hosts());
    // The search for trees takes long on many ranks.
    let most = if !name.ends_with("trees") {
        usize::MAX
    } else if full() {
        36
    } else {
        9
    };
    networks.filter(|n| n.ranks() <= most).for_each(|network| check_on(algorithm, &network));
}

include!("common/every_algorithm.rs");
every_algorithm!(check_all);

#[test]
fn there_is_an_algorithm_for_everything() {
    for topology in RANKS.map(on_ring).chain(TORI.map(torus)).chain(on_hosts()) {
        for collective in Collective::ALL {
            assert!(!available(&topology, collective).is_empty(), "{collective} on {topology}");
        }
    }
}

#[test]
fn larger_groups() {
    let cases = [
        ("swing", 250),
        ("swing", 256),
        ("swing", 257),
        ("swing-latency", 192),
        ("trivance", 242),
        ("trivance", 243),
        ("trivance-hybrid:2", 234),
        ("nested:1", 96),
        ("bfb-ring", 130),
        ("halving-doubling", 200),
    ];
    for (name, ranks) in cases {
        check(find(name).unwrap(), &on_ring(ranks), Collective::Allreduce);
    }
}

/// An algorithm that is composed of parts costs what its parts cost one after the other, and so do the bounds.
#[test]
fn parts_cost_what_the_whole_does() {
    let mut composed = 0;
    for spec in ["switch:9", "torus:4x6", "hosts:3x4", "hypercube:4", "without(torus:4x4, 0-1)"] {
        let topology = Topology::parse(spec).unwrap();
        let (mut routes, bounds) = (Routes::new(&topology), Bounds::new(&topology).unwrap());
        for collective in Collective::ALL {
            for member in available(&topology, collective) {
                let what = format!("{member}: {collective} on {topology}");
                let whole = [member.build(&topology, collective).unwrap()];
                let parts = member.parts(&topology, collective).unwrap();
                if let [only] = &parts[..] {
                    assert_eq!(only, &whole[0], "{what}");
                    continue;
                }
                composed += 1;
                let mut exact =
                    |schedules: &[Schedule]| ScheduleCost::in_turn(schedules, &mut routes).unwrap();
                let bound = |schedules: &[Schedule]| ScheduleCost::at_least(schedules, &bounds).unwrap();
                for [left, right] in [[exact(&parts), exact(&whole)], [bound(&parts), bound(&whole)]] {
                    assert!((left.busiest_link - right.busiest_link).abs() < 1e-12, "{what}");
                    assert_eq!(left.steps, right.steps, "{what}");
                }
            }
        }
    }
    assert_eq!(composed, 10);
}

/// The windows of trivance-latency are found by a search for each number of ranks; it always succeeds.
#[test]
fn trivance_latency_fits_every_number() {
    for ranks in 65..=257 {
        let schedule =
            find("trivance-latency").unwrap().build(&on_ring(ranks), Collective::Allreduce).unwrap();
        schedule.verify().unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
        let power = (0..).find(|power| 3usize.pow(*power) >= ranks).unwrap();
        assert_eq!(schedule.steps.len(), power as usize, "{ranks} ranks");
    }
}

/// Symmetric schedules can be assessed for more ranks than could be replayed. Schedules with a block or a message for
/// every pair of that many ranks are refused.
#[test]
fn the_largest() {
    for (name, spec, steps) in
        [("trivance", "torus:27x27x27", 18), ("swing", "torus:32x32x32", 30), ("swing", "torus:256x256", 32)]
    {
        let topology: Topology = spec.parse().unwrap();
        let schedule = find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
        let cost = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
        let load = cost.link_load() * topology.dimensions().len() as f64;
        assert_eq!(cost.steps.len(), steps, "{name} on {spec}");
        assert!((1.0..1.2).contains(&load), "{name} on {spec}: {load}");
    }
    let check = |spec: &str, collective: Collective, offered: usize| {
        assert_eq!(available(&spec.parse().unwrap(), collective).len(), offered, "{collective} on {spec}");
    };
    // `pairwise`, and `bruck-alltoall` with four radices.
    check("torus:64x64", Collective::Alltoall, 5);
    check("torus:65x64", Collective::Alltoall, 0);
    check("torus:256x256", Collective::Gather { root: 0 }, 1);
    let over = find("trivance").unwrap().build(&"torus:257x256".parse().unwrap(), Collective::Allreduce);
    assert!(over.unwrap_err().to_string().contains("up to 65536 ranks"));
}

#[test]
fn declared_ports_are_used() {
    let hosts = Topology::hosts(3, 4).unwrap();
    let made: Topology = "degree(ring:4, 2)".parse().unwrap();
    let topologies = [on_ring(8), on_ring(9), torus(&[4, 4]), torus(&[3, 3]), hosts, made];
    for algorithm in catalogue() {
        for collective in algorithm.collectives() {
            let busy = |topology: &Topology| -> Option<bool> {
                let members = brief_members(algorithm, topology).into_iter();
                let ports =
                    members.filter_map(|m| Some(m.build(topology, collective).ok()?.ports())).max()?;
                // In a direct gather each rank sends to the root only.
                let gathers = collective == Collective::Gather { root: 0 } && ports == 1;
                Some(gathers || ports == algorithm.ports.count(topology))
            };
            assert!(topologies.iter().any(|t| busy(t) == Some(true)), "{} {collective}", algorithm.name);
        }
    }
}

/// In trivance both ports of a rank send the same number of blocks in every step, except for the block at the opposite
/// offset.
#[test]
fn trivance_balances_the_ports() {
    for ranks in RANKS {
        let schedule =
            find("trivance").unwrap().build(&on_ring(ranks), Collective::ReduceScatter).unwrap().expand();
        let mut total = 0;
        for step in &schedule.steps {
            let by = |port| -> usize {
                step.sends.iter().filter(|s| s.source == 0 && s.port == port).map(|s| s.chunks.len()).sum()
            };
            total += by(0).abs_diff(by(1));
        }
        assert!(total <= 1, "{ranks} ranks: off by {total}");
    }
}

/// On powers, the chunks of an allreduce are numbered so that every message is one range of each slice.
#[test]
fn messages_of_powers_are_contiguous() {
    let cases: &[(&[&str], &[&[usize]])] = &[
        (&["swing", "halving-doubling"], &[&[32], &[4, 4], &[8, 8], &[4, 8], &[4, 4, 4]]),
        (&["halving-doubling"], &[&[40]]),
        (&["generalized-xor:2"], &[&[32]]),
        (&["bruck"], &[&[27]]),
        (&["trivance", "trivance-hybrid:1"], &[&[27], &[9, 9], &[3, 9], &[3, 3, 3]]),
    ];
    let cases = cases
        .iter()
        .flat_map(|(names, tori)| names.iter().flat_map(|name| tori.iter().map(move |t| (*name, *t))));
    for (name, sizes) in cases {
        let schedule = find(name).unwrap().build(&torus(sizes), Collective::Allreduce).unwrap();
        let slices = schedule.symmetry.as_ref().map_or(1, |symmetry| symmetry.slices.len());
        let per_slice = schedule.chunks / slices;
        for send in schedule.expand().steps.iter().flat_map(|step| &step.sends) {
            let chunks: Vec<usize> = send.chunks.iter().collect();
            for slice in chunks.chunk_by(|a, b| a / per_slice == b / per_slice) {
                let (first, last) = (slice[0], slice[slice.len() - 1]);
                assert_eq!(last - first + 1, slice.len(), "{name} over {sizes:?}: {send:?}");
            }
        }
    }
}

/// An all-to-all of short blocks takes as many steps as the number of ranks has digits, loads both directions equally,
/// and does not become much slower where `direct` is no longer available.
#[test]
fn short_all_to_alls_take_few_steps() {
    let cost = |name: &str, ranks: usize| {
        let schedule = find(name).unwrap().build(&on_ring(ranks), Collective::Alltoall).unwrap();
        ScheduleCost::from_schedule(&schedule, &on_ring(ranks)).unwrap()
    };
    for (ranks, steps) in [(243, 5), (256, 6), (257, 6), (729, 6)] {
        let cost = cost("bruck-alltoall:3", ranks);
        assert_eq!(cost.steps.len(), steps);
        assert!(cost.steps.iter().all(|step| step.messages == 2 && step.incast == 0), "{ranks} ranks");
        // `least` is the load of each link if every block went the shortest way.
        let least = (ranks * ranks / 4) as f64 / (2 * ranks) as f64;
        assert!(cost.link_load() < 1.34 * least, "{ranks} ranks: {} of {least}", cost.link_load());
    }
    let model = CostModel::default();
    let least = |ranks: usize| {
        let members = available(&on_ring(ranks), Collective::Alltoall);
        let seconds = members.iter().map(|m| model.seconds(&cost(&m.name(), ranks), 8));
        seconds.fold(f64::INFINITY, f64::min)
    };
    let (before, after) = (least(256), least(257));
    assert!(after < 1.1 * before, "{after} s among 257 ranks, {before} s among 256");
}

/// Blocks that start in different dimensions use all ports of a torus evenly.
#[test]
fn bruck_all_to_alls_keep_all_dimensions_busy() {
    for (spec, radix) in [("torus:9x9", 3), ("torus:8x8x8", 8), ("hypercube:6", 2)] {
        let topology: Topology = spec.parse().unwrap();
        let name = format!("bruck-alltoall:{radix}");
        let schedule = find(&name).unwrap().build(&topology, Collective::Alltoall).unwrap();
        let links = topology.links().len() as f64;
        let (view, mut routes) = (schedule.view(), Routes::new(&topology));
        for (index, step) in
            ScheduleCost::from_schedule(&schedule, &topology).unwrap().steps.iter().enumerate()
        {
            let mut hops = |t: Transfer| routes.route(t.source, t.destination).unwrap().hops * t.chunks;
            let all: usize = view.transfers(index).into_iter().map(&mut hops).sum();
            let even = all as f64 / links / schedule.chunks_per_vector() as f64;
            assert!(step.link_load < 1.6 * even, "{spec}, step {index}: {} of {even}", step.link_load);
        }
    }
}

/// Along dimensions, the borders of blocks on a grid, edges and corners included, take two messages for each dimension.
#[test]
fn all_to_alls_along_dimensions() {
    for sizes in [&[1][..], &[5], &[2, 2], &[3, 4], &[1, 6], &[2, 3, 4], &[16, 16]] {
        let (schedule, wide) = (along_dimensions(sizes), sizes.iter().filter(|size| **size > 1));
        assert_eq!((schedule.verify(), schedule.steps.len()), (Ok(()), wide.count()), "{sizes:?}");
        assert!(schedule.steps.iter().enumerate().all(|(step, _)| schedule.view().messages(step) < 16));
    }
    let (schedule, at) = (along_dimensions(&[4, 4]), |rank: usize| (rank / 4, rank % 4));
    let near = |a: usize, b: usize| (a + 5 - b) % 4 < 3;
    let borders: Vec<usize> = (0..256)
        .map(|pair| (at(pair / 16), at(pair % 16)))
        .map(|(a, b)| usize::from(a != b && near(a.0, b.0) && near(a.1, b.1)))
        .collect();
    let topology = torus(&[4, 4]);
    let cost = ScheduleCost::with_blocks(&schedule, &borders, &mut Routes::new(&topology)).unwrap();
    assert!(cost.steps.len() == 2 && cost.steps.iter().all(|step| (step.messages, step.hops) == (2, 1)));
}

#[test]
fn schedules_as_text() {
    for algorithm in catalogue() {
        let admits =
            |topology: &Topology| algorithm.offers.iter().all(|offer| offer.requirement.admits(topology));
        let first = [on_ring(7), on_ring(8), on_ring(9), torus(&[2, 3]), Topology::hosts(2, 3).unwrap()]
            .into_iter()
            .find(admits);
        let second = match algorithm.name {
            "swing" | "halving-doubling" => Some(on_ring(8)),
            "butterfly" => Some(on_ring(9)),
            _ => None,
        };
        for topology in first.into_iter().chain(second) {
            let root = |collective: Collective| collective.with_root(topology.ranks() / 2);
            let members = match algorithm.name {
                // Of their own members even the shortest is long.
                "spanning-trees" | "weighted-trees" => vec![find(&format!("{}:8", algorithm.name)).unwrap()],
                _ => algorithm.members(&topology),
            };
            let schedules = algorithm.collectives().map(|collective| {
                let built = |member: &Member| member.build(&topology, root(collective)).ok();
                members.iter().find_map(built).unwrap().to_string()
            });
            let text = schedules.collect::<Vec<_>>().join("\n");
            insta::assert_snapshot!(format!("{}_{}", algorithm.name, topology.ranks()), text);
        }
    }
}

#[test]
fn names() {
    assert_eq!(find("Swing_Latency").unwrap().name(), "swing-latency");
    assert_eq!(find("Hierarchical:Halving_Doubling").unwrap().name(), "hierarchical:halving-doubling");
    assert_eq!(
        find("hierarchical-latency:ring").unwrap_err().to_string(),
        "unknown algorithm \"hierarchical-latency:ring\"; write hierarchical-latency:network, where network is the \
         algorithm between the hosts: recursive-doubling, direct-latency or gather-sum"
    );
    let unknown = find("trivanse").unwrap_err().to_string();
    let names: Vec<&str> = catalogue().map(|a| a.name).collect();
    let expected = "unknown algorithm \"trivanse\"; did you mean trivance? Expected one of: ";
    assert_eq!(unknown, format!("{expected}{}", names.join(", ")));
}

#[test]
fn unavailable_says_why_and_what_instead() {
    let error = |name: &str, ranks, collective| {
        find(name).unwrap().build(&on_ring(ranks), collective).unwrap_err().to_string()
    };
    let elsewhere = error("swing-latency", 10, Collective::Allreduce);
    assert!(
        elsewhere.contains(", not 10 ranks; for allreduce on 10 ranks use ring, bidirectional-ring"),
        "{elsewhere}"
    );
    assert!(
        !elsewhere.contains("use swing-latency") && !elsewhere.contains(", swing-latency"),
        "{elsewhere}"
    );
    assert_eq!(
        error("generalized:4", 7, Collective::Allreduce),
        "generalized has no r = 4 for allreduce on 7 ranks, only 0, 1, 2 and 3"
    );
    assert_eq!(
        error("generalized:1", 7, Collective::Allgather),
        "generalized has no r = 1 for allgather on 7 ranks, only 0"
    );
    let hosts = Topology::hosts(2, 3).unwrap();
    let refused = find("hierarchical:ring").unwrap().build(&hosts, Collective::Broadcast { root: 0 });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "hierarchical has no network = ring for broadcast (root 0) on 6 ranks on hosts of 3, only direct, binomial, \
         double-binary-tree and scatter-allgather"
    );
    let alone = error("hierarchical", 6, Collective::Allgather);
    assert!(
        alone.starts_with(
            "hierarchical needs several hosts of up to 256 ranks each, some of 2 or more, as in hosts:2x4"
        ),
        "{alone}"
    );
    let broadcast = error("ring", 6, Collective::Broadcast { root: 5 });
    assert!(
        broadcast.starts_with("ring performs no broadcast; for broadcast on 6 ranks use "),
        "{broadcast}"
    );
    assert!(broadcast.contains("binomial") && !broadcast.contains("bidirectional-ring"), "{broadcast}");
    assert_eq!(
        error("binomial", 6, Collective::Broadcast { root: 6 }),
        "broadcast needs a root below its 6 ranks, not 6"
    );
}

/// The verifier rejects symmetric schedules that send a chunk twice or are inconsistent, and those that would need too
/// much memory to replay.
#[test]
fn symmetric_schedules_that_are_refused() {
    let ring = find("ring").unwrap().build(&on_ring(4), Collective::ReduceScatter).unwrap();
    let mut doubled = ring.clone();
    let send = doubled.steps[0].sends[0].clone();
    doubled.steps[0].sends.push(send);
    assert!(doubled.verify().is_err() && doubled.expand().verify().is_err());
    let refused = |change: &dyn Fn(&mut Schedule)| {
        let mut schedule = ring.clone();
        change(&mut schedule);
        let error = schedule.verify().unwrap_err();
        assert!(matches!(error, VerifyError::Malformed(_)), "{error}");
        assert!(Schedule::from_json(&schedule.to_json()).is_err());
    };
    refused(&|schedule| schedule.steps[0].sends[0].into = usize::MAX - 1);
    refused(&|schedule| schedule.steps[0].sends[0].source = 1);
    refused(&|schedule| schedule.symmetry.as_mut().unwrap().slices[0].chunks.swap(0, 1));
    refused(&|schedule| schedule.symmetry.as_mut().unwrap().slices[0].axes[0].size = 2);
    refused(&|schedule| schedule.collective = Collective::Gather { root: 0 });
    // Other motions make other sends from the same row.
    let mut reflected = ring.clone();
    reflected.symmetry.as_mut().unwrap().slices[0].axes[0].motion = Motion::Reflect;
    assert!(reflected.verify().is_err() && reflected.expand().verify().is_err());
    let mut huge = Schedule::empty("huge", Collective::Allreduce, 1 << 14, 1);
    let chunks = ringroad_core::ChunkSet::range(0, 1);
    let send =
        Send { source: 0, destination: 1, chunks, action: Action::Copy, port: 0, from: 0, into: 9_999 };
    huge.push(vec![send]);
    assert!(huge.verify().unwrap_err().to_string().contains("too much memory"), "it would take many GiB");
}

/// A corruption of a schedule in which no message is superfluous.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    /// Removes a send.
    Drop,
    /// Repeats a send in its step.
    Double,
    /// Sends to another rank.
    Redirect,
    /// Reduces instead of copying, or copies instead of reducing.
    SwapAction,
}

/// All offers of algorithms without superfluous messages: all but the broadcast `scatter-allgather`, whose allgather
/// sends ranks blocks that they have from the scatter.
fn tight_offers() -> Vec<(&'static str, Collective)> {
    let offers = catalogue().flat_map(|a| a.collectives().map(|c| (a.name, c)));
    offers.filter(|offer| *offer != ("scatter-allgather", Collective::Broadcast { root: 0 })).collect()
}

/// Applies the mutation to the `pick`-th send that it certainly corrupts, and returns the step and the chunks; `None`
/// where there is no such send.
fn mutate(schedule: &mut Schedule, mutation: Mutation, pick: usize) -> Option<(usize, BTreeSet<usize>)> {
    let reduces = schedule.collective.reduces();
    let must_fail = |action: Action| match mutation {
        Mutation::Drop | Mutation::Double => true,
        // A partial result that goes to another rank may just make another valid tree.
        Mutation::Redirect => schedule.ranks > 2 && action == Action::Copy,
        // Where the collective does not reduce, the mutation is not applied.
        Mutation::SwapAction => reduces,
    };
    let sends = schedule.steps.iter().enumerate();
    let sends =
        sends.flat_map(|(i, step)| step.sends.iter().enumerate().map(move |(j, send)| (i, j, send.action)));
    let candidates: Vec<_> = sends.filter(|(_, _, action)| must_fail(*action)).collect();
    let &(step, index, action) = candidates.get(pick % candidates.len().max(1))?;
    let ranks = schedule.ranks;
    let sends = &mut schedule.steps[step].sends;
    let chunks = sends[index].chunks.iter().collect();
    match mutation {
        Mutation::Drop => drop(sends.remove(index)),
        Mutation::Double => sends.push(sends[index].clone()),
        Mutation::Redirect => {
            let send = &mut sends[index];
            let others: Vec<usize> =
                (0..ranks).filter(|r| ![send.source, send.destination].contains(r)).collect();
            send.destination = others[pick % others.len()];
        }
        Mutation::SwapAction => {
            sends[index].action = if action == Action::Reduce { Action::Copy } else { Action::Reduce };
        }
    }
    Some((step, chunks))
}

/// The step and the chunk that the error names, if it names any.
fn named(error: &VerifyError) -> Option<(usize, usize)> {
    match *error {
        VerifyError::NotHeld { step, chunk, .. }
        | VerifyError::NothingToReduce { step, chunk, .. }
        | VerifyError::Doubled { step, chunk, .. }
        | VerifyError::Conflict { step, chunk, .. } => Some((step, chunk)),
        VerifyError::Lost { last_step, chunk, .. } | VerifyError::Misplaced { last_step, chunk, .. } => {
            Some((last_step, chunk))
        }
        VerifyError::Malformed(_) => None,
    }
}

fn check_mutation(schedule: Schedule, mutation: Mutation, pick: usize) {
    let mut spoilt = schedule.expand();
    let Some((mutated_step, chunks)) = mutate(&mut spoilt, mutation, pick) else { return };
    let Err(error) = spoilt.verify() else {
        panic!("{mutation:?} of a send in step {mutated_step} went unnoticed in\n{spoilt}")
    };
    let (step, chunk) = named(&error).unwrap_or_else(|| panic!("{mutation:?}: {error}"));
    assert!(
        step >= mutated_step || step + 1 == spoilt.steps.len(),
        "{mutation:?} in {mutated_step}: {error}"
    );
    assert!(chunks.contains(&chunk), "{mutation:?} of chunks {chunks:?}: {error}");
    let text = error.to_string();
    assert!(["step", "rank", "chunk"].iter().all(|word| text.contains(word)), "{text}");
}

const MUTATIONS: [Mutation; 4] = [Mutation::Drop, Mutation::Double, Mutation::Redirect, Mutation::SwapAction];

/// Every mutation of every send of every small schedule.
#[test]
fn verifier_notices_every_mutation_of_small_schedules() {
    for (algorithm, collective) in tight_offers() {
        let hosts =
            [(2, 2), (3, 2), (2, 3)].map(|(hosts, per_host)| Topology::hosts(hosts, per_host).unwrap());
        for schedule in (2..=5)
            .map(on_ring)
            .chain(hosts)
            .filter_map(|topology| find(algorithm).unwrap().build(&topology, collective).ok())
        {
            let sends: usize = schedule.expand().steps.iter().map(|step| step.sends.len()).sum();
            for mutation in MUTATIONS {
                (0..sends).for_each(|pick| check_mutation(schedule.clone(), mutation, pick));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    /// Some mutations of some sends of larger schedules.
    #[test]
    fn verifier_notices_mutations(
        (algorithm, collective) in prop::sample::select(tight_offers()),
        ranks in 3usize..=32,
        root in 0usize..32,
        mutation in prop::sample::select(&MUTATIONS[..]),
        pick in any::<usize>(),
    ) {
        let member = find(algorithm).unwrap();
        let fits = |n: &usize| member.supports(&on_ring(*n), collective).is_ok();
        let ranks = (2..=ranks).rev().find(fits).unwrap_or(0);
        prop_assume!(ranks > 0);
        let schedule = member.build(&on_ring(ranks), collective.with_root(root % ranks)).unwrap();
        check_mutation(schedule, mutation, pick);
    }
}

/// Whatever is made for a graph can be ended at any time; then there is no schedule, not a worse one.
#[test]
fn searches_end_when_their_callers_say_so() {
    let topology = Topology::parse("without(torus:3x4, 0-1)").unwrap();
    for collective in Collective::ALL {
        for member in available(&topology, collective) {
            if !member.is_made_for_graph(collective) {
                continue;
            }
            let asked = AtomicUsize::new(0);
            let build = |most: usize| {
                asked.store(0, Ordering::Relaxed);
                let go_on = || asked.fetch_add(1, Ordering::Relaxed) < most;
                member.build_within(&topology, collective, Budget::new(&go_on))
            };
            let whole = build(usize::MAX).unwrap();
            assert_eq!(whole, member.build(&topology, collective).unwrap());
            let times = asked.load(Ordering::Relaxed);
            assert!(times > topology.ranks(), "{member}, {collective}: asked {times} times");
            assert_eq!(build(times).unwrap(), whole);
            for most in [0, 1, times / 2, times - 1] {
                let error = build(most).unwrap_err();
                assert!(matches!(error, Unavailable::Spent { .. }), "{member}, {collective}: {error}");
                // A search may find out at two levels.
                assert!(asked.load(Ordering::Relaxed) <= most + 2, "{member}, {collective}");
                assert!(error.to_string().contains("has run out"), "{error}");
            }
        }
    }
}

/// A symmetric schedule is verified by one chunk of each slice, whatever the number of ranks. What cannot be proven
/// without the contributions of every rank is refused where these would take too much memory.
#[test]
fn as_many_ranks_as_there_may_be() {
    let topology = Topology::parse("torus:256x256").unwrap();
    let build = |name: &str| find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
    let swing = build("swing");
    swing.verify().unwrap();
    let error = build("swing-latency").verify().unwrap_err().to_string();
    assert!(error.contains("would take too much memory to verify"), "{error}");
    let cut = Schedule { steps: swing.steps[..swing.steps.len() - 1].to_vec(), ..swing };
    assert!(cut.verify().is_err());
}
