//! The rows of the catalogue. If an offer's cost is not obvious from its row, the head comment of its file derives it.

mod costs;
pub(super) mod flat;
mod hosts;
mod offers;
mod requirements;
mod sources;

use super::Algorithm;

/// All rows, in the order of preference among algorithms that cost the same.
pub(super) fn rows() -> impl Iterator<Item = &'static Algorithm> + Clone {
    flat::FLAT.iter().chain(hosts::ON_HOSTS)
}
