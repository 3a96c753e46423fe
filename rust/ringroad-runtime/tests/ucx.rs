//! The UCX transport between real processes. Each test starts two children, which are this binary again with a
//! scenario's name in the environment, over every installed UCX, over shared memory and tcp, with one device and with
//! two, as rails and as cables. The children find each other through files. Every wait is bounded.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::processes::{self, now};
use ringroad_core::Topology;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::ucx::{UcxSettings, UcxTransport};
use ringroad_runtime::transport::{
    Carrier, Event, Failure, Lack, MessageKind, Posted, RequestId, Tag, Transport, TransportError,
};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use ucx_sys::{load, LoadOptions};

const VARIABLE: &str = "RINGROAD_TEST_UCX_CHILD";
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const DETECTION: Duration = Duration::from_secs(5);
const SHM: &str = "posix,cma,self";
const TCP: &str = "tcp,self";
const ALL: &str = "posix,cma,self,tcp";
/// UCX's transports, and the network devices of the ports if there are several, with the word that says whether they
/// are cabled. With [`SHM`] lo would not be found.
const MEANS: [(&str, &str); 6] =
    [(SHM, ""), (TCP, ""), (ALL, "lo,lo"), (TCP, "lo,lo"), (ALL, "cabled lo,lo"), (TCP, "cabled lo,lo")];

/// The name, what each of the two ranks does, and whether rank 1 dies of it.
type Scenario = (&'static str, fn(&mut Peer), bool);

const SCENARIOS: &[Scenario] = &[
    ("ping_pong", ping_pong, false),
    ("orders", orders, false),
    ("many", many, false),
    ("mismatches", mismatches, false),
    ("notices", notices, false),
    ("blocking", blocking, false),
    ("killed_before_any_message", killed_before_any_message, true),
    ("killed_while_received_from", killed_while_received_from, true),
    ("killed_while_sent_to", killed_while_sent_to, true),
    ("killed_within_a_message", killed_within_a_message, true),
    ("killed_with_a_child", killed_with_a_child, true),
    ("last_words", last_words, true),
    ("abort", abort, false),
    ("abort_within_a_message", abort_within_a_message, false),
    ("abort_without_time", abort_without_time, false),
    ("close", close, false),
    ("goodbyes", goodbyes, false),
    ("notice_behind_messages", notice_behind_messages, false),
    ("strangers", strangers, false),
    ("ports", ports, false),
    ("shortage", shortage, false),
];

macro_rules! scenarios {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)); })* };
}

mod two_processes {
    use super::run;
    scenarios! {
        ping_pong orders many mismatches notices blocking killed_before_any_message
        killed_while_received_from killed_while_sent_to killed_within_a_message killed_with_a_child last_words abort
        abort_within_a_message abort_without_time close goodbyes notice_behind_messages
        strangers ports shortage
    }
}

// ---- What the ranks do ----

fn ping_pong(peer: &mut Peer) {
    for (round, size) in [0, 1, 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20].into_iter().enumerate() {
        let tag = peer.tag(round as u32, 0, 7);
        if peer.rank == 0 {
            peer.send_bytes(tag, &pattern(size, 3));
            peer.expect_bytes(tag, &pattern(size, 5));
        } else {
            peer.expect_bytes(tag, &pattern(size, 3));
            peer.send_bytes(tag, &pattern(size, 5));
        }
    }
    let described = peer.transport.describe().text;
    println!("{described}");
    let ours = if peer.tls == TCP { "tcp" } else { "posix" };
    let other = if peer.tls == TCP { "posix" } else { "tcp" };
    // UCX 1.13 lists only what was allowed.
    let known = !described.contains("(of ");
    assert!(
        described.contains(ours) && !(known && described.contains(other)),
        "{described} with {}",
        peer.tls
    );
    assert_eq!(described.contains("ports lo, lo)"), peer.ports == 2, "{described}");
    assert_eq!(described.contains("; cabled ports"), peer.cabled, "{described}");
    let error = peer.transport.connect(peer.rank).unwrap_err();
    assert_eq!(error.reason, format!("rank {} cannot connect to itself", peer.rank));
}

