//! Opens real libraries. A process can load only one UCX, so each scenario runs in a child process: this binary
//! again, with the scenario's name in the environment.

mod exchange;

use exchange::Pair;
use std::path::{Path, PathBuf};
use std::process::Command;
use ucx_sys::{load, LoadError, LoadOptions, Origin, Ucx};

const SCENARIO: &str = "RINGROAD_TEST_SCENARIO";
const BOGUS: &str = "/nonexistent/libucp.so.0";

/// The body of every child. Does nothing if it runs as an ordinary test.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else {
        return;
    };
    match scenario.as_str() {
        "wheel" => {
            let wheel = wheel().expect("checked by the parent");
            let ucx = opened(Some(&wheel));
            assert_eq!(ucx.origin, Origin::Explicit);
            assert_eq!(ucx.path.canonicalize().unwrap(), wheel.canonicalize().unwrap());
            talk(ucx);
        }
        "system" => {
            let ucx = opened(None);
            assert_eq!(ucx.origin, Origin::System);
            talk(ucx);
        }
        "fallback" => {
            let options = LoadOptions { wheel: wheel(), ..Default::default() };
            let ucx = load(&options).unwrap();
            assert!(matches!(ucx.origin, Origin::System | Origin::Wheel), "{ucx:?}");
            // Where both are installed, the choice has a reason. The older one is not taken for being the system's.
            if system_missing().is_none() && wheel_missing().is_none() {
                let reason = ucx.reason.as_deref().unwrap_or_default();
                let newer = match ucx.origin {
                    Origin::Wheel => reason.contains("newer than the system's"),
                    _ => {
                        ["at least as new", "RDMA", "LD_LIBRARY_PATH"].iter().any(|why| reason.contains(why))
                    }
                };
                assert!(newer, "{ucx:?}: {reason}");
            }
        }
        "bogus" => {
            let options = LoadOptions { explicit: Some(BOGUS.into()), wheel: wheel(), ..Default::default() };
            let error = load(&options).unwrap_err();
            assert!(matches!(error, LoadError::Explicit { .. }), "{error:?}");
            let text = error.to_string();
            let beginning = format!("RINGROAD_UCX_LIBRARY={BOGUS} cannot be loaded: ");
            assert!(text.starts_with(&beginning), "{text}");
            assert!(text.contains("No such file"), "{text}");
        }
        "already" => {
            preload("libucp.so.0");
            assert_eq!(opened(None).origin, Origin::AlreadyLoaded);
        }
        "already wheel" => {
            // RAPIDS opens the wheel's libraries by path and under their other names.
            let wheel = wheel().expect("checked by the parent");
            preload(wheel.with_file_name("libucs.so"));
            preload(wheel.with_file_name("libucp.so"));
            assert_eq!(opened(Some(&wheel)).origin, Origin::AlreadyLoaded);
        }
        "conflict" => {
            preload("libucp.so.0");
            let error = failed(wheel().as_deref());
            assert!(matches!(error, LoadError::Conflict { .. }), "{error:?}");
        }
        "mixture" => {
            preload("libucs.so.0");
            let error = failed(wheel().as_deref());
            assert!(matches!(error, LoadError::Mixture { .. }), "{error:?}");
        }
        other => panic!("no scenario {other}"),
    }
    println!("child finished");
}

#[test]
fn explicit_wheel() {
    run("wheel", wheel_missing());
}

#[test]
fn system() {
    run("system", system_missing());
}

#[test]
fn takes_the_newer_of_system_and_wheel() {
    let missing = system_missing().and_then(|system| Some(system + " and " + &wheel_missing()?));
    run("fallback", missing);
}

#[test]
fn bogus_explicit_path_is_an_error() {
    run("bogus", None);
}

#[test]
fn takes_what_is_already_loaded() {
    run("already", system_missing());
    run("already wheel", wheel_missing());
}

#[test]
fn explicit_path_against_what_is_already_loaded() {
    run("conflict", system_missing().or_else(wheel_missing));
}

#[test]
fn refuses_libucs_from_elsewhere() {
    run("mixture", system_missing().or_else(wheel_missing));
}

#[test]
fn the_message_says_what_was_tried_and_what_to_do() {
    let tried = vec!["system: absent".to_owned(), "wheel: broken".to_owned()];
    assert_eq!(
        LoadError::NotFound { tried }.to_string(),
        "no UCX found; pip install libucx-cu12 or apt-get install libucx0, \
         or set RINGROAD_UCX_LIBRARY=/path/to/libucp.so.0\n  tried: system: absent\n  tried: wheel: broken"
    );
}

fn options(explicit: Option<&Path>) -> LoadOptions {
    LoadOptions { explicit: explicit.map(Path::to_owned), environment: true, ..Default::default() }
}

fn opened(explicit: Option<&Path>) -> &'static Ucx {
    let ucx = load(&options(explicit)).unwrap();
    assert_eq!(std::env::var("UCX_HANDLE_ERRORS").as_deref(), Ok("none"));
    assert!(std::ptr::eq(ucx, load(&LoadOptions::default()).unwrap()));
    println!("{ucx:?}");
    ucx
}

fn failed(explicit: Option<&Path>) -> LoadError {
    let error = load(&options(explicit)).unwrap_err();
    println!("{error}");
    error
}

fn talk(ucx: &Ucx) {
    let pair = Pair::new(ucx);
    for (tag, length) in [8, 1 << 20].into_iter().enumerate() {
        pair.exchange(length, tag as u64, false);
        pair.exchange(length, tag as u64, true);
    }
    pair.wakes_up(99);
    pair.close();
}

/// Opens a library as another user of UCX in the process would.
fn preload(name: impl AsRef<std::ffi::OsStr>) {
    // SAFETY: UCX's constructors may run at any time; the handle is leaked.
    std::mem::forget(unsafe { libloading::Library::new(name.as_ref()) }.unwrap());
}

/// Runs a scenario in a child, or skips it. Skipping is a failure if the environment says that the libraries are
/// there.
fn run(scenario: &str, missing: Option<String>) {
    if let Some(reason) = missing {
        let required = std::env::var("RINGROAD_TEST_REQUIRE_UCX").is_ok_and(|value| value == "1");
        assert!(!required, "{scenario}: RINGROAD_TEST_REQUIRE_UCX=1, but {reason}");
        // Written directly to the terminal: the test harness captures what a passing test prints.
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED {scenario}: {reason}");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(SCENARIO, scenario)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(
        output.status.success() && text.contains("child finished"),
        "{scenario}: {}\n{text}",
        output.status
    );
}

fn wheel() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("RINGROAD_TEST_UCX_WHEEL") {
        return Some(path.into());
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    std::fs::read_dir(lib)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages/libucx/lib/libucp.so.0"))
        .find(|path| path.exists())
}

fn wheel_missing() -> Option<String> {
    match wheel() {
        Some(path) if path.exists() => None,
        Some(path) => Some(format!("RINGROAD_TEST_UCX_WHEEL={} is absent", path.display())),
        None => Some("there is no libucx wheel in .venv".to_owned()),
    }
}

/// Reads the loader's cache instead of loading the library, which would load a UCX into the parent.
fn system_missing() -> Option<String> {
    let known = Command::new("/sbin/ldconfig").arg("-p").output();
    let listed = known.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("libucp.so.0"));
    (!listed).then(|| "ldconfig -p lists no libucp.so.0".to_owned())
}
