//! The transports that need no network: matching, eager and rendezvous, failures, wake-ups, faults and traces.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::trace::TraceKind;
use ringroad_core::Rank;
use ringroad_runtime::buffer::Region;
use ringroad_runtime::transport::fault::{Fault, FaultInjector, Operation, Pick, What};
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::{SharedMemory, LONG};
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

/// As long as is bearable: Miri takes a thousand times as long.
fn long(len: usize) -> usize {
    if cfg!(miri) {
        len.min(2000)
    } else {
        len
    }
}

fn pattern(len: usize, seed: u8) -> Region {
    Region::of(&(0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>())
}

fn poll(transport: &mut (impl Transport + ?Sized)) -> Vec<Event> {
    let mut events = Vec::new();
    let any = transport.progress(&mut events);
    assert!(any || events.is_empty());
    transport.inspect(&mut events);
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

/// What carries the messages of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Mailboxes; messages of at least so many bytes wait for their receiver.
    Mailboxes(usize),
    /// Shared memory; what is sent is elsewhere.
    Copied,
    /// Shared memory; what is sent is there.
    Pool,
    /// Shared memory; what is sent is there and stays as it is.
    Lent,
}

use Means::{Copied, Lent, Mailboxes, Pool};

type Ranks = Vec<Box<dyn Transport>>;

impl Means {
    const SHARED: [Means; 3] = [Copied, Pool, Lent];

    fn group(self, ranks: usize) -> Ranks {
        fn boxed<T: Transport + 'static>(transports: Vec<T>) -> Ranks {
            transports.into_iter().map(|t| Box::new(t) as Box<dyn Transport>).collect()
        }
        match self {
            Mailboxes(limit) => boxed(InProcess::group_with(ranks, limit)),
            _ => boxed(SharedMemory::group(ranks).unwrap()),
        }
    }

    fn pair(self) -> [Box<dyn Transport>; 2] {
        self.group(2).try_into().ok().unwrap()
    }

    /// Something to send.
    fn source(self, transport: &dyn Transport, len: usize, seed: u8) -> Region {
        match self {
            Mailboxes(_) | Copied => pattern(len, seed),
            Pool | Lent => pooled(transport, len, seed),
        }
    }

    fn send(self, transport: &mut dyn Transport, peer: Rank, tag: Tag, source: Region, id: u64) -> Posted {
        let sent = match self {
            Lent => transport.lend(peer, 0, tag, source, id),
            _ => transport.send(peer, 0, tag, source, id),
        };
        transport.flush();
        sent.unwrap()
    }

    /// Whether a send ends only after its receive has begun, which it does not wait for, if that has not.
    fn waits(self, len: usize) -> bool {
        match self {
            Mailboxes(limit) => len >= limit,
            Copied | Lent => false,
            Pool => len > 32,
        }
    }
}

/// Memory that near ranks can read.
fn pooled(transport: &(impl Transport + ?Sized), len: usize, seed: u8) -> Region {
    let region = transport.pool().unwrap().allocate(len).unwrap();
    // SAFETY: it is new.
    unsafe { region.copy_from(&pattern(len, seed)) };
    region
}

