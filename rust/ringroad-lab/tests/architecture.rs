//! The rooms of this crate depend on each other in one direction only, and none of them touches the outside world.

#[path = "../../ringroad-core/tests/common/outside.rs"]
mod outside;
#[allow(dead_code)] // Tests of the core use the rest.
#[path = "../../ringroad-core/tests/common/sources.rs"]
mod sources;

use sources::{cycles, files, uphill};

/// Every room and its layer: it may use the rooms of lower layers.
const LAYERS: &[(&str, usize)] = &[("alltoall", 0), ("finder", 0), ("formats", 0), ("routes", 0)];

#[test]
fn rooms_depend_in_one_direction() {
    let offences = uphill(&files(env!("CARGO_MANIFEST_DIR")), LAYERS);
    assert!(offences.is_empty(), "{offences:#?}");
}

#[test]
fn files_do_not_depend_on_each_other_in_cycles() {
    let found = cycles(&files(env!("CARGO_MANIFEST_DIR")), &[]);
    assert!(found.is_empty(), "these files use each other, or what does: {found:#?}");
}

#[test]
fn nothing_touches_the_outside_world() {
    outside::check(env!("CARGO_MANIFEST_DIR"));
}
