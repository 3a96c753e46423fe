//! Measures how long rank 0 takes to choose algorithms for all collectives: `selection_speed torus:32x32
//! [each|all|kept]`.
//!
//! `each` also prints the times of each candidate. `all` allows more than two seconds. `kept` keeps schedules in
//! ./schedules, for a second run. `random:N` is a random graph in which every rank has links to and from four others.

use std::time::{Duration, Instant};

use ringroad_core::algorithms::available;
use ringroad_core::cost::{CostModel, ScheduleCost};
use ringroad_core::random::Random;
use ringroad_core::topology::{names_a_file, Link, Routes};
use ringroad_core::{Collective, Topology};
use ringroad_runtime::choice::choices::{Choices, Lowering, Wishes};
use ringroad_runtime::choice::profile::Place;
use ringroad_runtime::os::machine::cache::CacheMode;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "random:1000".to_owned());
    let topology = match spec.strip_prefix("random:") {
        Some(ranks) => random(ranks.parse()?)?,
        None if names_a_file(&spec) => serde_json::from_str(&std::fs::read_to_string(&spec)?)?,
        None => Topology::parse(&spec)?,
    };
    let more = arguments.next().unwrap_or_default();
    if more == "each" {
        each(&topology)?;
    }
    let synthesis_budget = (more != "all").then_some(Duration::from_secs(2));
    let schedule_cache = (more == "kept").then(|| "schedules".into());
    let wishes = Wishes { synthesis_budget, schedule_cache, ..Wishes::default() };
    let place = Place::of(&[], 1, &topology);
    let lowering = Lowering { segment: 1 << 19, part: usize::MAX, two_areas: true, cache: CacheMode::Near };
    let start = Instant::now();
    let choices = Choices::make(topology, CostModel::default(), lowering, place, &wishes)?;
    println!("all collectives    {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    for collective in Collective::ALL {
        let text =
            |range: &ringroad_core::cost::SwitchRange| format!("{} {}", range.from_bytes, range.algorithm);
        let ranges: Vec<String> = choices.switch_points(collective).iter().map(text).collect();
        println!("  {:16} {}", collective.name(), ranges.join(", "));
    }
    Ok(())
}

fn each(topology: &Topology) -> Result<(), Box<dyn std::error::Error>> {
    let mut routes = Routes::new(topology);
    for collective in Collective::ALL {
        let start = Instant::now();
        let members = available(topology, collective);
        println!("{:18} available {:8.1} ms", collective.name(), start.elapsed().as_secs_f64() * 1e3);
        for member in members {
            let start = Instant::now();
            let schedule = member.build(topology, collective)?;
            let build = start.elapsed().as_secs_f64() * 1e3;
            let start = Instant::now();
            let cost = ScheduleCost::with_routes(&schedule, &mut routes)?;
            let evaluator = start.elapsed().as_secs_f64() * 1e3;
            println!(
                "  {:32} build {build:8.1} ms, cost {evaluator:8.1} ms, {} steps",
                member.name(),
                cost.steps.len()
            );
        }
    }
    Ok(())
}

/// Two random cycles through all ranks, in both directions.
fn random(ranks: usize) -> Result<Topology, Box<dyn std::error::Error>> {
    let mut random = Random::new(7);
    let mut links = Vec::new();
    for _ in 0..2 {
        let order = random.permutation(ranks);
        for place in 0..ranks {
            let (a, b) = (order[place], order[(place + 1) % ranks]);
            links.extend([Link::between(a, b), Link::between(b, a)]);
        }
    }
    Ok(Topology::from_links("random", ranks, ranks, links)?)
}
