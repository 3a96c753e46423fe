//! The handle of a call in flight.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use ringroad_core::Rank;

use crate::calls::call::{code_of, Operation, Prepared, PROC_NULL};
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::os::lock::Mutex;
use crate::transport::buffer::{Memory, Region};
use crate::transport::Unclaimed;

/// What to do when a call ends.
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The call has ended.
const DONE: u8 = 1;
/// Somebody waits for the end by a callback.
const AWAITED: u8 = 2;

/// A message between two ranks, as its receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub source: Rank,
    /// The tag that the sender gave it.
    pub tag: u32,
    /// Its length.
    pub bytes: usize,
    /// The type of its elements.
    pub dtype: DType,
}

impl Message {
    /// What is received from nobody.
    pub(crate) fn from_nobody(tag: Option<u32>) -> Message {
        Message { source: PROC_NULL, tag: tag.unwrap_or(0), bytes: 0, dtype: DType::U8 }
    }

    pub(crate) fn from_unclaimed(Unclaimed { tag, bytes }: Unclaimed) -> Message {
        let dtype = DType::from_code(code_of(tag.check)).expect("every code is that of a type");
        Message { source: tag.source, tag: tag.user(), bytes, dtype }
    }
}

/// The end of a call, as others see it. Most calls end without error and have no callback: this takes no lock.
pub(crate) struct Completion {
    state: AtomicU8,
    error: OnceLock<Error>,
    callbacks: Mutex<Vec<Callback>>,
    message: OnceLock<Message>,
    /// The memory of a receive that allocates it.
    allocated: OnceLock<Region>,
    prepared: Arc<Prepared>,
    /// The call, if it was prepared again before it began.
    again: OnceLock<Arc<Prepared>>,
}

impl Completion {
    pub fn new(prepared: Arc<Prepared>) -> Arc<Completion> {
        let (state, error, callbacks, message, allocated, again) = Default::default();
        Arc::new(Completion { state, error, callbacks, message, allocated, prepared, again })
    }

    /// Resets it for another call of the same kind.
    pub fn restart(&mut self) {
        *self.state.get_mut() = 0;
        self.error.take();
        self.message.take();
        self.allocated.take();
        self.callbacks.get_mut().clear();
        if let Some(again) = self.again.take() {
            self.prepared = again;
        }
    }

    /// The call, as it was prepared.
    #[inline]
    pub fn prepared(&self) -> &Arc<Prepared> {
        self.again.get().unwrap_or(&self.prepared)
    }

    /// The call is prepared in another way, before it begins. That happens once.
    pub fn prepare_again(&self, prepared: Arc<Prepared>) {
        let _ = self.again.set(prepared);
    }

    /// Notes which message a receive or a probe has found.
    pub fn found(&self, message: Message) {
        let _ = self.message.set(message);
    }

    /// Notes into which new memory a receive takes its message.
    pub fn allocate(&self, region: Region) {
        let _ = self.allocated.set(region);
    }

    /// The result's memory: new memory, or else the caller's.
    pub fn output(&self, given: Memory) -> Memory {
        self.allocated.get().map_or(given, |region| Memory::new(region.clone()))
    }

    /// The message of a receive or a probe, once it is known. That of a receive which names source and tag is known at
    /// its end.
    pub fn message(&self) -> Option<Message> {
        let Prepared { key, lengths, .. } = &**self.prepared();
        match (self.message.get(), key.operation) {
            (Some(message), _) => Some(*message),
            (None, Operation::Receive { peer: PROC_NULL, tag }) => Some(Message::from_nobody(Some(tag))),
            (None, Operation::Probe { peer: Some(PROC_NULL), tag }) => Some(Message::from_nobody(tag)),
            (None, Operation::Receive { peer, tag }) if self.is_done() => {
                Some(Message { source: peer, tag, bytes: lengths[1], dtype: key.dtype })
            }
            _ => None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) & DONE != 0
    }

    /// Whether somebody waits for the end by a callback.
    pub fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Acquire) & AWAITED != 0
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
        write!(f, "{} ({})", self.prepared(), if self.is_done() { "done" } else { "in flight" })
    }
}