/// Blocks until something happens, as an engine does.
fn next(transport: &mut (impl Transport + ?Sized)) -> Vec<Event> {
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
    let mailboxes =
        [(0, 0), (0, 64), (1, 64), (63, 64), (64, 64), (100_000, 64), (100_000, usize::MAX)].into_iter();
    let mut cases: Vec<(usize, Means)> = mailboxes.map(|(len, limit)| (len, Mailboxes(limit))).collect();
    for means in Means::SHARED {
        let lengths = [0, 1, 8, 31, 32, 33, 63, 64, 4096, 100_000, 20 << 20];
        // Long messages that are copied have tests of their own.
        cases
            .extend(lengths.into_iter().filter(|len| *len < LONG || means != Copied).map(|len| (len, means)));
    }
    for (len, means) in cases.into_iter().map(|(len, means)| (long(len), means)) {
        for receive_first in [true, false] {
            let [mut a, mut b] = means.pair();
            let (source, target) = (means.source(&*a, len, 3), Region::zeroed(len));
            let mut received = Posted::Pending;
            if receive_first {
                assert_eq!(b.receive(0, tag(0, 1, 5), target.clone(), 20).unwrap(), Posted::Pending);
            }
            let sent = means.send(&mut *a, 1, tag(0, 1, 5), source.clone(), 10);
            let case = format!("{len} bytes, {means:?}, receive first: {receive_first}");
            // In a mailbox a message meets its receive at once.
            let meets = receive_first && matches!(means, Mailboxes(_));
            let waits = !meets && means.waits(len);
            assert_eq!(sent == Posted::Pending, waits, "{case}");
            assert_eq!(poll(&mut *a), [], "{case}");
            if !receive_first {
                received = b.receive(0, tag(0, 1, 5), target.clone(), 20).unwrap();
            }
            assert_eq!(received == Posted::Complete, !receive_first, "{case}");
            assert_eq!(poll(&mut *b), if receive_first { vec![done(20)] } else { vec![] }, "{case}");
            assert_eq!(poll(&mut *a), if waits { vec![done(10)] } else { vec![] }, "{case}");
            assert!(bytes(&target) == bytes(&source), "{case}");
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
    for means in [Mailboxes(0), Mailboxes(64), Copied, Pool, Lent] {
        for (receives_first, len) in [(true, 4), (false, 4), (true, 40), (false, 40)] {
            let [mut a, mut b] = means.pair();
            let order = [(0u32, 0u8), (1, 1), (0, 2), (1, 3), (0, 4)];
            let targets = [0u32, 0, 1, 0, 1].map(|message| (message, Region::zeroed(len)));
            let post = |b: &mut dyn Transport| {
                for (number, (message, target)) in targets.iter().enumerate() {
                    b.receive(0, tag(0, *message, 0), target.clone(), number as u64).unwrap();
                }
            };
            if receives_first {
                post(&mut *b);
            }
            for (message, seed) in order {
                let source = means.source(&*a, len, seed);
                means.send(&mut *a, 1, tag(0, message, 0), source, 100);
            }
            if !receives_first {
                post(&mut *b);
            }
            poll(&mut *b);
            for ((_, target), seed) in targets.iter().zip([0u8, 2, 1, 4, 3]) {
                assert_eq!(bytes(target), bytes(&pattern(len, seed)), "{means:?}, {receives_first}");
            }
        }
    }
}

#[test]
fn who_has_waited_for_longer_comes_first() {
    for means in [Mailboxes(0), Mailboxes(64), Copied, Pool, Lent] {
        for len in [4, 40] {
            let [mut a, mut b] = means.pair();
            let targets = [0; 3].map(|_| Region::zeroed(len));
            b.receive(0, tag(0, 0, 0), targets[0].clone(), 0).unwrap();
            // It is there when the second receive is posted, but nobody has looked.
            let sources: Vec<Region> = (0..3).map(|seed| means.source(&*a, len, seed)).collect();
            means.send(&mut *a, 1, tag(0, 0, 0), sources[0].clone(), 100);
            b.receive(0, tag(0, 0, 0), targets[1].clone(), 1).unwrap();
            means.send(&mut *a, 1, tag(0, 0, 0), sources[1].clone(), 101);
            b.receive(0, tag(0, 0, 0), targets[2].clone(), 2).unwrap();
            means.send(&mut *a, 1, tag(0, 0, 0), sources[2].clone(), 102);
            poll(&mut *b);
            for (target, seed) in targets.iter().zip(0..) {
                assert_eq!(bytes(target), bytes(&pattern(len, seed)), "{means:?}, {len} bytes");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_reported_to_the_receiver() {
    for len in [8, 64] {
        let other_call = Failure::Check { found: tag(0, 1, 9) };
        let wrong = |found| Failure::Length { found: Some(found), expected: len };
        let cases: [(Tag, usize, Failure); 5] = [
            (tag(0, 1, 9), len, other_call.clone()),
            (tag(0, 1, 9), 4, other_call),
            (tag(0, 1, 5), 0, wrong(0)),
            (tag(0, 1, 5), 4, wrong(4)),
            (tag(0, 1, 5), len + 8, wrong(len + 8)),
        ];
        for (sent, found, failure) in cases {
            for means in [Mailboxes(0), Mailboxes(64), Copied, Pool, Lent] {
                for receive_first in [true, false] {
                    let [mut a, mut b] = means.pair();
                    let target = Region::zeroed(len);
                    let post = |b: &mut dyn Transport| {
                        assert_eq!(b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap(), Posted::Pending);
                    };
                    if receive_first {
                        post(&mut *b);
                    }
                    let source = means.source(&*a, found, 1);
                    let posted = means.send(&mut *a, 1, sent, source, 1);
                    if !receive_first {
                        post(&mut *b);
                    }
                    assert_eq!(poll(&mut *b), [broken(2, failure.clone())]);
                    let completed = if posted == Posted::Pending { vec![done(1)] } else { vec![] };
                    assert_eq!(poll(&mut *a), completed, "the sender completes");
                    assert!(bytes(&target).iter().all(|byte| *byte == 0), "nothing was written");
                }
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
    for (means, len) in [(Mailboxes(64), 8), (Copied, 8), (Copied, 80), (Pool, 80)] {
        let [mut a, mut b] = means.pair();
        assert_eq!((b.unexpected(0, 7), b.oldest_unexpected()), (None, None));
        let mut send = |tag| {
            let source = means.source(&*a, len, 0);
            means.send(&mut *a, 1, tag, source, 1);
        };
        send(Tag { kind: Kind::PointToPoint, sequence: 8, ..tag(0, 0, 0) });
        send(tag(0, 4, 3));
        send(tag(0, 2, 3));
        send(Tag { sequence: 5, ..tag(0, 0, 1) });
        assert_eq!(poll(&mut *b), []);
        assert_eq!(b.unexpected(0, 7), Some(tag(0, 2, 3)));
        assert_eq!((b.unexpected(0, 8), b.unexpected(0, 6), b.unexpected(1, 7)), (None, None, None));
        assert_eq!(b.oldest_unexpected(), Some(tag(0, 4, 3)), "{means:?}");
        b.receive(0, tag(0, 2, 3), Region::zeroed(len), 1).unwrap();
        assert_eq!(b.unexpected(0, 7), Some(tag(0, 4, 3)));
        b.receive(0, tag(0, 4, 3), Region::zeroed(len), 1).unwrap();
        assert_eq!(b.oldest_unexpected(), Some(Tag { sequence: 5, ..tag(0, 0, 1) }));
        b.receive(0, Tag { sequence: 5, ..tag(0, 0, 1) }, Region::zeroed(len), 1).unwrap();
        assert_eq!((b.unexpected(0, 7), b.oldest_unexpected()), (None, None));
    }
}

#[test]
fn notices_arrive() {
    for means in [Mailboxes(64), Copied] {
        let [mut a, mut b] = means.pair();
        for payload in [&b"stop"[..], b"", &[7; 100], &[9; if cfg!(miri) { 1000 } else { 100_000 }]] {
            a.notify(1, payload);
            a.notify(9, b"nobody");
            assert!(!b.arm());
            let mut events = Vec::new();
            b.inspect(&mut events);
            assert_eq!(events, [Event::Notice { from: 0, payload: payload.to_vec() }]);
            assert!(b.arm());
        }
    }
}

#[test]
fn there_are_no_other_ranks() {
    for (means, reason) in [
        (Mailboxes(64), "in-process: there is no rank 2 among 2 ranks"),
        (Copied, "shared memory: there is no way to rank 2"),
    ] {
        let [mut a, _b] = means.pair();
        assert_eq!(a.connect(2).unwrap_err().to_string(), reason);
        assert!(a.send(2, 0, tag(0, 0, 0), pattern(1, 0), 1).is_err());
        assert!(a.lend(2, 0, tag(0, 0, 0), pattern(1, 0), 1).is_err());
        assert!(a.receive(0, tag(2, 0, 0), pattern(1, 0), 1).is_err());
        assert!(a.expect(tag(2, 0, 0), 1, 1).is_err());
        assert_eq!(a.unexpected(2, 7), None);
    }
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
    type Cause = fn(&mut dyn Transport);
    let causes: [Cause; 4] = [
        |b| b.notify(0, b""),
        |b| b.send(0, 0, tag(1, 0, 0), pattern(8, 0), 1).map(|_| ()).unwrap(),
        |b| b.abort(soon()),
        // The sender has waited for that.
        |b| b.receive(0, tag(0, 0, 0), Region::zeroed(40), 1).map(|_| ()).unwrap(),
    ];
    for means in [Mailboxes(0), Pool] {
        for cause in causes {
            for before in [true, false] {
                let [mut a, mut b] = means.pair();
                // Whom it talks to it watches.
                a.connect(1).unwrap();
                let source = means.source(&*a, 40, 0);
                assert_eq!(means.send(&mut *a, 1, tag(0, 0, 0), source, 1), Posted::Pending);
                a.receive(0, tag(1, 0, 0), Region::zeroed(8), 2).unwrap();
                assert!(a.arm());
                let waiter = a.waiter();
                let mut act = || {
                    cause(&mut *b);
                    b.flush();
                };
                if before {
                    act();
                    waiter.block(PATIENCE);
                } else {
                    thread::scope(|scope| {
                        scope.spawn(|| waiter.block(PATIENCE));
                        act();
                    });
                }
                assert!(!poll(&mut *a).is_empty(), "{means:?}");
            }
        }
    }
}

#[test]
fn wake_ends_this_block_or_the_next() {
    for means in [Mailboxes(64), Copied] {
        let [a, _b] = means.pair();
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
        if cfg!(miri) {
            continue; // Nobody really blocks.
        }
        let start = Instant::now();
        waiter.block(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1), "an old wake does not count again");
    }
}

/// Everybody sends around a ring, many rounds, all of them blocking: no wake-up may be lost.
fn ring(ranks: usize, rounds: u32, len: usize, means: Means) {
    let (ranks, rounds) = if cfg!(miri) { (ranks.min(3), 3) } else { (ranks, rounds) };
    thread::scope(|scope| {
        for (rank, mut transport) in means.group(ranks).into_iter().enumerate() {
            scope.spawn(move || {
                let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                for round in 0..rounds {
                    let target = Region::zeroed(len);
                    let received = transport.receive(0, tag(left, round, 0), target.clone(), 0).unwrap();
                    let source = means.source(&*transport, len, (rank as u32 + round) as u8);
                    let sent = means.send(&mut *transport, right, tag(rank, round, 0), source, 1);
                    let mut open =
                        usize::from(received == Posted::Pending) + usize::from(sent == Posted::Pending);
                    while open > 0 {
                        for event in next(&mut *transport) {
                            match event {
                                Event::Completed { result, .. } => {
                                    result.unwrap();
                                    open -= 1;
                                }
                                // Who has finished closes; what it sent has arrived.
                                Event::PeerFailed { .. } => {}
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
    ring(2, 2000, 8, Mailboxes(64));
    ring(2, 2000, 8, Mailboxes(0));
    ring(2, 2000, 8, Copied);
    for means in Means::SHARED {
        ring(2, 2000, 1000, means);
        ring(16, 50, 1000, means);
    }
    if !cfg!(miri) {
        ring(64, 20, 1000, Mailboxes(64));
        ring(64, 20, 1000, Mailboxes(usize::MAX));
    }
}

// ------------------------------------------------------------------------------------------------ shared memory

fn shared() -> [SharedMemory; 2] {
    SharedMemory::group(2).unwrap().try_into().ok().unwrap()
}

/// Whether memory of the pool that somebody has let go of is free again: the first that has room is handed out.
fn is_free(transport: &SharedMemory, place: usize, len: usize) -> bool {
    transport.pool().unwrap().allocate(len).unwrap().as_ptr() as usize == place
}

/// A message that is read where it is: nothing is copied, and its memory is free when it has been released.
#[test]
fn messages_are_read_where_they_are() {
    for expect_first in [true, false] {
        for len in [33, 1000, long(300_000)] {
            let [mut a, mut b] = shared();
            let source = pooled(&a, len, 7);
            let place = source.as_ptr() as usize;
            if expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), len, 2).unwrap(), Posted::Pending);
            }
            assert_eq!(a.lend(1, 0, tag(0, 1, 5), source, 1).unwrap(), Posted::Complete);
            if expect_first {
                assert_eq!(poll(&mut b), [done(2)]);
            } else {
                assert_eq!(b.expect(tag(0, 1, 5), len, 2).unwrap(), Posted::Complete);
            }
            a.tidy();
            assert!(!is_free(&a, place, len), "the receiver has not read it");
            let arrived = b.arrived(2).unwrap();
            assert!(b.arrived(2).is_none(), "it can be had once");
            assert_eq!(arrived.region.as_ptr() as usize, place);
            assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 7)));
            b.release(arrived);
            a.tidy();
            assert!(is_free(&a, place, len));
            assert_eq!((poll(&mut a), poll(&mut b)), (vec![], vec![]));
        }
    }
}

/// Short messages are inside; what they are sent from is free at once.
#[test]
fn short_messages_are_expected_too() {
    for len in [0, 1, 32] {
        let [mut a, mut b] = shared();
        let source = pooled(&a, len, 7);
        let place = source.as_ptr() as usize;
        assert_eq!(a.send(1, 0, tag(0, 1, 5), source, 1).unwrap(), Posted::Complete);
        assert!(is_free(&a, place, len));
        assert_eq!(b.expect(tag(0, 1, 5), len, 2).unwrap(), Posted::Complete);
        let arrived = b.arrived(2).unwrap();
        assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 7)));
        b.release(arrived);
        assert_eq!((poll(&mut a), poll(&mut b)), (vec![], vec![]));
    }
}

/// Messages of the next call stay where they are; what came before them is heard, and so is the end of a rank.
#[test]
fn what_comes_before_the_next_call_is_heard() {
    fn heard(transport: &mut SharedMemory, next: u32) -> Vec<Event> {
        let mut events = Vec::new();
        transport.linger(tag(0, 1, 5));
        transport.hear(next, &mut events);
        events
    }
    let notice = |payload: &[u8]| Event::Notice { from: 0, payload: payload.to_vec() };
    let [mut a, mut b] = shared();
    let next = tag(0, 1, 5).sequence;
    let send = |a: &mut SharedMemory, message| {
        assert_eq!(a.send(1, 0, tag(0, message, 5), pattern(8, 3), 1).unwrap(), Posted::Complete);
    };
    let receive = |b: &mut SharedMemory, message| {
        let target = Region::zeroed(8);
        assert_eq!(b.receive(0, tag(0, message, 5), target.clone(), 2).unwrap(), Posted::Complete);
        assert_eq!(bytes(&target), bytes(&pattern(8, 3)));
    };
    assert_eq!(heard(&mut b, next), []);

    send(&mut a, 1);
    a.notify(1, b"behind");
    assert_eq!((heard(&mut b, next), b.oldest_unexpected()), (vec![], None));
    assert_eq!(heard(&mut b, next + 1), [notice(b"behind")]);
    assert_eq!(b.oldest_unexpected(), Some(tag(0, 1, 5)));
    receive(&mut b, 1);

    a.notify(1, b"before");
    send(&mut a, 2);
    assert_eq!(heard(&mut b, next), [notice(b"before")]);
    receive(&mut b, 2);

    send(&mut a, 3);
    a.notify(1, b"seldom");
    let later: Vec<Event> = (0..300).flat_map(|_| heard(&mut b, next)).collect();
    assert_eq!(later, [notice(b"seldom")]);
    receive(&mut b, 3);

    send(&mut a, 4);
    a.close(soon());
    let reason = "it has closed its connections".to_owned();
    assert_eq!(heard(&mut b, next), [Event::PeerFailed { peer: 0, reason }]);
    assert_eq!(heard(&mut b, next), []);
    receive(&mut b, 4);
}

/// A rank that only sends, and hears what others say, puts what waited for a slot and takes back what was read.
#[test]
fn who_only_hears_goes_on_sending() {
    let [mut a, mut b] = shared();
    let hear = |a: &mut SharedMemory| a.hear(100, &mut Vec::new());
    let receive = |b: &mut SharedMemory, number: u32, len| {
        b.receive(0, tag(0, number, 0), Region::zeroed(len), 2).unwrap()
    };
    for number in 0..66 {
        let posted = a.send(1, 0, tag(0, number, 0), pattern(8, 0), 1).unwrap();
        assert_eq!(posted == Posted::Pending, number >= 64, "message {number}");
    }
    (0..64).for_each(|number| assert_eq!(receive(&mut b, number, 8), Posted::Complete));
    hear(&mut a);
    (64..66).for_each(|number| assert_eq!(receive(&mut b, number, 8), Posted::Complete));

    let len = 100;
    let free = |a: &SharedMemory| a.pool().unwrap().allocate(len).unwrap().as_ptr() as usize;
    let first = free(&a);
    for number in 0..if cfg!(miri) { 20 } else { 600 } {
        assert_eq!(a.send(1, 0, tag(0, number, 0), pattern(len, 0), 1).unwrap(), Posted::Complete);
        assert_eq!(receive(&mut b, number, len), Posted::Complete);
        hear(&mut a);
    }
    assert!(free(&a) - first < 300 * 128, "what was read long ago is not taken back");
}

/// A send ends, and its memory is free, when its message has been released, whatever becomes of others: plans count on it.
#[test]
fn releases_in_every_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for short_between in [false, true] {
            let [mut a, mut b] = shared();
            let sources = [0, 1, 2].map(|seed| pooled(&a, 100, seed));
            let place = sources[0].as_ptr() as usize;
            for (number, source) in sources.iter().enumerate() {
                let tag = tag(0, number as u32, 0);
                assert_eq!(a.send(1, 0, tag, source.clone(), number as u64).unwrap(), Posted::Pending);
                if short_between {
                    a.send(1, 0, Tag { message: tag.message + 10, ..tag }, pattern(8, 0), 50).unwrap();
                }
            }
            let mut arrived = [0, 1, 2].map(|number: u64| {
                assert_eq!(b.expect(tag(0, number as u32, 0), 100, number).unwrap(), Posted::Complete);
                b.arrived(number)
            });
            for number in order {
                assert_eq!(poll(&mut a), []);
                b.release(arrived[number].take().unwrap());
                assert_eq!(poll(&mut a), [done(number as u64)]);
            }
            assert_eq!(poll(&mut a), []);
            drop(sources);
            a.tidy();
            assert!(is_free(&a, place, 100));
        }
    }
}

/// A message that nobody has asked for yet holds nobody up, in either direction.
#[test]
fn unclaimed_messages_hold_nobody_up() {
    for lanes in [1, 2] {
        let [mut a, mut b] = shared();
        for source in 0..lanes {
            let (from, to) = if source == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for message in 0..40 {
                let region = pooled(from, 100, message as u8);
                from.send(1 - source, 0, tag(source, message, 0), region, u64::from(message)).unwrap();
            }
            assert_eq!(poll(to), []);
        }
        for source in 0..lanes {
            let (from, to) = if source == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for message in (1..40).rev() {
                let target = Region::zeroed(100);
                assert_eq!(to.receive(0, tag(source, message, 0), target, 99).unwrap(), Posted::Complete);
                assert_eq!(poll(from), [done(u64::from(message))]);
            }
        }
    }
}

/// A rank may be far behind one that only sends: the oldest of what has come is found whatever was asked for since.
#[test]
fn the_oldest_of_many_unexpected_messages() {
    let [mut a, mut b] = shared();
    let count = long(1000) as u32;
    let at = |call: u32| Tag { sequence: call, ..tag(0, 0, 0) };
    for call in 0..count {
        // Every call has two messages under one tag.
        for seed in [0, 1] {
            a.send(1, 0, at(call), pattern(8, (call as u8).wrapping_add(seed)), u64::from(call)).unwrap();
        }
        assert_eq!(poll(&mut b), []);
        poll(&mut a);
    }
    let take = |b: &mut SharedMemory, call: u32, seed: u8| {
        let target = Region::zeroed(8);
        assert_eq!(b.receive(0, at(call), target.clone(), 1).unwrap(), Posted::Complete);
        assert_eq!(bytes(&target), bytes(&pattern(8, (call as u8).wrapping_add(seed))));
    };
    // First those that are not the oldest.
    (1..count).step_by(2).for_each(|call| take(&mut b, call, 0));
    for call in 0..count {
        assert_eq!(b.oldest_unexpected(), Some(at(call)));
        if call % 2 == 0 {
            take(&mut b, call, 0);
            assert_eq!(b.oldest_unexpected(), Some(at(call)));
        }
        take(&mut b, call, 1);
    }
    assert_eq!(b.oldest_unexpected(), None);
}

/// What is expected and not what comes is reported, and its memory is free.
#[test]
fn what_is_expected_and_does_not_fit() {
    let other_call = Failure::Check { found: tag(0, 1, 9) };
    let cases = [
        (tag(0, 1, 9), 100, other_call.clone()),
        (tag(0, 1, 9), 8, other_call),
        (tag(0, 1, 5), 99, Failure::Length { found: Some(99), expected: 100 }),
        (tag(0, 1, 5), 8, Failure::Length { found: Some(8), expected: 100 }),
    ];
    for (sent, len, failure) in cases {
        for expect_first in [true, false] {
            let [mut a, mut b] = shared();
            if expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), 100, 2).unwrap(), Posted::Pending);
            }
            let source = pooled(&a, len, 7);
            let place = source.as_ptr() as usize;
            a.lend(1, 0, sent, source, 1).unwrap();
            if !expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), 100, 2).unwrap(), Posted::Pending);
            }
            assert_eq!(poll(&mut b), [broken(2, failure.clone())]);
            assert!(b.arrived(2).is_none());
            a.tidy();
            assert!(is_free(&a, place, len));
        }
    }
}

