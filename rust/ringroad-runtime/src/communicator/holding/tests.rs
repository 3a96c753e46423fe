//! Votes and looks, by what really follows the network's changes.

use super::*;
use crate::bootstrap::EndpointInfo;
use crate::choice::options::Options;
use crate::config::Config;
use crate::network::Follower;

const HOUR: Duration = Duration::from_secs(3600);

/// Two ranks, as if on two hosts, that vote before their next call.
fn about_to_vote(timeout: Duration, want_to_look: bool) -> Vec<Communicator> {
    let options = Options { timeout: Some(timeout), ..Options::default() };
    let mut group = Communicator::in_process(2, &Config::default(), &options).unwrap();
    let mut endpoints = group[0].endpoints().to_vec();
    for endpoint in &mut endpoints {
        let EndpointInfo { rank, net_space, adaptation, .. } = endpoint;
        (*net_space, *adaptation) = (format!("host {rank}"), Some(Duration::from_millis(10)));
    }
    for one in &mut group {
        one.endpoints = Arc::new(endpoints.clone());
        one.means = Some(Arc::default());
        let follower = Follower::for_group(one.group().unwrap()).unwrap();
        follower.vote_next(want_to_look);
        one.follow(Arc::new(follower)).unwrap();
    }
    group
}

fn allreduce(value: i64) -> Request {
    let operation = Operation::Collective(Collective::Allreduce);
    Request::new(operation, DType::I64, 1, Memory::from_slice(&[value]), Memory::zeroed(8))
}

/// All starts are made by one thread: none of them may wait for another rank.
#[test]
fn starting_a_call_waits_for_nobody() {
    for want_to_look in [false, true] {
        let group = about_to_vote(HOUR, want_to_look);
        let start = |rank: usize, request: Request| {
            let work = group[rank].start(request).unwrap();
            work.let_proceed();
            work
        };
        // Many more calls than would have been held if rank 1 had come at once.
        let first: Vec<_> = (0..2000).map(|value| start(0, allreduce(value))).collect();
        assert!(first.iter().all(|work| !work.is_completed()), "rank 1 has made no call");
        let message = |operation, input, output| Request::new(operation, DType::I64, 1, input, output);
        let send = Operation::Send { peer: 1, tag: 0 };
        start(0, message(send, Memory::from_slice(&[7_i64]), Memory::nothing())).wait().unwrap();
        let receive = Operation::Receive { peer: 0, tag: 0 };
        let received = start(1, message(receive, Memory::nothing(), Memory::zeroed(8))).finish().unwrap();
        assert_eq!(received.to_vec::<i64>(), [7]);
        let second: Vec<_> = (0..2000).map(|value| start(1, allreduce(value))).collect();
        for (value, work) in first.into_iter().chain(second).enumerate() {
            assert_eq!(work.finish().unwrap().to_vec::<i64>(), [2 * (value as i64 % 2000)]);
        }
        // Each vote has a number, too, and so have the calls by which the ranks look.
        let numbers: Vec<u64> = group.iter().map(|one| one.state.lock().calls).collect();
        assert!(numbers[0] > 2000 && numbers[0] == numbers[1], "{numbers:?}");
    }
}

#[test]
fn two_groups_may_be_called_in_different_orders() {
    let (one, other) = (about_to_vote(HOUR, false), about_to_vote(HOUR, false));
    let start = |group: &[Communicator], rank: usize| {
        let work = group[rank].start(allreduce(1)).unwrap();
        work.let_proceed();
        work
    };
    let works = [start(&one, 0), start(&other, 1), start(&other, 0), start(&one, 1)];
    works.into_iter().for_each(|work| assert_eq!(work.finish().unwrap().to_vec::<i64>(), [2]));
}

#[test]
fn a_rank_that_does_not_come_is_named_at_the_deadline() {
    let group = about_to_vote(Duration::from_millis(50), false);
    let error = group[0].run(allreduce(1)).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Timeout(_)) && text.contains("ringroad's own"), "{text}");
    assert!(text.contains("rank 1") && text.contains("Not in this call"), "{text}");
    assert!(group[0].run(allreduce(1)).is_err(), "the communicator has failed");
}
