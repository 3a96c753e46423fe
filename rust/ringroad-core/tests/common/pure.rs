//! The architecture of pure crates.

use std::path::Path;

use super::sources::{cycles, files, names_after, uphill, Layers};

/// The modules of the standard library that reach outside the program.
const OUTSIDE: &[&str] = &["fs", "net", "time", "thread", "process", "env", "os"];

/// Checks that the rooms of the crate at `root` depend on each other in one direction only.
pub fn check_rooms(root: &str, layers: &Layers) {
    let offences = uphill(&files(root), layers);
    assert!(offences.is_empty(), "{offences:#?}");
}

/// Checks that files do not depend on each other in cycles.
pub fn check_files(root: &str) {
    let found = cycles(&files(root), &[]);
    assert!(found.is_empty(), "these files use each other, or what does: {found:#?}");
}

/// Checks that nothing touches the outside world.
pub fn check_purity(root: &str) {
    for (path, code) in files(root) {
        let names = names_after("std::", &code);
        let outside: Vec<_> = OUTSIDE.iter().filter(|name| names.contains(**name)).collect();
        assert!(outside.is_empty(), "{} uses std::{outside:?}", path.display());
        if path == Path::new("lib.rs") {
            assert!(code.contains("#![forbid(unsafe_code)]"));
        }
    }
}
