//! Compares packings with all cuts and partitions of small graphs.

use super::packing::SwitchedArc;
use super::rate::network;
use super::*;
use crate::topology::Link;

/// A reproducible source of random choices.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A ring of all nodes, so that every rank reaches every rank, plus random links, one way or both ways.
fn any_graph(ranks: usize, switches: usize, both_ways: bool, random: &mut Random) -> Topology {
    let nodes = ranks + switches;
    let mut pairs: Vec<(usize, usize)> = (0..nodes).map(|node| (node, (node + 1) % nodes)).collect();
    pairs.extend((0..2 * nodes).map(|_| (random.below(nodes), random.below(nodes))).filter(|(a, b)| a != b));
    let mut links = Vec::new();
    for (a, b) in pairs {
        let capacity = (1 + random.below(3)) as f64;
        links.push(Link { capacity, ..Link::between(a, b) });
        if both_ways {
            links.push(Link { capacity, ..Link::between(b, a) });
        }
    }
    Topology::from_links("any", ranks, nodes, links).unwrap()
}

/// The total capacity of the wires into a set of nodes, which is given as bits.
fn into(wiring: &WireGraph, capacities: &[u64], set: usize) -> u64 {
    let within = |node: usize| set >> node & 1 == 1;
    let wires = wiring.wires.iter().zip(capacities);
    wires.filter(|(w, _)| !within(w.source) && within(w.target)).map(|(_, capacity)| *capacity).sum()
}

/// The minimum, over all cuts with a rank behind them, of a cut's capacity divided by what is rooted before it.
fn least_cut(wiring: &WireGraph, weights: &[u64]) -> Ratio {
    let capacities: Vec<u64> = wiring.wires.iter().map(|wire| wire.capacity).collect();
    let sets = (0..1usize << wiring.nodes).filter(|set| set & ((1 << wiring.ranks) - 1) != 0);
    let before =
        |set: usize| (0..wiring.ranks).filter(|r| set >> r & 1 == 0).map(|r| weights[r]).sum::<u64>();
    let cuts = sets.filter(|set| before(*set) > 0);
    cuts.map(|set| Ratio::new(into(wiring, &capacities, set), before(set))).min().unwrap()
}

fn check_equal(topology: &Topology) {
    let wiring = WireGraph::from_topology(topology);
    let ranks = wiring.ranks;
    let all = vec![1; ranks];
    let root = ranks - 1;
    let one: Vec<u64> = (0..ranks).map(|rank| u64::from(rank == root)).collect();
    let turned = wiring.transposed();
    let inverse =
        |ratio: Ratio, parts: u64| Ratio::new(ratio.denominator(), ratio.numerator() * u128::from(parts));
    let down = inverse(least_cut(&wiring, &all), ranks as u64);
    let up = inverse(least_cut(&turned, &all), ranks as u64);
    let cases = [
        (Collective::Allgather, down),
        (Collective::ReduceScatter, up),
        (Collective::Allreduce, down + up),
        (Collective::Broadcast { root }, inverse(least_cut(&wiring, &one), 1)),
        (Collective::Reduce { root }, inverse(least_cut(&turned, &one), 1)),
    ];
    let balanced = (0..wiring.nodes).all(|node| {
        let sum = |wiring: &WireGraph| -> u64 {
            wiring.wires.iter().filter(|wire| wire.source == node).map(|wire| wire.capacity).sum()
        };
        sum(&wiring) == sum(&turned)
    });
    for (collective, bound) in cases {
        let packing = Packing::equal(topology, collective, Budget::UNLIMITED).unwrap();
        // An allreduce may use a wire for one of its phases where the other phase leaves it idle.
        if collective != Collective::Allreduce {
            assert_eq!(packing.bound(), Some(bound), "{collective} over {wiring:?}");
        }
        let least = packing.bound().unwrap_or(Ratio::ZERO);
        assert!(packing.load() >= least, "{collective} over {wiring:?}");
        // Packings with fewer parts than needed stay within this factor. Switches can be split off where nodes are
        // balanced.
        if balanced || !wiring.has_switches() {
            let (load, bound) = (packing.load().to_f64(), bound.to_f64());
            assert!(load <= 1.2 * bound, "{collective} over {wiring:?}: {load} instead of {bound}");
        }
        check_schedules(&packing, topology);
    }
}

