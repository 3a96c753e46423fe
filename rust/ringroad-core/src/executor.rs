//! The state machine that runs a [`Plan`]. It does no I/O: it hands out operations that may start and is told which
//! have completed. Whoever drives it (the runtime's engine, a simulator, a test) decides what starting means.

use std::sync::Arc;

use crate::plan::{Operation, Plan, EXPECTS};

/// Stands in `pending` for an operation that has completed.
const COMPLETE: u32 = u32::MAX;

/// Runs one plan once.
#[derive(Debug)]
pub struct Executor {
    plan: Arc<Plan>,
    pending: Vec<u32>,
    ready: Queue,
    /// Messages that are read where they are: they are looked for when nothing else can be done, lest they have not come.
    expected: Queue,
    remaining: usize,
}

/// The operations that may start or have been started, in this order. Those that wait for no other come first.
#[derive(Debug)]
struct Queue {
    numbers: Vec<u32>,
    started: usize,
}

impl Queue {
    #[inline]
    fn start(&mut self) -> Option<u32> {
        let number = *self.numbers.get(self.started)?;
        self.started += 1;
        Some(number)
    }

    /// Leaves those that wait for no other, as `pending` says.
    fn rewind(&mut self, pending: &[u32]) {
        let first =
            self.numbers.iter().take_while(|number| pending[**number as usize] & !EXPECTS == 0).count();
        self.numbers.truncate(first);
        self.started = 0;
    }
}

impl Executor {
    /// An executor at the beginning of `plan`.
    pub fn new(plan: Arc<Plan>) -> Executor {
        let pending = plan.counters().to_vec();
        let queue = |counter, capacity| {
            let mut numbers = Vec::with_capacity(capacity);
            let first = |number: &u32| pending[*number as usize] == counter;
            numbers.extend((0..pending.len() as u32).filter(first));
            Queue { numbers, started: 0 }
        };
        let (ready, expected) = (queue(0, pending.len() - plan.arrivals()), queue(EXPECTS, plan.arrivals()));
        Executor { remaining: pending.len(), ready, expected, pending, plan }
    }

    /// Back to the beginning, to run the plan again without new memory.
    pub fn rewind(&mut self) {
        let pending = self.plan.counters();
        self.ready.rewind(pending);
        self.expected.rewind(pending);
        self.pending.copy_from_slice(pending);
        self.remaining = pending.len();
    }

    /// The number of the next operation that may start, or `None` until more complete.
    #[inline]
    pub fn start(&mut self) -> Option<u32> {
        self.ready.start().or_else(|| self.expected.start())
    }

    /// Whether none may start until more complete.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        let all_started = |queue: &Queue| queue.started == queue.numbers.len();
        all_started(&self.ready) && all_started(&self.expected)
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
            match *pending {
                0 => self.ready.numbers.push(*dependent),
                EXPECTS => self.expected.numbers.push(*dependent),
                _ => {}
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
