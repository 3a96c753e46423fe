//! The rooms of this crate depend on each other in one direction only, and none of them touches the outside world. The rooms
//! of the extension are checked here, too, since its own tests could not be linked without Python.

#[path = "../../ringroad-core/tests/common/pure.rs"]
mod pure;
#[path = "../../ringroad-core/tests/common/sources.rs"]
mod sources;

/// Every room and its layer: it may use the rooms of lower layers.
const LAYERS: &[(&str, usize)] = &[("alltoall", 0), ("finder", 0), ("formats", 0), ("routes", 0)];

/// The rooms of the extension, in which a room may use those before it. A new room, or one that moves, is a change of
/// architecture: say why in ARCHITECTURE.md.
const EXTENSION: &[(&str, usize)] = &[
    ("docs", 0),
    ("interpreter", 1),
    ("arguments", 2),
    ("results", 3),
    ("values", 4),
    ("arrays", 5),
    ("job", 6),
    ("communicator", 7),
    ("calls", 8),
    ("lab", 9),
];

const EXTENSION_ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ringroad-py");

#[test]
fn rooms_of_the_extension_depend_in_one_direction() {
    pure::check_rooms(EXTENSION_ROOT, EXTENSION);
}

#[test]
fn files_of_the_extension_do_not_depend_on_each_other_in_cycles() {
    pure::check_files(EXTENSION_ROOT);
}

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
