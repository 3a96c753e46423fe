//! Networks that somebody has named, and that are others.

use ringroad_core::discovery::{assemble, Evidence, FoundNetwork, How, Mismatch, Rate};
use ringroad_core::topology::{Link, Topology};

use crate::lab::{Lab, GOOD};
use crate::{in_order, links, MEGABIT};

fn found(truth: &str) -> FoundNetwork {
    let truth = Topology::parse(truth).unwrap();
    let rate = truth.links()[0].bytes_per_second();
    let truth = if rate > 1e9 { truth.with_links(Some(100.0 * MEGABIT), None).unwrap() } else { truth };
    Lab::new(&truth, &in_order(truth.ranks()), GOOD).discover()
}

/// What differs between this name and this network, in words, and the spec that is right.
fn check(named: &str, truth: &str, words: &str, spec: Option<&str>) -> Mismatch {
    let found = found(truth);
    let mismatch = Mismatch::between(&Topology::parse(named).unwrap(), &found).expect(named);
    assert_eq!(
        (mismatch.to_string().as_str(), mismatch.spec.as_deref()),
        (words, spec),
        "{named} on {truth}"
    );
    if let Some(spec) = &mismatch.spec {
        assert_eq!(Mismatch::between(&Topology::parse(spec).unwrap(), &found), None, "{spec} on {truth}");
    }
    mismatch
}

fn check_right(named: &str, truth: &str) {
    let mismatch = Mismatch::between(&Topology::parse(named).unwrap(), &found(truth));
    assert_eq!(mismatch, None, "{named} on {truth}");
}

#[test]
fn right_names_are_right() {
    check_right("ring:5", "ring:5");
    check_right("ring:5,bandwidth=100Mbit/s", "ring:5");
    check_right("torus:3x3@8,1,2,3,4,5,6,7,0", "torus:3x3@8,1,2,3,4,5,6,7,0");
    check_right("ring:4,bandwidth=100Mbit/s,0-1=20Mbit/s", "ring:4,bandwidth=100Mbit/s,0-1=20Mbit/s");
    check_right("switch:4", "switch:4");
}

/// Only what two looks find counts; a spec only if it belongs to that.
#[test]
fn looks_have_to_agree() {
    let between = |named, truth| Mismatch::between(&Topology::parse(named).unwrap(), &found(truth));
    let look = |truth| between("complete:4", truth).unwrap();
    let ring = look("ring:4");
    assert_eq!(ring.clone().agreed(look("ring:4"), 4), Some(ring.clone()));
    let both = ring.agreed(look("without(complete:4, 0-1, 1-3)"), 4).unwrap();
    assert_eq!(both.to_string(), "no link leads from rank 1 to rank 3; no link leads from rank 3 to rank 1");
    assert_eq!(both.spec, None);
    let part = look("without(complete:4, 1-3)");
    assert_eq!(look("ring:4").agreed(part.clone(), 4), Some(part), "all of it is in the other");
    let other = look("without(complete:4, 0-1)");
    assert_eq!(look("without(complete:4, 1-3)").agreed(other, 4), None);
}

#[test]
fn other_networks_are_told_by_their_links() {
    let missing = "no link leads from rank 0 to rank 2; no link leads from rank 1 to rank 3; \
                   no link leads from rank 2 to rank 0; no link leads from rank 3 to rank 1";
    let mismatch = check("complete:4", "ring:4", missing, Some("ring:4"));
    let rates: Vec<(f64, f64)> = mismatch.links.iter().map(|link| (link.named, link.found)).collect();
    assert!(!mismatch.is_reordered && rates.iter().all(|(named, found)| (*named, *found) == (12.5e9, 0.0)));
    let further = missing.replace("no link", "a link");
    let mismatch = check("ring:4", "complete:4", &further, Some("complete:4"));
    assert!(mismatch.links.iter().all(|link| link.named == 0.0 && link.found > 0.0));
    let many = Mismatch::between(&Topology::parse("ring:6").unwrap(), &found("complete:6")).unwrap();
    assert_eq!(many.words.len(), 18);
    assert!(many.to_string().ends_with("; 12 more differences"), "{many}");
}

