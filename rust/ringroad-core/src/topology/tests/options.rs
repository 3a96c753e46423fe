//! What specs say after the wiring.

use super::*;

const MBIT: f64 = 1e6 / 8.0;

#[test]
fn rates_are_those_of_links() {
    let ring = topology("ring:9,bandwidth=200Mbit/s, latency = 20us");
    assert_eq!(ring, topology("ring:9").with_links(Some(200.0 * MBIT), Some(20e-6)).unwrap());
    assert_eq!(ring.to_string(), "ring:9");
    assert_eq!(topology("Ring:9,BANDWIDTH=25MB/s,latency=20US"), ring);
    assert_eq!(topology("ring:9,bandwidth=25e6,latency=2e-5"), ring);
    // Rates are stored, although the spec does not have them.
    let json = serde_json::to_string(&ring).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), ring, "{json}");
    let json = r#"{"spec": "ring:9,bandwidth=200Mbit,latency=20us"}"#;
    assert_eq!(serde_json::from_str::<Topology>(json).unwrap(), ring);

    let routed = topology("torus:3x3,bandwidth=1Gbit,routing=single-path");
    assert_eq!(routed.to_string(), "torus:3x3,routing=single-path");
    assert!(routed.links().iter().all(|link| link.bandwidth == 125e6));
    let circulant = topology("circulant:7:1,2,bandwidth=8Mbit,0-1=4Mbit");
    assert_eq!((circulant.to_string(), circulant.ranks()), ("circulant:7:1,2".to_owned(), 7));
    let without = topology("without(ring:4, 0-1),1-2=8bit/s");
    assert_eq!(rates(&without, |a, b| a + b == 3 && a.min(b) == 1), (vec![1.0, 1.0], 4));
}

/// The bandwidths of links between these ends, and how many other links have the default.
fn rates(topology: &Topology, these: impl Fn(NodeId, NodeId) -> bool) -> (Vec<f64>, usize) {
    let (here, others): (Vec<&Link>, Vec<&Link>) =
        topology.links().iter().partition(|link| these(link.source, link.target));
    let plain = others.iter().filter(|link| link.bandwidth == DEFAULT_BANDWIDTH).count();
    (here.iter().map(|link| link.bytes_per_second()).collect(), plain)
}

#[test]
fn single_links_have_rates() {
    let ring = topology("ring:9,bandwidth=200Mbit/s,0-1=50Mbit/s,3>4=10Mbit/s,8 - 0=80Mbit");
    for link in ring.links() {
        let expected = match (link.source, link.target) {
            (0, 1) | (1, 0) => 50.0,
            (3, 4) => 10.0,
            (0, 8) | (8, 0) => 80.0,
            _ => 200.0,
        };
        assert_eq!(link.bandwidth, expected * MBIT, "{link:?}");
    }
    assert_eq!(topology("ring:9,0-1=50Mbit/s,bandwidth=200Mbit/s,8-0=80Mbit,3>4=10Mbit"), ring);
    // All parallel links, and the true bandwidth of links that have several times that of others.
    assert_eq!(rates(&topology("ring:2,1>0=8Mbit"), |source, _| source == 1), (vec![1e6, 1e6], 2));
    let hosts = topology("hosts:1,2,bandwidth=100Mbit/s,memory=10GB/s,1-4=5GB/s");
    let expected = [10e9, 10e9, 5e9, 5e9, 10e9, 10e9, 12.5e6, 12.5e6, 12.5e6, 12.5e6];
    assert_eq!(hosts.links().iter().map(Link::bytes_per_second).collect::<Vec<f64>>(), expected);
    // Memory is as fast as before, or twice as fast as the cables.
    let memory = |spec: &str| topology(spec).links()[0].bytes_per_second();
    assert_eq!(memory("hosts:2x2,bandwidth=100Mbit/s"), memory("hosts:2x2"));
    assert_eq!(memory("hosts:2x2,bandwidth=400Gbit/s"), 100e9);
    // Ends of links are ranks, not positions.
    let placed = topology("ring:4,0-3=8Mbit@0,2,1,3");
    assert_eq!(placed.to_string(), "ring:4@0,2,1,3");
    assert_eq!(rates(&placed, |a, b| a.abs_diff(b) == 3), (vec![1e6, 1e6], 6));
    assert_eq!(rates(&topology("ring:4,0-2=8Mbit@0,2,1,3"), |a, b| a + b == 2), (vec![1e6, 1e6], 6));
}

#[test]
fn errors_say_what_to_write() {
    let check = |spec: &str, message: &str| {
        assert_eq!(Topology::parse(spec).unwrap_err().to_string(), message);
    };
    check("ring:4,bandwith=1", "topology \"ring:4,bandwith=1\" says \"bandwith=1\", which means nothing; write routing=single-path, bandwidth=200Mbit/s, latency=20us or memory=10GB/s (of hosts), or the bandwidth of a cable, 0-1=50Mbit/s, or of a link, 0>1=50Mbit/s");
    check("ring:4,latency=1Gbit", "topology \"ring:4,latency=1Gbit\": latency is wrong: \"1Gbit\" is not a time; write for example 10us, 500ns or 1e-6");
    check("ring:4,0-1=fast", "topology \"ring:4,0-1=fast\": 0-1 is wrong: \"fast\" is not a bandwidth; write for example 100Gbit/s, 12.5GB/s or 12.5e9 (bytes per second)");
    check("ring:4,0-1=1,0-1=2", "topology \"ring:4,0-1=1,0-1=2\" says 0-1 twice; write it once");
    check(
        "ring:4,routing=minimal,routing=minimal",
        "topology \"ring:4,routing=minimal,routing=minimal\" says routing twice; write it once",
    );
    check(
        "ring:4,0-2=1",
        "topology \"ring:4\" cannot be used: no link joins 0 and 2; name two nodes that a cable joins",
    );
    check(
        "uniring:1:4,1>0=1",
        "topology \"uniring:1:4\" cannot be used: no link leads from 1 to 0; name a link's source and target",
    );
    check(
        "ring:4,bandwidth=0",
        "a link cannot carry 0 bytes per second; give a positive number, for example 12.5e9 for 100 Gb/s",
    );
    check(
        "ring:4,200Mbit",
        "malformed topology \"ring:4,200Mbit\"; write for example torus:4x4,routing=single-path",
    );
    check("line(ring:4,0-1=1)", "topology \"ring:4,0-1=1\" cannot be built: routing and rates are those of the whole; write them at the end; write for example ring:8");
    assert!(!names_a_file("ring:4,bandwidth=200Mbit/s") && names_a_file("a/b") && names_a_file("a,b.json"));
}
