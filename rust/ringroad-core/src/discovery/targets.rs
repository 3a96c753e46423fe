//! Which hosts a host traces the routes to: all if they are few, otherwise some that together show every link.

use crate::random::Random;

/// To how many others a host traces the routes at most.
const MOST_TARGETS: usize = 32;

/// The hosts to which `host` of `hosts` traces the routes, ascending: all others, or, where they are many, those at
/// distances that are powers of two in the order of hosts, and random ones.
pub fn trace_targets(host: usize, hosts: usize) -> Vec<usize> {
    if host >= hosts {
        return Vec::new();
    }
    if hosts <= MOST_TARGETS + 1 {
        return (0..hosts).filter(|other| *other != host).collect();
    }
    let powers = (0..usize::BITS).map(|bit| 1usize << bit).take_while(|distance| *distance < hosts);
    let mut targets: Vec<usize> = powers
        .flat_map(|distance| [(host + distance) % hosts, (host + hosts - distance) % hosts])
        .take(3 * MOST_TARGETS / 4)
        .collect();
    targets.sort_unstable();
    targets.dedup();
    let mut draw = Random::new(host as u64);
    while targets.len() < MOST_TARGETS {
        let other = draw.below(hosts);
        if let (true, Err(place)) = (other != host, targets.binary_search(&other)) {
            targets.insert(place, other);
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_trace_all_and_many_some() {
        assert_eq!(trace_targets(1, 4), [0, 2, 3]);
        assert!(trace_targets(4, 4).is_empty());
        for hosts in [33, 34, 40, 64, 100, 1024, 5000] {
            for host in [0, 1, hosts / 2, hosts - 1] {
                let targets = trace_targets(host, hosts);
                assert_eq!(targets.len(), (hosts - 1).min(MOST_TARGETS), "{host} of {hosts}");
                assert!(targets.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(targets.iter().all(|other| *other < hosts && *other != host));
                assert!(targets.contains(&((host + 1) % hosts)));
            }
        }
    }
}
