//! The rooms of this crate depend on each other in one direction only, and none of them touches the outside world.

#[path = "../../ringroad-core/tests/common/pure.rs"]
mod pure;
#[path = "../../ringroad-core/tests/common/sources.rs"]
mod sources;

/// Every room and its layer: it may use the rooms of lower layers.
const LAYERS: &[(&str, usize)] = &[("alltoall", 0), ("finder", 0), ("formats", 0), ("routes", 0)];

#[test]
fn rooms_depend_in_one_direction() {
    pure::check_rooms(env!("CARGO_MANIFEST_DIR"), LAYERS);
}

#[test]
fn files_do_not_depend_on_each_other_in_cycles() {
    pure::check_files(env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn nothing_touches_the_outside_world() {
    pure::check_purity(env!("CARGO_MANIFEST_DIR"));
}
