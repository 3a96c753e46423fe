//! Tests of the generalised allreduce of Kolmakov and Zhang and of its form for two ports: on more ranks than in the
//! tests of every algorithm, compared with the bounds and numbers of the papers, and the choice of the parameter. With
//! `RINGROAD_TEST_FULL=1` every schedule is also verified written out.

use ringroad_core::algorithms::{best_r, find};
use ringroad_core::cost::ScheduleCost;
use ringroad_core::{Collective, Schedule, Topology};

fn build(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let schedule = find(name).unwrap().build(&Topology::ring(ranks).unwrap(), collective).unwrap();
    let prove = |schedule: &Schedule| {
        schedule.verify().unwrap_or_else(|error| panic!("{name} {collective} over {ranks} ranks: {error}"));
    };
    prove(&schedule);
    if std::env::var_os("RINGROAD_TEST_FULL").is_some() {
        prove(&schedule.expand());
    }
    schedule
}

fn ceil_log(base: usize, ranks: usize) -> usize {
    (0..).find(|exponent| base.pow(*exponent) >= ranks).unwrap() as usize
}

/// The number of steps, and the blocks that a rank sends and reduces.
fn counts(schedule: &Schedule) -> (usize, usize, usize) {
    let blocks = |vectors: f64| (vectors * schedule.ranks as f64).round() as usize;
    let reduced: usize = (0..schedule.steps.len()).map(|step| schedule.view().reduced(step)).sum();
    let reduced = reduced as f64 / schedule.chunks_per_vector() as f64;
    (schedule.steps.len(), blocks(schedule.max_sent()), blocks(reduced))
}

/// Equations (25), (36) and (44), the last with the reduction that the paper omits for two ranks.
fn bounds(ranks: usize, r: usize) -> (usize, usize, usize) {
    let levels = ceil_log(2, ranks);
    let more = (1 << r) - 1;
    if r == levels {
        (levels, ranks * levels, (ranks * (2 * levels - 2)).max(ranks))
    } else {
        let sent = 2 * (ranks - 1) + more * (levels - 1);
        (2 * levels - r, sent, ranks - 1 + more * (2 * levels - 2))
    }
}

fn check(name: &str, ranks: usize) {
    for r in 0..=ceil_log(2, ranks) {
        let name = format!("{name}:{r}");
        let (steps, sent, reduced) = counts(&build(&name, ranks, Collective::Allreduce));
        let (all_steps, most_sent, most_reduced) = bounds(ranks, r);
        assert_eq!(steps, all_steps, "{name} over {ranks} ranks");
        assert!(sent <= most_sent, "{name} over {ranks} ranks sends {sent} blocks, not {most_sent}");
        assert!(
            reduced <= most_reduced,
            "{name} over {ranks} ranks reduces {reduced} blocks, not {most_reduced}"
        );
        assert!(r > 0 || (sent, reduced) == (most_sent, most_reduced), "{name} over {ranks} ranks");
    }
}

#[test]
fn all_numbers_of_ranks_are_within_the_bounds_of_the_paper() {
    (2..=130).for_each(|ranks| check("generalized", ranks));
    (1..=7).for_each(|bits| check("generalized-xor", 1 << bits));
}

#[test]
fn seven_ranks() {
    let all: Vec<_> =
        (0..=3).map(|r| counts(&build(&format!("generalized:{r}"), 7, Collective::Allreduce))).collect();
    assert_eq!(all, [(6, 12, 6), (5, 14, 10), (4, 18, 18), (3, 21, 28)]);
}

/// The text of schedules with slots.
#[test]
fn seven_ranks_as_text() {
    let texts = [1, 3].map(|r| build(&format!("generalized:{r}"), 7, Collective::Allreduce).to_string());
    insta::assert_snapshot!("generalized_7", texts.join("\n"));
    insta::assert_snapshot!("bruck-latency_8", build("bruck-latency", 8, Collective::Allreduce).to_string());
}

