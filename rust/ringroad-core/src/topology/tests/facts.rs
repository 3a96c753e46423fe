//! What is said of networks, and how they are drawn.

use super::*;

#[test]
fn round_networks_are_drawn_as_circles() {
    let round = "ring:2 ring:8 without(ring:8,0-1) ring:4@2,0,1,3 circulant:16:3,4 directed-circulant:8:1,3 complete:5 uniring:4:5 \
        complete-bipartite:4 biring:2:5 cayley:z16:1,3 octahedron k55-minus-matching switch:16 fattree:4x8:2 hosts:1,2,3";
    let other = "torus:4x4 mesh:8 hypercube:4 petersen kautz:4:1 complete-bipartite:3x5 line(complete:3)";
    let check = |specs: &str, expected| {
        for spec in specs.split_whitespace() {
            assert_eq!(topology(spec).facts(false).is_round, expected, "{spec}");
        }
    };
    check(round, true);
    check(other, false);
}

#[test]
fn graphs_are_seen_from_rank_0() {
    let facts = topology("uniring:2:4").facts(true);
    assert_eq!((facts.links, facts.degree, facts.diameter), (8, 2, Some(3)));
    let graph = facts.graph.unwrap();
    assert_eq!((graph.neighbours, graph.at_distance), (vec![1, 1], vec![1, 1, 1, 1]));
    assert_eq!((graph.moore_bound, graph.is_cayley), (Some(2), true));
    assert_eq!(topology("petersen").facts(false).graph.unwrap().at_distance, [1, 3, 6]);
    for spec in ["torus:2x2", "switch:4", "complete:1"] {
        assert_eq!(topology(spec).facts(false).graph, None, "{spec}");
    }
}
