//! The algorithms that use another one between hosts.

use super::super::{hierarchical, unequal_hosts, Algorithm, Naming, Parameter, Ports, Shape};
use super::costs::always;
use super::offers::*;
use super::requirements::{HOSTS, SMALL_HOSTS};
use super::sources::HIERARCHICAL;

const NETWORK: Parameter = Parameter {
    name: "network",
    meaning: "the algorithm between the hosts",
    values: |shape| worked_through(hierarchical::NETWORKS, shape),
    admits: |shape, value| worked_through(hierarchical::NETWORKS, shape).contains(&value),
    naming: Naming::Names(hierarchical::NETWORKS),
};
const WHOLE_NETWORK: Parameter = Parameter {
    values: |shape| worked_through(hierarchical::WHOLE, shape),
    admits: |shape, value| worked_through(hierarchical::WHOLE, shape).contains(&value),
    naming: Naming::Names(hierarchical::WHOLE),
    ..NETWORK
};

/// The numbers of the names whose algorithms work between the hosts of a shape.
fn worked_through(names: &[&str], shape: &Shape) -> Vec<usize> {
    (0..names.len()).filter(|value| hierarchical::works(names[*value], shape)).collect()
}

/// An offer of the hierarchical family, for every network algorithm that performs the collective.
macro_rules! across {
    ($collective:ident) => {
        only(
            |value| hierarchical::network(hierarchical::NETWORKS[value]).offer($collective).is_some(),
            offer($collective, HOSTS, unequal_hosts::schedule, unequal_hosts::cost),
        )
    };
}

pub(super) static ON_HOSTS: &[Algorithm] = &[
    Algorithm {
        name: "hierarchical",
        summary: "direct exchanges within hosts; between hosts, another algorithm on one slice of the vector per rank of a host",
        source: HIERARCHICAL,
        ports: Ports::Two,
        parameter: Some(NETWORK),
        bit_identical: always,
        offers: &[
            across!(ALLREDUCE),
            across!(REDUCE_SCATTER),
            across!(ALLGATHER),
            across!(BROADCAST),
            across!(REDUCE),
        ],
    },
    Algorithm {
        name: "hierarchical-latency",
        summary: "ranks of a host exchange whole vectors and add them up in the same order; then another algorithm between hosts",
        source: HIERARCHICAL,
        ports: Ports::Two,
        parameter: Some(WHOLE_NETWORK),
        bit_identical: always,
        offers: &[offer(ALLREDUCE, SMALL_HOSTS, unequal_hosts::latency, unequal_hosts::latency_cost)],
    },
];
