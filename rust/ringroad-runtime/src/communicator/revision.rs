//! What all ranks do when they have halted: they measure the network again, and change their choices if it has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::changes::{Base, Changes, Difference, Observation};
use ringroad_core::discovery::Evidence;
use ringroad_core::{Collective, Rank};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::adaptation::{Adaptation, NetworkChange, NetworkView, Present, Reason, Straggle};
use super::discovery::Calls;
use super::patience::{GoOn, Patience, SLICE};
use super::{Communicator, FOREVER};
use crate::calls::call::Operation;
use crate::calls::request::Request;
use crate::choice::agreement::choose_again;
use crate::choice::choices::Choices;
use crate::config::Debug;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::network::pace::Arrival;
use crate::network::watch::Watch;
use crate::network::{self, Limits};
use crate::transport::buffer::Memory;

/// How often a rank drives its calls in flight while it waits.
const LOOK: Duration = Duration::from_millis(1);
/// How long a rank waits for rank 0 before it looks whether that still exists.
const DOUBT: Duration = Duration::from_secs(2);
/// A rank that was in its calls for less than this part of the time of others comes late.
const LATE: f64 = 0.5;

/// What rank 0 makes of what was measured.
#[derive(Serialize, Deserialize)]
struct Decision {
    /// How the network differs from what it was at first; `None` if nothing has changed since the last look.
    changes: Option<Changes>,
    /// What is different now.
    links: Vec<Difference>,
    reason: Option<Reason>,
    /// What the ranks use from now on; `None` for what they used at first.
    choices: Option<Choices>,
    /// Why nothing changes, as far as can be told.
    note: String,
    /// Who comes late to calls, if nothing else has changed.
    late: Vec<Rank>,
    /// Whether that is not sure, so that the ranks look again.
    is_doubtful: bool,
}

impl Decision {
    fn nothing(note: String) -> Decision {
        Decision {
            changes: None,
            links: Vec::new(),
            reason: None,
            choices: None,
            note,
            late: Vec::new(),
            is_doubtful: false,
        }
    }
}

impl Communicator {
    /// Whether something may have to be done before the next collective call.
    #[inline]
    pub fn must_heed(&self) -> bool {
        !self.pace.is_free(u64::MAX - 1)
    }

    /// Does what has to be done before the next collective call: mostly nothing. Calls do it themselves; who waits here
    /// can be interrupted.
    pub fn heed(&self, timeout: Option<Duration>, go_on: &GoOn) -> Result<()> {
        let Some(adaptation) = &self.adaptation else { return Ok(()) };
        let halted = self.halt(adaptation, timeout, go_on);
        if let Err(Error::Timeout(message)) = &halted {
            // The others count a call that this rank does not make.
            let number = self.state.lock().calls + 1;
            self.driver.get()?.with(|engine| engine.late(number, message.clone()));
        }
        halted
    }

    fn halt(&self, adaptation: &Adaptation, timeout: Option<Duration>, go_on: &GoOn) -> Result<()> {
        let patience = Patience::new(timeout.unwrap_or(self.timeout).min(FOREVER), go_on);
        let mut since = None;
        loop {
            let number = self.state.lock().calls + 1;
            match self.pace.arrive(number) {
                Arrival::Start => return Ok(()),
                Arrival::LookInto(sign) => adaptation.look_into(sign),
                Arrival::Wait => {
                    self.wait_for_word(adaptation, since.get_or_insert_with(Instant::now), patience)?
                }
                Arrival::Halt => {
                    let done = self.reconsider(adaptation, number, patience);
                    self.pace.leave();
                    done?;
                }
            }
        }
    }

