//! Threads that run callbacks, and nothing else.
//!
//! A callback may wait for another call, or for what another callback does. That must not stop a thread that drives
//! the engine, and there must always be a thread left to run the next callback. Mostly one thread runs all callbacks,
//! one after the other. If one takes long, another thread goes on with the next.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::calls::work::Completion;
use crate::os::lock::{Condvar, Mutex, MutexGuard};

/// How long a callback may take before another thread runs the next one.
const SLOW_CALLBACK_THRESHOLD: Duration = Duration::from_millis(2);

thread_local! {
    /// The address of the `Callbacks` for which this thread runs callbacks.
    static SERVES: Cell<usize> = const { Cell::new(0) };
}

/// What a thread runs: the callbacks of a call that has ended, mostly.
type DueAction = Box<dyn FnOnce() + Send>;

pub(crate) struct Callbacks {
    patience: Duration,
    state: Mutex<CallbackState>,
    changed: Condvar,
    gone: Condvar,
}

#[derive(Default)]
struct CallbackState {
    /// What has to run, the first one first.
    due: VecDeque<DueAction>,
    /// How many were ever taken from there.
    taken: u64,
    /// The threads that run a callback, those that are ready to run the next, and all of them.
    running: usize,
    ready: usize,
    threads: usize,
    stop: bool,
}

impl Default for Callbacks {
    fn default() -> Callbacks {
        Callbacks::with_patience(SLOW_CALLBACK_THRESHOLD)
    }
}

impl Callbacks {
    fn with_patience(patience: Duration) -> Callbacks {
        let (state, changed, gone) = Default::default();
        Callbacks { patience, state, changed, gone }
    }

    /// Arranges for the callbacks of these calls to run soon. The caller holds no lock that a callback may need.
    pub fn run(self: &Arc<Self>, ended: Vec<Arc<Completion>>) {
        if !ended.is_empty() {
            let action =
                |completion: Arc<Completion>| Box::new(move || completion.run_callbacks()) as DueAction;
            self.run_all(ended.into_iter().map(action));
        }
    }

    /// Runs this soon, as a callback.
    pub fn run_soon(self: &Arc<Self>, action: impl FnOnce() + Send + 'static) {
        self.run_all(std::iter::once(Box::new(action) as DueAction));
    }

    fn run_all(self: &Arc<Self>, actions: impl Iterator<Item = DueAction>) {
        let mut state = self.state.lock();
        state.due.extend(actions);
        if state.ready > 0 || self.add_thread(&mut state) || state.threads > 0 {
            drop(state);
            self.changed.notify_all();
            return;
        }
        // No thread can be started: run them here.
        let due = std::mem::take(&mut state.due);
        drop(state);
        due.into_iter().for_each(|action| action());
    }

    /// Starts another thread. Returns whether that worked.
    fn add_thread(self: &Arc<Self>, state: &mut CallbackState) -> bool {
        let callbacks = self.clone();
        let builder = std::thread::Builder::new().name("ringroad-callbacks".to_owned());
        let added = builder.spawn(move || callbacks.serve()).is_ok();
        // Counted from now on, so that no other thread starts another one before this one runs.
        state.threads += usize::from(added);
        state.ready += usize::from(added);
        added
    }

    /// Runs callbacks. The thread is counted as ready when it starts.
    fn serve(self: &Arc<Self>) {
        SERVES.set(Arc::as_ptr(self).addr());
        let mut state = self.state.lock();
        loop {
            self.await_turn(&mut state);
            state.ready -= 1;
            while let Some(action) = state.due.pop_front() {
                state.taken += 1;
                state.running += 1;
                // This one may wait for the next.
                if !state.due.is_empty() && state.ready == 0 {
                    self.add_thread(&mut state);
                }
                drop(state);
                // A panic is reported, and ends neither this thread nor the count of those that run.
                let _ = catch_unwind(AssertUnwindSafe(action));
                state = self.state.lock();
                state.running -= 1;
            }
            // Two threads stay: one to run the next callback, and one to take over if that takes long.
            if state.stop || state.ready > 1 {
                break;
            }
            state.ready += 1;
        }
        state.threads -= 1;
        drop(state);
        self.gone.notify_all();
        self.changed.notify_all();
    }

