//! The modules of the runtime depend on each other in one direction, and unsafe code, the clock and the environment
//! are restricted to certain modules.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../ringroad-core/tests/common/sources.rs"]
mod sources;

use sources::{cycles, names_after, uphill};

/// Every module and its layer: it may use the modules of lower layers. A new module, or one that moves, changes the
/// architecture: say why in ARCHITECTURE.md.
const LAYERS: &[(&str, usize)] = &[
    ("error", 0),
    ("Error", 0),
    ("Result", 0),
    ("os", 1),
    ("config", 2),
    ("kernels", 3),
    ("transport", 4),
    ("bootstrap", 5),
    ("calls", 6),
    ("choice", 7),
    ("adaptation", 8),
    ("engine", 9),
    ("communicator", 10),
    ("network", 11),
    ("fuzzing", 12),
];

/// Folders whose files use each other in cycles; none is to be added.
const CIRCULAR: &[&str] = &["bootstrap"];

/// Where unsafe code may be.
const UNSAFE: &[&str] = &[
    "bootstrap/tcp/local_discovery.rs",
    "kernels",
    "engine/buffers.rs",
    "fuzzing.rs",
    "network/datagram.rs",
    "os/fork.rs",
    "os/memory.rs",
    "os/scheduler.rs",
    "os/tcp_info.rs",
    "transport/buffer.rs",
    "transport/events.rs",
    "transport/forks.rs",
    "transport/in_process.rs",
    "transport/shared",
    "transport/tcp",
    "transport/ucx",
];

/// The modules that may read the clock: those that wait until a deadline, or measure. What is decided for all ranks
/// (calls, choices, plans) and what computes (kernels) does not depend on time.
const CLOCK: &[&str] = &[
    "bootstrap",
    "calls/callbacks.rs",
    "choice/evaluation.rs",
    "choice/schedule_cache.rs",
    "communicator",
    "engine",
    "network",
    "os",
    "transport/in_process.rs",
    "transport/shared",
    "transport/tcp",
    "transport/ucx",
];

/// Where the environment may be read.
const ENVIRONMENT: &[&str] =
    &["config.rs", "transport/ucx/device.rs", "bootstrap/endpoint_info.rs", "bootstrap/handle.rs"];

/// The runtime's files, without their tests.
fn files() -> Vec<(PathBuf, String)> {
    let all = sources::files(env!("CARGO_MANIFEST_DIR")).into_iter();
    let own = all.filter(|(path, _)| !path.ends_with("tests.rs"));
    own.map(|(path, code)| {
        (path, code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned())
    })
    .collect()
}

/// The files outside of `rooms` that contain one of `words`, and the entries of `rooms` without such a file.
fn misplaced(files: &[(PathBuf, String)], rooms: &[&str], words: &[&str]) -> Vec<String> {
    let says = |code: &str| words.iter().any(|word| code.contains(word));
    let found: Vec<&Path> =
        files.iter().filter(|(_, code)| says(code)).map(|(path, _)| path.as_path()).collect();
    let outside = found.iter().filter(|path| !rooms.iter().any(|room| path.starts_with(room)));
    let empty = rooms.iter().filter(|room| !found.iter().any(|path| path.starts_with(room)));
    outside
        .map(|path| format!("{}", path.display()))
        .chain(empty.map(|room| format!("{room} has none")))
        .collect()
}

#[test]
fn rooms_depend_in_one_direction() {
    let found = uphill(&files(), LAYERS);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn files_do_not_depend_on_each_other_in_cycles() {
    let found = cycles(&files(), CIRCULAR);
    assert!(found.is_empty(), "these files use each other, or what does: {found:#?}");
}

#[test]
fn unsafe_code_has_its_rooms() {
    let found = misplaced(&files(), UNSAFE, &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]);
    assert!(found.is_empty(), "{found:#?}");
    let (_, lib) = files().into_iter().find(|(path, _)| path == Path::new("lib.rs")).unwrap();
    assert!(lib.contains("#![deny(unsafe_code)]"));
}

#[test]
fn the_clock_has_its_rooms() {
    let found = misplaced(&files(), CLOCK, &["Instant::now", "SystemTime::now", "ClockId::"]);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_environment_has_its_rooms() {
    let found = misplaced(&files(), ENVIRONMENT, &["env::var", "env::set_var", "env::remove_var"]);
    assert!(found.is_empty(), "{found:#?}");
}

/// The path of a tensor's bytes in ARCHITECTURE.md names files and functions that exist.
#[test]
fn the_path_of_bytes_is_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## The path of a tensor's bytes").nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let hops: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split('`').collect())
        .collect();
    assert_eq!(hops.len(), 12, "{hops:#?}");
    for hop in hops {
        let [_, file, _, function, _, ..] = hop[..] else { panic!("no file and function: {hop:?}") };
        let code = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let is_there = ["fn", "def"].iter().any(|word| code.contains(&format!("{word} {function}(")));
        assert!(is_there, "{file} has no function {function}");
    }
}

/// The checks find what they look for.
#[test]
fn offences_are_found() {
    let file = |path: &str, code: &str| (PathBuf::from(path), code.to_owned());
    let files =
        [file("os/lock.rs", "use crate::engine::Engine;"), file("engine/mod.rs", "use crate::os::lock;")];
    assert_eq!(uphill(&files, LAYERS), ["os/lock.rs: os uses engine"]);
    // The library does without what finds out networks and follows their changes.
    for room in ["choice", "adaptation", "engine", "communicator"] {
        let offence = uphill(&[file(&format!("{room}/mod.rs"), "use crate::network::DISCOVERY;")], LAYERS);
        assert_eq!(offence, [format!("{room}/mod.rs: {room} uses network")]);
    }
    assert_eq!(uphill(&[file("attic.rs", "")], LAYERS), ["attic.rs: room attic has no layer"]);
    let files = [file("engine/mod.rs", "let x = Instant::now();"), file("config.rs", "")];
    assert_eq!(misplaced(&files, &["config.rs"], &["Instant::now"]), ["engine/mod.rs", "config.rs has none"]);
    assert_eq!(names_after("crate::", "use crate::{a, b::{c}};").into_iter().collect::<Vec<_>>(), ["a", "b"]);
}
