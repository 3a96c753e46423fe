//! Stores that are reached over TCP. Every process has one: ranks can regroup even if the process that held the job's
//! first store has died. Rank 0 can serve one more, in which the whole job meets.

mod client;
mod job;
mod line;
#[allow(unsafe_code)]
mod local_discovery;
mod reports;
mod rounds;
mod server;
mod wire;

pub use client::{LifeLine, TcpStore, UnreachableProcess};
pub use job::{JobPlace, JobStore};
pub use line::{Heard, ProcessLine, Question};
pub use local_discovery::{local_processes, LocalProcess};
pub use reports::{ask_all, ask_at, report_by, stacks_by, Inquiry, Report, Reporter, Unanswered};
pub use server::{Server, ServerReach};

#[cfg(all(test, not(miri)))]
mod tests;
