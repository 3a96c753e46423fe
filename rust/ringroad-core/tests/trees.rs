//! Runs the schedules of trees packed on any graph, with equal blocks and blocks of any size, and compares the results
//! with the definition of the collective.

#[allow(dead_code)] // Other tests use the rest.
mod common;

use std::sync::Arc;

use common::driver::{drive, Machine, Protocol};
use common::element::{from_bytes, to_bytes};
use common::Random;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::executor::Executor;
use ringroad_core::plan::{Counts, LowerOptions};
use ringroad_core::synthesis::trees::Variant;
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Link;
use ringroad_core::{Collective, Plan, Schedule, Topology};

/// Runs a schedule on blocks of these sizes. A collective without blocks gets a vector of their total size.
fn check(schedule: &Schedule, counts: &[usize], random: &mut Random) {
    let Schedule { collective, ranks, .. } = *schedule;
    let total: usize = counts.iter().sum();
    let starts: Vec<usize> = (0..ranks).map(|rank| counts[..rank].iter().sum()).collect();
    let vector: Vec<Vec<i64>> =
        (0..ranks).map(|_| (0..total).map(|_| random.next() as i64).collect()).collect();
    let block = |vector: &[i64], rank: usize| vector[starts[rank]..starts[rank] + counts[rank]].to_vec();
    let sum: Vec<i64> =
        (0..total).map(|i| vector.iter().fold(0i64, |sum, v| sum.wrapping_add(v[i]))).collect();
    let input = |rank: usize| match collective {
        Collective::Allgather => block(&vector[0], rank),
        Collective::Broadcast { root } if rank != root => Vec::new(),
        _ => vector[rank].clone(),
    };
    let output = |rank: usize| match collective {
        Collective::Allgather => vector[0].clone(),
        Collective::Broadcast { root } => vector[root].clone(),
        Collective::ReduceScatter => block(&sum, rank),
        Collective::Reduce { root } if rank != root => Vec::new(),
        _ => sum.clone(),
    };
    let counts = if collective.has_blocks() { Counts::PerBlock(counts) } else { Counts::Equal(total) };
    let options = LowerOptions { segment: 64, ..LowerOptions::default() };
    let machine = |rank: usize| {
        let plan = Arc::new(Plan::lower(schedule, rank, counts, 8, &options).unwrap());
        let buffers =
            [to_bytes(&input(rank)), vec![0xA5; 8 * output(rank).len()], vec![0xA5; plan.scratch()]];
        Machine { executor: Executor::new(plan), buffers, factor: 1, local: vec![false; ranks] }
    };
    let mut machines: Vec<Machine> = (0..ranks).map(machine).collect();
    drive::<i64>(&mut machines, Protocol::Rendezvous, random).unwrap_or_else(|stuck| panic!("{stuck}"));
    for (rank, machine) in machines.iter().enumerate() {
        assert_eq!(
            from_bytes::<i64>(&machine.buffers[1]),
            output(rank),
            "rank {rank}, {} {collective}",
            schedule.name
        );
    }
}

/// Two switches with three ranks each, cables of unequal bandwidth, and a one-way ring of all ranks.
fn mixed() -> Topology {
    let mut links = Vec::new();
    for rank in 0..6 {
        links.push(Link::between(rank, (rank + 1) % 6));
        let capacity = if rank % 2 == 0 { 3.0 } else { 1.0 };
        links.push(Link { capacity, ..Link::between(rank, 6 + rank / 3) });
        links.push(Link { capacity, ..Link::between(6 + rank / 3, rank) });
    }
    links.extend([(6, 7), (7, 6)].map(|(a, b)| Link { capacity: 4.0, ..Link::between(a, b) }));
    Topology::from_links("mixed", 6, 8, links).unwrap()
}

#[test]
fn trees_run_on_blocks_of_any_size() {
    let mut random = Random(31);
    let specs = ["ring:1", "ring:2", "torus:3x3", "torus:2x4", "hosts:2x3", "switch:5", "mesh:2x3"];
    let topologies = specs.map(|spec| Topology::parse(spec).unwrap()).into_iter().chain([mixed()]);
    for topology in topologies {
        let ranks = topology.ranks();
        for collective in Collective::ALL.map(|collective| collective.with_root(ranks / 2)) {
            for variant in Variant::ALL {
                let Ok(packing) = variant.pack(&topology, collective, Budget::UNLIMITED) else { continue };
                for parts in [1, 20] {
                    let schedule = packing.schedule(parts, Budget::UNLIMITED).unwrap();
                    schedule.verify().unwrap();
                    ScheduleCost::from_schedule(&schedule, &topology).unwrap();
                    for most in [1, 30, 200] {
                        let counts: Vec<usize> = (0..ranks).map(|_| random.below(most + 1)).collect();
                        check(&schedule, &counts, &mut random);
                    }
                }
            }
        }
    }
}

/// With many parts, the load of a pipeline is close to that of the packing.
#[test]
fn long_pipelines_are_close_to_their_load() {
    for topology in ["torus:4x4", "hosts:2x4"].map(|spec| Topology::parse(spec).unwrap()) {
        for (collective, variant) in Collective::ALL.iter().flat_map(|c| Variant::ALL.map(|v| (*c, v))) {
            let Ok(packing) = variant.pack(&topology, collective, Budget::UNLIMITED) else { continue };
            let promised = packing.load().to_f64();
            for (parts, most) in [(1, f64::INFINITY), (64, 2.0), (1024, 1.25)] {
                let schedule = packing.schedule(parts, Budget::UNLIMITED).unwrap();
                let load = ScheduleCost::from_schedule(&schedule, &topology).unwrap().link_load();
                let what = format!("{} {collective} on {topology}: {load}, {promised}", schedule.name);
                assert!(load >= promised * (1.0 - 1e-9) && load <= most * promised, "{what}");
            }
        }
    }
}
