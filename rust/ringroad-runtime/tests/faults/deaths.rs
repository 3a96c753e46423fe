//! Ranks that die, leave too early or cannot be reached.

use std::time::Instant;

use super::{allreduce, check_anew, check_useless, faulty, who, with, SLACK};
use crate::common::mortal::Mortal;
use crate::common::Means::{self, Mailboxes, Shared};
use crate::common::{boxed, config, each, group, patient, watch, MEANS, SLOW};
use ringroad_core::Rank;
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::SharedMemory;
use ringroad_runtime::transport::Transport;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Request, Result, Work};
use ringroad_testing::fault::{Fault, Pick, What};

/// A group whose rank `dying` dies after this many sends and receives.
fn mortals(ranks: usize, means: Means, dying: Rank, posts: u64) -> Vec<Communicator> {
    fn wrap<T: Transport + 'static>(
        group: impl Fn() -> Vec<T>,
        posts: impl Fn(Rank) -> u64,
    ) -> Vec<Box<dyn Transport>> {
        let ranks = group().into_iter().zip(group()).enumerate();
        boxed(ranks.map(|(rank, (transport, spare))| Mortal::new(transport, spare, posts(rank))))
    }
    let posts = |rank| if rank == dying { posts } else { u64::MAX };
    let transports = match means {
        Mailboxes(limit) => wrap(|| InProcess::group_with(ranks, limit), posts),
        Shared => wrap(|| SharedMemory::group(ranks).unwrap(), posts),
    };
    Communicator::over(transports, &config(), &patient()).unwrap()
}

/// Returns when the rank has noticed its own end, since its peers notice it then. Its call, which cannot end, is given up.
fn die(communicator: &Communicator, work: &Work) -> Result<()> {
    while communicator.transport().unwrap().text != "dead" {
        work.wait_until(Instant::now());
    }
    communicator.abort("dead")
}

/// Whenever a rank dies, all others learn that it is this rank, long before the timeout.
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
                        return die(communicator, &work);
                    }
                    // A rank that has received all it needs from the dead one in time notices the death in the next
                    // call.
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

/// A rank dies that has sent everything, while only a rank that does nothing could still need it.
#[test]
fn a_death_is_reported_while_another_rank_is_stopped() {
    let _watchdog = watch();
    let (stopped, dying) = (2, 3);
    // It posts its three sends and its three receives, and then dies.
    let group = mortals(4, Shared, dying, 6);
    let results = each(&group, |communicator| {
        if communicator.rank() == stopped {
            return Ok(());
        }
        let work = communicator.start(with(allreduce(20), "direct-latency"))?;
        if communicator.rank() == dying {
            return die(communicator, &work);
        }
        let start = Instant::now();
        let result = work.wait();
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        result
    });
    for result in &results[..2] {
        assert!(matches!(result, Err(Error::Peer { rank: 3, .. })), "{result:?}");
    }
}

/// A rank that leaves while the others go on counts as gone, too.
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

/// The transport reports a peer's failure on one rank only, which tells the others.
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

/// A rank that has no memory for a message says so: no other rank is to blame.
#[test]
fn no_memory_for_a_message_is_nobody_elses_fault() {
    let _watchdog = watch();
    let (peer, tag, bytes) = (1, 3, 1000);
    for (means, sends) in SLOW.into_iter().flat_map(|means| [(means, true), (means, false)]) {
        let fault = if sends { Fault::send(What::NoMemory) } else { Fault::receive(What::NoMemory) };
        let group = faulty(3, means, 0, &[fault.pick(Pick::Nth(0))], &patient());
        let results = each(&group, |communicator| {
            if communicator.rank() == 0 {
                let (some, none) = (Memory::zeroed(bytes), Memory::nothing());
                let (operation, input, output) = match sends {
                    true => (Operation::Send { peer, tag }, some, none),
                    false => (Operation::Receive { peer, tag }, none, some),
                };
                communicator.run(Request::new(operation, DType::U8, bytes, input, output))?;
            }
            communicator.run(allreduce(8)).map(drop)
        });
        let (Err(Error::Memory(own)), others) = (&results[0], &results[1..]) else { panic!("{results:?}") };
        for part in ["rank 0 (", "and rank 1 (", "1000 bytes"] {
            assert!(own.contains(part), "{own}");
        }
        for other in others {
            assert!(matches!(other, Err(Error::Aborted(message)) if message.contains(own)), "{other:?}");
        }
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
