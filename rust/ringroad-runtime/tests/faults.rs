//! What goes wrong between ranks, and what every rank is told: nobody hangs, nobody is left in the dark.

mod common;

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use common::mortal::Mortal;
use common::Means::{self, Mailboxes, Shared};
use common::{boxed, config, each, group, group_with, patient, watch, Case, MEANS, SLOW};
use ringroad_core::{Collective, Rank, Topology};
use ringroad_runtime::communicator::TAGS;
use ringroad_runtime::transport::fault::{Fault, FaultInjector, Pick, What};
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::SharedMemory;
use ringroad_runtime::transport::Transport;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Options, ReduceOp, Request, Result};

/// What a call that is to time out is given.
const SHORT: Duration = Duration::from_millis(600);
/// How much later than promised an error may come. The contract is two seconds; machines are busy.
const SLACK: Duration = Duration::from_secs(5);

fn allreduce(elements: usize) -> Request {
    let call = Operation::Collective(Collective::Allreduce);
    Request::new(call, DType::F32, elements, Memory::zeroed(4 * elements), Memory::zeroed(4 * elements))
}

fn with(request: Request, algorithm: &str) -> Request {
    Request { algorithm: Some(algorithm.to_owned()), ..request }
}

/// A collective on as much memory as rank `rank` of `ranks` needs.
fn collective(collective: Collective, ranks: usize, rank: Rank, dtype: DType, elements: usize) -> Request {
    let case = Case::new(ranks, collective, ReduceOp::Sum, dtype, elements);
    case.request(rank, &case.prepare().inputs[rank])
}

fn short() -> Options {
    Options { timeout: Some(SHORT), ..Options::default() }
}

/// Transports of which each has faults of its own.
fn with_faults(ranks: usize, means: Means, faults: impl Fn(Rank) -> Vec<Fault>) -> Vec<Box<dyn Transport>> {
    fn wrap<T: Transport + 'static>(
        transports: Vec<T>,
        faults: impl Fn(Rank) -> Vec<Fault>,
    ) -> Vec<Box<dyn Transport>> {
        let ranks = transports.into_iter().enumerate();
        boxed(ranks.map(|(rank, transport)| FaultInjector::new(transport, faults(rank))))
    }
    match means {
        Mailboxes(limit) => wrap(InProcess::group_with(ranks, limit), faults),
        Shared => wrap(SharedMemory::group(ranks).unwrap(), faults),
    }
}

/// A group whose rank `rank` has `faults`.
fn faulty(ranks: usize, means: Means, rank: Rank, faults: &[Fault], options: &Options) -> Vec<Communicator> {
    let faults = |of| if of == rank { faults.to_vec() } else { Vec::new() };
    Communicator::over(with_faults(ranks, means, faults), &config(), options).unwrap()
}

/// `rank 2 (host, pid 17)`, as errors have it.
fn who(communicator: &Communicator, rank: Rank) -> String {
    let card = &communicator.cards()[rank];
    format!("rank {rank} ({}, pid {})", card.host, card.pid)
}

/// Whether `story` names some rank completely.
fn names_a_rank(communicator: &Communicator, story: &str) -> bool {
    (0..communicator.size()).any(|rank| story.contains(&who(communicator, rank)))
}

