//! Giving up a communicator.

use std::sync::mpsc;
use std::thread;

use super::{allreduce, check_anew, check_useless, collective, faulty, short, who};
use crate::common::Means::Shared;
use crate::common::{config, each, group, group_with, receive, send, watch, MEANS, SLOW};
use ringroad_core::Collective;
use ringroad_runtime::{Communicator, DType, Error, Result};
use ringroad_testing::fault::{Fault, Method, What};

#[test]
fn abort_reaches_every_rank() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(4, means);
        let all_in = std::sync::Barrier::new(4);
        let results = each(&group, |communicator| {
            if communicator.rank() == 3 {
                all_in.wait();
                communicator.abort("the oven is on fire").unwrap();
                return communicator.barrier(None);
            }
            let work = communicator.start(allreduce(100))?;
            all_in.wait();
            work.wait()
        });
        for (rank, result) in results.iter().enumerate() {
            let Err(Error::Aborted(message)) = result else { panic!("rank {rank}: {result:?}") };
            for part in [&who(&group[0], 3), "the oven is on fire", "\"world\""] {
                assert!(message.contains(part), "{part:?} is not in {message:?}");
            }
            check_useless(&group[rank], &Error::Aborted("the oven is on fire".to_owned()));
        }
        check_anew(4);
    }
}

/// A rank that has ended its call gives up: that does not make the call fail on other ranks.
#[test]
fn abort_spares_calls_that_had_ended_there() {
    let _watchdog = watch();
    for means in SLOW {
        for round in 0..20 {
            let group = group(4, means);
            let results = each(&group, |communicator| {
                let result = communicator.run(allreduce(1 + 100 * round)).map(drop);
                if communicator.rank() == round % 4 {
                    communicator.abort("").unwrap();
                }
                (result, communicator.barrier(None))
            });
            for (rank, (ended, later)) in results.into_iter().enumerate() {
                assert_eq!(ended, Ok(()), "round {round}, rank {rank}");
                assert!(matches!(later, Err(Error::Aborted(_))), "round {round}, rank {rank}: {later:?}");
            }
        }
    }
}

/// A call that cannot end is ended soon, even though the rank that gives up no longer takes part in it.
#[test]
fn abort_ends_calls_that_had_ended_there_but_hang() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        let broadcast = |rank: usize| collective(Collective::Broadcast { root: 0 }, 3, rank, DType::F32, 4);
        let reduce = |rank: usize| collective(Collective::Reduce { root: 1 }, 3, rank, DType::F32, 4);
        each(&group, |communicator| communicator.run(broadcast(communicator.rank())).map(drop).unwrap());
        let waits = group[1].start(reduce(1)).unwrap();
        group[0].run(reduce(0)).map(drop).unwrap();
        group[0].abort("").unwrap();
        assert!(matches!(waits.wait(), Err(Error::Aborted(_))));
    }
}

/// A rank gives up while its message is read in place, and its notice is lost. A rank that sees the message and the end together
/// does not trust the message.
#[test]
fn messages_of_who_gave_up_do_not_count() {
    let _watchdog = watch();
    let silent = Fault { method: Method::Notify, ..Fault::send(What::Drop) };
    let group = faulty(2, Shared, 0, &[silent], &short());
    each(&group, |communicator| communicator.barrier(None).unwrap());
    let content = vec![7; 1 << 20];
    let receiving = group[1].start(receive(0, 1, content.len())).unwrap();
    let _sending = group[0].start(send(1, 1, &content)).unwrap();
    group[0].abort("").unwrap();
    let _ = group[1].start(receive(0, 2, 1));
    let result = receiving.wait();
    assert!(matches!(&result, Err(Error::Aborted(message)) if message.contains("gave up")), "{result:?}");
}

/// Aborting between calls: the other ranks learn of it at their next call.
#[test]
fn abort_between_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        each(&group, |communicator| communicator.barrier(None).unwrap());
        group[1].abort("").unwrap();
        for rank in [0, 2] {
            let error = group[rank].barrier(None).unwrap_err();
            assert!(
                matches!(&error, Error::Aborted(message) if message.contains("rank 1 ")),
                "rank {rank}: {error:?}"
            );
        }
        // A second abort has no effect.
        group[1].abort("again").unwrap();
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
            assert!(matches!(&error, Error::Aborted(message) if message.contains("closed")), "{error:?}");
            assert!(communicator.barrier(None).is_err());
        });
        check_anew(3);
    }
}

/// Closing is no barrier: the rank that is done first may leave at once.
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
        let [own, other] = &works[..] else { unreachable!() };
        assert!(matches!(own.wait(), Err(Error::Aborted(_))));
        for result in [other.wait(), group[2].barrier(None), group[1].barrier(None)] {
            let Err(Error::Peer { rank: 0, message }) = &result else { panic!("{result:?}") };
            assert!(message.contains("closed the communicator during a call"), "{message}");
        }
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
                // The callbacks that ran got an error; the other ranks are notified.
                assert!(receiver.iter().all(|result| result.is_err()));
                assert!(group[0].barrier(None).is_err());
            }
        }
    }
}

/// A call in the background proceeds even if nobody holds its communicator or its work any more.
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
