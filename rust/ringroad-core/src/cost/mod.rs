//! What a schedule costs on a topology, and which schedule is the fastest for a number of bytes.

mod line;
mod model;
mod select;
mod traffic;

pub use model::{CostError, CostModel, ScheduleCost, StepCost, DEFAULT_STEP_LATENCY};
pub use select::{rank, Candidate, Ranked, SwitchRange, SwitchTable, TableError};

#[cfg(test)]
mod tests;
