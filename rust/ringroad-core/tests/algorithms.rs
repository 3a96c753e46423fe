//! Every algorithm, for every collective it offers and 1 to 64 ranks: proven by the verifier, and as cheap as it says.
//! And the verifier itself: it must notice every way to spoil one of these schedules.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use ringroad_core::algorithms::{available, catalogue, find, Algorithm, Requirement, Unavailable};
use ringroad_core::schedule::VerifyError;
use ringroad_core::{Action, Collective, Schedule};

const RANKS: std::ops::RangeInclusive<usize> = 1..=64;

/// The collective with every root that is worth trying.
fn with_roots(collective: Collective, ranks: usize) -> Vec<Collective> {
    let roots = BTreeSet::from([0, ranks / 2, ranks - 1]);
    let wanted = if collective.root().is_some() { roots.len() } else { 1 };
    roots.into_iter().take(wanted).map(|root| collective.with_root(root)).collect()
}

fn check(algorithm: &Algorithm, ranks: usize, collective: Collective) {
    let what = format!("{} {collective} over {ranks}", algorithm.name);
    let requirement = algorithm.offer(collective).expect("it is one of its collectives").requirement;
    let schedule = match algorithm.build(ranks, collective) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert!(!requirement.admits(ranks), "{what}: {error}");
            assert!(matches!(error, Unavailable::Ranks { .. }), "{what}: {error}");
            assert!(algorithm.cost_line(ranks, collective).is_err(), "{what}");
            return;
        }
    };
    assert!(requirement.admits(ranks), "{what} breaks its own requirement");
    assert_eq!(
        (schedule.name.as_str(), schedule.collective, schedule.ranks),
        (algorithm.name, collective, ranks)
    );
    schedule.verify().unwrap_or_else(|error| panic!("{what}: {error}"));

    let cost = algorithm.cost_line(ranks, collective).unwrap();
    assert_eq!(schedule.steps.len(), cost.steps, "{what}: steps");
    assert!(
        (schedule.max_sent() - cost.sent).abs() < 1e-9,
        "{what}: {} sent, not {cost:?}",
        schedule.max_sent()
    );
    check_ports(algorithm, &schedule, &what);
    if collective.reduces() {
        assert!(!algorithm.consistent(ranks) || is_consistent(&schedule), "{what}: not consistent");
        assert!(algorithm.consistent(ranks) || !is_consistent(&schedule), "{what}: consistent after all");
    }

    assert_eq!(Schedule::from_json(&schedule.to_json()).unwrap(), schedule, "{what}: JSON");
    if collective != Collective::Alltoall {
        assert_eq!(schedule.reverse().unwrap().reverse().unwrap(), schedule, "{what}: reversed twice");
    }
}

/// No rank sends by more ports at once than declared, nor twice to one rank what could be one message.
fn check_ports(algorithm: &Algorithm, schedule: &Schedule, what: &str) {
    for (index, step) in schedule.steps.iter().enumerate() {
        let mut ports: HashMap<usize, BTreeSet<usize>> = HashMap::new();
        let mut messages = BTreeSet::new();
        for send in &step.sends {
            ports.entry(send.source).or_default().insert(send.port);
            let message = (send.source, send.destination, send.port, send.action == Action::Reduce);
            assert!(messages.insert(message), "{what}: step {index} has {message:?} twice");
        }
        let most = ports.values().map(BTreeSet::len).max().unwrap_or(0);
        assert!(most <= algorithm.ports, "{what}: step {index} uses {most} ports");
        assert!(step.sends.iter().all(|send| send.port < 2), "{what}: step {index} leaves the ring");
    }
}

