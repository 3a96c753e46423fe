//! How evenly one path for each pair loads links, how many channels that takes, and how long both take to find.
//!
//! `cargo run --release -p ringroad-core --example routes_speed [TOPOLOGY ...]`; `random:500:4` is a random graph of 500
//! ranks with 4 cables each.

use std::time::Instant;

use ringroad_core::synthesis::routes::balanced_routes;
use ringroad_core::topology::{Channels, Link, RoutingTable};
use ringroad_core::Topology;

const SPECS: [&str; 3] = ["generalized-kautz:4:500", "generalized-kautz:4:1000", "random:500:4"];
/// How near to the bound flows are brought.
const GAP: f64 = 0.004;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let specs = if asked.is_empty() { SPECS.map(str::to_owned).to_vec() } else { asked };
    for spec in specs {
        let topology = topology(&spec);
        let start = Instant::now();
        let found = balanced_routes(&topology, GAP, &mut |_| true).unwrap_or_else(|error| panic!("{error}"));
        report(&format!("{spec} balanced"), &found.table, &topology, found.bound, start);
        for (name, make) in MAKERS {
            let start = Instant::now();
            match make(&topology) {
                Ok(table) => report(&format!("{spec} {name}"), &table, &topology, found.bound, start),
                Err(error) => println!("{spec} {name}: {error}"),
            }
        }
    }
}

type Make = fn(&Topology) -> Result<RoutingTable, ringroad_core::topology::TopologyError>;
const MAKERS: [(&str, Make); 2] = [("shortest", RoutingTable::shortest), ("up-down", RoutingTable::up_down)];

fn report(what: &str, table: &RoutingTable, topology: &Topology, bound: f64, start: Instant) {
    let ratio = table.load(topology) / bound;
    print!("{what:<36} {:6.2} s  load {ratio:.4}", start.elapsed().as_secs_f64());
    for way in [Channels::Turns, Channels::Lash] {
        let start = Instant::now();
        match table.with_channels(topology, way) {
            Ok(made) => print!("  {way:?} {} ({:.2} s)", made.channels(), start.elapsed().as_secs_f64()),
            Err(error) => print!("  {way:?} {error}"),
        }
    }
    println!();
}

fn topology(spec: &str) -> Topology {
    let parts: Vec<&str> = spec.split(':').collect();
    if let ["random", ranks, degree] = parts[..] {
        return random(ranks.parse().unwrap(), degree.parse().unwrap());
    }
    Topology::parse(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// As many random cycles through all ranks as make up the degree.
fn random(ranks: usize, degree: usize) -> Topology {
    let (mut links, mut seed) = (Vec::new(), 1u64);
    for _ in 0..degree / 2 {
        let mut order: Vec<usize> = (0..ranks).collect();
        for at in (1..ranks).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let cable = |at: usize| {
            let (a, b) = (order[at], order[(at + 1) % ranks]);
            [Link::between(a, b), Link::between(b, a)]
        };
        links.extend((0..ranks).flat_map(cable));
    }
    Topology::from_links("random", ranks, ranks, links).unwrap()
}
