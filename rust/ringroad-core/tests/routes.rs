//! Tests of what tables of routes cost.

use ringroad_core::algorithms::available;
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::simulate::{Forwarding, Scenario, Simulator};
use ringroad_core::topology::{Routing, RoutingTable};
use ringroad_core::{Collective, Topology};

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// A table with the paths of single-path routing has the same costs and the same simulated times.
#[test]
fn a_table_of_single_paths_is_single_path_routing() {
    let specs = ["torus:4x4", "mesh:2x3", "fattree:2x4", "hosts:2x3", "generalized-kautz:2:9", "biring:4:6"];
    let torus = topology("torus:4x4");
    let graph = Topology::from_links("torus", torus.ranks(), torus.nodes(), torus.links().to_vec()).unwrap();
    for plain in specs.map(topology).into_iter().chain([graph]) {
        let single = plain.clone().with_routing(Routing::SinglePath).unwrap();
        let table = plain.clone().with_routes(RoutingTable::from_topology(&single).unwrap()).unwrap();
        for collective in Collective::ALL {
            for (index, member) in available(&single, collective).into_iter().enumerate() {
                let schedule = member.build(&single, collective).unwrap();
                let costs = [&single, &table].map(|on| ScheduleCost::from_schedule(&schedule, on).unwrap());
                assert_eq!(costs[0], costs[1], "{member}: {collective} on {plain}");
                if index % 4 > 0 {
                    continue;
                }
                for forwarding in [Forwarding::CutThrough, Forwarding::StoreAndForward] {
                    let simulator =
                        Simulator { forwarding, model: CostModel::default(), ..Simulator::default() };
                    let run = |on| simulator.run(&schedule, on, 7200, &Scenario::default()).unwrap().seconds;
                    assert_eq!(run(&single), run(&table), "{member}: {collective} on {plain}");
                }
            }
        }
    }
}
