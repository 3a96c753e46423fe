//! Before which call all ranks look at their network together.
//!
//! Ranks vote now and then: the vote is an allreduce of one number, 1 if a rank wants to look at the network. It is due once
//! the calls since the last one should have taken a while, which all ranks compute alike from the calls that they make. It
//! comes before a call in which every rank waits for every other one, so it waits for nobody for whom that call would not.
//!
//! **Starting a call waits for nobody.** The engine holds the call before which the ranks vote, and those that follow it. Its
//! handle is returned at once, and messages between two ranks go on. When the vote has ended, the ranks look at the network
//! if any of them wants to, and then the calls that are held begin, in their order. A thread that runs callbacks does this.
//!
//! No call is held for ever: a vote ends when all ranks have made the call before which they vote, which they must do anyway.
//! If they do not, the vote ends at that call's deadline, with an error that names those that are missing.

use std::time::{Duration, Instant};

use ringroad_core::Collective;

use super::{tag, Communicator, CommunicatorState, FOREVER};
use crate::calls::call::{CallKey, Operation, Prepared};
use crate::calls::request::Request;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, ReduceOp};
use crate::network::watch::{Sign, Suspicion};
use crate::os::scheduler::Cores;
use crate::transport::buffer::Memory;

/// How long the calls between two votes should take, at least: bytes at the rate of the slowest link, and a while for each
/// call. Mostly they take two to ten times as long, and a vote about a hundredth of that.
const PERIOD: Duration = Duration::from_millis(50);
const EACH_CALL: Duration = Duration::from_micros(50);
/// How long looking at the network may take besides what the settings allow.
const MEASUREMENT_ALLOWANCE: Duration = Duration::from_secs(10);

/// When the ranks vote. All numbers are the same on all ranks whenever they begin the same call.
pub(super) struct Quiesce {
    /// Bytes per second of the slowest link.
    rate: f64,
    /// What the calls since the last vote should have taken, in nanoseconds.
    since: u64,
    /// Whether calls are held.
    is_holding: bool,
}

/// What happens to a call that is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Begin,
    Hold,
    /// Hold it, and vote.
    Vote,
}

impl Quiesce {
    pub fn new(rate: f64) -> Quiesce {
        Quiesce { rate, since: 0, is_holding: false }
    }

    /// Whether a collective call begins at once. Calls are admitted in the order in which they are made.
    pub fn admit(&mut self, call: &Prepared) -> Admission {
        if self.is_holding {
            return Admission::Hold;
        }
        if self.is_due(call) {
            (self.is_holding, self.since) = (true, 0);
            return Admission::Vote;
        }
        self.count(call);
        Admission::Begin
    }

    fn is_due(&self, call: &Prepared) -> bool {
        u128::from(self.since) >= PERIOD.as_nanos() && waits_for_all(&call.key)
    }

    fn count(&mut self, call: &Prepared) {
        let bytes = call.key.total() * call.key.dtype.size();
        let nanoseconds = bytes as f64 / self.rate * 1e9 + EACH_CALL.as_nanos() as f64;
        self.since = self.since.saturating_add(nanoseconds as u64);
    }
}

/// Whether no rank can end this call before all have made it.
fn waits_for_all(key: &CallKey) -> bool {
    use Collective::{Allgather, Allreduce, Alltoall, ReduceScatter};
    match (key.operation, &key.counts) {
        (Operation::Barrier, _) => true,
        (Operation::Collective(Allreduce), _) => key.total() > 0,
        (Operation::Collective(Allgather | Alltoall | ReduceScatter), None) => key.elements > 0,
        (Operation::Collective(Allgather | Alltoall | ReduceScatter), Some(counts)) => {
            counts.iter().all(|count| *count > 0)
        }
        _ => false,
    }
}