/// Receives that are posted before the messages come, after that, and in another order than the messages come in.
fn orders(peer: &mut Peer) {
    const SIZES: [usize; 4] = [8, 4 << 10, 64 << 10, 4 << 20];
    for (sequence, early) in [(0, true), (1, false)] {
        for (message, size) in SIZES.into_iter().enumerate() {
            let (message, tag) = (message as u32, peer.tag(sequence, message as u32, 9));
            if peer.rank == 0 {
                let target = Region::zeroed(size);
                let posted = early.then(|| peer.receive(tag, target.clone()));
                peer.barrier(&format!("posted{sequence}.{message}"));
                peer.barrier(&format!("sent{sequence}.{message}"));
                if !early {
                    peer.until("the message is seen", |peer| {
                        peer.transport.unexpected(1, sequence).is_some()
                    });
                    assert_eq!(peer.transport.unexpected(1, sequence), Some(tag));
                    assert_eq!(peer.transport.unexpected(1, sequence + 1), None);
                }
                let request = posted.unwrap_or_else(|| peer.receive(tag, target.clone()));
                peer.finish(request).unwrap();
                assert!(content(&target) == pattern(size, message), "wrong content");
                assert_eq!(peer.transport.unexpected(1, sequence), None);
            } else {
                peer.barrier(&format!("posted{sequence}.{message}"));
                let request = peer.send(tag, Region::from_slice(&pattern(size, message)));
                peer.barrier(&format!("sent{sequence}.{message}"));
                peer.finish(request).unwrap();
            }
        }
    }
    let tags = [2, 0, 1].map(|message| peer.tag(2, message, 0));
    for tag in tags {
        if peer.rank == 0 {
            peer.expect_bytes(tag, &pattern(100, tag.message));
        }
    }
    if peer.rank == 1 {
        for message in 0..3 {
            peer.send_bytes(peer.tag(2, message, 0), &pattern(100, message));
        }
    }
}

/// Many requests in flight at once, in both directions.
fn many(peer: &mut Peer) {
    const COUNT: u32 = 400;
    let size = |message: u32| [8, 3000, 40_000, 300_000][message as usize % 4];
    let mut requests = Vec::new();
    let targets: Vec<_> = (0..COUNT).map(|message| Region::zeroed(size(message))).collect();
    for message in 0..COUNT {
        let tag = Tag { source: 1 - peer.rank, ..peer.tag(0, message, 1) };
        requests.push(peer.receive(tag, targets[message as usize].clone()));
        let tag = Tag { source: peer.rank, ..tag };
        requests.push(peer.send(tag, Region::from_slice(&pattern(size(message), message))));
    }
    for request in requests {
        peer.finish(request).unwrap();
    }
    for message in 0..COUNT {
        assert!(content(&targets[message as usize]) == pattern(size(message), message));
    }
}

/// Messages of other lengths and of other calls than expected.
fn mismatches(peer: &mut Peer) {
    // (sent, expected) in bytes, with equal and with different checks; late and early receives.
    let lengths =
        [(8, 8), (4, 8), (16, 8), (0, 8), (8, 0), (20_000, 8), (4 << 20, 1 << 20), (1 << 20, 4 << 20)];
    let mut sequence = 0;
    for (sent, expected) in lengths {
        for (agree, late) in [(true, true), (true, false), (false, true), (false, false)] {
            sequence += 1;
            let tag = peer.tag(sequence, 5, if agree { 77 } else { 78 });
            if peer.rank == 1 {
                if late {
                    peer.barrier(&format!("posted{sequence}"));
                }
                let request = peer.send(tag, Region::from_slice(&pattern(sent, 1)));
                // A send whose receiver gets an error may fail or not.
                let _ = peer.finish(request);
                peer.barrier(&format!("sent{sequence}"));
            } else {
                if !late {
                    peer.until("the message is there", |peer| {
                        peer.transport.unexpected(1, sequence).is_some()
                    });
                }
                let request = peer.receive(Tag { check: 77, ..tag }, Region::zeroed(expected));
                if late {
                    peer.barrier(&format!("posted{sequence}"));
                }
                let found = peer.finish(request);
                let case = format!("{sent} for {expected} bytes, agree {agree}, late {late}");
                match found {
                    Ok(()) => assert!(agree && sent == expected, "{case}"),
                    Err(Failure::Check { found, bytes }) => {
                        assert!(!agree && bytes.is_none_or(|bytes| bytes == sent), "{case}: {bytes:?}");
                        assert_eq!(found, tag);
                    }
                    Err(Failure::Length { found, expected: told }) => {
                        assert!(agree && sent != expected && told == expected, "{case}");
                        assert!(found.is_none_or(|found| found == sent), "{case}: found {found:?}");
                        if found.is_none() {
                            println!("{case}: length unknown");
                        }
                    }
                    Err(Failure::Broken(reason) | Failure::Memory(reason)) => panic!("{case}: {reason}"),
                }
                peer.barrier(&format!("sent{sequence}"));
            }
        }
    }
}

/// Notices arrive without a receive, beside messages, and are found by `inspect` only.
fn notices(peer: &mut Peer) {
    let payloads = [b"rank 1 is out".to_vec(), Vec::new(), pattern(3000, 0)];
    let tag = peer.tag(0, 0, 0);
    if peer.rank == 1 {
        for payload in &payloads {
            peer.transport.notify(0, payload);
        }
        peer.send_bytes(tag, &[1]);
        peer.until_barrier("heard");
    } else {
        peer.expect_bytes(tag, &[1]);
        assert_eq!(peer.notices, Vec::<(usize, Vec<u8>)>::new(), "progress does not look for notices");
        peer.inspect = true;
        peer.until("the notices come", |peer| peer.notices.len() == 3);
        assert_eq!(peer.notices, payloads.map(|payload| (1, payload)));
        peer.barrier("heard");
    }
}

