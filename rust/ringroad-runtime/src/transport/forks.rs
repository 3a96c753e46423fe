//! Makes forked children close their copies of the sockets of transports and servers. Peers notice the end of a process only when no process
//! holds its end of a connection any more. A child also knows that it lacks UCX's thread, without which it can use UCX only
//! through shared memory.
//!
//! Connections are opened and accepted at any time. The kernel lists the descriptors that an event descriptor polls; the
//! sockets among them are the connections. A child may do little before it begins: it takes no lock and allocates
//! no memory.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::Once;

use rustix::event::epoll;

use crate::os::fork::generation;

/// Marks an entry that is not in use.
const NONE: RawFd = -1;
/// How deeply event descriptors are nested, at most: a worker's polls those of its network devices.
const DEPTH: usize = 3;

/// The event descriptor of a transport. Entries are reused and never freed.
struct DescriptorEntry {
    events: AtomicI32,
    /// Whether it is UCX's.
    has_thread: AtomicBool,
    next: *mut DescriptorEntry,
}

static FIRST: AtomicPtr<DescriptorEntry> = AtomicPtr::new(null_mut());

/// See [`lacks_thread`].
static LACKS_THREAD: AtomicBool = AtomicBool::new(false);

/// Whether UCX had a worker when this process was forked off. Then this process lacks the thread by which UCX accepts
/// connections, and UCX does not start another.
#[cfg_attr(not(feature = "ucx"), allow(dead_code))]
pub(in crate::transport) fn lacks_thread() -> bool {
    LACKS_THREAD.load(Ordering::Relaxed)
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: registers a function of this library, which is never unloaded. The function does only what a child
        // may do. If registering fails, for lack of memory, children keep the sockets.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Notices from now on that children are forked off. Otherwise that begins with the first communicator, too late for a child
/// that another thread forks off at that very moment.
pub fn notice_forks() {
    generation();
    register();
}

/// Makes children close the sockets of one event descriptor, for as long as this value lives.
pub(in crate::transport) struct ForkGuard(&'static AtomicI32);

impl ForkGuard {
    /// `events`: the event descriptor, which stays open as long as this value lives. `has_thread`: whether it is UCX's,
    /// which has a thread that children lack.
    pub fn new(events: RawFd, has_thread: bool) -> ForkGuard {
        register();
        let free = entries().find(|entry| {
            entry.events.compare_exchange(NONE, events, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        });
        let entry = free.unwrap_or_else(|| add(events));
        entry.has_thread.store(has_thread, Ordering::SeqCst);
        ForkGuard(&entry.events)
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        self.0.store(NONE, Ordering::SeqCst);
    }
}

/// Sockets that children close, for as long as this value lives.
pub(crate) struct Sockets {
    _watched: ForkGuard,
    events: OwnedFd,
}

impl Sockets {
    pub fn new() -> io::Result<Sockets> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Sockets { _watched: ForkGuard::new(events.as_raw_fd(), false), events })
    }

    /// Adds a socket, until it is closed.
    pub fn add(&self, socket: impl AsFd) -> io::Result<()> {
        let nothing = epoll::EventFlags::empty();
        Ok(epoll::add(&self.events, socket, epoll::EventData::new_u64(0), nothing)?)
    }
}

fn entries() -> impl Iterator<Item = &'static DescriptorEntry> {
    let mut next = FIRST.load(Ordering::SeqCst);
    std::iter::from_fn(move || {
        // SAFETY: null, or an entry that is never freed and whose link never changes.
        let entry = unsafe { next.as_ref() }?;
        next = entry.next;
        Some(entry)
    })
}

fn add(events: RawFd) -> &'static DescriptorEntry {
    let entry = Box::leak(Box::new(DescriptorEntry {
        events: AtomicI32::new(events),
        has_thread: AtomicBool::new(false),
        next: null_mut(),
    }));
    let added: *mut DescriptorEntry = entry;
    let link = |first: *mut DescriptorEntry| {
        entry.next = first;
        Some(added)
    };
    let _ = FIRST.fetch_update(Ordering::SeqCst, Ordering::SeqCst, link);
    entry
}

extern "C" fn in_child() {
    for entry in entries() {
        // The connections are the parent's.
        let events = entry.events.swap(NONE, Ordering::SeqCst);
        if events != NONE {
            LACKS_THREAD.fetch_or(entry.has_thread.load(Ordering::SeqCst), Ordering::Relaxed);
            listened_to(events, &mut |socket, _| {
                // SAFETY: the child's copy of a socket. Nobody uses it in the child: the transport is the parent's.
                unsafe { libc::close(socket) };
            });
        }
    }
}

