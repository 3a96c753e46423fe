//! Tests that nothing which a peer has written into its segment, by mistake or on purpose, is used unchecked.

use super::channel::{Counters, Descriptor, DescriptorForm, INLINE};
use super::cma::PRIVATE;
use super::flow::{LONG, PART};
use super::SharedMemory;
use crate::transport::buffer::Region;
use crate::transport::{Event, LocalMemory, MessageKind, Posted, Tag, Transport};

fn pair() -> [SharedMemory; 2] {
    SharedMemory::group(2).unwrap().try_into().ok().unwrap()
}

fn tag(source: usize, kind: MessageKind) -> u64 {
    Tag { source, kind, sequence: 1, message: 2, check: 3 }.pack()
}

fn descriptor(tag: u64, form: DescriptorForm, bytes: usize, place: u64) -> Descriptor {
    let mut descriptor = Descriptor::new(tag, form, bytes);
    descriptor.place = place;
    descriptor
}

/// The events that rank 0 reports after several polls, when rank 1 has put these descriptors.
fn told(descriptors: &[Descriptor]) -> Vec<Event> {
    let [mut ours, theirs] = pair();
    theirs.home.open_channel_to(0).unwrap();
    for (number, descriptor) in descriptors.iter().enumerate() {
        theirs.home.channel_to(0).put(number as u64, descriptor);
    }
    looks(&mut ours)
}

fn looks(transport: &mut SharedMemory) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..3 {
        transport.progress(&mut events);
        transport.inspect(None, &mut events);
    }
    events
}

/// Checks that rank 1 has been reported as failed exactly once, for what it has written.
#[track_caller]
fn check(events: &[Event], what: &str) {
    match events {
        [Event::PeerFailed { peer: 1, reason }] => {
            assert!(reason.contains("invalid data"), "{what}: {reason}")
        }
        _ => panic!("{what}: {events:?}"),
    }
}

#[test]
fn descriptors_that_make_no_sense_are_refused() {
    let (ours, notice) = (tag(1, MessageKind::Collective), tag(1, MessageKind::Control));
    let end = pair()[1].home.segment.len() as u64;
    let flow = descriptor(ours, DescriptorForm::Flow, LONG, 4096);
    let cases: &[(&str, &[Descriptor])] = &[
        ("beyond the end", &[descriptor(ours, DescriptorForm::Segment, 100, end - 99)]),
        ("a sum that wraps", &[descriptor(ours, DescriptorForm::Segment, 100, u64::MAX - 50)]),
        (
            "a long sum that wraps",
            &[descriptor(ours, DescriptorForm::Segment, (1 << 61) - 1, u64::MAX - (1 << 61) + 4097)],
        ),
        ("a length beyond its slot", &[descriptor(ours, DescriptorForm::Inline, INLINE + 1, 0)]),
        ("a flow at the end", &[descriptor(ours, DescriptorForm::Flow, LONG, end - PART as u64 + 1)]),
        ("a short flow", &[descriptor(ours, DescriptorForm::Flow, PART - 1, 4096)]),
        ("a part of nothing", &[descriptor(7, DescriptorForm::Part, PART, 4096)]),
        ("a part beyond the end", &[flow, descriptor(0, DescriptorForm::Part, PART, end)]),
        ("a part that is too long", &[flow, descriptor(0, DescriptorForm::Part, PART + 1, 4096)]),
        ("a part of no bytes", &[flow, descriptor(0, DescriptorForm::Part, 0, 4096)]),
        ("private memory that wraps", &[descriptor(ours, DescriptorForm::Cma, PRIVATE, u64::MAX - 5)]),
        ("a release of what was never sent", &[descriptor(0, DescriptorForm::Release, 0, 3)]),
        ("somebody else's tag", &[descriptor(tag(0, MessageKind::Collective), DescriptorForm::Inline, 4, 0)]),
        ("nobody's tag", &[descriptor(tag(9000, MessageKind::PointToPoint), DescriptorForm::Inline, 4, 0)]),
        ("an endless notice", &[descriptor(notice, DescriptorForm::Segment, end as usize - 4096, 4096)]),
        ("a notice that flows", &[descriptor(notice, DescriptorForm::Flow, LONG, 4096)]),
        ("a notice in private memory", &[descriptor(notice, DescriptorForm::Cma, 100, 4096)]),
        ("no form", &[Descriptor::with_length(ours, u64::MAX)]),
    ];
    for (what, descriptors) in cases {
        check(&told(descriptors), what);
    }
}

/// Each part fits, but together they are longer than the whole.
#[test]
fn parts_beyond_the_whole_are_refused() {
    let mut descriptors = vec![descriptor(tag(1, MessageKind::Collective), DescriptorForm::Flow, LONG, 4096)];
    descriptors.resize(LONG / PART + 1, descriptor(0, DescriptorForm::Part, PART, 4096));
    check(&told(&descriptors), "a part after the last");
}

#[test]
fn counters_ahead_of_what_was_sent_are_refused() {
    let [taken, released]: [fn(&Counters); 2] =
        [|counters| counters.free_slots(1 << 40), |counters| counters.release(1 << 40)];
    for (what, write) in [("taken", taken), ("released", released)] {
        let [mut ours, theirs] = pair();
        write(theirs.home.counters_for(0));
        for request in 0..100 {
            let posted =
                ours.send(1, 0, Tag::unpack(tag(0, MessageKind::Collective)), Region::zeroed(100), request);
            assert!(matches!(posted, Ok(Posted::Complete | Posted::Pending)), "{what}");
        }
        ours.reclaim();
        check(&looks(&mut ours), what);
    }
}

/// Messages before an invalid descriptor are delivered.
#[test]
fn earlier_messages_are_taken() {
    let [mut ours, mut theirs] = pair();
    theirs
        .send(0, 0, Tag::unpack(tag(1, MessageKind::Collective)), Region::from_slice(&[7_u8; 100]), 1)
        .unwrap();
    theirs.home.channel_to(0).put(1, &descriptor(7, DescriptorForm::Segment, 100, u64::MAX));
    let target = Region::zeroed(100);
    let posted = ours.receive(0, Tag::unpack(tag(1, MessageKind::Collective)), target.clone(), 2).unwrap();
    assert_eq!(posted, Posted::Complete);
    check(&looks(&mut ours), "a flaw after a message");
    // SAFETY: nobody writes it any more.
    assert_eq!(unsafe { target.to_vec::<u8>() }, [7; 100]);
}
