//! Invariants of plans.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringroad_core::plan::{Buffer, Command, Span};
use ringroad_core::{Plan, Rank};

/// The most operations of a plan for which the quadratic checks run.
const SMALL: usize = 400;

/// The spans that a command reads, and those that it writes.
fn accesses(plan: &Plan, command: &Command) -> (Vec<Span>, Vec<Span>) {
    match *command {
        Command::Send { source, .. } => (vec![source], vec![]),
        Command::Receive { target, .. } => (vec![], vec![target]),
        Command::Expect { arrival, bytes, .. } => {
            (vec![], vec![Span::new(Buffer::Arrived(arrival), 0, bytes)])
        }
        Command::Release { arrival } => (vec![], vec![Span::new(Buffer::Arrived(arrival), 0, EVERYTHING)]),
        Command::Reduce { target, sources, also } => {
            (plan.sources(sources).to_vec(), std::iter::once(target).chain(also).collect())
        }
        Command::Copy { target, source } | Command::Premultiply { target, source } => {
            (vec![source], vec![target])
        }
        Command::Average { target } => (vec![target], vec![target]),
        Command::Encode { target, source, kept } => {
            (vec![source], std::iter::once(target).chain(kept).collect())
        }
        Command::Decode { target, left, source } => {
            (std::iter::once(source).chain(left).collect(), vec![target])
        }
    }
}

/// The length of the span that a release touches: it comes after everything that reads the message, whatever its
/// length.
const EVERYTHING: usize = usize::MAX;

pub fn overlap(a: Span, b: Span) -> bool {
    let nonempty = a.bytes > 0 && b.bytes > 0;
    nonempty
        && a.buffer == b.buffer
        && a.offset < b.offset.saturating_add(b.bytes)
        && b.offset < a.offset.saturating_add(a.bytes)
}

/// Checks one rank's plan. `sizes` are the bytes of input and output. `parted`: the vector is processed in several
/// parts, so that steps are repeated.
pub fn check_plan(plan: &Plan, sizes: [usize; 2], longest_message: usize, parted: bool) {
    let mut waits: Vec<Vec<u32>> = vec![Vec::new(); plan.operations().len()];
    let mut peers = BTreeSet::new();
    let mut next: HashMap<(Rank, bool), u32> = HashMap::new();
    let mut last_step = 0;
    let mut arrived: Vec<usize> = Vec::new();
    let mut released = BTreeSet::new();
    for (number, operation) in (0u32..).zip(plan.operations()) {
        assert!(last_step <= operation.step || parted, "steps come in order");
        last_step = operation.step;
        plan.dependents(number).iter().for_each(|d| waits[*d as usize].push(number));
        assert!(
            plan.dependents(number).iter().all(|d| *d > number),
            "{number} is only waited for by later ones"
        );

        let (reads, writes) = accesses(plan, &operation.command);
        match operation.command {
            Command::Expect { arrival, bytes, .. } => {
                assert!(bytes > 0 && arrival as usize == arrived.len(), "{operation:?}");
                arrived.push(bytes);
            }
            Command::Release { arrival } => {
                assert!((arrival as usize) < arrived.len() && released.insert(arrival), "{operation:?}");
                continue;
            }
            _ => {}
        }
        let spans: Vec<Span> = reads.iter().chain(&writes).copied().collect();
        for span in &spans {
            let size = match span.buffer {
                Buffer::Input => sizes[0],
                Buffer::Output => sizes[1],
                Buffer::Scratch => plan.scratch(),
                Buffer::Arrived(arrival) => {
                    assert!(!released.contains(&arrival), "{operation:?}");
                    arrived[arrival as usize]
                }
            };
            assert!(
                span.offset + span.bytes <= size,
                "{operation:?} within {sizes:?} and {}",
                plan.scratch()
            );
            let is_codec = matches!(operation.command, Command::Encode { .. } | Command::Decode { .. });
            assert!(is_codec || span.bytes == spans[0].bytes, "{operation:?}");
        }
        for target in &writes {
            assert_ne!(target.buffer, Buffer::Input, "{operation:?} writes the input");
            assert!(reads.iter().all(|read| read == target || !overlap(*read, *target)), "{operation:?}");
        }
        if let Command::Reduce { also: Some(also), target, .. } = operation.command {
            assert_eq!(also.buffer, Buffer::Scratch, "{operation:?}");
            assert!(reads.iter().chain([&target]).all(|span| !overlap(*span, also)), "{operation:?}");
        }
        if let Command::Reduce { .. } = operation.command {
            let apart = |(i, a): (usize, &Span)| reads[..i].iter().all(|b| !overlap(*a, *b));
            assert!(reads.len() > 1 && reads.iter().enumerate().all(apart), "{operation:?}");
        } else if !matches!(operation.command, Command::Expect { .. }) {
            let foreign = |target: &Span| matches!(target.buffer, Buffer::Arrived(_));
            assert!(!writes.iter().any(foreign), "{operation:?} writes a peer's memory");
        }
        if let Command::Send { peer, message, .. }
        | Command::Receive { peer, message, .. }
        | Command::Expect { peer, message, .. } = operation.command
        {
            peers.insert(peer);
            assert!(spans[0].bytes <= longest_message, "{operation:?} has more than {longest_message} bytes");
            let expected = next.entry((peer, writes.is_empty())).or_default();
            assert_eq!(message, *expected, "{operation:?}");
            *expected += 1;
        }
    }
    assert_eq!(released.len(), arrived.len(), "every arrived message is released");
    assert_eq!(plan.arrivals(), arrived.len());
    assert!(plan.peers().iter().eq(&peers), "{:?} {peers:?}", plan.peers());
    assert!(plan.pending().iter().map(|p| *p as usize).eq(waits.iter().map(Vec::len)));
    check_what_stays(plan);
    if plan.operations().len() <= SMALL {
        check_dependencies(plan, &waits);
    }
}