    /// Waits a little for what rank 0 says, or for another thread of this rank.
    fn wait_for_word(
        &self,
        adaptation: &Adaptation,
        since: &mut Instant,
        patience: Patience<'_>,
    ) -> Result<()> {
        patience.next(|| "rank 0 has not said before which call all ranks halt".to_owned())?;
        let end = Instant::now() + SLICE;
        while Instant::now() < end {
            self.pace.wait(LOOK);
            self.drive()?;
            let number = self.state.lock().calls + 1;
            if !self.pace.is_waiting(number) {
                return Ok(());
            }
        }
        if self.rank > 0 && since.elapsed() > DOUBT {
            *since = Instant::now();
            if adaptation.has_lost_rank_0() {
                self.pace.give_up();
            }
        }
        Ok(())
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

    /// Measures and decides. All ranks call this before the same call.
    fn reconsider(&self, adaptation: &Adaptation, number: u64, patience: Patience<'_>) -> Result<()> {
        while self.drive()? {
            patience.next(|| "earlier calls have not ended".to_owned())?;
            self.pace.wait(LOOK);
        }
        let driver = self.driver.get()?;
        let latest = driver.with(|engine| engine.with_watch(|watch| watch.latest()));
        driver.with(|engine| engine.with_watch(Watch::rest));
        let latest = self.tell_all(&[(1e6 * f64::from(latest)) as i64], patience)?;
        let hosts = network::hosts(&self.endpoints);
        let leaders = network::leaders(&hosts);
        let first = &self.choices;
        let base = Base { topology: &first.topology, bandwidth: first.model.bandwidth, leaders: &leaders };
        let ports = self.means()?.config.tcp_ports;
        let limits = Limits {
            budget: adaptation.budget,
            ports,
            memory: None,
            rounds: usize::MAX,
            probes: Some(base.probes()),
        };
        let mut calls = Calls { communicator: self, patience };
        let evidence = match network::gather(&mut calls, &self.endpoints, self.rank, &limits) {
            Ok(gathered) => Ok(gathered.evidence),
            // What cannot be used is the same on all ranks.
            Err(error) => {
                self.drive()?;
                Err(error)
            }
        };
        let decision = (self.rank == 0).then(|| match &evidence {
            Ok(evidence) => self.evaluator(adaptation, &base, evidence, &latest),
            Err(error) => Decision::nothing(error.to_string()),
        });
        let text =
            decision.map(|decision| serde_json::to_vec(&decision).expect("numbers and text can be written"));
        let text = self.share(text, patience)?;
        let decision = self.read(&text);
        let digest = Sha256::digest(&text);
        let digest = i64::from_le_bytes(*digest.first_chunk().expect("a digest is longer"));
        let all = self.tell_all(&[i64::from(decision.is_ok()), digest], patience)?;
        let agreed = all.chunks(2).all(|one| one == [1, digest]);
        match decision {
            Ok((decision, choices)) if agreed => self.adopt(adaptation, number, decision, choices)?,
            other => {
                driver.with(|engine| engine.with_watch(Watch::restart));
                let why =
                    other.err().unwrap_or_else(|| "a rank cannot use what rank 0 has chosen".to_owned());
                self.say(&format!("before call {number}: nothing changes, because {why}"));
            }
        }
        if self.rank == 0 {
            let latest = adaptation.present.lock().history.last().map(|change| change.call);
            adaptation.rest(latest == Some(number));
            let due = adaptation.due();
            driver.with(|engine| engine.look_at_network(due));
        }
        Ok(())
    }

    /// On rank 0: what has changed, and what follows.
    fn evaluator(
        &self,
        adaptation: &Adaptation,
        base: &Base<'_>,
        evidence: &Evidence,
        latest: &[i64],
    ) -> Decision {
        let before = adaptation.present.lock().changes.clone();
        let Observation { changes: now, is_doubtful } =
            base.observe(&before, &evidence.traces, &evidence.rounds);
        if now.is_like(&before) && is_doubtful {
            let note = "some links are slow, but not in the same way each time: hosts may be busy";
            return Decision { is_doubtful, ..Decision::nothing(note.to_owned()) };
        }
        if now.is_like(&before) {
            let (late, reason) = (late(latest), adaptation.reason());
            let note = match &*list(&late) {
                "" => "the links are as before".to_owned(),
                ranks => format!("the links are as before; late to calls: {ranks}"),
            };
            return Decision { late, reason, ..Decision::nothing(note) };
        }
        let choices = match now.is_empty() {
            true => Ok(None),
            false => self.choices_for(&now, base).map(Some),
        };
        match choices {
            Ok(choices) => Decision {
                links: now.since(&before, base),
                changes: Some(now),
                reason: adaptation.reason(),
                choices,
                is_doubtful,
                ..Decision::nothing(String::new())
            },
            Err(error) => Decision::nothing(format!("the network has changed, but {error}")),
        }
    }

    fn choices_for(&self, now: &Changes, base: &Base<'_>) -> Result<Choices> {
        let means = self.means()?;
        let topology = now.apply(base.topology)?;
        choose_again(&self.choices, topology, &means.config, &means.options, base.leaders.len())
    }

    /// Reads and checks what rank 0 has decided.
    fn read(&self, text: &[u8]) -> std::result::Result<(Decision, Arc<Choices>), String> {
        let mut decision: Decision = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let choices = match decision.choices.take() {
            None => self.choices.clone(),
            Some(choices) => {
                choices.check(self.size(), self.choices.place.per_host)?;
                Arc::new(choices)
            }
        };
        Ok((decision, choices))
    }

    /// All ranks do this before the same call.
    fn adopt(
        &self,
        adaptation: &Adaptation,
        number: u64,
        decision: Decision,
        choices: Arc<Choices>,
    ) -> Result<()> {
        let driver = self.driver.get()?;
        let Some(changes) = decision.changes else {
            let go_on = if decision.is_doubtful { Watch::restart } else { Watch::get_used };
            driver.with(|engine| engine.with_watch(go_on));
            self.say(&format!("before call {number}: {}", decision.note));
            if let (Some(reason), false) = (decision.reason, decision.late.is_empty()) {
                let straggle = Straggle { call: number, ranks: decision.late, reason };
                adaptation.present.lock().stragglers.push(straggle);
            }
            return Ok(());
        };
        self.state.lock().planner.replace(choices.clone());
        driver.with(|engine| engine.with_watch(Watch::restart));
        let change = NetworkChange { call: number, links: decision.links, reason: decision.reason };
        self.say(&sentence(&change));
        let mut present = adaptation.present.lock();
        present.history.push(change);
        (present.choices, present.changes) = (choices, changes);
        Ok(())
    }

    /// One line on rank 0, for those who want to know.
    fn say(&self, text: &str) {
        if self.rank == 0 && self.debug >= Debug::Info {
            eprintln!("ringroad: {}: {text}", self.name);
        }
    }

    /// Rank 0's text, on all ranks.
    fn share(&self, text: Option<Vec<u8>>, patience: Patience<'_>) -> Result<Vec<u8>> {
        let operation = Operation::Collective(Collective::Broadcast { root: 0 });
        let broadcast = |dtype: DType, elements: usize, value: Option<Memory>| {
            let output = Memory::zeroed(elements * dtype.size());
            let input = value.unwrap_or_else(Memory::nothing);
            self.run_patiently(Request::new(operation, dtype, elements, input, output), patience)
        };
        let length = text.as_ref().map(|text| Memory::of(&[text.len() as i64]));
        let length = broadcast(DType::I64, 1, length)?.to_vec::<i64>()[0].max(0) as usize;
        Ok(broadcast(DType::U8, length, text.map(|text| Memory::of(&text)))?.to_vec())
    }

    /// The network as the ranks see it now.
    pub fn network(&self) -> NetworkView {
        let choices = self.present();
        let (changes, stragglers) = self.adaptation().map(Adaptation::seen).unwrap_or_default();
        NetworkView {
            topology: choices.topology.clone(),
            origin: choices.origin,
            watched: self.adaptation.is_some(),
            mismatch: choices.mismatch.clone(),
            changes,
            stragglers,
            connections: self
                .driver
                .get()
                .map(|driver| driver.with(|engine| engine.transport().connections()))
                .unwrap_or_default(),
        }
    }

    /// `None` in a forked child, too, where another thread may have held its locks.
    fn adaptation(&self) -> Option<&Adaptation> {
        self.adaptation.as_deref().filter(|_| self.driver.get().is_ok())
    }

    /// The choices of now. A forked child sees those of the beginning.
    pub(super) fn present(&self) -> Arc<Choices> {
        let present = |adaptation: &Adaptation| {
            let present: &Present = &adaptation.present.lock();
            present.choices.clone()
        };
        self.adaptation().map_or_else(|| self.choices.clone(), present)
    }
}

/// The ranks that were in their latest calls for much less time than the others, since these waited for them. A slow host
/// makes all of its ranks late.
fn late(microseconds: &[i64]) -> Vec<Rank> {
    let mut sorted = microseconds.to_vec();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).map_or(0.0, |usual| *usual as f64);
    let is_late = |rank: &Rank| (microseconds[*rank] as f64) < LATE * usual;
    (0..microseconds.len()).filter(is_late).collect()
}

