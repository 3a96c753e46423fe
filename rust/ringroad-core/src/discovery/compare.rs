//! How a network that somebody named differs from the one that ranks have found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::rounding::median;
use super::{FoundNetwork, How};
use crate::topology::{Topology, DEFAULT_BANDWIDTH};
use crate::units::{NodeId, Rank};

/// A link is slow if it carries less than this part of what its name and the other links suggest.
const SLOW: f64 = 0.3;
const BUSY: f64 = 0.8;
/// Rates of which one is so many times the other are written as one.
const ALIKE: std::ops::Range<f64> = 0.8..1.25;
/// A sentence counts further differences only.
const MAX_LISTED_DIFFERENCES: usize = 6;

/// A network that ranks stand on, and that is not the one which was named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The links that differ.
    pub links: Vec<WrongLink>,
    /// Whether it is the named network, but its ranks stand in another order.
    pub is_reordered: bool,
    /// The spec that is right; `None` if the network has none.
    pub spec: Option<String>,
    /// What differs, in a few words each.
    pub words: Vec<String>,
}

/// A link between two nodes that is not as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WrongLink {
    /// The node where it starts.
    pub source: NodeId,
    /// The node where it ends.
    pub target: NodeId,
    /// The bytes per second that it should carry, by its name and the other links; 0 if the named network has none there.
    pub named: f64,
    /// The bytes per second that were found; 0 if there is no such link.
    pub found: f64,
}

impl Mismatch {
    /// How the network that was found differs from the named one; `None` if it may be that. Networks whose switches answer
    /// nobody look alike, so of these only hosts and equally numbered links are compared.
    pub fn between(named: &Topology, found: &FoundNetwork) -> Option<Mismatch> {
        let (wanted, seen) = (between_ranks(named), between_ranks(&found.topology));
        if named.ranks() != found.topology.ranks() {
            return None;
        }
        let has_other_hosts = hosts(named).zip(hosts(&found.topology)).is_some_and(|(a, b)| a != b);
        let is_elsewhere = has_other_hosts || !seen.is_empty() && wanted.keys().ne(seen.keys());
        let mut links = if seen.is_empty() { Vec::new() } else { missing_and_further(&wanted, &seen) };
        links.extend(slow(named, found));
        if links.is_empty() && !has_other_hosts {
            return None;
        }
        let is_same = found.recognised.as_deref() == Some(&named.base().wiring());
        let mut mismatch =
            Mismatch { links, is_reordered: is_elsewhere && is_same, spec: None, words: Vec::new() };
        mismatch.spec = spec(named, found, &mismatch.links);
        mismatch.words = match (mismatch.is_reordered, has_other_hosts) {
            (true, _) => vec!["its ranks stand in another order".to_owned()],
            (_, true) => vec!["its hosts have other ranks".to_owned()],
            _ => mismatch.links.iter().map(|link| link.words(named.ranks())).collect(),
        };
        Some(mismatch)
    }

    /// The differences that two measurements of a network of `ranks` ranks both show; `None` if they share none.
    pub fn agreed(self, other: Mismatch, ranks: usize) -> Option<Mismatch> {
        let kind = |link: &WrongLink| (link.source, link.target, link.named == 0.0, link.found == 0.0);
        let is_fewer = self.links.len() <= other.links.len();
        let (mut fewer, more) = if is_fewer { (self, other) } else { (other, self) };
        let (known, count): (BTreeSet<_>, _) = (more.links.iter().map(kind).collect(), fewer.links.len());
        fewer.links.retain(|link| known.contains(&kind(link)));
        if fewer.links.len() < count {
            // Its spec is that of all of its links.
            (fewer.is_reordered, fewer.spec) = (false, None);
            fewer.words = fewer.links.iter().map(|link| link.words(ranks)).collect();
        }
        (count == 0 || !fewer.links.is_empty()).then_some(fewer)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, more) = self.words.split_at(MAX_LISTED_DIFFERENCES.min(self.words.len()));
        write!(f, "{}", first.join("; "))?;
        match more.len() {
            0 => Ok(()),
            more => write!(f, "; {more} more differences"),
        }
    }
}

impl WrongLink {
    fn words(&self, ranks: usize) -> String {
        let called = |node| format!("{} {node}", if node < ranks { "rank" } else { "node" });
        let (source, target) = (called(self.source), called(self.target));
        match (self.named, self.found) {
            (_, 0.0) => format!("no link leads from {source} to {target}"),
            (0.0, _) => format!("a link leads from {source} to {target}"),
            (named, found) => {
                let part = format!("{} of {}", megabits(found), megabits(named));
                format!("the link from {source} to {target} carries {part} Mbit/s")
            }
        }
    }
}