/// The sources of sends with `stays` are in scratch memory, and nothing writes them later.
fn check_what_stays(plan: &Plan) {
    // The end of each stretch of scratch memory that stays, by its start; no two overlap.
    let mut staying: BTreeMap<usize, usize> = BTreeMap::new();
    for operation in plan.operations() {
        for write in accesses(plan, &operation.command).1 {
            let end = write.offset.saturating_add(write.bytes);
            let last = staying.range(..end).next_back();
            assert!(
                write.bytes == 0
                    || write.buffer != Buffer::Scratch
                    || last.is_none_or(|(_, end)| *end <= write.offset),
                "{operation:?} writes what stays"
            );
        }
        if let Command::Send { source, stays: true, .. } = operation.command {
            assert_eq!(source.buffer, Buffer::Scratch, "{operation:?}");
            let (mut start, mut end) = (source.offset, source.offset + source.bytes);
            while let Some((&first, &last)) = staying.range(..=end).next_back().filter(|(_, l)| **l >= start)
            {
                staying.remove(&first);
                (start, end) = (start.min(first), end.max(last));
            }
            if start < end {
                staying.insert(start, end);
            }
        }
    }
}

/// The slow twin of the hazards: operations that touch the same bytes, at least one of them writing, are ordered, and
/// there are no other dependencies. (A superfluous dependency may cause a deadlock.)
fn check_dependencies(plan: &Plan, waits: &[Vec<u32>]) {
    let operations = plan.operations();
    let touched: Vec<_> = operations.iter().map(|o| accesses(plan, &o.command)).collect();
    let mut before: Vec<Vec<bool>> = Vec::new();
    for (later, waits) in waits.iter().enumerate() {
        let mut reached = vec![false; later];
        for wait in waits {
            reached[*wait as usize] = true;
            before[*wait as usize]
                .iter()
                .enumerate()
                .filter(|(_, b)| **b)
                .for_each(|(i, _)| reached[i] = true);
        }
        let (reads, writes) = &touched[later];
        for earlier in 0..later {
            let (earlier_reads, earlier_writes) = &touched[earlier];
            let meet =
                |some: &[Span], others: &[Span]| some.iter().any(|a| others.iter().any(|b| overlap(*a, *b)));
            let conflict =
                meet(earlier_writes, reads) || meet(earlier_reads, writes) || meet(earlier_writes, writes);
            let (a, b) = (&operations[earlier], &operations[later]);
            assert!(!conflict || reached[earlier], "nothing orders {earlier} {a:?} and {later} {b:?}");
            let waits = waits.contains(&(earlier as u32));
            assert!(conflict || !waits, "{later} {b:?} waits for {earlier} {a:?} for no reason");
        }
        before.push(reached);
    }
}

/// Both sides of every message agree on its number and its bytes.
pub fn check_messages(plans: &[&Plan]) {
    let mut sent = HashMap::new();
    let mut received = HashMap::new();
    for (rank, plan) in plans.iter().enumerate() {
        for operation in plan.operations() {
            match operation.command {
                Command::Send { peer, port, message, source, .. } => {
                    sent.insert((rank, peer, message), (source.bytes, port, operation.step));
                }
                Command::Receive { peer, port, message, target } => {
                    received.insert((peer, rank, message), (target.bytes, port, operation.step));
                }
                Command::Expect { peer, port, message, bytes, .. } => {
                    received.insert((peer, rank, message), (bytes, port, operation.step));
                }
                _ => {}
            }
        }
    }
    assert_eq!(sent, received);
}
