//! The rooms of this crate depend on each other in one direction only, and none of them touches the outside world.

use std::path::Path;

#[path = "common/pure.rs"]
mod pure;
#[path = "common/sources.rs"]
mod sources;

use sources::{module, names_after, neighbours, room, used};

/// Every room and its layer: it may use the rooms of lower layers. A new room, or one that moves, is a change of
/// architecture: say why in ARCHITECTURE.md.
const LAYERS: &[(&str, usize)] = &[
    ("units", 0),
    ("digest", 0),
    ("random", 0),
    ("agreement", 1),
    ("topology", 1),
    ("collective", 1),
    ("trace", 1),
    ("wire", 1),
    ("discovery", 2),
    ("schedule", 2),
    ("interchange", 3),
    ("algorithms", 4),
    ("synthesis", 3),
    ("plan", 5),
    ("executor", 6),
    ("cost", 7),
    ("simulate", 8),
    ("selection", 9),
    ("changes", 3),
];

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

/// The checks find every way to name a room.
#[test]
fn every_way_to_name_a_room_is_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("plan/lower.rs", "use crate::collective::{Collective, Holding};", &["collective"]),
        ("plan/lower.rs", "use crate::{cost::{a, b}, units, trace as t};", &["cost", "trace", "units"]),
        ("plan/lower.rs", "let x = crate::executor::Executor::new(p);", &["executor"]),
        ("plan/lower.rs", "use super::super::cost; use super::Span;", &["cost"]),
        ("plan/mod.rs", "use super::cost::model;\nuse super::*;", &["cost"]),
        ("plan/mod.rs", "pub(crate) fn f() { mycrate::x() }", &[]),
        ("executor.rs", "use crate::Plan;", &["Plan"]),
    ];
    for (path, code, expected) in cases {
        let found = used(Path::new(path), code, LAYERS);
        assert!(found.iter().eq(expected.iter()), "{code}: {found:?}");
    }
    let modules = ["cost", "cost/line", "cost/model"].map(|path| module(Path::new(path)));
    for (code, expected) in [
        ("use super::{line::Line, model::{self, A}};", &[1, 2][..]),
        ("use crate::cost::line::{B};", &[1]),
        ("use super::Line; fn f() { super::model::g() }", &[2]),
    ] {
        let found = neighbours(Path::new("cost/explain.rs"), code, &modules);
        let expected = expected.iter().map(|index| &modules[*index]).collect();
        assert_eq!(found, expected, "{code}");
    }
    assert_eq!(room(Path::new("plan/lower.rs")), "plan");
    assert_eq!(room(Path::new("units.rs")), "units");
    let names: Vec<_> =
        names_after("std::", "use std::{fs, fmt::{self}, time::Instant};").into_iter().collect();
    assert_eq!(names, ["fmt", "fs", "time"]);
}