/// Every rank of a failed communicator refuses to go on, and says why.
fn check_useless(communicator: &Communicator, cause: &Error) {
    for request in [Request::barrier(), allreduce(3)] {
        match communicator.start(request).err() {
            Some(Error::Aborted(story)) => {
                assert!(story.contains(&cause.to_string()), "{story}\ndoes not quote\n{cause}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A communicator can be made after others have failed, and works.
fn check_anew(ranks: usize) {
    each(&group(ranks, 0), |communicator| communicator.run(allreduce(10)).map(drop).unwrap());
}

// --------------------------------------------------------------------------------------------------- timeouts

fn check_timeout(communicator: &Communicator, error: &Error, call: &str) {
    let Error::Timeout(story) = error else { panic!("rank {}: {error:?}", communicator.rank()) };
    assert!(names_a_rank(communicator, story), "{story}");
    for part in [call, "call number 2", "\"world\"", "at step ", "timed out after 0.600 s"] {
        assert!(story.contains(part), "{part:?} is not in {story:?}");
    }
    assert!(story.contains("waiting for rank ") || story.contains("sending to rank "), "{story}");
}

/// A message is lost: whoever notices tells the others.
#[test]
fn a_lost_message_is_a_timeout_on_every_rank() {
    let _watchdog = watch();
    let ranks = 4;
    for means in MEANS {
        for (lost, algorithm) in [
            (Fault::send(What::Drop), "ring"),
            (Fault::send(What::Drop), "recursive-doubling"),
            (Fault::receive(What::Drop), "halving-doubling"),
        ] {
            // The ring of the first call takes six sends and six receives of each rank.
            let after = Pick::From(6);
            let group = faulty(ranks, means, 1, &[lost.pick(after)], &short());
            let errors = each(&group, |communicator| {
                let patient = Some(Duration::from_secs(50));
                communicator.run(Request { timeout: patient, ..with(allreduce(8), "ring") })?;
                let start = Instant::now();
                let result = communicator.run(with(allreduce(8), algorithm));
                // Rank 1 may have all it needs.
                let result = result.and_then(|_| communicator.barrier(patient));
                assert!(start.elapsed() < SHORT + SLACK, "{:?}", start.elapsed());
                result
            });
            for (communicator, result) in group.iter().zip(errors) {
                let error = result.expect_err(algorithm);
                check_timeout(communicator, &error, &format!("allreduce of 8 float32, sum, by {algorithm}"));
                check_useless(communicator, &error);
            }
        }
    }
    check_anew(ranks);
}

/// Rank 2 of four does not make the second call. Returns what the others are told.
fn with_an_absent_rank(means: Means, algorithm: Option<&str>) -> Vec<String> {
    let group = group_with(4, means, &config(), &short());
    let results = each(&group, |communicator| {
        communicator.run(Request { timeout: Some(Duration::from_secs(50)), ..allreduce(8) })?;
        if communicator.rank() == 2 {
            return Ok(());
        }
        let start = Instant::now();
        let request = Request { algorithm: algorithm.map(str::to_owned), ..allreduce(8) };
        let result = communicator.run(request).map(drop);
        assert!(start.elapsed() < SHORT + SLACK, "{:?}", start.elapsed());
        result
    });
    // It hears of it when it comes.
    let request = Request { algorithm: algorithm.map(str::to_owned), ..allreduce(8) };
    let late = group[2].run(request).map(drop).unwrap_err();
    let quoted = |text: &String| text.contains("timed out after") || text.contains("is gone");
    assert!(
        matches!(&late, Error::Timeout(_) | Error::Peer { .. })
            || matches!(&late, Error::Aborted(s) if quoted(s)),
        "{late:?}"
    );
    let mut told = Vec::new();
    for rank in [0, 1, 3] {
        let error = results[rank].clone().unwrap_err();
        check_timeout(&group[rank], &error, "allreduce of 8 float32");
        told.push(error.to_string());
    }
    told
}

#[test]
fn a_rank_that_never_calls_is_a_timeout_on_every_rank() {
    let _watchdog = watch();
    for means in MEANS {
        with_an_absent_rank(means, None);
        with_an_absent_rank(means, Some("ring"));
    }
}

/// Not those that wait themselves, but the one that they all wait for in the end.
#[test]
fn a_rank_that_never_calls_is_named() {
    let _watchdog = watch();
    for means in MEANS {
        for algorithm in [None, Some("ring")] {
            for story in with_an_absent_rank(means, algorithm) {
                assert!(story.contains("rank 2 ("), "{algorithm:?}: {story}");
            }
        }
    }
}

#[test]
fn barriers_and_messages_time_out() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group_with(3, means, &config(), &short());
        let error = group[0].barrier(None).unwrap_err();
        assert!(matches!(&error, Error::Timeout(story) if story.contains("barrier")), "{error:?}");
        let group = group_with(3, means, &config(), &short());
        let receive = Operation::Receive { peer: 2, tag: 7 };
        let request = Request::new(receive, DType::U8, 5, Memory::nothing(), Memory::zeroed(5));
        let error = group[0].run(request).map(drop).unwrap_err();
        let Error::Timeout(story) = &error else { panic!("{error:?}") };
        for part in ["recv of 5 uint8 from rank 2 (tag 7)", &format!("waiting for {}", who(&group[0], 2))] {
            assert!(story.contains(part), "{part:?} is not in {story:?}");
        }
        let group = group_with(3, means, &config(), &short());
        if means == Shared {
            continue; // What is sent is copied, and the sender does not wait.
        }
        let send = Operation::Send { peer: 1, tag: 7 };
        let request = Request::new(send, DType::U8, 5, Memory::zeroed(5), Memory::nothing());
        let error = group[0].run(request).map(drop).unwrap_err();
        assert!(matches!(&error, Error::Timeout(story) if story.contains("sending to rank 1")), "{error:?}");
    }
}

/// Who asks again and again, and never waits, is told as well.
#[test]
fn polling_ends_at_the_deadline() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group_with(2, means, &config(), &short());
        let work = group[0].start(allreduce(4)).unwrap();
        let start = Instant::now();
        while !work.is_completed() {
            assert!(start.elapsed() < SHORT + SLACK, "still in flight");
            thread::yield_now();
        }
        assert!(matches!(work.result(), Some(Err(Error::Timeout(_)))), "{:?}", work.result());
    }
}

/// Calls that nobody waits for end at their deadline too.
#[test]
fn the_background_ends_calls_at_the_deadline() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group_with(2, means, &config(), &short());
        let (sender, receiver) = mpsc::channel();
        let works: Vec<_> = (0..3).map(|_| group[0].start(allreduce(4)).unwrap()).collect();
        for work in &works {
            let sender = sender.clone();
            work.on_complete(move |result| sender.send(result).unwrap());
        }
        drop(sender);
        let results: Vec<Result<()>> = receiver.iter().collect();
        assert_eq!(results.len(), 3);
        assert!(results.iter().all(|r| matches!(r, Err(Error::Timeout(_)))), "{results:?}");
    }
}

