//! Which user is at the other end of a tcp connection: the kernel knows that of the processes of this machine.
//!
//! What no secret protects is for processes of one user only. All that listen and all that connect ask here.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{getpeername, getsockname, recv, AddressFamily, RecvFlags};
use rustix::process::geteuid;

use super::interfaces::source;
use super::netlink::{ask, number, HEADER};
use super::routes::interfaces;
use crate::error::is_shortage;

// The kernel's numbers and places (linux/sock_diag.h, linux/inet_diag.h).
const BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
const ALL_STATES: [u8; 4] = [0xff; 4];
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// The ports of a connection, in a question and its answer. What listens has no second one.
const PORTS: usize = HEADER + 4;
const USER: usize = HEADER + 64;
const INODE: usize = HEADER + 68;
const ANSWER: usize = 4 << 10;
/// The number of the loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;

/// A process of this machine runs as another user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "belongs to user {theirs} of this machine, and this process runs as user {own}: set RINGROAD_SECRET to the same text \
     for both"
)]
pub(crate) struct OtherUser {
    theirs: u32,
    own: u32,
}

/// Whom nothing but a secret admits: [`other_user`], except root, who may do everything anyway.
pub(crate) fn stranger(socket: impl AsFd) -> io::Result<Option<OtherUser>> {
    Ok(other_user(socket)?.filter(|other| other.theirs != 0))
}

/// The user at the other end of a connection, if it is another than this process's. `None` for processes of other machines
/// and of other network namespaces, and if the kernel cannot say. An error if the other end has been closed, or this
/// process lacks descriptors to ask.
pub(crate) fn other_user(socket: impl AsFd) -> io::Result<Option<OtherUser>> {
    let own = name(getsockname(&socket)?.try_into()?);
    let other = name(getpeername(&socket)?.ok_or(ErrorKind::NotConnected)?.try_into()?);
    if !is_here(other)? {
        return Ok(None);
    }
    let owner = match owner(other, own)? {
        // A kernel that does not show this end, either, cannot say.
        None if owner(own, other)?.is_none() => return Ok(None),
        owner => owner,
    };
    // A socket that its process has closed belongs to nobody, which the kernel writes as root.
    let (theirs, inode) = owner.unwrap_or_default();
    if inode == 0 {
        return Err(ErrorKind::ConnectionReset.into());
    }
    let own = geteuid().as_raw();
    Ok((theirs != own).then_some(OtherUser { theirs, own }))
}

/// An address of IPv4 may be written as one of IPv6.
fn name(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(short) => (short, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

/// Whether the address is one of this machine: packets to it leave from it.
fn is_here(address: SocketAddr) -> io::Result<bool> {
    match source(address) {
        _ if address.ip().is_loopback() => Ok(true),
        Err(error) if is_shortage(&error) => Err(error),
        found => Ok(found.is_ok_and(|found| found == address.ip())),
    }
}

/// The user and the inode of the socket at `from` that is connected to `to`. `None` if the kernel shows no such socket.
fn owner(from: SocketAddr, to: SocketAddr) -> io::Result<Option<(u32, u32)>> {
    // The kernel shows a socket that is bound to an interface only to those who name that.
    let others = std::iter::once_with(interfaces).flatten().map(|interface| interface.index);
    for interface in [0, LOOPBACK].into_iter().chain(others) {
        match owner_by(from, to, interface) {
            Err(error) if is_shortage(&error) => return Err(error),
            Ok(Some(owner)) => return Ok(Some(owner)),
            _ => {}
        }
    }
    Ok(None)
}

fn owner_by(from: SocketAddr, to: SocketAddr, interface: u32) -> io::Result<Option<(u32, u32)>> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut ends = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    for address in [from.ip(), to.ip()] {
        match address {
            IpAddr::V4(address) => ends.extend([&address.octets()[..], &[0; 12]].concat()),
            IpAddr::V6(address) => ends.extend(address.octets()),
        }
    }
    let mut question = vec![family.as_raw() as u8, TCP, 0, 0];
    question.extend(ALL_STATES);
    question.extend(&ends);
    question.extend(interface.to_ne_bytes());
    question.extend(NO_COOKIE);
    let socket = ask(Some(SOCK_DIAG), BY_FAMILY, 0, &question)?;
    let mut answer = [0; ANSWER];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let answer = &answer[..length.min(ANSWER)];
    let is_it = number(answer, 4).map(u16::from_ne_bytes) == Some(BY_FAMILY)
        && answer.get(PORTS..PORTS + 4) == Some(&ends[..4]);
    let number = |at| number(answer, at).map(u32::from_ne_bytes);
    Ok(number(USER).zip(number(INODE)).filter(|_| is_it))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::iter;
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Over loopback, over other addresses of this machine, and where an address of IPv4 is written as one of IPv6. Only root
    /// can become another user.
    #[test]
    fn other_users_of_this_machine_are_told_apart() {
        let own = geteuid().as_raw();
        let addresses = interfaces().into_iter().map(|one| one.address.to_string());
        let mut ways: Vec<(String, String)> = addresses.map(|one| (one.clone(), one)).collect();
        for (door, to) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.9"), ("::", "127.0.0.1")] {
            ways.push((door.to_owned(), to.to_owned()));
        }
        for (door, to) in ways {
            for theirs in [own, 61_000].into_iter().take(if own == 0 { 2 } else { 1 }) {
                let door = TcpListener::bind((door.as_str(), 0)).unwrap();
                let to = SocketAddr::new(to.parse().unwrap(), door.local_addr().unwrap().port());
                let call = move || {
                    // Of this thread only.
                    let user = Uid::from_raw(theirs);
                    set_thread_res_uid(user, user, user).unwrap();
                    TcpStream::connect(to).unwrap()
                };
                let one = thread::spawn(call).join().unwrap();
                let other = door.accept().unwrap().0;
                let expected = (theirs != own).then_some(OtherUser { theirs, own });
                assert_eq!(other_user(&other).unwrap(), expected, "{to}");
                assert_eq!(other_user(&one).unwrap(), None, "{to}: this thread has accepted it");
                let ends = [&one, &other].map(|end| name(end.local_addr().unwrap()));
                assert_eq!(owner(ends[0], ends[1]).unwrap().unwrap().0, theirs, "{to}");
                drop(one);
                // A test beside this one may start a process at this moment, which has it until it runs its program.
                let closed = iter::repeat_with(|| other_user(&other)).take(5000).find_map(|found| {
                    thread::sleep(Duration::from_millis(u64::from(found.is_ok())));
                    found.err()
                });
                let closed = closed.map(|error| error.kind());
                assert_eq!(closed, Some(ErrorKind::ConnectionReset), "{to}: nobody has it any more");
            }
        }
    }
}
