//! Compares the simulator with arithmetic by hand, with the cost model, and with itself.

// Only `Random` is used here.
#[allow(dead_code)]
mod common;

use std::collections::BTreeMap;
use std::fmt::Write;

use common::Random;
use ringroad_core::algorithms::{available, find, Member};
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::plan::LowerOptions;
use ringroad_core::simulate::{Forwarding, Outcome, Pace, Scenario, SimulationError, Simulator};
use ringroad_core::topology::Link;
use ringroad_core::trace::{TraceEvent, TraceKind};
use ringroad_core::{Bytes, Collective, LinkId, Schedule, Topology};

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap()
}

fn schedule(algorithm: &str, collective: Collective, on: &Topology) -> Schedule {
    find(algorithm).unwrap().build(on, collective).unwrap()
}

/// Options with which messages are those of the schedule, neither cut nor divided.
fn whole() -> LowerOptions {
    LowerOptions { segment: usize::MAX, pack: usize::MAX, window: usize::MAX, ..LowerOptions::default() }
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{what}: {found} instead of {expected}");
}

// ---------------------------------------------------------------------------------------------- by hand

const MICROSECOND: f64 = 1e-6;

/// A model in which a start-up, a hop and 1,000 bytes take one microsecond each.
fn unit_model() -> CostModel {
    CostModel {
        step_latency: MICROSECOND,
        hop_latency: Some(MICROSECOND),
        bandwidth: Some(1e9),
        ..CostModel::default()
    }
}

fn simulator(pace: Pace) -> Simulator {
    Simulator { model: unit_model(), pace, lowering: whole(), ..Simulator::default() }
}

fn segments(bytes: usize) -> LowerOptions {
    LowerOptions { segment: bytes, ..LowerOptions::default() }
}

/// 1,000 bytes from rank 0 to rank 1 over a switch, node 2; times in microseconds.
#[test]
fn one_message() {
    let check = |what: &str, simulator: Simulator, scenario: Scenario, expected: f64| {
        let switch = topology("switch:2");
        let schedule = schedule("binomial", Collective::Broadcast { root: 0 }, &switch);
        let outcome = simulator.run(&schedule, &switch, 1000, &scenario).unwrap();
        assert_close(outcome.seconds / MICROSECOND, expected, what);
        assert_eq!((outcome.loads, outcome.finished.len()), (vec![1000.0, 0.0, 0.0, 1000.0], 2), "{what}");
    };
    for pace in [Pace::Synchronous, Pace::Free] {
        let as_is = Scenario::default;
        check("start-up, transfer, two hops", simulator(pace), as_is(), 1.0 + 1.0 + 2.0);
        let store = Simulator { forwarding: Forwarding::StoreAndForward, ..simulator(pace) };
        check("stored in the switch", store.clone(), as_is(), 1.0 + 2.0 * (1.0 + 1.0));
        let store = Simulator { lowering: segments(250), ..store };
        check("stored in four parts", store, as_is(), 1.0 + 1.0 + 1.0 + 0.25 + 1.0);
        let cut = Simulator { lowering: segments(250), ..simulator(pace) };
        check("in four parts", cut.clone(), as_is(), 1.0 + 1.0 + 2.0);
        let model = CostModel { message_latency: MICROSECOND, ..unit_model() };
        let last = if pace == Pace::Free { 0.25 } else { 1.0 };
        check("four start-ups", Simulator { model, ..cut }, as_is(), 1.0 + 3.0 + last + 2.0);
        let slow = Scenario { slow_ranks: vec![(0, 3.0)], ..as_is() };
        check("a slow sender", simulator(pace), slow, 3.0 + 1.0 + 2.0);
        for (source, target) in [(0, 2), (2, 1)] {
            let slow = Scenario { slow_links: vec![(source, target, 0.25)], ..as_is() };
            check("a slow link", simulator(pace), slow, 1.0 + 4.0 + 2.0);
        }
        let late = Scenario { late: vec![(0, 7e-6)], ..as_is() };
        check("a late sender", simulator(pace), late, 7.0 + 1.0 + 1.0 + 2.0);
    }
    let late = || Scenario { late: vec![(1, 7e-6)], ..Scenario::default() };
    check("the step begins late", simulator(Pace::Synchronous), late(), 7.0 + 1.0 + 1.0 + 2.0);
    let free = |eager| Simulator { eager, ..simulator(Pace::Free) };
    check("a late receiver finds it there", free(1000), late(), 7.0);
    check("a late receiver lets it come", free(999), late(), 7.0 + 1.0 + 2.0);
}

