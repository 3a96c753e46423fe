//! Families without a grid: sizes, port colours, and the properties that they are known for.

use super::*;
use crate::topology::CayleyGroup;

/// Spec, ranks, the fewest and the most links out of a rank, diameter.
const FAMILIES: &[(&str, usize, (usize, usize), usize)] = &[
    ("circulant:16:3,4", 16, (4, 4), 3),
    ("circulant:6:1,3", 6, (3, 3), 2),
    ("circulant:5:1,1", 5, (4, 4), 2),
    ("circulant:7:5,2", 7, (4, 4), 3),
    ("circulant:2:1", 2, (1, 1), 1),
    ("directed-circulant:8:1,3", 8, (2, 2), 3),
    ("directed-circulant:6:1,1", 6, (2, 2), 5),
    ("complete:1", 1, (0, 0), 0),
    ("complete:5", 5, (4, 4), 1),
    ("complete-bipartite:1", 2, (1, 1), 1),
    ("complete-bipartite:4", 8, (4, 4), 2),
    ("complete-bipartite:3x5", 8, (3, 5), 2),
    ("hamming:2:3", 9, (4, 4), 2),
    ("hamming:3:2", 8, (3, 3), 3),
    ("kautz:4:0", 5, (4, 4), 1),
    ("kautz:4:1", 20, (4, 4), 2),
    ("kautz:2:3", 24, (2, 2), 4),
    ("kautz:1:3", 2, (1, 1), 1),
    ("generalized-kautz:4:20", 20, (4, 4), 2),
    ("generalized-kautz:2:7", 7, (1, 2), 3),
    ("generalized-kautz:4:1024", 1024, (3, 4), 5),
    ("generalized-kautz:3:1", 1, (0, 0), 0),
    ("de-bruijn:2:4", 16, (1, 2), 4),
    ("de-bruijn:3:2", 9, (2, 3), 2),
    ("uniring:4:5", 5, (4, 4), 4),
    ("uniring:1:1", 1, (0, 0), 0),
    ("biring:2:5", 5, (2, 2), 2),
    ("biring:4:2", 2, (4, 4), 1),
    ("cayley:z8:1,3", 8, (2, 2), 3),
    ("cayley:d13:0.1,1.1,3.1,9.1", 26, (4, 4), 3),
    ("cayley:s4:2134,1324,1243", 24, (3, 3), 6),
    ("cayley:z3xz3:1.0,0.1", 9, (2, 2), 4),
    ("cayley:z7*z3^2:1.0,0.1", 21, (2, 2), 5),
    ("cayley:z8*z2^3:5.1,3.0", 16, (2, 2), 4),
    ("cayley:z32*z8^3:0.1,27.1,22.7,7.6", 256, (4, 4), 5),
    ("cayley:z64*z16^11:34.1,14.14,23.12,33.7", 1024, (4, 4), 6),
    ("odd-graph:2", 3, (2, 2), 1),
    ("odd-graph:5", 126, (5, 5), 4),
    ("doubled-odd-graph:3", 20, (3, 3), 5),
];

#[test]
fn every_family_is_looked_at() {
    let here: Vec<&str> = FAMILIES.iter().filter_map(|(spec, ..)| spec.split(':').next()).collect();
    for family in families() {
        let example = topology(family.example);
        // Those with a grid or switches are looked at in `families`.
        let is_plain = example.dimensions().is_empty() && example.nodes() == example.ranks();
        assert!(!is_plain || here.contains(&family.name), "add {family:?} to the list");
    }
}

#[test]
fn families_without_a_grid() {
    for &(spec, ranks, degrees, diameter) in FAMILIES {
        let topology = topology(spec);
        let degree = |rank| topology.degree(rank);
        let fewest = (0..ranks).map(degree).min().unwrap();
        assert_eq!((topology.ranks(), topology.nodes()), (ranks, ranks), "{spec}");
        assert_eq!(
            (fewest, topology.max_degree(), topology.diameter()),
            (degrees.0, degrees.1, diameter),
            "{spec}"
        );
        assert_eq!((topology.spec().as_str(), topology.dimensions()), (spec, &[][..]));
        assert!(topology.links().iter().all(|link| link.source != link.target), "{spec}");
        // Links come in the order of ranks, and ports in the order of links.
        assert!(topology.links().is_sorted_by_key(|link| link.source), "{spec}");
        let first = |rank| topology.links().partition_point(|link| link.source < rank);
        let ports = topology.links().iter().enumerate();
        let ports: Vec<_> = ports.map(|(id, l)| Some((l.source, id - first(l.source)))).collect();
        assert_eq!(topology.link_ports(), ports, "{spec}");
    }
}

