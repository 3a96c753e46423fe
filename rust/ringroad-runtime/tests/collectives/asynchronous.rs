//! Calls that are in flight while others are made, that are waited for in any order, or that call back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{message, mixture, receive, send};
use crate::common::processes::{child as process, run};
use crate::common::Means::{Mailboxes, Shared};
use crate::common::{each, group, watch, Case, Prepared, MEANS, SLOW};
use ringroad_core::Collective;
use ringroad_runtime::{Communicator, DType, ReduceOp, Request};

#[test]
fn many_calls_in_flight_are_waited_for_in_reverse() {
    let _watchdog = watch();
    for ranks in [2, 5] {
        for means in [Mailboxes(0), Mailboxes(300), Mailboxes(usize::MAX), Shared] {
            let cases = mixture(ranks, 100);
            let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
            each(&group(ranks, means), |communicator| {
                let rank = communicator.rank();
                let start =
                    |(case, p): (&Case, &Prepared)| communicator.start(case.request(rank, &p.inputs[rank]));
                let mut works: Vec<_> =
                    cases.iter().zip(&prepared).map(|both| start(both).unwrap()).collect();
                for (case, prepared) in cases.iter().zip(&prepared).rev() {
                    let output = works.pop().unwrap().finish().unwrap();
                    prepared.compare(case, rank, &case.result(rank, &output));
                }
            });
        }
    }
}

#[test]
fn several_threads_of_a_rank_wait() {
    let _watchdog = watch();
    let ranks = 3;
    let cases = mixture(ranks, 96);
    let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
    for means in MEANS {
        each(&group(ranks, means), |communicator| {
            let rank = communicator.rank();
            let (sender, receiver) = mpsc::channel();
            let receiver = Mutex::new(receiver);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| loop {
                        let Ok((number, work)) = receiver.lock().unwrap().recv() else { return };
                        let work: ringroad_runtime::Work = work;
                        let (case, prepared): (&Case, &Prepared) = (&cases[number], &prepared[number]);
                        prepared.compare(case, rank, &case.result(rank, &work.finish().unwrap()));
                    });
                }
                for (number, (case, prepared)) in cases.iter().zip(&prepared).enumerate() {
                    let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
                    sender.send((number, work)).unwrap();
                }
                drop(sender);
            });
        });
    }
}

/// Calls of several threads of a rank have no order among each other; messages with different tags need none.
#[test]
fn several_threads_of_a_rank_send_and_receive() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let me = communicator.rank();
            thread::scope(|scope| {
                for tag in 0..4 {
                    scope.spawn(move || {
                        for number in 0..25 {
                            let content = message(me, 1 - me, tag, number);
                            let sent = communicator.start(send(1 - me, tag, &content)).unwrap();
                            let expected = message(1 - me, me, tag, number);
                            let found = communicator.run(receive(1 - me, tag, expected.len())).unwrap();
                            assert_eq!(found.to_vec::<u8>(), expected);
                            sent.wait().unwrap();
                        }
                    });
                }
            });
        });
    }
}

/// One thread starts the calls of all ranks and waits for none: it only receives the callbacks.
#[test]
fn calls_go_on_in_the_background_and_call_back_once() {
    let _watchdog = watch();
    for means in MEANS {
        let group = group(4, means);
        let cases = mixture(4, 40);
        let (sender, receiver) = mpsc::channel();
        let mut works = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            let prepared = case.prepare();
            for communicator in &group {
                let rank = communicator.rank();
                let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
                // Two for each call: one may be added late.
                for copy in 0..2 {
                    let sender = sender.clone();
                    work.on_complete(move |result| sender.send((number, rank, copy, result)).unwrap());
                }
                works.push(work);
            }
        }
        drop(sender);
        // The channel closes when the last callback has been dropped.
        let mut called: Vec<(usize, usize, i32)> = receiver
            .iter()
            .map(|(number, rank, copy, result)| {
                result.unwrap();
                (number, rank, copy)
            })
            .collect();
        called.sort_unstable();
        let expected = (0..40).flat_map(|n| (0..4).flat_map(move |r| (0..2).map(move |c| (n, r, c))));
        assert_eq!(called, expected.collect::<Vec<_>>());
        for (number, work) in works.into_iter().enumerate() {
            let (case, rank) = (&cases[number / 4], number % 4);
            let (prepared, result) = (case.prepare(), work.result());
            assert_eq!(result, Some(Ok(())));
            prepared.compare(case, rank, &case.result(rank, &work.finish().unwrap()));
        }
    }
}

