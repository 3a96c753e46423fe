//! Whether this process is still the one that made something: a forked child shares its parent's connections.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

/// How often this process or its ancestors have been forked off since the first look.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Of a process, from [`generation`].
pub(crate) type Generation = u32;

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that is another one in a forked child. Asking for the process's number instead takes a system call.
pub(crate) fn generation() -> Generation {
    static ONCE: Once = Once::new();
    if !ONCE.is_completed() {
        ONCE.call_once(|| {
            // SAFETY: registers a function of this library, which is never unloaded, that touches an atomic only.
            // Where that fails, for lack of memory, children are not told apart from their parents.
            unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
    }
    FORKS.load(Ordering::Relaxed)
}
