//! The state machine that runs a [`Plan`]. It does no I/O: it hands out operations that may start and is told which
//! have completed. Whoever drives it (the runtime's engine, a simulator, a test) decides what starting means.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::plan::{Operation, Plan};

/// Stands in `pending` for an operation that has completed.
const COMPLETE: u32 = u32::MAX;

/// Runs one plan once.
#[derive(Debug)]
pub struct Executor {
    plan: Arc<Plan>,
    pending: Vec<u32>,
    ready: VecDeque<u32>,
    remaining: usize,
}

impl Executor {
    /// An executor at the beginning of `plan`.
    pub fn new(plan: Arc<Plan>) -> Executor {
        let mut executor = Executor { pending: Vec::new(), ready: VecDeque::new(), remaining: 0, plan };
        executor.rewind();
        executor
    }

    /// Back to the beginning, to run the plan again without new memory.
    pub fn rewind(&mut self) {
        self.pending.clear();
        self.pending.extend_from_slice(self.plan.pending());
        self.ready.clear();
        self.ready.extend((0..self.pending.len() as u32).filter(|i| self.pending[*i as usize] == 0));
        self.remaining = self.pending.len();
    }

    /// The number of the next operation that may start, or `None` until more complete.
    pub fn start(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// Operation `number` of the plan.
    pub fn operation(&self, number: u32) -> &Operation {
        &self.plan.operations()[number as usize]
    }

    /// Takes note that operation `number`, handed out before, has completed.
    pub fn complete(&mut self, number: u32) {
        self.remaining -= 1;
        self.pending[number as usize] = COMPLETE;
        for dependent in self.plan.dependents(number) {
            let pending = &mut self.pending[*dependent as usize];
            *pending -= 1;
            if *pending == 0 {
                self.ready.push_back(*dependent);
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
