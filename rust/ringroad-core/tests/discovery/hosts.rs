//! Hosts with several ranks, with NICs that are slower than their links, and with cables that are missing.

use ringroad_core::discovery::{assemble, starved_experiments, Evidence, Flow, Flows, HostFacts, How};
use ringroad_core::topology::{Link, Topology};

use crate::lab::{Lab, Manners, GOOD};
use crate::{in_order, links, network, MEGABIT};

#[test]
fn nics_slower_than_their_links_are_found() {
    for spec in ["torus:3x3", "hypercube:3", "ring:6"] {
        let truth = network(spec);
        let manners = Manners { nic: 125.0 * MEGABIT, ..GOOD };
        let found = Lab::new(&truth, &in_order(truth.ranks()), manners).discover();
        let expected = format!("bottleneck({spec}, 1.25)");
        assert_eq!(found.recognised.as_ref(), Some(&expected), "{:?}", found.notes);
        assert!(found.topology.spec().starts_with(&expected));
        assert_eq!(found.links.len(), found.topology.links().len());
        let rates = found.topology.links().iter().map(|link| link.bytes_per_second() / MEGABIT);
        assert!(rates
            .into_iter()
            .all(|rate| (96.0..104.0).contains(&rate) || (120.0..130.0).contains(&rate)));
    }
}

#[test]
fn missing_cables_are_named() {
    for (spec, routes) in [
        ("without(torus:3x3, 0-1)", true),
        ("without(torus:4x4, 0-1, 5-9)", true),
        ("without(hypercube:4, 3-7)", true),
    ] {
        let truth = Topology::parse(spec).unwrap().with_links(Some(100.0 * MEGABIT), None).unwrap();
        let mut lab = Lab::new(&truth, &in_order(truth.ranks()), GOOD);
        let found = lab.discover();
        assert_eq!(found.recognised.as_deref(), Some(spec), "{:?}", found.notes);
        assert_eq!(
            crate::compare(&lab, &found, 0.03).is_ok(),
            routes,
            "{:?}",
            crate::compare(&lab, &found, 0.03)
        );
    }
}

#[test]
fn hosts_may_have_different_numbers_of_ranks() {
    let truth = network("switch:3");
    let mut lab = Lab::new(&truth, &in_order(3), GOOD);
    let evidence = Evidence { host_of: vec![0, 1, 1, 2, 2, 2], ..lab.evidence() };
    let found = assemble(&evidence).unwrap();
    assert_eq!((found.topology.ranks(), found.topology.nodes()), (6, 10), "{:?}", found.notes);
    let links = links(&found.topology);
    for (rank, host) in evidence.host_of.iter().enumerate() {
        assert!(links.contains_key(&(rank, 6 + host)) && links.contains_key(&(6 + host, rank)), "{links:?}");
    }
    for host in 0..3 {
        let rate = links[&(6 + host, 9)] / MEGABIT;
        assert!((97.0..103.0).contains(&rate), "{rate}");
    }
}

#[test]
fn latencies_are_one_but_for_those_that_differ_much() {
    let truth = network("torus:3x3");
    let mut lab = Lab::new(&truth, &in_order(9), GOOD);
    let mut evidence = lab.evidence();
    let found = assemble(&evidence).unwrap();
    let first = found.topology.links()[0].seconds();
    assert!((20e-6..27e-6).contains(&first), "{first}");
    assert!(found.topology.links().iter().all(|link| link.seconds() == first));
    evidence.latencies.retain(|latency| lab.links.contains_key(&(latency.from, latency.to)));
    for latency in evidence.latencies.iter_mut().filter(|latency| latency.from == 4 && latency.to == 5) {
        latency.seconds = 300e-6;
    }
    let found = assemble(&evidence).unwrap();
    let slow = found.topology.links().iter().filter(|link| link.seconds() > 200e-6);
    assert_eq!(slow.map(|link| (link.source, link.target)).collect::<Vec<_>>(), [(4, 5)]);
}