fn blocking(peer: &mut Peer) {
    for round in 0..4 {
        let tag = peer.tag(0, round, 0);
        peer.barrier(&format!("round{round}"));
        if peer.rank == 1 {
            // Long enough for the other rank to block. If it is not, the test still passes.
            std::thread::sleep(Duration::from_millis(100));
            peer.send_bytes(tag, &[1; 8]);
            continue;
        }
        let request = peer.receive(tag, Region::zeroed(8));
        let (start, mut blocked) = (Instant::now(), 0);
        while !peer.done.contains_key(&request) {
            if !peer.step() && peer.transport.arm() {
                blocked += 1;
                peer.transport.waiter().block(Duration::from_secs(20));
            }
        }
        println!("blocked {blocked} times, for {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(10), "the message did not wake");
        // The peer does not accept connections meanwhile.
        let most = 200 + 2 * start.elapsed().as_millis();
        assert!(blocked < most, "woken {blocked} times, which is no rest");
    }
    peer.barrier("woken by messages");
    if peer.rank == 0 {
        let waiter = peer.transport.waiter();
        let waker = waiter.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            waker.wake();
        });
        peer.until("armed", |peer| peer.transport.arm());
        let start = Instant::now();
        waiter.block(Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10), "wake did not wake");
        thread.join().unwrap();
        // The wake-up is used up. An event of UCX may end this block early, so there is nothing to assert.
        waiter.block(Duration::from_millis(20));
    }
}

fn killed_before_any_message(peer: &mut Peer) {
    peer.transport.connect(1 - peer.rank).unwrap();
    peer.barrier("connected");
    if peer.rank == 1 {
        peer.die();
    }
    peer.receive(Tag { source: 1, ..peer.tag(0, 0, 0) }, Region::zeroed(8));
    peer.sees_death();
}

fn killed_while_received_from(peer: &mut Peer) {
    ping_pong(peer);
    let tag = Tag { source: 1, ..peer.tag(99, 0, 0) };
    if peer.rank == 0 {
        peer.receive(tag, Region::zeroed(1 << 20));
    }
    peer.barrier("posted");
    if peer.rank == 1 {
        peer.die();
    }
    peer.sees_death();
    peer.is_refused(tag);
}

fn killed_while_sent_to(peer: &mut Peer) {
    peer.transport.connect(1 - peer.rank).unwrap();
    peer.barrier("connected");
    let tag = peer.tag(99, 0, 0);
    if peer.rank == 1 {
        peer.until("something comes", |peer| peer.transport.unexpected(0, 99).is_some());
        peer.die();
    }
    let mut requests = Vec::new();
    for message in 0..40 {
        let size = if message % 2 == 0 { 8 } else { 1 << 20 };
        let region = Region::zeroed(size);
        requests.push(peer.send(Tag { source: 0, message, ..tag }, region));
    }
    peer.sees_death();
    peer.is_refused(Tag { source: 1, ..tag });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) && requests.iter().any(|r| !peer.done.contains_key(r)) {
        peer.step();
    }
    let ended = requests.iter().filter(|request| peer.done.contains_key(request)).count();
    let broken = peer.done.values().find(|result| result.is_err());
    println!("{ended} of 40 sends ended in {:?}, like {broken:?}", start.elapsed());
}

fn killed_within_a_message(peer: &mut Peer) {
    let tag = Tag { source: 1, ..peer.tag(99, 0, 0) };
    let size = 256 << 20;
    peer.transport.connect(1 - peer.rank).unwrap();
    let region = Region::zeroed(size);
    peer.barrier("connected");
    if peer.rank == 1 {
        peer.send(tag, region);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(10) {
            peer.step();
        }
        peer.die();
    }
    let request = peer.receive(tag, region);
    peer.sees_death();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) && !peer.done.contains_key(&request) {
        peer.step();
    }
    println!("the receive, after {:?}: {:?}", start.elapsed(), peer.done.get(&request));
    let start = Instant::now();
    peer.transport.abort(start + Duration::from_secs(2));
    println!("aborted in {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_millis(2500));
}

