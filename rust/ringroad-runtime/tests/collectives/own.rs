//! Reductions of the caller's own, which run while no lock is held.

use std::sync::Arc;

use crate::common::{each, group, watch, MEANS};
use ringroad_core::algorithms::find;
use ringroad_core::Collective;
use ringroad_runtime::{
    CallKey, Communicator, DType, Error, Function, Memory, Operation, Own, ReduceOp, Request,
};

/// Neither commutative nor associative.
fn steps(left: i32, right: i32) -> i32 {
    left.wrapping_mul(3).wrapping_sub(right)
}

#[derive(Debug)]
struct Steps;

impl Function for Steps {
    fn combine(&self, left: Memory, right: Memory) -> Result<Memory, String> {
        let pairs = left.to_vec::<i32>().into_iter().zip(right.to_vec::<i32>());
        Ok(Memory::from_slice(&pairs.map(|(left, right)| steps(left, right)).collect::<Vec<i32>>()))
    }
}

#[derive(Debug)]
struct Refuses;

impl Function for Refuses {
    fn combine(&self, _: Memory, _: Memory) -> Result<Memory, String> {
        Err("it does not want to".to_owned())
    }
}

const OWN: ReduceOp = ReduceOp::Own(&Own { name: "steps", commutative: false });

fn value(rank: usize, index: usize) -> i32 {
    (rank * 31 + index * 7) as i32
}

fn request(
    communicator: &Communicator,
    collective: Collective,
    elements: usize,
    function: Arc<dyn Function>,
) -> Request {
    let (rank, ranks) = (communicator.rank(), communicator.size());
    let mut key = CallKey::new(Operation::Collective(collective), DType::I32, elements);
    key.op = OWN;
    let [input, output] = key.lengths(rank, ranks).unwrap();
    let values: Vec<i32> = (0..input / 4).map(|index| value(rank, index)).collect();
    Request {
        function: Some(function),
        ..Request::from_key(key, Memory::from_slice(&values), Memory::zeroed(output))
    }
}

#[test]
fn values_are_combined_in_the_order_of_the_ranks() {
    let _watchdog = watch();
    for (ranks, means) in [1, 2, 5, 8].into_iter().flat_map(|ranks| MEANS.map(|means| (ranks, means))) {
        each(&group(ranks, means), |communicator| {
            let rank = communicator.rank();
            let rooted = Collective::Reduce { root: ranks / 2 };
            for collective in [
                Collective::Allreduce,
                Collective::ReduceScatter,
                rooted,
                Collective::Scan,
                Collective::Exscan,
            ] {
                for elements in [0, 1, 300, 40_000] {
                    let output =
                        communicator.run(request(communicator, collective, elements, Arc::new(Steps)));
                    let (first, last) = match collective {
                        Collective::ReduceScatter => (rank * elements, ranks),
                        Collective::Scan => (0, rank + 1),
                        Collective::Exscan => (0, rank),
                        _ => (0, ranks),
                    };
                    let expected = |index| (0..last).map(|rank| value(rank, first + index)).reduce(steps);
                    for (index, found) in output.unwrap().to_vec::<i32>().into_iter().enumerate() {
                        assert_eq!(Some(found), expected(index), "{collective} of {elements} on rank {rank}");
                    }
                }
            }
        });
    }
}

#[test]
fn a_failure_is_told_to_all_ranks() {
    let _watchdog = watch();
    for means in MEANS {
        each(&group(3, means), |communicator| {
            let function: Arc<dyn Function> =
                if communicator.rank() == 1 { Arc::new(Refuses) } else { Arc::new(Steps) };
            let request = request(communicator, Collective::Allreduce, 10, function);
            // A rank that had all values before the failure came learns of it at the next call.
            let result = communicator.run(request.by(find("direct-latency").unwrap()));
            let error = result.and_then(|_| communicator.barrier(None)).unwrap_err();
            let told = matches!(&error, Error::Aborted(text) if text.contains("it does not want to"));
            assert!(told && error.to_string().contains("rank 1"), "{error}");
        });
    }
}

#[test]
fn other_orders_and_missing_functions_are_refused() {
    let _watchdog = watch();
    each(&group(4, MEANS[0]), |communicator| {
        let make = || request(communicator, Collective::Allreduce, 10, Arc::new(Steps));
        let ring = communicator.run(make().by(find("ring").unwrap())).unwrap_err();
        assert!(matches!(&ring, Error::Schedule(text) if text.contains("order of the ranks")), "{ring}");
        let missing = communicator.run(Request { function: None, ..make() }).unwrap_err();
        assert!(matches!(missing, Error::Argument(_)), "{missing}");
        communicator.run(make()).unwrap();
    });
}