/// What has a place in the lane is sent; what has none waits for one, and so does its send.
#[test]
fn more_messages_than_slots() {
    for len in [8, 40] {
        for means in Means::SHARED {
            let [mut a, mut b] = means.pair();
            let count = if cfg!(miri) { 130 } else { 300 };
            let mut open = 0;
            for number in 0..count {
                let source = means.source(&*a, len, number as u8);
                let sent = means.send(&mut *a, 1, tag(0, number, 0), source, u64::from(number));
                let waits = number >= 64 || means.waits(len);
                assert_eq!(sent == Posted::Pending, waits, "{means:?}: message {number} of {len} bytes");
                open += u32::from(waits);
            }
            let mut ended = Vec::new();
            // From the last to the first: nearly all are unexpected.
            for number in (0..count).rev() {
                let target = Region::zeroed(len);
                let mut received = b.receive(0, tag(0, number, 0), target.clone(), 1).unwrap();
                while received == Posted::Pending {
                    ended.extend(poll(&mut *a));
                    received = if poll(&mut *b).is_empty() { Posted::Pending } else { Posted::Complete };
                }
                assert_eq!(bytes(&target), bytes(&pattern(len, number as u8)));
            }
            ended.extend(poll(&mut *a));
            // What has to be read ends in the order of reading.
            ended.sort_by_key(|event| match event {
                Event::Completed { request, .. } => *request,
                event => panic!("{event:?}"),
            });
            let expected: Vec<Event> = (count - open..count).map(|number| done(u64::from(number))).collect();
            assert_eq!(ended, expected, "{means:?}, {len} bytes");
        }
    }
}

