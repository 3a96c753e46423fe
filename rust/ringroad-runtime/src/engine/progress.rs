//! Which thread drives the engine, and how the others wait.
//!
//! The thread that waits for a call drives the engine: a hand-over to another thread costs more than a small
//! collective. A background thread exists only for calls that no thread waits for.
//!
//! How a thread waits depends on the cores. It spins for a short while (not at all if ranks share cores), then yields
//! its core (see [`crate::os::turns`]), and then blocks until the transport has something to do.
//!
//! [`Driver::submit`] drives the engine for a moment, without reading the clock or taking the lock again: most short
//! calls end then. A message that arrives in this moment goes from its channel straight to the call; those of the
//! next call stay in the channels until that call asks for them. The background thread also drives UCX between calls
//! once long messages have come: UCX may still owe a peer an acknowledgement, without which that peer's call does not
//! end.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ringroad_core::Rank;

use crate::calls::callbacks::Callbacks;
use crate::calls::work::Completion;
use crate::engine::{EndedCalls, Engine, Task};
use crate::error::{Error, Result};
use crate::os::counted::Counted;
use crate::os::lock::{Condvar, Mutex, MutexGuard};
use crate::os::scheduler::HostLoad;
use crate::os::turns::CoreTurns;
use crate::transport::notice::FailureReason;
use crate::transport::Wait;

const YIELDS: u32 = 100;
/// How many rounds of progress a call gets in its first moment, a few microseconds if little happens; and how many of
/// them may do something.
const MOMENT: u32 = 100;
const BUSY_MOMENT: u32 = 16;
/// How many rounds in which something happened pass before the clock is read.
const BUSY_ROUNDS: u32 = 64;
/// How often the background thread drives the transport between calls, if no other thread does.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);
/// The longest that a thread blocks at a time.
const BLOCK: Duration = Duration::from_millis(20);
/// How often a waiting thread checks for notices, deadlines and messages of other calls. It looks at every rank then.
const INSPECT: Duration = Duration::from_millis(10);
/// It checks less often if more ranks than these share a core: it could do little else in its turns.
const SHARING: usize = 8;

/// How often who only wants to look tries to get the engine.
const PEEK: Duration = Duration::from_millis(1);

/// The engine of a communicator and everything needed to drive it.
pub(crate) struct Driver {
    engine: Mutex<Engine>,
    waiter: Arc<dyn Wait>,
    turns: CoreTurns,
    inspect: Duration,
    /// The number of threads that wait for a call and drive the engine meanwhile.
    waiting: AtomicUsize,
    /// The number of threads that block, and have to be woken when another thread completes their call.
    blocked: AtomicUsize,
    /// The number of threads that wait for the engine's lock.
    queued: AtomicUsize,
    callbacks: Arc<Callbacks>,
    background: Arc<Background>,
}

#[derive(Default)]
struct Background {
    started: AtomicBool,
    drives_idle: AtomicBool,
    state: Mutex<BackgroundState>,
    changed: Condvar,
}

