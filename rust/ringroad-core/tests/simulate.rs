use ringroad_core::algorithms::available;
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::plan::LowerOptions;
use ringroad_core::simulate::{Scenario, Simulator, Pace};
use ringroad_core::{Collective, Topology};

#[test]
fn experiment() {
    let model = CostModel { reduce_cost: 2e-11, message_latency: 1e-7, ..CostModel::default() };
    let lowering = LowerOptions { ..LowerOptions::default() };
    for spec in ["torus:8x8", "ring:64"] {
        let topology = Topology::parse(spec).unwrap();
        for collective in Collective::ALL {
            for member in available(&topology, collective) {
                let schedule = member.build(&topology, collective).unwrap();
                let bytes = 1000 * schedule.chunks_per_vector() as u64 * schedule.ranks as u64;
                for pace in [Pace::Synchronous, Pace::Free] {
                let cost = ScheduleCost::of(&schedule, &topology).unwrap();
                let predicted = model.seconds(&cost, bytes);
                let simulator = Simulator { model, pace, lowering: lowering.clone(), ..Simulator::default() };
                let start = std::time::Instant::now();
                let found = simulator.run(&schedule, &topology, bytes, &Scenario::default()).unwrap();
                let ratio = found.seconds / predicted;
                    println!("{:?} {spec} {pace:?} {collective} {} {ratio} {}", start.elapsed(), member.name(), found.messages);
                }
            }
        }
    }
}
