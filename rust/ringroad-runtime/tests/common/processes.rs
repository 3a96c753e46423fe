//! Tests over UCX, in child processes: each is the test's binary again, and the environment says what it does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Request};

/// How much later than promised an error may come.
pub const SLACK: Duration = Duration::from_secs(5);
/// The timeout of calls that are meant to time out.
pub const SHORT: Duration = Duration::from_millis(600);

/// The UCX libraries to test with: each with a name, and with a path, "system", or the reason why it is missing.
pub fn libraries() -> [(&'static str, Result<String, String>); 2] {
    if !cfg!(feature = "ucx") {
        return ["wheel", "system"].map(|name| (name, Err("this build has no UCX".to_owned())));
    }
    [("wheel", wheel()), ("system", system())]
}

/// Those with which a test runs whose `number`-th means this is: each with every second means, unless `RINGROAD_TEST_FULL=1`
/// asks for all, or one of them is missing.
pub fn libraries_for(number: usize) -> impl Iterator<Item = (&'static str, Result<String, String>)> {
    let libraries = libraries();
    let all = full() || libraries.iter().any(|(_, l)| l.is_err());
    libraries.into_iter().enumerate().filter(move |(turn, _)| all || turn % 2 == number % 2).map(|(_, l)| l)
}

/// Whether to run everything, and not what takes turns.
pub fn full() -> bool {
    std::env::var_os("RINGROAD_TEST_FULL").is_some()
}

pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A command that runs the ignored test `child` of this binary.
pub fn child() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--ignored", "--nocapture"]);
    command.env_remove("UCX_TLS").env("RUST_BACKTRACE", "0").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs children until all have ended or `limit` has passed. Returns for each whether it finished, and its output.
pub fn run(commands: Vec<Command>, limit: Duration) -> Vec<(bool, String)> {
    let mut children: Vec<Child> = commands.into_iter().map(|mut command| command.spawn().unwrap()).collect();
    let began = Instant::now();
    // All are reaped at once: for UCX a process that was killed is alive as long as it is a zombie.
    while children.iter_mut().map(|child| child.try_wait().unwrap().is_none()).fold(false, |a, b| a | b) {
        if began.elapsed() > limit {
            children.iter_mut().for_each(|child| child.kill().unwrap());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    children.into_iter().map(output).collect()
}

/// Ends this process as the kernel does when memory runs out.
pub fn die() -> ! {
    let _ = Command::new("/bin/kill").args(["-9", &std::process::id().to_string()]).status();
    unreachable!("killed")
}

/// Whether the child finished, and its output.
fn output(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let finished = output.status.success() && text.contains("child finished");
    let boring = ["child finished", "running 1 test", "test child", "test result"];
    let kept = text.lines().filter(|line| !line.is_empty() && !boring.iter().any(|b| line.starts_with(b)));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    (finished, if finished { kept } else { format!("{kept}({})\n", output.status) })
}

/// A receive of a message that nobody sends.
pub fn never() -> Request {
    let operation = Operation::Receive { peer: 0, tag: 1 };
    Request::new(operation, DType::U8, 8, Memory::nothing(), Memory::zeroed(8))
}

/// Rank 1 makes another call than this one.
pub fn late(communicator: &Communicator, request: Request) {
    let start = Instant::now();
    let error = if communicator.rank() == 1 {
        communicator.run(never()).unwrap_err()
    } else {
        communicator.run(Request { timeout: Some(SHORT), ..request }).unwrap_err()
    };
    println!("after {:?}: {error}", start.elapsed());
    assert!(start.elapsed() < SHORT + SLACK);
    let Error::Timeout(message) = &error else { panic!("{error:?}") };
    // Over cables a rank is notified, if at all, only by the ranks that it is connected to.
    let (_, absent) = message.split_once("Not in this call:").expect(message);
    assert!(absent.contains("\n  rank 1 ("), "{message}");
    useless(communicator);
}

/// Rank 0 gives up between two of these calls.
pub fn aborted(communicator: &Communicator, request: impl Fn() -> Request) {
    let first = communicator.run(request());
    if communicator.rank() == 0 {
        first.unwrap();
        communicator.abort("enough of it").unwrap();
        return useless(communicator);
    }
    // Some ranks may be notified in the first call or after it.
    let error = first.and_then(|_| communicator.run(request())).unwrap_err();
    assert!(matches!(&error, Error::Aborted(message) if message.contains("enough of it")), "{error:?}");
    useless(communicator);
}

/// Checks that after a failure no call can be made, and that closing takes no time.
pub fn useless(communicator: &Communicator) {
    let start = Instant::now();
    let error = communicator.run(Request::barrier()).unwrap_err();
    assert!(error.to_string().contains("failed earlier"), "{error}");
    communicator.close();
    assert!(start.elapsed() < SLACK);
}

/// The processor time that this process has used so far.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time given.
    #[allow(unsafe_code)]
    unsafe {
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time), 0);
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub fn skip(what: &str, reason: &str) {
    let required = std::env::var("RINGROAD_TEST_REQUIRE_UCX").is_ok_and(|value| value == "1");
    assert!(!required, "{what}: RINGROAD_TEST_REQUIRE_UCX=1, but {reason}");
    say_skipped(what, reason);
}

pub fn say_skipped(what: &str, reason: &str) {
    // Written directly to the terminal: the harness captures what a passing test prints.
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {reason}");
}

fn wheel() -> Result<String, String> {
    let named = std::env::var_os("RINGROAD_TEST_UCX_WHEEL").map(PathBuf::from);
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let installed = || {
        let entries = std::fs::read_dir(lib).ok()?.filter_map(Result::ok);
        let mut paths = entries.map(|entry| entry.path().join("site-packages/libucx/lib/libucp.so.0"));
        paths.find(|path| path.exists())
    };
    match named.or_else(installed) {
        Some(path) if path.exists() => Ok(path.display().to_string()),
        Some(path) => Err(format!("RINGROAD_TEST_UCX_WHEEL={} is absent", path.display())),
        None => Err("there is no libucx wheel in .venv".to_owned()),
    }
}

/// Reads the loader's cache instead of loading the library, which would load a UCX into the parent.
fn system() -> Result<String, String> {
    let known = Command::new("/sbin/ldconfig").arg("-p").output();
    let listed = known.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("libucp.so.0"));
    listed.then(|| "system".to_owned()).ok_or_else(|| "ldconfig -p lists no libucp.so.0".to_owned())
}
