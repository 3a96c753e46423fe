//! The memory of this process.

/// Gives memory back to the machine that this process has freed, but the C library keeps for later.
pub(crate) fn give_back() {
    // SAFETY: it takes no pointers, and locks what it looks at.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
