//! What trees of every kind promise, cost and take to make: `trees_speed torus:8x8 [FAILED [NAME]]`, without so many cables.

use std::time::Instant;

use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::trees::{Packing, Variant};
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Link;
use ringroad_core::{Collective, Topology};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "torus:8x8".to_owned());
    let failed: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let only = arguments.next().unwrap_or_default();
    let parts: Vec<usize> =
        arguments.next().map_or(Ok(vec![16, 64, 256, 1024]), |text| text.parse().map(|n| vec![n]))?;
    let whole = Topology::parse(&spec)?;
    let topology = if failed > 0 { without(&whole, failed)? } else { whole.clone() };
    let (ranks, links) = (whole.ranks() as f64, whole.links().iter().map(|link| link.capacity).sum::<f64>());
    println!("healthy bound of an allreduce {:.4}", 2.0 * (ranks - 1.0) / links);
    for variant in Variant::ALL {
        for collective in [Collective::Allreduce, Collective::Allgather, Collective::Broadcast { root: 0 }] {
            if !variant.name().starts_with(&only) {
                continue;
            }
            let start = Instant::now();
            let packing = match variant.pack(&topology, collective, Budget::UNLIMITED) {
                Ok(packing) => packing,
                Err(error) => {
                    println!("{} {collective}: {error}", variant.name());
                    continue;
                }
            };
            let packed = start.elapsed().as_secs_f64() * 1e3;
            describe(variant, collective, &packing, packed);
            for &parts in &parts {
                judge(&packing, &topology, parts)?;
            }
        }
    }
    Ok(())
}

fn describe(variant: Variant, collective: Collective, packing: &Packing, packed: f64) {
    let bound =
        packing.bound().map_or("unknown".to_owned(), |bound| format!("{bound} = {:.4}", bound.to_f64()));
    println!(
        "{} {collective}: {} trees of height {} in {packed:.1} ms, load {} = {:.4}, bound {bound}",
        variant.name(),
        packing.trees(),
        packing.height(),
        packing.load(),
        packing.load().to_f64(),
    );
}

fn judge(packing: &Packing, topology: &Topology, parts: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut last = Instant::now();
    let mut lap = || {
        let milliseconds = last.elapsed().as_secs_f64() * 1e3;
        last = Instant::now();
        milliseconds
    };
    let schedule = packing.schedule(parts, Budget::UNLIMITED).unwrap();
    let built = lap();
    schedule.verify()?;
    let verified = lap();
    let cost = ScheduleCost::of(&schedule, topology)?;
    println!(
        "  {:5} parts: {:5} steps, {:6} chunks, link load {:.4} (busiest {:.4}); built {built:.1} ms, verified {verified:.1} ms, cost {:.1} ms",
        parts,
        schedule.steps.len(),
        schedule.chunks,
        cost.link_load(),
        cost.busiest_link,
        lap()
    );
    Ok(())
}

/// Without so many cables, both ways of each, by chance.
fn without(whole: &Topology, failed: usize) -> Result<Topology, Box<dyn std::error::Error>> {
    let mut links: Vec<Link> = whole.links().to_vec();
    let mut state = 7u64;
    for _ in 0..failed {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let gone = links[(state >> 33) as usize % links.len()];
        links.retain(|link| {
            let ends = (link.source, link.target);
            ends != (gone.source, gone.target) && ends != (gone.target, gone.source)
        });
    }
    Ok(Topology::from_links("damaged", whole.ranks(), whole.nodes(), links)?)
}
