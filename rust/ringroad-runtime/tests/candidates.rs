//! Candidates have the same costs and the same order, however many threads share the work.

use ringroad_core::algorithms::available;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::choice::choices::candidates;

#[test]
fn candidates_are_those_of_the_catalogue() {
    // From 1024 ranks on, several threads share the work.
    for spec in ["torus:4x8", "torus:32x32"] {
        let topology = Topology::parse(spec).unwrap();
        let found = candidates(&topology, Collective::Allreduce, &[]).unwrap();
        let members = available(&topology, Collective::Allreduce);
        assert_eq!(found.len(), members.len(), "{spec}");
        for (candidate, member) in found.iter().zip(members) {
            let schedule = member.build(&topology, Collective::Allreduce).unwrap();
            assert_eq!(candidate.member, member, "{spec}");
            assert_eq!(candidate.cost, ScheduleCost::of(&schedule, &topology).unwrap(), "{spec}: {member}");
        }
    }
}

/// The core, which has no threads and no files, finds the same.
#[test]
fn candidates_are_those_of_the_core() {
    for (spec, collective) in [
        ("torus:4x8", Collective::Allreduce),
        ("petersen", Collective::Alltoall),
        ("without(torus:4x4, 0-1)", Collective::Broadcast { root: 0 }),
    ] {
        let topology = Topology::parse(spec).unwrap();
        let found = ringroad_core::selection::candidates(&topology, collective).unwrap();
        assert_eq!(found, candidates(&topology, collective, &[]).unwrap(), "{spec}");
    }
}
