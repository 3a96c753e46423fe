use ringroad_core::algorithms::available;
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::plan::LowerOptions;
use ringroad_core::simulate::{Scenario, Simulator};
use ringroad_core::{Collective, Topology};

#[test]
fn experiment() {
    let model = CostModel { reduce_cost: 2e-11, message_latency: 1e-7, ..CostModel::default() };
    let lowering = LowerOptions { segment: usize::MAX, pack: usize::MAX, window: usize::MAX, ..LowerOptions::default() };
    for spec in ["ring:8", "ring:7", "ring:9", "torus:4x4", "torus:3x4", "torus:2x3x4", "switch:6", "hosts:2x4", "hosts:3x3"] {
        let topology = Topology::parse(spec).unwrap();
        for collective in Collective::ALL {
            for member in available(&topology, collective) {
                let schedule = member.build(&topology, collective).unwrap();
                let bytes = 1000 * schedule.chunks_per_vector() as u64 * schedule.ranks as u64;
                let cost = ScheduleCost::of(&schedule, &topology).unwrap();
                let predicted = model.seconds(&cost, bytes);
                let simulator = Simulator { model, lowering: lowering.clone(), ..Simulator::default() };
                let found = simulator.run(&schedule, &topology, bytes, &Scenario::default()).unwrap();
                let ratio = found.seconds / predicted;
                if (ratio - 1.0).abs() > 1e-9 {
                    println!("{spec} {collective} {} {ratio}", member.name());
                }
            }
        }
    }
}
