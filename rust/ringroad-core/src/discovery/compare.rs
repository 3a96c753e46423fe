//! How a network that somebody named differs from the one that ranks have found.

use std::collections::BTreeMap;

use super::rounding::median;
use super::{Found, How};
use crate::topology::{Topology, DEFAULT_BANDWIDTH};
use crate::units::{NodeId, Rank};

/// A link is slow if it carries less than this part of what its name and the other links suggest.
const SLOW: f64 = 0.3;
const BUSY: f64 = 0.8;
/// More differences are counted only.
const MOST: usize = 6;

/// What is wrong with the named network, in a few words each; nothing if it may be right. Networks whose switches answer
/// nobody look alike, so these are not compared.
pub fn differences(named: &Topology, found: &Found) -> Vec<String> {
    let (wanted, seen) = (between_ranks(named), between_ranks(&found.topology));
    if seen.is_empty() || named.ranks() != found.topology.ranks() {
        return Vec::new();
    }
    if let Some(spec) = other_order(named, found) {
        return vec![format!("its ranks stand in another order: {spec}")];
    }
    let missing = wanted.keys().filter(|ends| !seen.contains_key(ends));
    let further = seen.keys().filter(|ends| !wanted.contains_key(ends));
    let mut all: Vec<String> =
        missing.map(|(a, b)| format!("no link leads from rank {a} to rank {b}")).collect();
    all.extend(further.map(|(a, b)| format!("a link leads from rank {a} to rank {b}")));
    all.extend(slow(&wanted, found));
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(format!("{more} more differences"));
    }
    all
}

/// The named network with the rates that were measured, where its links have the default one: somebody who names a graph
/// rarely states rates.
pub fn with_found_rates(named: &Topology, found: &Found) -> Option<Topology> {
    let unstated = named.links().iter().all(|link| link.bandwidth == DEFAULT_BANDWIDTH);
    if !unstated {
        return None;
    }
    let seen: BTreeMap<(NodeId, NodeId), f64> = measured(found).collect();
    let median = median(seen.values().copied())?;
    let single = named.links().iter().all(|link| link.capacity == 1.0);
    let rated = named.clone().with_links(Some(median), None).ok()?;
    if !single || named.nodes() != found.topology.nodes() {
        return Some(rated);
    }
    rated
        .map_links(|_, link| {
            if let Some(rate) = seen.get(&(link.source, link.target)) {
                link.bandwidth = *rate;
            }
        })
        .ok()
}

/// The ends and the rates of links whose rates were measured.
fn measured(found: &Found) -> impl Iterator<Item = ((NodeId, NodeId), f64)> + '_ {
    let links = found.topology.links().iter().zip(&found.links);
    let measured = links.filter(|(_, rate)| rate.how == How::Measured);
    measured.map(|(link, rate)| ((link.source, link.target), rate.bytes_per_second))
}

/// The bandwidth from rank to rank where a link joins them, by its ends.
fn between_ranks(topology: &Topology) -> BTreeMap<(Rank, Rank), f64> {
    let mut rates = BTreeMap::new();
    for link in topology.links().iter().filter(|link| link.source.max(link.target) < topology.ranks()) {
        *rates.entry((link.source, link.target)).or_insert(0.0) += link.bytes_per_second();
    }
    rates
}

/// What to write if it is the named network with its ranks in another order.
fn other_order(named: &Topology, found: &Found) -> Option<String> {
    let (spec, positions) = (found.recognised.as_ref()?, found.positions.as_ref()?);
    let is_it = *spec == named.base().spec();
    let elsewhere = between_ranks(named).keys().ne(between_ranks(&found.topology).keys());
    let list: Vec<String> = positions.iter().map(usize::to_string).collect();
    (is_it && elsewhere).then(|| format!("{spec}@{}", list.join(",")))
}

/// Links that carry much less than others, compared with what is named.
fn slow(wanted: &BTreeMap<(Rank, Rank), f64>, found: &Found) -> Vec<String> {
    let ratio = |(ends, rate): ((NodeId, NodeId), f64)| Some((ends, rate, rate / wanted.get(&ends)?));
    let mut rows: Vec<_> = measured(found).filter_map(ratio).collect();
    rows.sort_by(|a, b| a.2.total_cmp(&b.2));
    let Some(usual) = rows.get(rows.len() / 2).map(|row| row.2) else { return Vec::new() };
    // Where hardly any link carries what it should, hosts are too busy to tell.
    let stated = wanted.values().any(|rate| *rate != DEFAULT_BANDWIDTH);
    if stated && usual < BUSY {
        return Vec::new();
    }
    let slow = rows.iter().filter(|row| row.2 < SLOW * usual);
    let megabits = |rate: f64| 8e-6 * rate;
    slow.map(|((a, b), rate, ratio)| {
        let others = rate / ratio * usual;
        format!(
            "the link from rank {a} to rank {b} carries {:.3} of {:.3} Mbit/s",
            megabits(*rate),
            megabits(others)
        )
    })
    .collect()
}
