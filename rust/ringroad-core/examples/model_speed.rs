//! What it takes to build and to judge every allreduce on a network: `model_speed torus:128x128 [NAME]`.

use std::time::Instant;

use ringroad_core::algorithms::available;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Topology};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "torus:128x128".to_owned());
    let only = arguments.next().unwrap_or_default();
    let topology = Topology::parse(&spec)?;
    let mut routes = Routes::new(&topology);
    let (mut built, mut judged) = (0.0, 0.0);
    for member in available(&topology, Collective::Allreduce) {
        if !member.name().starts_with(&only) {
            continue;
        }
        let start = Instant::now();
        let schedule = member.build(&topology, Collective::Allreduce)?;
        let build = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let cost = ScheduleCost::with_routes(&schedule, &mut routes)?;
        let judge = start.elapsed().as_secs_f64() * 1e3;
        (built, judged) = (built + build, judged + judge);
        let (steps, load) = (cost.steps.len(), cost.link_load());
        println!(
            "{:28} build {build:8.2} ms, cost {judge:8.2} ms, {steps:6} steps, link load {load}",
            member.name()
        );
    }
    println!("all                          build {built:8.2} ms, cost {judged:8.2} ms");
    Ok(())
}
