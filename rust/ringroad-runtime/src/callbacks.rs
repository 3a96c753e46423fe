//! Who calls back: threads that do nothing else.
//!
//! A callback may wait for another call, or for what another callback does. A thread that drives the engine must not be
//! kept from it by that, and there must always be a thread left to run the next callback. So there are as many as wait
//! at the same time: one, mostly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::work::Completion;

#[derive(Default)]
pub(crate) struct Callbacks {
    state: Mutex<State>,
    due: Condvar,
}

#[derive(Default)]
struct State {
    /// Calls that have ended and whose callbacks are to be run, the first one first.
    ended: VecDeque<Arc<Completion>>,
    /// Threads that wait for more.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stop: bool,
}

impl Callbacks {
    /// Sees to it that the callbacks of these calls are run soon.
    pub fn run(self: &Arc<Self>, ended: Vec<Arc<Completion>>) {
        if ended.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.ended.extend(ended);
        if state.idle > 0 {
            drop(state);
            self.due.notify_one();
        } else if !self.add_thread(&mut state) && state.threads.is_empty() {
            // Better here than never.
            let ended = std::mem::take(&mut state.ended);
            drop(state);
            ended.iter().for_each(|completion| completion.run_callbacks());
        }
    }

    /// Returns whether there is one more.
    fn add_thread(self: &Arc<Self>, state: &mut State) -> bool {
        let callbacks = self.clone();
        let builder = std::thread::Builder::new().name("ringroad-callbacks".to_owned());
        let Ok(thread) = builder.spawn(move || callbacks.serve()) else { return false };
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
        true
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            if let Some(completion) = state.ended.pop_front() {
                // This one may wait for the next.
                if state.idle == 0 && !state.ended.is_empty() {
                    self.add_thread(&mut state);
                }
                drop(state);
                completion.run_callbacks();
                drop(completion);
                state = self.state.lock();
            } else if state.stop || state.idle > 0 {
                // One is enough to wait for more.
                return;
            } else {
                state.idle += 1;
                self.due.wait(&mut state);
                state.idle -= 1;
            }
        }
    }

    /// Ends the threads when they have run what there is.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.due.notify_all();
    }

    /// As [`Callbacks::stop`], and waits for them; a callback may call this.
    pub fn finish(&self) {
        self.stop();
        let threads = std::mem::take(&mut self.state.lock().threads);
        let this = std::thread::current().id();
        threads.into_iter().filter(|thread| thread.thread().id() != this).for_each(|thread| {
            let _ = thread.join();
        });
    }
}
