//! Reads the source of a crate and finds which of its files use each other, for the tests of its architecture.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms and their layers. A room may use the rooms of lower layers.
pub type Layers = [(&'static str, usize)];

fn layer(room: &str, layers: &Layers) -> Option<usize> {
    layers.iter().find(|(name, _)| *name == room).map(|(_, layer)| *layer)
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

/// All files in the folder `src` of the crate at `root`: their paths from there, and their text without comments.
pub fn files(root: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(root).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    assert!(paths.len() > 10, "{paths:?}");
    let code = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    paths.iter().map(|p| (p.strip_prefix(&root).unwrap().to_owned(), code(p))).collect()
}

/// The names that directly follow `prefix`, including those in `prefix{...}`.
pub fn names_after(prefix: &str, code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        // `prefix` must not be the end of a longer path, as in `a::super::b`, or of a longer name.
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

/// The first part of the path: a folder, or the name of a file.
pub fn room(path: &Path) -> String {
    Path::new(path.iter().next().unwrap()).file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The rooms that a file uses. Names at the root of the crate count as rooms, too, so that a re-export cannot evade the
/// check.
pub fn used(path: &Path, code: &str, layers: &Layers) -> BTreeSet<String> {
    let top = path.iter().count() == 1 || path.ends_with("mod.rs");
    let up = names_after(if top { "super::" } else { "super::super::" }, code);
    let up = up.into_iter().filter(|name| layer(name, layers).is_some());
    names_after("crate::", code).into_iter().chain(up).collect()
}

/// Every use of a room that is not in a lower layer.
pub fn uphill(files: &[(PathBuf, String)], layers: &Layers) -> Vec<String> {
    let mut offences = Vec::new();
    for (path, code) in files.iter().filter(|(path, _)| path != Path::new("lib.rs")) {
        let room = room(path);
        let Some(own) = layer(&room, layers) else {
            offences.push(format!("{}: room {room} has no layer", path.display()));
            continue;
        };
        for target in used(path, code, layers).into_iter().filter(|target| *target != room) {
            if layer(&target, layers).is_none_or(|layer| layer >= own) {
                offences.push(format!("{}: {room} uses {target}", path.display()));
            }
        }
    }
    offences
}

/// The path of a file in the module tree: `cost/mod.rs` is `cost`.
pub fn module(path: &Path) -> Vec<String> {
    let whole = path.with_extension("");
    let names = whole.iter().map(|name| name.to_str().unwrap().to_owned());
    names.filter(|name| name != "mod").collect()
}

/// All paths that start with `prefix`, with groups in braces written out.
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

/// The files of the same folder, or below it or above it, that a file uses, but for those that it is part of or made
/// of.
pub fn neighbours<'a>(path: &Path, code: &str, modules: &'a [Vec<String>]) -> BTreeSet<&'a Vec<String>> {
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

/// Files that use each other in a cycle or use such files, with the files that they use. Files in the folders `open`
/// are left out.
pub fn cycles(files: &[(PathBuf, String)], open: &[&str]) -> Vec<String> {
    let files: Vec<_> = files.iter().filter(|(path, _)| !path.ends_with("tests.rs")).collect();
    let modules: Vec<Vec<String>> = files.iter().map(|(path, _)| module(path)).collect();
    let code = |text: &str| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let mut left: Vec<(&Vec<String>, BTreeSet<&Vec<String>>)> = files
        .iter()
        .zip(&modules)
        .filter(|((path, _), _)| !open.iter().any(|folder| path.parent() == Some(Path::new(folder))))
        .map(|((path, text), module)| (module, neighbours(path, &code(text), &modules)))
        .collect();
    // A file that uses none of the remaining files is not part of a cycle.
    loop {
        let names: BTreeSet<&Vec<String>> = left.iter().map(|(module, _)| *module).collect();
        let before = left.len();
        left.retain(|(_, used)| used.iter().any(|target| names.contains(target)));
        if left.len() == before {
            break;
        }
    }
    left.iter().map(|(module, used)| format!("{module:?} uses {used:?}")).collect()
}
