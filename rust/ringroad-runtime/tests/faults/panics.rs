//! Bugs in ringroad itself: calls end with an error, on this rank and on the others.

use std::sync::mpsc;

use super::{check_anew, faulty, who, with};
use crate::common::{each, patient, watch, Means, SLOW};
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Request, Result};
use ringroad_testing::fault::{Fault, Pick, What};

fn allreduce() -> Request {
    with(super::allreduce(600), "ring")
}

/// Rank 1 panics in the middle of its second call: a ring of three has four sends.
fn group(means: Means) -> Vec<Communicator> {
    faulty(3, means, 1, &[Fault::send(What::Panic).pick(Pick::Nth(5))], &patient())
}

fn check(group: &[Communicator], results: &[Result<()>]) {
    for (rank, result) in results.iter().enumerate() {
        let Err(Error::Aborted(message)) = result else { panic!("rank {rank}: {result:?}") };
        for part in [&who(&group[0], 1), "it panicked by injection"] {
            assert!(message.contains(part), "rank {rank}: {part:?} is not in {message:?}");
        }
        assert!(matches!(group[rank].barrier(None), Err(Error::Aborted(_))));
    }
    check_anew(3);
}

#[test]
fn a_panic_ends_the_call_on_every_rank() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(means);
        let results = each(&group, |communicator| {
            communicator.run(allreduce())?;
            communicator.run(allreduce()).and_then(|_| communicator.barrier(None))
        });
        check(&group, &results);
    }
}

/// No thread waits for the calls; their callbacks are awaited.
#[test]
fn a_panic_ends_calls_in_the_background() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(means);
        let results = each(&group, |communicator| {
            let works: Vec<_> = (0..3).map(|_| communicator.start(allreduce())).collect::<Result<_>>()?;
            let (sender, receiver) = mpsc::channel();
            for work in &works {
                let sender = sender.clone();
                work.on_complete(move |result| sender.send(result).unwrap());
            }
            drop(sender);
            let ends: Vec<Result<()>> = receiver.iter().collect();
            assert_eq!(ends.len(), works.len());
            ends.into_iter().collect()
        });
        check(&group, &results);
    }
}

/// A receive from any source finds its message, and panics when it is posted.
#[test]
fn a_panic_ends_receives_from_anybody() {
    let _watchdog = watch();
    for means in SLOW {
        let group = faulty(2, means, 1, &[Fault::receive(What::Panic)], &patient());
        let receive = |bytes| {
            let operation = Operation::ReceiveAny { peer: None, tag: Some(3) };
            Request::new(operation, DType::U8, bytes, Memory::nothing(), Memory::zeroed(bytes))
        };
        let work = group[1].start(receive(100)).unwrap();
        let send = Operation::Send { peer: 1, tag: 3 };
        let sent = group[0].start(Request::new(send, DType::U8, 100, Memory::zeroed(100), Memory::nothing()));
        assert!(matches!(work.wait(), Err(Error::Aborted(_))));
        drop(sent);
    }
}
