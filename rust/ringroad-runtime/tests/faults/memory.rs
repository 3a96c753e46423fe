//! Memory in flight stays owned until nothing can access it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::{allreduce, faulty, short};
use crate::common::{config, each, group, group_with, patient, watch, SLOW};
use ringroad_core::Collective;
use ringroad_runtime::{DType, Error, Memory, Operation, Request};
use ringroad_testing::fault::{Fault, What};

/// Bytes whose release is observed.
struct Owned {
    bytes: Box<[u8]>,
    freed: Arc<AtomicBool>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

fn observed(bytes: usize) -> (Memory, Arc<AtomicBool>) {
    let freed = Arc::new(AtomicBool::new(false));
    let mut owned = Owned { bytes: vec![0; bytes].into(), freed: freed.clone() };
    let start = owned.bytes.as_mut_ptr();
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(owned);
    // SAFETY: the box lives, and nobody else uses its bytes, until its owner is dropped.
    #[allow(unsafe_code)]
    let memory = unsafe { Memory::foreign(start, bytes, owner) };
    (memory, freed)
}

/// Dropping a call frees nothing that is in flight; its end does.
#[test]
fn memory_in_flight_stays_alive() {
    let _watchdog = watch();
    for means in SLOW {
        for (faults, elements) in [(vec![], 1000), (vec![Fault::receive(What::Drop)], 1000), (vec![], 0)] {
            let group = faulty(2, means, 0, &faults, &patient());
            let ((input, input_freed), (output, output_freed)) =
                (observed(4 * elements), observed(4 * elements));
            let call = Operation::Collective(Collective::Allreduce);
            let work = group[0].start(Request::new(call, DType::F32, elements, input, output)).unwrap();
            let freed = || (input_freed.load(Ordering::SeqCst), output_freed.load(Ordering::SeqCst));
            drop(work);
            if elements > 0 {
                assert_eq!(freed(), (false, false));
                assert!(group[0].start(Request::barrier()).is_ok());
                assert_eq!(freed(), (false, false));
            }
            group[0].abort("enough").unwrap();
            drop(group);
            assert_eq!(freed(), (true, true));
        }
    }
}

/// The memory of a call that timed out is released once nothing can access it, even if a peer still holds the
/// message.
#[test]
fn memory_of_a_failed_call_is_given_back() {
    let _watchdog = watch();
    for means in SLOW {
        let group = group_with(2, means, &config(), &short());
        let ((input, input_freed), (output, output_freed)) = (observed(4000), observed(4000));
        let call = Operation::Collective(Collective::Allreduce);
        let error = group[0].run(Request::new(call, DType::F32, 1000, input, output)).map(drop).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        // Rank 1 comes late, and must not find memory that was freed.
        assert!(group[1].run(allreduce(1000)).is_err());
        drop(group);
        assert!(input_freed.load(Ordering::SeqCst) && output_freed.load(Ordering::SeqCst));
    }
}

/// A refused call holds no memory.
#[test]
fn memory_of_a_refused_call_is_given_back() {
    let group = group(2, 0);
    let ((input, input_freed), (output, output_freed)) = (observed(4), observed(8));
    let call = Operation::Collective(Collective::Allreduce);
    assert!(group[0].start(Request::new(call, DType::F32, 1, input, output)).is_err());
    assert!(input_freed.load(Ordering::SeqCst) && output_freed.load(Ordering::SeqCst));
}

/// A request for more memory than there can be returns an error that says how much, and everything else goes on.
#[test]
fn too_much_memory_is_an_error() {
    let _watchdog = watch();
    for (ranks, means) in [(1, SLOW[0]), (2, SLOW[0]), (2, SLOW[1])] {
        let group = group(ranks, means);
        for bytes in [1 << 50, usize::MAX / 2, usize::MAX] {
            match group[0].memory(bytes) {
                Err(Error::Memory(message)) => assert!(message.contains(&bytes.to_string()), "{message}"),
                other => panic!("{bytes} bytes: {other:?}"),
            }
        }
        assert_eq!(group[0].memory(1000).unwrap().to_vec::<u8>().len(), 1000);
        each(&group, |communicator| communicator.run(allreduce(1000)).map(drop).unwrap());
    }
}
