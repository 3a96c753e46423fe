//! Shared memory: messages that are read in place, that are copied, or that flow; and the pool.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{broken, bytes, done, long, next, pattern, poll, pooled, soon, tag, Means};
use ringroad_core::random::Random;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::shared::{SharedMemory, LONG};
use ringroad_runtime::transport::{
    Arrived, Event, Failure, LocalMemory, Posted, RequestId, Tag, Transport, TransportError,
};

fn shared() -> [SharedMemory; 2] {
    SharedMemory::group(2).unwrap().try_into().ok().unwrap()
}

/// The expected message, which must have come already.
fn taken(posted: Result<Posted, TransportError>) -> Arrived {
    match posted.unwrap() {
        Posted::Arrived(arrived) => arrived,
        posted => panic!("{posted:?}"),
    }
}

/// The expected message, which must be the only event.
fn came(events: Vec<Event>, number: RequestId) -> Arrived {
    match <[Event; 1]>::try_from(events) {
        Ok([Event::Arrived { request, arrived }]) if request == number => arrived,
        events => panic!("{events:?}"),
    }
}

/// Whether memory of the pool that was dropped is free again: the first free part with room is handed out.
fn is_free(transport: &mut SharedMemory, place: usize, len: usize) -> bool {
    transport.pool().allocate(len).unwrap().as_ptr() as usize == place
}

/// A message that is read in place: nothing is copied, and its memory is free when it has been released.
#[test]
fn messages_are_read_where_they_are() {
    for expect_first in [true, false] {
        for len in [33, 1000, long(300_000)] {
            let [mut a, mut b] = shared();
            let source = pooled(&mut a, len, 7);
            let place = source.as_ptr() as usize;
            if expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), len, 2).unwrap(), Posted::Pending);
            }
            assert_eq!(a.send_zero_copy(1, 0, tag(0, 1, 5), source, 1).unwrap(), Posted::Complete);
            let arrived =
                if expect_first { came(poll(&mut b), 2) } else { taken(b.expect(tag(0, 1, 5), len, 2)) };
            a.reclaim();
            assert!(!is_free(&mut a, place, len), "the receiver has not read it");
            assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 7)));
            // SAFETY: it has not been released, and nobody is reading it just now.
            unsafe { Region::foreign(place as *mut u8, len, Arc::new(())).copy_from(&pattern(len, 9)) };
            assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 9)), "it is no copy");
            b.release(arrived);
            a.reclaim();
            assert!(is_free(&mut a, place, len));
            assert_eq!((poll(&mut a), poll(&mut b)), (vec![], vec![]));
        }
    }
}

/// Memory that was not mapped when the ranks met: messages there are found, as a whole and in parts.
#[test]
#[cfg_attr(miri, ignore = "it knows no mappings")]
fn messages_are_found_where_the_segment_has_grown() {
    let [mut a, mut b] = shared();
    let far = a.pool().allocate(100 << 20).unwrap();
    let len = 70_000;
    for (round, place) in [0, (100 << 20) - len].into_iter().enumerate() {
        let source = far.part(place..place + len);
        // SAFETY: nobody else has it.
        unsafe { source.copy_from(&pattern(len, 7)) };
        let tag = tag(0, round as u32, 5);
        assert_eq!(a.send_zero_copy(1, 0, tag, source, 1).unwrap(), Posted::Complete);
        let arrived = taken(b.expect(tag, len, 2));
        assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 7)));
        b.release(arrived);
    }
    // No room is left in the part that was mapped first.
    let _near = a.pool().allocate(62 << 20).unwrap();
    let (source, target) = (pattern(2 * LONG, 3), Region::zeroed(2 * LONG));
    assert_eq!(a.send(1, 0, tag(0, 3, 5), source.clone(), 1).unwrap(), Posted::Pending);
    let posted = b.receive(0, tag(0, 3, 5), target.clone(), 2).unwrap();
    let mut events = Vec::new();
    while posted == Posted::Pending && !events.contains(&done(2)) {
        a.progress(&mut Vec::new());
        b.progress(&mut events);
        assert!(events.iter().all(|event| *event == done(2)), "{events:?}");
    }
    assert!(bytes(&target) == bytes(&source));
}

