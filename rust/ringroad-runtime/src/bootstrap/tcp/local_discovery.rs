//! How a user finds the own processes of a host: each listens at a socket without a file, whose name the kernel lists
//! and forgets with the process. It tells the process's handle to its own user, and to root.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use rustix::io::{ioctl_fionbio, Errno};
use rustix::net::{socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::{Server, ServerReach};
use crate::bootstrap::Handle;
use crate::os::liveness::{started, state};
use crate::os::random::token;

const STACK: usize = 128 << 10;
const PREFIX: &str = "ringroad/";
/// How long a process may take to tell its handle.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_ANSWER_BYTES: u64 = 8 << 10;

/// A process of this host.
#[derive(Debug)]
pub struct LocalProcess {
    /// The number of the process.
    pub pid: u32,
    /// What the kernel says of it, as a letter of ps(1): `T` if it is stopped.
    pub state: char,
    /// Its handle; `None` if it does not answer.
    pub handle: Option<Handle>,
}

/// Tells the server's handle from now on.
pub(super) fn advertise(server: &Server) -> io::Result<()> {
    let pid = std::process::id();
    let name = format!("{PREFIX}{pid}/{}/{:016x}", started(pid).unwrap_or(0), token());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let handle = Handle::from_server(server, ServerReach::Machine, None)?.to_text();
    let thread = thread::Builder::new().name("ringroad-status".to_owned()).stack_size(STACK);
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let own = rustix::process::geteuid().as_raw();
            if user(&stream).is_ok_and(|user| user == own || user == 0) {
                // A caller that does not read it does not get it.
                let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(handle.as_bytes()));
            }
        }
    };
    thread.spawn(serve).map(drop)
}

/// The processes of this user on this host that can be asked; root sees those of all users.
pub fn local_processes() -> io::Result<Vec<LocalProcess>> {
    let table = std::fs::read_to_string("/proc/net/unix")?;
    let names = table.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'));
    let mut processes: Vec<LocalProcess> = names.filter_map(process_behind).collect();
    processes.sort_by_key(|process| process.pid);
    Ok(processes)
}

/// The process behind a name; `None` if it has ended, or is another user's.
fn process_behind(name: &str) -> Option<LocalProcess> {
    let mut parts = name.strip_prefix(PREFIX)?.split('/');
    let pid: u32 = parts.next()?.parse().ok()?;
    // A forked child may hold the socket of a process that has ended.
    let start: u64 = parts.next()?.parse().ok()?;
    let state = state(pid).filter(|_| started(pid) == Some(start))?;
    let own = rustix::process::geteuid().as_raw();
    let stream = match connect(name) {
        // It has answered nobody for long. Whose it is the kernel says in another way.
        Err(Errno::AGAIN) => {
            let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
            return (own == 0 || owner == own).then_some(LocalProcess { pid, state, handle: None });
        }
        stream => stream.ok()?,
    };
    if own != 0 && user(&stream).ok()? != own {
        return None;
    }
    if matches!(state, 'T' | 't') {
        return Some(LocalProcess { pid, state, handle: None });
    }
    let mut text = String::new();
    let heard = stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .and_then(|()| stream.take(MAX_ANSWER_BYTES).read_to_string(&mut text));
    Some(LocalProcess { pid, state, handle: heard.ok().and_then(|_| Handle::parse(&text).ok()) })
}

/// Connects without waiting: who answers nobody has no place for others, and who made that socket may mean harm.
fn connect(name: &str) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    ioctl_fionbio(&stream, false)?;
    Ok(stream)
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

#[cfg(all(test, not(miri)))]
mod tests {
    use rustix::net::{bind, listen};

    use super::*;

    /// A rank that accepts nobody, with no place for another caller, does not hold up those who ask.
    #[test]
    fn who_answers_nobody_is_seen_too() {
        let pid = std::process::id();
        let name = format!("{PREFIX}{pid}/{}/{:016x}", started(pid).unwrap(), token());
        let door = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&door, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        listen(&door, 0).unwrap();
        let callers: Vec<_> = std::iter::from_fn(|| connect(&name).ok()).collect();
        assert_eq!(connect(&name).err(), Some(Errno::AGAIN), "after {} callers", callers.len());
        let seen = process_behind(&name).unwrap();
        assert_eq!((seen.pid, seen.handle), (pid, None));
    }
}
