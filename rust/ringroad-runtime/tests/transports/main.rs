//! The transports that need no network: matching, eager and rendezvous, failures, wake-ups and faults.

mod faults;
mod shared;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::{SharedMemory, LONG};
use ringroad_runtime::transport::{
    Event, Failure, MessageKind, Posted, RequestId, Subject, Tag, Transport, Unclaimed,
};
use ringroad_testing::fault::FaultInjector;

/// More time than anything here takes. A test that waits this long fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn tag(source: Rank, message: u32, check: u32) -> Tag {
    Tag { source, kind: MessageKind::Collective, sequence: 7, message, check }
}

fn bytes(region: &Region) -> Vec<u8> {
    // SAFETY: the tests read a region only once its request has ended.
    unsafe { region.to_vec() }
}

/// The length, or a shorter one under Miri, which takes a thousand times as long.
fn long(len: usize) -> usize {
    if cfg!(miri) {
        len.min(2000)
    } else {
        len
    }
}

fn pattern(len: usize, seed: u8) -> Region {
    Region::from_slice(&(0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>())
}

fn poll(transport: &mut (impl Transport + ?Sized)) -> Vec<Event> {
    let mut events = Vec::new();
    let any = transport.progress(&mut events);
    assert!(any || events.is_empty());
    transport.inspect(None, &mut events);
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

/// The transport of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Mailboxes. Messages of at least this many bytes wait for their receiver.
    Mailboxes(usize),
    /// Shared memory; messages are sent from other memory.
    Copied,
    /// Shared memory; messages are sent from the segment.
    Pool,
    /// Shared memory; messages are sent from the segment without a copy.
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

    /// A message to send.
    fn source(self, transport: &mut dyn Transport, len: usize, seed: u8) -> Region {
        match self {
            Mailboxes(_) | Copied => pattern(len, seed),
            Pool | Lent => pooled(transport, len, seed),
        }
    }

    fn send(self, transport: &mut dyn Transport, peer: Rank, tag: Tag, source: Region, id: u64) -> Posted {
        let sent = match self {
            Lent => transport.local_memory().unwrap().send_zero_copy(peer, 0, tag, source, id),
            _ => transport.send(peer, 0, tag, source, id),
        };
        transport.flush();
        sent.unwrap()
    }

    /// Whether the send of a message that has no receive yet ends only after its receive has begun.
    fn waits(self, len: usize) -> bool {
        match self {
            Mailboxes(limit) => len >= limit,
            Copied | Lent => false,
            Pool => len > 32,
        }
    }
}

/// Memory that local ranks can read.
fn pooled(transport: &mut (impl Transport + ?Sized), len: usize, seed: u8) -> Region {
    let region = transport.local_memory().unwrap().pool().allocate(len).unwrap();
    // SAFETY: it is new.
    unsafe { region.copy_from(&pattern(len, seed)) };
    region
}

/// Blocks until something happens, as an engine does.
fn next(transport: &mut (impl Transport + ?Sized)) -> Vec<Event> {
    let waiter = transport.waiter();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let events = poll(transport);
        if !events.is_empty() {
            return events;
        }
        assert!(Instant::now() < deadline, "nothing happened");
        if transport.arm() {
            waiter.block(TEST_TIMEOUT);
        }
    }
}

