//! A call, as the engine knows it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::executor::Executor;
use ringroad_core::plan::Plan;
use ringroad_core::{Port, Rank};

use super::buffers::Buffers;
use crate::buffer::Region;
use crate::call::Prepared;
use crate::transport::{Kind, Tag};
use crate::work::Completion;

/// A call to be run. Calls repeat: one that has ended well is used for the next that is prepared alike.
pub(crate) struct Task {
    pub(super) executor: Executor,
    pub completion: Arc<Completion>,
    /// For a receive from whoever sends first by rank, the port that a message from there leaves by.
    pub ports: Vec<Port>,
    /// Scratch memory is added when the call begins.
    pub buffers: Buffers,
    /// For a premultiplied sum.
    pub factor: f64,
    pub timeout: Duration,
    /// `None` in the first moment of a short call, which no clock measures: most are over then.
    pub deadline: Option<Instant>,
    /// The kind, sequence and check of all its messages.
    pub tag: Tag,
    /// Counts the collective calls; 0 for messages between two ranks.
    pub number: u64,
}

impl Task {
    pub(super) fn new(prepared: Arc<Prepared>) -> Box<Task> {
        let mut buffers = Buffers::new(Region::nothing(), Region::nothing());
        buffers.arrived.resize_with(prepared.plan.arrivals(), || None);
        Box::new(Task {
            executor: Executor::new(prepared.plan.clone()),
            completion: Completion::new(prepared),
            ports: Vec::new(),
            buffers,
            factor: 1.0,
            timeout: Duration::ZERO,
            deadline: None,
            tag: Tag { source: 0, kind: Kind::Collective, sequence: 0, message: 0, check: 0 },
            number: 0,
        })
    }

    /// Back to the beginning.
    pub(super) fn restart(&mut self) {
        self.executor.rewind();
        // Somebody may still ask how the call before this one ended.
        match Arc::get_mut(&mut self.completion) {
            Some(completion) => completion.restart(),
            None => self.completion = Completion::new(self.completion.prepared.clone()),
        }
    }

    /// From now on a receive of which it was not known before from whom.
    pub(super) fn turn_to(&mut self, plan: Plan) {
        self.executor = Executor::new(Arc::new(plan));
    }

    pub(super) fn is_prepared_by(&self, prepared: &Arc<Prepared>) -> bool {
        Arc::ptr_eq(&self.completion.prepared, prepared)
    }

    /// Whether it runs the plan that was prepared, and has not been turned to another.
    pub(super) fn is_as_prepared(&self) -> bool {
        Arc::ptr_eq(self.executor.plan(), &self.completion.prepared.plan)
    }

    pub(super) fn call(&self) -> &Prepared {
        self.completion.call()
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether something is still due from or to `peer`.
    pub(super) fn needs(&self, peer: Rank) -> bool {
        self.executor.unfinished().any(|(_, step)| step.command.peer() == Some(peer))
    }
}
