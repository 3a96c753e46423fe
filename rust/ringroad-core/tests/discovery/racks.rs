//! Networks that are opaque: rates tell what they are.

use crate::lab::{Dice, Lab, Manners, GOOD};
use crate::{assert_none, network, MEGABIT};
use ringroad_core::topology::{Link, Topology};

fn opaque() -> Manners {
    Manners { opaque: true, noise: 0.03, ..GOOD }
}

/// Racks with so many hosts each, of 100 Mbit/s, and what leads up from each of them.
fn tree(sizes: &[usize], uplinks: &[f64]) -> Topology {
    let hosts: usize = sizes.iter().sum();
    let top = hosts + sizes.len();
    let mut links = Vec::new();
    let mut pair = |a, b, megabits: f64| {
        let link = Link { bandwidth: megabits * MEGABIT, ..Link::between(a, b) };
        links.extend([link, Link { source: b, target: a, ..link }]);
    };
    let mut next = 0;
    for (rack, (size, uplink)) in sizes.iter().zip(uplinks).enumerate() {
        (next..next + size).for_each(|host| pair(host, hosts + rack, 100.0));
        pair(hosts + rack, top, *uplink);
        next += size;
    }
    Topology::from_links("racks", hosts, top + 1, links).unwrap()
}

/// Checks that the racks are found, with their uplinks, when hosts are in this order.
fn check(sizes: &[usize], uplinks: &[f64], order: &[usize]) -> Result<(), String> {
    let mut lab = Lab::new(&tree(sizes, uplinks), order, opaque());
    let evidence = lab.evidence();
    let found = ringroad_core::discovery::assemble(&evidence).unwrap();
    let wrong = |what: String| {
        Err(format!(
            "{sizes:?} with {uplinks:?}: {} rounds {what}; {} {:?}",
            evidence.rounds.len(),
            found.topology,
            found.notes
        ))
    };
    let ranks = order.len();
    let above = |node: usize| found.topology.links().iter().find(|link| link.source == node).unwrap().target;
    let mut first = 0;
    for (size, uplink) in sizes.iter().zip(uplinks) {
        let hosts: Vec<usize> =
            (0..ranks).filter(|rank| (first..first + size).contains(&order[*rank])).collect();
        first += size;
        let switch = above(hosts[0]);
        let together: Vec<usize> = (0..ranks).filter(|rank| above(*rank) == switch).collect();
        if together != hosts {
            return wrong(format!("{together:?} are together instead of {hosts:?}"));
        }
        for link in
            found.topology.links().iter().filter(|link| link.source == switch || link.target == switch)
        {
            let expected = if link.source.min(link.target) < ranks { 100.0 } else { *uplink };
            let (ratio, most) =
                (link.bytes_per_second() / MEGABIT / expected, if expected == *uplink { 0.1 } else { 0.05 });
            if (ratio - 1.0).abs() > most {
                return wrong(format!("{} to {} has {ratio} of {expected}", link.source, link.target));
            }
        }
    }
    Ok(())
}

#[test]
fn racks_and_their_uplinks_are_found() {
    let cases: &[(&[usize], &[f64])] = &[
        (&[4, 4], &[150.0, 150.0]),
        (&[2, 2], &[100.0, 100.0]),
        (&[3, 5], &[150.0, 150.0]),
        (&[4, 4, 4], &[200.0, 200.0, 200.0]),
        (&[4, 4, 4, 4], &[200.0, 200.0, 100.0, 100.0]),
        (&[8, 8], &[400.0, 400.0]),
        (&[8, 8], &[500.0, 500.0]),
        (&[16, 16], &[400.0, 400.0]),
        (&[8, 8, 8, 8], &[400.0; 4]),
        (&[16, 16, 16, 16], &[800.0; 4]),
        (&[32, 32], &[1600.0, 1600.0]),
        (&[5, 7, 12], &[250.0, 300.0, 400.0]),
        (&[2, 2, 2, 2], &[100.0; 4]),
    ];
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let mut dice = Dice::new(11);
    let mut failures = Vec::new();
    for (sizes, uplinks) in cases {
        let hosts: usize = sizes.iter().sum();
        let turns = match hosts {
            _ if full => 0..4,
            0..=16 => 0..2,
            17..=32 => 1..2,
            _ => 0..0,
        };
        for turn in turns {
            let order = if turn == 0 { (0..hosts).collect() } else { dice.permutation(hosts) };
            failures.extend(check(sizes, uplinks, &order).err().map(|what| format!("turn {turn}: {what}")));
        }
    }
    assert_none(failures);
}