/// A network that is only slow changes nothing.
#[test]
fn delays_change_nothing() {
    let _watchdog = watch();
    let ranks = 4;
    for means in MEANS {
        let faults = |rank| {
            let one_in = |number| Pick::OneIn { number, seed: rank as u64 + number };
            vec![
                Fault::send(What::Delay(5)).pick(one_in(3)),
                Fault::receive(What::Delay(3)).pick(one_in(4)),
                Fault::send(What::Delay(40)).pick(one_in(10)),
            ]
        };
        let transports = with_faults(ranks, means, faults);
        let group = Communicator::over(transports, &config(), &patient()).unwrap();
        each(&group, |communicator| {
            for number in 0..40 {
                let collective = Collective::ALL[number % 8].with_root(number % ranks);
                let case = Case::new(ranks, collective, ReduceOp::Sum, DType::F32, number * 3);
                let case = Case { in_place: number.is_multiple_of(3), seed: number as u64, ..case };
                case.check(communicator, &case.prepare()).unwrap();
            }
        });
    }
}

// ------------------------------------------------------------------------------------------------------ deaths

/// A group whose rank `dying` dies after so many sends and receives.
fn mortals(ranks: usize, means: Means, dying: Rank, posts: u64) -> Vec<Communicator> {
    fn wrap<T: Transport + 'static>(
        transports: Vec<T>,
        posts: impl Fn(Rank) -> u64,
    ) -> Vec<Box<dyn Transport>> {
        let ranks = transports.into_iter().enumerate();
        boxed(ranks.map(|(rank, transport)| Mortal::new(transport, posts(rank))))
    }
    let posts = |rank| if rank == dying { posts } else { u64::MAX };
    let transports = match means {
        Mailboxes(limit) => wrap(InProcess::group_with(ranks, limit), posts),
        Shared => wrap(SharedMemory::group(ranks).unwrap(), posts),
    };
    Communicator::over(transports, &config(), &patient()).unwrap()
}

/// Whenever a rank dies, all others hear that it is it, and long before the timeout.
#[test]
fn the_dead_are_named_on_every_rank() {
    let _watchdog = watch();
    let dying = 2;
    for (ranks, algorithm) in [(4, "ring"), (5, "ring"), (4, "recursive-doubling"), (4, "halving-doubling")] {
        for means in MEANS {
            for posts in [0, 1, 3] {
                let group = mortals(ranks, means, dying, posts);
                let results = each(&group, |communicator| {
                    let start = Instant::now();
                    let work = communicator.start(with(allreduce(20), algorithm))?;
                    if communicator.rank() == dying {
                        // Its peers see its end once it has noticed it itself.
                        while communicator.transport() != "dead" {
                            work.wait_until(Instant::now());
                        }
                        return Ok(());
                    }
                    // Who has got all it needs of the dead in time hears of its end in the next call.
                    let result = work.wait().and_then(|()| communicator.barrier(None));
                    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
                    result
                });
                for (communicator, result) in group.iter().zip(results) {
                    if communicator.rank() == dying {
                        continue;
                    }
                    let error = result.unwrap_err();
                    let Error::Peer { rank, message } = &error else {
                        panic!("rank {} ({algorithm}, {posts} posts): {error:?}", communicator.rank());
                    };
                    assert_eq!(*rank, dying, "{message}");
                    assert!(message.contains(&who(communicator, dying)), "{message}");
                    assert!(message.contains("call number "), "{message}");
                    check_useless(communicator, &error);
                }
            }
        }
    }
    check_anew(3);
}

/// A rank that leaves although the others go on is gone as well.
#[test]
fn who_closes_too_early_is_named() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        let results = each(&group, |communicator| {
            communicator.barrier(None)?;
            if communicator.rank() == 1 {
                communicator.close();
                return Ok(());
            }
            communicator.barrier(None)
        });
        assert_eq!(results[1], Ok(()));
        for rank in [0, 2] {
            assert!(matches!(&results[rank], Err(Error::Peer { rank: 1, .. })), "{:?}", results[rank]);
        }
    }
}

