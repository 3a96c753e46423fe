//! How long it takes to build and to judge the schedule of every algorithm on a network.
use ringroad_core::algorithms;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Topology};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let spec = args.get(1).cloned().unwrap_or("torus:16x16".into());
    let only = args.get(2).cloned();
    let t0 = Instant::now();
    let topology = Topology::parse(&spec).unwrap();
    println!("topology {:.1} ms", t0.elapsed().as_secs_f64() * 1e3);
    let t0 = Instant::now();
    let members = algorithms::available(&topology, Collective::Allreduce);
    println!("members {} {:.1} ms", members.len(), t0.elapsed().as_secs_f64() * 1e3);
    let mut routes = Routes::new(&topology);
    let (mut tb, mut tc) = (0.0, 0.0);
    for m in members {
        if only.as_ref().is_some_and(|o| !m.name().starts_with(o.as_str())) {
            continue;
        }
        let t = Instant::now();
        let s = m.build(&topology, Collective::Allreduce).unwrap();
        let b = t.elapsed().as_secs_f64() * 1e3;
        let t = Instant::now();
        let cost = if std::env::var("NOCOST").is_ok() {
            None
        } else {
            ScheduleCost::with_routes(&s, &mut routes).ok()
        };
        let c = t.elapsed().as_secs_f64() * 1e3;
        tb += b;
        tc += c;
        let sends: usize = s.steps.iter().map(|x| x.sends.len()).sum();
        println!(
            "{:28} build {:9.2} ms  cost {:9.2} ms  steps {:6} sends {:8} sym {} chunks {} load {:?}",
            m.name(),
            b,
            c,
            s.steps.len(),
            sends,
            s.symmetry.is_some(),
            s.chunks,
            cost.map(|c| c.link_load())
        );
    }
    println!("total build {tb:.1} cost {tc:.1}");
}
