//! The cost model: what a schedule costs on a topology, and which schedule is the fastest for a number of bytes.

mod assess;
mod bound;
mod candidate;
mod deficiencies;
mod explain;
mod fit;
mod incast;
mod line;
mod model;
mod report;
mod select;
mod step;
mod traffic;
mod tuner;

pub use assess::link_loads;
pub use bound::Bounds;
pub use candidate::{Candidate, FreeRunning, Trial};
pub use deficiencies::Deficiencies;
pub use explain::{Comparison, Term, TimeTerms};
pub use fit::{fit, Fit, FitError, TimedSchedule};
pub(crate) use incast::Inlets;
pub use incast::DEFAULT_INCAST_LATENCY;
pub use model::{CostModel, DEFAULT_STEP_LATENCY};
pub use report::{CandidateCost, Cost};
pub(crate) use select::keep_ascending;
pub use select::{rank, Origin, Ranked, SwitchRange, SwitchTable, TableError};
pub use step::{CostError, ScheduleCost, StepCost, StepTotals};
pub use tuner::{read_rules, rules_of, rules_of_table, write_rules, Measurement, Rule, RuleError};

#[cfg(test)]
mod tests;
