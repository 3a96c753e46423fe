//! The nouns that need no communicator: networks, schedules, algorithms, costs and profiles.

pub mod algorithm;
pub mod cost;
pub mod given;
pub mod profile;
pub mod schedule;
pub mod topology;
