//! Receives that accept any source or any tag, and messages to oneself and to nobody.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{config, each, group, group_with, watch, MEANS, SLOW};
use ringroad_core::random::Random;
use ringroad_core::Rank;
use ringroad_runtime::{
    Communicator, DType, Error, Memory, Message, Operation, Options, Request, Work, PROC_NULL,
};

fn send(peer: Rank, tag: u32, content: [u8; 2]) -> Request {
    Request::new(Operation::Send { peer, tag }, DType::U8, 2, Memory::from_slice(&content), Memory::nothing())
}

fn receive(operation: Operation) -> Request {
    Request::new(operation, DType::U8, 2, Memory::nothing(), Memory::zeroed(2))
}

/// Every rank sends `messages` messages to every rank, and receives as many from any source, before, between and after
/// its sends. For every other seed it receives with any tag.
fn exchange(communicator: &Communicator, messages: u8, seed: u64) {
    const TAG: u32 = (1 << 14) + 3;
    let (me, size) = (communicator.rank(), communicator.size());
    let mut random = Random::new(seed * 100 + me as u64);
    let mut sends: Vec<(Rank, u8)> =
        (0..messages).flat_map(|number| (0..size).map(move |rank| (rank, number))).collect();
    sends.reverse();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut left = size * usize::from(messages);
    let any = Operation::ReceiveAny { peer: None, tag: seed.is_multiple_of(2).then_some(TAG) };
    while left > 0 || !sends.is_empty() {
        if left > 0 && (sends.is_empty() || random.bits().is_multiple_of(2)) {
            left -= 1;
            received.push(communicator.start(receive(any)).unwrap());
        } else if let Some((peer, number)) = sends.pop() {
            sent.push(communicator.start(send(peer, TAG, [me as u8, number])).unwrap());
        }
    }
    // Messages of one sender arrive in the order of its sends, at receives in the order in which these were posted.
    let mut next: HashMap<Rank, u8> = HashMap::new();
    for work in received {
        work.wait().unwrap();
        let source = work.source().expect("it has come");
        let content = work.finish().unwrap().to_vec::<u8>();
        let number = next.entry(source).or_default();
        assert_eq!(content, [source as u8, *number], "rank {me}");
        *number += 1;
    }
    assert!(next.len() == size && next.values().all(|count| *count == messages), "{next:?}");
    sent.into_iter().for_each(|work| work.wait().unwrap());
}

#[test]
fn everybody_receives_from_anybody() {
    let _watchdog = watch();
    for ranks in [1, 2, 3, 5] {
        for means in MEANS {
            for seed in 0..4 {
                each(&group(ranks, means), |communicator| exchange(communicator, 5, seed));
            }
        }
    }
}

/// A receive from a given rank does not take a message that an earlier receive from any source must get. With another
/// tag it is independent.
#[test]
fn receives_take_turns() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            if communicator.rank() == 0 {
                let any =
                    communicator.start(receive(Operation::ReceiveAny { peer: None, tag: Some(1) })).unwrap();
                let named = communicator.start(receive(Operation::Receive { peer: 1, tag: 1 })).unwrap();
                let aside = communicator.start(receive(Operation::Receive { peer: 1, tag: 2 })).unwrap();
                let bytes = |work: Work| work.finish().unwrap().to_vec::<u8>();
                assert_eq!(bytes(aside), [0, 9]);
                assert_eq!(any.source(), None);
                communicator.barrier(None).unwrap();
                assert_eq!(bytes(named), [0, 2]);
                any.wait().unwrap();
                assert_eq!(any.source(), Some(1));
                assert_eq!(bytes(any), [0, 1]);
            } else {
                communicator.run(send(0, 2, [0, 9])).map(drop).unwrap();
                communicator.barrier(None).unwrap();
                let works = [1, 2].map(|number| communicator.start(send(0, 1, [0, number])).unwrap());
                works.into_iter().for_each(|work| work.wait().unwrap());
            }
        });
    }
}