/// Memory that somebody may still be reading stays unchanged when its owner has gone.
#[test]
#[cfg_attr(miri, ignore = "it has no room for so much")]
fn what_was_sent_outlives_its_sender() {
    let [mut a, mut b] = shared();
    let len = 64 << 20;
    let source = a.pool().allocate_to_return(len).unwrap();
    // SAFETY: it is new.
    unsafe { source.copy_from(&pattern(len, 7)) };
    a.send_zero_copy(1, 0, tag(0, 1, 5), source, 1).unwrap();
    drop(a);
    assert!(bytes(&taken(b.expect(tag(0, 1, 5), len, 2)).region) == bytes(&pattern(len, 7)));
}

/// Short messages are within their descriptors; the memory that they are sent from is free at once.
#[test]
fn short_messages_are_expected_too() {
    for len in [0, 1, 32] {
        let [mut a, mut b] = shared();
        let source = pooled(&mut a, len, 7);
        let place = source.as_ptr() as usize;
        assert_eq!(a.send(1, 0, tag(0, 1, 5), source, 1).unwrap(), Posted::Complete);
        assert!(is_free(&mut a, place, len));
        let arrived = taken(b.expect(tag(0, 1, 5), len, 2));
        assert_eq!(bytes(&arrived.region), bytes(&pattern(len, 7)));
        b.release(arrived);
        assert_eq!((poll(&mut a), poll(&mut b)), (vec![], vec![]));
    }
}

/// Messages of the next call stay in the channel. Messages before them are delivered, and the end of a rank is reported.
#[test]
fn what_comes_before_the_next_call_is_heard() {
    fn heard(transport: &mut SharedMemory, next: u32) -> Vec<Event> {
        let mut events = Vec::new();
        transport.spin(tag(0, 1, 5));
        transport.inspect(Some(next), &mut events);
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

/// A rank that only sends and inspects puts the descriptors that waited for a slot, and reclaims memory that was read.
#[test]
fn who_only_hears_goes_on_sending() {
    let [mut a, mut b] = shared();
    let hear = |a: &mut SharedMemory| a.inspect(Some(100), &mut Vec::new());
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
    let free = |a: &mut SharedMemory| a.pool().allocate(len).unwrap().as_ptr() as usize;
    let first = free(&mut a);
    for number in 0..if cfg!(miri) { 20 } else { 600 } {
        assert_eq!(a.send(1, 0, tag(0, number, 0), pattern(len, 0), 1).unwrap(), Posted::Complete);
        assert_eq!(receive(&mut b, number, len), Posted::Complete);
        hear(&mut a);
    }
    assert!(free(&mut a) - first < 300 * 128, "what was read long ago is not taken back");
}

/// A send ends, and its memory is free, when its message has been released, whatever happens to other messages: plans
/// rely on that.
#[test]
fn releases_in_every_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for short_between in [false, true] {
            let [mut a, mut b] = shared();
            let sources = [0, 1, 2].map(|seed| pooled(&mut a, 100, seed));
            let place = sources[0].as_ptr() as usize;
            for (number, source) in sources.iter().enumerate() {
                let tag = tag(0, number as u32, 0);
                assert_eq!(a.send(1, 0, tag, source.clone(), number as u64).unwrap(), Posted::Pending);
                if short_between {
                    a.send(1, 0, Tag { message: tag.message + 10, ..tag }, pattern(8, 0), 50).unwrap();
                }
            }
            let mut arrived = [0, 1, 2].map(|number| Some(taken(b.expect(tag(0, number, 0), 100, 9))));
            for number in order {
                assert_eq!(poll(&mut a), []);
                b.release(arrived[number].take().unwrap());
                assert_eq!(poll(&mut a), [done(number as u64)]);
            }
            assert_eq!(poll(&mut a), []);
            drop(sources);
            a.reclaim();
            assert!(is_free(&mut a, place, 100));
        }
    }
}