/// The transport reports a peer's failure on one rank only: it tells the others.
#[test]
fn a_failure_that_one_rank_sees_reaches_all() {
    let _watchdog = watch();
    for means in SLOW {
        let broken = Fault::send(What::FailPeer).with_peer(2).pick(Pick::From(1));
        let group = faulty(4, means, 1, &[broken], &patient());
        let start = Instant::now();
        let results = each(&group, |communicator| {
            for _ in 0..3 {
                communicator.run(with(allreduce(8), "ring"))?;
            }
            Ok(())
        });
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        for rank in [0, 1, 3] {
            assert!(
                matches!(&results[rank], Err(Error::Peer { rank: 2, .. })),
                "rank {rank}: {:?}",
                results[rank]
            );
        }
        assert!(matches!(&results[2], Err(Error::Peer { .. })), "{:?}", results[2]);
    }
}

#[test]
fn what_cannot_be_posted_fails_on_every_rank() {
    let _watchdog = watch();
    for means in SLOW {
        for fault in [Fault::send(What::FailPost), Fault::receive(What::FailPost)] {
            let group = faulty(3, means, 0, &[fault.pick(Pick::Nth(0))], &patient());
            let start = Instant::now();
            let results = each(&group, |communicator| {
                communicator.run(allreduce(8))?;
                communicator.barrier(None)
            });
            assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
            for result in results {
                assert!(matches!(&result, Err(Error::Peer { .. })), "{fault:?}: {result:?}");
            }
        }
    }
}

// -------------------------------------------------------------------------------------------------- mismatches

/// Makes different calls on three ranks, then goes on until every rank has noticed. All must be shown what all did.
fn check_mismatch(what: &str, request: impl Fn(Rank) -> Vec<Request> + Sync, shown: [&str; 3]) {
    check_mismatch_with(&MEANS, what, request, shown);
}

fn check_mismatch_with(
    all: &[Means],
    what: &str,
    request: impl Fn(Rank) -> Vec<Request> + Sync,
    shown: [&str; 3],
) {
    for &means in all {
        let options = Options { timeout: Some(Duration::from_secs(20)), ..Options::default() };
        let group = group_with(3, means, &config(), &options);
        let start = Instant::now();
        let results = each(&group, |communicator| {
            for request in request(communicator.rank()) {
                communicator.run(request)?;
            }
            // A rank that had only to send has not heard yet.
            communicator.barrier(None)?;
            communicator.barrier(None)
        });
        assert!(start.elapsed() < SLACK, "{what}: {:?}", start.elapsed());
        for (communicator, result) in group.iter().zip(results) {
            let error = result.expect_err(what);
            // A rank whose own call was well gets the news with the next one, as the reason why there is none.
            let (Error::Mismatch(story) | Error::Aborted(story)) = &error else {
                panic!("{what}, rank {}, {means:?}: {error:?}", communicator.rank());
            };
            let header = "ranks made different calls as number ";
            assert!(story.contains(header), "{what}, rank {}: {error:?}", communicator.rank());
            for (rank, call) in shown.iter().enumerate() {
                let line = format!("{}: {call}", who(communicator, rank));
                assert!(story.contains(&line), "{what}: {line:?} is not in {story}");
            }
            check_useless(communicator, &Error::Mismatch(story[story.find(header).unwrap()..].to_owned()));
        }
    }
}

#[test]
fn different_counts() {
    let _watchdog = watch();
    let request = |rank| vec![with(allreduce(if rank == 1 { 11 } else { 10 }), "ring")];
    let (ten, eleven) = ("allreduce of 10 float32, sum, by ring", "allreduce of 11 float32, sum, by ring");
    check_mismatch("counts", request, [ten, eleven, ten]);
    // Small counts choose their algorithm by themselves.
    let request = |rank| vec![allreduce(if rank == 2 { 1 << 20 } else { 0 })];
    let (none, many) = ("allreduce of 0 float32", "allreduce of 1048576 float32");
    check_mismatch("sizes", request, [none, none, many]);
}

#[test]
fn different_counts_of_rooted_collectives() {
    let _watchdog = watch();
    for rooted in Collective::ALL.into_iter().filter(|c| c.root().is_some()) {
        let request = |rank| {
            let elements = if rank == 1 { 11 } else { 10 };
            vec![collective(rooted.with_root(0), 3, rank, DType::F32, elements)]
        };
        let shown = [10, 11, 10].map(|count| format!("{} of {count} float32", rooted.with_root(0)));
        check_mismatch("rooted counts", request, [&shown[0], &shown[1], &shown[2]]);
    }
}

#[test]
fn different_types() {
    let _watchdog = watch();
    let request = |rank| {
        // As many bytes: only the digest tells.
        let dtype = if rank == 0 { DType::I32 } else { DType::F32 };
        vec![collective(Collective::Allgather, 3, rank, dtype, 10)]
    };
    let (ints, floats) = ("allgather of 10 int32 per rank", "allgather of 10 float32 per rank");
    check_mismatch("types", request, [ints, floats, floats]);
}

