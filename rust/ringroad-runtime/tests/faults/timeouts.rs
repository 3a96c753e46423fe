//! A rank that waits in vain is told for which ranks.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{
    allreduce, check_anew, check_useless, faulty, names_a_rank, short, who, with, with_faults, SHORT, SLACK,
};
use crate::common::Means::{self, Shared};
use crate::common::{config, each, group_with, patient, watch, Case, MEANS, SLOW};
use ringroad_core::Collective;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, ReduceOp, Request, Result};
use ringroad_testing::fault::{Fault, Pick, What};

fn check_timeout(communicator: &Communicator, error: &Error, call: &str) {
    let Error::Timeout(message) = error else { panic!("rank {}: {error:?}", communicator.rank()) };
    assert!(names_a_rank(communicator, message), "{message}");
    for part in [call, "call number 2", "\"world\"", "at step ", "timed out after 0.600 s"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(message.contains("waiting for rank ") || message.contains("sending to rank "), "{message}");
}

/// A message is lost: the rank that notices tells the others.
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
                // Rank 1 may have received all that it needs.
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

/// Rank 2 of four does not make the second call. Returns the errors of the others.
fn with_an_absent_rank(means: Means, algorithm: Option<&str>) -> Vec<String> {
    let group = group_with(4, means, &config(), &short());
    let request = || match algorithm {
        Some(algorithm) => with(allreduce(8), algorithm),
        None => allreduce(8),
    };
    let results = each(&group, |communicator| {
        communicator.run(Request { timeout: Some(Duration::from_secs(50)), ..allreduce(8) })?;
        if communicator.rank() == 2 {
            return Ok(());
        }
        let start = Instant::now();
        let result = communicator.run(request()).map(drop);
        assert!(start.elapsed() < SHORT + SLACK, "{:?}", start.elapsed());
        result
    });
    // Rank 2 gets an error when it comes.
    let late = group[2].run(request()).map(drop).unwrap_err();
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

/// The error names the rank that all wait for in the end, not those that wait themselves.
#[test]
fn a_rank_that_never_calls_is_named() {
    let _watchdog = watch();
    for means in MEANS {
        for algorithm in [None, Some("ring")] {
            for message in with_an_absent_rank(means, algorithm) {
                assert!(message.contains("rank 2 ("), "{algorithm:?}: {message}");
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
        assert!(matches!(&error, Error::Timeout(message) if message.contains("barrier")), "{error:?}");
        let group = group_with(3, means, &config(), &short());
        let receive = Operation::Receive { peer: 2, tag: 7 };
        let request = Request::new(receive, DType::U8, 5, Memory::nothing(), Memory::zeroed(5));
        let error = group[0].run(request).map(drop).unwrap_err();
        let Error::Timeout(message) = &error else { panic!("{error:?}") };
        for part in ["recv of 5 uint8 from rank 2 (tag 7)", &format!("waiting for {}", who(&group[0], 2))] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        let group = group_with(3, means, &config(), &short());
        if means == Shared {
            continue; // What is sent is copied, and the sender does not wait.
        }
        let send = Operation::Send { peer: 1, tag: 7 };
        let request = Request::new(send, DType::U8, 5, Memory::zeroed(5), Memory::nothing());
        let error = group[0].run(request).map(drop).unwrap_err();
        assert!(
            matches!(&error, Error::Timeout(message) if message.contains("sending to rank 1")),
            "{error:?}"
        );
    }
}

/// A rank that only polls and never waits gets the error, too.
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

/// Calls that nobody waits for also end at their deadline.
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

/// A network that is only slow changes no result.
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