/// Whoever waits for slots is woken when there are some, however the receiver takes its messages.
#[test]
fn floods() {
    let count: u32 = if cfg!(miri) { 150 } else { 20_000 };
    for len in [8, 40] {
        for means in Means::SHARED {
            let [mut a, mut b] = means.pair();
            thread::scope(|scope| {
                let sender = scope.spawn(move || {
                    let mut open = 0;
                    for number in 0..count {
                        let source = means.source(&*a, len, number as u8);
                        let sent = means.send(&mut *a, 1, tag(0, number % 4, 0), source, 1);
                        open += usize::from(sent == Posted::Pending);
                        // Sleeps whenever the lane is full and some more wait.
                        while open > 100 {
                            open -= next(&mut *a).len();
                        }
                    }
                    while open > 0 {
                        open -= next(&mut *a).len();
                    }
                    a
                });
                for number in 0..count {
                    let target = Region::zeroed(len);
                    let received = b.receive(0, tag(0, number % 4, 0), target.clone(), 1).unwrap();
                    b.flush();
                    if received == Posted::Pending {
                        assert_eq!(next(&mut *b), [done(1)]);
                    }
                    assert_eq!(bytes(&target), bytes(&pattern(len, number as u8)));
                }
                sender.join().unwrap();
            });
        }
    }
}

