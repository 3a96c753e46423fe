//! The routes to other hosts, hop by hop, as tracepath finds them.
//!
//! The host before the last on the way to each host is asked for first. Where the way to *it* is known, too, that tells the
//! whole route by a single complaint for each pair of hosts. This matters because kernels complain to one host only six
//! times at once, and then once a second. The other hops are asked for, too; where nobody answers, the known way stands in.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::datagram::{wait, Datagrams};

/// Datagrams of traces go to these ports and the next ones, which nobody uses.
const FIRST_PORT: u16 = 33434;
/// The longest route that is traced.
const MAX_HOPS: u8 = 48;
/// How long answers may take, each time that a hop is asked for. Where hosts are busy, answers are late; asking again then
/// only uses up what kernels are willing to say.
pub(super) const HOP_TIMEOUTS: [Duration; 3] =
    [Duration::from_millis(60), Duration::from_millis(100), Duration::from_millis(150)];

/// The addresses of the hops of a route; `None` for a hop that has not answered. The last one is the host itself.
pub(super) type RouteHops = Vec<Option<IpAddr>>;

/// The routes to some hosts.
pub(super) struct TracedRoutes {
    /// An address of each host, and how many hops away it is.
    pub targets: Vec<(IpAddr, u8)>,
    /// Which of these hosts has an address.
    pub owners: HashMap<IpAddr, usize>,
    /// What is known of each route.
    pub found: Vec<RouteHops>,
}

impl TracedRoutes {
    /// Asks for all hops that are not known, as often as there is patience for.
    pub fn trace(&mut self, patience: &[Duration]) {
        let length = |hops: u8| usize::from(hops.min(MAX_HOPS));
        for ((address, hops), route) in self.targets.iter().zip(&mut self.found) {
            route.resize(length(*hops), None);
            if let Some(last) = route.last_mut().filter(|_| *hops <= MAX_HOPS) {
                *last = Some(*address);
            }
        }
        let before_last: Vec<(usize, u8)> = (0..self.targets.len())
            .filter(|index| (2..=MAX_HOPS).contains(&self.targets[*index].1))
            .map(|index| (index, self.targets[index].1 - 1))
            .collect();
        let mut tracing = Tracing::from_targets(&self.targets);
        tracing.find(&self.targets, &before_last, patience, &mut self.found);
        if self.found.iter().flat_map(|route| route.iter().rev().skip(1)).any(Option::is_some) {
            let others: Vec<(usize, u8)> =
                before_last.iter().flat_map(|(index, hop)| (1..*hop).map(|hop| (*index, hop))).collect();
            tracing.find(&self.targets, &others, patience, &mut self.found);
        }
        complete(&self.owners, &mut self.found);
    }
}

struct Tracing {
    /// For IPv4 and IPv6.
    sockets: [Option<Datagrams>; 2],
    by_address: HashMap<IpAddr, usize>,
}

impl Tracing {
    fn from_targets(targets: &[(IpAddr, u8)]) -> Tracing {
        let sockets = [false, true].map(|is_ipv6| Datagrams::open(is_ipv6, None).ok());
        let by_address = targets.iter().enumerate().map(|(index, (address, _))| (*address, index)).collect();
        Tracing { sockets, by_address }
    }

    /// Asks for these hops, by target and number.
    fn find(
        &mut self,
        targets: &[(IpAddr, u8)],
        wanted: &[(usize, u8)],
        patience: &[Duration],
        found: &mut [RouteHops],
    ) {
        let open =
            |found: &[RouteHops], &(index, hop): &(usize, u8)| found[index][usize::from(hop) - 1].is_none();
        for patience in patience {
            let missing: Vec<(usize, u8)> = wanted.iter().filter(|one| open(found, one)).copied().collect();
            if missing.is_empty() {
                break;
            }
            for (index, hop) in &missing {
                let address = targets[*index].0;
                let Some(socket) = &self.sockets[usize::from(address.is_ipv6())] else { continue };
                let to = SocketAddr::new(address, FIRST_PORT + u16::from(*hop));
                // A lost datagram is sent again.
                let _ = socket.send(to, *hop, b"ringroad");
            }
            let deadline = Instant::now() + *patience;
            while missing.iter().any(|one| open(found, one)) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                if !self.listen(found) {
                    wait(self.sockets.iter().flatten(), left);
                }
            }
        }
    }

    fn listen(&mut self, found: &mut [RouteHops]) -> bool {
        let mut heard = false;
        for socket in self.sockets.iter().flatten() {
            while let Some(complaint) = socket.complaint() {
                heard = true;
                let Some(index) = self.by_address.get(&complaint.about.ip()) else { continue };
                let hop = complaint.about.port().wrapping_sub(FIRST_PORT + 1);
                let place = found[*index].get_mut(usize::from(hop)).filter(|_| complaint.expired);
                if let Some(place) = place {
                    place.get_or_insert(complaint.by);
                }
            }
        }
        heard
    }
}

/// Fills in hops that did not answer, from the way to the next one, if that is a host to which the way is known.
fn complete(owners: &HashMap<IpAddr, usize>, found: &mut [RouteHops]) {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|index| found[*index].len());
    for index in order {
        let route = &found[index];
        let Some(missing) = route.iter().rposition(Option::is_none) else { continue };
        let next = route.get(missing + 1).copied().flatten().and_then(|next| owners.get(&next));
        let Some(way) = next.filter(|next| **next != index).map(|next| found[*next].clone()) else {
            continue;
        };
        if way.len() == missing + 2 {
            found[index].iter_mut().zip(way).take(missing + 1).for_each(|(hop, known)| *hop = hop.or(known));
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_last_hop_stands_in_for_silent_ones() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        // Host 1 answers by another address than the one that is traced.
        let owners = HashMap::from([(address(1), 0), (address(7), 1), (address(3), 2)]);
        let mut found = vec![
            vec![Some(address(1))],
            vec![Some(address(1)), Some(address(2))],
            vec![None, Some(address(7)), Some(address(3))],
            vec![None, None, Some(address(9))],
        ];
        complete(&owners, &mut found);
        assert_eq!(found[2], [Some(address(1)), Some(address(7)), Some(address(3))]);
        assert_eq!(found[3], [None, None, Some(address(9))]);
    }

    #[test]
    fn this_host_is_one_hop_away() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let targets = vec![(own, 1), (own, 0)];
        let mut routes = TracedRoutes { targets, owners: HashMap::new(), found: vec![Vec::new(); 2] };
        routes.trace(&HOP_TIMEOUTS);
        assert_eq!(routes.found, [vec![Some(own)], vec![]]);
    }
}
