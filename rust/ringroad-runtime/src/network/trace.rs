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
const LONGEST: u8 = 48;
/// How often a hop is asked for, and how long answers may take.
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_millis(40);

/// The addresses of the hops to each of these hosts, which are so many hops away; `None` for a hop that does not answer. The
/// last one is the host itself. `owners`: which of the hosts has an address.
pub(super) fn trace(targets: &[(IpAddr, u8)], owners: &HashMap<IpAddr, usize>) -> Vec<Vec<Option<IpAddr>>> {
    let sockets = [false, true].map(|is_ipv6| Datagrams::open(is_ipv6, None).ok());
    let by_address: HashMap<IpAddr, usize> =
        targets.iter().enumerate().map(|(index, (address, _))| (*address, index)).collect();
    let mut tracing = Tracing { sockets, by_address };
    let length = |hops: u8| usize::from(hops.min(LONGEST));
    let mut found: Vec<Vec<Option<IpAddr>>> =
        targets.iter().map(|(_, hops)| vec![None; length(*hops)]).collect();
    for ((address, hops), route) in targets.iter().zip(&mut found) {
        if let Some(last) = route.last_mut().filter(|_| *hops <= LONGEST) {
            *last = Some(*address);
        }
    }
    let before_last: Vec<(usize, u8)> = (0..targets.len())
        .filter(|index| (2..=LONGEST).contains(&targets[*index].1))
        .map(|index| (index, targets[index].1 - 1))
        .collect();
    tracing.find(targets, &before_last, &mut found);
    let others: Vec<(usize, u8)> =
        before_last.iter().flat_map(|(index, hop)| (1..*hop).map(|hop| (*index, hop))).collect();
    tracing.find(targets, &others, &mut found);
    complete(owners, &mut found);
    found
}

struct Tracing {
    /// For IPv4 and IPv6.
    sockets: [Option<Datagrams>; 2],
    by_address: HashMap<IpAddr, usize>,
}

impl Tracing {
    /// Asks for these hops, by target and number.
    fn find(&mut self, targets: &[(IpAddr, u8)], wanted: &[(usize, u8)], found: &mut [Vec<Option<IpAddr>>]) {
        let open = |found: &[Vec<Option<IpAddr>>], &(index, hop): &(usize, u8)| {
            found[index][usize::from(hop) - 1].is_none()
        };
        for _ in 0..TRIES {
            let missing: Vec<(usize, u8)> = wanted.iter().filter(|one| open(found, one)).copied().collect();
            for (index, hop) in &missing {
                let address = targets[*index].0;
                let Some(socket) = &self.sockets[usize::from(address.is_ipv6())] else { continue };
                let to = SocketAddr::new(address, FIRST_PORT + u16::from(*hop));
                // A lost datagram is sent again.
                let _ = socket.send(to, *hop, b"ringroad");
            }
            let deadline = Instant::now() + PATIENCE;
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

    fn listen(&mut self, found: &mut [Vec<Option<IpAddr>>]) -> bool {
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
fn complete(owners: &HashMap<IpAddr, usize>, found: &mut [Vec<Option<IpAddr>>]) {
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
        assert_eq!(trace(&[(own, 1)], &HashMap::new()), [vec![Some(own)]]);
        assert_eq!(trace(&[(own, 0)], &HashMap::new()), [vec![]]);
    }
}
