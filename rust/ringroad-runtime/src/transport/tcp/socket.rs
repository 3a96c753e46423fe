//! Sockets that never block, and what the kernel knows of them.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, iovec};
use rustix::io::Errno;
use rustix::net::{self, sockopt, AddressFamily, SocketFlags, SocketType};

use crate::os::ports::{bind, PortRange};

/// How many connections may wait to be accepted, if the system allows so many.
const BACKLOG: i32 = 4096;
/// How often the kernel asks the other host of an idle connection whether it is there, in seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How often it asks in vain before it gives up by itself. Long after [`TcpInfo::is_silent`](crate::os::tcp_info::TcpInfo::is_silent) has noticed.
const KEEP_ALIVES: u32 = 30;
/// How many bytes the kernel takes before it can send them, unless told otherwise.
const UNSENT: usize = 256 << 10;

/// A socket that listens at `address`, at one of `ports` or any.
pub(super) fn listen(address: IpAddr, ports: PortRange) -> io::Result<(OwnedFd, SocketAddr)> {
    bind(address, ports, listen_at)
}

fn listen_at(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = open(address, None)?;
    // A port of a communicator that has just been closed may be used again.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    let name = SocketAddr::try_from(net::getsockname(&socket)?)?;
    Ok((socket, name))
}

/// Starts to connect to `to`, from `from`, an address of the same kind, if that is named.
pub(super) fn connect(to: SocketAddr, from: Option<IpAddr>, device: Option<&str>) -> io::Result<OwnedFd> {
    let socket = open(to, device)?;
    if let Some(from) = from {
        net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn open(address: SocketAddr, device: Option<&str>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(device) = device {
        // Only where this is permitted; the address says the same where routes are not strange.
        let _ = set(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes());
    }
    Ok(socket)
}

/// The next connection that waits to be accepted, if there is one. Errors of single connections are passed over.
pub(super) fn accept(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(accepted) => Ok(Some(accepted)),
        Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Err(io::Error::last_os_error()),
        Err(_) => Ok(None),
    }
}

/// Settings of every connection. `unsent`: how many bytes the kernel takes before it can send them.
pub(super) fn prepare(socket: &OwnedFd, unsent: Option<usize>) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEP_ALIVE)?;
    sockopt::set_tcp_keepcnt(socket, KEEP_ALIVES)?;
    let unsent = c_int::try_from(unsent.unwrap_or(UNSENT)).unwrap_or(c_int::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &unsent.to_ne_bytes())
}

/// Drops what waits to be sent once the socket is closed, and tells the other host so, which may still hear this one.
pub(super) fn reset_at_close(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

fn set(socket: &OwnedFd, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the value lives through the call, and its length is given.
    let result = unsafe {
        let value = (value.as_ptr().cast::<c_void>(), value.len() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), level, name, value.0, value.1)
    };
    (result == 0).then_some(()).ok_or_else(io::Error::last_os_error)
}

/// Why the socket has failed, if it has.
pub(super) fn error(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Writes what the kernel takes now; `None` if that is nothing.
///
/// # Safety
/// The parts are readable, and nobody writes them meanwhile.
pub(super) unsafe fn write(socket: &OwnedFd, parts: &mut [iovec]) -> io::Result<Option<usize>> {
    // SAFETY: plain numbers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
    // SAFETY: the parts live through the call, as the caller promises.
    counted(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })
}

/// Reads what has come; `None` if that is nothing yet, 0 at the end.
///
/// # Safety
/// The parts are writable, and nobody else uses them meanwhile.
pub(super) unsafe fn read(socket: &OwnedFd, parts: &[iovec]) -> io::Result<Option<usize>> {
    // SAFETY: the parts live through the call, as the caller promises.
    counted(unsafe { libc::readv(socket.as_raw_fd(), parts.as_ptr(), parts.len() as c_int) })
}

fn counted(result: isize) -> io::Result<Option<usize>> {
    usize::try_from(result).map(Some).or_else(|_| {
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    })
}

/// Whether the other host has acknowledged everything that was written.
pub(super) fn is_acknowledged(socket: &OwnedFd) -> bool {
    let mut waiting: c_int = 0;
    // SAFETY: a live local, of the type that this request writes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    result != 0 || waiting == 0
}
