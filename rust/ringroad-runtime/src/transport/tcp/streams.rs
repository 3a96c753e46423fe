//! What the kernel has counted of the connections, and how many of them two ranks need.

use std::collections::BTreeMap;

use super::link::TcpLink;
use super::TcpTransport;
use crate::os::tcp_info::TcpInfo;
use crate::transport::CountedConnection;

/// How many bytes that are on their way at once are enough for one connection: more are seldom in flight by default, and after
/// a loss it would take long until there are again.
const IN_FLIGHT: f64 = (2 << 20) as f64;
/// The most connections between two ranks by one device that are made because of that.
const MAX_CONNECTIONS: usize = 8;

/// How many connections are enough, by the bytes that are on their way.
fn streams(in_flight: f64) -> usize {
    MAX_CONNECTIONS.min(1 + (in_flight / IN_FLIGHT) as usize)
}

impl TcpTransport {
    /// What the kernel has counted of all connections that are open.
    pub(super) fn accounts(&self) -> Vec<CountedConnection> {
        let open = self.links.iter().flatten().filter(|link| link.is_open());
        let account = |link: &TcpLink| {
            let info = TcpInfo::from_socket(&link.socket)?;
            Some(CountedConnection {
                peer: link.who.peer,
                address: link.remote.map_or_else(String::new, |remote| remote.to_string()),
                device: self.devices[link.who.device].name.clone(),
                stream: link.who.stream,
                sent: info.sent(),
                received: info.received(),
                sent_again: info.sent_again(),
                round_trip: info.round_trips()[1],
                rate: info.rate(),
            })
        };
        open.filter_map(account).collect()
    }

    /// Opens further connections to the peers for which one is not enough.
    pub(super) fn add_streams(&mut self) {
        if self.settings.streams.is_some() {
            return;
        }
        let mut pairs: BTreeMap<(usize, usize), (usize, f64)> = BTreeMap::new();
        for link in self.links.iter().flatten() {
            let info = TcpInfo::from_socket(&link.socket).filter(|_| link.is_open());
            let in_flight = info.map_or(0.0, |info| info.rate() * info.round_trips()[0]);
            let pair = pairs.entry((link.who.peer, link.who.device)).or_default();
            *pair = (pair.0.max(link.who.stream + 1), pair.1 + in_flight);
        }
        for ((peer, device), (open, in_flight)) in pairs {
            if streams(in_flight) > open && self.check(peer).is_ok() {
                // Without it, things are as before.
                let _ = self.link(peer, device, open);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ways_need_more_connections() {
        let check = |rate: f64, round_trip: f64, expected| assert_eq!(streams(rate * round_trip), expected);
        check(0.0, 0.0, 1);
        check(25e6, 200e-6, 1);
        check(12.5e9, 100e-6, 1);
        check(12.5e6, 50e-3, 1);
        check(125e6, 50e-3, 3);
        check(1.25e9, 10e-3, 6);
        check(1.25e9, 0.2, 8);
    }
}