#[test]
fn calls_go_on_in_the_background_without_callbacks() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(3, means);
        let case = Case::new(3, Collective::Allreduce, ReduceOp::Sum, DType::F32, 10_000);
        let prepared = case.prepare();
        let start = |c: &Communicator| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap();
        // Several times, so that the background thread has slept before.
        for _ in 0..20 {
            let works: Vec<_> = group.iter().map(start).collect();
            works.iter().for_each(|work| work.in_background());
            // `result` only looks, and drives nothing.
            while works.iter().any(|work| work.result().is_none()) {
                thread::yield_now();
            }
            assert!(works.iter().all(|work| work.result() == Some(Ok(()))));
        }
    }
}

/// A rank's own thread may wait for one call while others proceed in the background.
#[test]
fn waiting_and_background_take_turns() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(2, means);
        let case = Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::F32, 100);
        let prepared = case.prepare();
        let start = |c: &Communicator| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap();
        for _ in 0..50 {
            // Rank 0 waits for its first call and drops the second; rank 1 drops both.
            let works: Vec<_> = [0, 0, 1, 1].map(|rank| start(&group[rank])).into();
            works[1..].iter().for_each(|work| work.in_background());
            works[0].wait().unwrap();
            while works.iter().any(|work| work.result().is_none()) {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn polling_completes_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let case = Case::new(3, Collective::Alltoall, ReduceOp::Sum, DType::F32, 1000);
        let prepared = case.prepare();
        each(&group(3, means), |communicator| {
            let rank = communicator.rank();
            let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
            while !work.is_completed() {
                thread::yield_now();
            }
            prepared.compare(&case, rank, &work.finish().unwrap().to_vec::<u8>());
        });
    }
}

#[test]
fn a_wait_may_end_before_the_call() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group(2, means);
        let early = group[0].start(Request::barrier()).unwrap();
        assert!(!early.wait_until(Instant::now()));
        assert!(!early.wait_until(Instant::now() + Duration::from_millis(30)));
        assert_eq!(early.result(), None);
        let late = group[1].start(Request::barrier()).unwrap();
        late.in_background();
        early.wait().unwrap();
        late.wait().unwrap();
    }
}

#[test]
fn callbacks_may_make_calls() {
    let _watchdog = watch();
    for means in SLOW {
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        let (sender, receiver) = mpsc::channel();
        for communicator in &group {
            let (again, sender) = (communicator.clone(), sender.clone());
            let work = communicator.start(Request::barrier()).unwrap();
            work.on_complete(move |result| {
                result.unwrap();
                let second = again.start(Request::barrier()).unwrap();
                second.on_complete(move |result| sender.send(result).unwrap());
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Ok(()), Ok(())]);
    }
}

/// A callback may wait for what another callback does, and so on, even while a thread waits for a call of its own.
#[test]
fn callbacks_may_wait_for_callbacks() {
    fn nest(communicator: &Arc<Communicator>, depth: u32, done: mpsc::Sender<u32>) {
        let again = communicator.clone();
        let work = communicator.start(Request::barrier()).unwrap();
        work.on_complete(move |result| {
            result.unwrap();
            if depth > 0 {
                let (sender, receiver) = mpsc::channel();
                nest(&again, depth - 1, sender);
                assert_eq!(receiver.recv().unwrap(), depth - 1);
            }
            done.send(depth).unwrap();
        });
    }
    let _watchdog = watch();
    for means in MEANS {
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || {
                    let (sender, receiver) = mpsc::channel();
                    nest(communicator, 3, sender);
                    let peer = 1 - communicator.rank();
                    if peer == 1 {
                        communicator.run(receive(peer, 1, 1)).map(drop).unwrap();
                    }
                    assert_eq!(receiver.recv().unwrap(), 3);
                    if peer == 0 {
                        communicator.run(send(peer, 1, b"x")).map(drop).unwrap();
                    }
                });
            }
        });
    }
}