impl Communicator {
    /// Starts a vote, before the first of the calls that are held. `deadline`: that of this call.
    pub(super) fn vote(&self, deadline: Instant) -> Result<()> {
        let (is_wanted, suspicion) = self.suspect();
        let operation = Operation::Collective(Collective::Allreduce);
        let own = Memory::of_slice(&[i64::from(is_wanted)]);
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
            communicator.soon(move |communicator| match communicator.reconsider(suspicion, deadline) {
                Ok(()) => communicator.begin_held(),
                Err(error) => communicator.give_up_held(&error),
            });
        }));
        Ok(())
    }

    /// Gives the calls that are held as much more time as looking at the network may take, and returns it.
    fn extend_held(&self) -> Duration {
        let budget = self.adaptation.as_ref().map_or(Duration::ZERO, |adaptation| adaptation.budget);
        let synthesis = self.means.as_ref().map_or(Duration::ZERO, |means| means.config.budget.synthesis);
        let more = budget + synthesis.min(FOREVER) + MEASUREMENT_ALLOWANCE;
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

    /// Whether this rank wants to look at the network, and what it suspects.
    fn suspect(&self) -> (bool, Option<Suspicion>) {
        let (Some(adaptation), Ok(driver)) = (&self.adaptation, self.driver.get()) else {
            return (false, None);
        };
        let (sign, is_due) = driver.with(Engine::take_sign);
        let suspected = |at: Cores| adaptation.present.lock().suspected.replace(at);
        let suspicion = match sign {
            Sign::Nothing => None,
            Sign::Changed(suspicion) => {
                suspected(Cores::now());
                Some(suspicion)
            }
            Sign::Unpredicted(suspicion) => {
                // Where cores are busy, calls take long on any network.
                if suspected(Cores::now()).is_some_and(|since| !since.were_busy()) && self.rank == 0 {
                    self.warn_of(adaptation, suspicion);
                }
                None
            }
        };
        let suspicion = suspicion.filter(|_| !adaptation.is_resting());
        (is_due || suspicion.is_some(), suspicion)
    }

    /// Lets the calls begin that are held, until the ranks vote again.
    fn begin_held(&self) {
        let Ok(driver) = self.driver.get() else { return };
        let held = driver.with(|engine| engine.calls.held_calls());
        let (mut is_first, mut next_vote) = (true, None);
        let mut state = self.state.lock();
        let CommunicatorState { planner, calls, quiesce: Some(quiesce) } = &mut *state else { return };
        // Making plans takes long where the choices have changed: not while the engine is paused. They are kept.
        for call in &held {
            if !planner.is_current(call) {
                let _ = planner.prepare_again(call);
            }
        }
        let ended = driver.begin_held(|task| {
            let is_current = planner.is_current(task.call());
            let again = (!is_current).then(|| planner.prepare_again(task.call())).transpose()?;
            // The first one is that for which the ranks have voted.
            if !is_first && quiesce.is_due(task.call()) {
                quiesce.since = 0;
                next_vote = task.deadline;
                return Ok(false);
            }
            is_first = false;
            again.into_iter().for_each(|prepared| task.prepare_again(prepared));
            quiesce.count(task.call());
            *calls += 1;
            task.number = *calls;
            task.tag = tag(self.rank, *calls, task.call());
            Ok(true)
        });
        quiesce.is_holding = next_vote.is_some();
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bootstrap::EndpointInfo;
    use crate::choice::options::Options;
    use crate::config::Config;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Two ranks, as if on two hosts, that vote before their next call.
    fn about_to_vote(timeout: Duration) -> Vec<Communicator> {
        let options = Options { timeout: Some(timeout), ..Options::default() };
        let mut group = Communicator::in_process(2, &Config::default(), &options).unwrap();
        let mut endpoints = group[0].endpoints().to_vec();
        for endpoint in &mut endpoints {
            let EndpointInfo { rank, net_space, adaptation, .. } = endpoint;
            (*net_space, *adaptation) = (format!("host {rank}"), Some(Duration::from_millis(10)));
        }
        for one in &mut group {
            one.endpoints = Arc::new(endpoints.clone());
            one.means = Some(Arc::default());
            one.watch_network().unwrap();
            one.state.lock().quiesce.as_mut().unwrap().since = u64::MAX;
        }
        group
    }

    fn allreduce(value: i64) -> Request {
        let operation = Operation::Collective(Collective::Allreduce);
        Request::new(operation, DType::I64, 1, Memory::of_slice(&[value]), Memory::zeroed(8))
    }

    /// All starts are made by one thread: none of them may wait for another rank.
    #[test]
    fn starting_a_call_waits_for_nobody() {
        for want_to_look in [false, true] {
            let group = about_to_vote(HOUR);
            for one in group.iter().filter(|_| want_to_look) {
                one.driver.get().unwrap().with(|engine| engine.look_at_network(Some(Instant::now())));
            }
            let start = |rank: usize, request: Request| {
                let work = group[rank].start(request).unwrap();
                work.let_proceed();
                work
            };
            // Many more calls than would have been held if rank 1 had come at once.
            let first: Vec<_> = (0..2000).map(|value| start(0, allreduce(value))).collect();
            assert!(first.iter().all(|work| !work.is_completed()), "rank 1 has made no call");
            let message = |operation, input, output| Request::new(operation, DType::I64, 1, input, output);
            let send = Operation::Send { peer: 1, tag: 0 };
            start(0, message(send, Memory::of_slice(&[7_i64]), Memory::nothing())).wait().unwrap();
            let receive = Operation::Receive { peer: 0, tag: 0 };
            let received = start(1, message(receive, Memory::nothing(), Memory::zeroed(8))).finish().unwrap();
            assert_eq!(received.to_vec::<i64>(), [7]);
            let second: Vec<_> = (0..2000).map(|value| start(1, allreduce(value))).collect();
            for (value, work) in first.into_iter().chain(second).enumerate() {
                assert_eq!(work.finish().unwrap().to_vec::<i64>(), [2 * (value as i64 % 2000)]);
            }
            // Each vote has a number, too, and so have the calls by which the ranks look.
            let numbers: Vec<u64> = group.iter().map(|one| one.state.lock().calls).collect();
            assert!(numbers[0] > 2000 && numbers[0] == numbers[1], "{numbers:?}");
        }
    }

    #[test]
    fn two_groups_may_be_called_in_different_orders() {
        let (one, other) = (about_to_vote(HOUR), about_to_vote(HOUR));
        let start = |group: &[Communicator], rank: usize| {
            let work = group[rank].start(allreduce(1)).unwrap();
            work.let_proceed();
            work
        };
        let works = [start(&one, 0), start(&other, 1), start(&other, 0), start(&one, 1)];
        works.into_iter().for_each(|work| assert_eq!(work.finish().unwrap().to_vec::<i64>(), [2]));
    }

    #[test]
    fn a_rank_that_does_not_come_is_named_at_the_deadline() {
        let group = about_to_vote(Duration::from_millis(50));
        let error = group[0].run(allreduce(1)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Timeout(_)) && text.contains("ringroad's own"), "{text}");
        assert!(text.contains("rank 1") && text.contains("Not in this call"), "{text}");
        assert!(group[0].run(allreduce(1)).is_err(), "the communicator has failed");
    }

    #[test]
    fn ranks_vote_only_where_all_wait_for_all() {
        let key =
            |collective, elements| CallKey::new(Operation::Collective(collective), DType::F32, elements);
        let blocks =
            |counts: &[usize]| CallKey { counts: Some(counts.into()), ..key(Collective::Allgather, 0) };
        assert!(waits_for_all(&CallKey::barrier()) && waits_for_all(&key(Collective::Allreduce, 1)));
        assert!(waits_for_all(&blocks(&[1, 2])) && !waits_for_all(&blocks(&[1, 0])));
        for no in [key(Collective::Broadcast { root: 0 }, 9), key(Collective::Allreduce, 0)] {
            assert!(!waits_for_all(&no), "{no:?}");
        }
    }
}