/// The reduction of a segment overlaps the transfer of others, unless steps are synchronous.
#[test]
fn reductions() {
    let check = |what: &str, simulator: Simulator, scenario: Scenario, expected: f64| {
        let switch = topology("switch:2");
        let schedule = schedule("binomial", Collective::Reduce { root: 0 }, &switch);
        let model = CostModel { reduce_cost: 2e-9, ..simulator.model };
        let outcome = Simulator { model, ..simulator }.run(&schedule, &switch, 1000, &scenario).unwrap();
        assert_close(outcome.seconds / MICROSECOND, expected, what);
        let reductions = outcome.trace.events.iter().filter(|e| e.kind == TraceKind::Reduce);
        assert_eq!(
            reductions.map(|e| (e.rank, e.bytes)).fold((0, 0), |s, e| (s.0 + e.0, s.1 + e.1)),
            (0, 1000)
        );
    };
    let as_is = Scenario::default;
    for pace in [Pace::Synchronous, Pace::Free] {
        check("after the transfer", simulator(pace), as_is(), 1.0 + 1.0 + 2.0 + 2.0);
        let slow = |rank| Scenario { slow_ranks: vec![(rank, 2.0)], ..as_is() };
        check("by a slow rank", simulator(pace), slow(0), if pace == Pace::Free { 8.0 } else { 9.0 });
        let parts = Simulator { lowering: segments(250), ..simulator(pace) };
        let overlap = if pace == Pace::Free { 0.75 } else { 0.0 };
        check("in four parts", parts, as_is(), 1.0 + 1.0 + 2.0 + 2.0 - overlap);
    }
}

/// Two ranks send each other 1,000 bytes and add them up, with as many cores as that. A message keeps a core busy for
/// half a microsecond at each end, a reduction for two.
#[test]
fn ranks_share_cores() {
    let check = |cores: Option<usize>, pace: Pace, expected: f64| {
        let switch = topology("switch:2");
        let schedule = schedule("direct-latency", Collective::Allreduce, &switch);
        let over_links = cores.is_some();
        let costs = CostModel { message_latency: MICROSECOND, reduce_cost: 2e-9, ..unit_model() };
        let model = CostModel { cores, over_links, ..costs };
        let outcome =
            Simulator { model, ..simulator(pace) }.run(&schedule, &switch, 1000, &Scenario::default());
        assert_close(outcome.unwrap().seconds / MICROSECOND, expected, &format!("{cores:?} cores, {pace:?}"));
    };
    // A start-up, a transfer, two hops.
    let network = 1.0 + 1.0 + 2.0;
    check(None, Pace::Free, network + 2.0);
    check(Some(2), Pace::Free, 0.5 + network + 0.5 + 2.0);
    // The second rank's half of its message waits for the first's; so do, at the end, what it receives and its sum.
    check(Some(1), Pace::Free, 2.0 * 0.5 + network + 0.5 + 2.0 + 2.0);
    check(Some(2), Pace::Synchronous, 1.0 + network + 2.0);
    check(Some(1), Pace::Synchronous, 2.0 + network + 4.0);
}

// ---------------------------------------------------------------------------------------------- with the cost model

/// The simulated time in synchronous steps, divided by the time of the cost model.
fn ratio(member: Member, collective: Collective, on: &Topology, bytes: Bytes, model: CostModel) -> f64 {
    let schedule = member.build(on, collective).unwrap();
    let predicted = model.seconds(&ScheduleCost::from_schedule(&schedule, on).unwrap(), bytes);
    let simulator = Simulator { model, lowering: whole(), details: false, ..Simulator::default() };
    simulator.run(&schedule, on, bytes, &Scenario::default()).unwrap().seconds / predicted
}

