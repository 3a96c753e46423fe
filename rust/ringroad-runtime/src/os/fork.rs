//! Values that only the process that made them may use. A forked child shares its parent's connections and memory,
//! but has none of its threads, and locks that these held stay locked.

use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::Once;

use crate::error::{Error, Result};
use crate::os::lock::{Mutex, MutexGuard};

/// How often this process or its ancestors were forked off since the handler was registered.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The value of [`generation`] in some process.
type Generation = u32;

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs in a forked child. Cheaper than the process's number, which takes a system call.
pub(crate) fn generation() -> Generation {
    static ONCE: Once = Once::new();
    if !ONCE.is_completed() {
        ONCE.call_once(|| {
            // SAFETY: registers a function of this library, which is never unloaded. The function touches an atomic
            // only. If registering fails, for lack of memory, children cannot be told from their parents.
            unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
    }
    FORKS.load(Ordering::Relaxed)
}

/// A value that belongs to the process that made it. A forked child can neither use it nor drop it: there it leaks.
pub(crate) struct ProcessOwned<T> {
    value: ManuallyDrop<T>,
    process: Generation,
}

impl<T> ProcessOwned<T> {
    pub fn new(value: T) -> ProcessOwned<T> {
        ProcessOwned { value: ManuallyDrop::new(value), process: generation() }
    }

    /// Returns an error in a forked child. Takes no lock, and must be called before anything that does.
    #[inline]
    pub fn get(&self) -> Result<&T> {
        if generation() == self.process {
            return Ok(&self.value);
        }
        Err(Error::Aborted(
            "this process was forked from the one that made the communicator, and cannot use it or its calls; make a new \
             communicator here, or start this process another way, by multiprocessing's \"spawn\" or \"forkserver\""
                .to_owned(),
        ))
    }
}

impl<T: Clone> Clone for ProcessOwned<T> {
    fn clone(&self) -> ProcessOwned<T> {
        ProcessOwned { value: self.value.clone(), process: self.process }
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        if generation() == self.process {
            // SAFETY: this is the end of the only owner, and nothing else drops the value.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// A value of the whole process, behind a lock. A forked child has a new one: a thread of its parent may have held the lock
/// when the child was forked off, and is not there to release it.
pub(crate) struct Global<T: 'static> {
    place: AtomicPtr<(Generation, Mutex<T>)>,
}

impl<T: Default + Send + 'static> Global<T> {
    pub const fn new() -> Global<T> {
        Global { place: AtomicPtr::new(null_mut()) }
    }

    pub fn lock(&self) -> MutexGuard<'static, T> {
        self.mutex_of(generation()).lock()
    }

    fn mutex_of(&self, process: Generation) -> &'static Mutex<T> {
        let mut found = self.place.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or a value that is never freed.
            match unsafe { found.as_ref() } {
                Some((known, value)) if *known == process => return value,
                _ => {}
            }
            // What was there belongs to a parent. If another thread is faster, this one leaks.
            let new = Box::leak(Box::new((process, Mutex::default())));
            found = match self.place.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => new,
                Err(other) => other,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_child_finds_globals_free() {
        static ONE: Global<Vec<u32>> = Global::new();
        let mut held = ONE.mutex_of(7).lock();
        held.push(1);
        // As in a child of process 7, where nobody ever drops `held`; a test with threads should not fork a real one.
        assert!(ONE.mutex_of(8).lock().is_empty());
        ONE.mutex_of(8).lock().push(2);
        assert_eq!((&*held, &*ONE.mutex_of(8).lock()), (&vec![1], &vec![2]));
    }

    struct CountsDrops<'a>(&'a Cell<u32>);

    impl Drop for CountsDrops<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_child_can_neither_use_nor_drop() {
        let drops = Cell::new(0);
        let own = ProcessOwned::new(CountsDrops(&drops));
        assert!(own.get().is_ok());
        drop(own);
        assert_eq!(drops.get(), 1);
        // As in a child; a test with threads should not fork a real one.
        let value = ManuallyDrop::new(CountsDrops(&drops));
        let inherited = ProcessOwned { value, process: generation().wrapping_sub(1) };
        let error = inherited.get().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("forked") && error.contains("spawn"), "{error}");
        drop(inherited);
        assert_eq!(drops.get(), 1);
    }
}