/// What a rank has put is read to the end, whatever becomes of it; only then its end is told.
#[test]
fn memory_outlives_its_rank() {
    const LONG: usize = if cfg!(miri) { 2000 } else { 70_000 };
    type End = fn(SharedMemory) -> Option<SharedMemory>;
    let ends: [(&str, End); 3] = [
        ("it has ended without closing its connections", |a| {
            drop(a);
            None
        }),
        ("it has closed its connections", |mut a| {
            a.close(soon());
            Some(a)
        }),
        ("it has aborted", |mut a| {
            a.abort(soon());
            Some(a)
        }),
    ];
    for (reason, end) in ends {
        let [mut a, mut b] = shared();
        assert_eq!(b.expect(tag(0, 0, 0), LONG, 1).unwrap(), Posted::Pending);
        for (message, len) in [(0, LONG), (1, 1000), (2, 8)] {
            let source = pooled(&a, len, message as u8);
            a.lend(1, 0, tag(0, message, 0), source, 1).unwrap();
        }
        let mut events = Vec::new();
        b.progress(&mut events);
        assert_eq!(events, [done(1)]);
        let first = b.arrived(1).unwrap();
        a.notify(1, b"last words");
        let ended = end(a);
        let told = Event::PeerFailed { peer: 0, reason: reason.to_owned() };
        assert_eq!(poll(&mut b), [Event::Notice { from: 0, payload: b"last words".to_vec() }, told]);
        assert_eq!(poll(&mut b), [], "once only");
        assert_eq!(bytes(&first.region), bytes(&pattern(LONG, 0)));
        let target = Region::zeroed(8);
        assert_eq!(b.receive(0, tag(0, 2, 0), target.clone(), 3).unwrap(), Posted::Complete);
        assert_eq!(bytes(&target), bytes(&pattern(8, 2)));
        assert_eq!(b.expect(tag(0, 1, 0), 1000, 2).unwrap(), Posted::Complete);
        let second = b.arrived(2).unwrap();
        // The region has a share in the memory, not only the transport.
        drop(ended);
        b.release(first);
        assert_eq!(bytes(&second.region), bytes(&pattern(1000, 1)));
        drop(b);
        assert_eq!(bytes(&second.region), bytes(&pattern(1000, 1)));
    }
}