#[test]
fn different_reductions() {
    let _watchdog = watch();
    let request =
        |rank| vec![Request { op: if rank == 2 { ReduceOp::Max } else { ReduceOp::Sum }, ..allreduce(10) }];
    let (sum, max) = ("allreduce of 10 float32, sum", "allreduce of 10 float32, max");
    check_mismatch("reductions", request, [sum, sum, max]);
}

fn rooted(from_root: bool) -> impl Iterator<Item = Collective> {
    let sends = |c: &Collective| matches!(c, Collective::Broadcast { .. } | Collective::Scatter { .. });
    Collective::ALL.into_iter().filter(move |c| c.root().is_some() && sends(c) == from_root)
}

/// Rank 0 believes that it is the root, the others that rank 1 is.
fn one_of_two_roots(kind: Collective, rank: Rank) -> Request {
    collective(kind.with_root(if rank == 0 { 0 } else { 1 }), 3, rank, DType::F32, 10)
}

fn check_different_roots(all: &[Means], kinds: impl Iterator<Item = Collective>) {
    for kind in kinds {
        let shown = [0, 1, 1].map(|root| format!("{} of 10 float32", kind.with_root(root)));
        let shown = [0, 1, 2].map(|rank| shown[rank].as_str());
        check_mismatch_with(all, "roots", |rank| vec![one_of_two_roots(kind, rank)], shown);
    }
}

#[test]
fn different_roots() {
    let _watchdog = watch();
    check_different_roots(&[Mailboxes(0)], rooted(true));
}

/// Two roots that wait for each other's data get no message that could tell them apart.
#[test]
fn different_roots_that_wait_are_found_at_the_deadline() {
    let _watchdog = watch();
    for means in SLOW {
        for kind in rooted(false) {
            let group = group_with(3, means, &config(), &short());
            let results = each(&group, |communicator| {
                communicator.run(one_of_two_roots(kind, communicator.rank()))?;
                communicator.barrier(None)
            });
            for result in results {
                assert!(matches!(&result, Err(Error::Mismatch(_))), "{kind}: {result:?}");
            }
        }
    }
}

#[test]
fn different_roots_of_eager_messages() {
    let _watchdog = watch();
    check_different_roots(&[Mailboxes(usize::MAX), Shared], rooted(true));
}

#[test]
fn different_algorithms() {
    let _watchdog = watch();
    let names = ["ring", "recursive-doubling", "ring"];
    let request = |rank: Rank| vec![with(allreduce(10), names[rank])];
    let shown = names.map(|name| format!("allreduce of 10 float32, sum, by {name}"));
    check_mismatch("algorithms", request, [&shown[0], &shown[1], &shown[2]]);
}

#[test]
fn different_collectives() {
    let _watchdog = watch();
    let request = |rank| {
        let kinds = [Collective::Allgather, Collective::Allgather, Collective::Alltoall];
        vec![collective(kinds[rank], 3, rank, DType::F32, 10)]
    };
    let (gather, exchange) = ("allgather of 10 float32 per rank", "alltoall of 10 float32 per rank");
    check_mismatch("collectives", request, [gather, gather, exchange]);
    let request = |rank| vec![if rank == 1 { Request::barrier() } else { allreduce(10) }];
    let sum = "allreduce of 10 float32, sum";
    check_mismatch("a barrier", request, [sum, "barrier", sum]);
}

#[test]
fn different_orders() {
    let _watchdog = watch();
    let request = |rank| {
        let gather = collective(Collective::Allgather, 3, rank, DType::F32, 10);
        if rank == 0 {
            vec![gather, allreduce(10)]
        } else {
            vec![allreduce(10), gather]
        }
    };
    let (gather, sum) = ("allgather of 10 float32 per rank", "allreduce of 10 float32, sum");
    check_mismatch("orders", request, [gather, sum, sum]);
}

/// A rank that skips a call is found out by the next one.
#[test]
fn a_skipped_call() {
    let _watchdog = watch();
    let request = |rank| {
        let gather = collective(Collective::Allgather, 3, rank, DType::F32, 10);
        if rank == 2 {
            vec![gather]
        } else {
            vec![allreduce(10), gather]
        }
    };
    let (gather, sum) = ("allgather of 10 float32 per rank", "allreduce of 10 float32, sum");
    check_mismatch("a skipped call", request, [sum, sum, gather]);
}

#[test]
fn a_corrupt_message_is_a_mismatch() {
    let _watchdog = watch();
    for means in MEANS {
        for what in [What::CorruptCheck, What::Truncate(3)] {
            let group = faulty(3, means, 1, &[Fault::send(what).pick(Pick::Nth(1))], &patient());
            let results = each(&group, |communicator| {
                communicator.run(with(allreduce(12), "ring"))?;
                communicator.barrier(None)
            });
            for result in results {
                assert!(matches!(&result, Err(Error::Mismatch(_))), "{what:?}: {result:?}");
            }
        }
    }
}