/// A shorter message fills the start of the memory, if the receive takes it. The length, source and tag are known.
#[test]
fn receives_may_be_longer() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            if communicator.rank() == 1 {
                (0..3).for_each(|_| drop(communicator.start(send(0, 5, [3, 4])).unwrap()));
                return communicator.barrier(None).unwrap();
            }
            let operations = [
                Operation::Receive { peer: 1, tag: 5 },
                Operation::ReceiveAny { peer: Some(1), tag: None },
                Operation::ReceiveAny { peer: None, tag: None },
            ];
            for operation in operations {
                let long =
                    Request::new(operation, DType::U8, 4, Memory::nothing(), Memory::from_slice(&[9_u8; 4]));
                let work = communicator.start(Request { shorter: true, ..long }).unwrap();
                work.wait().unwrap();
                let message = Message { source: 1, tag: 5, bytes: 2, dtype: DType::U8 };
                assert_eq!(work.message(), Some(message), "{operation:?}");
                assert_eq!(work.finish().unwrap().to_vec::<u8>(), [3, 4, 9, 9]);
            }
            communicator.barrier(None).unwrap();
        });
    }
}

/// A receive of unknown length allocates its memory. One of bytes takes elements of any type, and others only their own.
#[test]
fn receives_may_allocate() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let (me, peer) = (communicator.rank(), 1 - communicator.rank());
            for bytes in [0, 2, 3 << 20] {
                for (operation, dtype) in [
                    (Operation::ReceiveAny { peer: Some(peer), tag: Some(5) }, DType::U8),
                    (Operation::ReceiveAny { peer: Some(peer), tag: None }, DType::OF_BYTES),
                    (Operation::ReceiveAny { peer: None, tag: Some(5) }, DType::OF_BYTES),
                ] {
                    let mut receive = Request::new(operation, dtype, 0, Memory::nothing(), Memory::nothing());
                    receive.key.allocates = true;
                    let work = communicator.start(receive).unwrap();
                    let content = Memory::from_slice(&vec![me as u8; bytes]);
                    let send = Operation::Send { peer, tag: 5 };
                    let sent =
                        communicator.start(Request::new(send, DType::U8, bytes, content, Memory::nothing()));
                    work.wait().unwrap();
                    let message = Message { source: peer, tag: 5, bytes, dtype: DType::U8 };
                    assert_eq!(work.message(), Some(message), "{operation:?}");
                    assert_eq!(work.output().to_vec::<u8>(), vec![peer as u8; bytes]);
                    sent.unwrap().wait().unwrap();
                }
            }
            communicator.barrier(None).unwrap();
            let mut other = receive(Operation::ReceiveAny { peer: Some(peer), tag: Some(5) });
            (other.key.dtype, other.key.elements, other.output) = (DType::I8, 0, Memory::nothing());
            other.key.allocates = true;
            drop(communicator.start(send(peer, 5, [1, 2])));
            let error = communicator.run(other).unwrap_err();
            let is_told =
                |text: &str| text.contains("recv of int8 from rank") && text.contains("any number of bytes");
            assert!(
                matches!(&error, Error::Aborted(_))
                    || matches!(&error, Error::Mismatch(text) if is_told(text)),
                "{error}"
            );
        });
    }
}

