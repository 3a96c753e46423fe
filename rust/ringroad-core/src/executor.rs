//! The state machine that runs a [`Plan`]. It does no I/O: it hands out operations that may start and is told which
//! have completed. Whoever drives it (the runtime's engine, a simulator, a test) decides what starting means.

use std::sync::Arc;

use crate::plan::{Operation, Plan};

/// Stands in `pending` for an operation that has completed.
const COMPLETE: u32 = u32::MAX;

/// Runs one plan once.
#[derive(Debug)]
pub struct Executor {
    plan: Arc<Plan>,
    pending: Vec<u32>,
    /// The operations that may start or have been started, in this order. Those that wait for no other come first.
    ready: Vec<u32>,
    /// How many have been started, of those that are ready.
    started: usize,
    /// How many have been started of those that only wait for a message: these come last, lest it has not come.
    expected: usize,
    remaining: usize,
}

impl Executor {
    /// An executor at the beginning of `plan`.
    pub fn new(plan: Arc<Plan>) -> Executor {
        let pending = plan.pending().to_vec();
        let mut ready = Vec::with_capacity(pending.len());
        let first =
            |number: &u32| pending[*number as usize] == 0 && plan.expects().binary_search(number).is_err();
        ready.extend((0..pending.len() as u32).filter(first));
        Executor { remaining: pending.len(), started: 0, expected: 0, pending, ready, plan }
    }

    /// Back to the beginning, to run the plan again without new memory.
    pub fn rewind(&mut self) {
        let pending = self.plan.pending();
        let first = self.ready.iter().take_while(|number| pending[**number as usize] == 0).count();
        self.ready.truncate(first);
        (self.started, self.expected) = (0, 0);
        self.pending.copy_from_slice(pending);
        self.remaining = pending.len();
    }

    /// The number of the next operation that may start, or `None` until more complete.
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
    pub fn operation(&self, number: u32) -> &Operation {
        &self.plan.operations()[number as usize]
    }

    /// Takes note that operation `number`, handed out before, has completed.
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

    /// The operations that have not completed: what a late call is waiting for.
    pub fn unfinished(&self) -> impl Iterator<Item = (u32, Operation)> + '_ {
        let open = |(number, pending): (usize, &u32)| {
            (*pending != COMPLETE).then(|| (number as u32, self.plan.operations()[number]))
        };
        self.pending.iter().enumerate().filter_map(open)
    }

    /// Whether everything has completed.
    pub fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}
