use proptest::prelude::*;

use super::*;
use crate::algorithms::Member;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::topology::{Topology, DEFAULT_BANDWIDTH, DEFAULT_LATENCY, MEMORY_LATENCY};
use crate::units::{Bytes, Rank, Seconds};

fn send(source: Rank, destination: Rank, chunks: ChunkSet) -> Send {
    Send { source, destination, chunks, action: Action::Reduce, port: 0, from: 0, into: 0 }
}

/// A schedule of one step in which each `(source, destination, count)` sends `count` of `chunks` chunks.
fn one_step(ranks: usize, chunks: usize, sends: &[(Rank, Rank, usize)]) -> Schedule {
    let mut schedule = Schedule::empty("one step", Collective::Allreduce, ranks, chunks);
    schedule.push(sends.iter().map(|&(s, d, count)| send(s, d, ChunkSet::range(0, count))).collect());
    schedule
}

fn shift(ranks: usize, by: usize) -> Vec<(Rank, Rank, usize)> {
    (0..ranks).map(|r| (r, (r + by) % ranks, 1)).collect()
}

fn ring_reduce_scatter(ranks: usize) -> Schedule {
    let mut schedule = Schedule::empty("ring", Collective::ReduceScatter, ranks, ranks);
    for step in 0..ranks - 1 {
        let block = |r: Rank| (r + 2 * ranks - step - 1) % ranks;
        let sends = (0..ranks).map(|r| send(r, (r + 1) % ranks, ChunkSet::range(block(r), block(r) + 1)));
        schedule.push(sends.collect());
    }
    schedule.verify().unwrap();
    schedule
}

fn cost(schedule: &Schedule, topology: &str) -> ScheduleCost {
    ScheduleCost::from_schedule(schedule, &Topology::parse(topology).unwrap()).unwrap()
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{what}: {found} instead of {expected}");
}

#[test]
fn a_ring_reduce_scatter_costs_what_the_textbook_says() {
    let cost = cost(&ring_reduce_scatter(4), "ring:4");
    let seconds_per_byte = 0.25 / DEFAULT_BANDWIDTH;
    let step = StepCost {
        messages: 1,
        hops: 1,
        incast: 0,
        latency: DEFAULT_LATENCY,
        extra_latency: 0.0,
        link_load: 0.25,
        seconds_per_byte,
        reduced: 0.25,
        port_load: 0.25,
        copied: 0.25,
        all: StepTotals { messages: 4, sent: 1.0, reduced: 1.0 },
    };
    assert_eq!(cost.steps, [step; 3]);
    assert_eq!((cost.hops(), cost.link_load()), (3, 0.75));
    let model = CostModel { step_latency: 2e-6, hop_latency: None, bandwidth: None, ..CostModel::default() };
    assert_close(model.fixed(&cost), 3.0 * 2.5e-6, "fixed");
    assert_close(model.per_byte(&cost), 0.75 / 12.5e9, "per byte");
    assert_close(model.seconds(&cost, 1_000_000), 7.5e-6 + 60e-6, "seconds");
    let model = CostModel {
        step_latency: 0.0,
        hop_latency: Some(1e-6),
        bandwidth: Some(1e9),
        ..CostModel::default()
    };
    assert_close(model.seconds(&cost, 1_000_000), 3e-6 + 750e-6, "overridden");
    let json = serde_json::to_string(&cost).unwrap();
    assert_eq!(serde_json::from_str::<ScheduleCost>(&json).unwrap(), cost);
}

