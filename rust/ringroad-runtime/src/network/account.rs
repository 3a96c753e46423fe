//! What the kernel has counted of a tcp connection (`TCP_INFO`).

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Where `tcpi_bytes_received` stands in `struct tcp_info` (linux/tcp.h), whose fields keep their places.
const BYTES_RECEIVED: usize = 128;
const LENGTH: usize = 256;

/// How many bytes have arrived, read or not; `None` if the kernel does not count them (before Linux 4.1).
pub(super) fn received(stream: &TcpStream) -> Option<u64> {
    let mut info = [0u8; LENGTH];
    let mut length = LENGTH as libc::socklen_t;
    // SAFETY: the buffer lives through the call, which writes no more than the given length.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let known = result == 0 && length as usize >= BYTES_RECEIVED + 8;
    known.then(|| u64::from_ne_bytes(*info[BYTES_RECEIVED..].first_chunk().expect("8 bytes")))
}