fn soon() -> Instant {
    Instant::now() + TEST_TIMEOUT
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
            let (source, target) = (means.source(&mut *a, len, 3), Region::zeroed(len));
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
                let source = means.source(&mut *a, len, seed);
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
            // The message is there when the second receive is posted, but nobody has polled yet.
            let sources: Vec<Region> = (0..3).map(|seed| means.source(&mut *a, len, seed)).collect();
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

/// A shorter message between two ranks is at the start of the receive's memory, and its length is reported.
#[test]
fn shorter_messages_between_two_ranks_come() {
    const CALL: u32 = 77;
    let tag = Tag { check: 5, ..Tag::for_message(0, CALL) };
    for (found, len) in [(0, 8), (4, 64), (long(LONG), long(LONG) + 8)] {
        for means in [Mailboxes(0), Mailboxes(64), Copied, Pool, Lent] {
            for receive_first in [true, false] {
                let [mut a, mut b] = means.pair();
                let (target, mut received) = (Region::zeroed(len), Vec::new());
                if receive_first {
                    assert_eq!(b.receive(0, tag, target.clone(), 2).unwrap(), Posted::Pending);
                }
                let source = means.source(&mut *a, found, 1);
                let posted = means.send(&mut *a, 1, tag, source.clone(), 1);
                if !receive_first {
                    received.extend(poll(&mut *b));
                    let unclaimed = Some(Unclaimed { tag, bytes: found });
                    assert_eq!(b.unclaimed(Subject::new(None, Some(CALL))), unclaimed);
                    assert_eq!(b.unclaimed(Subject::new(Some(0), None)), unclaimed);
                    assert_eq!(b.unclaimed(Subject::new(Some(0), Some(CALL + 1))), None);
                    assert_eq!(b.receive(0, tag, target.clone(), 2).unwrap(), Posted::Pending);
                }
                let mut sent = Vec::new();
                while received.is_empty() || (posted == Posted::Pending && sent.is_empty()) {
                    received.extend(poll(&mut *b));
                    sent.extend(poll(&mut *a));
                }
                let length = Failure::Length { found: Some(found), expected: len };
                assert_eq!(received, [broken(2, length)], "{means:?}, {found} bytes");
                let (come, rest) = (bytes(&target.part(0..found)), bytes(&target.part(found..len)));
                assert!(come == bytes(&pattern(found, 1)) && rest.iter().all(|byte| *byte == 0), "{means:?}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_reported_to_the_receiver() {
    for len in [8, 64] {
        let other_call = |bytes| Failure::Check { found: tag(0, 1, 9), bytes: Some(bytes) };
        let wrong = |found| Failure::Length { found: Some(found), expected: len };
        let cases: [(Tag, usize, Failure); 5] = [
            (tag(0, 1, 9), len, other_call(len)),
            (tag(0, 1, 9), 4, other_call(4)),
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
                    let source = means.source(&mut *a, found, 1);
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
    // Both send before they receive, one after the other: this works only if sends complete at once.
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
            let source = means.source(&mut *a, len, 0);
            means.send(&mut *a, 1, tag, source, 1);
        };
        send(Tag { kind: MessageKind::PointToPoint, sequence: 8, ..tag(0, 0, 0) });
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
            b.inspect(None, &mut events);
            assert_eq!(events, [Event::Notice { from: 0, payload: payload.to_vec() }]);
            assert!(b.arm());
        }
    }
}

#[test]
fn there_are_no_other_ranks() {
    for (means, reason) in [
        (Mailboxes(64), "in-process: there is no rank 2 among 2 ranks"),
        (Copied, "shared memory: rank 2 shares no memory with this one"),
    ] {
        let [mut a, _b] = means.pair();
        assert_eq!(a.connect(2).unwrap_err().to_string(), reason);
        assert!(a.send(2, 0, tag(0, 0, 0), pattern(1, 0), 1).is_err());
        assert!(a.receive(0, tag(2, 0, 0), pattern(1, 0), 1).is_err());
        if let Some(memory) = a.local_memory() {
            assert!(memory.send_zero_copy(2, 0, tag(0, 0, 0), pattern(1, 0), 1).is_err());
            assert!(memory.expect(tag(2, 0, 0), 1, 1).is_err());
        }
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
        // The sender has waited for this.
        |b| b.receive(0, tag(0, 0, 0), Region::zeroed(40), 1).map(|_| ()).unwrap(),
    ];
    for means in [Mailboxes(0), Pool] {
        for cause in causes {
            for before in [true, false] {
                let [mut a, mut b] = means.pair();
                // A rank watches the ranks that it is connected to.
                a.connect(1).unwrap();
                let source = means.source(&mut *a, 40, 0);
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
                    waiter.block(TEST_TIMEOUT);
                } else {
                    thread::scope(|scope| {
                        scope.spawn(|| waiter.block(TEST_TIMEOUT));
                        act();
                    });
                }
                assert!(!poll(&mut *a).is_empty(), "{means:?}");
            }
        }
    }
}

#[test]
fn who_sleeps_is_woken_through_wrappers() {
    let [a, mut b]: [SharedMemory; 2] = SharedMemory::group(2).unwrap().try_into().ok().unwrap();
    let mut a = FaultInjector::new(FaultInjector::new(a, []), []);
    b.receive(0, tag(0, 0, 0), Region::zeroed(8), 1).unwrap();
    assert!(b.arm());
    let start = Instant::now();
    a.send(1, 0, tag(0, 0, 0), pattern(8, 0), 1).unwrap();
    a.flush();
    b.waiter().block(TEST_TIMEOUT);
    assert!(start.elapsed() < TEST_TIMEOUT);
    assert_eq!(poll(&mut b), [done(1)]);
}

#[test]
fn wake_ends_this_block_or_the_next() {
    for means in [Mailboxes(64), Copied] {
        let [a, _b] = means.pair();
        let waiter = a.waiter();
        let start = Instant::now();
        waiter.wake();
        waiter.block(TEST_TIMEOUT);
        thread::scope(|scope| {
            let (sleeping, asleep) = mpsc::channel();
            let waiter = &waiter;
            scope.spawn(move || {
                sleeping.send(()).unwrap();
                waiter.block(TEST_TIMEOUT);
            });
            asleep.recv().unwrap();
            waiter.wake();
        });
        assert!(start.elapsed() < TEST_TIMEOUT);
        if cfg!(miri) {
            continue; // Nobody really blocks.
        }
        let start = Instant::now();
        waiter.block(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1), "an old wake does not count again");
    }
}

/// All ranks send around a ring, in many rounds, and block each time: no wake-up may be lost.
fn ring(ranks: usize, rounds: u32, len: usize, means: Means) {
    let (ranks, rounds) = if cfg!(miri) { (ranks.min(3), 3) } else { (ranks, rounds) };
    thread::scope(|scope| {
        for (rank, mut transport) in means.group(ranks).into_iter().enumerate() {
            scope.spawn(move || {
                let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                for round in 0..rounds {
                    let target = Region::zeroed(len);
                    let received = transport.receive(0, tag(left, round, 0), target.clone(), 0).unwrap();
                    let source = means.source(&mut *transport, len, (rank as u32 + round) as u8);
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
                                // A rank that has finished closes; its messages have arrived.
                                Event::PeerFailed { .. } => {}
                                Event::Arrived { .. } | Event::Lacks { .. } | Event::Notice { .. } => {
                                    panic!("{event:?}")
                                }
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