/// A child of the dead rank lives on, and holds the descriptors that the dead rank had open.
fn killed_with_a_child(peer: &mut Peer) {
    let tag = peer.tag(0, 0, 0);
    if peer.rank == 1 {
        peer.send_bytes(tag, &[1]);
        // SAFETY: the child makes only calls that a child may make, and ends by itself.
        unsafe {
            if libc::fork() == 0 {
                // The parent's output ends with the parent.
                (0..3).for_each(|descriptor| _ = libc::close(descriptor));
                libc::sleep(20);
                libc::_exit(0);
            }
        }
        peer.die();
    }
    peer.expect_bytes(tag, &[1]);
    peer.sees_death();
}

/// A message that arrived before its sender failed can still be received.
fn last_words(peer: &mut Peer) {
    let tag = Tag { source: 1, ..peer.tag(99, 0, 0) };
    peer.transport.connect(1 - peer.rank).unwrap();
    if peer.rank == 1 {
        peer.send_bytes(tag, &pattern(100, 4));
        peer.until_barrier("arrived");
        peer.die();
    }
    peer.until("the message is there", |peer| peer.transport.unexpected(1, 99).is_some());
    peer.until_barrier("arrived");
    peer.sees_death();
    peer.expect_bytes(tag, &pattern(100, 4));
    peer.is_refused(tag);
}

fn abort(peer: &mut Peer) {
    peer.transport.connect(1 - peer.rank).unwrap();
    peer.barrier("connected");
    if peer.rank == 1 {
        // Neither receives nor makes progress: the worst peer that is alive.
        peer.barrier("aborted");
        peer.observe(Duration::from_secs(1));
        return;
    }
    let owner = Arc::new(());
    let tag = peer.tag(1, 0, 0);
    for message in 0..10 {
        peer.receive(Tag { source: 1, message, ..tag }, owned(1 << 20, &owner));
        peer.send(Tag { source: 0, message, ..tag }, owned(4 << 20, &owner));
        peer.send(Tag { source: 0, message: 100 + message, ..tag }, owned(4 << 10, &owner));
    }
    peer.ends("abort", Duration::from_secs(3), |transport, deadline| transport.abort(deadline));
    println!("{} regions of 30 leaked", Arc::strong_count(&owner) - 1);
    peer.barrier("aborted");
}

fn abort_within_a_message(peer: &mut Peer) {
    abort_receiving(peer, Duration::from_secs(3));
}

/// The deadline passes while the message is being received: its memory stays, and the process survives.
fn abort_without_time(peer: &mut Peer) {
    abort_receiving(peer, Duration::from_millis(10));
}

