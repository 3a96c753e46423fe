//! Blocks until a UCX worker, another process or another thread has something to do for this one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::transport::Wait;

/// After this many wake-ups without anything to do, a descriptor counts as noisy.
const FALSE_ALARMS: u32 = 16;
/// How long noisy descriptors are left out at a time.
const NAP: Duration = Duration::from_millis(1);

/// Blocks on event descriptors. It owns duplicates of them, so it may outlive the transport; then only [`Wait::wake`]
/// ends a block.
///
/// Over tcp the descriptor of a UCX worker is readable as long as the worker has something to send to a peer that has
/// not accepted its connection, because the socket could be written. Only the peer can end that, and it may be busy
/// with something else. So descriptors that are often readable without anything to do are left out most of the time.
pub(crate) struct EventWait {
    callers: Vec<WakeSource>,
    wakeup: File,
}

struct WakeSource {
    events: OwnedFd,
    /// How many times it has woken this rank this rank since something happened or a wait was undisturbed.
    calls: AtomicU32,
}

impl WakeSource {
    fn is_noisy(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= FALSE_ALARMS
    }
}

impl EventWait {
    pub fn new(events: Vec<OwnedFd>) -> Result<EventWait, String> {
        // SAFETY: creates a descriptor and touches nothing else.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(format!("eventfd: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: new, so nobody else owns it.
        let wakeup = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let callers = events.into_iter().map(|events| WakeSource { events, calls: AtomicU32::new(0) });
        Ok(EventWait { callers: callers.collect(), wakeup })
    }

    /// Waits for a wake-up and for the descriptors that are noisy, or for those that are not.
    fn listen(&self, noisy: bool, timeout: Duration) {
        let heard: Vec<&WakeSource> =
            self.callers.iter().filter(|caller| caller.is_noisy() == noisy).collect();
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let wakeup = std::iter::once(wanted(self.wakeup.as_raw_fd()));
        let mut polled: Vec<_> =
            wakeup.chain(heard.iter().map(|caller| wanted(caller.events.as_raw_fd()))).collect();
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: as many entries as given, open descriptors, a live timeout and no signal mask. A signal ends the
        // call early, as anything may: the caller looks again.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &timeout, null()) };
        if ready > 0 && polled[0].revents != 0 {
            // It is empty if another thread that blocks here was faster.
            let _ = (&self.wakeup).read(&mut [0; 8]);
        }
        for (caller, polled) in heard.iter().zip(&polled[1..]) {
            let calls = caller.calls.load(Ordering::Relaxed);
            let called = ready > 0 && polled.revents != 0;
            caller.calls.store(if called { calls.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        }
    }
}

impl Wait for EventWait {
    fn block(&self, timeout: Duration) {
        if cfg!(miri) {
            // Miri knows no polling; the caller looks again.
            return std::thread::yield_now();
        }
        if self.callers.iter().any(WakeSource::is_noisy) {
            self.listen(false, timeout.min(NAP));
            self.listen(true, Duration::ZERO);
        } else {
            self.listen(false, timeout);
        }
    }

    fn wake(&self) {
        // This fails only if the counter is full, and then it is readable anyway.
        let _ = (&self.wakeup).write(&1u64.to_ne_bytes());
    }

    fn note_progress(&self) {
        self.callers.iter().for_each(|caller| caller.calls.store(0, Ordering::Relaxed));
    }
}
