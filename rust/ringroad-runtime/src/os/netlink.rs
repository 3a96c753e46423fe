//! Questions to the kernel by netlink sockets, and what their answers have in common (linux/netlink.h).

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{send, socket_with, AddressFamily, Protocol, SendFlags, SocketFlags, SocketType};

/// The kernel answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// What each message begins with: its length, its kind, and numbers that do not matter here.
pub(super) const HEADER: usize = 16;
pub(super) const REQUEST: u16 = 1;

/// Asks the kernel something of this kind. What it answers comes by the socket.
pub(super) fn ask(
    protocol: Option<Protocol>,
    kind: u16,
    flags: u16,
    question: &[u8],
) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    let mut message = ((HEADER + question.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST | flags).to_ne_bytes());
    message.resize(HEADER, 0);
    message.extend(question);
    send(&socket, &message, SendFlags::empty())?;
    Ok(socket)
}

/// The bytes of a number at this place, if the answer is so long.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
