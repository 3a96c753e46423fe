//! Hosts that do not answer, lie, or contradict each other.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use ringroad_core::discovery::{
    assemble, experiments, next_experiments, Effort, Evidence, Flow, HostFacts, How, Latency, Round,
    TracedRoute, Wiring,
};

use crate::lab::{Lab, Manners, GOOD};
use crate::{in_order, network};

#[test]
fn lost_answers_are_filled_in() {
    for spec in ["ring:9", "torus:3x3", "hypercube:3", "petersen", "fattree:2x4", "switch:6"] {
        let truth = network(spec);
        let manners = Manners { loss: 0.1, ..GOOD };
        let found = Lab::new(&truth, &in_order(truth.ranks()), manners).discover();
        assert_eq!(found.recognised.as_deref(), Some(spec), "{:?}", found.notes);
    }
}

#[test]
fn a_silent_host_is_found_by_its_own_traces() {
    for spec in ["ring:5", "torus:3x3", "petersen", "hypercube:3", "switch:4"] {
        let truth = network(spec);
        let manners = Manners { silent: vec![2], ..GOOD };
        let found = Lab::new(&truth, &in_order(truth.ranks()), manners).discover();
        assert_eq!(found.recognised.as_deref(), Some(spec), "{:?}", found.notes);
        assert!(found.notes.iter().any(|note| note.contains("not reached")), "{:?}", found.notes);
    }
}

#[test]
fn behind_firewalls_rates_alone_tell() {
    for spec in ["switch:5", "ring:5"] {
        let manners = Manners { opaque: spec == "switch:5", ..GOOD };
        let mut evidence = Lab::new(&network(spec), &in_order(5), manners).evidence();
        evidence.traces.iter_mut().for_each(|trace| (trace.hops, trace.reached) = (Vec::new(), false));
        let found = assemble(&evidence).unwrap();
        let notes = found.notes.join("; ");
        assert!(notes.contains("rates alone") && notes.contains("5 hosts were not reached"), "{notes}");
        assert!(found.links.iter().any(|link| link.how == How::Measured));
        assert!(spec == "ring:5" || found.recognised.as_deref() == Some(spec), "{found:?}");
        evidence.rounds.clear();
        let notes = assemble(&evidence).unwrap().notes.join("; ");
        assert!(notes.contains("no rates were measured"), "{notes}");
    }
}

#[test]
fn silent_switches_are_where_something_must_be() {
    for (spec, silent) in [("switch:6", vec![6]), ("fattree:2x3", vec![6, 7, 8])] {
        let truth = network(spec);
        let found = Lab::new(&truth, &in_order(truth.ranks()), Manners { silent, ..GOOD }).discover();
        assert!(found.notes.iter().any(|note| note.contains("do not answer")), "{spec} {:?}", found.notes);
        assert_eq!(found.recognised.as_deref(), Some(spec), "{:?}", found.notes);
    }
}

#[test]
fn liars_make_a_worse_network() {
    for spec in ["ring:6", "torus:3x3", "switch:5"] {
        let truth = network(spec);
        let manners = Manners { liars: vec![(1, 4), (3, 0)], ..GOOD };
        let found = Lab::new(&truth, &in_order(truth.ranks()), manners).discover();
        assert_eq!(found.topology.ranks(), truth.ranks());
        assert!(!found.notes.is_empty() || spec == "switch:5", "{spec}: {:?}", found.topology.spec());
    }
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        1e3f64..1e9,
        Just(1e300),
        Just(1e-300)
    ]
}

/// Whatever hosts may report, true or not.
fn anything() -> impl Strategy<Value = Evidence> {
    (1usize..8).prop_flat_map(|hosts| {
        let address = || (0u8..12).prop_map(|last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
        let facts = prop::collection::vec(address(), 0..3)
            .prop_map(|addresses| HostFacts { name: "host".to_owned(), addresses });
        let end = || 0..hosts + 1;
        let hop = prop::option::weighted(0.8, address());
        let trace = (end(), end(), prop::collection::vec(hop, 0..6), any::<bool>())
            .prop_map(|(from, to, hops, reached)| TracedRoute { from, to, hops, reached });
        let flow = (end(), end(), numbers(), numbers(), any::<bool>()).prop_map(
            |(from, to, bytes_per_second, spread, starved)| Flow {
                from,
                to,
                bytes_per_second,
                spread,
                starved,
            },
        );
        let round = prop::collection::vec(flow, 0..10).prop_map(|flows| Round { flows });
        let latency = (end(), end(), numbers()).prop_map(|(from, to, seconds)| Latency { from, to, seconds });
        let lists = (
            prop::collection::vec(facts, hosts),
            prop::collection::vec(0..hosts, 1..12),
            prop::collection::vec(trace, 0..40),
            prop::collection::vec(round, 0..6),
            prop::collection::vec(latency, 0..10),
        );
        lists.prop_map(|(hosts, host_of, traces, rounds, latencies)| Evidence {
            hosts,
            host_of,
            traces,
            rounds,
            latencies,
        })
    })
}

proptest! {
    /// Whatever is reported makes a network of all ranks or an error, and rounds between its hosts.
    #[test]
    fn anything_makes_a_network(evidence in anything()) {
        let wiring = Wiring::from_traces(&evidence.hosts, &evidence.traces);
        let effort = Effort::default();
        let hosts = evidence.hosts.len();
        let rounds = experiments(&wiring, effort).into_iter().chain(next_experiments(&evidence, effort));
        for (from, to) in rounds.flatten() {
            prop_assert!(from < hosts && to < hosts && from != to);
        }
        let found = assemble(&evidence).unwrap();
        prop_assert_eq!(found.topology.ranks(), evidence.host_of.len());
        prop_assert_eq!(found.links.len(), found.topology.links().len());
    }
}