fn abort_receiving(peer: &mut Peer, limit: Duration) {
    peer.transport.connect(1 - peer.rank).unwrap();
    let owner = Arc::new(());
    let tag = Tag { source: 1, ..peer.tag(1, 0, 0) };
    let region = owned(512 << 20, &owner);
    peer.barrier("connected");
    if peer.rank == 0 {
        peer.receive(tag, region);
    } else {
        peer.send(tag, region);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(10) {
        peer.step();
    }
    if peer.rank == 0 {
        peer.ends("abort", limit, |transport, deadline| transport.abort(deadline));
        println!("{} regions of 1 leaked", Arc::strong_count(&owner) - 1);
        peer.barrier("aborted");
    } else {
        peer.until_barrier("aborted");
        peer.observe(Duration::from_secs(1));
        peer.ends("abort", limit, |transport, deadline| transport.abort(deadline));
        println!("{} regions of 1 leaked by the sender", Arc::strong_count(&owner) - 1);
    }
}

/// Messages that were sent before `close` arrive, and a receive without a message does not delay it.
fn close(peer: &mut Peer) {
    let tag = peer.tag(0, 0, 0);
    let size = 4 << 20;
    if peer.rank == 0 {
        peer.send(Tag { source: 0, ..tag }, Region::from_slice(&pattern(size, 6)));
        peer.send(Tag { source: 0, message: 1, ..tag }, Region::from_slice(&pattern(8, 6)));
        peer.receive(Tag { source: 1, message: 9, ..tag }, Region::zeroed(8));
        peer.ends("close", Duration::from_secs(3), |transport, deadline| transport.close(deadline));
        peer.barrier("closed");
    } else {
        peer.expect_bytes(Tag { source: 0, ..tag }, &pattern(size, 6));
        peer.until_barrier("closed");
        peer.expect_bytes(Tag { source: 0, message: 1, ..tag }, &pattern(8, 6));
        peer.observe(Duration::from_secs(1));
        peer.ends("close", Duration::from_secs(3), |transport, deadline| transport.close(deadline));
    }
}

/// A rank that leaves says so, over shared memory too, and as its last message.
fn goodbyes(peer: &mut Peer) {
    let tag = peer.tag(0, 0, 0);
    peer.inspect = true;
    if peer.rank == 1 {
        peer.send_bytes(tag, &[1]);
        peer.until_barrier("heard");
        peer.transport.notify(0, b"bye");
        peer.send_bytes(Tag { message: 1, ..tag }, &[2]);
        peer.ends("close", Duration::from_secs(3), |transport, deadline| transport.close(deadline));
        // The peer's process is still alive.
        peer.barrier("gone");
    } else {
        peer.expect_bytes(tag, &[1]);
        peer.until_barrier("heard");
        peer.until("the goodbye comes", |peer| !peer.failed.is_empty());
        assert_eq!(peer.failed.len(), 1, "{:?}", peer.failed);
        assert_eq!(peer.failed[0].0, 1);
        assert_eq!(peer.notices, [(1, b"bye".to_vec())]);
        peer.expect_bytes(Tag { message: 1, ..tag }, &[2]);
        let error = peer.transport.connect(1).unwrap_err();
        assert!(error.reason.starts_with("rank 1 has failed"), "{error}");
        peer.barrier("gone");
    }
}

/// `inspect` finds a notice behind many messages.
fn notice_behind_messages(peer: &mut Peer) {
    const COUNT: u32 = 40;
    let tags: Vec<Tag> = (0..=COUNT).map(|message| peer.tag(0, message, 0)).collect();
    // By one port, which the first message connects.
    let expect = |peer: &mut Peer, tag: Tag| {
        let request = peer.receive_by(1, tag, Region::zeroed(1));
        peer.finish(request).unwrap();
    };
    if peer.rank == 1 {
        for (number, tag) in tags.into_iter().enumerate() {
            let request = peer.send_by(1, tag, Region::zeroed(1));
            peer.finish(request).unwrap();
            if number == 0 {
                peer.until_barrier("connected");
            }
        }
        peer.transport.notify(0, b"fire");
        peer.observe(Duration::from_millis(50));
        peer.barrier("told");
        peer.until_barrier("heard");
    } else {
        expect(peer, tags[0]);
        peer.until_barrier("connected");
        peer.barrier("told");
        let mut events = Vec::new();
        peer.transport.inspect(None, &mut events);
        assert!(matches!(&events[..], [Event::Notice { from: 1, .. }]), "{events:?}");
        tags[1..].iter().for_each(|tag| expect(peer, *tag));
        peer.until_barrier("heard");
    }
}

/// Messages that no rank can have sent are dropped, and a rank that sends notices that are too long counts as failed.
fn strangers(peer: &mut Peer) {
    let tag = peer.tag(0, 0, 0);
    peer.inspect = true;
    if peer.rank == 1 {
        let ghost = Tag { source: 77, ..tag };
        for tag in [ghost, Tag { kind: MessageKind::Control, ..ghost }, Tag { source: 0, ..tag }] {
            peer.send_as(tag, 100_000);
        }
        peer.send_bytes(tag, &[1]);
        peer.until_barrier("heard");
        peer.send_as(Tag { kind: MessageKind::Control, ..tag }, 2 << 20);
        peer.until_barrier("refused");
    } else {
        peer.until("a message is seen", |peer| peer.transport.oldest_unexpected().is_some());
        assert_eq!(peer.transport.oldest_unexpected(), Some(tag));
        peer.expect_bytes(tag, &[1]);
        assert_eq!(peer.transport.oldest_unexpected(), None);
        assert_eq!((peer.failed.len(), peer.notices.len()), (0, 0));
        peer.until_barrier("heard");
        peer.until("the notice is refused", |peer| !peer.failed.is_empty());
        let message = &peer.failed[0].1;
        assert!(message.contains("notice of kind 0 and 2097152 bytes"), "{message}");
        assert_eq!(peer.notices, []);
        peer.until_barrier("refused");
    }
}

/// A message is received by the port that it was sent by, and the oldest message is found on every device.
fn ports(peer: &mut Peer) {
    let (last, first) = (peer.tag(Tag::SEQUENCES - 1, 0, 1), peer.tag(0, 0, 2));
    if peer.rank == 1 {
        for (tag, port) in [(last, 1), (first, 2), (last, 0)] {
            let request = peer.send_by(port, tag, Region::from_slice(&pattern(100, port as u32)));
            peer.finish(request).unwrap();
            peer.until_barrier(&format!("sent{port}"));
            peer.until_barrier(&format!("seen{port}"));
        }
        return;
    }
    peer.until_barrier("sent1");
    peer.until("the first message is seen", |peer| peer.transport.oldest_unexpected() == Some(last));
    peer.until_barrier("seen1");
    peer.until_barrier("sent2");
    peer.until("the second message is seen", |peer| peer.transport.unexpected(1, 0) == Some(first));
    assert_eq!(peer.transport.oldest_unexpected(), Some(last));
    let targets = [0, 1, 2].map(|_| Region::zeroed(100));
    let even = peer.receive_by(0, last, targets[0].clone());
    if peer.ports == 2 {
        peer.observe(Duration::from_millis(50));
        assert!(!peer.done.contains_key(&even), "the message of port 1 came to port 0");
    }
    let odd = peer.receive_by(3, last, targets[1].clone());
    let other = peer.receive_by(4, first, targets[2].clone());
    peer.finish(other).unwrap();
    peer.until_barrier("seen2");
    peer.finish(odd).unwrap();
    peer.until_barrier("sent0");
    peer.finish(even).unwrap();
    let mut expected = [0, 1, 2].map(|port| pattern(100, port));
    if peer.ports == 1 {
        // On one device the messages of one tag come in the order in which they were sent.
        expected.swap(0, 1);
    }
    assert!(targets.each_ref().map(content) == expected);
    assert_eq!(peer.transport.oldest_unexpected(), None);
    peer.until_barrier("seen0");
}

/// A rank that has no descriptors or memory for a connection blames itself, lives, and connects once it has some.
fn shortage(peer: &mut Peer) {
    if peer.rank == 0 {
        let tag = peer.tag(0, 0, 0);
        for (resource, least, lacked) in
            [(Resource::Nofile, 0, "ulimit -n"), (Resource::As, 1 << 20, "ulimit -v")]
        {
            let limits = getrlimit(resource);
            setrlimit(resource, Rlimit { current: Some(least), ..limits }).unwrap();
            let errors = [
                peer.transport.connect(1).unwrap_err(),
                peer.transport.send(1, 0, Tag { source: 0, ..tag }, Region::nothing(), 1).unwrap_err(),
                peer.transport.receive(0, tag, Region::nothing(), 1).unwrap_err(),
            ];
            setrlimit(resource, limits).unwrap();
            for error in errors {
                assert!(error.lacks == Some(Lack::Connection) && error.reason.contains(lacked), "{error}");
            }
        }
        assert!(!peer.step() && peer.failed.is_empty());
    }
    peer.barrier("refused");
    ping_pong(peer);
}

// ---- A rank ----

struct Peer {
    rank: usize,
    tls: String,
    ports: usize,
    cabled: bool,
    directory: PathBuf,
    transport: UcxTransport,
    inspect: bool,
    next: RequestId,
    events: Vec<Event>,
    done: HashMap<RequestId, Result<(), Failure>>,
    notices: Vec<(usize, Vec<u8>)>,
    failed: Vec<(usize, String)>,
}

impl Peer {
    fn join(rank: usize, tls: &str, ports: &str, library: &str, directory: &Path) -> Peer {
        let explicit = (library != "system").then(|| library.into());
        let ucx = load(&LoadOptions { explicit, environment: true, ..Default::default() }).unwrap();
        let (cabled, ports) = ports.strip_prefix("cabled ").map_or((false, ports), |devices| (true, devices));
        let topology = if cabled { Topology::ring(2) } else { Topology::switch(2) };
        let ports: Vec<String> =
            ports.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let count = ports.len().max(1);
        let settings = UcxSettings { tls: Some(tls.to_owned()), ports, ..Default::default() };
        let mut transport = UcxTransport::new(ucx, rank, 2, settings, Vec::new()).unwrap();
        let addresses = transport.addresses();
        assert_eq!(addresses.len(), count);
        publish(directory, &format!("addresses{rank}"), &serde_json::to_vec(&addresses).unwrap());
        let addresses = [0, 1].map(|rank| {
            let path = directory.join(format!("addresses{rank}"));
            let bytes = wait_for("an address", || std::fs::read(&path).ok());
            serde_json::from_slice(&bytes).unwrap()
        });
        transport.set_addresses(addresses.into(), &topology.unwrap()).unwrap();
        let (done, notices, failed) = Default::default();
        let (tls, directory) = (tls.to_owned(), directory.to_owned());
        Peer {
            rank,
            tls,
            ports: count,
            cabled,
            directory,
            transport,
            inspect: false,
            next: 0,
            events: vec![],
            done,
            notices,
            failed,
        }
    }

    /// `send` and `receive` fill in the source.
    fn tag(&self, sequence: u32, message: u32, check: u32) -> Tag {
        Tag { source: 1, kind: MessageKind::Collective, sequence, message, check }
    }

    /// Messages take the ports in turn. A single message does not use the device of the notices.
    fn send(&mut self, tag: Tag, source: Region) -> RequestId {
        self.send_by(tag.message as usize + 1, tag, source)
    }

    fn receive(&mut self, tag: Tag, target: Region) -> RequestId {
        self.receive_by(tag.message as usize + 1, tag, target)
    }

    fn send_by(&mut self, port: usize, tag: Tag, source: Region) -> RequestId {
        self.next += 1;
        let tag = Tag { source: self.rank, ..tag };
        let posted = self.transport.send(1 - self.rank, port, tag, source, self.next);
        self.posted(posted)
    }

    fn receive_by(&mut self, port: usize, tag: Tag, target: Region) -> RequestId {
        self.next += 1;
        let tag = Tag { source: 1 - self.rank, ..tag };
        let posted = self.transport.receive(port, tag, target, self.next);
        self.posted(posted)
    }

    fn posted(&mut self, posted: Result<Posted, TransportError>) -> RequestId {
        if posted.unwrap() == Posted::Complete {
            self.done.insert(self.next, Ok(()));
        }
        self.next
    }

    /// Sends `bytes` bytes with any tag, and ignores what happens to them.
    fn send_as(&mut self, tag: Tag, bytes: usize) {
        self.next += 1;
        let posted = self.transport.send(1 - self.rank, 1, tag, Region::zeroed(bytes), self.next);
        self.posted(posted);
    }

    fn send_bytes(&mut self, tag: Tag, bytes: &[u8]) {
        let request = self.send(tag, Region::from_slice(bytes));
        self.finish(request).unwrap();
    }

    fn expect_bytes(&mut self, tag: Tag, bytes: &[u8]) {
        let target = Region::zeroed(bytes.len());
        let request = self.receive(tag, target.clone());
        self.finish(request).unwrap();
        assert!(content(&target) == bytes, "wrong content");
    }

    fn finish(&mut self, request: RequestId) -> Result<(), Failure> {
        self.until("a request ends", |peer| peer.done.contains_key(&request));
        self.done.remove(&request).unwrap()
    }

    fn step(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        let mut busy = self.transport.progress(&mut events);
        if self.inspect {
            self.transport.inspect(None, &mut events);
        }
        for event in events.drain(..) {
            busy = true;
            match event {
                Event::Completed { request, result } => {
                    assert!(self.done.insert(request, result).is_none(), "request {request} ended twice");
                }
                Event::PeerFailed { peer, reason } => self.failed.push((peer, reason)),
                Event::Arrived { .. } | Event::Lacks { .. } => panic!("never here: {event:?}"),
                Event::Notice { from, payload } => self.notices.push((from, payload)),
            }
        }
        self.events = events;
        busy
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Peer) -> bool) {
        let (start, mut idle) = (Instant::now(), 0);
        while !done(self) {
            assert!(start.elapsed() < TEST_TIMEOUT, "rank {}: no sign that {what}", self.rank);
            idle = if self.step() { 0 } else { idle + 1 };
            if idle > 500 && self.transport.arm() {
                self.transport.waiter().block(Duration::from_millis(20));
            }
        }
    }

    fn barrier_entered(&self, name: &str) -> impl Fn() -> Option<()> {
        publish(&self.directory, &format!("{name}.{}", self.rank), b"");
        let other = self.directory.join(format!("{name}.{}", 1 - self.rank));
        move || other.exists().then_some(())
    }

    /// Waits for the other rank without any progress of the transport.
    fn barrier(&self, name: &str) {
        wait_for(name, self.barrier_entered(name));
    }

    /// Waits for the other rank with progress.
    fn until_barrier(&mut self, name: &str) {
        let entered = self.barrier_entered(name);
        self.until(name, |_| entered().is_some());
    }

    fn die(&self) -> ! {
        publish(&self.directory, "death", now().as_nanos().to_string().as_bytes());
        processes::die()
    }

    fn sees_death(&mut self) {
        self.until("the other's death is seen", |peer| !peer.failed.is_empty());
        let death = std::fs::read_to_string(self.directory.join("death")).unwrap();
        let after = now() - Duration::from_nanos(death.parse().unwrap());
        println!("seen after {after:?}: {:?}", self.failed);
        assert!(after < DETECTION, "seen after {after:?} only");
        self.observe(Duration::from_millis(100));
        assert!(self.failed.len() == 1 && self.failed[0].0 == 1, "{:?}", self.failed);
        let told = self.failed[0].1.contains(" by device lo");
        assert!(told || self.ports == 1, "{:?}", self.failed);
    }

    fn is_refused(&mut self, tag: Tag) {
        let tag = Tag { sequence: tag.sequence + 1, ..tag };
        let errors = [
            self.transport.send(1, 0, Tag { source: 0, ..tag }, Region::zeroed(8), 1).unwrap_err(),
            self.transport.send(1, 1, Tag { source: 0, ..tag }, Region::zeroed(8), 1).unwrap_err(),
            self.transport.receive(0, tag, Region::zeroed(8), 1).unwrap_err(),
            self.transport.receive(1, tag, Region::zeroed(8), 1).unwrap_err(),
            self.transport.connect(1).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().starts_with("ucx: rank 1 has failed: "), "{error}");
        }
        self.transport.notify(1, b"nobody hears this");
    }

    /// Polls for a while and prints what happens.
    fn observe(&mut self, time: Duration) {
        let (start, known) = (Instant::now(), self.failed.len());
        while start.elapsed() < time {
            if !self.step() && self.transport.arm() {
                self.transport.waiter().block(Duration::from_millis(20));
            }
        }
        if self.failed.len() > known {
            println!("rank {} sees {:?}", self.rank, &self.failed[known..]);
        }
    }

    fn ends(&mut self, how: &str, limit: Duration, end: impl Fn(&mut UcxTransport, Instant)) {
        let start = Instant::now();
        end(&mut self.transport, start + limit);
        println!("rank {}: {how} took {:?}", self.rank, start.elapsed());
        assert!(start.elapsed() < limit + Duration::from_millis(500));
        let tag = self.tag(0, 0, 0);
        let error = self.transport.receive(0, tag, Region::zeroed(8), 1).unwrap_err();
        assert_eq!(error.to_string(), "ucx: the transport has been closed");
        assert!(!self.transport.progress(&mut Vec::new()));
        self.transport.notify(1 - self.rank, b"x");
        self.transport.abort(Instant::now());
    }
}