/// A left translation of the group maps each port to itself, and takes any rank to any other.
#[test]
fn cayley_graphs_look_the_same_from_everywhere() {
    let check = |spec: &str, cayley: bool| {
        let topology = topology(spec);
        assert_eq!(topology.is_cayley(), cayley, "{spec}");
        if !cayley {
            return;
        }
        let degree = topology.max_degree();
        let to = |rank: Rank, port: Port| {
            let link = degree * rank + port;
            if topology.dimensions().is_empty() {
                assert_eq!(topology.port_link(rank, port), Some(link), "{spec}");
            }
            topology.links()[link].target
        };
        for port in 0..degree {
            let mut targets: Vec<Rank> = (0..topology.ranks()).map(|rank| to(rank, port)).collect();
            // L_s takes 0.t1.t2... to s.t1.t2..., whatever ports t lead there.
            let mut image = vec![None; topology.ranks()];
            image[0] = Some(targets[0]);
            let mut queue = std::collections::VecDeque::from([0]);
            while let Some(rank) = queue.pop_front() {
                for port in 0..degree {
                    let moved = to(image[rank].unwrap(), port);
                    match image[to(rank, port)] {
                        Some(known) => assert_eq!(known, moved, "{spec}: rank {rank} port {port}"),
                        None => {
                            image[to(rank, port)] = Some(moved);
                            queue.push_back(to(rank, port));
                        }
                    }
                }
            }
            targets.sort_unstable();
            assert!(targets.into_iter().eq(0..topology.ranks()), "{spec}: port {port} is a permutation");
        }
    };
    for spec in [
        "circulant:16:3,4",
        "circulant:6:1,3",
        "circulant:5:1,1",
        "directed-circulant:6:1,1",
        "complete:5",
        "complete-bipartite:4",
        "hamming:2:3",
        "uniring:4:5",
        "biring:4:5",
        "biring:4:2",
        "cayley:s4:2134,1324,1243",
        "cayley:z64*z16^11:34.1,14.14,23.12,33.7",
        "cayley:d5xz3:1.0.0,0.1.0,0.0.1",
        "cayley:s3xz4:213.1,132.0",
        "octahedron",
        "k55-minus-matching",
        "heawood",
        "heawood-distance-3",
        "pg23-incidence",
        "ring:5",
        "torus:4x3",
        "hypercube:3",
        "hyperx:3x2",
        "degree(biring:2:5, 2)",
        "power(complete:3, 2)",
        "product(ring:4, heawood)",
        "bidirectional(cayley:z7*z3^2:1.0,0.1)",
        "degree(product(cayley:s3:213,132, uniring:1:2), 3)",
        "complete:1",
    ] {
        check(spec, true);
    }
    for spec in [
        "petersen",
        "kautz:2:2",
        "complete-bipartite:3x5",
        "mesh:3",
        "line(ring:3)",
        "switch:3",
        "de-bruijn:2:3",
    ] {
        check(spec, false);
    }
}

/// Zhao et al., Table 7: spec, ranks and diameter; all graphs have four links per rank.
const TABLE_7: [(&str, usize, usize); 15] = [
    ("octahedron", 6, 2),
    ("hamming:2:3", 9, 2),
    ("k55-minus-matching", 10, 3),
    ("heawood-distance-3", 14, 3),
    ("line-graph(petersen)", 15, 3),
    ("hamming:4:2", 16, 4),
    ("line-graph(heawood)", 21, 3),
    ("pg23-incidence", 26, 3),
    ("ag24-incidence", 32, 4),
    ("odd-graph:4", 35, 3),
    ("line-graph(tutte-8-cage)", 45, 4),
    ("doubled-odd-graph:4", 70, 7),
    ("gq33-incidence", 80, 4),
    ("line-graph(tutte-12-cage)", 189, 6),
    ("gh33-incidence", 728, 6),
];

