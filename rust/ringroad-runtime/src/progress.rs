//! Who drives the engine, and how a thread waits.
//!
//! The caller that waits drives: a hand-over to another thread costs more than a small collective. A background thread
//! exists only for calls that nobody waits for.
//!
//! Waiting fits the cores. A thread spins for a short while (not at all where ranks share cores), then offers its core to
//! others (see [`crate::turns`]), then blocks until the transport has something to do.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use ringroad_core::Rank;

use crate::callbacks::Callbacks;
use crate::engine::{Ended, Engine, Task};
use crate::error::{Error, Result};
use crate::notice::Reason;
use crate::scheduler::Crowd;
use crate::transport::Wait;
use crate::turns::Turns;
use crate::work::Completion;

const YIELDS: u32 = 100;
/// How many rounds make a moment: a few microseconds, where little happens in them; and how many in which something does.
const MOMENT: u32 = 100;
const BUSY_MOMENT: u32 = 16;
/// How many rounds in which something happened go by before a look at the clock.
const BUSY_ROUNDS: u32 = 64;
/// How often the background thread drives a transport that may owe its peers something, when nobody else does.
const TEND: Duration = Duration::from_millis(10);
/// The longest that a thread blocks before it looks around.
const BLOCK: Duration = Duration::from_millis(20);
/// How often a waiting thread looks for notices, deadlines and strangers.
const INSPECT: Duration = Duration::from_millis(10);

/// The engine of a communicator and everything needed to drive it.
pub(crate) struct Driver {
    engine: Mutex<Engine>,
    waiter: Arc<dyn Wait>,
    turns: Turns,
    /// Threads that wait for a call of their own and drive the engine meanwhile.
    waiting: AtomicUsize,
    /// Threads that are blocked, and want to know when somebody else completes their call.
    blocked: AtomicUsize,
    callbacks: Arc<Callbacks>,
    background: Arc<Background>,
}

#[derive(Default)]
struct Background {
    started: AtomicBool,
    tending: AtomicBool,
    state: Mutex<BackgroundState>,
    changed: Condvar,
}

