//! What a process says when somebody asks how its job stands. Every server of the process answers for it, to those who
//! know the secret. Calls pay nothing: nothing is noted before somebody asks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::attempt;
use super::wire::AccessKey;
use super::{JobPlace, TcpStore, UnreachableProcess};
use crate::bootstrap::endpoint_info::{host_name, pid_space};
use crate::bootstrap::Handle;
use crate::os::fork::Global;
use crate::os::liveness::started;

/// The group by which processes are asked.
pub(super) const GROUP: &str = "ringroad status";
/// How many processes are asked at a time.
const AT_ONCE: usize = 256;
const STACK: usize = 128 << 10;

/// What somebody wants to know of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    /// The other ranks, and how they are reached.
    pub members: bool,
    /// What its Python threads do.
    pub stacks: bool,
}

/// Says how one of this process's communicators stands.
pub trait Reporter: Send + Sync {
    /// The secret of those who may ask.
    fn secret(&self) -> Option<&str>;
    /// The answer; `None` if the communicator is not this process's.
    fn report(&self, inquiry: Inquiry) -> Option<Value>;
}

/// What a process says of itself.
#[derive(Debug, Serialize)]
pub struct Report {
    ringroad: &'static str,
    host: String,
    pid: u32,
    pid_space: String,
    started: Option<u64>,
    /// The segments that the host's kernel has sent over tcp since it started, and those of them that were sent again.
    segments: Option<(u64, u64)>,
    communicators: Vec<Value>,
    stacks: Option<Value>,
    /// Why they are missing, if they were wanted.
    no_stacks: Option<String>,
}

/// What the Python threads do, or why that is not known.
type Stacks = fn() -> Result<Value, String>;

static REPORTERS: Global<Vec<Weak<dyn Reporter>>> = Global::new();
static STACKS: OnceLock<Stacks> = OnceLock::new();

/// Asks this reporter from now on, as long as it exists.
pub fn report_by(reporter: Weak<dyn Reporter>) {
    let mut reporters = REPORTERS.lock();
    reporters.retain(|known| known.strong_count() > 0);
    reporters.push(reporter);
}

/// The stacks come from here from now on.
pub fn stacks_by(stacks: Stacks) {
    STACKS.get_or_init(|| stacks);
}

impl Report {
    /// What this process says to those who know this secret.
    pub fn make(secret: Option<&str>, inquiry: Inquiry) -> Report {
        let reporters: Vec<Arc<dyn Reporter>> = REPORTERS.lock().iter().filter_map(Weak::upgrade).collect();
        let known = reporters.iter().filter(|reporter| reporter.secret() == secret);
        let communicators = known.filter_map(|reporter| reporter.report(inquiry)).collect();
        let stacks = match STACKS.get().filter(|_| inquiry.stacks) {
            Some(stacks) => stacks(),
            None => Err("no Python program runs there".to_owned()),
        };
        let (stacks, no_stacks) = match stacks {
            Ok(stacks) => (Some(stacks), None),
            Err(why) => (None, inquiry.stacks.then_some(why)),
        };
        let pid = std::process::id();
        Report {
            ringroad: env!("CARGO_PKG_VERSION"),
            host: host_name(),
            pid,
            pid_space: pid_space(),
            started: started(pid),
            segments: std::fs::read_to_string("/proc/net/snmp").ok().as_deref().and_then(segments),
            communicators,
            stacks,
            no_stacks,
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a report has nothing that JSON cannot express")
    }
}

/// The answer to an inquiry; `None` if it is none.
pub(super) fn answer(secret: Option<&str>, asked: &[u8]) -> Option<Vec<u8>> {
    let inquiry = serde_json::from_slice(asked).ok()?;
    Some(Report::make(secret, inquiry).to_json())
}

/// `OutSegs` and `RetransSegs` of a kernel's table: a line of names, and a line of numbers.
fn segments(table: &str) -> Option<(u64, u64)> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let mut number = |name: &str| pairs.find(|(known, _)| *known == name)?.1.parse().ok();
    Some((number("OutSegs")?, number("RetransSegs")?))
}

/// Why a process has not answered, and whether the kernel of its host says that it has ended.
pub type Unanswered = (String, bool);

/// Asks many processes at once. Each answers within `within`, or the error says why it does not.
pub fn ask_all(
    handles: &[Handle],
    secret: Option<&str>,
    inquiry: Inquiry,
    within: Duration,
) -> Vec<Result<Vec<u8>, Unanswered>> {
    let ask = |handle: &Handle| {
        let key = AccessKey::new(&handle.token, secret).asking_all();
        let store = TcpStore::connect_by(key, handle, Instant::now() + within)
            .map_err(|error| (error.to_string(), matches!(error, UnreachableProcess::Gone(_))))?;
        inquire(&store, inquiry).map_err(|why| (why, false))
    };
    let chunks = handles.chunks(AT_ONCE).map(|some| {
        thread::scope(|scope| {
            let start =
                |handle| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || ask(handle));
            let asked: Vec<_> = some.iter().map(start).collect();
            let end = |asked: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match asked {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(("asking it has panicked".to_owned(), false)))
                }
                Err(error) => Err((format!("cannot start a thread: {error}"), false)),
            };
            asked.into_iter().map(end).collect::<Vec<_>>()
        })
    });
    chunks.flatten().collect()
}

/// Asks the process that serves a job's store.
pub fn ask_at(
    place: &JobPlace,
    secret: Option<&str>,
    inquiry: Inquiry,
    within: Duration,
) -> Result<Vec<u8>, String> {
    let key = place.key(secret).asking_all();
    let until = Instant::now() + within;
    let mut obstacle = format!("{} has no address", place.host);
    for port in &place.ports {
        let addresses = (place.host.as_str(), *port)
            .to_socket_addrs()
            .map_err(|error| format!("{}: {error}", place.host));
        for address in addresses? {
            let address: SocketAddr = address;
            let who = format!("rank 0 at {address}");
            obstacle = match attempt(address, &key, until) {
                Ok(Ok(channel)) => {
                    return inquire(&TcpStore::over(channel, address, key, who, within), inquiry)
                }
                Ok(Err(verdict)) => format!(
                    "what listens at {address} {verdict}; or ask as the user whose job it is, from where it was started, or on \
                     one of its hosts without an address"
                ),
                Err(error) => format!("nobody answers at {address}: {error}"),
            };
        }
    }
    Err(obstacle)
}

fn inquire(store: &TcpStore, inquiry: Inquiry) -> Result<Vec<u8>, String> {
    let asked = serde_json::to_vec(&inquiry).expect("JSON can express this");
    let answer = store.tell(GROUP, &asked).map_err(|error| error.to_string())?;
    answer.ok_or_else(|| "its version of ringroad does not answer this".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_the_kernels_table() {
        let table = "Ip: Forwarding\nIp: 1\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 17 4 0\n";
        assert_eq!(segments(table), Some((17, 4)));
        for table in ["", "Tcp: OutSegs\n", "Tcp: OutSegs RetransSegs\nTcp: 17\n", "Tcp: a b\nTcp: 1 2\n"] {
            assert_eq!(segments(table), None, "{table:?}");
        }
    }
}