/// Messages of the wrong size or type end the communicator on all ranks that are in a call.
#[test]
fn messages_that_do_not_fit() {
    let _watchdog = watch();
    for means in MEANS {
        for (dtype, elements) in [(DType::F32, 5), (DType::I32, 4)] {
            let group = group(3, means);
            let results = each(&group, |communicator| {
                match communicator.rank() {
                    0 => {
                        let send = Operation::Send { peer: 1, tag: 3 };
                        let memory = Memory::zeroed(elements * 4);
                        communicator.run(Request::new(send, dtype, elements, memory, Memory::nothing()))?;
                    }
                    1 => {
                        let receive = Operation::Receive { peer: 0, tag: 3 };
                        let request =
                            Request::new(receive, DType::F32, 4, Memory::nothing(), Memory::zeroed(16));
                        communicator.run(request)?;
                    }
                    _ => {}
                }
                communicator.barrier(None)
            });
            assert!(matches!(&results[1], Err(Error::Mismatch(_))), "{:?}", results[1]);
            for rank in [0, 2] {
                assert!(
                    matches!(&results[rank], Err(Error::Aborted(_) | Error::Mismatch(_))),
                    "{:?}",
                    results[rank]
                );
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------ giving it up

#[test]
fn abort_reaches_every_rank() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(4, means);
        let all_in = std::sync::Barrier::new(4);
        let results = each(&group, |communicator| {
            if communicator.rank() == 3 {
                all_in.wait();
                communicator.abort("the oven is on fire");
                return communicator.barrier(None);
            }
            let work = communicator.start(allreduce(100))?;
            all_in.wait();
            work.wait()
        });
        for (rank, result) in results.iter().enumerate() {
            let Err(Error::Aborted(story)) = result else { panic!("rank {rank}: {result:?}") };
            for part in [&who(&group[0], 3), "the oven is on fire", "\"world\""] {
                assert!(story.contains(part), "{part:?} is not in {story:?}");
            }
            check_useless(&group[rank], &Error::Aborted("the oven is on fire".to_owned()));
        }
        check_anew(4);
    }
}

/// Aborting between calls: the others hear of it at their next one.
#[test]
fn abort_between_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        each(&group, |communicator| communicator.barrier(None).unwrap());
        group[1].abort("");
        for rank in [0, 2] {
            let error = group[rank].barrier(None).unwrap_err();
            assert!(
                matches!(&error, Error::Aborted(story) if story.contains("rank 1 ")),
                "rank {rank}: {error:?}"
            );
        }
        // Twice is as good as once.
        group[1].abort("again");
        group[1].close();
    }
}

#[test]
fn a_closed_communicator_refuses_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        each(&group, |communicator| {
            communicator.run(allreduce(10)).map(drop).unwrap();
            communicator.barrier(None).unwrap();
        });
        each(&group, |communicator| {
            communicator.close();
            communicator.close();
            let error = communicator.start(allreduce(10)).err().unwrap();
            assert!(matches!(&error, Error::Aborted(story) if story.contains("closed")), "{error:?}");
            assert!(communicator.barrier(None).is_err());
        });
        check_anew(3);
    }
}

/// Closing is no barrier: who is done first may leave at once.
#[test]
fn leaving_early_disturbs_nobody() {
    let _watchdog = watch();
    for means in MEANS {
        for round in 0..30 {
            let group = group(4, means);
            let results: Vec<Result<()>> = thread::scope(|scope| {
                let run = |communicator: Communicator| {
                    let root = round % 4;
                    let rank = communicator.rank();
                    communicator.run(collective(Collective::Reduce { root }, 4, rank, DType::F32, 100))?;
                    communicator.run(collective(Collective::Broadcast { root }, 4, rank, DType::F32, 100))?;
                    communicator.barrier(None)
                };
                let threads: Vec<_> = group.into_iter().map(|c| scope.spawn(move || run(c))).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(())], "round {round}");
        }
    }
}

#[test]
fn closing_during_a_call_ends_it_everywhere() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        let works: Vec<_> = (0..2).map(|rank| group[rank].start(allreduce(100)).unwrap()).collect();
        group[0].closer().close();
        for work in works {
            assert!(matches!(work.wait(), Err(Error::Aborted(_))));
        }
        assert!(group[2].barrier(None).is_err());
    }
}

#[test]
fn dropping_everything_with_calls_in_flight() {
    let _watchdog = watch();
    for means in SLOW {
        for background in [false, true] {
            for keep_work in [false, true] {
                let mut group = group_with(3, means, &config(), &short());
                let works: Vec<_> = (0..5).map(|_| group[0].start(allreduce(100)).unwrap()).collect();
                let (sender, receiver) = mpsc::channel();
                if background {
                    for work in &works {
                        let sender = sender.clone();
                        work.on_complete(move |result| sender.send(result).unwrap());
                    }
                }
                drop(sender);
                let kept = keep_work.then(|| works.into_iter().next().unwrap());
                drop(group.remove(0));
                drop(kept);
                // Those that called back did so with an error; the others are told.
                assert!(receiver.iter().all(|result| result.is_err()));
                assert!(group[0].barrier(None).is_err());
            }
        }
    }
}