/// For each distance from a rank, how many links of a rank at this distance lead closer, and how many lead farther
/// away. Asserts that these numbers are the same for all pairs of ranks.
fn intersection_array(topology: &Topology) -> Vec<(usize, usize)> {
    let mut array: Vec<Option<(usize, usize)>> = vec![None; topology.diameter() + 1];
    let distances = super::families::distances(topology);
    for from in &distances {
        for rank in 0..topology.ranks() {
            let own = topology.links_out_of(rank).into_iter().map(|id| from[topology.links()[id].target]);
            let counts = (
                own.clone().filter(|hops| hops + 1 == from[rank]).count(),
                own.filter(|hops| *hops == from[rank] + 1).count(),
            );
            assert_eq!(*array[from[rank]].get_or_insert(counts), counts, "{topology} at {}", from[rank]);
        }
    }
    array.into_iter().map(Option::unwrap).collect()
}

#[test]
fn distance_regular_graphs() {
    for (spec, ranks, diameter) in TABLE_7 {
        let topology = topology(spec);
        let found = (topology.ranks(), topology.links().len(), topology.max_degree(), topology.diameter());
        assert_eq!(found, (ranks, 4 * ranks, 4, diameter), "{spec}");
        let array = intersection_array(&topology);
        assert_eq!((array[0], array[1].0, array.len()), ((0, 4), 1, diameter + 1), "{spec}: {array:?}");
        assert_eq!(topology.transpose().unwrap().diameter(), diameter, "{spec}");
    }
    let check = |spec: &str, ranks: usize, away: &[usize]| {
        let topology = topology(spec);
        let array = intersection_array(&topology);
        let leading_on: Vec<usize> = array[..array.len() - 1].iter().map(|counts| counts.1).collect();
        assert_eq!((topology.ranks(), leading_on.as_slice()), (ranks, away), "{spec}");
    };
    // The values of the literature: girths 5, 6, 8 and 12 of cubic graphs.
    check("petersen", 10, &[3, 2]);
    check("heawood", 14, &[3, 2, 2]);
    check("tutte-8-cage", 30, &[3, 2, 2, 2]);
    check("w2-incidence", 30, &[3, 2, 2, 2]);
    check("tutte-12-cage", 126, &[3, 2, 2, 2, 2, 2]);
    check("gh33-incidence", 728, &[4, 3, 3, 3, 3, 3]);
}

#[test]
fn groups_multiply() {
    for text in ["z8", "z64*z16^11", "d13", "s4", "z3xz3", "s3xz2xd4", "z7*z3^2xz2", "z1", "s1", "z5*z1^1"] {
        let group = CayleyGroup::parse(text).unwrap();
        assert_eq!(group.to_string(), text);
        let some: Vec<usize> = (0..12).map(|i| (i * 7 + i * i) % group.order()).collect();
        for &a in &some {
            assert_eq!((group.multiply(0, a), group.multiply(a, 0)), (a, a), "{text}");
            assert_eq!(group.element(&group.write(a)), Some(a), "{text}");
            for (&b, &c) in some.iter().zip(some.iter().rev()) {
                let (left, right) =
                    (group.multiply(group.multiply(a, b), c), group.multiply(a, group.multiply(b, c)));
                assert_eq!(left, right, "{text}: {a} {b} {c}");
            }
        }
    }
    let symmetric = CayleyGroup::parse("s4").unwrap();
    assert_eq!([0, 1, 2, 23].map(|place| symmetric.write(place)), ["1234", "1243", "1324", "4321"]);
    let pair = CayleyGroup::parse("z64*z16^11").unwrap();
    let (a, b) = (pair.element("34.1").unwrap(), pair.element("14.14").unwrap());
    assert_eq!((a, pair.write(pair.multiply(a, b))), (34 * 16 + 1, format!("{}.15", (34 + 11 * 14) % 64)));
    // Reflections are their own inverses, and rotations commute.
    let dihedral = CayleyGroup::parse("d5").unwrap();
    let reflection = dihedral.element("3.1").unwrap();
    assert_eq!(dihedral.multiply(reflection, reflection), 0);
}