#[test]
fn loads_and_hops_follow_the_routes() {
    let check = |topology: &str, chunks: usize, sends: &[(Rank, Rank, usize)], hops: usize, load: f64| {
        let ranks = Topology::parse(topology).unwrap().ranks();
        let cost = cost(&one_step(ranks, chunks, sends), topology);
        assert_eq!((cost.hops(), cost.link_load()), (hops, load), "{topology} {sends:?}");
        assert_close(cost.steps[0].latency, hops as f64 * DEFAULT_LATENCY, topology);
        assert_close(cost.steps[0].seconds_per_byte, load / DEFAULT_BANDWIDTH, topology);
    };
    check("ring:8", 1, &shift(8, 1), 1, 1.0);
    check("ring:8", 1, &shift(8, 3), 3, 3.0);
    // Opposite ranks: half of each vector goes up and half down, over 4 links each.
    check("ring:8", 1, &shift(8, 4), 4, 2.0);
    check("ring:8", 4, &[(0, 4, 3)], 4, 0.375);
    // Two ranks have two links in each direction.
    check("ring:2", 1, &[(0, 1, 1), (1, 0, 1)], 1, 0.5);
    // Opposite directions share no link.
    check("ring:8", 1, &[shift(8, 1), shift(8, 7)].concat(), 1, 1.0);
    // Neighbours on a torus, in the last and in the first dimension.
    check("torus:4x4", 4, &[(0, 1, 1), (0, 4, 2), (0, 3, 1), (0, 12, 1)], 1, 0.5);
    // The far corner: six paths, a half on each first link.
    check("torus:4x4", 1, &[(0, 5, 1)], 2, 0.5);
    // Up and down; the downlink of rank 0 is shared.
    check("switch:4", 1, &shift(4, 3), 2, 1.0);
    check("switch:4", 2, &[(1, 0, 1), (2, 0, 1), (3, 0, 1)], 2, 1.5);
}

/// On hosts, memory links have more bandwidth and cables more latency, even where properties are set for all links.
#[test]
fn steps_within_a_host_are_cheaper_than_steps_between_hosts() {
    let hosts = Topology::parse("hosts:2x2").unwrap().with_hosts(Some(4.0), Some(2e-6)).unwrap();
    let check = |sends: &[(Rank, Rank, usize)], hops: usize, load: f64, extra: Seconds| {
        let cost = ScheduleCost::from_schedule(&one_step(4, 1, sends), &hosts).unwrap();
        assert_eq!((cost.hops(), cost.link_load(), cost.steps[0].extra_latency), (hops, load, extra));
        assert_close(cost.steps[0].latency, hops as f64 * MEMORY_LATENCY + extra, "latency");
        assert_close(cost.steps[0].seconds_per_byte, load / DEFAULT_BANDWIDTH, "seconds per byte");
        let stated = CostModel { hop_latency: Some(1e-6), bandwidth: Some(1e9), ..CostModel::default() };
        assert_close(stated.fixed(&cost), stated.step_latency + hops as f64 * 1e-6 + extra, "stated latency");
        assert_close(stated.per_byte(&cost), load / 1e9, "stated bandwidth");
    };
    check(&[(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)], 2, 0.25, 0.0);
    // Both ranks of a host share its cable.
    check(&[(0, 2, 1), (1, 3, 1)], 4, 2.0, 4e-6);
    check(&[(0, 2, 1), (2, 0, 1)], 4, 1.0, 4e-6);
}

/// Cores share the work of all ranks, but no rank works on two cores.
#[test]
fn cores_share_out_the_work_of_all_ranks() {
    let model = CostModel {
        step_latency: 1e-6,
        hop_latency: Some(0.0),
        message_latency: 2e-6,
        bandwidth: Some(1e9),
        reduce_cost: 3e-9,
        ..CostModel::default()
    };
    let to_one: Vec<(Rank, Rank, usize)> = (1..8).map(|source| (source, 0, 1)).collect();
    // The work of all ranks, and the messages, copies and reductions of the busiest rank.
    let cases = [
        (to_one, StepTotals { messages: 7, sent: 7.0, reduced: 7.0 }, [7.0, 1.0, 7.0]),
        (vec![(0, 1, 1)], StepTotals { messages: 1, sent: 1.0, reduced: 1.0 }, [1.0, 1.0, 1.0]),
        (shift(8, 1), StepTotals { messages: 8, sent: 8.0, reduced: 8.0 }, [1.0, 1.0, 1.0]),
    ];
    for (sends, all, [messages, copied, reduced]) in cases {
        let cost = cost(&one_step(8, 1, &sends), "switch:8");
        assert_eq!(cost.steps[0].all, all);
        for cores in [1, 2, 8] {
            let oversubscribed = CostModel { cores: Some(cores), ..model };
            let share = |all: f64, busiest: f64| f64::max(all / cores as f64, busiest);
            let fixed = 1e-6 + share(all.messages as f64, messages / 2.0) * 2e-6;
            assert_close(oversubscribed.fixed(&cost), fixed, "fixed");
            let bytes = share(all.sent, copied) / 1e9 + share(all.reduced, reduced) * 3e-9;
            assert_close(oversubscribed.per_byte(&cost), bytes, "per byte");
            // On hosts that the machine emulates, bytes pass links as ever.
            let emulated = CostModel { over_links: true, ..oversubscribed };
            assert_close(
                emulated.fixed(&cost),
                fixed + cost.steps[0].incast as f64 * emulated.incast_latency,
                "fixed, over links",
            );
            let bytes = cost.link_load() / 1e9 + share(all.reduced, reduced) * 3e-9;
            assert_close(emulated.per_byte(&cost), bytes, "per byte, over links");
        }
    }
}

