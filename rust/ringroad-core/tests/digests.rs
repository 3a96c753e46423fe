//! Digests of schedules are equal where the schedules are equal, and only there.

use std::collections::BTreeMap;

use ringroad_core::algorithms::{available, find};
use ringroad_core::{Collective, Schedule, Topology};

#[test]
fn different_schedules_have_different_digests() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for spec in ["hypercube:3", "torus:2x4", "complete-bipartite:4"] {
        let topology = Topology::parse(spec).unwrap();
        for collective in Collective::ALL {
            for member in available(&topology, collective) {
                let schedule = member.build(&topology, collective).unwrap();
                let (text, digest) = (schedule.to_json(), schedule.digest());
                assert_eq!(Schedule::from_json(&text).unwrap().digest(), digest, "{member} on {spec}");
                let known = seen.entry(digest).or_insert_with(|| text.clone());
                assert_eq!(*known, text, "{member}: {collective} on {spec}");
            }
        }
    }
    let texts: std::collections::BTreeSet<&String> = seen.values().collect();
    assert_eq!(texts.len(), seen.len());
}

/// Ranks of different versions compare digests, so they must not change.
#[test]
fn a_digest_stays_what_it_is() {
    let topology = Topology::parse("complete-bipartite:4").unwrap();
    let schedule = |name: &str| find(name).unwrap().build(&topology, Collective::Allgather).unwrap();
    let digests = ["ring", "bfb"].map(|name| schedule(name).digest());
    assert_eq!(digests, ["b4bef2c33dc7968117abc4269385af58", "e615e1341493769a914cc60fc8234c91"]);
    let renamed = Schedule { name: "other".to_owned(), ..schedule("ring") };
    assert_ne!(renamed.digest(), digests[0]);
}
