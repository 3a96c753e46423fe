//! Blocking until a worker or another thread has something to say.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null;
use std::time::Duration;

use crate::transport::Wait;

/// Waits for workers' event descriptors. It owns duplicates, so it may outlive the transport; it is then only woken.
pub(super) struct UcxWait {
    workers: Vec<OwnedFd>,
    wakeup: File,
}

impl UcxWait {
    pub fn new(workers: Vec<OwnedFd>) -> Result<UcxWait, String> {
        // SAFETY: creates a descriptor and touches nothing else.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(format!("eventfd: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: new, so nobody else owns it.
        let wakeup = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        Ok(UcxWait { workers, wakeup })
    }
}

impl Wait for UcxWait {
    fn block(&self, timeout: Duration) {
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let wakeup = std::iter::once(wanted(self.wakeup.as_raw_fd()));
        let mut polled: Vec<_> = wakeup.chain(self.workers.iter().map(|fd| wanted(fd.as_raw_fd()))).collect();
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: as many entries as said, open descriptors, a live timeout and no signal mask. A signal ends it early,
        // as anything may: the caller looks again.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &timeout, null()) };
        if ready > 0 && polled[0].revents != 0 {
            // Empty when another thread that blocks here was faster.
            let _ = (&self.wakeup).read(&mut [0; 8]);
        }
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then it is readable anyway.
        let _ = (&self.wakeup).write(&1u64.to_ne_bytes());
    }
}
