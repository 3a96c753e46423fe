//! Datagrams with a limited number of hops, and who answers for those that get no further.
//!
//! A router that drops a datagram because its hops are used up says so to the sender, and a host that has no such port
//! says that. The kernel keeps these complaints in the socket's error queue (`IP_RECVERR`; ip(7), ipv6(7)), where any user
//! may read them: no raw socket and no privilege is needed.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::c_int;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::os::ports::{bind, PortRange};

/// How many hops a datagram has whose number of hops is to be found.
pub(super) const HOPS: u8 = 64;
/// More bytes than the messages beside a datagram take.
const BESIDE: usize = 512;

/// A socket for datagrams of one address family.
pub(super) struct Datagrams {
    socket: UdpSocket,
    is_ipv6: bool,
}

/// A datagram that has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub from: SocketAddr,
    pub length: usize,
    /// Of the sender's [`HOPS`], how many were left.
    pub left: Option<u8>,
}

/// What somebody on the way says about a datagram that did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Complaint {
    /// Where the datagram was sent.
    pub about: SocketAddr,
    /// The rank that says so.
    pub by: IpAddr,
    /// Whether its hops were used up; otherwise it could not be delivered.
    pub expired: bool,
}

impl Datagrams {
    /// A socket at any free port, or at one of `ports`.
    pub fn open(is_ipv6: bool, ports: PortRange) -> io::Result<Datagrams> {
        let any: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = bind(any, ports, UdpSocket::bind)?;
        socket.set_nonblocking(true)?;
        let made = Datagrams { socket, is_ipv6 };
        let (level, complaints, hops) = match is_ipv6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::IPV6_RECVHOPLIMIT),
            false => (libc::IPPROTO_IP, libc::IP_RECVERR, libc::IP_RECVTTL),
        };
        made.set(level, complaints, 1)?;
        made.set(level, hops, 1)?;
        Ok(made)
    }

    /// The port at which it receives.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    fn set(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        let size = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the value lives through the call, and its size is given.
        let result = unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), level, name, (&raw const value).cast(), size)
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Sends a datagram that may go so many hops. A complaint about an earlier one is no error of this one.
    pub fn send(&self, to: SocketAddr, hops: u8, content: &[u8]) -> io::Result<()> {
        let (level, name) = match self.is_ipv6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
            false => (libc::IPPROTO_IP, libc::IP_TTL),
        };
        self.set(level, name, hops.into())?;
        // The kernel reports an earlier datagram's complaint once, by the next call.
        self.socket.send_to(content, to).or_else(|_| self.socket.send_to(content, to)).map(drop)
    }

    /// The next datagram that has come, if there is one.
    pub fn receive(&self, content: &mut [u8]) -> Option<Arrival> {
        // A failed call has reported a complaint; the next one goes on.
        let received = self.receive_message(content, 0).or_else(|| self.receive_message(content, 0))?;
        let left = received.beside.iter().find_map(|message| match *message {
            Beside::Hops(left) => Some(left),
            Beside::Complaint { .. } => None,
        });
        Some(Arrival { from: received.name?, length: received.length, left })
    }

    /// The next complaint, if there is one.
    pub fn complaint(&self) -> Option<Complaint> {
        loop {
            let received = self.receive_message(&mut [0; 64], libc::MSG_ERRQUEUE)?;
            let found = received.beside.iter().find_map(|message| match *message {
                Beside::Complaint { by, expired } => Some((by, expired)),
                Beside::Hops(_) => None,
            });
            if let (Some(about), Some((by, expired))) = (received.name, found) {
                return Some(Complaint { about, by, expired });
            }
        }
    }

    fn receive_message(&self, content: &mut [u8], flags: c_int) -> Option<Received> {
        #[repr(align(8))]
        struct Aligned([u8; BESIDE]);
        let mut beside = Aligned([0; BESIDE]);
        // SAFETY: these are plain numbers, for which zero is a value.
        let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) = unsafe { zeroed() };
        let mut parts = libc::iovec { iov_base: content.as_mut_ptr().cast(), iov_len: content.len() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut parts;
        header.msg_iovlen = 1;
        header.msg_control = beside.0.as_mut_ptr().cast();
        header.msg_controllen = BESIDE as _;
        // SAFETY: the header names memory that lives through the call, with its sizes.
        let length =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, flags | libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).ok()?;
        let mut received = Received { name: address(&name), length, beside: Vec::new() };
        // SAFETY: the kernel has filled in the header, whose memory still lives.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(&raw const header);
            while !next.is_null() {
                received.beside.extend(message(&*next, libc::CMSG_DATA(next)));
                next = libc::CMSG_NXTHDR(&raw const header, next);
            }
        }
        Some(received)
    }
}

