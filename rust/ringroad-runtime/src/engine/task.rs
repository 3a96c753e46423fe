//! A call, as the engine runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::executor::Executor;
use ringroad_core::plan::Plan;
use ringroad_core::{Port, Rank};

use super::buffers::CallBuffers;
use super::calls::RESTING_BYTES;
use crate::calls::call::Prepared;
use crate::calls::function::Function;
use crate::calls::work::Completion;
use crate::transport::buffer::Region;
use crate::transport::{MessageKind, Tag};

/// A call to be run. Calls repeat, so a task that has ended well is reused for the next call that is prepared the
/// same way.
pub(crate) struct Task {
    pub(super) executor: Executor,
    pub completion: Arc<Completion>,
    /// For a receive that may come from any source: by sender, the port by which a message from there leaves.
    pub ports: Option<Arc<[Port]>>,
    /// The source, the port and the length of the message to which a receive was turned last.
    turned: Option<(Rank, Port, usize)>,
    /// The scratch memory is added when the call begins.
    pub buffers: CallBuffers,
    /// The factor of a premultiplied sum.
    pub factor: f64,
    /// Whether a receive also takes a shorter message.
    pub shorter: bool,
    /// What performs a reduction of the caller's own.
    pub function: Option<Arc<dyn Function>>,
    pub timeout: Duration,
    /// `None` in the first moment of a short call, in which the clock is not read: most such calls end within it.
    pub deadline: Option<Instant>,
    /// When it began, if what it takes is of interest.
    pub(super) began: Option<Instant>,
    /// The kind, sequence and check of all its messages.
    pub tag: Tag,
    /// The number of the collective call; 0 for messages between two ranks.
    pub number: u64,
    /// Whether it is held until the ranks have voted. It gets its number and its tag when it begins.
    pub held: bool,
}

impl Task {
    pub(super) fn new(prepared: Arc<Prepared>) -> Box<Task> {
        Box::new(Task {
            executor: Executor::new(prepared.plan.clone()),
            buffers: CallBuffers {
                input: Region::nothing(),
                output: Region::nothing(),
                scratch: Region::nothing(),
                scratch_range: 0..0,
                arrived: (0..prepared.plan.arrivals()).map(|_| None).collect(),
                past_caches: false,
            },
            completion: Completion::new(prepared),
            ports: None,
            turned: None,
            factor: 1.0,
            shorter: false,
            function: None,
            timeout: Duration::ZERO,
            deadline: None,
            began: None,
            tag: Tag { source: 0, kind: MessageKind::Collective, sequence: 0, message: 0, check: 0 },
            number: 0,
            held: false,
        })
    }

    /// Performs the call in another way, before it begins.
    pub fn prepare_again(&mut self, prepared: Arc<Prepared>) {
        self.executor = Executor::new(prepared.plan.clone());
        self.buffers.arrived.resize_with(prepared.plan.arrivals(), || None);
        self.completion.prepare_again(prepared);
    }

    /// Resets the task for another call.
    pub(super) fn restart(&mut self) {
        self.executor.rewind();
        // Somebody may still ask how the previous call ended.
        match Arc::get_mut(&mut self.completion) {
            Some(completion) => completion.restart(),
            None => self.completion = Completion::new(self.completion.prepared().clone()),
        }
    }

    /// Turns a receive from any source or with any tag into that of this message. Messages repeat, and so do their plans.
    pub(super) fn turn_to(&mut self, message: Tag) {
        let port = self.ports.as_ref().and_then(|ports| ports.get(message.source)).copied().unwrap_or(0);
        let (source, bytes) = (message.source, self.buffers.output.len());
        (self.tag.sequence, self.tag.message) = (message.sequence, message.message);
        if self.turned.replace((source, port, bytes)) != Some((source, port, bytes)) {
            self.executor = Executor::new(Arc::new(Plan::receive(source, port, bytes)));
        }
    }

    pub(super) fn is_prepared_by(&self, prepared: &Arc<Prepared>) -> bool {
        Arc::ptr_eq(self.completion.prepared(), prepared)
    }

    /// Whether the task can run another call. A long message may lie in memory that its receive has allocated.
    pub(super) fn is_reusable(&self) -> bool {
        match self.turned {
            Some((_, _, bytes)) => bytes <= RESTING_BYTES,
            None => Arc::ptr_eq(self.executor.plan(), &self.call().plan),
        }
    }

    pub fn call(&self) -> &Prepared {
        self.completion.prepared()
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether an operation with `peer` is still pending.
    pub(super) fn needs(&self, peer: Rank) -> bool {
        self.executor.unfinished().any(|(_, step)| step.command.peer() == Some(peer))
    }
}