#[test]
fn a_slow_link_counts_even_when_it_is_not_the_most_loaded() {
    let mut links = Topology::ring(4).unwrap().links().to_vec();
    links[0].bandwidth = 1e9; // 0 → 1
    let slow = Topology::from_links("slow", 4, 4, links).unwrap();
    let schedule = one_step(4, 2, &[(0, 1, 1), (2, 3, 2)]);
    let step = ScheduleCost::from_schedule(&schedule, &slow).unwrap().steps[0];
    assert_eq!((step.link_load, step.seconds_per_byte), (1.0, 0.5 / 1e9));
}

#[test]
fn an_all_to_all_counts_in_vectors_of_one_rank() {
    let mut schedule = Schedule::empty("exchange", Collective::Alltoall, 2, 4);
    schedule.push(vec![send(0, 1, ChunkSet::range(1, 2)), send(1, 0, ChunkSet::range(2, 3))]);
    assert_eq!(cost(&schedule, "switch:2").link_load(), 0.5);
}

#[test]
fn schedules_may_use_part_of_a_topology_but_not_more() {
    assert_eq!(cost(&one_step(3, 1, &[(2, 0, 1)]), "ring:8").hops(), 2);
    assert_eq!(
        cost(&Schedule::empty("nothing", Collective::Allreduce, 1, 1), "ring:1"),
        ScheduleCost::default()
    );
    let check = |schedule: Schedule, message: &str| {
        let error = ScheduleCost::from_schedule(&schedule, &Topology::ring(4).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    check(
        one_step(5, 1, &[]),
        "the schedule \"one step\" is for 5 ranks, but ring:4 has 4; give a topology with at least 5",
    );
    check(
        one_step(2, 1, &[(0, 3, 1)]),
        "the schedule \"one step\" is malformed: step 0 sends 0→3 among 2 ranks",
    );
    check(
        Schedule::empty("none", Collective::Alltoall, 4, 3),
        "the schedule \"none\" is malformed: 3 chunks over 4 ranks leave nothing to send",
    );
}

/// Any algorithm, by its place in the catalogue.
fn numbered(place: usize) -> Member {
    let name = crate::algorithms::catalogue().nth(place).unwrap().name;
    crate::algorithms::find(name).unwrap()
}

/// A candidate that takes `latency + load · bytes` on links of one byte per second.
fn candidate(member: Member, latency: Seconds, load: f64) -> Candidate {
    let messages = 1;
    let step = StepCost {
        messages,
        hops: 1,
        latency,
        link_load: load,
        seconds_per_byte: load,
        ..StepCost::default()
    };
    Candidate::new(member, ScheduleCost { steps: vec![step], busiest_link: load }, true)
}

const PLAIN: CostModel = CostModel {
    step_latency: 0.0,
    message_latency: 0.0,
    incast_latency: 0.0,
    hop_latency: None,
    bandwidth: None,
    reduce_cost: 0.0,
    overlapped: false,
    cores: None,
    over_links: false,
    codec_cost: 0.0,
};

#[test]
fn tables_switch_where_lines_cross() {
    let check = |lines: &[(f64, f64)], expected: &[(Bytes, usize)]| {
        let named = |(i, &(fixed, load)): (usize, &(f64, f64))| candidate(numbered(i), fixed, load);
        let candidates: Vec<_> = lines.iter().enumerate().map(named).collect();
        let table = SwitchTable::build(&PLAIN, &candidates).unwrap();
        let ranges: Vec<_> = table.ranges().iter().map(|r| (r.from_bytes, r.algorithm)).collect();
        let expected: Vec<_> = expected.iter().map(|(from, i)| (*from, numbered(*i))).collect();
        assert_eq!(ranges, expected, "{lines:?}");
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<SwitchTable>(&json).unwrap(), table);
    };
    check(&[(1.0, 1.0)], &[(0, 0)]);
    // Equal at 4 bytes: the earlier candidate wins the tie, whichever it is.
    check(&[(0.0, 2.0), (4.0, 1.0)], &[(0, 0), (5, 1)]);
    check(&[(4.0, 1.0), (0.0, 2.0)], &[(0, 1), (4, 0)]);
    // Never the fastest.
    check(&[(0.0, 2.0), (4.0, 1.0), (5.0, 1.5)], &[(0, 0), (5, 1)]);
    check(&[(0.0, 0.0), (4.0, 1.0)], &[(0, 0)]);
    // Three lines that cross in one point, and one that is the fastest for a single size.
    check(&[(0.0, 4.0), (2.0, 2.0), (3.0, 1.0)], &[(0, 0), (2, 2)]);
    check(&[(0.0, 4.0), (2.5, 2.0), (3.8, 1.0)], &[(0, 0), (2, 2)]);
    check(&[(0.0, 4.0), (2.5, 2.0), (4.75, 1.0)], &[(0, 0), (2, 1), (3, 2)]);
    // Equal at 0 bytes only.
    check(&[(1.0, 2.0), (1.0, 1.0)], &[(0, 0), (1, 1)]);
    check(&[(1.0, 1.0), (1.0, 1.0)], &[(0, 0)]);
    // Costs that differ by rounding only are equal.
    check(&[(0.1 + 0.2, 1.0), (0.3, 1.0)], &[(0, 0)]);
    check(&[(1.0, 0.1 + 0.2), (1.0, 0.3)], &[(0, 0)]);
    // Unrealistic numbers do not break the order.
    check(&[(f64::INFINITY, 0.0), (1.0, f64::NAN), (1.0, 1e-320), (1.0, 0.0)], &[(0, 1), (1, 2)]);
}

/// Candidates compete by what they take while ranks run freely, or by their cost where they were too long to be simulated.
#[test]
fn free_running_decides_where_it_is_known() {
    let mut candidates: Vec<Candidate> = [(0.0, 4.0), (0.0, 5.0), (0.0, 6.0), (0.0, 3.0)]
        .iter()
        .enumerate()
        .map(|(i, line)| candidate(numbered(i), line.0, line.1))
        .collect();
    // Sizes 1024 and 4096: the second takes half of its cost, the third a third of it, but for large sizes only.
    let [one, half, third] = [1.0, 0.5, 1.0 / 3.0].map(Trial::Simulated);
    let hopeless = Trial::Hopeless;
    let trials = [[one, one], [half, half], [hopeless, third], [hopeless, hopeless]];
    for (candidate, [small, large]) in candidates.iter_mut().zip(trials) {
        candidate.free.insert(4096, large);
        candidate.free.insert(1024, small);
    }
    let table = SwitchTable::build(&PLAIN, &candidates).unwrap();
    let ranges: Vec<_> = table.ranges().iter().map(|range| (range.from_bytes, range.algorithm)).collect();
    assert_eq!(ranges, [(0, numbered(0)), (1, numbered(1)), (1024, numbered(2))]);
    for bytes in [0, 1, 1023, 1024, 2048, 1 << 40] {
        let ranked = rank(&PLAIN, &candidates, bytes);
        assert_eq!(ranked[0].candidate.member, table.pick(bytes), "{bytes}");
        assert!(ranked.windows(2).all(|pair| pair[0].ratio <= pair[1].ratio), "{ranked:?}");
    }
    assert_eq!(candidates[1].free_seconds(&PLAIN, 10), Some(25.0));
    assert_eq!(candidates[2].free_seconds(&PLAIN, 10), None);
    // What was too long to be simulated competes by its cost.
    candidates[3].free = FreeRunning::default();
    candidates[3].free.insert(1024, Trial::TooLong);
    assert_eq!(SwitchTable::build(&PLAIN, &candidates).unwrap().pick(10), numbered(1));
    candidates[1].free = FreeRunning::default();
    candidates[1].free.insert(1024, hopeless);
    assert_eq!(SwitchTable::build(&PLAIN, &candidates).unwrap().pick(10), numbered(3));
    candidates[1].free = FreeRunning::default();
    candidates[1].free.insert(1024, half);
    // Within 1 %, the cheapest wins.
    let mut alike = vec![candidates[0].clone(), candidates[1].clone()];
    alike.iter_mut().zip([0.8008, 0.64]).for_each(|(candidate, ratio)| {
        candidate.free = FreeRunning::default();
        candidate.free.insert(1024, Trial::Simulated(ratio));
    });
    assert_eq!(SwitchTable::build(&PLAIN, &alike).unwrap().pick(1024), numbered(0));
}

#[test]
fn a_table_covers_every_size_once() {
    assert_eq!(SwitchTable::build(&PLAIN, &[]), Err(TableError::Empty));
    let check = |starts: &[Bytes], expected: Option<TableError>| {
        let range =
            |&from_bytes: &Bytes| SwitchRange { from_bytes, algorithm: numbered(0), origin: Origin::Model };
        let ranges: Vec<_> = starts.iter().map(range).collect();
        let json = format!("{{\"ranges\":{}}}", serde_json::to_string(&ranges).unwrap());
        assert_eq!(serde_json::from_str::<SwitchTable>(&json).is_err(), expected.is_some(), "{json}");
        assert_eq!(SwitchTable::new(ranges).err(), expected, "{starts:?}");
    };
    check(&[0, 1, 7], None);
    check(&[], Some(TableError::Empty));
    check(&[1], Some(TableError::Order(0)));
    check(&[0, 7, 7], Some(TableError::Order(2)));
}

/// Terms add up to the seconds, and the returned factors do make two algorithms equally fast.
#[test]
fn a_comparison_says_what_would_change_the_choice() {
    let topology = Topology::parse("torus:4x4").unwrap();
    let model = CostModel {
        step_latency: 1e-6,
        message_latency: 2e-7,
        incast_latency: 1e-7,
        hop_latency: Some(3e-7),
        bandwidth: Some(1e10),
        reduce_cost: 5e-11,
        overlapped: false,
        cores: None,
        over_links: false,
        codec_cost: 0.0,
    };
    let all = crate::algorithms::available(&topology, Collective::Allreduce);
    let cost = |member: &Member| {
        ScheduleCost::from_schedule(&member.build(&topology, Collective::Allreduce).unwrap(), &topology)
            .unwrap()
    };
    let all: Vec<Candidate> = all.iter().map(|member| Candidate::new(*member, cost(member), true)).collect();
    let mut factors = 0;
    for bytes in [8, 1 << 16, 1 << 20, 1 << 28] {
        let ranked = rank(&model, &all, bytes);
        let best = ranked[0].candidate;
        for other in &ranked[1..] {
            let rival = other.candidate;
            let found = Comparison::from_candidates(&model, best, rival, bytes);
            assert_close(found.best.seconds(), model.seconds(&best.cost, bytes), "terms");
            assert_close(found.rival.seconds(), other.seconds, "terms");
            assert!((found.margin - (other.ratio - 1.0)).abs() < 1e-9, "{found:?}");
            for (term, factor) in &found.factors {
                let scaled = |terms: &TimeTerms| -> f64 {
                    terms.all().iter().map(|(t, s)| if t == term { s * factor } else { *s }).sum()
                };
                let (a, b) = (scaled(&found.best), scaled(&found.rival));
                assert!((a - b).abs() <= 1e-9 * a, "{found:?}");
                factors += 1;
            }
            let both = [best.clone(), rival.clone()];
            let first = |bytes| rank(&model, &both, bytes)[0].candidate.member;
            match found.bytes {
                Some((from, None)) => {
                    assert!(from > bytes && first(from) == rival.member && first(from - 1) == best.member);
                }
                Some((from, Some(to))) => {
                    assert!(
                        from == 0 && to < bytes && first(to) == rival.member && first(to + 1) == best.member
                    );
                }
                None => assert!(first(0) == best.member && first(Bytes::MAX) == best.member, "{found:?}"),
            }
        }
    }
    assert!(factors > 100, "{factors}");
}

#[test]
fn rules_are_laid_over_a_table() {
    let [a, b, c] = [0, 1, 2].map(numbered);
    let candidates = [candidate(a, 0.0, 2.0), candidate(b, 4.0, 1.0)];
    let table = SwitchTable::build(&PLAIN, &candidates).unwrap();
    let check = |from: Bytes, to: Bytes, algorithm: Member, expected: &[(Bytes, Member, Origin)]| {
        let over = table.overlaid(from, to, algorithm, Origin::Rules);
        let found: Vec<_> = over.ranges().iter().map(|r| (r.from_bytes, r.algorithm, r.origin)).collect();
        assert_eq!(found, expected, "{algorithm} from {from} to {to}");
        assert_eq!(SwitchTable::new(over.ranges().to_vec()), Ok(over.clone()));
        for bytes in [0, 1, 4, 5, 6, 99, Bytes::MAX] {
            let wanted = if (from..=to).contains(&bytes) { algorithm } else { table.pick(bytes) };
            assert_eq!(over.pick(bytes), wanted, "{algorithm} from {from} to {to} at {bytes}");
        }
    };
    let (model, rules) = (Origin::Model, Origin::Rules);
    check(0, Bytes::MAX, c, &[(0, c, rules)]);
    check(0, 3, c, &[(0, c, rules), (4, a, model), (5, b, model)]);
    check(3, 4, c, &[(0, a, model), (3, c, rules), (5, b, model)]);
    check(3, 9, c, &[(0, a, model), (3, c, rules), (10, b, model)]);
    check(5, Bytes::MAX, c, &[(0, a, model), (5, c, rules)]);
    check(7, 7, b, &[(0, a, model), (5, b, model), (7, b, rules), (8, b, model)]);
}

#[test]
fn the_ranking_explains_the_choice() {
    let [slow, fast, same] = [0, 1, 2].map(numbered);
    let candidates = [candidate(slow, 4.0, 1.0), candidate(fast, 1.0, 1.0), candidate(same, 1.0, 1.0)];
    let ranked = rank(&PLAIN, &candidates, 2);
    let rows: Vec<_> = ranked.iter().map(|r| (r.candidate.member, r.seconds, r.ratio)).collect();
    assert_eq!(rows, [(fast, 3.0, 1.0), (same, 3.0, 1.0), (slow, 6.0, 2.0)]);
    assert!(rank(&PLAIN, &[], 2).is_empty());
    // Where the best candidate takes no time, the ratio is still a number.
    let free = [candidate(slow, 0.0, 0.0), candidate(same, 0.0, 0.0)];
    assert_eq!(rank(&PLAIN, &free, 9).iter().map(|r| r.ratio).collect::<Vec<_>>(), [1.0, 1.0]);
}

fn seeded() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(2);
    ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(seeded())]

    /// The table, the ranking and integer arithmetic agree everywhere, in particular around every switch.
    #[test]
    fn the_table_is_the_minimum_everywhere(
        lines in prop::collection::vec((0u64..1 << 30, 0u64..1 << 12), 1..9),
        coarse in any::<bool>(),
        sizes in prop::collection::vec((any::<u64>(), 0u32..64), 1..20),
    ) {
        // Few distinct values make ties and common crossings likely.
        let lines: Vec<(u64, u64)> =
            lines.into_iter().map(|(a, b)| if coarse { (a % 8, b % 4) } else { (a, b) }).collect();
        let unit = 0.5f64.powi(40);
        let candidates: Vec<Candidate> = lines.iter().enumerate()
            .map(|(i, &(a, b))| candidate(numbered(i), a as f64 * unit, b as f64 * unit)).collect();
        let table = SwitchTable::build(&PLAIN, &candidates).unwrap();
        let mut sizes: Vec<Bytes> = sizes.into_iter().map(|(bytes, shift)| bytes >> shift).collect();
        sizes.extend([0, 1, 2, 3, Bytes::MAX]);
        for range in table.ranges() {
            let from = range.from_bytes;
            sizes.extend([from.saturating_sub(1), from, from.saturating_add(1)]);
        }
        for bytes in sizes {
            let exact = |i: &usize| (u128::from(lines[*i].0) + u128::from(lines[*i].1) * u128::from(bytes), *i);
            let best = (0..lines.len()).min_by_key(exact).map(numbered).unwrap();
            prop_assert_eq!(table.pick(bytes), best, "at {} bytes", bytes);
            prop_assert_eq!(rank(&PLAIN, &candidates, bytes)[0].candidate.member, best, "at {} bytes", bytes);
        }
    }

    /// The same with arbitrary numbers, compared with the ranking.
    #[test]
    fn table_and_ranking_agree(
        lines in prop::collection::vec((0.0f64..1e-3, 1e-12f64..1e-9), 1..9),
        sizes in prop::collection::vec((any::<u64>(), 0u32..64), 1..20),
    ) {
        let candidates: Vec<Candidate> = lines.iter().enumerate()
            .map(|(i, &(a, b))| candidate(numbered(i), a, b)).collect();
        let table = SwitchTable::build(&PLAIN, &candidates).unwrap();
        let switches = table.ranges().iter().flat_map(|r| [r.from_bytes.saturating_sub(1), r.from_bytes]);
        for bytes in sizes.into_iter().map(|(bytes, shift)| bytes >> shift).chain(switches) {
            let ranked = rank(&PLAIN, &candidates, bytes);
            prop_assert_eq!(table.pick(bytes), ranked[0].candidate.member, "at {} bytes", bytes);
            for r in &ranked {
                prop_assert!(r.seconds >= ranked[0].seconds * (1.0 - 1e-11), "{:?}", ranked);
            }
        }
    }
}

