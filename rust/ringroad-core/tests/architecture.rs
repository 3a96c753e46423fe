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
    ("selection", 8),
];

/// Folders whose files refer to each other in circles; none is to be added.
const CIRCULAR: &[&str] = &["topology", "synthesis/finder"];

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

/// A file's path in the module tree: `cost/mod.rs` is `cost`.
fn module(path: &Path) -> Vec<String> {
    let whole = path.with_extension("");
    let names = whole.iter().map(|name| name.to_str().unwrap().to_owned());
    names.filter(|name| name != "mod").collect()
}

/// All paths that begin with `prefix`, with those of groups in braces written out.
fn paths_after(prefix: &str, code: &str) -> Vec<String> {
    fn spread(text: &str, before: &str, found: &mut Vec<String>) {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
        let path = format!("{before}{}", &text[..end]);
        let Some(group) = text[end..].strip_prefix('{') else { return found.push(path) };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                ',' | '}' if depth == 0 => {
                    spread(group[start..at].trim(), &path, found);
                    start = at + 1;
                    if c == '}' {
                        return;
                    }
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            spread(&code[at..], "", &mut found);
        }
    }
    found
}

/// The files of the same folder, or below it or above it, that a file uses, but for those that it is part of or made of.
fn neighbours<'a>(path: &Path, code: &str, modules: &'a [Vec<String>]) -> BTreeSet<&'a Vec<String>> {
    let own = module(path);
    let mut used = BTreeSet::new();
    for path in paths_after("super::", code).into_iter().chain(paths_after("crate::", code)) {
        let names: Vec<&str> = path.split("::").collect();
        let up = names.iter().take_while(|name| **name == "super").count();
        let base = if names[0] == "crate" { 0 } else { own.len().saturating_sub(up) };
        let wanted = own[..base].iter().map(String::as_str).chain(names[up.max(1)..].iter().copied());
        let wanted: Vec<&str> = wanted.collect();
        let within = |module: &&Vec<String>| {
            module.iter().zip(&wanted).filter(|(a, b)| a == *b).count() == module.len()
        };
        let target = modules.iter().filter(within).max_by_key(|module| module.len());
        used.extend(target.filter(|target| !target.starts_with(&own) && !own.starts_with(target)));
    }
    used
}

#[test]
fn files_do_not_depend_on_each_other_in_circles() {
    let files: Vec<_> = files().into_iter().filter(|(path, _)| !path.ends_with("tests.rs")).collect();
    let modules: Vec<Vec<String>> = files.iter().map(|(path, _)| module(path)).collect();
    let code = |code: &str| code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let mut open: Vec<(&Vec<String>, BTreeSet<&Vec<String>>)> = files
        .iter()
        .zip(&modules)
        .filter(|((path, _), _)| !CIRCULAR.iter().any(|folder| path.parent() == Some(Path::new(folder))))
        .map(|((path, text), module)| (module, neighbours(path, &code(text), &modules)))
        .collect();
    // What uses nothing that is open is no part of a circle.
    loop {
        let left: BTreeSet<&Vec<String>> = open.iter().map(|(module, _)| *module).collect();
        let before = open.len();
        open.retain(|(_, used)| used.iter().any(|target| left.contains(target)));
        if open.len() == before {
            break;
        }
    }
    assert!(open.is_empty(), "these files use each other, or what does: {open:#?}");
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
