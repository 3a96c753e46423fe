//! The handle of a call in flight.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use ringroad_core::Rank;

use crate::calls::call::Prepared;
use crate::error::{Error, Result};
use crate::os::lock::Mutex;

/// What to do when a call ends.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The call has ended.
const DONE: u8 = 1;
/// Somebody waits for the end by a callback.
const AWAITED: u8 = 2;

/// The end of a call, as others see it. Most calls end without error and have no callback: this takes no lock.
pub(crate) struct Completion {
    state: AtomicU8,
    error: OnceLock<Error>,
    callbacks: Mutex<Vec<Callback>>,
    source: OnceLock<Rank>,
    /// The call.
    pub prepared: Arc<Prepared>,
}

impl Completion {
    pub fn new(prepared: Arc<Prepared>) -> Arc<Completion> {
        let (error, callbacks) = Default::default();
        Arc::new(Completion { state: AtomicU8::new(0), error, callbacks, source: OnceLock::new(), prepared })
    }

    /// Resets it for another call of the same kind.
    pub fn restart(&mut self) {
        *self.state.get_mut() = 0;
        self.error.take();
        self.source.take();
        self.callbacks.get_mut().clear();
    }

    pub fn call(&self) -> &Prepared {
        &self.prepared
    }

    /// Notes the source of a receive from any source, once its message has been found.
    pub fn found(&self, source: Rank) {
        let _ = self.source.set(source);
    }

    /// The source of such a receive, once it is known.
    pub fn source(&self) -> Option<Rank> {
        self.source.get().copied()
    }

    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) & DONE != 0
    }

    /// Ends the call. Returns whether there are callbacks. They run later, by [`Completion::run_callbacks`], when no
    /// lock is held.
    pub fn finish(&self, error: Option<Error>) -> bool {
        if let Some(error) = error {
            let _ = self.error.set(error);
        }
        self.state.fetch_or(DONE, Ordering::AcqRel) & AWAITED != 0
    }

    pub fn run_callbacks(&self) {
        let callbacks = std::mem::take(&mut *self.callbacks.lock());
        for callback in callbacks {
            callback(self.result());
        }
    }

    /// How the call ended. Valid only once it has.
    pub fn result(&self) -> Result<()> {
        self.error.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Calls `callback` when the call ends, from the thread that notices, or at once if it has ended.
    pub fn on_complete(&self, callback: Callback) {
        self.callbacks.lock().push(callback);
        // Either this thread sees the end, or the thread that ends the call sees the callback.
        if self.state.fetch_or(AWAITED, Ordering::AcqRel) & DONE != 0 {
            self.run_callbacks();
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.call(), if self.is_done() { "done" } else { "in flight" })
    }
}
