//! Finds the network interface that leads to a host.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The interface through which packets to `host`, a name or an address, leave this machine.
pub(crate) fn towards(host: &str) -> Option<String> {
    let own = address_towards(host)?;
    let interface = if_addrs::get_if_addrs().ok()?.into_iter().find(|interface| interface.ip() == own)?;
    // A second address of an interface may have a label of its own.
    interface.name.split(':').next().map(str::to_owned)
}

/// The loopback interface, if it is up.
pub(crate) fn loopback() -> Option<String> {
    towards("127.0.0.1")
}

/// The source address of packets to `host`, a name or an address.
pub(crate) fn address_towards(host: &str) -> Option<IpAddr> {
    // Any port: connecting a datagram socket sends nothing.
    (host, 9).to_socket_addrs().ok()?.find_map(|target| source(target).ok())
}

/// The source address of packets to this address.
pub(super) fn source(target: SocketAddr) -> io::Result<IpAddr> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
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
