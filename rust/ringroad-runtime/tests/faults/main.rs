//! What goes wrong between ranks, and what every rank is told: no rank hangs, and none is left without a reason.

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod endings;
mod floods;
mod memory;
mod mismatches;
mod panics;
mod timeouts;

use std::time::Duration;

use common::Means::{self, Mailboxes, Shared};
use common::{allreduce, boxed, config, each, group, Case};
use ringroad_core::algorithms::find;
use ringroad_core::{Collective, Rank};
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::SharedMemory;
use ringroad_runtime::transport::Transport;
use ringroad_runtime::{Communicator, DType, Error, Options, ReduceOp, Request};
use ringroad_testing::fault::{Fault, FaultInjector};

/// The timeout of calls that are meant to time out.
const SHORT: Duration = Duration::from_millis(600);
/// How much later than promised an error may come. The contract is two seconds, but machines are busy.
const SLACK: Duration = Duration::from_secs(5);

fn with(request: Request, algorithm: &str) -> Request {
    request.by(find(algorithm).unwrap())
}

/// A collective with as much memory as rank `rank` of `ranks` needs.
fn collective(collective: Collective, ranks: usize, rank: Rank, dtype: DType, elements: usize) -> Request {
    let case = Case::new(ranks, collective, ReduceOp::Sum, dtype, elements);
    case.request(rank, &case.prepare().inputs[rank])
}

fn short() -> Options {
    Options { timeout: Some(SHORT), ..Options::default() }
}

/// Transports, each with its own faults.
fn with_faults(ranks: usize, means: Means, faults: impl Fn(Rank) -> Vec<Fault>) -> Vec<Box<dyn Transport>> {
    fn wrap<T: Transport + 'static>(
        transports: Vec<T>,
        faults: impl Fn(Rank) -> Vec<Fault>,
    ) -> Vec<Box<dyn Transport>> {
        let ranks = transports.into_iter().enumerate();
        boxed(ranks.map(|(rank, transport)| FaultInjector::new(transport, faults(rank))))
    }
    match means {
        Mailboxes(limit) => wrap(InProcess::group_with(ranks, limit), faults),
        Shared => wrap(SharedMemory::group(ranks).unwrap(), faults),
    }
}

/// A group whose rank `rank` has `faults`.
fn faulty(ranks: usize, means: Means, rank: Rank, faults: &[Fault], options: &Options) -> Vec<Communicator> {
    let faults = |other| if other == rank { faults.to_vec() } else { Vec::new() };
    Communicator::over(with_faults(ranks, means, faults), &config(), options).unwrap()
}

/// `rank 2 (host, pid 17)`, as errors name a rank.
fn who(communicator: &Communicator, rank: Rank) -> String {
    let endpoint = &communicator.endpoints()[rank];
    format!("rank {rank} ({}, pid {})", endpoint.host, endpoint.pid)
}

/// Whether `message` names some rank completely.
fn names_a_rank(communicator: &Communicator, message: &str) -> bool {
    (0..communicator.size()).any(|rank| message.contains(&who(communicator, rank)))
}

/// Checks that a rank of a failed communicator refuses further calls, and says why.
fn check_useless(communicator: &Communicator, cause: &Error) {
    for request in [Request::barrier(), allreduce(3)] {
        match communicator.start(request).err() {
            Some(error @ (Error::Aborted(_) | Error::Peer { .. })) => {
                let message = error.to_string();
                assert!(message.contains(&cause.to_string()), "{message}\ndoes not quote\n{cause}");
                // A recovery loop catches losses whenever they are noticed.
                let (lost, again) =
                    (matches!(cause, Error::Peer { .. }), matches!(error, Error::Peer { .. }));
                assert_eq!(lost, again, "{error:?} after {cause:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that a communicator can be made after others have failed, and works.
fn check_anew(ranks: usize) {
    each(&group(ranks, 0), |communicator| communicator.run(allreduce(10)).map(drop).unwrap());
}
