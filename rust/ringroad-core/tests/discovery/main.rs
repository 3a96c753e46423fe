//! Networks are found as they are, from what their hosts can see.

mod hosts;
mod lab;
mod named;
mod odd;
mod racks;

use std::collections::BTreeMap;

use lab::{Dice, Lab, GOOD};
use ringroad_core::discovery::FoundNetwork;
use ringroad_core::topology::{Link, Routes, Topology};

const MEGABIT: f64 = 125_000.0;

fn network(spec: &str) -> Topology {
    Topology::parse(spec).unwrap().with_links(Some(100.0 * MEGABIT), None).unwrap()
}

/// What the links from one node to another carry together.
fn links(topology: &Topology) -> BTreeMap<(usize, usize), f64> {
    let mut links = BTreeMap::new();
    for link in topology.links() {
        *links.entry((link.source, link.target)).or_insert(0.0) += link.bytes_per_second();
    }
    links
}

/// Compares links, their rates and the paths of bytes on a network without switches whose hosts have a rank each.
fn compare(lab: &Lab, found: &FoundNetwork, tolerance: f64) -> Result<(), String> {
    let links = links(&found.topology);
    let (ends, expected): (Vec<_>, Vec<_>) = (links.keys().collect(), lab.links.keys().collect());
    if ends != expected {
        return Err(format!("links {ends:?} instead of {expected:?}"));
    }
    for (ends, rate) in &lab.links {
        let ratio = links[ends] / rate;
        if (ratio - 1.0).abs() > tolerance {
            return Err(format!("{ends:?} has {ratio} of its rate"));
        }
    }
    let mut routes = Routes::new(&found.topology);
    for ((from, to), way) in &lab.paths {
        let route = routes.route(*from, *to).unwrap();
        let mut taken = vec![*from];
        for (link, _) in &route.shares {
            let link = found.topology.links()[*link];
            if taken.last() == Some(&link.source) {
                taken.push(link.target);
            }
        }
        if &taken != way {
            return Err(format!("bytes go {taken:?} instead of {way:?}"));
        }
    }
    Ok(())
}

/// Discovers a network whose ranks are at these positions, and says what is wrong.
fn discovered(truth: &Topology, places: &[usize], expected: Option<&str>) -> Result<FoundNetwork, String> {
    let mut lab = Lab::new(truth, places, GOOD);
    let found = lab.discover();
    let wrong = |what: &str| Err(format!("{truth}: {what}: {:?}, {:?}", found.recognised, found.notes));
    if found.recognised.as_deref() != expected {
        return wrong("not recognised");
    }
    if found.links.len() != found.topology.links().len() {
        return wrong("facts of links");
    }
    if let (Some(positions), Some(spec)) = (&found.positions, expected) {
        // Every cable of the lab is one of the network that was recognised.
        let base = Topology::parse(spec).unwrap();
        let ends: Vec<_> = links(&base).into_keys().collect();
        let ranks = |(a, b): &&(usize, usize)| *a.max(b) < base.ranks();
        for (a, b) in lab.links.keys().filter(ranks).filter(|_| base.ranks() == base.nodes()) {
            if !ends.contains(&(positions[*a], positions[*b])) {
                return wrong("positions");
            }
        }
    }
    if truth.nodes() == truth.ranks() {
        if let Err(what) = compare(&lab, &found, 0.03) {
            return wrong(&what);
        }
    }
    if !found.notes.is_empty() {
        return wrong("notes");
    }
    Ok(found)
}

fn in_order(ranks: usize) -> Vec<usize> {
    (0..ranks).collect()
}

