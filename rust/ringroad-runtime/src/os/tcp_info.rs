//! What the kernel has counted of a tcp connection (`TCP_INFO`).

use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long another host may be silent.
const SILENCE: Duration = Duration::from_secs(3);
/// How many times the kernel must have asked it meanwhile.
const ASKED: u8 = 2;
/// The states of a connection that nobody has answered (`TCP_SYN_SENT`), and of one that only the other side has closed
/// (`TCP_CLOSE_WAIT`).
const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;
/// What the kernel has counted of a connection (`TCP_INFO`).
#[repr(C, align(8))]
pub(crate) struct TcpInfo([u8; 216]);

impl TcpInfo {
    /// `None` for sockets of other kinds.
    pub fn from_socket(socket: &impl AsRawFd) -> Option<TcpInfo> {
        let mut info = TcpInfo([0; 216]);
        let mut length = info.0.len() as libc::socklen_t;
        // SAFETY: a live buffer of the length that is named. Older kernels write less of it.
        let status = unsafe {
            let into = info.0.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut length)
        };
        (status == 0).then_some(info)
    }

    /// The number at this place of `struct tcp_info` (linux/tcp.h), whose fields keep their places.
    fn short(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().expect("4 bytes"))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.0[at..].first_chunk().expect("8 bytes"))
    }

    /// Whether the other host owes an answer and has given none for a while. Its kernel answers, whatever its process
    /// does: a rank that is stopped, or busy with something else, is not silent. The kernel's own limit
    /// (`TCP_USER_TIMEOUT`) cannot tell these apart, since it also counts the time in which a receiver has no room.
    pub fn is_silent(&self) -> bool {
        let [retransmits, probes] = [self.0[2], self.0[3]];
        let (unacknowledged, last_acknowledged) = (self.short(24), self.short(56));
        let asked = (unacknowledged > 0 && retransmits >= ASKED) || probes >= ASKED;
        asked && u128::from(last_acknowledged) >= SILENCE.as_millis()
    }

    /// Whether the other host has not answered yet.
    pub fn is_calling(&self) -> bool {
        self.0[0] == SYN_SENT
    }

    /// Whether the other process has ended its stream, and the connection has not broken.
    pub fn has_orderly_end(&self) -> bool {
        self.0[0] == CLOSE_WAIT
    }

    /// The bytes that have been sent, and those of them that were sent again.
    pub fn sent(&self) -> u64 {
        self.long(200)
    }

    pub fn sent_again(&self) -> u64 {
        self.long(208)
    }

    pub fn received(&self) -> u64 {
        self.long(128)
    }

    /// The least and the usual round trip, in seconds.
    pub fn round_trips(&self) -> [f64; 2] {
        [148, 68].map(|at| f64::from(self.short(at)) / 1e6)
    }

    /// The bytes per second that have arrived lately.
    pub fn rate(&self) -> f64 {
        self.long(160) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "has no sockets")]
    fn the_kernel_counts() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};

        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let mut other = door.accept().unwrap().0;
        one.write_all(&[1; 3000]).unwrap();
        other.read_exact(&mut [0; 3000]).unwrap();
        other.write_all(&[1; 1]).unwrap();
        one.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::from_socket(&one).unwrap();
        assert_eq!((info.sent(), info.received(), info.sent_again()), (3000, 1, 0));
        assert!(info.round_trips().iter().all(|time| (1e-7..10.0).contains(time)));
        assert!(!info.is_silent() && info.rate() > 0.0);
        assert!(TcpInfo::from_socket(&std::fs::File::open("/").unwrap()).is_none());
    }
}
