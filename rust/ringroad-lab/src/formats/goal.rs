//! GOAL, the input of LogGOPSim: for each rank, what it sends, receives and computes, and what waits for what.
//!
//! ```text
//! num_ranks 2
//!
//! rank 0 {
//! l0: send 1024b to 1 tag 0
//! l1: recv 1024b from 1 tag 0
//! l2: calc 100
//! l2 requires l1
//! }
//! ```
//!
//! It is written from the plans of all ranks that [`Simulator`] runs for a call of that many bytes, so that both
//! simulators have the same messages, cut and packed as in a real call. A tag is the number of the message among those
//! of its pair of ranks. Reductions and copies are computations, in nanoseconds; as in [`Simulator`], copies take none.
//!
//! Sources: `txt2bin.re` of spcl/LogGOPSim; Hoefler, Schneider, Lumsdaine, LogGOPSim, HPDC 2010.

use std::fmt::Write;

use ringroad_core::plan::{Command, Plan};
use ringroad_core::schedule::Schedule;
use ringroad_core::simulate::{SimulationError, Simulator};
use ringroad_core::units::{Bytes, Rank, Seconds};

/// What an operation is, to a simulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum GoalStep {
    Send {
        peer: Rank,
        tag: u32,
        bytes: usize,
    },
    Receive {
        peer: Rank,
        tag: u32,
        bytes: usize,
    },
    /// Adds up this many bytes. A copy adds up none.
    Reduce {
        bytes: usize,
        seconds: Seconds,
    },
}

/// The operations of a rank, each with those that it waits for.
pub(super) fn operations(plan: &Plan, reduce_cost: Seconds) -> Vec<(GoalStep, Vec<usize>)> {
    let reduce = |bytes| GoalStep::Reduce { bytes, seconds: bytes as f64 * reduce_cost };
    let work = |command: Command| match command {
        Command::Send { peer, message, source, .. } => {
            GoalStep::Send { peer, tag: message, bytes: source.bytes }
        }
        Command::Receive { peer, message, target, .. } => {
            GoalStep::Receive { peer, tag: message, bytes: target.bytes }
        }
        Command::Expect { peer, message, bytes, .. } => GoalStep::Receive { peer, tag: message, bytes },
        // As many additions as operands but one.
        Command::Reduce { target, sources, .. } => {
            reduce(plan.sources(sources).len().saturating_sub(1) * target.bytes)
        }
        Command::Copy { .. }
        | Command::Release { .. }
        | Command::Premultiply { .. }
        | Command::Encode { .. }
        | Command::Decode { .. }
        | Command::Average { .. } => reduce(0),
    };
    let all = plan.operations().iter();
    let mut operations: Vec<(GoalStep, Vec<usize>)> = all.map(|o| (work(o.command), Vec::new())).collect();
    for before in 0..operations.len() {
        let after = plan.dependents(before as u32).iter();
        after.for_each(|after| operations[*after as usize].1.push(before));
    }
    operations
}

/// Writes a call of a schedule, for a vector of `bytes`, with the plans and the cost of reductions of `simulator`.
pub fn write(schedule: &Schedule, bytes: Bytes, simulator: &Simulator) -> Result<String, SimulationError> {
    schedule.verify().map_err(SimulationError::from)?;
    let mut text = format!("num_ranks {}\n", schedule.ranks);
    let mut push = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a string can always be written to");
    };
    for (rank, plan) in simulator.plans(schedule, bytes)?.iter().enumerate() {
        push(format_args!("\nrank {rank} {{\n"));
        for (number, (work, waits)) in operations(plan, simulator.model.reduce_cost).into_iter().enumerate() {
            match work {
                GoalStep::Send { peer, tag, bytes } => {
                    push(format_args!("l{number}: send {bytes}b to {peer} tag {tag}\n"));
                }
                GoalStep::Receive { peer, tag, bytes } => {
                    push(format_args!("l{number}: recv {bytes}b from {peer} tag {tag}\n"));
                }
                GoalStep::Reduce { seconds, .. } => {
                    push(format_args!("l{number}: calc {}\n", (seconds * 1e9).round() as u64));
                }
            }
            waits.into_iter().for_each(|before| push(format_args!("l{number} requires l{before}\n")));
        }
        push(format_args!("}}\n"));
    }
    Ok(text)
}