    /// Returns when there is a callback that no other thread runs soon, or when there will be none any more.
    fn await_turn(&self, state: &mut MutexGuard<'_, CallbackState>) {
        loop {
            if state.due.is_empty() {
                if state.stop {
                    return;
                }
                self.changed.wait(state);
            } else if state.running == 0 {
                return;
            } else {
                let (taken, until) = (state.taken, Instant::now() + self.patience);
                while !state.due.is_empty() && state.running > 0 && state.taken == taken {
                    let timed_out = self.changed.wait_until(state, until).timed_out();
                    if timed_out && state.taken == taken {
                        return;
                    }
                }
            }
        }
    }

    /// Makes the threads end once they have run all callbacks.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Whether any of the threads is left.
    pub fn have_threads(&self) -> bool {
        self.state.lock().threads > 0
    }

    /// Like [`Callbacks::stop`], and waits for that until `deadline`, but not for the calling thread if it is one of
    /// them. Returns whether all others have ended.
    pub fn finish(&self, deadline: Instant) -> bool {
        self.stop();
        let own = SERVES.get() == std::ptr::from_ref(self).addr();
        let mut state = self.state.lock();
        while state.threads > usize::from(own) {
            if self.gone.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use ringroad_core::algorithms::Member;
    use ringroad_core::Plan;

    use super::*;
    use crate::calls::call::{CallKey, Prepared};

    fn ended(callback: impl FnOnce() + Send + 'static) -> Arc<Completion> {
        let prepared =
            Prepared::new(CallKey::barrier(), Member::for_messages(), None, Plan::send(1, 0, 0), [0, 1]);
        let completion = Completion::new(Arc::new(prepared));
        completion.on_complete(Box::new(move |_| callback()));
        completion.finish(None);
        completion
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn quick_ones_run_in_order() {
        // However long the quick ones take on this machine.
        let callbacks = Arc::new(Callbacks::with_patience(Duration::from_secs(3600)));
        let (sender, receiver) = channel();
        let all = (0..500).map(|number| {
            let sender = sender.clone();
            ended(move || sender.send(number).unwrap())
        });
        all.collect::<Vec<_>>().chunks(7).for_each(|some| callbacks.run(some.to_vec()));
        let found: Vec<i32> = (0..500).map(|_| receiver.recv().unwrap()).collect();
        assert!(found.is_sorted(), "{found:?}");
        callbacks.finish(soon());
        assert_eq!(callbacks.state.lock().threads, 0);
    }

    /// They have ended together, and each waits for the one after it.
    #[test]
    fn each_may_wait_for_the_next() {
        let callbacks = Arc::new(Callbacks::default());
        let (mut before, receiver) = channel();
        let mut all = Vec::new();
        for _ in 0..5 {
            let (sender, next) = channel();
            let tell = std::mem::replace(&mut before, sender);
            all.push(ended(move || {
                next.recv().unwrap();
                tell.send(()).unwrap();
            }));
        }
        all.push(ended(move || before.send(()).unwrap()));
        callbacks.run(all);
        receiver.recv().unwrap();
        callbacks.finish(soon());
        assert_eq!(callbacks.state.lock().threads, 0);
    }

    #[test]
    fn finish_waits_for_what_runs_but_not_for_ever() {
        let callbacks = Arc::new(Callbacks::default());
        let (sender, receiver) = channel::<()>();
        callbacks.run(vec![ended(move || receiver.recv().unwrap()), ended(|| panic!("this is a test"))]);
        assert!(!callbacks.finish(Instant::now() + Duration::from_millis(50)) && callbacks.have_threads());
        sender.send(()).unwrap();
        assert!(callbacks.finish(soon()) && !callbacks.have_threads());
    }
}