/// Blocks of equal lengths have the usual cost. With unequal blocks the longest one on each link counts.
#[test]
fn blocks_may_differ_in_length() {
    let topology = Topology::parse("ring:4").unwrap();
    let routes = &mut crate::topology::Routes::new(&topology);
    let schedule = ring_reduce_scatter(4);
    let equal = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
    assert_eq!(ScheduleCost::with_blocks(&schedule, &[3; 4], routes).unwrap(), equal);
    // In every step each block is on another link, so the longest block, half of all bytes, determines the step's time.
    let uneven = ScheduleCost::with_blocks(&schedule, &[5, 0, 2, 3], routes).unwrap();
    assert_close(uneven.link_load(), 3.0 * 0.5, "three steps with half of the vector");
    assert_close(uneven.steps[0].all.sent, 1.0, "all blocks are sent");
    // Steps that differ in the lengths of their blocks only.
    let mut one_by_one = Schedule::empty("one by one", Collective::Allgather, 4, 4);
    (0..4).for_each(|block| one_by_one.push(vec![send(0, 1, ChunkSet::range(block, block + 1))]));
    let uneven = ScheduleCost::with_blocks(&one_by_one, &[5, 0, 2, 3], routes).unwrap();
    let loads: Vec<f64> = uneven.steps.iter().map(|step| step.link_load).collect();
    assert_eq!(loads, [0.5, 0.2, 0.3], "an empty block is not sent");
    // An all-to-all in which every rank sends to the next one only.
    let direct = crate::algorithms::find("direct").unwrap().build(&topology, Collective::Alltoall).unwrap();
    let next: Vec<usize> = (0..16).map(|pair| usize::from((pair / 4 + 1) % 4 == pair % 4)).collect();
    let sparse = ScheduleCost::with_blocks(&direct, &next, routes).unwrap();
    assert_eq!((sparse.hops(), sparse.link_load(), sparse.steps[0].all.messages), (1, 1.0, 4));
    for spec in ["petersen", "ring:5"] {
        let topology = Topology::parse(spec).unwrap();
        let routes = &mut crate::topology::Routes::new(&topology);
        for collective in [Collective::Allgather, Collective::ReduceScatter, Collective::Gather { root: 2 }] {
            for member in crate::algorithms::available(&topology, collective) {
                let schedule = member.build(&topology, collective).unwrap();
                let equal = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
                let blocks =
                    ScheduleCost::with_blocks(&schedule, &vec![7; topology.ranks()], routes).unwrap();
                assert_close(blocks.link_load(), equal.link_load(), &format!("{member} on {spec}"));
            }
        }
    }
    for (lengths, collective) in [(&[1; 3][..], "reduce_scatter"), (&[0; 4], "reduce_scatter")] {
        let error = ScheduleCost::with_blocks(&schedule, lengths, routes).unwrap_err().to_string();
        assert!(error.contains("give a length for each rank") && error.contains(collective), "{error}");
    }
}

