//! Networks that are not tori, small enough to test everything.

use ringroad_core::Topology;

/// One or more graphs of every family and every operator.
pub const GRAPHS: [&str; 30] = [
    "petersen",
    "heawood",
    "octahedron",
    "k55-minus-matching",
    "complete:5",
    "complete-bipartite:3",
    "circulant:7:1,2",
    "circulant:9:2,3",
    "directed-circulant:8:1,3",
    "hamming:2:3",
    "kautz:2:2",
    "generalized-kautz:3:10",
    "de-bruijn:2:3",
    "uniring:2:5",
    "biring:4:6",
    "cayley:z8*z2^3:5.1,3.0",
    "cayley:d5:1.0,0.1",
    "cayley:s3:213,132",
    "line(complete:4)",
    "line-graph(complete:4)",
    "degree(uniring:1:3, 2)",
    "degree(generalized-kautz:2:4, 2)",
    "power(complete:3, 2)",
    "product(uniring:1:3, complete:2)",
    "transpose(kautz:2:2)",
    "bidirectional(directed-circulant:7:1,3)",
    "without(torus:4x4, 0-1)",
    "mesh:4x3",
    "twisted-torus:4x2",
    "hyperx:2x4",
];

/// All these graphs.
pub fn graphs() -> Vec<Topology> {
    GRAPHS.map(|spec| Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))).to_vec()
}