/// A call in the background goes on when nobody holds its communicator or its work any more.
#[test]
fn calls_in_the_background_outlive_all_handles() {
    let _watchdog = watch();
    for means in SLOW {
        for _ in 0..100 {
            let mut group = group(2, means);
            let (sender, receiver) = mpsc::channel();
            let work = group[0].start(allreduce(100)).unwrap();
            work.on_complete(move |result| sender.send(result).unwrap());
            drop(work);
            drop(group.remove(0));
            assert_eq!(group[0].run(allreduce(100)).map(drop), Ok(()));
            assert_eq!(receiver.recv(), Ok(Ok(())));
        }
    }
}

// ------------------------------------------------------------------------------------------------------ memory

/// Bytes whose end is observed.
struct Owned {
    bytes: Box<[u8]>,
    freed: Arc<AtomicBool>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

fn observed(bytes: usize) -> (Memory, Arc<AtomicBool>) {
    let freed = Arc::new(AtomicBool::new(false));
    let mut owned = Owned { bytes: vec![0; bytes].into(), freed: freed.clone() };
    let start = owned.bytes.as_mut_ptr();
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(owned);
    // SAFETY: the box lives, and nobody else uses its bytes, until its owner is dropped.
    #[allow(unsafe_code)]
    let memory = unsafe { Memory::foreign(start, bytes, owner) };
    (memory, freed)
}

/// Forgetting a call frees nothing that is in flight; its end does.
#[test]
fn memory_in_flight_stays_alive() {
    let _watchdog = watch();
    for means in SLOW {
        for (faults, elements) in [(vec![], 1000), (vec![Fault::receive(What::Drop)], 1000), (vec![], 0)] {
            let group = faulty(2, means, 0, &faults, &patient());
            let ((input, input_freed), (output, output_freed)) =
                (observed(4 * elements), observed(4 * elements));
            let call = Operation::Collective(Collective::Allreduce);
            let work = group[0].start(Request::new(call, DType::F32, elements, input, output)).unwrap();
            let freed = || (input_freed.load(Ordering::SeqCst), output_freed.load(Ordering::SeqCst));
            drop(work);
            if elements > 0 {
                assert_eq!(freed(), (false, false));
                assert!(group[0].start(Request::barrier()).is_ok());
                assert_eq!(freed(), (false, false));
            }
            group[0].abort("enough");
            drop(group);
            assert_eq!(freed(), (true, true));
        }
    }
}

/// What timed out is given back once nothing can touch it any more, also where a peer still holds the message.
#[test]
fn memory_of_a_failed_call_is_given_back() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group_with(2, means, &config(), &short());
        let ((input, input_freed), (output, output_freed)) = (observed(4000), observed(4000));
        let call = Operation::Collective(Collective::Allreduce);
        let error = group[0].run(Request::new(call, DType::F32, 1000, input, output)).map(drop).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        // Rank 1 comes late, and must not find memory that is no more.
        assert!(group[1].run(allreduce(1000)).is_err());
        drop(group);
        assert!(input_freed.load(Ordering::SeqCst) && output_freed.load(Ordering::SeqCst));
    }
}

/// A refused call takes nothing.
#[test]
fn memory_of_a_refused_call_is_given_back() {
    let group = group(2, 0);
    let ((input, input_freed), (output, output_freed)) = (observed(4), observed(8));
    let call = Operation::Collective(Collective::Allreduce);
    assert!(group[0].start(Request::new(call, DType::F32, 1, input, output)).is_err());
    assert!(input_freed.load(Ordering::SeqCst) && output_freed.load(Ordering::SeqCst));
}

// --------------------------------------------------------------------------------------------------- arguments

type IsRight = fn(&Error) -> bool;

fn argument(error: &Error) -> bool {
    matches!(error, Error::Argument(_))
}