/// In swing on an odd number of ranks, the last rank sends each other rank a message of another length.
fn has_uneven_messages(member: Member, on: &Topology) -> bool {
    member.name() == "swing" && on.ranks() % 2 == 1
}

fn any_model(random: &mut Random) -> CostModel {
    let mut any = |unit: f64| unit * random.below(1000) as f64;
    let further =
        CostModel { message_latency: any(1e-10), incast_latency: any(1e-10), ..CostModel::default() };
    let coin = any(1.0) < 500.0;
    CostModel {
        step_latency: any(1e-9),
        hop_latency: Some(any(1e-9)),
        bandwidth: Some(1e9 + any(1e7)),
        reduce_cost: any(1e-12),
        overlapped: coin,
        ..further
    }
}

/// Networks of all families and routings.
const NETWORKS: [&str; 18] = [
    "ring:8",
    "ring:7",
    "ring:9",
    "torus:4x4",
    "torus:3x4",
    "torus:2x3x4",
    "torus:3x4,routing=dimension-ordered",
    "torus:3x4,routing=single-path",
    "mesh:3x4",
    "twisted-torus:6x3",
    "hyperx:3x4",
    "hammingmesh:2x2:2x2",
    "hypercube:3",
    "twisted-hypercube:3",
    "switch:6",
    "fattree:3x3:2",
    "hosts:3x3",
    "hosts:2x4",
];