#[derive(Default)]
struct BackgroundState {
    /// The driver, if it has calls in flight that no thread waits for.
    wanted: Option<Arc<Driver>>,
    /// The driver, if its transport has to be driven between calls (see [`Engine::needs_driving`]).
    idle: Option<Weak<Driver>>,
    stop: bool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Driver {
    /// The driver of rank `rank`. `load`: the ranks of its host, if they are more than its cores.
    pub fn new(engine: Engine, rank: Rank, load: Option<HostLoad>) -> Arc<Driver> {
        let waiter = engine.transport().waiter();
        Arc::new(Driver {
            engine: Mutex::new(engine),
            waiter,
            turns: CoreTurns::new(rank, load),
            inspect: INSPECT * load.map_or(1, |load| (load.ranks / load.cores / SHARING).max(1) as u32),
            waiting: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            callbacks: Arc::default(),
            background: Arc::default(),
        })
    }

    /// Uses the engine under its lock. The callbacks of calls that ended meanwhile are run soon, by another thread,
    /// or before this returns if no thread can be started; so the caller must hold no lock. After a panic the calls
    /// have failed, and the result is the default.
    pub fn with<T: Default>(&self, action: impl FnOnce(&mut Engine) -> T) -> T {
        let (result, ended) = self.with_locked(action);
        self.call_back(ended);
        result.unwrap_or_default()
    }

    /// Looks at the engine, unless other threads keep it for longer than `within`.
    pub fn peek<T>(&self, within: Duration, look: impl FnOnce(&Engine) -> T) -> Option<T> {
        let until = Instant::now() + within;
        let _counted = Counted::new(&self.queued);
        loop {
            match self.engine.try_lock() {
                Some(engine) => return Some(look(&engine)),
                None if Instant::now() >= until => return None,
                None => std::thread::sleep(PEEK),
            }
        }
    }

    /// What runs the callbacks of its calls.
    pub fn callbacks(&self) -> Arc<Callbacks> {
        self.callbacks.clone()
    }

    /// How many threads wait for a call.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A panic would leave calls that never end. So it fails all calls, and is returned as an error.
    fn with_locked<T>(&self, action: impl FnOnce(&mut Engine) -> T) -> (Result<T>, EndedCalls) {
        let mut engine = self.engine.try_lock().unwrap_or_else(|| {
            let _counted = Counted::new(&self.queued);
            self.engine.lock()
        });
        let result = catch_unwind(AssertUnwindSafe(|| action(&mut engine)))
            .map_err(|panic| engine.give_up(message(&*panic)));
        let ended = engine.calls.take_ended();
        drop(engine);
        if ended.any && self.blocked.load(Ordering::SeqCst) > 0 {
            self.waiter.wake();
        }
        (result, ended)
    }

    /// Arranges for the callbacks of calls that have ended, and performs reductions of the callers' own. The caller holds
    /// no lock.
    pub fn call_back(&self, ended: EndedCalls) {
        let mut reductions = VecDeque::from(ended.reductions);
        self.callbacks.run(ended.awaited);
        while let Some(reduction) = reductions.pop_front() {
            let (request, result) = reduction.run();
            let (_, ended) = self.with_locked(|engine| engine.reduced(request, result));
            reductions.extend(ended.reductions);
            self.callbacks.run(ended.awaited);
        }
    }

    /// Starts the call that `make` makes, and drives the engine for a moment if the call is `awaited`. The caller may
    /// hold a lock. It passes the ended calls to [`Driver::call_back`] once it holds none.
    pub fn submit(
        self: &Arc<Self>,
        awaited: bool,
        make: impl FnOnce(&mut Engine) -> Box<Task>,
    ) -> (Result<Arc<Completion>>, EndedCalls) {
        let (result, ended) = self.with_locked(|engine| {
            let task = make(engine);
            let completion = task.completion.clone();
            let submitted = engine.submit(task, awaited && self.turns.may_spin());
            if awaited && submitted.is_ok() {
                self.drive_a_moment(engine, &completion);
                if !completion.is_done() {
                    engine.calls.set_deadlines();
                }
            }
            (submitted.map(|()| completion), engine.needs_driving())
        });
        self.hand_over();
        let (submitted, needs_driving) = result.unwrap_or_else(|error| (Err(error), false));
        self.drive_idle_if(needs_driving);
        (submitted, ended)
    }

    /// As [`Engine::begin_held`]. The caller may hold a lock. It passes the ended calls to [`Driver::call_back`] once it holds
    /// none.
    pub fn begin_held(&self, is_next: impl FnMut(&mut Task) -> Result<bool>) -> EndedCalls {
        let (_, ended) = self.with_locked(|engine| engine.begin_held(is_next));
        self.hand_over();
        ended
    }

    /// Drives the engine without reading the clock: most short calls end before that would pay.
    fn drive_a_moment(&self, engine: &mut Engine, completion: &Completion) {
        let rounds = if self.turns.may_spin() { MOMENT } else { 1 };
        let mut busy = 0;
        for _ in 0..rounds {
            // Other threads wait for their calls to end, or need the engine.
            if completion.is_done() || engine.calls.has_ended() || busy == BUSY_MOMENT {
                return;
            }
            if engine.progress() {
                busy += 1;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Waits until `enough()` is true, which calls of this communicator make so, or `until` has passed; returns whether it
    /// is.
    pub fn wait(self: &Arc<Self>, until: Instant, enough: impl Fn() -> bool) -> bool {
        if enough() {
            return true;
        }
        let counted = Counted::new(&self.waiting);
        let done = self.drive(until, enough);
        drop(counted);
        let started = self.background.started.load(Ordering::SeqCst);
        let (busy, needs_driving) =
            self.with(|engine| (started && engine.calls.need_driving(), engine.needs_driving()));
        if busy {
            self.progress_in_background();
        }
        self.drive_idle_if(needs_driving);
        done
    }

    /// Makes sure that the transport is driven now and then from now on, if it has to be between calls (see
    /// [`Engine::needs_driving`]).
    fn drive_idle_if(self: &Arc<Self>, needs_driving: bool) {
        if needs_driving && !self.background.drives_idle.load(Ordering::Relaxed) {
            self.background.drives_idle.store(true, Ordering::Relaxed);
            self.start_background().idle = Some(Arc::downgrade(self));
            self.background.changed.notify_one();
        }
    }

    /// Drives the engine until `enough()` is true or `until` has passed; returns whether it is enough.
    fn drive(&self, until: Instant, enough: impl Fn() -> bool) -> bool {
        let result = self.drive_alone(until, enough);
        self.hand_over();
        result
    }

    /// Wakes the blocked threads. Called after a thread has stopped driving the engine: its progress may have taken
    /// the events that would have woken them.
    pub fn hand_over(&self) {
        if self.blocked.load(Ordering::SeqCst) > 0 {
            self.waiter.wake();
        }
    }

    fn drive_alone(&self, until: Instant, enough: impl Fn() -> bool) -> bool {
        let mut idle_since: Option<Instant> = None;
        let mut inspected: Option<Instant> = None;
        let mut yields = 0;
        let mut busy = 0u32;
        loop {
            // Locks are not fair: whoever releases one mostly gets it again. So give way to those who wait.
            if self.queued.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            let happened = self.with(Engine::progress);
            if enough() {
                return true;
            }
            if happened {
                idle_since = None;
                yields = 0;
                busy += 1;
                if !busy.is_multiple_of(BUSY_ROUNDS) {
                    continue;
                }
            }
            let now = Instant::now();
            if now >= until {
                return false;
            }
            if now - *inspected.get_or_insert(now) >= self.inspect {
                inspected = Some(now);
                self.with(Engine::inspect);
            }
            if now - *idle_since.get_or_insert(now) < self.turns.spin() {
                std::hint::spin_loop();
            } else if yields < YIELDS && self.turns.may_yield(now) {
                yields += 1;
                self.turns.offer_core();
            } else {
                let counted = Counted::new(&self.blocked);
                if !enough() && self.with(Engine::arm) {
                    self.waiter.block(BLOCK.min(until - now));
                }
                drop(counted);
            }
        }
    }

    /// Makes sure that calls in flight proceed although no thread waits for them, if any has to.
    pub fn progress_if_needed(self: &Arc<Self>) {
        if self.with(|engine| engine.calls.need_driving()) {
            self.progress_in_background();
        }
    }

    /// Makes sure that calls in flight proceed although no thread waits for them.
    pub fn progress_in_background(self: &Arc<Self>) {
        let mut state = self.start_background();
        if state.wanted.is_none() && state.thread.is_some() && !state.stop {
            state.wanted = Some(self.clone());
            self.background.changed.notify_one();
        }
    }

    fn start_background(&self) -> MutexGuard<'_, BackgroundState> {
        let mut state = self.background.state.lock();
        if !self.background.started.swap(true, Ordering::SeqCst) {
            let background = self.background.clone();
            let thread =
                std::thread::Builder::new().name("ringroad".to_owned()).spawn(move || background.serve());
            // Without a thread, the calls proceed when somebody waits for them.
            state.thread = thread.ok();
        }
        state
    }

    /// Drives the transport a little, unless another thread does.
    fn drive_idle(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            self.with(Engine::drive_idle);
        }
    }

    fn stop_background(&self) {
        let (thread, _wanted) = {
            let mut state = self.background.state.lock();
            state.stop = true;
            (state.thread.take(), state.wanted.take())
        };
        self.background.changed.notify_one();
        self.waiter.wake();
        // The thread itself may be the one that drops the last reference.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Gives up the communicator on every rank.
    pub fn abort(&self, message: String) {
        self.with(|engine| engine.fail(Error::Aborted(message.clone()), FailureReason::Abort, message));
    }

    /// Leaves the communicator during a call: every rank loses this one.
    pub fn leave(&self, message: String) {
        self.with(|engine| engine.leave(message));
    }

    /// Closes the connections and ends the background threads.
    pub fn close(&self, timeout: Duration) {
        self.with(|engine| engine.close(timeout));
        self.stop_background();
        // Callbacks may wait for what the caller does next.
        self.callbacks.finish(Instant::now() + timeout);
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.with(|engine| engine.close(Duration::from_secs(1)));
        self.stop_background();
        // Not waited for: a callback may need a lock that the caller holds.
        self.callbacks.stop();
    }
}

impl Background {
    /// Drives the engine whenever that is necessary, until told to stop.
    fn serve(&self) {
        loop {
            let driver = {
                let mut state = self.state.lock();
                match &state.idle {
                    _ if state.stop => return,
                    _ if state.wanted.is_some() => state.wanted.clone(),
                    None => {
                        self.changed.wait(&mut state);
                        continue;
                    }
                    Some(idle) => {
                        let Some(driver) = idle.upgrade() else { return };
                        drop(state);
                        driver.drive_idle();
                        drop(driver);
                        let mut state = self.state.lock();
                        if !state.stop && state.wanted.is_none() {
                            self.changed.wait_for(&mut state, IDLE_INTERVAL);
                        }
                        continue;
                    }
                }
            };
            // The reference is held as long as there is work: calls proceed even if the communicator is dropped.
            let Some(driver) = driver else { continue };
            let idle = || {
                // In this order, a request that comes meanwhile is not lost.
                self.state.lock().wanted = None;
                let idle = driver.waiting.load(Ordering::SeqCst) > 0
                    || !driver.with(|engine| engine.calls.is_busy());
                idle || self.state.lock().stop
            };
            while !driver.drive(Instant::now() + Duration::from_secs(1), idle) {}
            // No other thread may be there to drive the transport now.
            let needs_driving = driver.with(|engine| engine.needs_driving());
            driver.drive_idle_if(needs_driving);
        }
    }
}