/// A call that is being started may find that another has ended, whose callback starts a third.
#[test]
fn callbacks_may_make_calls_while_calls_are_started() {
    let _watchdog = watch();
    for means in SLOW {
        const ROUNDS: u32 = 250;
        let group: Vec<Arc<Communicator>> = group(2, means).into_iter().map(Arc::new).collect();
        thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || {
                    let peer = 1 - communicator.rank();
                    for tag in 0..ROUNDS {
                        let again = communicator.clone();
                        let first = communicator.start(Request::barrier()).unwrap();
                        first.on_complete(move |_| {
                            drop(again.start(send(peer, tag, b"called back")).unwrap())
                        });
                        let others: Vec<_> =
                            (0..4).map(|_| communicator.start(Request::barrier()).unwrap()).collect();
                        others.iter().for_each(|work| work.wait().unwrap());
                        communicator.run(receive(peer, tag, 11)).unwrap();
                    }
                });
            }
        });
    }
}

/// Tells the test `child` that no threads can be started.
const ALONE: &str = "RINGROAD_TEST_ALONE";

/// If no thread can be started, callbacks run on a thread that makes calls, and may make calls themselves.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn callbacks_need_no_threads() {
    let mut alone = process();
    // Stacks larger than the address space.
    alone.env(ALONE, "1").env("RUST_MIN_STACK", (1u64 << 60).to_string());
    let [(finished, said)] = &run(vec![alone], Duration::from_secs(60))[..] else { panic!("one child") };
    assert!(finished, "{said}");
}

/// The body of the test `child`.
pub fn child() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    let group: Vec<Arc<Communicator>> = group(2, usize::MAX).into_iter().map(Arc::new).collect();
    let (sender, receiver) = mpsc::channel();
    let first = group[0].start(receive(1, 1, 1)).unwrap();
    let again = group[0].clone();
    first
        .on_complete(move |result| sender.send(result.and_then(|()| again.start(send(1, 2, b"y")))).unwrap());
    group[1].run(send(0, 1, b"x")).unwrap();
    // This finds that the first call has ended.
    let second = group[0].start(receive(1, 3, 1)).unwrap();
    receiver.try_recv().unwrap().unwrap().wait().unwrap();
    assert_eq!(group[1].run(receive(0, 2, 1)).unwrap().to_vec::<u8>(), b"y");
    group[1].run(send(0, 3, b"z")).unwrap();
    second.wait().unwrap();
    println!("child finished");
}

#[test]
fn callbacks_after_the_end_are_called_at_once() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        let work = communicator.start(Request::barrier()).unwrap();
        work.wait().unwrap();
        let called = Arc::new(AtomicBool::new(false));
        let flag = called.clone();
        work.on_complete(move |result| flag.store(result.is_ok(), Ordering::SeqCst));
        assert!(called.load(Ordering::SeqCst));
    });
}

/// A thread that drops the communicator still gets the results of its calls.
#[test]
fn works_outlive_their_communicator() {
    let _watchdog = watch();
    for means in MEANS {
        let case = Case::new(3, Collective::Allgather, ReduceOp::Sum, DType::I64, 50);
        let prepared = case.prepare();
        let works: Vec<_> = group(3, means)
            .into_iter()
            .map(|c| c.start(case.request(c.rank(), &prepared.inputs[c.rank()])).unwrap())
            .collect();
        thread::scope(|scope| {
            for (rank, work) in works.into_iter().enumerate() {
                let (case, prepared) = (&case, &prepared);
                scope.spawn(move || prepared.compare(case, rank, &work.finish().unwrap().to_vec::<u8>()));
            }
        });
    }
}

/// The number of a call wraps around in its messages.
#[test]
fn thousands_of_calls() {
    let _watchdog = watch();
    let cases: Vec<Case> =
        (0..7).map(|n| Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::I32, n)).collect();
    let prepared: Vec<Prepared> = cases.iter().map(Case::prepare).collect();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            for (case, prepared) in cases.iter().zip(&prepared).cycle().take(4200) {
                case.check(communicator, prepared).unwrap();
            }
        });
    }
}