/// The simulated time of every algorithm for every collective equals that of the cost model. It is longer only where
/// long and short messages share a busy link, because fair shares delay the long ones.
#[test]
fn synchronous_steps_take_what_the_cost_model_says() {
    let mut random = Random(20);
    let (mut count, mut uneven) = (0, String::new());
    for spec in NETWORKS {
        let on = topology(spec);
        for collective in Collective::ALL {
            for member in available(&on, collective) {
                let schedule = member.build(&on, collective).unwrap();
                // A length at which all chunks are equal.
                let bytes = (1 + random.below(1000)) * schedule.chunks_per_vector() * schedule.ranks;
                let ratio = ratio(member, collective, &on, bytes as Bytes, any_model(&mut random));
                let what = format!("{collective} by {} on {spec}", member.name());
                assert!((1.0 - 1e-9..1.05).contains(&ratio), "{what}: {ratio}");
                if ratio > 1.0 + 1e-9 {
                    writeln!(uneven, "{what}: {ratio:.3}").unwrap();
                }
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
    insta::assert_snapshot!(uneven);
}

/// Random vectors of more than a hundred bytes per chunk, so that one byte is less than a hundredth of a chunk.
#[test]
fn random_calls_take_what_the_cost_model_says() {
    let mut random = Random(2024);
    let specs = [
        "ring:5",
        "ring:16",
        "torus:4x8",
        "torus:5x5",
        "torus:3x3x3",
        "torus:2x2x2x2",
        "switch:12",
        "hosts:4x4",
    ];
    let mut triples = 0;
    while triples < 40 {
        let on = topology(random.pick(&specs));
        let collective = random.pick(&Collective::ALL);
        let member = random.pick(&available(&on, collective));
        if has_uneven_messages(member, &on) {
            continue;
        }
        let chunks = member.build(&on, collective).unwrap().chunks_per_vector();
        let block = if collective == Collective::Alltoall { on.ranks() } else { 1 };
        let bytes = (chunks * (200 + random.below(5000)) + random.below(chunks)) / block * block;
        let ratio = ratio(member, collective, &on, bytes as Bytes, CostModel::default());
        assert!(
            (ratio - 1.0).abs() < 0.01,
            "{collective} of {bytes} B by {} on {on}: {ratio}",
            member.name()
        );
        triples += 1;
    }
}

/// The same network with a link of half the bandwidth.
fn with_slow_link(on: &Topology, slow: LinkId) -> Topology {
    let change = |id, link: &mut Link| link.capacity /= if id == slow { 2.0 } else { 1.0 };
    on.clone().map_links(change).unwrap()
}

#[test]
fn a_slow_link_moves_both_alike() {
    let mut slower = 0;
    for (spec, algorithm) in
        [("torus:4x4", "swing"), ("torus:4x4", "bucket"), ("ring:8", "trivance"), ("switch:6", "ring")]
    {
        let on = topology(spec);
        let schedule = schedule(algorithm, Collective::Allreduce, &on);
        let bytes = 4096 * schedule.chunks as Bytes;
        let simulator = Simulator { lowering: whole(), ..Simulator::default() };
        let predict = |on: &Topology| {
            simulator.model.seconds(&ScheduleCost::from_schedule(&schedule, on).unwrap(), bytes)
        };
        let run = |on: &Topology, scenario| simulator.run(&schedule, on, bytes, &scenario).unwrap();
        let before = run(&on, Scenario::default());
        for (link, ends) in on.links().iter().enumerate().step_by(3) {
            let changed = with_slow_link(&on, link);
            let outcome = run(&changed, Scenario::default());
            let what = format!("{algorithm} on {spec} with link {link} at half its speed");
            assert_close(outcome.seconds, predict(&changed), &what);
            // A scenario that names the same link by its ends. None of these networks has parallel links.
            let scenario =
                Scenario { slow_links: vec![(ends.source, ends.target, 0.5)], ..Scenario::default() };
            assert_close(run(&on, scenario).seconds, outcome.seconds, &what);
            assert_eq!(outcome.loads, before.loads, "{what}");
            slower += usize::from(outcome.seconds > 1.2 * before.seconds);
        }
    }
    assert!(slower > 10, "{slower}");
}

/// At any pace, links carry in every step what the cost model counts.
#[test]
fn loads_are_those_of_the_cost_model() {
    for (spec, algorithm) in
        [("torus:4x4", "swing"), ("ring:9", "swing"), ("torus:3x5", "nested"), ("hosts:2x4", "hierarchical")]
    {
        let on = topology(spec);
        let schedule = schedule(algorithm, Collective::Allreduce, &on);
        let cost = ScheduleCost::from_schedule(&schedule, &on).unwrap();
        let bytes = 840 * schedule.chunks as Bytes;
        for (pace, forwarding) in [
            (Pace::Synchronous, Forwarding::CutThrough),
            (Pace::Free, Forwarding::CutThrough),
            (Pace::Free, Forwarding::StoreAndForward),
        ] {
            let simulator = Simulator { pace, forwarding, lowering: segments(500), ..Simulator::default() };
            let outcome = simulator.run(&schedule, &on, bytes, &Scenario::skew(on.ranks(), 1e-5, 3)).unwrap();
            assert_eq!(outcome.step_loads.len(), cost.steps.len());
            let relative = |&(link, load): &(LinkId, f64)| load / on.links()[link].capacity / bytes as f64;
            for (step, (loads, cost)) in outcome.step_loads.iter().zip(&cost.steps).enumerate() {
                let most = loads.iter().map(relative).fold(0.0, f64::max);
                assert_close(most, cost.link_load, &format!("step {step} of {algorithm} on {spec}"));
            }
            let total = (0..on.links().len()).map(|link| relative(&(link, outcome.loads[link])));
            assert_close(total.fold(0.0, f64::max), cost.busiest_link, algorithm);
        }
    }
}

// ---------------------------------------------------------------------------------------------- differences between
// them

fn seconds(spec: &str, algorithm: &str, collective: Collective, pace: Pace, scenario: &Scenario) -> f64 {
    let on = topology(spec);
    let schedule = schedule(algorithm, collective, &on);
    let bytes = 4096 * schedule.chunks as Bytes;
    let simulator = Simulator { pace, ..Simulator::default() };
    simulator.run(&schedule, &on, bytes, scenario).unwrap().seconds
}

/// Ranks that do not wait for each other are faster where steps use different links, and slower where early messages
/// share links with later ones.
#[test]
fn running_freely_is_not_the_cost_model() {
    let check = |spec, algorithm, bounds: std::ops::Range<f64>| {
        let take = |pace| seconds(spec, algorithm, Collective::Allreduce, pace, &Scenario::default());
        let ratio = take(Pace::Free) / take(Pace::Synchronous);
        assert!(bounds.contains(&ratio), "{algorithm} on {spec}: {ratio}");
    };
    check("torus:4x4", "ring", 1.0 - 1e-9..1.0 + 1e-9);
    check("torus:4x4", "bucket", 1.0 - 1e-9..1.0 + 1e-9);
    // Parts of the vector are pipelined up and down the trees.
    check("ring:16", "double-binary-tree:16", 0.2..0.5);
    // The long dimension's steps need not wait for the short one's.
    check("torus:4x8", "bucket", 0.7..0.9);
    check("torus:8x8", "nested:1", 1.1..1.4);
}

/// In synchronous steps a late rank delays all ranks. At free pace it delays only the ranks that need its data, so the
/// last leaf of a broadcast may be late.
#[test]
fn slack_absorbs_skew() {
    let broadcast = Collective::Broadcast { root: 0 };
    let take = |pace, late: f64| {
        let scenario = Scenario { late: vec![(3, late)], ..Scenario::default() };
        seconds("switch:4", "binomial", broadcast, pace, &scenario)
    };
    assert_eq!(take(Pace::Free, 1.5e-6), take(Pace::Free, 0.0));
    assert_close(take(Pace::Synchronous, 1.5e-6), take(Pace::Synchronous, 0.0) + 1.5e-6, "synchronous");
    // An allreduce waits for all, whatever the pace.
    let spread = 50e-6;
    let skew = Scenario::skew(16, spread, 7);
    let last = skew.late.iter().map(|(_, late)| *late).fold(0.0, f64::max);
    assert!(last > 0.5 * spread && last < spread && skew == Scenario::skew(16, spread, 7));
    assert!(skew != Scenario::skew(16, spread, 8));
    for pace in [Pace::Synchronous, Pace::Free] {
        let take = |scenario: &Scenario| seconds("torus:4x4", "swing", Collective::Allreduce, pace, scenario);
        let (even, skewed) = (take(&Scenario::default()), take(&skew));
        assert!(skewed > last, "{pace:?}: {skewed}");
        if pace == Pace::Synchronous {
            assert_close(skewed, last + even, "everybody waits for the last");
        }
    }
}

/// With fewer bytes than chunks most messages are empty. Plans leave them out; the cost model does not.
#[test]
fn empty_messages_are_not_sent() {
    let on = topology("ring:16");
    let schedule = schedule("ring", Collective::Allreduce, &on);
    let simulator = Simulator::default();
    let outcome = simulator.run(&schedule, &on, 4, &Scenario::default()).unwrap();
    assert_eq!(outcome.messages, 30 * 4);
    // A vector of 0 bytes is sent in empty messages, so that ranks wait for each other.
    let nothing = simulator.run(&schedule, &on, 0, &Scenario::default()).unwrap();
    assert_eq!(nothing.messages, 30 * 16);
    assert_close(nothing.seconds, 30.0 * 1e-6, "30 steps of a start-up and a hop");
}

// ---------------------------------------------------------------------------------------------- failures

#[test]
fn messages_go_around_failed_links() {
    let on = topology("ring:4");
    let schedule = schedule("ring", Collective::Allreduce, &on);
    let run = |scenario: &Scenario| Simulator::default().run(&schedule, &on, 4000, scenario).unwrap();
    let whole = run(&Scenario::default());
    // Instead of 1→2 bytes take 1→0→3→2, by links that the algorithm does not use.
    let detour = run(&Scenario { failed_links: vec![(1, 2)], ..Scenario::default() });
    let loads = |outcome: &Outcome| -> BTreeMap<(usize, usize), f64> {
        let ends = on.links().iter().map(|link| (link.source, link.target));
        ends.zip(outcome.loads.iter().copied()).filter(|(_, bytes)| *bytes > 0.0).collect()
    };
    assert_eq!(loads(&whole), BTreeMap::from([(0, 1), (1, 2), (2, 3), (3, 0)].map(|link| (link, 6000.0))));
    let around = [(0, 1), (2, 3), (3, 0), (1, 0), (0, 3), (3, 2)].map(|link| (link, 6000.0));
    assert_eq!(loads(&detour), BTreeMap::from(around));
    assert_close(detour.seconds, whole.seconds + 6.0 * 2.0 * 0.5e-6, "two more hops in each of six steps");
}

#[test]
fn every_routing_goes_around_failed_links() {
    for routing in ["minimal", "dimension-ordered", "single-path"] {
        let on = topology(&format!("torus:4x4,routing={routing}"));
        let schedule = schedule("direct", Collective::Allgather, &on);
        let failed = on.links().iter().position(|link| (link.source, link.target) == (5, 6)).unwrap();
        for forwarding in [Forwarding::CutThrough, Forwarding::StoreAndForward] {
            let run = |scenario: &Scenario| {
                let simulator = Simulator { forwarding, ..Simulator::default() };
                simulator.run(&schedule, &on, 16_000, scenario).unwrap()
            };
            let (whole, left) = (
                run(&Scenario::default()),
                run(&Scenario { failed_links: vec![(5, 6)], ..Scenario::default() }),
            );
            assert!(whole.loads[failed] > 0.0 && left.loads[failed] == 0.0, "{routing}");
            assert!(left.messages == whole.messages && left.seconds > 0.9 * whole.seconds, "{routing}");
        }
    }
}

fn refused(spec: &str, bytes: Bytes, collective: Collective, scenario: Scenario) -> SimulationError {
    let on = topology(spec);
    let schedule = schedule("direct", collective, &on);
    Simulator::default().run(&schedule, &on, bytes, &scenario).unwrap_err()
}

#[test]
fn errors_say_what_to_do() {
    let mut text = String::new();
    let mut check = |spec, bytes, collective, scenario| {
        writeln!(text, "{}", refused(spec, bytes, collective, scenario)).unwrap();
    };
    let none = Scenario::default;
    let reduce = Collective::Allreduce;
    check("ring:4", 8, reduce, Scenario { failed_links: vec![(1, 2), (1, 0)], ..none() });
    check("switch:3", 8, reduce, Scenario { failed_links: vec![(3, 0)], ..none() });
    check("switch:8", 8, reduce, Scenario { failed_links: vec![(8, 5)], ..none() });
    check("ring:4", 8, reduce, Scenario { failed_links: vec![(0, 2)], ..none() });
    check("ring:4", 8, reduce, Scenario { slow_links: vec![(9, 2, 0.5)], ..none() });
    check("ring:4", 8, reduce, Scenario { slow_links: vec![(0, 1, 0.0)], ..none() });
    check("ring:4", 8, reduce, Scenario { slow_ranks: vec![(4, 2.0)], ..none() });
    check("ring:4", 8, reduce, Scenario { slow_ranks: vec![(3, f64::NAN)], ..none() });
    check("ring:4", 8, reduce, Scenario { late: vec![(2, -1.0)], ..none() });
    check("ring:4", 10, Collective::Alltoall, none());
    check("ring:4", u64::MAX, reduce, none());
    let large = schedule("ring", reduce, &topology("ring:5"));
    let error = Simulator::default().run(&large, &topology("ring:4"), 8, &none()).unwrap_err();
    writeln!(text, "{error}").unwrap();
    let mut wrong = schedule("ring", reduce, &topology("ring:4")).expand();
    wrong.steps.pop();
    let error = Simulator::default().run(&wrong, &topology("ring:4"), 8, &none()).unwrap_err();
    writeln!(text, "{error}").unwrap();
    let error = Simulator::default().run(
        &Schedule::empty("", Collective::Allgather, 0, 0),
        &topology("ring:4"),
        8,
        &none(),
    );
    writeln!(text, "{}", error.unwrap_err()).unwrap();
    insta::assert_snapshot!(text);
}

// ---------------------------------------------------------------------------------------------- the timeline

fn describe(event: &TraceEvent) -> String {
    let end = event.end.unwrap() / MICROSECOND;
    let (rank, kind, start) = (event.rank, event.kind.name(), event.start / MICROSECOND);
    let step = event.step.unwrap();
    format!("{start:8.3} {end:8.3}  step {step}  rank {rank} {kind:7} {:4} B, {}", event.bytes, event.peer)
}

#[test]
fn a_timeline_as_text() {
    let on = topology("ring:3");
    let schedule = schedule("ring", Collective::Allreduce, &on);
    let mut text = String::new();
    for pace in [Pace::Synchronous, Pace::Free] {
        let model = CostModel { reduce_cost: 1e-9, ..unit_model() };
        let scenario = Scenario { late: vec![(2, 2e-6)], ..Scenario::default() };
        let simulator = Simulator { model, ..simulator(pace) };
        let outcome = simulator.run(&schedule, &on, 1500, &scenario).unwrap();
        writeln!(text, "{pace:?}: {:.3} us", outcome.seconds / MICROSECOND).unwrap();
        outcome.trace.events.iter().for_each(|event| writeln!(text, "{}", describe(event)).unwrap());
    }
    insta::assert_snapshot!(text);
}

/// Every message is sent once and received once, later. A processor performs one reduction at a time. The same run
/// gives the same bits.
#[test]
fn timelines_make_sense() {
    let mut random = Random(5);
    for spec in ["torus:3x3", "ring:6", "hosts:2x3"] {
        let on = topology(spec);
        for member in available(&on, Collective::Allreduce) {
            let schedule = member.build(&on, Collective::Allreduce).unwrap();
            let pace = random.pick(&[Pace::Synchronous, Pace::Free]);
            let lowering = segments(random.pick(&[40, 300, 4000]));
            let model = CostModel { reduce_cost: 1e-10, message_latency: 1e-7, ..CostModel::default() };
            let forwarding = random.pick(&[Forwarding::CutThrough, Forwarding::StoreAndForward]);
            let eager = random.pick(&[0, 100, 10_000]);
            let simulator = Simulator { model, pace, forwarding, eager, lowering, details: true };
            let scenario = Scenario::skew(on.ranks(), 1e-6, random.next());
            let run = || simulator.run(&schedule, &on, 9999, &scenario).unwrap();
            let outcome = run();
            let what = format!("{} on {spec}", member.name());
            assert_eq!(outcome, run(), "{what}");
            check_timeline(&outcome, &what);
            let algorithm = Some(member.name());
            assert!(outcome.trace.events.iter().all(|e| e.algorithm.as_deref() == algorithm.as_deref()));
            let brief = Simulator { details: false, ..simulator.clone() };
            let brief = brief.run(&schedule, &on, 9999, &scenario).unwrap();
            assert_eq!((brief.seconds, &brief.loads), (outcome.seconds, &outcome.loads), "{what}");
            assert!(brief.trace.events.is_empty() && brief.step_loads.is_empty());
        }
    }
}

fn check_timeline(outcome: &Outcome, what: &str) {
    let events = &outcome.trace.events;
    assert!(events.windows(2).all(|pair| pair[0].start <= pair[1].start), "{what}");
    let mut sends = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == TraceKind::Send) {
        assert!(sends.insert((event.rank, event.peer, event.message), event).is_none(), "{what}: {event:?}");
    }
    let receives = events.iter().filter(|event| event.kind == TraceKind::Receive);
    let mut received = 0;
    for event in receives {
        let send = sends[&(event.peer, event.rank, event.message)];
        assert!(send.end <= event.end && send.start < send.end.unwrap(), "{what}: {send:?} {event:?}");
        assert_eq!((send.bytes, send.step), (event.bytes, event.step), "{what}");
        received += 1;
    }
    assert_eq!((received, sends.len()), (outcome.messages, outcome.messages), "{what}");
    for rank in 0..outcome.finished.len() {
        let reductions: Vec<&TraceEvent> =
            events.iter().filter(|e| e.kind == TraceKind::Reduce && e.rank == rank).collect();
        assert!(reductions.windows(2).all(|pair| pair[0].end.unwrap() <= pair[1].start), "{what}");
        let last = events.iter().filter(|e| e.rank == rank).filter_map(|e| e.end).fold(0.0, f64::max);
        assert!(outcome.finished[rank] >= last, "{what}");
    }
    assert_eq!(outcome.finished.iter().copied().fold(0.0, f64::max), outcome.seconds, "{what}");
    assert!(outcome.step_ends.iter().all(|end| *end > 0.0 && *end <= outcome.seconds), "{what}");
    let (_, most) = outcome.busiest_link().unwrap();
    assert!(outcome.loads.iter().all(|load| *load <= most));
}
