//! Sockets at the ports that the user allows.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

/// The first and the last port that are allowed (`RINGROAD_TCP_PORTS`); `None`: any.
pub type PortRange = Option<(u16, u16)>;

/// Opens a socket at any free port, or at the first free one of `ports`.
pub(crate) fn bind<T>(
    address: IpAddr,
    ports: PortRange,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let (first, last) = ports.unwrap_or((0, 0));
    let mut result = open(SocketAddr::new(address, first));
    for port in first.saturating_add(1)..=last {
        if !matches!(&result, Err(error) if error.kind() == ErrorKind::AddrInUse) {
            break;
        }
        result = open(SocketAddr::new(address, port));
    }
    result
}
