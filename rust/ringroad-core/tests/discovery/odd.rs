//! Hosts that do not answer, lie, or contradict each other.

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