/// Calls that make no sense are refused before anything is sent, and are as if they had never been.
#[test]
fn bad_arguments_leave_the_communicator_usable() {
    let _watchdog = watch();
    each(&group(3, 0), |communicator| {
        let rank = communicator.rank();
        let sized = |operation, elements, input, output| {
            Request::new(operation, DType::F32, elements, Memory::zeroed(input), Memory::zeroed(output))
        };
        let of = |collective| Operation::Collective(collective);
        let schedule: IsRight = |error| matches!(error, Error::Schedule(_));
        let typed: IsRight = |error| matches!(error, Error::Type(_));
        let bad: Vec<(&str, Request, IsRight)> = vec![
            ("root", sized(of(Collective::Broadcast { root: 3 }), 1, 4, 4), argument),
            ("root", sized(of(Collective::Gather { root: usize::MAX }), 1, 4, 12), argument),
            ("peer", sized(Operation::Send { peer: 3, tag: 0 }, 1, 4, 0), argument),
            ("peer", sized(Operation::Receive { peer: 99, tag: 0 }, 1, 0, 4), argument),
            ("peer", sized(Operation::Send { peer: rank, tag: 0 }, 1, 4, 0), argument),
            ("tag", sized(Operation::Send { peer: (rank + 1) % 3, tag: TAGS }, 1, 4, 0), argument),
            ("tag", sized(Operation::Receive { peer: (rank + 1) % 3, tag: u32::MAX }, 1, 0, 4), argument),
            ("band", Request { op: ReduceOp::Band, ..allreduce(4) }, typed),
            ("uint8", Request { op: ReduceOp::Avg, dtype: DType::U8, ..allreduce(4) }, typed),
            ("input", sized(of(Collective::Allreduce), 3, 8, 12), argument),
            ("output", sized(of(Collective::Allreduce), 3, 12, 16), argument),
            ("output", sized(of(Collective::Allgather), 3, 12, 12), argument),
            ("input", sized(of(Collective::Alltoall), 3, 12, 36), argument),
            ("input", Request { in_place: true, ..allreduce(4) }, argument),
            ("rung", with(allreduce(4), "rung"), schedule),
            ("a torus of", with(allreduce(4), "hamiltonian-rings"), schedule),
            ("allreduce", with(allreduce(4), "pairwise"), schedule),
        ];
        for (what, request, is_right) in bad {
            let described = format!("{request:?}");
            let error =
                communicator.start(request).err().unwrap_or_else(|| panic!("{described} was accepted"));
            assert!(is_right(&error), "{described}: {error:?}");
            assert!(error.to_string().contains(what), "{described}: {error}");
            // The ranks would not agree on the number of the next call if this one had counted on some.
            if rank != 1 {
                assert!(communicator.start(with(allreduce(1), "rung")).is_err());
            }
            communicator.run(allreduce(5)).map(drop).unwrap();
        }
    });
}

/// As many elements as no memory has.
#[test]
fn absurd_counts_are_refused() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        for elements in [usize::MAX, usize::MAX / 4 + 1, usize::MAX / 8 + 1] {
            for kind in [Collective::Allreduce, Collective::Allgather] {
                let nothing = || Memory::nothing();
                let call = Operation::Collective(kind);
                let request = Request::new(call, DType::F32, elements, nothing(), nothing());
                let error = communicator.start(request).err().expect("refused");
                assert!(argument(&error), "{error:?}");
            }
        }
        communicator.barrier(None).unwrap();
    });
}

/// What is sent is as long as it is said to be.
#[test]
fn messages_need_memory_of_their_size() {
    let _watchdog = watch();
    let group = group(2, 0);
    for elements in [0, 3, usize::MAX] {
        let send = Operation::Send { peer: 1, tag: 0 };
        let request = Request::new(send, DType::F32, elements, Memory::zeroed(16), Memory::nothing());
        let error =
            group[0].start(request).err().unwrap_or_else(|| panic!("{elements} elements were accepted"));
        assert!(argument(&error), "{error:?}");
        let receive = Operation::Receive { peer: 1, tag: 0 };
        let request = Request::new(receive, DType::F32, elements, Memory::nothing(), Memory::zeroed(16));
        assert!(group[0].start(request).is_err());
    }
}

/// A timeout of forever is one.
#[test]
fn timeouts_may_be_endless() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        communicator.run(Request { timeout: Some(Duration::MAX), ..allreduce(5) }).map(drop).unwrap();
        communicator.barrier(Some(Duration::MAX)).unwrap();
    });
}

#[test]
fn groups_that_make_no_sense() {
    let _watchdog = watch();
    let make = |ranks, options: &Options| Communicator::in_process(ranks, &config(), options).err();
    let topology = Options { topology: Some(Topology::parse("ring:5").unwrap()), ..patient() };
    let error = make(4, &topology).unwrap();
    assert!(
        matches!(&error, Error::Topology(text) if text.contains("ring:5") && text.contains('4')),
        "{error:?}"
    );
    let error = make(0, &patient()).unwrap();
    assert!(argument(&error), "{error:?}");
    let options = Options { algorithm: Some("rung".to_owned()), ..patient() };
    let error = make(4, &options).unwrap();
    assert!(matches!(&error, Error::Config(text) if text.contains("rung")), "{error:?}");
    let options = Options { algorithm: Some("allreduce:hamiltonian-rings".to_owned()), ..patient() };
    let error = make(6, &options).unwrap();
    assert!(matches!(&error, Error::Schedule(text) if text.contains("a torus of")), "{error:?}");
    assert_eq!(make(5, &topology), None);
}
