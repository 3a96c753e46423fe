//! Which algorithm performs which call, as rank 0 decides it for all ranks, and the plans that follow.

pub(crate) mod agreement;
pub mod choices;
mod evaluation;
pub(crate) mod options;
mod plan_cache;
pub(crate) mod planner;
pub mod profile;
pub(crate) mod report;
pub(crate) mod schedule_cache;
pub mod user_schedules;
