//! The state machine that runs a [`Plan`]. It does no I/O: it hands out operations that may start, and its driver (the
//! runtime's engine, the simulator or a test) starts them and reports which have completed.

use std::sync::Arc;

use crate::plan::{Plan, PlannedCommand};

/// The value in `pending` of an operation that has completed.
const COMPLETE: u32 = u32::MAX;

/// Runs one plan once.
#[derive(Debug)]
pub struct Executor {
    plan: Arc<Plan>,
    /// For each operation, how many operations it still waits for, or [`COMPLETE`].
    pending: Vec<u32>,
    /// The operations that may start or have been started, in this order. Those that depend on no other come first.
    ready: Vec<u32>,
    /// How many operations of `ready` have been started.
    started: usize,
    /// How many operations of [`Plan::expects`] have been started. They only wait for a message, so they start after
    /// all that are ready: that gives the message time to arrive.
    expected: usize,
    /// How many operations have not completed.
    remaining: usize,
}

impl Executor {
    /// An executor at the start of `plan`.
    pub fn new(plan: Arc<Plan>) -> Executor {
        let pending = plan.pending().to_vec();
        let mut ready = Vec::with_capacity(pending.len());
        let first =
            |number: &u32| pending[*number as usize] == 0 && plan.expects().binary_search(number).is_err();
        ready.extend((0..pending.len() as u32).filter(first));
        Executor { remaining: pending.len(), started: 0, expected: 0, pending, ready, plan }
    }

    /// Returns to the start of the plan, to run it again without allocating.
    pub fn rewind(&mut self) {
        let pending = self.plan.pending();
        let first = self.ready.iter().take_while(|number| pending[**number as usize] == 0).count();
        self.ready.truncate(first);
        (self.started, self.expected) = (0, 0);
        self.pending.copy_from_slice(pending);
        self.remaining = pending.len();
    }

    /// The number of the next operation that may start, or `None` until another one completes. Each is returned once.
    #[inline]
    pub fn start(&mut self) -> Option<u32> {
        if let Some(number) = self.ready.get(self.started) {
            self.started += 1;
            return Some(*number);
        }
        let number = *self.plan.expects().get(self.expected)?;
        self.expected += 1;
        Some(number)
    }

    /// Operation `number` of the plan.
    #[inline]
    pub fn operation(&self, number: u32) -> &PlannedCommand {
        &self.plan.operations()[number as usize]
    }

    /// Records that operation `number`, which [`Executor::start`] has returned, has completed.
    #[inline]
    pub fn complete(&mut self, number: u32) {
        self.remaining -= 1;
        self.pending[number as usize] = COMPLETE;
        for dependent in self.plan.dependents(number) {
            let pending = &mut self.pending[*dependent as usize];
            *pending -= 1;
            if *pending == 0 {
                self.ready.push(*dependent);
            }
        }
    }

    /// The operations that have not completed, with their numbers: what a call that is late waits for.
    pub fn unfinished(&self) -> impl Iterator<Item = (u32, PlannedCommand)> + '_ {
        let open = |(number, pending): (usize, &u32)| {
            (*pending != COMPLETE).then(|| (number as u32, self.plan.operations()[number]))
        };
        self.pending.iter().enumerate().filter_map(open)
    }

    /// Whether all operations have completed.
    pub fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}