/// Closing waits for slots, as long as it may.
#[test]
fn what_waits_for_slots_is_sent_before_closing() {
    for late in [false, true] {
        let [mut a, mut b] = shared();
        for number in 0..100 {
            a.send(1, 0, tag(0, number, 0), pattern(8, number as u8), 1).unwrap();
        }
        if late {
            a.close(Instant::now());
        } else {
            assert_eq!(b.receive(0, tag(0, 99, 0), Region::zeroed(8), 1).unwrap(), Posted::Pending);
            thread::scope(|scope| {
                scope.spawn(|| a.close(soon()));
                assert!(next(&mut b).contains(&done(1)));
            });
        }
        let arrived = (0..99).filter(|number| {
            b.receive(0, tag(0, *number, 0), Region::zeroed(8), 1).unwrap() == Posted::Complete
        });
        assert_eq!(arrived.count(), if late { 64 } else { 99 });
        for peer in [0, 1] {
            assert!(a.send(peer, 0, tag(0, 0, 0), pattern(8, 0), 1).is_err(), "it is closed");
        }
    }
}

/// What is sent from elsewhere is copied: the sender may use its memory again.
#[test]
fn a_copied_message_gives_its_memory_back_at_once() {
    let [mut a, mut b] = shared();
    let source = pattern(1000, 3);
    assert_eq!(a.send(1, 0, tag(0, 0, 0), source.clone(), 1).unwrap(), Posted::Complete);
    // SAFETY: the send is complete, and nobody else has the region.
    unsafe { source.copy_from(&Region::zeroed(1000)) };
    let target = Region::zeroed(1000);
    b.receive(0, tag(0, 0, 0), target.clone(), 2).unwrap();
    assert_eq!(bytes(&target), bytes(&pattern(1000, 3)));
}