/// Schedules do what they claim, and links carry what the packing says where routes leave no choice.
fn check_schedules(packing: &Packing, topology: &Topology) {
    for parts in [1, 5, 40] {
        let schedule = packing.schedule(parts, Budget::UNLIMITED).unwrap();
        schedule.verify().unwrap_or_else(|error| panic!("{}: {error}", schedule.name));
        if packing.wiring.has_switches() {
            continue;
        }
        let mut carried = vec![0u64; packing.wiring.wires.len()];
        for send in schedule.steps.iter().flat_map(|step| &step.sends) {
            let direct =
                |wire: &wiring::WireBundle| (wire.source, wire.target) == (send.source, send.destination);
            let wire = packing.wiring.wires.iter().position(direct).expect("ranks send to neighbours");
            assert!(packing.wiring.wires[wire].ports.contains(&send.port));
            let link = topology.port_link(send.source, send.port).map(|link| topology.links()[link].target);
            assert_eq!(link, Some(send.destination));
            carried[wire] += send.chunks.len() as u64;
        }
        let load = carried.iter().zip(&packing.wiring.wires);
        let load = load.map(|(carried, wire)| Ratio::new(*carried, wire.capacity * schedule.chunks as u64));
        assert_eq!(load.max(), Some(packing.load()), "{}", schedule.name);
    }
}

#[test]
fn equal_trees_are_as_many_as_cuts_allow() {
    let mut random = Random(5);
    for (ranks, switches) in [(2, 0), (3, 0), (5, 0), (7, 0), (9, 0), (3, 1), (4, 2), (6, 2), (6, 3)] {
        for both_ways in [false, true, true] {
            check_equal(&any_graph(ranks, switches, both_ways, &mut random));
        }
    }
    for spec in ["hosts:2x3", "hosts:3x2", "switch:6", "fattree:2x3", "torus:2x3", "ring:5", "torus:1x2"] {
        check_equal(&Topology::parse(spec).unwrap());
    }
}

/// A packing takes no more of an arc than its capacity.
#[test]
fn packed_trees_keep_to_what_arcs_carry() {
    let mut random = Random(11);
    for round in 0..40 {
        let topology = any_graph(3 + round % 6, round % 3, true, &mut random);
        let wiring = WireGraph::from_topology(&topology);
        let weights: Vec<u64> = (0..wiring.ranks).map(|_| random.below(3) as u64).collect();
        let Some(rate) = rate::rate(&wiring, &weights, Budget::UNLIMITED).unwrap() else { continue };
        assert_eq!(rate, least_cut(&wiring, &weights), "{wiring:?}");
        let each = rate.numerator() as u64;
        let capacities: Vec<u64> =
            wiring.wires.iter().map(|wire| wire.capacity * rate.denominator() as u64).collect();
        let roots: Vec<u64> = weights.iter().map(|weight| weight * each).collect();
        let arcs = without_switches(&wiring, &capacities, &roots, Budget::UNLIMITED).unwrap();
        let arcs: Vec<SwitchedArc> = arcs.expect("nodes are balanced");
        let batches =
            pack(wiring.ranks, &arcs, &roots, Budget::UNLIMITED).unwrap().expect("cuts are large enough");
        let mut taken = vec![0; arcs.len()];
        for batch in &batches {
            batch.arcs.iter().for_each(|arc| taken[*arc] += batch.count);
        }
        assert!(taken.iter().zip(&arcs).all(|(taken, arc)| *taken <= arc.capacity));
        assert_eq!(batches.iter().map(|batch| batch.count).sum::<u64>(), roots.iter().sum::<u64>());
        let mut carried = vec![0; wiring.wires.len()];
        for arc in &arcs {
            assert!(arc.source < wiring.ranks && arc.target < wiring.ranks);
            arc.path.iter().for_each(|wire| carried[*wire] += arc.capacity);
        }
        assert!(carried.iter().zip(&capacities).all(|(carried, capacity)| carried <= capacity));
    }
}

/// The least number of roots, found by trying all assignments.
fn fewest_roots(wiring: &WireGraph, capacities: &[u64], trees: u64) -> Option<u64> {
    let ranks = wiring.ranks;
    let every = (0..(trees + 1).pow(ranks as u32)).map(|number| -> Vec<u64> {
        (0..ranks as u32).map(|rank| number / (trees + 1).pow(rank) % (trees + 1)).collect()
    });
    let enough = |roots: &Vec<u64>| {
        (1..1usize << wiring.nodes).filter(|set| set & ((1 << ranks) - 1) != 0).all(|set| {
            let inside: u64 = (0..ranks).filter(|r| set >> r & 1 == 1).map(|r| roots[r]).sum();
            inside + into(wiring, capacities, set) >= trees
        })
    };
    every.filter(enough).map(|roots| roots.iter().sum()).min().filter(|sum| *sum <= trees)
}

