//! What a communicator's traces record of its calls.

mod common;

use common::{boxed, config, each, patient, watch};
use ringroad_core::algorithms::find;
use ringroad_core::trace::TraceKind;
use ringroad_core::Collective;
use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::shared::SharedMemory;
use ringroad_runtime::transport::Transport;
use ringroad_runtime::{Communicator, DType, Memory, Operation, Options, Request};
use ringroad_testing::fault::FaultInjector;

const ALL: Operation = Operation::Collective(Collective::Allreduce);
const SENT: u32 = 5;

/// The requests of three ranks, in order: each call uses another algorithm than the one before.
fn requests(rank: usize) -> Vec<Request> {
    let floats = || Memory::zeroed(4000);
    let by = |algorithm: &str| {
        Request::new(ALL, DType::F32, 1000, floats(), floats()).by(find(algorithm).unwrap())
    };
    let byte = |operation, input, output| {
        Request::new(operation, DType::U8, 8, Memory::zeroed(input), Memory::zeroed(output))
    };
    let mut requests = vec![by("ring"), by("gather-sum"), Request::barrier(), by("swing")];
    match rank {
        0 => requests.push(byte(Operation::ReceiveAny { peer: None, tag: Some(SENT) }, 0, 8)),
        1 => requests.push(byte(Operation::Send { peer: 0, tag: SENT }, 8, 0)),
        _ => {}
    }
    requests
}

fn check(transports: Vec<impl Transport + 'static>) {
    let transports = transports.into_iter().map(|transport| FaultInjector::new(transport, []));
    // The algorithm of the barrier.
    let options = Options { algorithm: Some("recursive-doubling".to_owned()), ..patient() };
    let group = Communicator::over(boxed(transports), &config(), &options).unwrap();
    let ran = each(&group, |communicator| {
        communicator.start_trace().unwrap();
        let run = |request| {
            let work = communicator.start(request).unwrap();
            work.wait().unwrap();
            work.algorithm().to_owned()
        };
        let ran: Vec<String> = requests(communicator.rank()).into_iter().map(run).collect();
        (ran, communicator.end_trace().unwrap().trace)
    });
    for (rank, (ran, trace)) in ran.into_iter().enumerate() {
        assert_eq!(ran, ["ring", "gather-sum", "recursive-doubling", "swing", "direct"][..ran.len()]);
        let events = trace.events;
        for kind in [TraceKind::Send, TraceKind::Receive] {
            let of_kind = events.iter().filter(|event| event.kind == kind);
            let mut found: Vec<&str> = of_kind.map(|event| event.algorithm.as_deref().unwrap()).collect();
            found.dedup();
            let expected = ran.iter().filter(|algorithm| match (&***algorithm, rank) {
                ("direct", 0) => kind == TraceKind::Receive,
                ("direct", _) => kind == TraceKind::Send,
                _ => true,
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{kind:?} of rank {rank}");
        }
    }
}

#[test]
fn events_say_which_algorithm_ran() {
    let _watchdog = watch();
    check(InProcess::group(3));
    check(SharedMemory::group(3).unwrap());
}
