//! Sockets at the ports that the user allows.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// Binds a socket at any free port, or at the first free one of `ports`.
pub(super) fn bind<T>(
    address: IpAddr,
    ports: Option<(u16, u16)>,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let (first, last) = ports.unwrap_or((0, 0));
    let mut result = open(SocketAddr::new(address, first));
    for port in first.saturating_add(1)..=last {
        if result.is_ok() {
            break;
        }
        result = open(SocketAddr::new(address, port));
    }
    result
}
