//! Messages between two ranks.

use std::collections::HashMap;

use super::{message, receive, send};
use crate::common::Means::{Mailboxes, Shared};
use crate::common::{each, group, watch, Case, MEANS, SLOW};
use ringroad_core::random::Random;
use ringroad_core::Collective;
use ringroad_runtime::calls::call::TAGS;
use ringroad_runtime::{Communicator, DType, ReduceOp};

/// Messages match by source and tag, in the order of posting if both are equal, whichever side comes first.
#[test]
fn messages_find_their_receives() {
    let _watchdog = watch();
    let tags = [0, 1, (1 << 14) - 1, 1 << 14, TAGS - 1];
    for ranks in [2, 3, 5] {
        for means in [Mailboxes(0), Mailboxes(100), Mailboxes(usize::MAX), Shared] {
            for seed in 0..6 {
                each(&group(ranks, means), |communicator| exchange(communicator, &tags, seed));
            }
        }
    }
}

fn exchange(communicator: &Communicator, tags: &[u32], seed: u64) {
    let me = communicator.rank();
    let peers: Vec<usize> = (0..communicator.size()).filter(|peer| *peer != me).collect();
    let queues: Vec<(usize, u32)> = peers.iter().flat_map(|p| tags.iter().map(|t| (*p, *t))).collect();
    // Two messages and two receives for each peer and tag, posted in an order of this rank's own.
    let mut random = Random::new(seed * 100 + me as u64);
    let mut order: Vec<(bool, (usize, u32))> =
        queues.iter().flat_map(|q| [(true, *q), (true, *q), (false, *q), (false, *q)]).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.bits() as usize % (last + 1));
    }
    let mut counts: HashMap<(bool, (usize, u32)), usize> = HashMap::new();
    let mut works = Vec::new();
    for (sends, (peer, tag)) in order {
        let count = counts.entry((sends, (peer, tag))).or_default();
        let request = if sends {
            send(peer, tag, &message(me, peer, tag, *count))
        } else {
            receive(peer, tag, message(peer, me, tag, *count).len())
        };
        works.push(((!sends).then_some((peer, tag, *count)), communicator.start(request).unwrap()));
        *count += 1;
    }
    while !works.is_empty() {
        let (what, work) = works.swap_remove(random.bits() as usize % works.len());
        let output = work.finish().unwrap();
        if let Some((peer, tag, number)) = what {
            assert_eq!(output.to_vec::<u8>(), message(peer, me, tag, number), "{peer} to {me}, tag {tag}");
        }
    }
}

/// Messages are not counted as collective calls, and may overtake them.
#[test]
fn messages_between_collectives() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(3, means), |communicator| {
            let me = communicator.rank();
            let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
            let case = Case::new(3, Collective::Allreduce, ReduceOp::Sum, DType::I32, 100);
            let prepared = case.prepare();
            for round in 0..20 {
                let content = message(me, next, round, 0);
                // Rank 0 sends before the collective the message that its peer receives after it.
                let sent = (me == 0).then(|| communicator.start(send(next, round, &content)).unwrap());
                case.check(communicator, &prepared).unwrap();
                let sent = sent.unwrap_or_else(|| communicator.start(send(next, round, &content)).unwrap());
                let expected = message(previous, me, round, 0);
                let found = communicator.run(receive(previous, round, expected.len())).unwrap();
                assert_eq!(found.to_vec::<u8>(), expected);
                sent.wait().unwrap();
            }
        });
    }
}

/// A message that is received late blocks nothing else.
#[test]
fn messages_received_after_large_collectives() {
    let _watchdog = watch();
    for means in SLOW {
        each(&group(2, means), |communicator| {
            let me = communicator.rank();
            let content = vec![me as u8; 100_000];
            let sent = communicator.start(send(1 - me, 3, &content)).unwrap();
            for algorithm in ["ring", "recursive-doubling"] {
                let case =
                    Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::F32, 300_000).by(algorithm);
                case.check(communicator, &case.prepare()).unwrap();
            }
            communicator.barrier(None).unwrap();
            let found = communicator.run(receive(1 - me, 3, content.len())).unwrap();
            assert!(found.to_vec::<u8>() == vec![1 - me as u8; 100_000]);
            sent.wait().unwrap();
        });
    }
}
