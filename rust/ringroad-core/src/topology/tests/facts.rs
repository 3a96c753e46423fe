//! What is said of networks, and how they are drawn.

use std::collections::BTreeSet;

use super::*;

/// The distances of nodes from the middle of all.
fn radii(spec: &str) -> Vec<f64> {
    let nodes = topology(spec).drawing().nodes;
    let middle = [0, 1].map(|axis| nodes.iter().map(|at| at[axis]).sum::<f64>() / nodes.len() as f64);
    nodes.iter().map(|at| (at[0] - middle[0]).hypot(at[1] - middle[1])).collect()
}

#[test]
fn round_networks_are_drawn_as_circles() {
    let round = "ring:2 ring:8 without(ring:8,0-1) ring:4@2,0,1,3 circulant:16:3,4 directed-circulant:8:1,3 complete:5 \
        uniring:4:5 complete-bipartite:4 biring:2:5 cayley:z16:1,3 octahedron k55-minus-matching";
    let other = "torus:4x4 mesh:8 hypercube:4 petersen kautz:4:1 complete-bipartite:3x5 line(complete:3)";
    for spec in round.split_whitespace() {
        let radii = radii(spec);
        assert!(radii.iter().all(|radius| (radius - radii[0]).abs() < 1e-9), "{spec}");
    }
    for spec in other.split_whitespace() {
        assert!(!topology(spec).is_round(), "{spec}");
    }
}

#[test]
fn nodes_and_links_have_places_of_their_own() {
    let specs = "torus:2x3x2 hyperx:4x3 hammingmesh:2x2:2x2 fattree:2x3:2 hosts:1,2,3 switch:16 hypercube:4 petersen hamming:3:3 \
        complete-bipartite:3x5 product(ring:4,petersen) power(complete:3,3) degree(ring:5,3) line(petersen) line(biring:4:5) \
        line(line(complete:3)) transpose(kautz:2:2) without(product(ring:4,complete:3),0-1) complete:1";
    for spec in specs.split_whitespace() {
        let network = topology(spec);
        let Drawing { nodes, wraps } = network.drawing();
        let apart: BTreeSet<_> = nodes.iter().map(|at| at.map(|part| (50.0 * part).round() as i64)).collect();
        assert_eq!((nodes.len(), apart.len()), (network.nodes(), network.nodes()), "{spec}");
        assert!(wraps.iter().all(|(link, _)| *link < network.links().len()));
    }
    let wraps = |spec| topology(spec).drawing().wraps.len();
    assert_eq!(
        (wraps("torus:4x4"), wraps("mesh:4x4"), wraps("hyperx:4x4"), wraps("torus:2x4")),
        (16, 0, 0, 12)
    );
    let cut = topology("without(complete-bipartite:3x5,0-3)").drawing();
    let whole = topology("complete-bipartite:3x5").drawing();
    assert_eq!(whole.nodes, cut.nodes);
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