/// What links carry has the maximum that costs have, and sums up to the hops of all messages.
#[test]
fn loads_of_links_agree_with_costs() {
    for (spec, name) in [("torus:4x4", "swing"), ("hosts:2x4", "ring"), ("petersen", "bfb")] {
        let topology = Topology::parse(spec).unwrap();
        let schedule =
            crate::algorithms::find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
        let loads = link_loads(&schedule, &topology).unwrap();
        let steps = ScheduleCost::from_schedule(&schedule, &topology).unwrap().steps;
        assert_eq!(loads.len(), steps.len(), "{spec}");
        for (loads, step) in loads.iter().zip(steps) {
            assert_eq!(loads.len(), topology.links().len(), "{spec}");
            let relative = loads.iter().zip(topology.links()).map(|(load, link)| load / link.capacity);
            assert_close(relative.fold(0.0, f64::max), step.link_load, spec);
        }
    }
    let ring = Topology::parse("ring:4").unwrap();
    let loads = link_loads(&one_step(4, 2, &[(0, 1, 1), (0, 2, 2)]), &ring).unwrap();
    assert_eq!(loads[0].iter().sum::<f64>(), 0.5 + 2.0);
}

/// Steps that are alike are computed once, and cost what each costs alone.
#[test]
fn alike_steps_cost_what_each_costs_alone() {
    for spec in ["torus:4x4", "torus:3x5", "hosts:2x4", "petersen", "fattree:3x3"] {
        let topology = Topology::parse(spec).unwrap();
        for collective in Collective::ALL {
            for member in crate::algorithms::available(&topology, collective) {
                let schedule = member.build(&topology, collective).unwrap().expand();
                let together = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
                let expected = total(&schedule, &topology);
                assert_close(together.busiest_link, expected, &format!("{member}: {collective} on {spec}"));
                for (step, cost) in schedule.steps.iter().zip(together.steps) {
                    let alone = Schedule { steps: vec![step.clone()], ..schedule.clone() };
                    let alone = ScheduleCost::from_schedule(&alone, &topology).unwrap();
                    assert_eq!(alone.steps, [cost], "{member}: {collective} on {spec}");
                }
            }
        }
    }
}

/// What the busiest link carries in all steps together.
fn total(schedule: &Schedule, topology: &Topology) -> f64 {
    let loads = link_loads(schedule, topology).unwrap();
    let total = |link: usize| loads.iter().map(|step| step[link]).sum::<f64>();
    let links = topology.links().iter().enumerate();
    links.map(|(link, one)| total(link) / one.capacity).fold(0.0, f64::max)
}