fn pattern(size: usize, seed: u32) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}

fn content(region: &Region) -> Vec<u8> {
    // SAFETY: called when no request for the region is in flight.
    unsafe { region.to_vec() }
}

/// A region whose memory is alive as long as the region has a share in `owner`.
fn owned(size: usize, owner: &Arc<()>) -> Region {
    let inner = Region::zeroed(size);
    let keep = Arc::new((inner.clone(), owner.clone()));
    // SAFETY: the memory of `inner`, which the owner keeps.
    unsafe { Region::foreign(inner.as_ptr(), size, keep) }
}

fn publish(directory: &Path, name: &str, bytes: &[u8]) {
    let partial = directory.join(format!("{name}.partial"));
    std::fs::write(&partial, bytes).unwrap();
    std::fs::rename(partial, directory.join(name)).unwrap();
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TEST_TIMEOUT, "no sign of {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

// ---- The parent ----

/// The body of every child. Does nothing if it runs as an ordinary test.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Ok(value) = std::env::var(VARIABLE) else { return };
    let [scenario, rank, tls, ports, library, directory] = value.split('|').collect::<Vec<_>>()[..] else {
        panic!("{VARIABLE}={value}")
    };
    let rank = rank.parse().unwrap();
    let mut peer = Peer::join(rank, tls, ports, library, Path::new(directory));
    let (_, body, _) = SCENARIOS.iter().find(|(name, ..)| *name == scenario).unwrap();
    body(&mut peer);
    peer.until_barrier("finished");
    println!("child finished");
}

