//! Holds calls while the ranks vote whether to look at their network, and while they look.
//!
//! A vote is an allreduce of one number, 1 if a rank wants to look. It comes before a call in which every rank waits for every
//! other one, so it waits for nobody for whom that call would not: [`Adaptation::before_call`] says which, on all ranks alike.
//!
//! **Starting a call waits for nobody.** The engine holds the call before which the ranks vote, and those that follow it. Its
//! handle is returned at once, and messages between two ranks go on. When the vote has ended, the ranks look at the network
//! if any of them wants to, and then the calls that are held begin, in their order. A thread that runs callbacks does this.
//!
//! No call is held for ever: a vote ends when all ranks have made the call before which they vote, which they must do anyway.
//! If they do not, the vote ends at that call's deadline, with an error that names those that are missing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Collective;

use super::{tag, CallExchange, Communicator, CommunicatorState, GoOn, Patience, FOREVER};
use crate::adaptation::{Adaptation, Present};
use crate::calls::call::Operation;
use crate::calls::request::Request;
use crate::choice::choices::Choices;
use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, ReduceOp};
use crate::transport::buffer::Memory;

/// How often a rank drives its calls in flight while it waits.
const DRIVE_INTERVAL: Duration = Duration::from_millis(1);

impl Communicator {
    /// Lets this follow the changes of the network from now on.
    pub(super) fn follow(&mut self, adaptation: Arc<dyn Adaptation>) -> Result<()> {
        self.reporting.adaptation.get_or_init(|| Arc::downgrade(&adaptation));
        self.driver.get()?.with(|engine| engine.follow(adaptation.clone()));
        self.adaptation = Some(adaptation);
        Ok(())
    }

    /// `None` in a forked child, too, where another thread may have held its locks.
    pub(super) fn adaptation(&self) -> Option<&dyn Adaptation> {
        self.adaptation.as_deref().filter(|_| self.driver.get().is_ok())
    }

    /// What is known of the network now. A forked child knows what was known at first.
    pub(super) fn known(&self) -> Present {
        self.adaptation().map_or_else(|| Present::first(&self.choices), |adaptation| adaptation.present())
    }

    /// The current choices.
    pub(super) fn present(&self) -> Arc<Choices> {
        self.known().choices
    }

    /// Starts a vote, before the first of the calls that are held. `deadline`: that of this call.
    pub(super) fn vote(&self, deadline: Instant) -> Result<()> {
        let is_wanted = self.adaptation().is_some_and(|adaptation| adaptation.vote());
        let operation = Operation::Collective(Collective::Allreduce);
        let own = Memory::from_slice(&[i64::from(is_wanted)]);
        let mut request =
            Request::new(operation, DType::I64, 1, own, Memory::zeroed(8)).reducing(ReduceOp::Max);
        request.timeout = Some(deadline.saturating_duration_since(Instant::now()));
        let (completion, result) = self.begin(&mut request.internal(), false)?;
        let communicator = self.clone();
        completion.on_complete(Box::new(move |voted| {
            // A vote that fails ends the communicator, and with it the calls that are held.
            if voted.is_err() {
                return;
            }
            if result.to_vec::<i64>() == [0] {
                return communicator.begin_held();
            }
            // This may be the thread that has started the call. Looking takes time, which is not that of the call.
            let deadline = deadline + communicator.extend_held();
            communicator.soon(move |communicator| match communicator.reconsider(deadline) {
                Ok(()) => communicator.begin_held(),
                Err(error) => communicator.give_up_held(&error),
            });
        }));
        Ok(())
    }

    /// Gives the calls that are held as much more time as looking at the network may take, and returns it.
    fn extend_held(&self) -> Duration {
        let more =
            self.adaptation.as_ref().map_or(Duration::ZERO, |adaptation| adaptation.time().min(FOREVER));
        if let Ok(driver) = self.driver.get() {
            driver.with(|engine| engine.calls.extend_held(more));
        }
        more
    }

    /// Does this soon, in a thread that runs callbacks.
    fn soon(&self, act: impl FnOnce(&Communicator) + Send + 'static) {
        let communicator = self.clone();
        if let Ok(driver) = self.driver.get() {
            driver.callbacks().run_soon(move || act(&communicator));
        }
    }

    /// Drives calls in flight; returns whether some of them are collective. An error if the communicator has failed.
    fn drive(&self) -> Result<bool> {
        let driven = self.driver.get()?.with(|engine| {
            if !engine.progress() {
                engine.inspect();
            }
            Some(engine.check_usable().map(|()| engine.calls.has_collectives()))
        });
        driven.unwrap_or_else(|| Err(Error::Aborted("the communicator has failed".to_owned())))
    }

    /// Looks at the network, and adopts what follows. All ranks do this before the same call, until its deadline.
    fn reconsider(&self, deadline: Instant) -> Result<()> {
        let adaptation = self.adaptation.as_ref().expect("only ranks that watch their network vote");
        let go_on: GoOn = Arc::new(|| Ok(()));
        let patience = Patience { start: Instant::now(), deadline, go_on: &go_on };
        while self.drive()? {
            patience.next(|| "earlier calls have not ended".to_owned())?;
            std::thread::sleep(DRIVE_INTERVAL);
        }
        let number = self.state.lock().calls + 1;
        let number = self.driver.get()?.with(|engine| engine.calls.shown(number));
        let mut ranks = CallExchange { communicator: self, patience, internal: true };
        if let Some(choices) = adaptation.reconsider(number, &mut ranks)? {
            self.state.lock().planner.replace(choices);
        }
        Ok(())
    }

    /// Lets the calls begin that are held, until the ranks vote again.
    fn begin_held(&self) {
        let (Ok(driver), Some(adaptation)) = (self.driver.get(), &self.adaptation) else { return };
        let held = driver.with(|engine| engine.calls.held_calls());
        let mut next_vote = None;
        let mut state = self.state.lock();
        let CommunicatorState { planner, calls, is_holding } = &mut *state;
        // Making plans takes long where the choices have changed: not while the engine is paused. They are kept.
        for call in &held {
            if !planner.is_current(call) {
                let _ = planner.prepare_again(call);
            }
        }
        let ended = driver.begin_held(|task| {
            let is_current = planner.is_current(task.call());
            let again = (!is_current).then(|| planner.prepare_again(task.call())).transpose()?;
            if !adaptation.before_call(task.call()) {
                next_vote = task.deadline;
                return Ok(false);
            }
            again.into_iter().for_each(|prepared| task.prepare_again(prepared));
            *calls += 1;
            task.number = *calls;
            task.tag = tag(self.rank, *calls, task.call());
            Ok(true)
        });
        *is_holding = next_vote.is_some();
        drop(state);
        driver.call_back(ended);
        if let Some(deadline) = next_vote {
            self.soon(move |communicator| {
                communicator.vote(deadline).unwrap_or_else(|error| communicator.give_up_held(&error));
            });
        }
    }

    /// Ends the calls that are held because the ranks cannot look at their network.
    pub(super) fn give_up_held(&self, error: &Error) {
        let number = self.state.lock().calls;
        if let Ok(driver) = self.driver.get() {
            driver.with(|engine| engine.late(number, format!("cannot look at the network: {error}")));
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
