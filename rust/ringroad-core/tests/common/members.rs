//! The members of families that tests use.

use ringroad_core::algorithms::{find, Algorithm, Member, Ports};
use ringroad_core::Topology;

/// The members to test on `topology`. Of pipelines, which repeat the same steps for every chunk, one with four chunks.
pub fn brief_members(algorithm: &'static Algorithm, topology: &Topology) -> Vec<Member> {
    if algorithm.ports == Ports::Any && algorithm.parameter.is_some() {
        return vec![find(&format!("{}:4", algorithm.name)).unwrap()];
    }
    algorithm.members(topology)
}