/// Drives both until nothing happens any more; what has happened to each.
fn settle(a: &mut SharedMemory, b: &mut SharedMemory) -> [Vec<Event>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    while a.progress(&mut events[0]) | b.progress(&mut events[1]) {}
    events
}

/// What is long and elsewhere flows through the segment: its send ends when its receiver has come.
#[test]
fn long_messages_flow() {
    for len in [LONG - 1, LONG, LONG + 1, 3 * LONG, 3 * LONG + 12_345] {
        for (receive_first, expects) in [(true, false), (false, false), (true, true), (false, true)] {
            let case = format!("{len} bytes, receive first: {receive_first}, expects: {expects}");
            let [mut a, mut b] = shared();
            // Aligned as what is that long.
            let place = a.pool().unwrap().allocate(len).unwrap().as_ptr() as usize;
            let (source, target) = (pattern(len, 3), Region::zeroed(len));
            let post = |b: &mut SharedMemory| match expects {
                true => b.expect(tag(0, 1, 5), len, 2).unwrap(),
                false => b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap(),
            };
            let received = receive_first.then(|| post(&mut b));
            let sent = a.send(1, 0, tag(0, 1, 5), source.clone(), 1).unwrap();
            assert_eq!(sent == Posted::Pending, len >= LONG, "{case}");
            if !receive_first {
                assert_eq!(settle(&mut a, &mut b), [vec![], vec![]], "{case}: nobody has asked for it");
            }
            let received = received.unwrap_or_else(|| post(&mut b));
            assert_eq!(received == Posted::Complete, !receive_first && len < LONG, "{case}");
            let waited = |posted, number| if posted == Posted::Pending { vec![done(number)] } else { vec![] };
            assert_eq!(settle(&mut a, &mut b), [waited(sent, 1), waited(received, 2)], "{case}");
            let arrived = expects.then(|| b.arrived(2).unwrap());
            let found = arrived.as_ref().map_or(&target, |arrived| &arrived.region);
            assert!(bytes(found) == bytes(&source), "{case}");
            arrived.into_iter().for_each(|arrived| b.release(arrived));
            a.tidy();
            settle(&mut a, &mut b);
            assert!(is_free(&a, place, len), "{case}");
        }
    }
}

/// Messages that flow do not mix, with others or each other, and are matched in order.
#[test]
fn many_flows_at_once() {
    let seeds: Vec<u8> = (0..if cfg!(miri) { 4 } else { 12 }).collect();
    // Some fit a single parcel.
    let len = |seed: u8| if seed % 4 == 3 { 20 * usize::from(seed) } else { LONG + 7 * usize::from(seed) };
    for reverse in [false, true] {
        let [mut a, mut b] = shared();
        let (mut targets, mut open) = (Vec::new(), [0; 2]);
        for side in [0, 1] {
            let (from, to) = if side == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for seed in &seeds {
                // Two of each tag have to stay in order.
                let (tag, source) = (tag(side, u32::from(seed / 2), 0), pattern(len(*seed), *seed));
                let sent = from.send(1 - side, 0, tag, source, 1).unwrap();
                open[side] += usize::from(sent == Posted::Pending);
            }
            let mut order: Vec<&[u8]> = seeds.chunks(2).collect();
            if reverse {
                order.reverse();
            }
            for seed in order.concat() {
                let target = Region::zeroed(len(seed));
                to.receive(0, tag(side, u32::from(seed / 2), 0), target.clone(), 2).unwrap();
                targets.push((seed, target));
            }
        }
        let events = settle(&mut a, &mut b);
        for (events, open) in events.iter().zip(open) {
            assert_eq!(events.iter().filter(|event| **event == done(1)).count(), open);
        }
        for (seed, target) in targets {
            assert!(bytes(&target) == bytes(&pattern(len(seed), seed)), "{seed}, reverse: {reverse}");
        }
    }
}