/// Whether all ranks that end with a chunk end with the same expression, where a + b is b + a and nothing else is.
fn is_consistent(schedule: &Schedule) -> bool {
    let mut terms: HashMap<(usize, usize), usize> = HashMap::new();
    let mut held: Vec<Vec<usize>> = (0..schedule.ranks).map(|rank| vec![rank; schedule.chunks]).collect();
    for step in &schedule.steps {
        let mut after = held.clone();
        for send in &step.sends {
            for chunk in send.chunks.iter() {
                let (new, old) = (held[send.source][chunk], after[send.destination][chunk]);
                let next = schedule.ranks + terms.len();
                after[send.destination][chunk] = match send.action {
                    Action::Copy => new,
                    Action::Reduce => *terms.entry((new.min(old), new.max(old))).or_insert(next),
                };
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

fn check_all(name: &str) {
    let algorithm = find(name).unwrap();
    for collective in algorithm.collectives() {
        for ranks in RANKS {
            with_roots(collective, ranks).into_iter().for_each(|c| check(algorithm, ranks, c));
        }
    }
}

include!("common/every_algorithm.rs");
every_algorithm!(check_all);

#[test]
fn there_is_an_algorithm_for_everything() {
    for ranks in RANKS {
        for collective in Collective::ALL {
            assert!(available(ranks, collective).next().is_some(), "{collective} over {ranks}");
        }
    }
}

#[test]
fn larger_groups() {
    let cases = [("swing", 250), ("swing", 256), ("swing", 257), ("trivance", 242), ("trivance", 243)];
    for (name, ranks) in cases.into_iter().chain([("halving-doubling", 200), ("trivance-latency", 243)]) {
        check(find(name).unwrap(), ranks, Collective::Allreduce);
    }
}

#[test]
fn declared_ports_are_used() {
    for algorithm in catalogue() {
        for collective in algorithm.collectives() {
            let schedules = [8, 9].into_iter().filter_map(|ranks| algorithm.build(ranks, collective).ok());
            for schedule in schedules {
                let busiest = schedule.steps.iter().flat_map(|step| {
                    let ports = |rank| step.sends.iter().filter(move |s| s.source == rank).map(|s| s.port);
                    (0..schedule.ranks).map(move |rank| ports(rank).collect::<BTreeSet<_>>().len())
                });
                assert_eq!(busiest.max(), Some(algorithm.ports), "{} {collective}", algorithm.name);
            }
        }
    }
}

/// In trivance the two ports carry the same in every step, but for the one block at the opposite offset.
#[test]
fn trivance_balances_the_ports() {
    for ranks in RANKS {
        let schedule = find("trivance").unwrap().build(ranks, Collective::ReduceScatter).unwrap();
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

/// For powers, the chunks of an allreduce are numbered such that every message is one range (per half).
#[test]
fn messages_of_powers_are_contiguous() {
    for (name, ranks) in [("halving-doubling", 32), ("halving-doubling", 40), ("swing", 32), ("trivance", 27)]
    {
        let schedule = find(name).unwrap().build(ranks, Collective::Allreduce).unwrap();
        assert!(schedule.sends().all(|send| send.chunks.runs().len() == 1), "{name} over {ranks}");
    }
}

/// Figure 4 of the Trivance paper, left: distances 1 and 2.
#[test]
fn trivance_over_seven_ranks_is_figure_four() {
    let schedule = find("trivance").unwrap().build(7, Collective::ReduceScatter).unwrap();
    let of_rank_0 = |step: usize| {
        let sends = schedule.steps[step].sends.iter().filter(|s| s.source == 0);
        sends.map(|s| (s.destination, s.chunks.len())).collect::<BTreeSet<_>>()
    };
    assert_eq!(of_rank_0(0), BTreeSet::from([(1, 2), (6, 2)]));
    assert_eq!(of_rank_0(1), BTreeSet::from([(2, 1), (5, 1)]));
}

#[test]
fn schedules_as_text() {
    for algorithm in catalogue() {
        let ranks =
            [7, 8, 9].into_iter().filter(|n| algorithm.offers.iter().all(|o| o.requirement.admits(*n)));
        let ranks: BTreeSet<usize> = ranks.take(1).chain((algorithm.name == "swing").then_some(8)).collect();
        for ranks in ranks {
            let root = |collective: Collective| collective.with_root(ranks / 2);
            let schedules =
                algorithm.collectives().map(|c| algorithm.build(ranks, root(c)).unwrap().to_string());
            let text = schedules.collect::<Vec<_>>().join("\n");
            insta::assert_snapshot!(format!("{}_{ranks}", algorithm.name), text);
        }
    }
}

#[test]
fn names() {
    assert_eq!(find("Swing_Latency").unwrap().name, "swing-latency");
    assert_eq!(
        find("trivanse").unwrap_err().to_string(),
        "unknown algorithm \"trivanse\"; did you mean trivance? There are ring, bidirectional-ring, \
         recursive-doubling, halving-doubling, swing, swing-latency, trivance, trivance-latency, binomial, \
         scatter-allgather and pairwise"
    );
}

#[test]
fn unavailable_says_why_and_what_instead() {
    let error =
        |name: &str, ranks, collective| find(name).unwrap().build(ranks, collective).unwrap_err().to_string();
    assert_eq!(
        error("swing-latency", 6, Collective::Allreduce),
        "swing-latency needs a power of two of ranks, not 6; for allreduce over 6 ranks use ring, \
         bidirectional-ring, recursive-doubling, halving-doubling, swing or trivance"
    );
    assert_eq!(
        error("ring", 6, Collective::Broadcast { root: 5 }),
        "ring performs no broadcast; for broadcast over 6 ranks use binomial or scatter-allgather"
    );
    assert_eq!(
        error("binomial", 6, Collective::Broadcast { root: 6 }),
        "broadcast needs a root below its 6 ranks, not 6"
    );
    assert_eq!(error("ring", 0, Collective::Allreduce), "allreduce needs at least one rank");
}

#[test]
fn requirements() {
    let admitted = |r: Requirement| (0..=100).filter(|n| r.admits(*n)).collect::<Vec<usize>>();
    assert_eq!(admitted(Requirement::PowerOfTwo), [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(admitted(Requirement::PowerOfThree), [1, 3, 9, 27, 81]);
    assert_eq!(admitted(Requirement::Any).len(), 100);
}

/// A way to spoil a schedule in which no message is superfluous.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    /// A send is left out.
    Drop,
    /// A send is made twice in its step.
    Double,
    /// A send goes to somebody else.
    Redirect,
    /// A send reduces instead of copying, or the other way round.
    SwapAction,
}

/// What algorithms offer, less the broadcast whose allgather tells ranks what they know from the scatter.
fn tight_offers() -> Vec<(&'static str, Collective)> {
    let offers = catalogue().iter().flat_map(|a| a.collectives().map(|c| (a.name, c)));
    offers.filter(|offer| *offer != ("scatter-allgather", Collective::Broadcast { root: 0 })).collect()
}

/// Applies the mutation to the `pick`-th send that it must spoil, if there is one; returns the step and the chunks.
fn mutate(schedule: &mut Schedule, mutation: Mutation, pick: usize) -> Option<(usize, BTreeSet<usize>)> {
    let reduces = schedule.collective.reduces();
    let must_fail = |action: Action| match mutation {
        Mutation::Drop | Mutation::Double => true,
        // A partial result may go to another later giver instead, which makes another tree.
        Mutation::Redirect => schedule.ranks > 2 && action == Action::Copy,
        // Where nothing is reduced the receiver has nothing yet, and adding to nothing is copying.
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

/// The step and the chunk that the error names, if it does.
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
    let mut spoilt = schedule;
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
        for schedule in (2..=5).filter_map(|ranks| find(algorithm).unwrap().build(ranks, collective).ok()) {
            for mutation in MUTATIONS {
                (0..schedule.sends().count())
                    .for_each(|pick| check_mutation(schedule.clone(), mutation, pick));
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

    /// Some mutations of some sends of larger ones.
    #[test]
    fn verifier_notices_mutations(
        (algorithm, collective) in prop::sample::select(tight_offers()),
        ranks in 3usize..=32,
        root in 0usize..32,
        mutation in prop::sample::select(&MUTATIONS[..]),
        pick in any::<usize>(),
    ) {
        let power = |base: usize| base.pow(ranks.ilog(base));
        let ranks = match find(algorithm).unwrap().offer(collective).unwrap().requirement {
            Requirement::Any => ranks,
            Requirement::PowerOfTwo => power(2),
            Requirement::PowerOfThree => power(3),
        };
        let schedule = find(algorithm).unwrap().build(ranks, collective.with_root(root % ranks)).unwrap();
        check_mutation(schedule, mutation, pick);
    }
}
