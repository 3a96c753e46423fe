//! Whether this process was paused: stopped by a signal, swapped out, or asleep with its machine.
//!
//! Others cannot tell a paused process from a dead one, so they may have gone on without it. A thread wakes up twice a
//! second; if it wakes up seconds late, the process was paused.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

use crate::os::fork::Global;
use crate::os::lock::Mutex;

/// How often the thread wakes up.
const TICK: Duration = Duration::from_millis(500);
/// Longer gaps are pauses. Others wait for twice as long before they go on without a rank.
const GAP: Duration = Duration::from_secs(3);
const STACK: usize = 64 << 10;

/// What is done after each pause.
static THEN: OnceLock<fn(u64)> = OnceLock::new();

/// After each pause from now on, a thread of its own does this, and gets the number of pauses so far.
pub(crate) fn then(act: fn(u64)) {
    THEN.get_or_init(|| act);
}

struct PauseWatch {
    /// When the process was last seen awake.
    last: Duration,
    pauses: u64,
}

impl PauseWatch {
    /// Counts a pause that has just ended.
    fn count_pauses(&mut self) -> u64 {
        let now = now();
        self.pauses += u64::from(now.saturating_sub(self.last) > GAP);
        self.last = now;
        self.pauses
    }
}

/// The time since the machine started, with the time that it slept.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// How many times this process was paused since it first called this.
pub(crate) fn pauses() -> u64 {
    static WATCH: Global<Option<Arc<Mutex<PauseWatch>>>> = Global::new();
    let mut place = WATCH.lock();
    if let Some(watch) = &*place {
        return watch.lock().count_pauses();
    }
    let watch = Arc::new(Mutex::new(PauseWatch { last: now(), pauses: 0 }));
    *place = Some(watch.clone());
    let thread = |stack: usize| thread::Builder::new().name("ringroad-awake".to_owned()).stack_size(stack);
    let look_regularly = move || {
        let mut known = 0;
        loop {
            thread::sleep(TICK);
            let pauses = watch.lock().count_pauses();
            if pauses > known {
                // Without a thread nothing is done: then the pause goes on to matter.
                let _ = THEN.get().map(|act| thread(2 * STACK).spawn(move || act(pauses)));
                known = pauses;
            }
        }
    };
    // Without the thread, each call looks back to the one before: that finds more pauses, never fewer.
    let _ = thread(STACK).spawn(look_regularly);
    0
}