#[test]
fn a_starved_flow_is_no_slow_link() {
    let truth = network("torus:3x3");
    let mut evidence = Lab::new(&truth, &in_order(9), GOOD).evidence();
    let usual = assemble(&evidence).unwrap().topology.links()[0].bytes_per_second();
    assert_eq!(starved_experiments(&evidence), Vec::<Flows>::new());
    let slow = |evidence: &mut Evidence, is_slow: &dyn Fn(&Flow) -> bool| {
        let mut part = 0.6;
        for round in &mut evidence.rounds {
            part *= 0.8;
            round.flows.iter_mut().filter(|flow| is_slow(flow)).for_each(|flow| {
                (flow.bytes_per_second, flow.starved) = (part * flow.bytes_per_second, true);
            });
        }
    };
    slow(&mut evidence, &|flow| (flow.from, flow.to) == (4, 5));
    let found = assemble(&evidence).unwrap();
    assert_eq!(found.recognised.as_deref(), Some("torus:3x3"));
    let rates = found.topology.links().iter().map(Link::bytes_per_second);
    assert!(rates.clone().all(|rate| (rate / usual - 1.0).abs() < 0.03), "{:?}", rates.collect::<Vec<_>>());
    let unsure = found.links.iter().filter(|link| link.how == How::Assumed).count();
    assert_eq!(unsure, 1);
    assert!(found.notes.iter().any(|note| note.contains("1 of 36 links")), "{:?}", found.notes);
    let again = starved_experiments(&evidence);
    assert!(!again.is_empty() && again.iter().all(|flows| flows.contains(&(4, 5))));
    // A starved flow that is as fast as others was not held back.
    let mut late = Lab::new(&truth, &in_order(9), GOOD).evidence();
    let every_third = late.rounds.iter_mut().flat_map(|round| &mut round.flows).step_by(3);
    every_third.for_each(|flow| flow.starved = true);
    assert!(assemble(&late).unwrap().links.iter().all(|link| link.how == How::Measured));
    late.rounds.iter_mut().flat_map(|round| &mut round.flows).for_each(|flow| flow.starved = true);
    assert!(assemble(&late).unwrap().links.iter().all(|link| link.how == How::Measured));
    // Where all are starved, each to another degree, links carry what came, or more.
    slow(&mut evidence, &|flow| !flow.starved);
    for flow in evidence.rounds.iter_mut().flat_map(|round| &mut round.flows) {
        flow.bytes_per_second *= 1.0 - 0.05 * ((7 * flow.from + 3 * flow.to) % 11) as f64;
    }
    let found = assemble(&evidence).unwrap();
    assert!(found.links.iter().all(|link| link.how == How::Assumed), "{:?}", found.links);
    let rate = found.topology.links()[0].bytes_per_second();
    assert!((0.2..0.6).contains(&(rate / usual)), "{rate} of {usual}");
    // What comes three times is believed, however busy the cores are.
    let again = evidence.rounds.clone();
    evidence.rounds.extend(again.clone());
    assert!(!starved_experiments(&evidence).is_empty());
    evidence.rounds.extend(again);
    assert!(assemble(&evidence).unwrap().links.iter().all(|link| link.how == How::Measured));
    assert_eq!(starved_experiments(&evidence), Vec::<Flows>::new());
}

#[test]
fn ranks_alone_and_nothing_known() {
    let host = |name: &str| HostFacts { name: name.to_owned(), addresses: Vec::new() };
    let evidence = Evidence { hosts: vec![host("a")], host_of: vec![0], ..Evidence::default() };
    assert_eq!(assemble(&evidence).unwrap().topology.spec(), "switch:1");
    let evidence =
        Evidence { hosts: vec![host("a"), host("b")], host_of: vec![0, 0, 1, 1], ..Evidence::default() };
    let found = assemble(&evidence).unwrap();
    assert_eq!(found.topology.spec(), "hosts:2x2");
    assert!(found.links.iter().all(|rate| rate.how == How::Assumed));
    assert!(assemble(&Evidence::default()).is_err());
    let evidence = Evidence { hosts: vec![host("a")], host_of: vec![0, 7], ..Evidence::default() };
    assert!(assemble(&evidence).unwrap_err().to_string().contains("rank 1 is on host 7"));
}