#[test]
fn what_is_missing_is_written_into_the_name() {
    let words = "no link leads from rank 0 to rank 1; no link leads from rank 1 to rank 0";
    check("mesh:3x2", "without(mesh:3x2, 0-1)", words, Some("without(mesh:3x2, 0-1)"));
}

#[test]
fn another_order_is_written_into_the_name() {
    let words = "its ranks stand in another order";
    let mismatch = check("ring:4", "ring:4@0,2,1,3", words, Some("ring:4@0,2,1,3"));
    assert!(mismatch.is_reordered && mismatch.links.len() == 8, "{mismatch:?}");
    let routed = "ring:4,routing=single-path";
    assert!(check(routed, "ring:4@0,2,1,3", words, Some("ring:4@0,2,1,3")).is_reordered);
}

#[test]
fn slow_links_are_told_with_their_rates() {
    let truth = "ring:4,bandwidth=100Mbit/s,0>1=20Mbit/s";
    for named in ["ring:4", "ring:4,bandwidth=100Mbit/s", "ring:4,bandwidth=100Mbit/s,2-3=99Mbit/s"] {
        let mismatch = Mismatch::between(&Topology::parse(named).unwrap(), &found(truth)).expect(named);
        let [link] = mismatch.links[..] else { panic!("{mismatch:?}") };
        assert_eq!((link.source, link.target, mismatch.is_reordered), (0, 1, false), "{named}");
        assert!((0.18..0.22).contains(&(link.found / link.named)), "{named}: {mismatch:?}");
        assert!(mismatch.to_string().starts_with("the link from rank 0 to rank 1 carries "), "{mismatch}");
        let right = Topology::parse(mismatch.spec.as_deref().unwrap()).unwrap();
        let rate = |ends| links(&right)[&ends] / MEGABIT;
        assert!((18.0..22.0).contains(&rate((0, 1))) && (95.0..105.0).contains(&rate((1, 0))), "{right:?}");
    }
}

#[test]
fn cables_of_switches_are_compared_too() {
    let topology = Topology::parse("switch:4,bandwidth=100Mbit/s,2-4=20Mbit/s,3>4=50Mbit/s").unwrap();
    let rate =
        |link: &Link| Rate { bytes_per_second: link.bytes_per_second(), spread: 0.0, how: How::Measured };
    let links = topology.links().iter().map(rate).collect();
    let recognised = Some("switch:4".to_owned());
    let found = FoundNetwork { topology, recognised, positions: Some(in_order(4)), links, notes: Vec::new() };
    let mismatch = Mismatch::between(&Topology::parse("switch:4").unwrap(), &found).unwrap();
    assert_eq!(
        mismatch.to_string(),
        "the link from rank 2 to node 4 carries 20 of 100 Mbit/s; the link from node 4 to rank 2 carries 20 of 100 Mbit/s"
    );
    assert_eq!(
        mismatch.spec.as_deref(),
        Some("switch:4,bandwidth=100Mbit/s,2-4=20Mbit/s,3>4=50Mbit/s"),
        "all rates are written that are not the usual one"
    );
}

#[test]
fn rates_that_are_stated_are_compared_only_where_links_can_be_judged() {
    check_right("ring:4,bandwidth=1Gbit/s", "ring:4");
}

#[test]
fn ranks_of_other_hosts_are_noticed() {
    let truth = Topology::parse("switch:2").unwrap().with_links(Some(100.0 * MEGABIT), None).unwrap();
    let mut lab = Lab::new(&truth, &in_order(2), GOOD);
    let evidence = Evidence { host_of: vec![0, 1, 0, 1], ..lab.evidence() };
    let found = assemble(&evidence).unwrap();
    let mismatch = Mismatch::between(&Topology::parse("hosts:2x2").unwrap(), &found).unwrap();
    assert_eq!(mismatch.spec.as_deref(), Some("hosts:2x2@0,2,1,3"), "{mismatch:?} {:?}", found.recognised);
    assert_eq!(mismatch.to_string(), "its ranks stand in another order");
    let right = Topology::parse("hosts:2x2@0,2,1,3").unwrap();
    assert_eq!(Mismatch::between(&right, &found), None);
}
