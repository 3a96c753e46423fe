//! What pure crates do not use.

use std::path::Path;

use super::sources::{files, names_after};

/// The modules of the standard library that reach outside the program.
const OUTSIDE: &[&str] = &["fs", "net", "time", "thread", "process", "env", "os"];

/// Checks that nothing in the crate at `root` touches the outside world.
pub fn check(root: &str) {
    for (path, code) in files(root) {
        let names = names_after("std::", &code);
        let outside: Vec<_> = OUTSIDE.iter().filter(|name| names.contains(**name)).collect();
        assert!(outside.is_empty(), "{} uses std::{outside:?}", path.display());
        if path == Path::new("lib.rs") {
            assert!(code.contains("#![forbid(unsafe_code)]"));
        }
    }
}
