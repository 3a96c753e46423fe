//! Which network interface leads somewhere.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::ptr::null_mut;

/// The interface by which packets to `host`, a name or an address, leave this one.
pub(crate) fn towards(host: &str) -> Option<String> {
    // Any port: a datagram socket that is connected sends nothing.
    (host, 9).to_socket_addrs().ok()?.find_map(|target| named(source(target)?))
}

/// The one that leads to this host itself, if it is up.
pub(crate) fn loopback() -> Option<String> {
    named(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The address that packets to `target` have as their sender's.
fn source(target: SocketAddr) -> Option<IpAddr> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The interface that has this address and is up.
fn named(address: IpAddr) -> Option<String> {
    let mut first = null_mut();
    // SAFETY: a live local; the list is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return None;
    }
    let (mut next, mut found) = (first, None);
    // SAFETY: each entry of the list is live until the list is freed.
    while let Some(entry) = unsafe { next.as_ref() } {
        let is_up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        if is_up && address_of(entry) == Some(address) {
            // SAFETY: a name that ends in zero, of an entry that is live.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            // A second address of an interface may have a label of its own.
            found = name.split(':').next().map(str::to_owned);
            break;
        }
        next = entry.ifa_next;
    }
    // SAFETY: from `getifaddrs`, freed once and used no more.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: null, or an address that lives as long as its entry.
    let family = i32::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: an address of this family has this type.
            let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_where_they_lead() {
        let own = loopback().expect("loopback is up");
        assert_eq!(towards("127.0.0.1").as_ref(), Some(&own));
        assert_eq!(towards("localhost").as_ref(), Some(&own));
        assert_eq!(towards("no such host"), None);
    }
}
