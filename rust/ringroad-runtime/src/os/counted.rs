//! Things that are counted as long as they last, such as threads that wait.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts one in, until the value is dropped.
pub struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Counts one in by this counter.
    pub fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Counted(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