/// For example `rank 1, rank 2`.
fn list(ranks: &[Rank]) -> String {
    ranks.iter().map(|rank| format!("rank {rank}")).collect::<Vec<_>>().join(", ")
}

/// For example `before call 120: 0>1 carries 25.0 instead of 100.0 Mbit/s; ...`.
fn sentence(change: &NetworkChange) -> String {
    let rate = |rate: f64| 8e-6 * rate;
    let link = |link: &Difference| match *link {
        Difference { source, target, before, now: 0.0 } => {
            format!("{source}>{target} is gone, which carried {:.1} Mbit/s", rate(before))
        }
        Difference { source, target, before, now } => {
            format!("{source}>{target} carries {:.1} instead of {:.1} Mbit/s", rate(now), rate(before))
        }
    };
    let links: Vec<String> = change.links.iter().map(link).collect();
    let reason = change.reason.map_or(String::new(), |reason| {
        let Reason { rank, ratio, took, predicted } = reason;
        format!(
            " (calls of rank {rank} took {ratio:.2} times as long as usual: {:.1} ms where {:.1} were predicted)",
            1e3 * took,
            1e3 * predicted
        )
    });
    format!("before call {} the network has changed: {}{reason}", change.call, links.join(", "))
}

#[cfg(test)]
mod tests {
    use ringroad_core::halt::Question;

