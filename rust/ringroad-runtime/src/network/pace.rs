//! Whether a call may start, or has to wait until all ranks have done something together before it.
//!
//! Calls below a number start after one look at it. Rank 0's questions lower it ([`ringroad_core::halt`]), and so does a
//! call that took unusually long, which somebody has to look into.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{current, ThreadId};
use std::time::Duration;

use ringroad_core::halt::{Answer, Gate, Passage, Question};

use crate::network::watch::Sign;
use crate::os::lock::{Condvar, Mutex};

/// The calls of one communicator of this rank.
pub(crate) struct Pace {
    threshold: AtomicU64,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    gate: Gate,
    /// What was noticed and not looked into so far.
    sign: Option<Sign>,
    /// The thread that does what all ranks have halted for.
    inside: Option<ThreadId>,
}

/// What a call has to do that wants to start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrival {
    Start,
    /// Look into this, and come again.
    LookInto(Sign),
    /// Wait for what others say or do, and come again.
    Wait,
    /// Do what all ranks do now, say so by [`Pace::leave`], and come again.
    Halt,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { threshold: AtomicU64::new(u64::MAX), inner: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether a call of this number starts without further questions.
    #[inline]
    pub fn is_free(&self, number: u64) -> bool {
        // Whoever lowers the threshold for a promise holds the lock under which calls get their numbers.
        number < self.threshold.load(Ordering::Relaxed)
    }

    fn change<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let done = act(&mut inner);
        let threshold = if inner.sign.is_some() { 0 } else { inner.gate.threshold() };
        self.threshold.store(threshold, Ordering::Relaxed);
        self.changed.notify_all();
        done
    }

    /// A call has shown something.
    pub fn alarm(&self, sign: Sign) {
        self.change(|inner| inner.sign = Some(sign));
    }

    /// Answers rank 0. `next`: the number of the next call; the caller holds the lock under which calls get their numbers.
    pub fn answer(&self, question: Question, next: u64) -> Answer {
        self.change(|inner| inner.gate.answer(question, next))
    }

    /// A call of this number wants to start.
    pub fn arrive(&self, number: u64) -> Arrival {
        self.change(|inner| {
            if let Some(sign) = inner.sign.take() {
                return Arrival::LookInto(sign);
            }
            match (inner.gate.passage(number), inner.inside) {
                (Passage::Free, _) => Arrival::Start,
                // The calls by which the ranks do what they have halted for.
                (_, Some(inside)) if inside == current().id() => Arrival::Start,
                (Passage::Halt, None) => {
                    inner.inside = Some(current().id());
                    Arrival::Halt
                }
                _ => Arrival::Wait,
            }
        })
    }

    /// Whether a call of this number may start now. The caller holds the lock under which calls get their numbers.
    pub fn admits(&self, number: u64) -> bool {
        let inner = self.inner.lock();
        let is_inside = inner.inside == Some(current().id());
        inner.sign.is_none() && (is_inside || inner.gate.passage(number) == Passage::Free)
    }

    /// Whether there is nothing to do but to wait before a call of this number.
    pub fn is_waiting(&self, number: u64) -> bool {
        let inner = self.inner.lock();
        let passage = inner.gate.passage(number);
        let halts = passage == Passage::Halt && inner.inside.is_none();
        inner.sign.is_none() && passage != Passage::Free && !halts
    }

    /// Waits until something changes, but no longer than this.
    pub fn wait(&self, limit: Duration) {
        let mut inner = self.inner.lock();
        self.changed.wait_for(&mut inner, limit);
    }

    /// What all ranks have halted for is done.
    pub fn leave(&self) {
        self.change(|inner| {
            inner.inside = None;
            inner.gate.pass();
        });
    }

    /// Rank 0 has gone before it said where to halt.
    pub fn give_up(&self) {
        self.change(|inner| inner.gate.give_up());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::network::watch::Suspicion;

    #[test]
    fn a_call_waits_for_the_word_and_halts_once() {
        let pace = Arc::new(Pace::new());
        assert!(pace.is_free(7));
        assert_eq!(pace.answer(Question::Pause { round: 1, margin: 2 }, 7), Answer::Promise(9));
        assert!(pace.is_free(8) && !pace.is_free(9));
        assert_eq!((pace.arrive(8), pace.arrive(9)), (Arrival::Start, Arrival::Wait));
        pace.answer(Question::Halt { round: 1, at: 10 }, 9);
        assert!(pace.is_free(9));
        assert_eq!(pace.arrive(10), Arrival::Halt);
        assert_eq!(pace.arrive(11), Arrival::Start, "a call of those who have halted");
        assert!(pace.admits(11) && pace.admits(9) && !pace.is_free(11));
        let other = pace.clone();
        let wait =
            move || assert!(other.is_waiting(11) && !other.admits(11) && other.arrive(11) == Arrival::Wait);
        std::thread::spawn(wait).join().unwrap();
        pace.leave();
        assert!(pace.is_free(11));
    }

    #[test]
    fn a_sign_is_looked_into_by_the_next_call() {
        let pace = Pace::new();
        let sign = Sign::Changed(Suspicion { ratio: 4.0, took: 0.4, predicted: 0.1 });
        pace.alarm(sign);
        assert!(!pace.is_free(1));
        assert_eq!((pace.arrive(1), pace.arrive(1)), (Arrival::LookInto(sign), Arrival::Start));
        assert!(pace.is_free(1));
        pace.answer(Question::Pause { round: 1, margin: 0 }, 1);
        assert_eq!(pace.arrive(1), Arrival::Wait);
        pace.give_up();
        assert!(pace.is_free(1));
    }
}
