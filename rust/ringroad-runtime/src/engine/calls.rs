//! The calls of one rank: those in flight, those that wait for a message, and what is remembered of the others.
//!
//! Calls get their numbers when they begin, so ringroad's own come before those that are held for a vote, on all
//! ranks alike.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Task;
use crate::calls::call::Prepared;
use crate::calls::function::FunctionReduction;
use crate::calls::work::Completion;
use crate::error::Error;
use crate::transport::notice::CALLS_TOLD;

/// How many of the latest calls are remembered, to answer other ranks that ask what this rank called.
const HISTORY: usize = 64;
/// How many tasks are kept for later calls.
const SPARE_TASKS: usize = 8;
/// How many receives, and of how many bytes, may rest until somebody waits for them. Their messages leave room for others,
/// and do not keep their senders.
const RESTING: usize = 8;
pub(super) const RESTING_BYTES: usize = 8 << 10;

/// The calls of one rank.
#[derive(Default)]
pub(crate) struct Calls {
    /// The calls in flight, by slot.
    tasks: Vec<Option<Box<Task>>>,
    /// How many calls are in flight or wait.
    active: usize,
    /// Receives that are posted once their messages have come.
    #[expect(clippy::vec_box, reason = "tasks stay in their boxes")]
    waiting: Vec<Box<Task>>,
    /// Collective calls that begin once the ranks have voted, in their order.
    held: VecDeque<Box<Task>>,
    /// The completion of a receive that was just removed from `waiting` and is not among `tasks` yet.
    pub(super) being_posted: Option<Arc<Completion>>,
    /// Tasks of the latest calls, the last one at the end.
    #[expect(clippy::vec_box, reason = "tasks stay in their boxes")]
    spare: Vec<Box<Task>>,
    /// The latest collective calls, by number.
    history: Vec<(u64, Arc<Prepared>)>,
    /// The number of the last collective call that was submitted, and of the last one that has begun.
    pub(super) called: u64,
    pub(super) started: u64,
    /// How many calls were made while the ranks connected.
    before: u64,
    /// Calls that have ended since [`Calls::take_ended`] was last called.
    ended: EndedCalls,
}

/// Calls that have ended, and what else is to be done once the lock is released.
#[must_use]
#[derive(Default)]
pub(crate) struct EndedCalls {
    /// Whether any call has ended.
    pub any: bool,
    /// The ended calls for which somebody waits.
    pub awaited: Vec<Arc<Completion>>,
    /// Reductions of the callers' own that calls in flight wait for.
    pub reductions: Vec<FunctionReduction>,
}

impl Calls {
    /// A task for a call that is prepared this way. The caller fills in the memory, the deadline and the tag.
    pub fn take_task(&mut self, prepared: &Arc<Prepared>) -> Box<Task> {
        match self.spare.iter().rposition(|task| task.is_prepared_by(prepared)) {
            Some(index) => {
                let mut task = self.spare.remove(index);
                task.restart();
                task
            }
            None => Task::new(prepared.clone()),
        }
    }

    /// Keeps a task that has ended for later calls.
    pub(super) fn keep_task(&mut self, task: Box<Task>) {
        if self.spare.len() == SPARE_TASKS {
            self.spare.remove(0);
        }
        self.spare.push(task);
    }

    /// Whether a call is in flight or waits.
    pub fn is_busy(&self) -> bool {
        self.active > 0
    }

    /// Whether a call has to proceed although no thread waits for it. Short receives need not, as long as they are few
    /// and have no callbacks: waking a thread takes longer than what it would do for them.
    pub fn need_driving(&self) -> bool {
        let rests = |task: &Task| {
            // Nobody knows how long a message is for which the receive makes the memory.
            let is_short = task.buffers.input.is_empty()
                && task.buffers.output.len() <= RESTING_BYTES
                && !task.call().key.allocates;
            task.number == 0 && is_short && !task.completion.is_awaited()
        };
        let mut resting = self.in_flight().chain(self.waiting.iter().map(|task| &**task));
        self.active > RESTING || !self.held.is_empty() || !resting.all(rests)
    }

    /// Whether a collective call is in flight.
    pub fn has_collectives(&self) -> bool {
        self.in_flight().any(|task| task.number > 0)
    }

    /// Sets deadlines for all calls that have none yet. Called once a call has not ended within its first moment.
    pub fn set_deadlines(&mut self) {
        let now = Instant::now();
        for task in self.tasks.iter_mut().flatten().chain(&mut self.waiting) {
            task.deadline.get_or_insert(now + task.timeout);
        }
    }

    /// Counts the time of all calls in flight from this moment on.
    pub fn count_from(&mut self, start: Instant) {
        for task in self.tasks.iter_mut().flatten().chain(&mut self.held) {
            task.deadline = Some(start + task.timeout);
        }
    }

