//! Ranks that make different calls.

use std::time::{Duration, Instant};

use super::{allreduce, check_useless, collective, faulty, short, who, with, SLACK};
use crate::common::Means::{self, Mailboxes, Shared};
use crate::common::{config, each, group, group_with, patient, watch, MEANS, SLOW};
use ringroad_core::{Collective, Rank};
use ringroad_runtime::{DType, Error, Memory, Operation, Options, ReduceOp, Request};
use ringroad_testing::fault::{Fault, Pick, What};

/// Makes different calls on three ranks, then goes on until every rank has noticed. All ranks must be shown the calls
/// of all.
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
            // A rank that only had to send has not been notified yet.
            communicator.barrier(None)?;
            communicator.barrier(None)
        });
        assert!(start.elapsed() < SLACK, "{what}: {:?}", start.elapsed());
        for (communicator, result) in group.iter().zip(results) {
            let error = result.expect_err(what);
            // A rank whose own call ended well gets the error in the next call, as the reason why it cannot be made.
            let (Error::Mismatch(message) | Error::Aborted(message)) = &error else {
                panic!("{what}, rank {}, {means:?}: {error:?}", communicator.rank());
            };
            let header = "ranks made different calls as number ";
            assert!(message.contains(header), "{what}, rank {}: {error:?}", communicator.rank());
            for (rank, call) in shown.iter().enumerate() {
                let line = format!("{}: {call}", who(communicator, rank));
                assert!(message.contains(&line), "{what}: {line:?} is not in {message}");
            }
            check_useless(
                communicator,
                &Error::Mismatch(message[message.find(header).unwrap()..].to_owned()),
            );
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
        // Both have the same number of bytes: only the digest differs.
        let dtype = if rank == 0 { DType::I32 } else { DType::F32 };
        vec![collective(Collective::Allgather, 3, rank, dtype, 10)]
    };
    let (ints, floats) = ("allgather of 10 int32 per rank", "allgather of 10 float32 per rank");
    check_mismatch("types", request, [ints, floats, floats]);
}

#[test]
fn different_reductions() {
    let _watchdog = watch();
    let request = |rank| vec![allreduce(10).reducing(if rank == 2 { ReduceOp::Max } else { ReduceOp::Sum })];
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

/// Two roots that wait for each other's data get no message by which they could notice the mismatch.
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

/// A rank that skips a call is detected by the next one.
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
