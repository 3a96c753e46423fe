//! Injected faults look like real ones.

use super::{broken, bytes, done, next, pair, pattern, poll, soon, tag};
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::{Event, Failure, Posted, Transport};
use ringroad_testing::fault::{Fault, FaultInjector, Method, Pick, What};

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
    let complete = || Ok(Posted::Complete);
    let check = Failure::Check { found: tag(0, 0, 5), bytes: Some(8) };
    assert_eq!(sent(What::CorruptCheck), (complete(), vec![], vec![broken(2, check)]));
    let length = Failure::Length { found: Some(3), expected: 8 };
    assert_eq!(sent(What::Truncate(3)), (complete(), vec![], vec![broken(2, length)]));
    assert_eq!(sent(What::Drop), (complete(), vec![], vec![]));
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
    let fault = |method, what| Fault { method, peer: Some(1), pick: Pick::Nth(0), what };
    let (mut a, mut b) = faulty(&[fault(Method::Connect, What::FailPost), fault(Method::Notify, What::Drop)]);
    assert!(a.connect(1).is_err());
    a.connect(1).unwrap();
    a.notify(1, b"lost");
    a.notify(1, b"found");
    assert_eq!(next(&mut b), [Event::Notice { from: 0, payload: b"found".to_vec() }]);
    assert_eq!(a.describe().text, "in-process (2 threads, rendezvous from 64 bytes), with 2 faults injected");
}
