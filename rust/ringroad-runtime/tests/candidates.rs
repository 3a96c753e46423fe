//! Candidates have the same costs and the same order as in the core, which has no threads and no files.

use ringroad_core::cost::CostModel;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::choice::choices::candidates;

#[test]
fn candidates_are_those_of_the_core() {
    for (spec, collective) in [
        ("torus:4x8", Collective::Allreduce),
        // From 512 ranks on, several threads share the work.
        ("torus:32x32", Collective::Allreduce),
        ("petersen", Collective::Alltoall),
        ("without(torus:4x4, 0-1)", Collective::Broadcast { root: 0 }),
    ] {
        let topology = Topology::parse(spec).unwrap();
        let model = CostModel::default();
        let found = ringroad_core::selection::candidates(&topology, &model, collective).unwrap();
        assert_eq!(found, candidates(&topology, &model, collective, &[]).unwrap(), "{spec}");
    }
}
