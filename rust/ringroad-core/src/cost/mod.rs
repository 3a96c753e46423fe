//! What a schedule costs on a topology, and which schedule is the fastest for a number of bytes.

mod deficiencies;
mod line;
mod model;
mod select;
mod traffic;

pub use deficiencies::Deficiencies;
pub use model::{CostError, CostModel, ScheduleCost, StepCost, DEFAULT_STEP_LATENCY};
pub use select::{rank, Candidate, Ranked, SwitchRange, SwitchTable, TableError};

#[cfg(test)]
mod tests;
