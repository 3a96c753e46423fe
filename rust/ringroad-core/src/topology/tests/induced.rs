//! Parts of networks.

use super::*;

#[test]
fn parts_of_networks() {
    let check = |spec: &str, ranks: &[Rank], part: &str, nodes: usize, links: usize| {
        let part_of = topology(spec).induced(ranks).unwrap();
        assert_eq!((part_of.spec().as_str(), part_of.ranks()), (part, ranks.len()), "{spec} {ranks:?}");
        assert_eq!((part_of.nodes(), part_of.links().len()), (nodes, links), "{spec} {ranks:?}");
    };
    check("torus:4x4", &[4, 5, 6, 7], "ring:4", 4, 8);
    check("torus:4x4", &[2, 6, 10, 14], "ring:4", 4, 8);
    check("torus:4x4x2", &(0..16).map(|rank| 2 * rank).collect::<Vec<_>>(), "torus:4x4", 16, 64);
    check("torus:4x4", &[5, 6, 9, 10], "mesh:2x2", 4, 8);
    check("mesh:4", &[2, 3], "mesh:2", 2, 2);
    check("mesh:4", &[1, 3], "switch:2", 3, 4);
    check("mesh:5", &[0, 3], "graph:mesh-5-2-of-5", 4, 6);
    check("ring:6", &[0, 1, 3], "graph:ring-6-3-of-6", 6, 12);
    check("ring:6", &[1, 0], "mesh:2", 2, 2);
    check("ring:4", &[3], "switch:1", 2, 2);
    check("ring:4", &[0, 1, 2, 3], "ring:4", 4, 8);
    check("ring:4", &[0, 1, 3, 2], "ring:4@0,1,3,2", 4, 8);
    check("ring:4@0,1,3,2", &[0, 1, 3, 2], "ring:4", 4, 8);
    check("torus:4x4", &[6, 4, 5, 7], "ring:4@2,0,1,3", 4, 8);
    check("hosts:3x4", &[8, 4, 9, 5], "hosts:2x2@2,0,3,1", 7, 12);
    check("torus:4x4@15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0", &[8, 9, 10, 11], "ring:4", 4, 8);
    check("switch:8", &[7, 1, 3], "switch:3", 4, 6);
    check("hosts:3x4", &[4, 5, 8, 9], "hosts:2x2", 7, 12);
    check("hosts:3x4", &[0, 4, 5], "hosts:1,2", 6, 10);
    check("hosts:1,2,3", &[1, 2, 3, 5], "hosts:2x2", 7, 12);
    check("hosts:3x4", &[1, 5, 9], "hosts:3x1", 7, 12);
    check("hosts:3x4", &[5, 6, 7], "switch:3", 4, 6);
    check("without(ring:6, 0-1)", &[0, 1], "graph:without-ring-6-0-1-2-of-6", 6, 10);
    check("torus:4x4,routing=dimension-ordered", &[0, 1, 2, 3], "ring:4", 4, 8);
    check("torus:4x4,routing=single-path", &[0, 1, 2, 3], "ring:4,routing=single-path", 4, 8);
}

/// The links keep their properties, and the ways between the ranks their length.
#[test]
fn parts_of_networks_are_as_far_apart_as_before() {
    for (seed, spec) in [
        "torus:4x4",
        "mesh:3x3",
        "hosts:3x4",
        "fattree:4",
        "hyperx:3x3",
        "kautz:2:2",
        "twisted-torus:4x2",
        "petersen",
        "generalized-kautz:3:11",
        "without(torus:4x4, 0-1, 5>6)",
        "bottleneck(torus:4x4, 2)",
        "hammingmesh:2x2:2x2",
    ]
    .into_iter()
    .enumerate()
    {
        let mut latency = 0.0;
        let whole = topology(spec)
            .map_links(|_, link| {
                latency += 1e-7;
                link.latency = latency;
            })
            .unwrap();
        let ranks: Vec<Rank> = (0..whole.ranks()).filter(|rank| rank * 7 % 5 != seed % 5).rev().collect();
        let part = whole.induced(&ranks).unwrap();
        let (mut before, mut after) = (Routes::new(&whole), Routes::new(&part));
        for (from, to) in (0..ranks.len()).flat_map(|from| (0..ranks.len()).map(move |to| (from, to))) {
            let route = |routes: &mut Routes, from, to| routes.route(from, to).unwrap();
            let (before, after) = (route(&mut before, ranks[from], ranks[to]), route(&mut after, from, to));
            assert_eq!(before.hops, after.hops, "{spec}: {from} to {to}");
            assert!((before.latency - after.latency).abs() < 1e-12, "{spec}: {from} to {to}");
        }
    }
}

#[test]
fn parts_that_cannot_be() {
    let check = |spec: &str, ranks: &[Rank], words: &str| {
        let error = topology(spec).induced(ranks).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check("ring:4", &[], "no ranks");
    check("ring:4", &[1, 4], "rank 4 is not one of its ranks, 0 to 3");
    check("ring:4", &[1, 2, 1], "rank 1 twice");
    check("ring:1000000", &(1..1000).collect::<Vec<_>>(), "too large");
}
