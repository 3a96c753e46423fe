//! Hosts that send and receive less than their links carry together.

use super::evidence::Evidence;
use super::network::Cabling;
use super::rates::{flows, How, Rate};
use super::rounding::median;
use crate::topology::{Topology, TopologyError};

/// A NIC is shared where all links together carry less than this part of what they carry alone.
const SHARED: f64 = 0.75;
/// NICs are alike that differ by no more than this from the usual one.
const ALIKE: f64 = 0.1;
/// To which fraction of a link's bandwidth a NIC's is rounded.
const STEPS: f64 = 20.0;

/// What every host's NIC carries in bandwidths of the host's first link, where NICs are what limits hosts that have
/// links to each other only. Where only some are, or they differ, there is a note.
pub(super) fn ratio(evidence: &Evidence, network: &Cabling, notes: &mut Vec<String>) -> Option<f64> {
    if network.nodes > network.hosts {
        return None;
    }
    let mut ratios = Vec::new();
    for host in 0..network.hosts {
        for sends in [true, false] {
            let end = |from: usize, to: usize| if sends { from } else { to };
            let cables = network.cables.iter().filter(|cable| end(cable.from, cable.to) == host);
            let rates: Vec<f64> = cables.map(|cable| cable.rate.bytes_per_second).collect();
            let first = network.cables.iter().find(|cable| cable.from == host)?.rate.bytes_per_second;
            // Only rounds in which all links were used tell what they carry together.
            let sums = evidence.rounds.iter().filter_map(|round| {
                let all = flows(round, network.hosts);
                let own = all.iter().filter(|((from, to), _)| end(*from, *to) == host);
                let own: Vec<f64> =
                    own.filter(|(_, load)| !load.starved).map(|(_, load)| load.rate).collect();
                (own.len() == rates.len() && own.len() > 1).then(|| own.iter().sum::<f64>())
            });
            let together = sums.reduce(f64::max);
            let limited = together.filter(|together| *together < SHARED * rates.iter().sum::<f64>());
            ratios.push(limited.map(|together| together / first));
        }
    }
    let limited: Vec<f64> = ratios.iter().copied().flatten().collect();
    let usual = median(limited.iter().copied())?;
    let is_alike = limited.iter().all(|ratio| (ratio / usual - 1.0).abs() <= ALIKE);
    if is_alike && limited.len() == ratios.len() {
        return Some((usual * STEPS).round().max(1.0) / STEPS);
    }
    let hosts = ratios.chunks(2).filter(|ratios| ratios.iter().any(Option::is_some)).count();
    notes.push(format!(
        "{hosts} hosts send or receive less than their links carry together, which is not modelled"
    ));
    None
}

/// The network with a NIC for every rank, and what is known of its links.
pub(super) fn behind(
    topology: &Topology,
    rates: &[Rate],
    ratio: f64,
) -> Result<(Topology, Vec<Rate>), TopologyError> {
    let topology = topology.behind_nics(ratio)?;
    let nics = topology.links()[..2 * topology.ranks()].iter();
    let spread = median(rates.iter().map(|rate| rate.spread)).unwrap_or(0.0);
    let nic = |bytes_per_second| Rate { bytes_per_second, spread, how: How::Measured };
    let facts = nics.map(|link| nic(link.bytes_per_second())).chain(rates.iter().copied()).collect();
    Ok((topology, facts))
}