    /// The calls in flight.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().flatten().map(|task| &**task)
    }

    /// The call in this slot.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&Task> {
        self.tasks.get(slot)?.as_deref()
    }

    /// The call in this slot, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Task> {
        self.tasks.get_mut(slot)?.as_deref_mut()
    }

    /// A slot without a call.
    pub(super) fn free_slot(&mut self) -> usize {
        self.tasks.iter().position(Option::is_none).unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        })
    }

    /// Puts a call into its slot.
    pub(super) fn insert(&mut self, slot: usize, task: Box<Task>) {
        self.started = self.started.max(task.number);
        self.tasks[slot] = Some(task);
        self.active += 1;
    }

    /// Takes a call out of its slot.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Box<Task>> {
        let task = self.tasks[slot].take()?;
        self.active -= 1;
        Some(task)
    }

    /// All slots, with calls and without.
    pub(super) fn slots(&self) -> std::ops::Range<usize> {
        0..self.tasks.len()
    }

    /// The receives that wait for their messages, in the order in which they were posted.
    pub(super) fn waiting(&self) -> &[Box<Task>] {
        &self.waiting
    }

    /// Lets a receive wait for its message.
    pub(super) fn enqueue(&mut self, task: Box<Task>) {
        self.active += 1;
        self.waiting.push(task);
    }

    /// Takes the receive at this place among those that wait.
    pub(super) fn dequeue(&mut self, index: usize) -> Box<Task> {
        self.active -= 1;
        self.waiting.remove(index)
    }

    /// The calls that are held, in their order.
    pub(super) fn held(&self) -> impl Iterator<Item = &Task> {
        self.held.iter().map(|task| &**task)
    }

    /// How the calls that are held were prepared.
    pub fn held_calls(&self) -> Vec<Arc<Prepared>> {
        self.held.iter().map(|task| task.completion.prepared().clone()).collect()
    }

    /// Holds a call, after those that are held already.
    pub(super) fn hold(&mut self, task: Box<Task>) {
        self.active += 1;
        self.held.push_back(task);
    }

    /// Puts the first of the held calls back.
    pub(super) fn hold_on(&mut self, task: Box<Task>) {
        self.active += 1;
        self.held.push_front(task);
    }

    /// Takes the first of the calls that are held.
    pub(super) fn next_held(&mut self) -> Option<Box<Task>> {
        let task = self.held.pop_front()?;
        self.active -= 1;
        Some(task)
    }

    /// From now on the program makes the calls.
    pub fn begin(&mut self) {
        self.before = self.called;
    }

    /// The number of a call as the program counts.
    pub fn shown(&self, number: u64) -> u64 {
        number.saturating_sub(self.before)
    }

    /// Remembers a collective call that is submitted.
    pub(super) fn remember(&mut self, number: u64, prepared: &Arc<Prepared>) {
        self.called = self.called.max(number);
        if self.history.len() < HISTORY {
            return self.history.push((number, prepared.clone()));
        }
        let oldest = &mut self.history[(number - 1) as usize % HISTORY];
        oldest.0 = number;
        // Calls repeat, so the pointers are often equal.
        if !Arc::ptr_eq(&oldest.1, prepared) {
            oldest.1 = prepared.clone();
        }
    }

    /// The latest collective calls of this rank, by number.
    pub(super) fn recent(&self) -> Vec<(u64, String)> {
        let calls = self.history();
        let first = calls.len().saturating_sub(CALLS_TOLD);
        calls[first..].iter().map(|(number, prepared)| (*number, prepared.to_string())).collect()
    }

    /// The latest collective calls of this rank, by number.
    pub(super) fn history(&self) -> Vec<(u64, &Prepared)> {
        let mut calls: Vec<_> = self.history.iter().map(|(number, call)| (*number, &**call)).collect();
        calls.sort_by_key(|(number, _)| *number);
        calls
    }

    /// The number of the last collective call that has ended here together with all calls before it.
    pub(super) fn last_ended(&self) -> u64 {
        let in_flight = self.in_flight().map(|task| task.number).filter(|number| *number > 0);
        in_flight.min().map_or(self.started, |first| first - 1)
    }

    /// Notes that a call has ended.
    pub(super) fn end(&mut self, completion: &Arc<Completion>, error: Option<Error>) {
        self.ended.any = true;
        if completion.finish(error) {
            self.ended.awaited.push(completion.clone());
        }
    }

    /// Whether any call has ended since [`Calls::take_ended`] was last called, or has something to reduce.
    pub fn has_ended(&self) -> bool {
        self.ended.any || !self.ended.reductions.is_empty()
    }

    /// All calls fail together: nobody waits for their reductions.
    pub(super) fn drop_reductions(&mut self) {
        self.ended.reductions.clear();
    }

    /// Gives the calls that are held more time.
    pub fn extend_held(&mut self, more: Duration) {
        for task in &mut self.held {
            task.timeout += more;
            task.deadline.iter_mut().for_each(|deadline| *deadline += more);
        }
    }

    /// Lets these reductions be performed after the lock is released.
    pub(super) fn reduce(&mut self, reductions: Vec<FunctionReduction>) {
        self.ended.reductions.extend(reductions);
    }

    /// Takes the calls that have ended since the last time, so that their callbacks can run after the lock is
    /// released.
    pub fn take_ended(&mut self) -> EndedCalls {
        std::mem::take(&mut self.ended)
    }
}