/// A flow that does not fit is read to its end, and nothing of it is written.
#[test]
fn flows_that_do_not_fit() {
    let cases = [
        (tag(0, 1, 9), LONG, Failure::Check { found: tag(0, 1, 9) }),
        (tag(0, 1, 5), LONG + 8, Failure::Length { found: Some(LONG + 8), expected: LONG }),
    ];
    for (sent, len, failure) in cases {
        for receive_first in [true, false] {
            let [mut a, mut b] = shared();
            let target = Region::zeroed(LONG);
            let post = |b: &mut SharedMemory| b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap();
            if receive_first {
                post(&mut b);
            }
            a.send(1, 0, sent, pattern(len, 1), 1).unwrap();
            if !receive_first {
                assert_eq!(post(&mut b), Posted::Pending);
            }
            assert_eq!(settle(&mut a, &mut b), [vec![done(1)], vec![broken(2, failure.clone())]]);
            assert!(bytes(&target).iter().all(|byte| *byte == 0), "nothing was written");
        }
    }
}

/// Whoever waits for a part, or for room for one, sleeps and is woken.
#[test]
fn flows_wake_who_waits() {
    for late in [None, Some(0), Some(1)] {
        let [mut a, mut b] = shared();
        let len = 5 * LONG + 1;
        let target = Region::zeroed(len);
        let pause = |rank| {
            if late == Some(rank) {
                thread::sleep(Duration::from_millis(20));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                pause(0);
                assert_eq!(a.send(1, 0, tag(0, 1, 5), pattern(len, 9), 1).unwrap(), Posted::Pending);
                assert_eq!(next(&mut a), [done(1)]);
            });
            pause(1);
            b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap();
            assert_eq!(next(&mut b), [done(2)]);
        });
        assert!(bytes(&target) == bytes(&pattern(len, 9)), "late: {late:?}");
    }
}

/// A rank that leaves within a flow: the other is told, its receive does not end, and nothing is written any more once it
/// has given up itself.
#[test]
fn flows_that_end_early() {
    for sender_aborts in [true, false] {
        let [mut a, mut b] = shared();
        let (source, target) = (pattern(LONG, 9), Region::zeroed(LONG));
        a.send(1, 0, tag(0, 1, 5), source.clone(), 1).unwrap();
        assert_eq!(b.receive(0, tag(0, 1, 5), target.clone(), 2).unwrap(), Posted::Pending);
        let told = |peer| Event::PeerFailed { peer, reason: "it has aborted".to_owned() };
        if sender_aborts {
            a.abort(soon());
            assert_eq!(poll(&mut b), [told(0)]);
            assert_eq!(poll(&mut b), []);
        } else {
            b.abort(soon());
            let written = bytes(&target);
            assert!(poll(&mut a).contains(&told(1)));
            let mut events = Vec::new();
            b.progress(&mut events);
            assert_eq!(events, []);
            assert!(bytes(&target) == written);
        }
        drop((a, b));
    }
}

/// Parts of the pool never overlap, begin at cache lines or huge pages, and join when they are free.
#[test]
fn the_pool_hands_out_memory_of_its_own() {
    let transport = SharedMemory::group(1).unwrap().remove(0);
    let pool = transport.pool().unwrap();
    let first = pool.allocate(1).unwrap().as_ptr() as usize;
    let mut state = 12_345u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut held: Vec<(Region, u8)> = Vec::new();
    for round in 0..if cfg!(miri) { 60 } else { 2000 } {
        if held.len() < 20 || random(2) == 0 {
            let len = [1, 63, 64, 65, 1000, 70_000, 4 << 20][random(if cfg!(miri) { 5 } else { 7 })];
            let region = pool.allocate(len).unwrap();
            assert_eq!(region.as_ptr() as usize % if len >= 2 << 20 { 2 << 20 } else { 64 }, 0);
            assert!(pool.offset_of(&region).is_some() && region.len() == len);
            // Marked at both ends.
            for end in [region.part(0..1), region.part(len - 1..len)] {
                // SAFETY: it is new.
                unsafe { end.copy_from(&Region::of(&[round as u8])) };
            }
            held.push((region, round as u8));
        } else {
            let (region, mark) = held.swap_remove(random(held.len()));
            let len = region.len();
            assert_eq!(
                (bytes(&region.part(0..1)), bytes(&region.part(len - 1..len))),
                (vec![mark], vec![mark])
            );
        }
        let mut places: Vec<_> = held.iter().map(|(r, _)| (r.as_ptr() as usize, r.len())).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    }
    drop(held);
    assert_eq!(pool.allocate(1).unwrap().as_ptr() as usize, first, "all is free and in one piece");
    for bytes in [usize::MAX, usize::MAX - 100, isize::MAX as usize] {
        let error = pool.allocate(bytes).unwrap_err();
        assert!(error.contains(&format!("has no {bytes} bytes left")), "{error}");
    }
    assert_eq!(pool.offset_of(&pattern(100, 0)), None);
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
#[cfg_attr(miri, ignore = "takes minutes")]
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
    assert!(events.iter().all(|e| e.algorithm.is_none()), "nobody has said");
    assert!(events.windows(2).all(|pair| pair[0].start <= pair[1].start));
    assert!(events.iter().all(|e| e.end.is_none_or(|end| e.start <= end && end <= now)));
    assert_eq!(a.describe(), "in-process (2 threads, rendezvous from 64 bytes), traced");
    b.connect(0).unwrap();
    a.close(soon());
    drop(a);
    assert_eq!(next(&mut b).len(), 1, "the rest is passed on");
}