#[test]
fn roots_are_as_few_as_can_be() {
    let mut random = Random(3);
    for round in 0..30 {
        let topology = any_graph(2 + round % 4, round % 2, round % 3 > 0, &mut random);
        let wiring = WireGraph::from_topology(&topology);
        let capacities: Vec<u64> = wiring.wires.iter().map(|wire| wire.capacity).collect();
        for trees in 1..6 {
            let found = least_roots(&[&wiring], &capacities, trees, Budget::UNLIMITED).unwrap();
            let sum = found.as_ref().map(|roots| roots.iter().sum::<u64>());
            assert_eq!(sum, fewest_roots(&wiring, &capacities, trees), "{trees} trees over {wiring:?}");
            if let Some(mut roots) = found {
                roots[0] += trees - roots.iter().sum::<u64>();
                let (mut flow, source) = network(&wiring, &capacities, &roots);
                assert!((0..wiring.ranks).all(|rank| flow.maximum(source, rank, trees) == trees));
            }
        }
    }
}

/// All partitions of the ranks, as the part of each rank.
fn partitions(ranks: usize) -> Vec<Vec<usize>> {
    (1..ranks).fold(vec![vec![0]], |all, _| {
        let longer = |one: Vec<usize>| {
            let parts = one.iter().max().unwrap() + 2;
            (0..parts).map(move |part| [one.clone(), vec![part]].concat())
        };
        all.into_iter().flat_map(longer).collect()
    })
}

#[test]
fn undirected_trees_keep_to_their_links_and_to_the_bound_of_partitions() {
    let mut random = Random(17);
    for round in 0..20 {
        let ranks = 2 + round % 6;
        let topology = any_graph(ranks, 0, true, &mut random);
        let packing = Packing::spanning(&topology, Collective::Allreduce, Budget::UNLIMITED).unwrap();
        let wires = &packing.wiring.wires;
        let crossing = |part: &Vec<usize>| -> u64 {
            wires.iter().filter(|w| part[w.source] < part[w.target]).map(|w| w.capacity).sum::<u64>()
                + wires.iter().filter(|w| part[w.source] > part[w.target]).map(|w| w.capacity).sum::<u64>()
        };
        let parts = |part: &Vec<usize>| *part.iter().max().unwrap() as u64;
        let all = partitions(ranks);
        // Both directions of a cable count, so that twice as much crosses as there are cables.
        let bound = all.iter().filter(|p| parts(p) > 0).map(|p| Ratio::new(crossing(p), 2 * parts(p))).min();
        let bound = bound.unwrap().to_f64();
        let rate = 1.0 / packing.load().to_f64();
        assert!(rate <= bound * (1.0 + 1e-9), "{rate} above {bound}: {wires:?}");
        assert!(rate >= 0.85 * bound, "{rate} below {bound}: {wires:?}");
        check_schedules(&packing, &topology);
        for collective in [Collective::Broadcast { root: ranks - 1 }, Collective::Reduce { root: ranks - 1 }]
        {
            check_schedules(&Packing::spanning(&topology, collective, Budget::UNLIMITED).unwrap(), &topology);
        }
        check_schedules(&Packing::weighted(&topology, Budget::UNLIMITED).unwrap(), &topology);
    }
}

/// A torus without `failed` of its cables, both directions of each.
fn damaged(sizes: &[usize], failed: usize, random: &mut Random) -> Topology {
    let whole = Topology::torus(sizes).unwrap();
    let mut links = whole.links().to_vec();
    for _ in 0..failed {
        let gone = links[random.below(links.len())];
        let ends = [gone.source, gone.target];
        links.retain(|link| !(ends.contains(&link.source) && ends.contains(&link.target)));
    }
    Topology::from_links("damaged", whole.ranks(), whole.nodes(), links).unwrap()
}

/// A torus keeps nearly all of its bandwidth when links fail.
#[test]
fn what_is_left_when_links_fail() {
    let mut random = Random(23);
    for (sizes, failed, kept) in
        [(vec![8, 8], 1, 0.98), (vec![8, 8], 2, 0.98), (vec![8, 8], 3, 0.96), (vec![4, 4, 4], 6, 0.93)]
    {
        let ranks: usize = sizes.iter().product();
        let healthy = 2.0 * (ranks as f64 - 1.0) / (ranks * 2 * sizes.len()) as f64;
        let topology = damaged(&sizes, failed, &mut random);
        let load = |variant: Variant| {
            variant.pack(&topology, Collective::Allreduce, Budget::UNLIMITED).unwrap().load().to_f64()
        };
        let best = load(Variant::Weighted).min(load(Variant::Spanning));
        assert!(healthy / best >= kept, "{sizes:?} without {failed}: {}", healthy / best);
        assert!(load(Variant::Equal) > best);
    }
}

