//! Invalid calls.

use std::time::Duration;

use super::{allreduce, with};
use crate::common::{config, each, group, patient, watch};
use ringroad_core::{Collective, Topology};
use ringroad_runtime::calls::call::TAGS;
use ringroad_runtime::{CallKey, Communicator, DType, Error, Memory, Operation, Options, ReduceOp, Request};

type IsRight = fn(&Error) -> bool;

fn argument(error: &Error) -> bool {
    matches!(error, Error::Argument(_))
}

/// Invalid calls are refused before anything is sent, and have no effect.
#[test]
fn bad_arguments_leave_the_communicator_usable() {
    let _watchdog = watch();
    each(&group(3, 0), |communicator| {
        let rank = communicator.rank();
        let sized = |operation, elements, input, output| {
            Request::new(operation, DType::F32, elements, Memory::zeroed(input), Memory::zeroed(output))
        };
        let collective = |collective| Operation::Collective(collective);
        let schedule: IsRight = |error| matches!(error, Error::Schedule(_));
        let bytes = sized(collective(Collective::Allreduce), 16, 16, 16);
        let bytes = Request { key: CallKey { dtype: DType::U8, ..bytes.key }, ..bytes };
        let typed: IsRight = |error| matches!(error, Error::Type(_));
        let bad: Vec<(&str, Request, IsRight)> = vec![
            ("root", sized(collective(Collective::Broadcast { root: 3 }), 1, 4, 4), argument),
            ("root", sized(collective(Collective::Gather { root: usize::MAX }), 1, 4, 12), argument),
            ("peer", sized(Operation::Send { peer: 3, tag: 0 }, 1, 4, 0), argument),
            ("peer", sized(Operation::Receive { peer: 99, tag: 0 }, 1, 0, 4), argument),
            ("tag", sized(Operation::Send { peer: (rank + 1) % 3, tag: TAGS }, 1, 4, 0), argument),
            ("tag", sized(Operation::Receive { peer: (rank + 1) % 3, tag: u32::MAX }, 1, 0, 4), argument),
            ("band", allreduce(4).reducing(ReduceOp::Band), typed),
            ("uint8", bytes.reducing(ReduceOp::Avg), typed),
            ("input", sized(collective(Collective::Allreduce), 3, 8, 12), argument),
            ("output", sized(collective(Collective::Allreduce), 3, 12, 16), argument),
            ("output", sized(collective(Collective::Allgather), 3, 12, 12), argument),
            ("input", sized(collective(Collective::Alltoall), 3, 12, 36), argument),
            ("input", allreduce(4).in_place(), argument),
            ("a torus of", with(allreduce(4), "hamiltonian-rings"), schedule),
            ("allreduce", with(allreduce(4), "pairwise"), schedule),
        ];
        for (what, request, is_right) in bad {
            let described = format!("{request:?}");
            let error =
                communicator.start(request).err().unwrap_or_else(|| panic!("{described} was accepted"));
            assert!(is_right(&error), "{described}: {error:?}");
            assert!(error.to_string().contains(what), "{described}: {error}");
            // If this call had been counted on some ranks, they would not agree on the number of the next one.
            if rank != 1 {
                assert!(communicator.start(with(allreduce(1), "pairwise")).is_err());
            }
            communicator.run(allreduce(5)).map(drop).unwrap();
        }
    });
}

/// More elements than any memory has.
#[test]
fn absurd_counts_are_refused() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        for elements in [usize::MAX, usize::MAX / 4 + 1, usize::MAX / 8 + 1] {
            for kind in [Collective::Allreduce, Collective::Allgather] {
                let nothing = || Memory::nothing();
                let call = Operation::Collective(kind);
                let request = Request::new(call, DType::F32, elements, nothing(), nothing());
                let error = communicator.start(request).err().expect("refused");
                assert!(argument(&error), "{error:?}");
            }
        }
        communicator.barrier(None).unwrap();
    });
}

/// Messages are as long as they are said to be.
#[test]
fn messages_need_memory_of_their_size() {
    let _watchdog = watch();
    let group = group(2, 0);
    for elements in [0, 3, usize::MAX] {
        let send = Operation::Send { peer: 1, tag: 0 };
        let request = Request::new(send, DType::F32, elements, Memory::zeroed(16), Memory::nothing());
        let error =
            group[0].start(request).err().unwrap_or_else(|| panic!("{elements} elements were accepted"));
        assert!(argument(&error), "{error:?}");
        let receive = Operation::Receive { peer: 1, tag: 0 };
        let request = Request::new(receive, DType::F32, elements, Memory::nothing(), Memory::zeroed(16));
        assert!(group[0].start(request).is_err());
    }
}

/// An infinite timeout works.
#[test]
fn timeouts_may_be_endless() {
    let _watchdog = watch();
    each(&group(2, 0), |communicator| {
        communicator.run(Request { timeout: Some(Duration::MAX), ..allreduce(5) }).map(drop).unwrap();
        communicator.barrier(Some(Duration::MAX)).unwrap();
    });
}

#[test]
fn groups_that_make_no_sense() {
    let _watchdog = watch();
    let make = |ranks, options: &Options| Communicator::in_process(ranks, &config(), options).err();
    let topology = Options { topology: Some(Topology::parse("ring:5").unwrap()), ..patient() };
    let error = make(4, &topology).unwrap();
    assert!(
        matches!(&error, Error::Topology(text) if text.contains("ring:5") && text.contains('4')),
        "{error:?}"
    );
    let error = make(0, &patient()).unwrap();
    assert!(argument(&error), "{error:?}");
    let options = Options { algorithm: Some("rung".to_owned()), ..patient() };
    let error = make(4, &options).unwrap();
    assert!(matches!(&error, Error::Config(text) if text.contains("rung")), "{error:?}");
    let options = Options { algorithm: Some("allreduce:hamiltonian-rings".to_owned()), ..patient() };
    let error = make(6, &options).unwrap();
    assert!(matches!(&error, Error::Schedule(text) if text.contains("a torus of")), "{error:?}");
    assert_eq!(make(5, &topology), None);
}