/// An unmatched message holds up nothing else, in either direction.
#[test]
fn unclaimed_messages_hold_nobody_up() {
    for channels in [1, 2] {
        let [mut a, mut b] = shared();
        for source in 0..channels {
            let (from, to) = if source == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for message in 0..40 {
                let region = pooled(from, 100, message as u8);
                from.send(1 - source, 0, tag(source, message, 0), region, u64::from(message)).unwrap();
            }
            assert_eq!(poll(to), []);
        }
        for source in 0..channels {
            let (from, to) = if source == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for message in (1..40).rev() {
                let target = Region::zeroed(100);
                assert_eq!(to.receive(0, tag(source, message, 0), target, 99).unwrap(), Posted::Complete);
                assert_eq!(poll(from), [done(u64::from(message))]);
            }
        }
    }
}

/// A rank may be far behind one that only sends: the oldest unmatched message is found, whichever others were matched
/// since.
#[test]
fn the_oldest_of_many_unexpected_messages() {
    let [mut a, mut b] = shared();
    // Under Miri a rank that is further ahead is held up.
    let count = if cfg!(miri) { 30 } else { 1000 };
    let at = |call: u32| Tag { sequence: call, ..tag(0, 0, 0) };
    for call in 0..count {
        // Every call has two messages with one tag.
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
    // First the messages that are not the oldest.
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

/// A message that does not fit what was expected is reported, and its memory is free.
#[test]
fn what_is_expected_and_does_not_fit() {
    let other_call = |bytes| Failure::Check { found: tag(0, 1, 9), bytes: Some(bytes) };
    let cases = [
        (tag(0, 1, 9), 100, other_call(100)),
        (tag(0, 1, 9), 8, other_call(8)),
        (tag(0, 1, 5), 99, Failure::Length { found: Some(99), expected: 100 }),
        (tag(0, 1, 5), 8, Failure::Length { found: Some(8), expected: 100 }),
    ];
    for (sent, len, failure) in cases {
        for expect_first in [true, false] {
            let [mut a, mut b] = shared();
            if expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), 100, 2).unwrap(), Posted::Pending);
            }
            let source = pooled(&mut a, len, 7);
            let place = source.as_ptr() as usize;
            a.send_zero_copy(1, 0, sent, source, 1).unwrap();
            if !expect_first {
                assert_eq!(b.expect(tag(0, 1, 5), 100, 2).unwrap(), Posted::Pending);
            }
            assert_eq!(poll(&mut b), [broken(2, failure.clone())]);
            a.reclaim();
            assert!(is_free(&mut a, place, len));
        }
    }
}

/// Messages that find a slot in the channel are sent. Others wait for one, and so do their sends.
#[test]
fn more_messages_than_slots() {
    for len in [8, 40] {
        for means in Means::SHARED {
            let [mut a, mut b] = means.pair();
            let count = if cfg!(miri) { 130 } else { 300 };
            let mut open = 0;
            for number in 0..count {
                let source = means.source(&mut *a, len, number as u8);
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
            // Sends of messages that are read in place end in the order of reading.
            ended.sort_by_key(|event| match event {
                Event::Completed { request, .. } => *request,
                event => panic!("{event:?}"),
            });
            let expected: Vec<Event> = (count - open..count).map(|number| done(u64::from(number))).collect();
            assert_eq!(ended, expected, "{means:?}, {len} bytes");
        }
    }
}

/// A rank that waits for slots is woken when there are some, however the receiver takes its messages.
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
                        let source = means.source(&mut *a, len, number as u8);
                        let sent = means.send(&mut *a, 1, tag(0, number % 4, 0), source, 1);
                        open += usize::from(sent == Posted::Pending);
                        // Sleeps whenever the channel is full and some more messages wait.
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

/// All messages that a rank has put are read, whatever happens to it; only then its end is reported.
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
            let source = pooled(&mut a, len, message as u8);
            a.send_zero_copy(1, 0, tag(0, message, 0), source, 1).unwrap();
        }
        let mut events = Vec::new();
        b.progress(&mut events);
        let first = came(events, 1);
        a.notify(1, b"last words");
        let ended = end(a);
        let told = Event::PeerFailed { peer: 0, reason: reason.to_owned() };
        assert_eq!(poll(&mut b), [Event::Notice { from: 0, payload: b"last words".to_vec() }, told]);
        assert_eq!(poll(&mut b), [], "once only");
        assert_eq!(bytes(&first.region), bytes(&pattern(LONG, 0)));
        let target = Region::zeroed(8);
        assert_eq!(b.receive(0, tag(0, 2, 0), target.clone(), 3).unwrap(), Posted::Complete);
        assert_eq!(bytes(&target), bytes(&pattern(8, 2)));
        let second = taken(b.expect(tag(0, 1, 0), 1000, 2));
        // The region also owns the memory, not only the transport.
        drop(ended);
        b.release(first);
        assert_eq!(bytes(&second.region), bytes(&pattern(1000, 1)));
        drop(b);
        assert_eq!(bytes(&second.region), bytes(&pattern(1000, 1)));
    }
}