/// Calls `each` with the sockets, and their inodes, that the event descriptor `events` polls, directly or through other
/// event descriptors. Takes no lock and allocates no memory.
pub(in crate::transport) fn listened_to(events: RawFd, each: &mut dyn FnMut(RawFd, u64)) {
    listened_to_within(events, DEPTH, each);
}

fn listened_to_within(events: RawFd, depth: usize, each: &mut dyn FnMut(RawFd, u64)) {
    let mut path = [0; 32];
    // The last byte stays zero.
    if write!(&mut path[..31], "/proc/self/fdinfo/{events}").is_err() {
        return;
    }
    // SAFETY: a path that ends in zero.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let (mut line, mut length, mut chunk) = ([0; 256], 0, [0; 1024]);
    loop {
        // SAFETY: an open file, and a buffer of this length.
        let read = unsafe { libc::read(file, chunk.as_mut_ptr().cast(), chunk.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for &byte in &chunk[..read] {
            if byte != b'\n' {
                // A line that does not fit is none that is looked for.
                line[length.min(255)] = byte;
                length += 1;
                continue;
            }
            let target = std::str::from_utf8(&line[..length.min(256)]).ok().and_then(target);
            length = 0;
            match target {
                Some((descriptor, inode)) if inode_of(descriptor) == Some(inode) => each(descriptor, inode),
                Some((descriptor, _)) if depth > 1 => listened_to_within(descriptor, depth - 1, each),
                _ => {}
            }
        }
    }
    // SAFETY: opened above, and not used afterwards.
    unsafe { libc::close(file) };
}

/// The polled descriptor and its inode, from a line like `tfd:  5 events:  19 data:  5  pos:0 ino:40e sdev:8`.
fn target(line: &str) -> Option<(RawFd, u64)> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let descriptor = words.next()?.parse().ok()?;
    let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
    Some((descriptor, u64::from_str_radix(inode, 16).ok()?))
}

/// The inode of a socket; `None` of other descriptors.
pub(in crate::transport) fn inode_of(descriptor: RawFd) -> Option<u64> {
    // SAFETY: all zero is a valid status, which is overwritten if there is such a descriptor.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a live local.
    let known = unsafe { libc::fstat(descriptor, &mut status) } == 0;
    (known && status.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(status.st_ino)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "tfd:       17 events:       19 data:               1b  pos:0 ino:27f2f sdev:8";
        assert_eq!(target(line), Some((17, 0x27f2f)));
        for line in ["", "pos:\t0", "tfd:", "tfd: x ino:1", "tfd: 1 events: 19", "tfd: 1 ino:-"] {
            assert_eq!(target(line), None, "{line:?}");
        }
    }

    /// Sockets are found through two event descriptors, and only as long as they are watched.
    #[test]
    fn children_close_what_is_watched_and_know_it() {
        let listen = |to: RawFd| {
            let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            // SAFETY: open for longer than the borrow.
            let to = unsafe { std::os::fd::BorrowedFd::borrow_raw(to) };
            epoll::add(&events, to, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
            events
        };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let inner = listen(ours.as_raw_fd());
        let outer = listen(inner.as_raw_fd());
        let other = UnixStream::pair().unwrap().0;
        let inode = File::from(OwnedFd::from(ours.try_clone().unwrap())).metadata().unwrap().ino();
        assert_eq!(inode_of(ours.as_raw_fd()), Some(inode));
        assert_ne!(inode_of(other.as_raw_fd()), Some(inode));
        assert_eq!(inode_of(inner.as_raw_fd()), None, "it is no socket");
        let open_in_child = || {
            // SAFETY: the child only looks at a descriptor and a flag, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_open = inode_of(ours.as_raw_fd()) == Some(inode);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(is_open) + 2 * i32::from(lacks_thread())) };
            }
            let mut ended = 0;
            // SAFETY: a child of this process, and a live local.
            assert_eq!(unsafe { libc::waitpid(child, &mut ended, 0) }, child);
            libc::WIFEXITED(ended).then(|| libc::WEXITSTATUS(ended))
        };
        let watched = ForkGuard::new(outer.as_raw_fd(), true);
        assert_eq!(open_in_child(), Some(2));
        drop(watched);
        assert_eq!(open_in_child(), Some(1));
        assert!(!lacks_thread());
        drop(theirs);
    }
}
