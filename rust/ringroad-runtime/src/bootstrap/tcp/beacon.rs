//! How a user finds the own processes of a host: each listens at a socket without a file, whose name the kernel lists
//! and forgets with the process. It tells the process's handle to its own user, and to root.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use super::{Reach, Server};
use crate::bootstrap::Handle;
use crate::os::liveness::{started, state};
use crate::os::random::token;

const STACK: usize = 128 << 10;
const PREFIX: &str = "ringroad/";
/// How long a process may take to tell its handle.
const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST: u64 = 8 << 10;

/// A process of this host.
#[derive(Debug)]
pub struct Beacon {
    /// The number of the process.
    pub pid: u32,
    /// What the kernel says of it, as a letter of ps(1): `T` if it is stopped.
    pub state: char,
    /// Its handle; `None` if it does not answer.
    pub handle: Option<Handle>,
}

/// Tells the server's handle from now on.
pub(super) fn light(server: &Server) -> io::Result<()> {
    let pid = std::process::id();
    let name = format!("{PREFIX}{pid}/{}/{:016x}", started(pid).unwrap_or(0), token());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let handle = Handle::of(server, Reach::Machine, None)?.to_text();
    let thread = thread::Builder::new().name("ringroad-status".to_owned()).stack_size(STACK);
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let own = rustix::process::geteuid().as_raw();
            if user(&stream).is_ok_and(|user| user == own || user == 0) {
                // Who does not read it does not get it.
                let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(handle.as_bytes()));
            }
        }
    };
    thread.spawn(serve).map(drop)
}

/// The processes of this user on this host that can be asked; root sees those of all users.
pub fn seen() -> io::Result<Vec<Beacon>> {
    let table = std::fs::read_to_string("/proc/net/unix")?;
    let names = table.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'));
    let mut beacons: Vec<Beacon> = names.filter_map(beacon).collect();
    beacons.sort_by_key(|beacon| beacon.pid);
    Ok(beacons)
}

/// The process behind a name; `None` if it has ended, or is another user's.
fn beacon(name: &str) -> Option<Beacon> {
    let mut parts = name.strip_prefix(PREFIX)?.split('/');
    let pid: u32 = parts.next()?.parse().ok()?;
    // A forked child may hold the socket of a process that has ended.
    let start: u64 = parts.next()?.parse().ok()?;
    let state = state(pid).filter(|_| started(pid) == Some(start))?;
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && user(&stream).ok()? != own {
        return None;
    }
    if matches!(state, 'T' | 't') {
        return Some(Beacon { pid, state, handle: None });
    }
    let mut text = String::new();
    let heard =
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.take(LONGEST).read_to_string(&mut text));
    Some(Beacon { pid, state, handle: heard.ok().and_then(|_| Handle::parse(&text).ok()) })
}

/// The user of the process at the other end.
fn user(stream: &UnixStream) -> io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure lives through the call, which writes no more than the given length.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(found.uid)
    } else {
        Err(io::Error::last_os_error())
    }
}
