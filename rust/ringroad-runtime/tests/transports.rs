//! The transports that need no network: matching, eager and rendezvous, failures, wake-ups, faults and traces.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::trace::TraceKind;
use ringroad_core::Rank;
use ringroad_runtime::buffer::Region;
use ringroad_runtime::transport::fault::{Fault, FaultInjector, Operation, Pick, What};
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::tracing::Tracer;
use ringroad_runtime::transport::{Event, Failure, Kind, Posted, RequestId, Tag, Transport};

/// Longer than anything here takes; a test that waits so long fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn tag(source: Rank, message: u32, check: u32) -> Tag {
    Tag { source, kind: Kind::Collective, sequence: 7, message, check }
}

fn bytes(region: &Region) -> Vec<u8> {
    // SAFETY: the tests read a region only once its request has ended.
    unsafe { region.to_vec() }
}

fn pattern(len: usize, seed: u8) -> Region {
    Region::of(&(0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>())
}

fn poll(transport: &mut dyn Transport) -> Vec<Event> {
    let mut events = Vec::new();
    let any = transport.progress(&mut events);
    assert_eq!(any, !events.is_empty());
    events
}

fn done(request: RequestId) -> Event {
    Event::Completed { request, result: Ok(()) }
}

fn broken(request: RequestId, failure: Failure) -> Event {
    Event::Completed { request, result: Err(failure) }
}

fn pair(eager_limit: usize) -> (InProcess, InProcess) {
    let mut group = InProcess::group_with(2, eager_limit).into_iter();
    (group.next().unwrap(), group.next().unwrap())
}

/// Blocks until something happens, as an engine does.
fn next(transport: &mut dyn Transport) -> Vec<Event> {
    let waiter = transport.waiter();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let events = poll(transport);
        if !events.is_empty() {
            return events;
        }
        assert!(Instant::now() < deadline, "nothing happened");
        if transport.arm() {
            waiter.block(PATIENCE);
        }
    }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

#[test]
fn messages_arrive_in_every_order_and_size() {
    for (len, limit) in [(0, 0), (0, 64), (1, 64), (63, 64), (64, 64), (100_000, 64), (100_000, usize::MAX)] {
        for receive_first in [true, false] {
            let (mut a, mut b) = pair(limit);
            let (source, target) = (pattern(len, 3), Region::zeroed(len));
            let mut received = Posted::Pending;
            if receive_first {
                assert_eq!(b.receive(0, tag(0, 1, 5), target.clone(), 20).unwrap(), Posted::Pending);
            }
            let sent = a.send(1, 0, tag(0, 1, 5), source.clone(), 10).unwrap();
            let case = format!("{len} bytes, limit {limit}, receive first: {receive_first}");
            let waits = !receive_first && len >= limit;
            assert_eq!(sent == Posted::Pending, waits, "{case}");
            assert_eq!(poll(&mut a), [], "{case}");
            if !receive_first {
                received = b.receive(0, tag(0, 1, 5), target.clone(), 20).unwrap();
            }
            assert_eq!(received == Posted::Complete, !receive_first, "{case}");
            assert_eq!(poll(&mut b), if receive_first { vec![done(20)] } else { vec![] }, "{case}");
            assert_eq!(poll(&mut a), if waits { vec![done(10)] } else { vec![] }, "{case}");
            assert_eq!(bytes(&target), bytes(&source), "{case}");
        }
    }
}

#[test]
fn an_eager_send_gives_its_memory_back_at_once() {
    let (mut a, mut b) = pair(64);
    let (source, target) = (pattern(8, 0), Region::zeroed(8));
    let before = bytes(&source);
    assert_eq!(a.send(1, 0, tag(0, 0, 0), source.clone(), 1).unwrap(), Posted::Complete);
    // SAFETY: the send is complete, and nobody else has the region.
    unsafe { source.copy_from(&Region::zeroed(8)) };
    b.receive(0, tag(0, 0, 0), target.clone(), 2).unwrap();
    assert_eq!(bytes(&target), before);
}

#[test]
fn a_rank_can_send_to_itself() {
    for limit in [0, 64] {
        let mut a = InProcess::group_with(1, limit).remove(0);
        let target = Region::zeroed(8);
        a.connect(0).unwrap();
        a.send(0, 0, tag(0, 0, 0), pattern(8, 1), 1).unwrap();
        assert_eq!(a.receive(0, tag(0, 0, 0), target.clone(), 2).unwrap(), Posted::Complete);
        assert_eq!(poll(&mut a), if limit == 0 { vec![done(1)] } else { vec![] });
        assert_eq!(bytes(&target), bytes(&pattern(8, 1)));
    }
}

#[test]
fn equal_tags_stay_in_order_and_others_do_not_mix() {
    for (limit, receives_first) in [(0, true), (0, false), (64, true), (64, false)] {
        let (mut a, mut b) = pair(limit);
        let order = [(0u32, 0u8), (1, 1), (0, 2), (1, 3), (0, 4)];
        let targets = [0u32, 0, 1, 0, 1].map(|message| (message, Region::zeroed(4)));
        let post = |b: &mut InProcess| {
            for (number, (message, target)) in targets.iter().enumerate() {
                b.receive(0, tag(0, *message, 0), target.clone(), number as u64).unwrap();
            }
        };
        if receives_first {
            post(&mut b);
        }
        for (message, seed) in order {
            a.send(1, 0, tag(0, message, 0), pattern(4, seed), 100).unwrap();
        }
        if !receives_first {
            post(&mut b);
        }
        for ((_, target), seed) in targets.iter().zip([0u8, 2, 1, 4, 3]) {
            assert_eq!(bytes(target), bytes(&pattern(4, seed)), "limit {limit}, {receives_first}");
        }
    }
}

#[test]
fn what_does_not_fit_is_reported_to_the_receiver() {
    let other_call = Failure::Check { found: tag(0, 1, 9) };
    let cases: [(Tag, usize, Failure); 4] = [
        (tag(0, 1, 9), 8, other_call.clone()),
        (tag(0, 1, 9), 4, other_call),
        (tag(0, 1, 5), 4, Failure::Length { found: Some(4), expected: 8 }),
        (tag(0, 1, 5), 16, Failure::Length { found: Some(16), expected: 8 }),
    ];
    for (sent, len, failure) in cases {
        for limit in [0, 64] {
            for receive_first in [true, false] {
                let (mut a, mut b) = pair(limit);
                let target = Region::zeroed(8);
                let post = |b: &mut InProcess| {
                    assert_eq!(b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap(), Posted::Pending);
                };
                if receive_first {
                    post(&mut b);
                }
                let posted = a.send(1, 0, sent, pattern(len, 1), 1).unwrap();
                if !receive_first {
                    post(&mut b);
                }
                assert_eq!(poll(&mut b), [broken(2, failure.clone())]);
                let completed = if posted == Posted::Pending { vec![done(1)] } else { vec![] };
                assert_eq!(poll(&mut a), completed, "the sender completes");
                assert_eq!(bytes(&target), [0; 8], "nothing was written");
            }
        }
    }
}

#[test]
fn rendezvous_finds_deadlocks() {
    // Both send before they receive, one after the other: works only where sends complete at once.
    for (limit, finishes) in [(64, true), (0, false)] {
        let (mut a, mut b) = pair(limit);
        let first = a.send(1, 0, tag(0, 0, 0), pattern(8, 1), 1).unwrap();
        let second = b.send(0, 0, tag(1, 0, 0), pattern(8, 2), 1).unwrap();
        assert_eq!(
            (first, second),
            if finishes { (Posted::Complete, Posted::Complete) } else { (Posted::Pending, Posted::Pending) }
        );
        assert!(poll(&mut a).is_empty() && poll(&mut b).is_empty());
        assert!(a.arm() && b.arm(), "neither will ever hear anything");
    }
}

#[test]
fn unexpected_messages_can_be_looked_at() {
    let (mut a, mut b) = pair(64);
    assert_eq!(b.unexpected(0, 7), None);
    a.send(1, 0, tag(0, 4, 3), pattern(8, 0), 1).unwrap();
    a.send(1, 0, tag(0, 2, 3), pattern(8, 0), 1).unwrap();
    let point_to_point = Tag { kind: Kind::PointToPoint, sequence: 8, ..tag(0, 0, 0) };
    a.send(1, 0, point_to_point, pattern(8, 0), 1).unwrap();
    assert_eq!(b.unexpected(0, 7), Some(tag(0, 2, 3)));
    assert_eq!((b.unexpected(0, 8), b.unexpected(0, 6), b.unexpected(1, 7)), (None, None, None));
    b.receive(0, tag(0, 2, 3), Region::zeroed(8), 1).unwrap();
    assert_eq!(b.unexpected(0, 7), Some(tag(0, 4, 3)));
}

#[test]
fn notices_arrive() {
    let (mut a, mut b) = pair(64);
    a.notify(1, b"stop");
    a.notify(9, b"nobody");
    assert!(!b.arm());
    let mut events = Vec::new();
    b.inspect(&mut events);
    assert_eq!(events, [Event::Notice { from: 0, payload: b"stop".to_vec() }]);
    assert!(b.arm());
}

#[test]
fn there_are_no_other_ranks() {
    let (mut a, _b) = pair(64);
    let error = a.connect(2).unwrap_err();
    assert_eq!(error.to_string(), "in-process: there is no rank 2 among 2 ranks");
    assert!(a.send(2, 0, tag(0, 0, 0), pattern(1, 0), 1).is_err());
    assert!(a.receive(0, tag(2, 0, 0), pattern(1, 0), 1).is_err());
}

#[test]
fn watchers_hear_of_the_end() {
    type End = fn(InProcess);
    let ends: [(&str, End, bool); 3] = [
        ("it has ended without closing its connections", drop, false),
        ("it has closed its connections", |mut t| t.close(soon()), true),
        ("it has aborted", |mut t| t.abort(soon()), false),
    ];
    for (reason, end, delivers) in ends {
        let mut group = InProcess::group_with(4, 64).into_iter();
        let mut next = || group.next().unwrap();
        let (mut a, mut watcher, mut stranger, mut late) = (next(), next(), next(), next());
        watcher.connect(0).unwrap();
        watcher.connect(0).unwrap();
        for peer in 1..4 {
            a.send(peer, 0, tag(0, 0, 0), pattern(8, 9), 1).unwrap();
        }
        end(a);
        let failed = [Event::PeerFailed { peer: 0, reason: reason.to_owned() }];
        assert_eq!(poll(&mut watcher), failed);
        assert_eq!(poll(&mut stranger), []);
        late.connect(0).unwrap();
        assert_eq!(poll(&mut late), failed);
        late.connect(0).unwrap();
        assert_eq!(poll(&mut late), [], "once only");
        let target = Region::zeroed(8);
        let gone = format!("rank 0 is gone: {reason}");
        let posted = watcher.receive(0, tag(0, 0, 0), target.clone(), 2).map_err(|e| e.reason);
        assert_eq!(posted, if delivers { Ok(Posted::Complete) } else { Err(gone.clone()) });
        let posted = watcher.receive(0, tag(0, 1, 0), Region::zeroed(8), 2).map_err(|e| e.reason);
        assert_eq!(posted, Err(gone.clone()), "nothing will ever come");
        assert_eq!(bytes(&target) == bytes(&pattern(8, 9)), delivers);
        let error = watcher.send(0, 0, tag(1, 0, 0), pattern(8, 0), 3).unwrap_err();
        assert_eq!(error.reason, gone);
    }
}

#[test]
fn a_send_to_a_rank_that_ends_is_broken() {
    let (mut a, b) = pair(0);
    assert_eq!(a.send(1, 0, tag(0, 0, 0), pattern(8, 0), 1).unwrap(), Posted::Pending);
    drop(b);
    let reason = "it has ended without closing its connections";
    let events = poll(&mut a);
    assert!(events.contains(&broken(1, Failure::Broken(format!("rank 1 is gone: {reason}")))), "{events:?}");
    assert!(events.contains(&Event::PeerFailed { peer: 1, reason: reason.to_owned() }), "{events:?}");
    assert_eq!(events.len(), 2);
}

#[test]
fn after_an_abort_nothing_touches_the_memory() {
    let (mut a, mut b) = pair(0);
    let (source, target) = (pattern(8, 1), Region::zeroed(8));
    a.send(1, 0, tag(0, 0, 0), source.clone(), 1).unwrap();
    b.receive(0, tag(0, 1, 0), target.clone(), 1).unwrap();
    a.abort(soon());
    assert!(b.receive(0, tag(0, 0, 0), target.clone(), 2).is_err(), "it was withdrawn");
    b.abort(soon());
    assert!(a.send(1, 0, tag(0, 1, 0), source, 2).is_err());
    assert!(b.receive(0, tag(0, 1, 0), target.clone(), 3).is_err());
    assert_eq!(bytes(&target), [0; 8]);
}

#[test]
fn close_waits_for_what_was_sent() {
    let (mut a, mut b) = pair(0);
    assert_eq!(a.send(1, 0, tag(0, 0, 0), pattern(8, 5), 1).unwrap(), Posted::Pending);
    let target = Region::zeroed(8);
    thread::scope(|scope| {
        let closing = scope.spawn(|| a.close(soon()));
        assert!(!closing.is_finished());
        b.receive(0, tag(0, 0, 0), target.clone(), 2).unwrap();
    });
    assert_eq!(bytes(&target), bytes(&pattern(8, 5)));

    let (mut a, mut b) = pair(0);
    a.send(1, 0, tag(0, 0, 0), pattern(8, 5), 1).unwrap();
    a.close(Instant::now());
    assert!(b.receive(0, tag(0, 0, 0), target, 2).is_err(), "the deadline had passed");
}

#[test]
fn blocking_ends_when_something_happens() {
    type Cause = fn(&mut InProcess);
    let causes: [Cause; 4] = [
        |b| b.notify(0, b""),
        |b| b.send(0, 0, tag(1, 0, 0), pattern(8, 0), 1).map(|_| ()).unwrap(),
        |b| b.abort(soon()),
        |b| b.receive(0, tag(0, 0, 0), Region::zeroed(8), 1).map(|_| ()).unwrap(),
    ];
    for cause in causes {
        for before in [true, false] {
            let (mut a, mut b) = pair(0);
            a.send(1, 0, tag(0, 0, 0), pattern(8, 0), 1).unwrap();
            a.receive(0, tag(1, 0, 0), Region::zeroed(8), 2).unwrap();
            assert!(a.arm());
            let waiter = a.waiter();
            if before {
                cause(&mut b);
                waiter.block(PATIENCE);
                assert!(!a.arm());
            } else {
                thread::scope(|scope| {
                    scope.spawn(|| waiter.block(PATIENCE));
                    cause(&mut b);
                });
            }
            assert!(!poll(&mut a).is_empty());
        }
    }
}

#[test]
fn wake_ends_this_block_or_the_next() {
    let (a, _b) = pair(64);
    let waiter = a.waiter();
    let start = Instant::now();
    waiter.wake();
    waiter.block(PATIENCE);
    thread::scope(|scope| {
        let (sleeping, asleep) = mpsc::channel();
        let waiter = &waiter;
        scope.spawn(move || {
            sleeping.send(()).unwrap();
            waiter.block(PATIENCE);
        });
        asleep.recv().unwrap();
        waiter.wake();
    });
    assert!(start.elapsed() < PATIENCE);
    waiter.block(Duration::from_millis(1));
    assert!(start.elapsed() >= Duration::from_millis(1), "an old wake does not count again");
}

/// Everybody sends around a ring, many rounds, all of them blocking: no wake-up may be lost.
fn ring(ranks: usize, rounds: u32, len: usize, limit: usize) {
    thread::scope(|scope| {
        for (rank, mut transport) in InProcess::group_with(ranks, limit).into_iter().enumerate() {
            scope.spawn(move || {
                let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                for round in 0..rounds {
                    let target = Region::zeroed(len);
                    let received = transport.receive(0, tag(left, round, 0), target.clone(), 0).unwrap();
                    let source = pattern(len, (rank as u32 + round) as u8);
                    let sent = transport.send(right, 0, tag(rank, round, 0), source, 1).unwrap();
                    let mut open =
                        usize::from(received == Posted::Pending) + usize::from(sent == Posted::Pending);
                    while open > 0 {
                        for event in next(&mut transport) {
                            match event {
                                Event::Completed { result, .. } => {
                                    result.unwrap();
                                    open -= 1;
                                }
                                // Who has finished closes; what it sent has arrived.
                                Event::PeerFailed { peer, .. } => assert!(peer == left || peer == right),
                                Event::Notice { .. } => panic!("{event:?}"),
                            }
                        }
                    }
                    assert_eq!(bytes(&target), bytes(&pattern(len, (left as u32 + round) as u8)));
                }
                transport.close(soon());
            });
        }
    });
}

#[test]
fn many_ranks_on_few_cores() {
    ring(2, 2000, 8, 64);
    ring(2, 2000, 8, 0);
    ring(64, 20, 1000, 64);
    ring(64, 20, 1000, usize::MAX);
}

fn faulty(faults: &[Fault]) -> (FaultInjector<InProcess>, InProcess) {
    let (a, b) = pair(64);
    (FaultInjector::new(a, faults.iter().copied()), b)
}

#[test]
fn faults_hit_what_they_are_meant_for() {
    let drops = |pick| Fault::send(What::Drop).pick(pick);
    let cases: [(Vec<Fault>, &[u32]); 7] = [
        (vec![], &[0, 1, 2, 3]),
        (vec![drops(Pick::Every)], &[]),
        (vec![drops(Pick::Nth(1))], &[0, 2, 3]),
        (vec![drops(Pick::From(2))], &[0, 1]),
        (vec![drops(Pick::Nth(1)), drops(Pick::Nth(3))], &[0, 2]),
        (vec![drops(Pick::Every).with_peer(0)], &[0, 1, 2, 3]),
        (vec![Fault::receive(What::Drop)], &[0, 1, 2, 3]),
    ];
    for (faults, arrive) in cases {
        let (mut a, mut b) = faulty(&faults);
        for message in 0..4 {
            assert_eq!(a.send(1, 0, tag(0, message, 0), pattern(8, 0), 1).unwrap(), Posted::Complete);
        }
        let mut receive =
            |m: &u32| b.receive(0, tag(0, *m, 0), Region::zeroed(8), 1).unwrap() == Posted::Complete;
        let arrived: Vec<u32> = (0..4).filter(|m| receive(m)).collect();
        assert_eq!(arrived, arrive, "{faults:?}");
    }
}

#[test]
fn seeded_faults_repeat() {
    let lost = |seed| {
        let (mut a, mut b) = faulty(&[Fault::send(What::Drop).pick(Pick::OneIn { number: 4, seed })]);
        let mut arrives = |message: u32| {
            a.send(1, 0, tag(0, message, 0), pattern(8, 0), 1).unwrap();
            b.receive(0, tag(0, message, 0), Region::zeroed(8), 1).unwrap() == Posted::Complete
        };
        (0..400).filter(|m| !arrives(*m)).collect::<Vec<u32>>()
    };
    let first = lost(1);
    assert_eq!(first, lost(1));
    assert_ne!(first, lost(2));
    assert!((60..140).contains(&first.len()), "{} of 400", first.len());
}

#[test]
fn delayed_sends_arrive_later_and_in_order() {
    let (mut a, mut b) = faulty(&[Fault::send(What::Delay(3)).pick(Pick::Nth(0))]);
    let targets = [0, 1, 2].map(|_| Region::zeroed(8));
    for (message, target) in [0, 0, 1].iter().zip(&targets) {
        b.receive(0, tag(0, *message, 0), target.clone(), *message as u64).unwrap();
    }
    assert_eq!(a.send(1, 0, tag(0, 0, 0), pattern(8, 1), 1).unwrap(), Posted::Pending);
    assert_eq!(a.send(1, 0, tag(0, 0, 0), pattern(8, 2), 2).unwrap(), Posted::Pending, "must stay behind");
    assert_eq!(a.send(1, 0, tag(0, 1, 0), pattern(8, 3), 3).unwrap(), Posted::Complete, "may overtake");
    assert_eq!(poll(&mut b), [done(1)]);
    assert!(!a.arm(), "nobody may sleep now");
    assert_eq!((poll(&mut a), poll(&mut a)), (vec![], vec![]));
    assert_eq!(poll(&mut b), []);
    assert_eq!(poll(&mut a), [done(1), done(2)]);
    assert_eq!(poll(&mut b), [done(0), done(0)]);
    for (target, seed) in targets.iter().zip([1, 2, 3]) {
        assert_eq!(bytes(target), bytes(&pattern(8, seed)));
    }
    assert!(a.arm());
}

#[test]
fn a_delayed_send_is_out_before_closing() {
    let (mut a, mut b) = faulty(&[Fault::send(What::Delay(1000))]);
    a.send(1, 0, tag(0, 0, 0), pattern(8, 1), 1).unwrap();
    a.close(soon());
    assert_eq!(b.receive(0, tag(0, 0, 0), Region::zeroed(8), 1).unwrap(), Posted::Complete);
}

#[test]
fn faults_look_like_real_ones() {
    let sent = |what| {
        let (mut a, mut b) = faulty(&[Fault::send(what)]);
        b.receive(0, tag(0, 0, 4), Region::zeroed(8), 2).unwrap();
        let posted = a.send(1, 0, tag(0, 0, 4), pattern(8, 0), 1).map_err(|e| e.reason);
        (posted, poll(&mut a), poll(&mut b))
    };
    let complete = Ok(Posted::Complete);
    let check = Failure::Check { found: tag(0, 0, 5) };
    assert_eq!(sent(What::CorruptCheck), (complete.clone(), vec![], vec![broken(2, check)]));
    let length = Failure::Length { found: Some(3), expected: 8 };
    assert_eq!(sent(What::Truncate(3)), (complete.clone(), vec![], vec![broken(2, length)]));
    assert_eq!(sent(What::Drop), (complete, vec![], vec![]));
    assert_eq!(sent(What::FailPost), (Err("it was refused by injection".to_owned()), vec![], vec![]));
    let failed = Event::PeerFailed { peer: 1, reason: "it failed by injection".to_owned() };
    assert_eq!(sent(What::FailPeer), (Err("the peer failed by injection".to_owned()), vec![failed], vec![]));
}

#[test]
fn a_failed_peer_stays_failed() {
    let (mut a, mut b) = faulty(&[Fault::receive(What::FailPeer).with_peer(1).pick(Pick::Nth(1))]);
    a.receive(0, tag(1, 0, 0), Region::zeroed(8), 1).unwrap();
    b.send(0, 0, tag(1, 0, 0), pattern(8, 0), 1).unwrap();
    b.send(0, 0, tag(1, 1, 0), pattern(8, 0), 1).unwrap();
    assert_eq!(a.receive(0, tag(1, 1, 0), Region::zeroed(8), 2).unwrap(), Posted::Pending);
    let events = poll(&mut a);
    assert_eq!(events[1..], [done(1)], "what came before still arrives");
    assert!(matches!(events[0], Event::PeerFailed { peer: 1, .. }));
    assert!(a.send(1, 0, tag(0, 0, 0), pattern(8, 0), 3).is_err());
    assert_eq!(poll(&mut a), [], "reported once");
    a.abort(soon());
}

#[test]
fn connecting_and_notices_can_fail() {
    let fault = |operation, what| Fault { operation, peer: Some(1), pick: Pick::Nth(0), what };
    let (mut a, mut b) =
        faulty(&[fault(Operation::Connect, What::FailPost), fault(Operation::Notify, What::Drop)]);
    assert!(a.connect(1).is_err());
    a.connect(1).unwrap();
    a.notify(1, b"lost");
    a.notify(1, b"found");
    assert_eq!(next(&mut b), [Event::Notice { from: 0, payload: b"found".to_vec() }]);
    assert_eq!(a.describe(), "in-process (2 threads, rendezvous from 64 bytes), with 2 faults injected");
}

#[test]
fn traces_say_when() {
    let (a, mut b) = pair(64);
    let start = Instant::now();
    let (mut a, trace) = Tracer::since(a, 0, start);
    a.send(1, 0, tag(0, 5, 0), pattern(100, 0), 1).unwrap();
    a.send(1, 0, tag(0, 6, 0), pattern(8, 0), 2).unwrap();
    a.receive(0, tag(1, 7, 0), Region::zeroed(8), 3).unwrap();
    a.receive(0, tag(1, 8, 0), Region::zeroed(8), 4).unwrap();
    assert!(a.send(2, 0, tag(0, 9, 0), pattern(8, 0), 5).is_err());
    let ends = |trace: &ringroad_core::trace::Trace| {
        trace.events.iter().map(|e| e.end.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(ends(&trace.snapshot()), [false, true, false, false, false]);
    b.receive(0, tag(0, 5, 0), Region::zeroed(100), 1).unwrap();
    b.send(0, 0, tag(1, 7, 0), pattern(8, 0), 2).unwrap();
    b.send(0, 0, tag(1, 8, 0), pattern(9, 0), 2).unwrap();
    assert_eq!(next(&mut a).len(), 3);
    let events = trace.take().events;
    assert_eq!(trace.snapshot().events, []);
    let told: Vec<_> =
        events.iter().map(|e| (e.kind, e.rank, e.peer, e.bytes, e.sequence, e.message)).collect();
    use TraceKind::{Receive, Send};
    let expected = [
        (Send, 0, 1, 100, 7, 5),
        (Send, 0, 1, 8, 7, 6),
        (Receive, 0, 1, 8, 7, 7),
        (Receive, 0, 1, 8, 7, 8),
        (Send, 0, 2, 8, 7, 9),
    ];
    assert_eq!(told, expected);
    assert_eq!(events.iter().map(|e| e.end.is_some()).collect::<Vec<_>>(), [true, true, true, false, false]);
    let now = start.elapsed().as_secs_f64();
    assert!(events.windows(2).all(|pair| pair[0].start <= pair[1].start));
    assert!(events.iter().all(|e| e.end.is_none_or(|end| e.start <= end && end <= now)));
    assert_eq!(a.describe(), "in-process (2 threads, rendezvous from 64 bytes), traced");
    b.connect(0).unwrap();
    a.close(soon());
    drop(a);
    assert_eq!(next(&mut b).len(), 1, "the rest is passed on");
}