fn assert_none(failures: Vec<String>) {
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn networks_of_the_catalogue_are_recognised() {
    let specs = [
        "ring:3",
        "ring:5",
        "ring:8",
        "ring:9",
        "torus:3x3",
        "torus:4x3",
        "torus:3x4",
        "torus:4x4",
        "torus:3x3x3",
        "hypercube:3",
        "hypercube:5",
        "petersen",
        "complete:4",
        "complete:6",
        "hyperx:2x4",
        "mesh:3x4",
        "mesh:2x2x3",
        "mesh:5",
        "heawood",
        "complete-bipartite:3",
        "complete-bipartite:2x4",
        "twisted-torus:4x8",
        "circulant:16:1,6",
        "circulant:13:2,3",
        "kautz:2:2",
        "switch:2",
        "switch:5",
        "switch:12",
        "hosts:2x3",
        "hosts:4x2",
        "hosts:1x4",
        "fattree:2x4",
        "fattree:3x3",
        "fattree:2x2x2",
        "hammingmesh:2x2:2x2",
        "doubled-odd-graph:3",
    ];
    let check = |spec: &&str| {
        let truth = network(spec);
        let found = discovered(&truth, &in_order(truth.ranks()), Some(spec))?;
        match found.positions == Some(in_order(truth.ranks())) && found.topology.spec().starts_with(spec) {
            true => Ok(()),
            false => Err(format!("{spec}: positions {:?} on {}", found.positions, found.topology)),
        }
    };
    assert_none(specs.iter().filter_map(|spec| check(spec).err()).collect());
}

#[test]
fn ranks_may_stand_in_any_order() {
    let specs = [
        "ring:7",
        "torus:3x4",
        "torus:5x5",
        "torus:4x4x2",
        "hypercube:4",
        "petersen",
        "mesh:3x5",
        "complete-bipartite:4",
        "circulant:11:1,3",
        "kautz:2:2",
        "twisted-torus:6x3",
        "fattree:3x4",
        "hosts:3x2",
    ];
    fn expected(spec: &str) -> &str {
        match spec {
            "torus:3x4" => "torus:4x3",
            "torus:4x4x2" => "hypercube:5",
            "mesh:3x5" => "mesh:5x3",
            "hypercube:4" => "torus:4x4",
            other => other,
        }
    }
    let mut dice = Dice::new(5);
    let mut check = |spec: &str| {
        let truth = network(spec);
        discovered(&truth, &dice.permutation(truth.ranks()), Some(expected(spec))).err()
    };
    assert_none(specs.iter().filter_map(|spec| check(spec)).collect());
}

/// A graph in which each rank has cables to so many others, of different speeds.
fn random_graph(ranks: usize, degree: usize, dice: &mut Dice) -> Topology {
    loop {
        let mut cables = Vec::new();
        for _ in 0..degree {
            let order = dice.permutation(ranks);
            cables.extend(order.chunks_exact(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))));
        }
        cables.sort_unstable();
        cables.dedup();
        let speeds = [10.0, 20.0, 50.0, 100.0, 200.0];
        let links = cables.iter().flat_map(|(a, b)| {
            let bandwidth = speeds[dice.below(speeds.len())] * MEGABIT;
            [(*a, *b), (*b, *a)].map(|(a, b)| Link { bandwidth, ..Link::between(a, b) })
        });
        if let Ok(graph) = Topology::from_links("random", ranks, ranks, links.collect()) {
            return graph;
        }
    }
}

#[test]
fn graphs_with_cables_of_every_speed_are_measured() {
    let mut dice = Dice::new(9);
    let mut failures = Vec::new();
    for (ranks, degree) in [(8, 3), (8, 3), (10, 4), (12, 3), (16, 4), (24, 5), (32, 3)] {
        let truth = random_graph(ranks, degree, &mut dice);
        let mut lab = Lab::new(&truth, &in_order(ranks), GOOD);
        let found = lab.discover();
        failures.extend(compare(&lab, &found, 0.05).err().map(|what| format!("{ranks} ranks: {what}")));
    }
    assert_none(failures);
}

#[test]
fn torus_of_a_thousand_hosts_is_found_from_some_traces() {
    let truth = network("torus:32x32");
    for shuffled in [false, true] {
        let places = if shuffled { Dice::new(3).permutation(1024) } else { in_order(1024) };
        let mut lab = Lab::new(&truth, &places, GOOD);
        let found = lab.discover();
        assert_eq!(found.recognised.as_deref(), Some("torus:32x32"), "{:?}", found.notes);
        assert!(found.notes.iter().any(|note| note.contains("pairs of hosts")), "{:?}", found.notes);
        assert_eq!(links(&found.topology).keys().collect::<Vec<_>>(), lab.links.keys().collect::<Vec<_>>());
    }
}
