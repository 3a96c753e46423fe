//! The rooms of this crate depend on each other in one direction only, and none of them touches the outside world.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every room and its layer: it may use the rooms of lower layers. A new room, or one that moves, is a change of
/// architecture: say why in ARCHITECTURE.md.
const LAYERS: &[(&str, usize)] = &[
    ("units", 0),
    ("digest", 0),
    ("topology", 1),
    ("collective", 1),
    ("trace", 1),
    ("schedule", 2),
    ("algorithms", 4),
    ("synthesis", 3),
    ("plan", 5),
    ("executor", 6),
    ("cost", 7),
    ("simulate", 8),
];

/// What of the standard library reaches outside.
const OUTSIDE: &[&str] = &["fs", "net", "time", "thread", "process", "env", "os"];

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().find(|(name, _)| *name == room).map(|(_, layer)| *layer)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// All files under src, as path from there and text without comments.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    assert!(paths.len() > 10, "{paths:?}");
    let code = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    paths.iter().map(|p| (p.strip_prefix(&root).unwrap().to_owned(), code(p))).collect()
}

/// The names that directly follow `prefix`, with those of `prefix{...}`.
fn names_after(prefix: &str, code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        // Not the end of a longer path, as in `a::super::b`, or of a longer name.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = code[at + prefix.len()..].trim_start();
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut expected = true;
        for (i, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => expected = true,
                c if expected && !c.is_whitespace() => {
                    names.insert(word(&group[i..]));
                    expected = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The first part of the path: a folder, or a file's name.
fn room(path: &Path) -> String {
    Path::new(path.iter().next().unwrap()).file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The rooms that a file uses. Paths to the crate's own names from its root count as rooms, too, so that nobody gets
/// around by a re-export.
fn used(path: &Path, code: &str) -> BTreeSet<String> {
    let top = path.iter().count() == 1 || path.ends_with("mod.rs");
    let up = names_after(if top { "super::" } else { "super::super::" }, code);
    let up = up.into_iter().filter(|name| layer(name).is_some());
    names_after("crate::", code).into_iter().chain(up).collect()
}

#[test]
fn rooms_depend_in_one_direction() {
    let mut offences = Vec::new();
    for (path, code) in files().into_iter().filter(|(path, _)| path != Path::new("lib.rs")) {
        let room = room(&path);
        let Some(own) = layer(&room) else {
            offences.push(format!("{}: room {room} has no layer", path.display()));
            continue;
        };
        for target in used(&path, &code).into_iter().filter(|target| *target != room) {
            if layer(&target).is_none_or(|layer| layer >= own) {
                offences.push(format!("{}: {room} uses {target}", path.display()));
            }
        }
    }
    assert!(offences.is_empty(), "{offences:#?}");
}

#[test]
fn nothing_touches_the_outside_world() {
    for (path, code) in files() {
        let names = names_after("std::", &code);
        let outside: Vec<_> = OUTSIDE.iter().filter(|name| names.contains(**name)).collect();
        assert!(outside.is_empty(), "{} uses std::{outside:?}", path.display());
        if path == Path::new("lib.rs") {
            assert!(code.contains("#![forbid(unsafe_code)]"));
        }
    }
}

/// The checks see what they look for.
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
        let found = used(Path::new(path), code);
        assert!(found.iter().eq(expected.iter()), "{code}: {found:?}");
    }
    assert_eq!(room(Path::new("plan/lower.rs")), "plan");
    assert_eq!(room(Path::new("units.rs")), "units");
    let names: Vec<_> =
        names_after("std::", "use std::{fs, fmt::{self}, time::Instant};").into_iter().collect();
    assert_eq!(names, ["fmt", "fs", "time"]);
}
