//! Notices connections whose other host does not answer any more, for example because a cable was cut.
//!
//! The kernel of the other host acknowledges what arrives there, whatever its process does. So a rank that is stopped, or
//! busy with something else, does not count as lost: its host answers. A connection that is idle gets the kernel's
//! keep-alive probes every second (`UCX_TCP_KEEPIDLE`); on others there is something to acknowledge. Nothing is sent for
//! this, and short calls do not pay for it. UCX itself does not notice a cut cable before the kernel gives up, which
//! takes many minutes, or (from 1.20 on, by `UCX_TCP_USER_TIMEOUT`) also takes a stopped rank for lost.
//!
//! A connection that is not answered is shut down. UCX then reports its peer as failed, like any that has left.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{shutdown, Shutdown};

use crate::os::tcp_info::TcpInfo;
use crate::transport::forks::{inode_of, listened_to};

/// How often connections are looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// A rank that has not looked for longer was not awake: it must see the silence once more.
const ASLEEP: Duration = Duration::from_secs(2);

/// What one rank has seen of its connections.
#[derive(Default)]
pub(super) struct Connections {
    looked: Option<Instant>,
    /// The inodes of the sockets that were silent at the last look.
    silent: Vec<u64>,
}

impl Connections {
    /// Whether it is time to look.
    pub fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= CHECK_INTERVAL)
    }

    /// Looks at the connections of these workers, and shuts down those that were silent at the last look and still
    /// are. `events`: the workers' event descriptors.
    pub fn check_sockets(&mut self, events: impl Iterator<Item = RawFd>) {
        let now = Instant::now();
        let awake = self.looked.replace(now).is_some_and(|looked| now - looked < ASLEEP);
        let known = std::mem::take(&mut self.silent);
        for events in events {
            listened_to(events, &mut |descriptor, inode| {
                let Some(socket) = held(descriptor, inode).filter(is_silent) else { return };
                if awake && known.contains(&inode) {
                    end(&socket);
                } else {
                    self.silent.push(inode);
                }
            });
        }
    }
}

/// Ends a connection, for both sides: what is lost may be lost one way only, and when UCX closes the socket the other host
/// gets a reset, which needs no answer, instead of an end that waits behind all that was not acknowledged.
fn end(socket: &OwnedFd) {
    // It may have ended meanwhile.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
    let _ = shutdown(socket, Shutdown::Both);
}

/// A descriptor of our own of this socket. `None` if UCX has closed it meanwhile: its number may be another's by now.
fn held(descriptor: RawFd, inode: u64) -> Option<OwnedFd> {
    // SAFETY: makes a new descriptor, or fails.
    let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: new, so nobody else owns it.
    let own = (own >= 0).then(|| unsafe { OwnedFd::from_raw_fd(own) })?;
    (inode_of(own.as_raw_fd()) == Some(inode)).then_some(own)
}

/// Whether this is a TCP connection on which the other host owes an answer.
fn is_silent(socket: &OwnedFd) -> bool {
    TcpInfo::from_socket(socket).is_some_and(|info| info.is_silent())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A peer that reads nothing, and whose buffers are full, still answers: its host does. (A cut cable needs a network
    /// of its own: tests/failures/test_faults.py.)
    #[test]
    fn who_is_busy_is_not_silent() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let _busy = door.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        let own = OwnedFd::from(stream.try_clone().unwrap());
        assert!(!is_silent(&own));
        let inode = inode_of(own.as_raw_fd()).unwrap();
        assert!(held(own.as_raw_fd(), inode).is_some());
        assert!(held(own.as_raw_fd(), inode + 1).is_none());
        assert!(held(-1, inode).is_none());
    }

    #[test]
    fn a_rank_looks_twice_a_second() {
        let mut connections = Connections::default();
        assert!(connections.is_due());
        connections.check_sockets(std::iter::empty());
        assert!(!connections.is_due());
    }
}