/// Generalised exchange by flips of bits without an allgather phase is recursive doubling.
#[test]
fn recursive_doubling_is_a_member() {
    for bits in 0..=6 {
        let member = build(&format!("generalized-xor:{bits}"), 1 << bits, Collective::Allreduce);
        let other = build("recursive-doubling", 1 << bits, Collective::Allreduce);
        assert_eq!(member.steps, other.steps, "{bits} bits");
    }
}

/// The network of table 2 and the sizes of section 10: 425 bytes take the fewest steps, and megabytes the most.
#[test]
fn the_parameter_of_equation_37() {
    let (alpha, beta, gamma) = (3e-5, 1e-8, 2e-10);
    let best = |ranks, bytes| best_r(ranks, bytes, alpha, beta, gamma);
    (1..=127).for_each(|ranks| assert_eq!(best(ranks, 425), ceil_log(2, ranks), "{ranks} ranks"));
    assert_eq!(
        [1_000, 4_000, 9_000, 30_000, 100_000, 1_000_000].map(|bytes| best(127, bytes)),
        [6, 4, 3, 2, 0, 0]
    );
    // The choice is close to the best by actual counts, for all sizes.
    for ranks in [3, 7, 16, 33, 64, 100, 127] {
        let members: Vec<_> = (0..=ceil_log(2, ranks))
            .map(|r| counts(&build(&format!("generalized:{r}"), ranks, Collective::Allreduce)))
            .collect();
        for bytes in (4..24).map(|bits| 1 << bits) {
            let seconds: Vec<f64> = (members.iter())
                .map(|&(steps, sent, reduced)| {
                    let per_block = beta * sent as f64 + gamma * reduced as f64;
                    alpha * steps as f64 + per_block * bytes as f64 / ranks as f64
                })
                .collect();
            let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let ratio = seconds[best(ranks, bytes)] / least;
            assert!(ratio < 1.1, "{bytes} bytes over {ranks} ranks take {ratio} of the best");
        }
    }
}

#[test]
fn bruck_over_any_number_of_ranks() {
    for ranks in 2..=243 {
        let steps = ceil_log(3, ranks);
        let whole = build("bruck-latency", ranks, Collective::Allreduce);
        assert_eq!(whole.steps.len(), steps, "{ranks} ranks");
        for (collective, phases) in
            [(Collective::ReduceScatter, 1), (Collective::Allgather, 1), (Collective::Allreduce, 2)]
        {
            let (all_steps, sent, _) = counts(&build("bruck", ranks, collective));
            assert_eq!(
                (all_steps, sent),
                (phases * steps, phases * (ranks - 1)),
                "{collective} over {ranks} ranks"
            );
        }
    }
}

/// Partners are at one and two times a power of three, downwards. Routes take the shorter way, and the busiest link
/// carries 2(K - 1) + 2/3 vectors with blocks and 5n/6 - 3/2 with whole vectors.
#[test]
fn bruck_over_powers_of_three() {
    for levels in 1..=4u32 {
        let ranks = 3usize.pow(levels);
        let distances = |name, collective| -> Vec<Vec<usize>> {
            let steps = build(name, ranks, collective).steps;
            steps
                .iter()
                .map(|step| step.sends.iter().map(|send| ranks - send.destination).collect())
                .collect()
        };
        let mut powers: Vec<Vec<usize>> =
            (0..levels).map(|k| vec![3usize.pow(k), 2 * 3usize.pow(k)]).collect();
        let mut near_first = distances("bruck", Collective::ReduceScatter);
        near_first.iter_mut().for_each(|step| step.sort_unstable());
        assert_eq!(near_first, powers);
        powers.reverse();
        assert_eq!(distances("bruck-latency", Collective::Allreduce), powers);

        let load = |name| {
            let schedule = build(name, ranks, Collective::Allreduce);
            ScheduleCost::from_schedule(&schedule, &Topology::ring(ranks).unwrap()).unwrap().link_load()
        };
        let (n, k) = (ranks as f64, f64::from(levels));
        assert!((load("bruck") - (2.0 * (k - 1.0) + 2.0 / 3.0)).abs() < 1e-9, "{ranks} ranks");
        assert!((load("bruck-latency") - (5.0 * n / 6.0 - 1.5)).abs() < 1e-9, "{ranks} ranks");
    }
}
