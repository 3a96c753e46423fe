//! The numbers of nodes: hosts first, then routers, those near the first hosts first.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::aliases::Aliases;
use super::walk::{Stop, Walk};

/// The number of every node.
pub(super) struct NodeNumbering {
    numbers: BTreeMap<Stop, usize>,
    /// The addresses of every router.
    pub routers: Vec<Vec<IpAddr>>,
}

impl NodeNumbering {
    pub fn from_walks(hosts: usize, walks: &[Walk], aliases: &Aliases) -> NodeNumbering {
        let mut addresses: BTreeMap<usize, Vec<IpAddr>> = BTreeMap::new();
        for (stop, node) in aliases.stops().filter(|(stop, _)| !matches!(stop, Stop::Host(_))) {
            let of_node = addresses.entry(node).or_default();
            of_node.extend(if let Stop::Router(address) = stop { Some(address) } else { None });
        }
        let near = nearest_hosts(walks, aliases);
        let place = |node: &usize| near.get(node).copied().unwrap_or((usize::MAX, 0));
        let mut order: Vec<usize> = addresses.keys().copied().collect();
        order.sort_by_key(|node| (place(node), addresses[node].clone(), *node));
        let number: BTreeMap<usize, usize> =
            order.iter().enumerate().map(|(place, node)| (*node, hosts + place)).collect();
        let numbers = aliases.stops().map(|(stop, node)| match stop {
            Stop::Host(host) => (stop, host),
            _ => (stop, number[&node]),
        });
        NodeNumbering {
            numbers: numbers.collect(),
            routers: order.iter().map(|node| addresses[node].clone()).collect(),
        }
    }

    /// The nodes of a walk, up to the first that is not known.
    pub fn way(&self, walk: &Walk) -> Vec<usize> {
        walk.stops.iter().map_while(|stop| self.numbers.get(&(*stop)?).copied()).collect()
    }
}

/// For every node how far the nearest host is, and which it is; the first of several.
fn nearest_hosts(walks: &[Walk], aliases: &Aliases) -> BTreeMap<usize, (usize, usize)> {
    let mut links: BTreeSet<(usize, usize)> = BTreeSet::new();
    for pair in walks.iter().flat_map(|walk| walk.stops.windows(2)) {
        if let [Some(one), Some(other)] = pair {
            let (one, other) = (aliases.node(*one), aliases.node(*other));
            links.extend([(one, other), (other, one)]);
        }
    }
    let hosts = aliases.stops().filter_map(|(stop, node)| match stop {
        Stop::Host(host) => Some((node, (0, host))),
        _ => None,
    });
    let mut near: BTreeMap<usize, (usize, usize)> = hosts.collect();
    let mut level = 0;
    loop {
        let mut next: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (from, to) in &links {
            if let (Some((distance, host)), None) = (near.get(from), near.get(to)) {
                if *distance == level {
                    let place = next.entry(*to).or_insert((level + 1, *host));
                    *place = (*place).min((level + 1, *host));
                }
            }
        }
        if next.is_empty() {
            return near;
        }
        near.extend(next);
        level += 1;
    }
}
