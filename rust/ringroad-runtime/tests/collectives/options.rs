//! The effect of options: segments, algorithms and topologies.

use super::{check_all, every_algorithm, mixture};
use crate::common::Means::Shared;
use crate::common::{config, each, group, group_with, patient, watch, Case, MEANS, SLOW};
use ringroad_core::algorithms::find;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::config::Config;
use ringroad_runtime::{DType, Error, Options, ReduceOp};

fn with_segment(bytes: usize) -> Config {
    let mut config = config();
    config.segment = Some(bytes);
    config
}

#[test]
fn large_vectors_travel_in_segments() {
    let _watchdog = watch();
    let ranks = 4;
    let elements = (8 << 20) / 4;
    let allreduce = Case::new(ranks, Collective::Allreduce, ReduceOp::Sum, DType::F32, elements);
    let cases = [
        allreduce.clone(),
        Case { in_place: true, ..allreduce.clone().by("ring") },
        Case { dtype: DType::I32, ..allreduce.by("bidirectional-ring") },
        Case::new(ranks, Collective::Broadcast { root: 2 }, ReduceOp::Sum, DType::F32, elements),
        Case::new(ranks, Collective::Allgather, ReduceOp::Sum, DType::F32, elements / ranks),
        Case::new(ranks, Collective::Alltoall, ReduceOp::Sum, DType::F32, elements / ranks),
    ];
    check_all(&group(ranks, 64 << 10), &cases);
    check_all(&group(ranks, Shared), &cases);
}

/// The smallest segments cut nearly everything, even if their size is no multiple of the element's.
#[test]
fn small_segments() {
    let _watchdog = watch();
    for (ranks, segment) in [(2, 64), (3, 100), (5, 64), (8, 200)] {
        for means in MEANS {
            let group = group_with(ranks, means, &with_segment(segment), &patient());
            let cases = every_algorithm(&group[0].choices().topology, 6);
            let cases: Vec<Case> = cases.into_iter().filter(|case| case.elements > ranks + 1).collect();
            check_all(&group, &cases);
        }
    }
}

#[test]
fn the_caller_chooses_an_algorithm() {
    let _watchdog = watch();
    for means in SLOW {
        let ranks = 6;
        each(&group(ranks, means), |communicator| {
            let case = Case::new(ranks, Collective::Allreduce, ReduceOp::Sum, DType::F32, 12);
            let prepared = case.prepare();
            let start = |name: Option<&str>| {
                let case = Case { algorithm: name.map(|name| find(name).unwrap()), ..case.clone() };
                communicator.start(case.request(communicator.rank(), &prepared.inputs[communicator.rank()]))
            };
            for (asked, expected) in [("ring", "ring"), ("Bidirectional_Ring", "bidirectional-ring")] {
                let work = start(Some(asked)).unwrap();
                assert_eq!(work.algorithm(), expected);
                prepared.compare(&case, communicator.rank(), &work.finish().unwrap().to_vec::<u8>());
            }
            let other = start(Some("pairwise")).err().unwrap();
            assert!(matches!(&other, Error::Schedule(text) if text.contains("allreduce")), "{other}");
            let default = start(None).unwrap();
            let choice =
                communicator.algorithm_for(Collective::Allreduce, 48, ReduceOp::Sum, DType::F32).unwrap();
            assert_eq!(default.algorithm(), choice);
            default.wait().unwrap();
        });
    }
}

#[test]
fn choices_say_what_runs() {
    let _watchdog = watch();
    let ring = Options { topology: Some(Topology::parse("ring:8").unwrap()), ..patient() };
    let group = group_with(8, 0, &config(), &ring);
    let choices = group[0].choices();
    for communicator in &group {
        assert_eq!(communicator.choices(), choices);
    }
    for collective in Collective::ALL {
        let ranges = choices.switch_points(collective);
        assert_eq!(ranges[0].from_bytes, 0, "{collective}");
        for range in ranges {
            assert!(range.algorithm.bit_identical(&choices.topology, collective), "{collective}");
            assert_eq!(choices.pick(collective, range.from_bytes, false), range.algorithm);
        }
    }
    // On both sides of every switch point, the result is right and the announced algorithm runs.
    let switches = choices.switch_points(Collective::Allreduce).to_vec();
    let small = switches.iter().map(|range| range.from_bytes as usize / 4).filter(|e| *e > 0 && *e < 1 << 18);
    let elements: Vec<usize> = small.flat_map(|e| [e - 1, e, e + 1]).collect();
    each(&group, |communicator| {
        for elements in &elements {
            let case = Case::new(8, Collective::Allreduce, ReduceOp::Max, DType::F32, *elements);
            let prepared = case.prepare();
            let rank = communicator.rank();
            let work = communicator.start(case.request(rank, &prepared.inputs[rank])).unwrap();
            let bytes = 4 * *elements as u64;
            assert_eq!(work.algorithm(), choices.pick(Collective::Allreduce, bytes, true).name());
            prepared.compare(&case, rank, &work.finish().unwrap().to_vec::<u8>());
        }
    });
}

#[test]
fn preferences_decide() {
    let _watchdog = watch();
    let options = Options { algorithm: Some("allreduce:ring;broadcast:binomial".to_owned()), ..patient() };
    let group = group_with(5, 0, &config(), &options);
    for bytes in [0, 100, 1 << 30] {
        let name = |collective| group[3].algorithm_for(collective, bytes, ReduceOp::Sum, DType::I32).unwrap();
        assert_eq!(name(Collective::Allreduce), "ring");
        assert_eq!(name(Collective::Broadcast { root: 4 }), "binomial");
    }
    check_all(&group, &mixture(5, 40));
}

#[test]
fn topologies_make_no_difference_to_results() {
    let _watchdog = watch();
    for (ranks, spec) in [(8, "ring:8"), (8, "torus:2x4"), (9, "torus:3x3"), (12, "switch:12")] {
        let options = Options { topology: Some(Topology::parse(spec).unwrap()), ..patient() };
        check_all(&group_with(ranks, 0, &config(), &options), &mixture(ranks, 32));
    }
}