    use super::*;
    use crate::bootstrap::Handle;
    use crate::choice::options::Options;
    use crate::config::Config;

    /// Who does not make a call in time makes no other: the others would take the next one for it.
    #[test]
    #[cfg_attr(miri, ignore = "it reads the machine")]
    fn who_is_late_before_a_call_makes_no_other() {
        let mut config = Config::default();
        config.budget.adaptation = Some(Duration::from_millis(10));
        let options = Options { timeout: Some(Duration::from_millis(50)), ..Options::default() };
        let mut all = Communicator::in_process(2, &config, &options).unwrap();
        let mut endpoints = all[1].endpoints().to_vec();
        for endpoint in &mut endpoints {
            endpoint.net_space = format!("host {}", endpoint.rank);
            endpoint.handle = Some(Handle::for_machine(None).unwrap());
        }
        all[1].endpoints = Arc::new(endpoints);
        all[1].adaptation = Adaptation::of(&all[1], &config);
        all[1].pace.answer(Question::Pause { round: 1, margin: 0 }, 1);
        let error = all[1].run(Request::barrier()).unwrap_err();
        assert!(
            matches!(&error, Error::Timeout(message) if message.contains("rank 0 has not said")),
            "{error}"
        );
        all[1].pace.give_up();
        let error = all[1].run(Request::barrier()).unwrap_err();
        assert!(matches!(&error, Error::Aborted(message) if message.contains("failed earlier")), "{error:?}");
    }

    #[test]
    fn who_waits_least_comes_late() {
        assert_eq!(late(&[900, 1000, 100, 950]), [2]);
        assert_eq!(late(&[900, 100, 1000, 110]), [1, 3], "they share a host");
        for all in [&[900, 1000, 800, 950][..], &[0, 0], &[]] {
            assert!(late(all).is_empty(), "{all:?}");
        }
    }
}
