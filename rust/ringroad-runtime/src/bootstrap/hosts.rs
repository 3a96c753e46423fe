//! Which ranks share a host, and by which interface this one reaches the others.

use std::collections::HashMap;

use ringroad_core::Rank;

use super::EndpointInfo;
use crate::os::interfaces;

/// The hosts of ranks that share a network of their own: the number of each rank's host, in the order of their first ranks.
pub(crate) fn hosts(endpoints: &[EndpointInfo]) -> Vec<usize> {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    endpoints
        .iter()
        .map(|endpoint| {
            let name = if endpoint.net_space.is_empty() {
                (&*endpoint.host, "")
            } else {
                ("", &*endpoint.net_space)
            };
            let next = known.len();
            *known.entry(name).or_insert(next)
        })
        .collect()
}

/// The first rank of each host.
pub(crate) fn leaders(host_of: &[usize]) -> Vec<Rank> {
    let mut leaders = Vec::new();
    for (rank, host) in host_of.iter().enumerate() {
        if *host == leaders.len() {
            leaders.push(rank);
        }
    }
    leaders
}

/// Whether all ranks have the same loopback interface.
pub(crate) fn share_loopback(endpoints: &[EndpointInfo]) -> bool {
    let here = &endpoints[0].net_space;
    !here.is_empty() && endpoints.iter().all(|endpoint| endpoint.net_space == *here)
}

/// The network interface to listen on: loopback if that leads to all ranks, otherwise the one that leads to the host
/// of the store. `None` if neither is known.
pub(crate) fn interface(endpoints: &[EndpointInfo], rendezvous_place: Option<String>) -> Option<String> {
    if share_loopback(endpoints) {
        return interfaces::loopback();
    }
    // A host's own name may stand for loopback there, which leads to none of the others.
    let leads = |interface: &String| interfaces::loopback().as_ref() != Some(interface);
    interfaces::towards(&rendezvous_place?).filter(leads)
}