/// Closing waits for slots until its deadline.
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

/// Messages from other memory are copied: the sender may use its memory again.
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

/// Drives both until nothing happens any more; returns the events of each.
fn settle(a: &mut SharedMemory, b: &mut SharedMemory) -> [Vec<Event>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    while a.progress(&mut events[0]) | b.progress(&mut events[1]) {}
    events
}

/// Long messages from other memory flow through the segment: their sends end when their receivers have come.
#[test]
fn long_messages_flow() {
    for len in [LONG - 1, LONG, LONG + 1, 3 * LONG, 3 * LONG + 12_345] {
        for (receive_first, expects) in [(true, false), (false, false), (true, true), (false, true)] {
            let case = format!("{len} bytes, receive first: {receive_first}, expects: {expects}");
            let [mut a, mut b] = shared();
            // Aligned like memory of this length.
            let place = a.pool().allocate(len).unwrap().as_ptr() as usize;
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
            assert_eq!(received != Posted::Pending, !receive_first && len < LONG, "{case}");
            let [sent_events, received_events] = settle(&mut a, &mut b);
            assert_eq!(sent_events, if sent == Posted::Pending { vec![done(1)] } else { vec![] }, "{case}");
            let arrived = match received {
                Posted::Pending if expects => Some(came(received_events, 2)),
                Posted::Pending => {
                    assert_eq!(received_events, [done(2)], "{case}");
                    None
                }
                received => {
                    assert_eq!(received_events, [], "{case}");
                    expects.then(|| taken(Ok(received)))
                }
            };
            let found = arrived.as_ref().map_or(&target, |arrived| &arrived.region);
            assert!(bytes(found) == bytes(&source), "{case}");
            arrived.into_iter().for_each(|arrived| b.release(arrived));
            a.reclaim();
            settle(&mut a, &mut b);
            assert!(is_free(&mut a, place, len), "{case}");
        }
    }
}

/// Messages that flow do not mix with others or with each other, and are matched in order.
#[test]
fn many_flows_at_once() {
    let seeds: Vec<u8> = (0..if cfg!(miri) { 4 } else { 12 }).collect();
    // Some fit a single descriptor.
    let len = |seed: u8| if seed % 4 == 3 { 20 * usize::from(seed) } else { LONG + 7 * usize::from(seed) };
    for reverse in [false, true] {
        let [mut a, mut b] = shared();
        let (mut targets, mut open) = (Vec::new(), [0; 2]);
        for side in [0, 1] {
            let (from, to) = if side == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            for seed in &seeds {
                // Two messages of each tag have to stay in order.
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

/// A flow that does not fit its receive is read to its end, and nothing of it is written.
#[test]
fn flows_that_do_not_fit() {
    let cases = [
        (tag(0, 1, 9), LONG, Failure::Check { found: tag(0, 1, 9), bytes: Some(LONG) }),
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

/// A rank that waits for a part, or for memory for one, sleeps and is woken.
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

/// A rank leaves in the middle of a flow: the other is notified, its receive does not end, and nothing more is
/// written once it has aborted itself.
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

/// Parts of the pool never overlap, begin at cache lines or huge pages, and are joined when they are free.
#[test]
fn the_pool_hands_out_memory_of_its_own() {
    let mut transport = SharedMemory::group(1).unwrap().remove(0);
    let pool = transport.pool();
    let first = pool.allocate(1).unwrap().as_ptr() as usize;
    let mut numbers = Random::new(12_345);
    let mut random = |below: usize| numbers.below(below);
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
                unsafe { end.copy_from(&Region::from_slice(&[round as u8])) };
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
