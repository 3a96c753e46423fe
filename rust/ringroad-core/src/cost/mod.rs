//! What a schedule costs on a topology, and which schedule is the fastest for a number of bytes.

mod deficiencies;
mod explain;
mod fit;
mod line;
mod model;
mod select;
mod traffic;
mod tuner;

pub use deficiencies::Deficiencies;
pub use explain::{Comparison, Crossing, Term, Terms};
pub use fit::{fit, Fit, FitError, Observation};
pub use model::{CostError, CostModel, ScheduleCost, StepCost, Work, DEFAULT_STEP_LATENCY};
pub use select::{rank, Candidate, Origin, Ranked, SwitchRange, SwitchTable, TableError};
pub use tuner::{read_rules, rules_of, write_rules, Measurement, Rule, RuleError};

#[cfg(test)]
mod tests;