fn run(scenario: &str) {
    // One pair at a time: there may be only two cores.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let index = SCENARIOS.iter().position(|(name, ..)| *name == scenario).unwrap();
    for (number, (tls, ports)) in MEANS.into_iter().enumerate() {
        // Rails over both transports and over tcp alone take turns, and so do cables.
        if !ports.is_empty() && number % 2 != index % 2 && !processes::full() {
            continue;
        }
        // Each means of its kind with another library.
        for (name, library) in processes::libraries_for(number + number / 2) {
            // UCX 1.13 may end the process (wireup_ep.c:241) if a peer dies while several connections to it are made.
            // A communicator's first barrier makes sure that they are made.
            if scenario == "killed_before_any_message" && name == "system" && !ports.is_empty() {
                continue;
            }
            match &library {
                Ok(library) => run_pair(scenario, name, library, tls, ports),
                Err(reason) => processes::skip(&format!("{scenario} ({name}, {tls})"), reason),
            }
        }
    }
}

fn run_pair(scenario: &str, name: &str, library: &str, tls: &str, ports: &str) {
    let &(_, _, dies) = SCENARIOS.iter().find(|(name, ..)| *name == scenario).unwrap();
    let unique = format!("ringroad-ucx-{}-{scenario}-{name}-{}", std::process::id(), now().as_nanos());
    let directory = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&directory).unwrap();
    let start = |rank: usize| {
        let mut child = processes::child();
        child.env(VARIABLE, format!("{scenario}|{rank}|{tls}|{ports}|{library}|{}", directory.display()));
        child
    };
    if dies {
        // A survivor must not wait for the dead rank at the end.
        std::fs::write(directory.join("finished.1"), b"").unwrap();
    }
    let ended = processes::run(vec![start(0), start(1)], 2 * TEST_TIMEOUT);
    let _ = std::fs::remove_dir_all(&directory);
    let case = format!("{scenario}, {name}, {tls}, ports {ports:?}");
    println!("== {case}\n{}{}", ended[0].1, ended[1].1);
    assert!(ended[0].0, "{case}: rank 0 failed");
    assert!(ended[1].0 != dies, "{case}: rank 1 {}", if dies { "lived" } else { "failed" });
}
