//! The handle of a call in flight.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::call::Call;
use crate::error::{Error, Result};

/// What to do when a call ends.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct Ending {
    error: Option<Error>,
    callbacks: Vec<Callback>,
}

/// A call's end, as seen from outside.
pub(crate) struct Completion {
    done: AtomicBool,
    ending: Mutex<Ending>,
    /// What was called.
    pub call: Call,
}

impl Completion {
    pub fn new(call: Call) -> Arc<Completion> {
        Arc::new(Completion { done: AtomicBool::new(false), ending: Mutex::default(), call })
    }

    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Ends the call. The callbacks run later, by [`Completion::run_callbacks`], when no lock is held.
    pub fn finish(&self, error: Option<Error>) {
        self.ending.lock().error = error;
        self.done.store(true, Ordering::Release);
    }

    pub fn run_callbacks(&self) {
        let callbacks = std::mem::take(&mut self.ending.lock().callbacks);
        for callback in callbacks {
            callback(self.result());
        }
    }

    /// How the call ended. Only meaningful when it has.
    pub fn result(&self) -> Result<()> {
        self.ending.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Calls back when the call ends, from the thread that notices, or at once where it has ended.
    pub fn on_complete(&self, callback: Callback) {
        let mut ending = self.ending.lock();
        if self.is_done() {
            drop(ending);
            callback(self.result());
        } else {
            ending.callbacks.push(callback);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.call, if self.is_done() { "done" } else { "in flight" })
    }
}