/// The named network with the rates that were measured, where its links have the default one: somebody who names a graph
/// rarely states rates.
pub fn with_found_rates(named: &Topology, found: &FoundNetwork) -> Option<Topology> {
    if states_rates(named) {
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

/// Whether any link has another rate than the default one.
pub fn states_rates(named: &Topology) -> bool {
    named.links().iter().any(|link| link.bandwidth != DEFAULT_BANDWIDTH)
}

/// The ends and the rates of links whose rates were measured.
fn measured(found: &FoundNetwork) -> impl Iterator<Item = ((NodeId, NodeId), f64)> + '_ {
    let links = found.topology.links().iter().zip(&found.links);
    let measured = links.filter(|(_, rate)| rate.how == How::Measured);
    measured.map(|(link, rate)| ((link.source, link.target), rate.bytes_per_second))
}

type JoinedRates = BTreeMap<(NodeId, NodeId), f64>;

/// The bandwidth from one node to the next, by these ends.
fn joined(topology: &Topology) -> JoinedRates {
    let mut rates = BTreeMap::new();
    for link in topology.links() {
        *rates.entry((link.source, link.target)).or_insert(0.0) += link.bytes_per_second();
    }
    rates
}

/// The same where a link joins two ranks.
fn between_ranks(topology: &Topology) -> JoinedRates {
    let mut rates = joined(topology);
    rates.retain(|(source, target), _| *source.max(target) < topology.ranks());
    rates
}

/// For each rank the first one of its host, if ranks share hosts.
fn hosts(topology: &Topology) -> Option<Vec<Rank>> {
    let hosts = topology.hosts_of_ranks();
    let first = |host: &usize| hosts.iter().position(|other| other == host);
    let firsts: Vec<Rank> = hosts.iter().filter_map(first).collect();
    firsts.iter().enumerate().any(|(rank, first)| rank != *first).then_some(firsts)
}

fn missing_and_further(wanted: &JoinedRates, seen: &JoinedRates) -> Vec<WrongLink> {
    let ends: BTreeSet<_> = wanted.keys().chain(seen.keys()).copied().collect();
    let link = |ends: (NodeId, NodeId)| {
        let rate = |links: &JoinedRates| links.get(&ends).copied().unwrap_or(0.0);
        let (named, found) = (rate(wanted), rate(seen));
        (named == 0.0 || found == 0.0).then_some(WrongLink { source: ends.0, target: ends.1, named, found })
    };
    // What is missing comes first.
    let (missing, further): (Vec<_>, Vec<_>) =
        ends.into_iter().filter_map(link).partition(|link| link.found == 0.0);
    [missing, further].concat()
}

/// Links that carry much less than others, compared with what is named.
fn slow(named: &Topology, found: &FoundNetwork) -> Vec<WrongLink> {
    let wanted = match joined(named).keys().eq(joined(&found.topology).keys()) {
        true => joined(named),
        // Their switches may have other numbers.
        false => between_ranks(named),
    };
    let ratio = |(ends, rate): ((NodeId, NodeId), f64)| Some((ends, rate, rate / wanted.get(&ends)?));
    let mut rows: Vec<_> = measured(found).filter_map(ratio).collect();
    rows.sort_by(|a, b| a.2.total_cmp(&b.2));
    let Some(usual) = rows.get(rows.len() / 2).map(|row| row.2) else { return Vec::new() };
    // Where hardly any link carries what it should, hosts are too busy to tell.
    if states_rates(named) && usual < BUSY {
        return Vec::new();
    }
    let slow = rows.iter().filter(|row| row.2 < SLOW * usual);
    slow.map(|&((source, target), rate, ratio)| WrongLink {
        source,
        target,
        named: rate / ratio * usual,
        found: rate,
    })
    .collect()
}

/// What to write for the network that was found, and its rates where the name states some or links are slow.
fn spec(named: &Topology, found: &FoundNetwork, wrong: &[WrongLink]) -> Option<String> {
    let cut: BTreeSet<(NodeId, NodeId)> = wrong
        .iter()
        .filter(|link| link.found == 0.0)
        .map(|link| (link.source.min(link.target), link.source.max(link.target)))
        .collect();
    let cut: Vec<String> = cut.into_iter().map(|(a, b)| format!("{a}-{b}")).collect();
    let order = |positions: &[Rank]| match positions.is_sorted() {
        true => String::new(),
        false => format!("@{}", positions.iter().map(usize::to_string).collect::<Vec<_>>().join(",")),
    };
    let own = (named.base().wiring(), order(named.positions().unwrap_or_default()));
    let known = found.recognised.clone().zip(found.positions.as_deref().map(order));
    let without = (format!("without({}, {})", named.wiring(), cut.join(", ")), String::new());
    let (wiring, order) =
        [Some(own), known, Some(without)].into_iter().flatten().find(|(wiring, order)| {
            let made = Topology::parse(&format!("{wiring}{order}"));
            made.is_ok_and(|made| is_like(&made, &found.topology))
        })?;
    let is_slow = wrong.iter().any(|link| link.named > 0.0 && link.found > 0.0);
    let rates = if is_slow || states_rates(named) { rates(found) } else { String::new() };
    let spec = format!("{wiring}{rates}{order}");
    Topology::parse(&spec).is_ok().then_some(spec)
}

/// The measured rates, as options of a spec: the usual one, and those that differ from it.
fn rates(found: &FoundNetwork) -> String {
    let links: JoinedRates = measured(found).collect();
    let Some(usual) = median(links.values().copied()) else { return String::new() };
    let mut text = format!(",bandwidth={}Mbit/s", megabits(usual));
    for ((source, target), rate) in &links {
        let back = links.get(&(*target, *source)).filter(|back| ALIKE.contains(&(*back / rate)));
        let ends = match back {
            _ if ALIKE.contains(&(rate / usual)) => continue,
            Some(_) if source > target => continue,
            Some(_) => format!("{source}-{target}"),
            None => format!("{source}>{target}"),
        };
        text += &format!(",{ends}={}Mbit/s", megabits(*rate));
    }
    text
}

/// Whether the same ranks are joined, and share hosts.
fn is_like(one: &Topology, other: &Topology) -> bool {
    one.ranks() == other.ranks()
        && hosts(one) == hosts(other)
        && between_ranks(one).keys().eq(between_ranks(other).keys())
}

/// With three digits.
fn megabits(bytes_per_second: f64) -> f64 {
    let rate = 8e-6 * bytes_per_second;
    let unit = 10f64.powi(rate.log10().floor() as i32 - 2);
    // Division by a power of ten keeps what is written short.
    if unit < 1.0 {
        (rate / unit).round() / (1.0 / unit).round()
    } else {
        (rate / unit).round() * unit
    }
}