/// Two hosts of 8 accelerators each: a fast switch inside, and a slower one between all of them.
#[test]
fn accelerators_behind_two_switches_each() {
    let mut links = Vec::new();
    for rank in 0..16 {
        for (switch, capacity) in [(16 + rank / 8, 12.0), (18, 1.0)] {
            links.push(Link { capacity, ..Link::between(rank, switch) });
            links.push(Link { capacity, ..Link::between(switch, rank) });
        }
    }
    let topology = Topology::from_links("accelerators", 16, 19, links).unwrap();
    let packing = Packing::equal(&topology, Collective::Allgather, Budget::UNLIMITED).unwrap();
    // The bounds are 8 ranks' parts over the 8 cables of a host, and 15 parts into one rank over 13 units.
    assert_eq!(packing.bound(), Some(Ratio::new(15u64, 13 * 16u64)));
    assert_eq!(packing.load(), Ratio::new(15u64, 13 * 16u64));
    packing.schedule(64, Budget::UNLIMITED).unwrap().verify().unwrap();
}

#[test]
fn what_does_not_fit_is_said() {
    let ring = Topology::ring(4).unwrap();
    let error = |variant: Variant, topology: &Topology, collective| {
        variant.pack(topology, collective, Budget::UNLIMITED).unwrap_err().to_string()
    };
    let text = error(Variant::Weighted, &ring, Collective::Allgather);
    assert_eq!(text, "weighted trees do not perform allgather; choose allreduce");
    let switch = Topology::switch(4).unwrap();
    assert!(error(Variant::Spanning, &switch, Collective::Allreduce).starts_with("undirected trees need"));
    let large = Topology::ring(MOST_RANKS + 1).unwrap();
    assert!(error(Variant::Equal, &large, Collective::Allgather).contains("up to 256 ranks"));
    assert!(error(Variant::Equal, &ring, Collective::Alltoall).contains("choose allreduce"));
    let alone = Topology::parse("ring:1").unwrap();
    for variant in Variant::ALL {
        variant
            .pack(&alone, Collective::Allreduce, Budget::UNLIMITED)
            .unwrap()
            .schedule(64, Budget::UNLIMITED)
            .unwrap()
            .verify()
            .unwrap();
    }
}

/// Two rings of fast cables next to each other, with cables between some of their ranks that are slower by a ratio.
fn uneven(half: usize, between: &[(usize, f64)]) -> Topology {
    let rings = (0..2 * half).map(|rank| (rank, rank / half * half + (rank + 1) % half, 1.0));
    let cables = rings.chain(between.iter().map(|(rank, ratio)| (*rank, half + rank, ratio.recip())));
    let both = cables.flat_map(|(a, b, speed)| [(a, b, speed), (b, a, speed)]);
    let link = |(a, b, capacity)| Link { capacity, ..Link::between(a, b) };
    Topology::from_links("uneven", 2 * half, 2 * half, both.map(link).collect()).unwrap()
}

/// Slow links neither multiply trees and chunks, nor slow down those that need them not.
#[test]
fn a_slow_link_among_fast_ones_costs_no_time() {
    const RATIOS: [f64; 5] = [3.7, 20.0, 400.0, 1e6, 1e12];
    let allreduce = Collective::Allreduce;
    for ratio in RATIOS {
        let whole = [(0, 1.0), (3, 1.0), (5, 1.0)];
        for (topology, least) in [
            // What two of three fast cables carry, and the third one if it is slow.
            (uneven(8, &[&whole[..], &[(7, ratio)]].concat()), 2.0 * 15.0 / (19.0 + ratio.recip())),
            // All goes over the slow cable.
            (uneven(8, &[(0, ratio)]), ratio),
            (uneven(8, &[(0, ratio), (4, ratio)]), ratio / 2.0),
        ] {
            for variant in Variant::ALL {
                let packing = match variant.pack(&topology, allreduce, Budget::UNLIMITED) {
                    // Whole trees from few roots are too coarse for a cable that is much slower than all others.
                    Err(Unpackable::NoTrees) if variant == Variant::Weighted => continue,
                    packing => packing.unwrap(),
                };
                let load = packing.load().to_f64() / packing.unit() * topology.links()[0].bytes_per_second();
                let what = format!("{} trees, ratio {ratio}: load {load}, at least {least}", variant.name());
                assert!(variant == Variant::Equal || load <= 1.3 * least.max(15.0 / 8.0), "{what}");
                assert!(packing.trees() <= 16 * 16, "{what}");
                let schedule = packing.schedule(512, Budget::UNLIMITED).unwrap();
                assert!(
                    schedule.chunks <= 1 << 17 && schedule.steps.len() <= 700,
                    "{what}: {} chunks in {} steps",
                    schedule.chunks,
                    schedule.steps.len()
                );
                packing.schedule(4, Budget::UNLIMITED).unwrap().verify().unwrap();
            }
        }
    }
}
