//! How much an all-to-all carries: known rates, bounds, and schedules that follow the flow.

use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::alltoall::{
    concurrent_flow, held_by_relays, in_few_chunks, schedule, Bounds, Concurrent, Demands,
};
use ringroad_core::synthesis::Network;
use ringroad_core::Topology;

fn network(spec: &str) -> Network {
    Network::of(&Topology::parse(spec).unwrap())
}

fn flow(spec: &str, demands: &Demands, gap: f64) -> Concurrent {
    concurrent_flow(&network(spec), demands, gap, &mut |_| true).unwrap()
}

/// The same demands, as a matrix, so that nothing is known to be alike.
fn one_each(ranks: usize) -> Demands {
    Demands::matrix(ranks, vec![1.0; ranks * ranks]).unwrap()
}

/// What linear programs find for these networks.
#[test]
fn what_is_known() {
    for (spec, rate) in [
        ("hypercube:3", 1.0 / 4.0),
        ("complete-bipartite:4", 2.0 / 5.0),
        ("complete:5", 1.0),
        ("ring:8", 1.0 / 8.0),
        ("torus:3x3", 1.0 / 3.0),
        ("torus:4x4", 1.0 / 8.0),
        ("torus:5x5", 1.0 / 15.0),
        ("torus:3x3x3", 1.0 / 9.0),
    ] {
        let exact = flow(spec, &Demands::Uniform, 0.0);
        assert!((exact.rates()[0] - rate).abs() < 1e-6 * rate, "{spec}: {:?}", exact.rates());
        assert!(exact.gap() < 1e-6, "{spec}: {:?}", exact.rates());
        let ranks = network(spec).ranks();
        let found = flow(spec, &one_each(ranks), 0.002);
        assert!(found.gap() <= 0.002, "{spec}: {:?}", found.rates());
        let [least, most] = found.rates();
        assert!(least <= rate * (1.0 + 1e-6) && rate <= most * (1.0 + 1e-6), "{spec}: {:?}", found.rates());
    }
}

#[test]
fn bounds_are_none_too_low() {
    for spec in ["petersen", "kautz:2:3", "generalized-kautz:4:20", "without(torus:4x4, 0-1)", "mesh:3x4"] {
        let network = network(spec);
        let found = concurrent_flow(&network, &Demands::Uniform, 0.005, &mut |_| true).unwrap();
        assert!(found.gap() <= 0.005, "{spec}: {:?}", found.rates());
        let bounds = Bounds::of(&network, &Demands::Uniform);
        for bound in [bounds.distance, bounds.rank, bounds.degree.unwrap()] {
            assert!(bound >= found.rates()[0] * (1.0 - 1e-9), "{spec}: {bounds:?}");
        }
    }
}

/// Every chunk arrives once, over the arcs that it was given, and steps take little longer than the flow must.
#[test]
fn schedules_follow_the_flow() {
    for spec in [
        "ring:5",
        "torus:3x3",
        "torus:4x4",
        "petersen",
        "hypercube:4",
        "kautz:2:2",
        "generalized-kautz:4:20",
        "without(torus:4x4, 0-1)",
        "mesh:3x4",
        "biring:2:5",
        "complete:5",
        "torus:8x8",
        "generalized-kautz:4:60",
        "hypercube:6",
    ] {
        let network = network(spec);
        let topology = Topology::parse(spec).unwrap();
        let flow = concurrent_flow(&network, &Demands::Uniform, 0.005, &mut |_| true).unwrap();
        let (pieces, trips, load) = in_few_chunks(&network, &flow, 8, 0.03);
        let diameter = topology.diameter();
        // Where few chunks go over an arc one more weighs.
        let one = 1.0 / pieces as f64;
        for (steps, most) in [(diameter, 1.5 * flow.bound), (3 * diameter, 1.06 * flow.bound + one)] {
            let made = schedule("flow", &network, &trips, pieces, load, steps);
            made.verify().unwrap_or_else(|error| panic!("{spec}: {error}"));
            let longest = trips.iter().map(|trip| trip.arcs.len()).max().unwrap();
            assert!(made.steps.len() <= steps.max(longest), "{spec}: {} steps", made.steps.len());
            let cost = ScheduleCost::of(&made, &topology).unwrap();
            let whole = cost.link_load() * network.ranks() as f64;
            assert!(whole <= most, "{spec}: {whole} in {steps} steps, not {}", flow.bound);
            assert!(held_by_relays(&made) < 3 * made.chunks / network.ranks(), "{spec}");
        }
    }
}