/// Messages to and from nobody end at once; a probe leaves a message where it is.
#[test]
fn nobody_and_probes() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(2, means), |communicator| {
            let (me, peer) = (communicator.rank(), 1 - communicator.rank());
            communicator.run(send(PROC_NULL, 1, [1, 2])).map(drop).unwrap();
            let untouched = receive(Operation::Receive { peer: PROC_NULL, tag: 1 });
            assert_eq!(communicator.run(untouched).unwrap().to_vec::<u8>(), [0, 0]);
            let sent = communicator.start(send(peer, 8, [me as u8, 8])).unwrap();
            let probe = Operation::Probe { peer: Some(peer), tag: None };
            let probe = Request::new(probe, DType::U8, 0, Memory::nothing(), Memory::nothing());
            let work = communicator.start(probe).unwrap();
            work.wait().unwrap();
            let message = Some(Message { source: peer, tag: 8, bytes: 2, dtype: DType::U8 });
            assert_eq!(work.message(), message);
            assert_eq!(communicator.glance(None, Some(8)).unwrap(), message);
            assert_eq!(communicator.glance(None, Some(7)).unwrap(), None);
            let content = communicator.run(receive(Operation::Receive { peer, tag: 8 })).unwrap();
            assert_eq!(content.to_vec::<u8>(), [peer as u8, 8]);
            sent.wait().unwrap();
            assert_eq!(communicator.glance(None, None).unwrap(), None);
            communicator.barrier(None).unwrap();
        });
    }
}

/// Also ranks that have not sent anything yet are watched.
#[test]
fn whoever_could_send_is_watched() {
    let _watchdog = watch();
    for means in MEANS {
        let mut group = group(3, means);
        let work = group[0].start(receive(Operation::ReceiveAny { peer: None, tag: Some(7) })).unwrap();
        group.truncate(1);
        let error = work.wait().unwrap_err();
        assert!(matches!(error, Error::Peer { .. }), "{means:?}: {error:?}");
    }
}

#[test]
fn what_goes_wrong() {
    let _watchdog = watch();
    let any = || receive(Operation::ReceiveAny { peer: None, tag: Some(7) });
    for means in SLOW {
        let short = Options { timeout: Some(Duration::from_millis(400)), ..Options::default() };
        let group = group_with(3, means, &config(), &short);
        let error = group[0].run(any()).map(drop).unwrap_err();
        let Error::Timeout(message) = &error else { panic!("{error:?}") };
        assert!(message.contains("recv of 2 uint8 from any rank (tag 7)"), "{message}");

        // A message of another length.
        let group = common::group(2, means);
        let longer = Memory::from_slice(&[1_u8, 2, 3]);
        let operation = Operation::Send { peer: 0, tag: 7 };
        let sent = group[1].start(Request::new(operation, DType::U8, 3, longer, Memory::nothing()));
        let error = group[0].run(any()).map(drop).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
        drop(sent);

        // The receive waits until no rank is left that could send.
        let mut group = common::group(3, means);
        each(&group, |communicator| communicator.barrier(None).unwrap());
        let (one, two) = (group.pop().unwrap(), group.pop().unwrap());
        let work = group[0].start(any()).unwrap();
        drop(one);
        assert!(!work.is_completed());
        drop(two);
        let error = work.wait().unwrap_err();
        assert!(matches!(error, Error::Peer { .. }), "{error:?}");
        let error = group[0].start(any()).map(drop).unwrap_err();
        assert!(matches!(error, Error::Peer { .. }), "{error:?}");

        // The same if the others have left before.
        let mut group = common::group(3, means);
        each(&group, |communicator| communicator.barrier(None).unwrap());
        group.truncate(1);
        std::thread::sleep(Duration::from_millis(20));
        let works = [(); 2].map(|()| group[0].start(any()));
        let fails = |work: Result<Work, Error>| work.and_then(|work| work.wait());
        for (nth, work) in works.into_iter().enumerate() {
            let error = fails(work).unwrap_err();
            assert!(matches!(error, Error::Peer { .. } | Error::Aborted(_)), "number {nth}: {error:?}");
        }

        // An abort ends it.
        let group = common::group(2, means);
        let work = group[0].start(any()).unwrap();
        group[1].abort("for the test").unwrap();
        let error = work.wait().unwrap_err();
        assert!(matches!(&error, Error::Aborted(text) if text.contains("for the test")), "{error:?}");
    }
}