#[derive(Default)]
struct BackgroundState {
    /// The driver, where it has work that nobody waits for.
    wanted: Option<Arc<Driver>>,
    /// The driver, where its transport must not be left alone (see [`Engine::is_owing`]).
    tended: Option<Weak<Driver>>,
    stop: bool,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Counts a thread in, until it leaves.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Counted(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Driver {
    /// For `rank`. `crowd`: the ranks of its host, where it has more of them than cores.
    pub fn new(engine: Engine, rank: Rank, crowd: Option<Crowd>) -> Arc<Driver> {
        let waiter = engine.transport().waiter();
        Arc::new(Driver {
            engine: Mutex::new(engine),
            waiter,
            turns: Turns::new(rank, crowd),
            waiting: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
            callbacks: Arc::default(),
            background: Arc::default(),
        })
    }

    /// Uses the engine under its lock. The callbacks of calls that ended meanwhile are run soon, by another thread, or
    /// before this returns where there can be none: the caller holds no lock. After a panic the calls have failed, and there
    /// is nothing to tell.
    pub fn with<T: Default>(&self, action: impl FnOnce(&mut Engine) -> T) -> T {
        let (result, ended) = self.with_locked(action);
        self.call_back(ended);
        result.unwrap_or_default()
    }

    /// A panic would leave calls that never end: it fails them all, and is an error here.
    fn with_locked<T>(&self, action: impl FnOnce(&mut Engine) -> T) -> (Result<T>, Ended) {
        let mut engine = self.engine.lock();
        let result = catch_unwind(AssertUnwindSafe(|| action(&mut engine)))
            .map_err(|panic| engine.give_up(message(&*panic)));
        let ended = engine.take_ended();
        drop(engine);
        if ended.any() && self.blocked.load(Ordering::SeqCst) > 0 {
            self.waiter.wake();
        }
        (result, ended)
    }

    /// Sees to the callbacks of calls that have ended. No lock is held.
    pub fn call_back(&self, ended: Ended) {
        self.callbacks.run(ended.awaited());
    }

    /// Starts the call that `make` makes, and drives the engine for a moment if it is `awaited`. The caller may hold a lock,
    /// and gives what has ended meanwhile to [`Driver::call_back`] when it holds none any more.
    pub fn submit(
        self: &Arc<Self>,
        awaited: bool,
        make: impl FnOnce(&mut Engine) -> Box<Task>,
    ) -> (Result<Arc<Completion>>, Ended) {
        let (result, ended) = self.with_locked(|engine| {
            let task = make(engine);
            let completion = task.completion.clone();
            let submitted = engine.submit(task, awaited && self.turns.may_spin());
            if awaited && submitted.is_ok() {
                self.drive_a_moment(engine, &completion);
                if !completion.is_done() {
                    engine.set_deadlines();
                }
            }
            (submitted.map(|()| completion), engine.is_owing())
        });
        self.hand_over();
        let (submitted, owing) = result.unwrap_or_else(|error| (Err(error), false));
        self.tend_if(owing);
        (submitted, ended)
    }

    /// A short call is over before it pays to look at the clock.
    fn drive_a_moment(&self, engine: &mut Engine, completion: &Completion) {
        let rounds = if self.turns.may_spin() { MOMENT } else { 1 };
        let mut busy = 0;
        for _ in 0..rounds {
            // Others want to know of the end of their calls, and to look after theirs.
            if completion.is_done() || engine.has_ended() || busy == BUSY_MOMENT {
                return;
            }
            if engine.progress() {
                busy += 1;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Waits until the call has ended or `until` has passed; returns whether it has ended.
    pub fn wait(self: &Arc<Self>, completion: &Completion, until: Instant) -> bool {
        if completion.is_done() {
            return true;
        }
        let counted = Counted::new(&self.waiting);
        let done = self.drive(until, || completion.is_done());
        drop(counted);
        let started = self.background.started.load(Ordering::SeqCst);
        let (busy, owing) = self.with(|engine| (started && engine.is_busy(), engine.is_owing()));
        if busy {
            self.progress_in_background();
        }
        self.tend_if(owing);
        done
    }

    /// `owing`: the transport must not be left alone (see [`Engine::is_owing`]).
    fn tend_if(self: &Arc<Self>, owing: bool) {
        if owing && !self.background.tending.load(Ordering::Relaxed) {
            self.tend_in_background();
        }
    }

    /// Drives the engine until `enough` or `until`; returns whether it is enough.
    fn drive(&self, until: Instant, enough: impl Fn() -> bool) -> bool {
        let result = self.drive_alone(until, enough);
        self.hand_over();
        result
    }

    /// After a thread has driven the engine and does no more: one that is blocked prepared for that before, and may not
    /// be woken any more.
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
            if now - *inspected.get_or_insert(now) >= INSPECT {
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

    /// Makes sure that calls in flight go on although nobody waits for them.
    pub fn progress_in_background(self: &Arc<Self>) {
        let mut state = self.start_background();
        if state.wanted.is_none() && state.thread.is_some() && !state.stop {
            state.wanted = Some(self.clone());
            self.background.changed.notify_one();
        }
    }

    /// Makes sure that the transport is driven now and then from now on.
    fn tend_in_background(self: &Arc<Self>) {
        self.background.tending.store(true, Ordering::Relaxed);
        self.start_background().tended = Some(Arc::downgrade(self));
        self.background.changed.notify_one();
    }

    fn start_background(&self) -> MutexGuard<'_, BackgroundState> {
        let mut state = self.background.state.lock();
        if !self.background.started.swap(true, Ordering::SeqCst) {
            let background = self.background.clone();
            let thread =
                std::thread::Builder::new().name("ringroad".to_owned()).spawn(move || background.serve());
            // Without a thread the calls go on when somebody waits for them.
            state.thread = thread.ok();
        }
        state
    }

    /// Drives the transport a little, unless somebody else does.
    fn tend(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            self.with(Engine::tend);
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

    /// Gives the communicator up on every rank.
    pub fn abort(&self, message: String) {
        self.with(|engine| engine.fail(Error::Aborted(message.clone()), Reason::Abort, message));
    }

    /// Closes the connections and ends the background threads.
    pub fn close(&self, timeout: Duration) {
        self.with(|engine| engine.close(timeout));
        self.stop_background();
        // Callbacks may wait for what the caller does next.
        self.callbacks.finish(Instant::now() + timeout);
    }
}

/// What a panic said.
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
    /// Drives the engine whenever that is wanted, until told to stop.
    fn serve(&self) {
        loop {
            let driver = {
                let mut state = self.state.lock();
                match &state.tended {
                    _ if state.stop => return,
                    _ if state.wanted.is_some() => state.wanted.clone(),
                    None => {
                        self.changed.wait(&mut state);
                        continue;
                    }
                    Some(tended) => {
                        let Some(driver) = tended.upgrade() else { return };
                        drop(state);
                        driver.tend();
                        drop(driver);
                        let mut state = self.state.lock();
                        if !state.stop && state.wanted.is_none() {
                            self.changed.wait_for(&mut state, TEND);
                        }
                        continue;
                    }
                }
            };
            // The reference is held as long as there is work: calls go on when the communicator is dropped.
            let Some(driver) = driver else { continue };
            let idle = || {
                // In this order, so that a wish that comes meanwhile is not lost.
                self.state.lock().wanted = None;
                let idle = driver.waiting.load(Ordering::SeqCst) > 0 || !driver.engine.lock().is_busy();
                idle || self.state.lock().stop
            };
            while !driver.drive(Instant::now() + Duration::from_secs(1), idle) {}
            // Nobody may be there to wait for what has ended here.
            let owing = driver.with(|engine| engine.is_owing());
            driver.tend_if(owing);
        }
    }
}
