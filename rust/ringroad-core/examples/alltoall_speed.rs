//! How long it takes to find how much an all-to-all can carry, up to a gap that is proven.
//!
//! `cargo run --release -p ringroad-core --example alltoall_speed [TOPOLOGY ...]`

use std::time::Instant;

use ringroad_core::synthesis::alltoall::{concurrent_flow, Demands};
use ringroad_core::synthesis::Network;
use ringroad_core::Topology;

const SPECS: [&str; 4] =
    ["generalized-kautz:4:1000", "generalized-kautz:4:2000", "random:1000:4", "hypercube:10"];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let specs = if asked.is_empty() { SPECS.map(str::to_owned).to_vec() } else { asked };
    for spec in specs {
        let topology = Topology::parse(&spec).unwrap_or_else(|error| panic!("{error}"));
        let network = Network::of(&topology);
        let start = Instant::now();
        let found = concurrent_flow(&network, &Demands::Uniform, 0.01, &mut |_| true);
        let found = found.unwrap_or_else(|error| panic!("{spec}: {error}"));
        let taken = start.elapsed().as_secs_f64();
        let (gap, iterations) = (100.0 * found.gap(), found.iterations);
        println!(
            "{spec:<32} {taken:6.2} s  gap {gap:5.2} %  {iterations:4} iterations  load {:.3}",
            found.load
        );
    }
}
