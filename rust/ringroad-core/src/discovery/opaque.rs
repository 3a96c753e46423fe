//! Networks of which traces tell nothing: switches without addresses, clouds.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::network::{Cable, Network};
use super::rates::{flows, How, Loads, Rate};

/// The network between the hosts, from rates alone.
pub(super) fn network(evidence: &Evidence, _notes: &mut Vec<String>) -> Network {
    let hosts = evidence.hosts.len();
    let mut loads = vec![[Loads::default(), Loads::default()]; hosts];
    for round in &evidence.rounds {
        let mut sums = vec![[(0.0f64, 0.0f64); 2]; hosts];
        for ((from, to), (rate, spread)) in flows(round, hosts) {
            for (host, way) in [(from, 0), (to, 1)] {
                let sum = &mut sums[host][way];
                *sum = (sum.0 + rate, sum.1.max(spread));
            }
        }
        for (loads, sums) in loads.iter_mut().zip(sums) {
            loads.iter_mut().zip(sums).for_each(|(loads, (load, spread))| loads.push(load, spread));
        }
    }
    let rate = |loads: &Loads| {
        loads.capacity().map(|(bytes_per_second, spread)| Rate {
            bytes_per_second,
            spread,
            how: How::Measured,
        })
    };
    let pair = |(host, [up, down]): (usize, &[Loads; 2])| {
        [Cable::new(host, hosts, rate(up)), Cable::new(hosts, host, rate(down))]
    };
    let cables = loads.iter().enumerate().flat_map(pair).collect();
    Network { hosts, nodes: hosts + 1, cables, ways: BTreeMap::new() }
}