#[test]
fn what_no_group_or_family_is() {
    let check = |spec: &str, message: &str| {
        assert_eq!(Topology::parse(spec).unwrap_err().to_string(), message, "{spec}");
    };
    let cannot = |spec: &str, what: &str| format!("topology \"{spec}\" cannot be used: {what}");
    check(
        "cayley:z64*z5^11:1.0",
        &cannot(
            "cayley:z64*z5^11",
            "11^5 is not 1 modulo 64, so z64*z5^11 is not a group; write a number whose power 5 is 1 modulo 64",
        ),
    );
    let form = |part: &str| format!("{part:?} is not a group; write z8, z64*z16^11, d13, s4 or z3xz3");
    for (group, part) in
        [("q8", "q8"), ("z3xx", ""), ("z0", "z0"), ("z8*d2^1", "z8*d2^1"), ("z8*z2", "z8*z2"), ("d", "d")]
    {
        check(&format!("cayley:{group}:1"), &cannot(&format!("cayley:{group}"), &form(part)));
    }
    let large = "it has more than 1048576 elements";
    for group in ["z1048577", "z2048xz1024", "z99999999999*z99999999999^1", "d524289", "s9xs9"] {
        check(&format!("cayley:{group}:1"), &cannot(&format!("cayley:{group}"), large));
    }
    check("cayley:s10:1", &cannot("cayley:s10", "permutations have at most 9 things"));
    let element = |text: &str, last: &str| {
        format!("{text:?} is not an element of the group; write elements such as {last}")
    };
    check("cayley:z8:1,9", &cannot("cayley:z8", &element("9", "7")));
    check("cayley:z8*z2^3:1", &cannot("cayley:z8*z2^3", &element("1", "7.1")));
    check("cayley:s3:214", &cannot("cayley:s3", &element("214", "321")));
    check("cayley:d3:1.0.0", &cannot("cayley:d3", &element("1.0.0", "2.1")));
    check("cayley:z8:1,0", &cannot("cayley:z8:1,0", "the identity joins every rank to itself; leave it out"));
    let reach = |from: Rank, to: Rank| {
        format!("no path leads from rank {from} to rank {to}, and every rank must reach all")
    };
    check("cayley:z8:2", &cannot("cayley:z8:2", &reach(0, 1)));
    check("circulant:8:2,4", &cannot("circulant:8:2,4", &reach(0, 1)));
    check("generalized-kautz:1:4", &cannot("generalized-kautz:1:4", &reach(0, 1)));
    check("cayley:z8", "malformed topology \"cayley:z8\"; write for example cayley:z8*z2^3:5.1,3.0");
    for spec in ["circulant:8", "circulant:8:", "circulant:8:a", "circulant:8:1,2:3", "circulant:8:1,,2"] {
        let error = Topology::parse(spec).unwrap_err().to_string();
        assert!(error.starts_with("malformed topology") && error.contains("write for example"), "{error}");
    }
    for spec in ["circulant:8:0", "circulant:8:8", "directed-circulant:8:1,9", "circulant:1:1"] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::Sizes { .. })), "{spec}");
    }
    for spec in [
        "kautz:0:1",
        "de-bruijn:1:3",
        "uniring:0:4",
        "biring:3:5",
        "hamming:0:3",
        "odd-graph:9",
        "odd-graph:1",
    ] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::Sizes { .. })), "{spec}");
    }
    for spec in [
        "kautz:2:99999999999",
        "kautz:99999999999:1",
        "de-bruijn:2:21",
        "hamming:99999999999:2",
        "hamming:21:2",
        "circulant:1048577:1",
        "complete-bipartite:99999999999999999999x1",
        "generalized-kautz:2:9999999999999999999",
    ] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::TooLarge(_))), "{spec}");
    }
    for spec in [
        "complete:1048576",
        "complete-bipartite:4096",
        "uniring:99999999999999:1024",
        "generalized-kautz:99999999:9999",
    ] {
        assert!(matches!(Topology::parse(spec), Err(TopologyError::TooManyLinks(_))), "{spec}");
    }
    check("petersen:5", "malformed topology \"petersen:5\"; write for example petersen");
    assert!(Topology::parse("peterson").unwrap_err().to_string().contains("; did you mean petersen? "));
    assert!(Topology::parse("circulants:8:1")
        .unwrap_err()
        .to_string()
        .contains("; did you mean circulant? "));
}
