//! Traces as walks over nodes: whose address is it that answered?

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::super::evidence::{HostFacts, TracedRoute};

/// The most hops of a trace that count.
pub(super) const MOST_HOPS: usize = 64;

/// The node at a place of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    Host(usize),
    /// The owner of an address that is no host's.
    Router(IpAddr),
    /// A node that does not answer, by a number of its own.
    Silent(usize),
}

/// A trace from a host on, the host itself first.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub from: usize,
    pub to: usize,
    /// `None` where nobody has answered.
    pub stops: Vec<Option<Stop>>,
    /// Whether the last stop is the target.
    pub reached: bool,
}

/// Traces that could be read, and what was odd about the others.
pub(super) struct Walks {
    pub walks: Vec<Walk>,
    /// Addresses that several hosts call their own.
    pub shared: Vec<IpAddr>,
    /// How many traces came to a node twice, and end before it here.
    pub loops: usize,
}

/// The host of each address; `None` where several hosts claim it.
fn owners(hosts: &[HostFacts]) -> BTreeMap<IpAddr, Option<usize>> {
    let mut owners = BTreeMap::new();
    for (host, facts) in hosts.iter().enumerate() {
        for address in facts.addresses.iter().filter(|address| !address.is_loopback()) {
            let owner = owners.entry(address.to_canonical()).or_insert(Some(host));
            if *owner != Some(host) {
                *owner = None;
            }
        }
    }
    owners
}

/// Reads the traces. Each pair of hosts counts once: the trace that knows most.
pub(super) fn walks(hosts: &[HostFacts], traces: &[TracedRoute]) -> Walks {
    let owners = owners(hosts);
    let mut loops = 0;
    let mut best: BTreeMap<(usize, usize), Walk> = BTreeMap::new();
    for trace in traces {
        if trace.from.max(trace.to) >= hosts.len() || trace.from == trace.to {
            continue;
        }
        let (walk, is_loop) = walk(trace, &owners);
        loops += usize::from(is_loop);
        let known = |walk: &Walk| (walk.reached, walk.stops.iter().flatten().count());
        let kept = best.entry((walk.from, walk.to)).or_insert_with(|| walk.clone());
        if known(&walk) > known(kept) {
            *kept = walk;
        }
    }
    let shared = owners.iter().filter(|(_, owner)| owner.is_none()).map(|(address, _)| *address).collect();
    Walks { walks: best.into_values().collect(), shared, loops }
}

/// The walk of a trace, and whether it was cut off where it came to a node again.
fn walk(trace: &TracedRoute, owners: &BTreeMap<IpAddr, Option<usize>>) -> (Walk, bool) {
    let (from, to) = (trace.from, trace.to);
    let hops = &trace.hops[..trace.hops.len().min(MOST_HOPS)];
    let stop = |address: &IpAddr| match owners.get(&address.to_canonical()) {
        Some(owner) => owner.map(Stop::Host),
        None => Some(Stop::Router(address.to_canonical())),
    };
    let mut stops = vec![Some(Stop::Host(from))];
    stops.extend(hops.iter().map(|hop| hop.as_ref().and_then(stop)));
    let whole = trace.reached && hops.len() == trace.hops.len() && !hops.is_empty();
    if whole {
        stops[hops.len()] = Some(Stop::Host(to));
    }
    // An answer of the target ends the walk, whatever else came.
    let end = stops.iter().position(|stop| *stop == Some(Stop::Host(to)));
    stops.truncate(end.map_or(stops.len(), |end| end + 1));
    let again = (1..stops.len()).find(|at| stops[*at].is_some() && stops[..*at].contains(&stops[*at]));
    stops.truncate(again.unwrap_or(stops.len()));
    let reached = again.is_none() && end.is_some();
    while stops.last() == Some(&None) {
        stops.pop();
    }
    (Walk { from, to, stops, reached }, again.is_some())
}