/// Waits until something has come at one of these sockets, or for so long.
pub(super) fn wait<'a>(sockets: impl IntoIterator<Item = &'a Datagrams>, patience: Duration) {
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    let look =
        |one: &'a Datagrams| PollFd::from_borrowed_fd(one.socket.as_fd(), PollFlags::IN | PollFlags::ERR);
    let mut sockets: Vec<PollFd<'_>> = sockets.into_iter().map(look).collect();
    // An interrupted wait is a short one.
    let _ = poll(&mut sockets, Some(&patience));
}

struct Received {
    name: Option<SocketAddr>,
    length: usize,
    beside: Vec<Beside>,
}

/// What the kernel says beside a datagram.
enum Beside {
    Hops(u8),
    Complaint { by: IpAddr, expired: bool },
}

/// Reads one message of those beside a datagram.
///
/// # Safety
///
/// `data` must be the content of the message with this header, as the kernel wrote it.
unsafe fn message(header: &libc::cmsghdr, data: *const u8) -> Option<Beside> {
    let length = header.cmsg_len.checked_sub(data as usize - (&raw const *header) as usize)?;
    // SAFETY: the caller's promise; the length is what the header says.
    let content = unsafe { std::slice::from_raw_parts(data, length) };
    match (header.cmsg_level, header.cmsg_type) {
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            let left = c_int::from_ne_bytes(*content.first_chunk()?);
            Some(Beside::Hops(u8::try_from(left).ok()?))
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            complaint(content, header.cmsg_level == libc::IPPROTO_IPV6)
        }
        _ => None,
    }
}

/// Reads a `struct sock_extended_err` and the address behind it (linux/errqueue.h): a number, the origin, and the type and
/// code of the ICMP message in a byte each; eight further bytes; then a `sockaddr`.
fn complaint(content: &[u8], is_ipv6: bool) -> Option<Beside> {
    const HEAD: usize = 16;
    let [origin, kind, code] = *content.get(4..)?.first_chunk()?;
    let name = content.get(HEAD..)?;
    let by: IpAddr = match (origin, is_ipv6) {
        (libc::SO_EE_ORIGIN_ICMP, false) => Ipv4Addr::from(*name.get(4..)?.first_chunk::<4>()?).into(),
        (libc::SO_EE_ORIGIN_ICMP6, true) => Ipv6Addr::from(*name.get(8..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    // Time exceeded, in transit.
    let expired = (kind, code) == if is_ipv6 { (3, 0) } else { (11, 0) };
    Some(Beside::Complaint { by, expired })
}

/// The address in a `sockaddr_storage`.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is of this type, which is no larger.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(address.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(Ipv6Addr::from(name.sin6_addr.s6_addr).into(), u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_says_how_many_hops_it_has_left() {
        let (one, other) = (Datagrams::open(false, None).unwrap(), Datagrams::open(false, None).unwrap());
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), other.port().unwrap());
        one.send(to, 17, b"here").unwrap();
        wait([&other], Duration::from_secs(5));
        let mut content = [0; 16];
        let arrival = other.receive(&mut content).expect("it has come");
        assert_eq!((&content[..arrival.length], arrival.left), (&b"here"[..], Some(17)));
        assert_eq!(arrival.from.port(), one.port().unwrap());
        assert!(other.receive(&mut content).is_none());
    }

    #[test]
    fn a_closed_port_is_complained_about() {
        let one = Datagrams::open(false, None).unwrap();
        let closed = Datagrams::open(false, None).unwrap().port().unwrap();
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), closed);
        one.send(to, 5, b"nobody").unwrap();
        wait([&one], Duration::from_secs(5));
        let by = Ipv4Addr::LOCALHOST.into();
        assert_eq!(one.complaint(), Some(Complaint { about: to, by, expired: false }));
        assert_eq!(one.complaint(), None);
        one.send(to, 5, b"still usable").unwrap();
    }
}