#[test]
fn switches_that_share_nothing_are_one() {
    for hosts in [3, 4, 8, 13, 33, 64] {
        let places: Vec<usize> = (0..hosts).collect();
        let found = Lab::new(&network(&format!("switch:{hosts}")), &places, opaque()).discover();
        assert_eq!(found.topology.spec(), format!("switch:{hosts}"), "{:?}", found.notes);
        let rates = found.topology.links().iter().map(|link| link.bytes_per_second() / MEGABIT);
        assert!(rates.into_iter().all(|rate| (96.0..104.0).contains(&rate)));
    }
}

#[test]
fn slow_hosts_have_slow_cables() {
    let truth = network("switch:9").map_links(|id, link| {
        if id / 2 == 4 {
            link.capacity = 0.3;
        }
    });
    let found = Lab::new(&truth.unwrap(), &(0..9).collect::<Vec<_>>(), opaque()).discover();
    assert_eq!(found.topology.spec(), "switch:9");
    for (id, link) in found.topology.links().iter().enumerate() {
        let expected = if id / 2 == 4 { 30.0 } else { 100.0 };
        assert!((link.bytes_per_second() / MEGABIT / expected - 1.0).abs() < 0.05, "{link:?}");
    }
}

/// Racks of 2 to 4 hosts, of which one may have a slow cable, when flows are disturbed. Some cannot be told apart from
/// rates: an uplink that carries nearly as much as its hosts send, or a slow host beside one other.
#[test]
fn most_random_racks_are_found() {
    let mut dice = Dice::new(7);
    for disturbed in [0.0, 0.03, 0.1] {
        let mut failures = Vec::new();
        for _ in 0..60 {
            let sizes: Vec<usize> = (0..2 + dice.below(2)).map(|_| 2 + dice.below(3)).collect();
            let uplinks: Vec<f64> = match sizes.len() {
                2 => vec![[50.0, 100.0][dice.below(2)]; 2],
                _ => sizes.iter().map(|size| 25.0 * *size as f64 * (1.0 + dice.roll())).collect(),
            };
            let hosts: usize = sizes.iter().sum();
            let slow = dice.below(hosts + 2);
            let slowed = |id, link: &mut Link| {
                link.capacity = if slow < hosts && id / 2 == slow { 0.25 } else { link.capacity };
            };
            let topology = tree(&sizes, &uplinks).map_links(slowed).unwrap();
            let order = dice.permutation(hosts);
            let found = Lab::new(&topology, &order, Manners { disturbed, ..opaque() }).discover();
            let above =
                |links: &[Link], node: usize| links.iter().find(|link| link.source == node).unwrap().target;
            let is_same = |a, b| {
                let found = |host| above(found.topology.links(), host);
                let truth = |host: usize| above(topology.links(), order[host]);
                (found(a) == found(b)) == (truth(a) == truth(b))
            };
            if !(0..hosts).all(|a| (0..a).all(|b| is_same(a, b))) {
                failures.push(format!("{sizes:?} with {uplinks:?}, host {slow} is slow: {}", found.topology));
            }
        }
        assert!(failures.len() <= 8, "{disturbed} of the flows disturbed: {failures:#?}");
    }
}
