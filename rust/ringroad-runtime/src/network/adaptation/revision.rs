//! What all ranks do when they have voted to look at their network: they measure the network again, and change their choices if it has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::changes::{Base, Changes, Difference, Observation};
use ringroad_core::discovery::Evidence;
use ringroad_core::units::rate_text;
use ringroad_core::{Collective, Rank};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::adaptation::{Adaptation, LookReason, NetworkChange, NetworkView, Present, Straggle};
use super::discovery::AllgatherExchange;
use super::patience::{GoOn, Patience};
use super::quiesce::Quiesce;
use super::Communicator;
use crate::bootstrap::{refused, unreadable};
use crate::calls::call::Operation;
use crate::calls::request::Request;
use crate::choice::agreement::{choose_again, slowest};
use crate::choice::choices::Choices;
use crate::config::Debug;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::network::watch::{Suspicion, Watch};
use crate::network::{self, DiscoveryLimits, Exchange};
use crate::os::messages::warn_once;
use crate::transport::buffer::Memory;

/// How often a rank drives its calls in flight while it waits.
const DRIVE_INTERVAL: Duration = Duration::from_millis(1);
/// A rank that was in its calls for less than this part of the time of others comes late.
const LATE: f64 = 0.5;

/// What rank 0 makes of what was measured.
#[derive(Serialize, Deserialize)]
struct RevisionDecision {
    /// How the network differs from what it was at first; `None` if nothing has changed since the last look.
    changes: Option<Changes>,
    /// What is different now.
    links: Vec<Difference>,
    /// What the ranks use from now on; `None` for what they used at first.
    choices: Option<Choices>,
    /// Why nothing changes, as far as can be told.
    note: String,
    /// The ranks that come late to calls, if nothing else has changed.
    late: Vec<Rank>,
    /// Whether that is not sure, so that the ranks look again.
    is_doubtful: bool,
}

impl RevisionDecision {
    fn nothing(note: String) -> RevisionDecision {
        RevisionDecision {
            changes: None,
            links: Vec::new(),
            choices: None,
            note,
            late: Vec::new(),
            is_doubtful: false,
        }
    }
}

impl Communicator {
    /// Follows changes of the network from now on, if its ranks are to watch it.
    pub(super) fn watch_network(&mut self) -> Result<()> {
        self.adaptation = Adaptation::for_ranks(&self.endpoints, &self.choices);
        if let Some(adaptation) = &self.adaptation {
            self.reporting.adaptation.get_or_init(|| Arc::downgrade(adaptation));
            self.driver.get()?.with(Engine::watch);
            self.state.lock().quiesce =
                Some(Quiesce::new(slowest(&self.choices.topology, self.choices.model.bandwidth)));
        }
        Ok(())
    }

    /// Says that calls take much longer than predicted, from the first on.
    pub(super) fn warn_of(&self, adaptation: &Adaptation, suspicion: Suspicion) {
        let topology = adaptation.present.lock().choices.topology.spec();
        let Suspicion { took, predicted, .. } = suspicion;
        let (collective, bytes) = suspicion.calls();
        let text = format!(
            "{}: {} of {} KiB and more takes {:.1} ms where {:.1} ms were predicted on {topology}: its rates may be \
             wrong, or ranks come late; `ringroad discover` shows what the network is, RINGROAD_TOPOLOGY names it",
            self.name,
            collective.name(),
            bytes >> 10,
            1e3 * took,
            1e3 * predicted
        );
        warn_once("unpredicted", &text);
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

    /// Measures and decides. All ranks do this before the same call, until its deadline.
    pub(super) fn reconsider(&self, suspicion: Option<Suspicion>, deadline: Instant) -> Result<()> {
        let adaptation = self.adaptation.as_ref().expect("only ranks that watch their network vote");
        let go_on: GoOn = Arc::new(|| Ok(()));
        let patience = Patience { start: Instant::now(), deadline, go_on: &go_on };
        while self.drive()? {
            patience.next(|| "earlier calls have not ended".to_owned())?;
            std::thread::sleep(DRIVE_INTERVAL);
        }
        let driver = self.driver.get()?;
        let number = self.state.lock().calls + 1;
        let number = driver.with(|engine| engine.calls.shown(number));
        let latest = driver.with(|engine| engine.with_watch(|watch| watch.latest()));
        driver.with(|engine| engine.with_watch(Watch::rest));
        let mut calls = AllgatherExchange { communicator: self, patience, internal: true };
        let told = calls.collect("suspicions", &told(latest, suspicion), MOST_TOLD)?;
        let (latest, reason) = heard(&told)?;
        let hosts = network::hosts(&self.endpoints);
        let leaders = network::leaders(&hosts);
        let first = &self.choices;
        let base = Base { topology: &first.topology, bandwidth: first.model.bandwidth, leaders: &leaders };
        let ports = self.means()?.config.tcp_ports;
        let limits = DiscoveryLimits {
            budget: adaptation.budget,
            ports,
            memory: None,
            rounds: usize::MAX,
            probes: Some(base.probes()),
        };
        let evidence = match network::gather(&mut calls, &self.endpoints, self.rank, &limits) {
            Ok(gathered) => Ok(gathered.evidence),
            // What cannot be used is the same on all ranks.
            Err(error) => {
                self.drive()?;
                Err(error)
            }
        };
        let decision = (self.rank == 0).then(|| match &evidence {
            Ok(evidence) => self.judge(adaptation, &base, evidence, &latest),
            Err(error) => RevisionDecision::nothing(error.to_string()),
        });
        let text =
            decision.map(|decision| serde_json::to_vec(&decision).expect("numbers and text can be written"));
        let text = self.share(text, patience)?;
        let decision = self.read(&text);
        let mut digest = Sha256::digest(&text).to_vec();
        digest.push(u8::from(decision.is_ok()));
        let all = calls.collect("decisions", &digest, digest.len())?;
        let agreed = all.iter().all(|one| *one == digest);
        let is_suspected = reason.is_some();
        match decision {
            Ok((decision, choices)) if agreed => {
                self.adopt(adaptation, (number, reason), decision, choices)?
            }
            other => {
                driver.with(|engine| engine.with_watch(Watch::restart));
                let why =
                    other.err().unwrap_or_else(|| "a rank cannot use what rank 0 has chosen".to_owned());
                self.log_line(&format!("before call {number}: nothing changes, because {why}"));
            }
        }
        let latest = adaptation.present.lock().history.last().map(|change| change.call);
        let due = adaptation.rest(latest == Some(number), is_suspected);
        driver.with(|engine| {
            engine.look_at_network(due);
            // What was noticed before this look.
            engine.take_sign();
        });
        Ok(())
    }

    /// On rank 0: what has changed, and what follows.
    fn judge(
        &self,
        adaptation: &Adaptation,
        base: &Base<'_>,
        evidence: &Evidence,
        latest: &[i64],
    ) -> RevisionDecision {
        let before = adaptation.present.lock().changes.clone();
        let Observation { changes: now, is_doubtful } =
            base.observe(&before, &evidence.traces, &evidence.rounds);
        if now.is_like(&before) && is_doubtful {
            let note = "some links are slow, but not in the same way each time: hosts may be busy";
            return RevisionDecision { is_doubtful, ..RevisionDecision::nothing(note.to_owned()) };
        }
        if now.is_like(&before) {
            let late = late(latest);
            let note = match &*list(&late) {
                "" => "the links are as before".to_owned(),
                ranks => format!("the links are as before; late to calls: {ranks}"),
            };
            return RevisionDecision { late, ..RevisionDecision::nothing(note) };
        }
        let choices = match now.is_empty() {
            true => Ok(None),
            false => self.choices_for(&now, base).map(Some),
        };
        match choices {
            Ok(choices) => RevisionDecision {
                links: now.since(&before, base),
                changes: Some(now),
                choices,
                is_doubtful,
                ..RevisionDecision::nothing(String::new())
            },
            Err(error) => RevisionDecision::nothing(format!("the network has changed, but {error}")),
        }
    }

    fn choices_for(&self, now: &Changes, base: &Base<'_>) -> Result<Choices> {
        let means = self.means()?;
        let topology = now.apply(base.topology)?;
        choose_again(&self.choices, topology, &means.config, &means.options, base.leaders.len())
    }

    /// Reads and checks what rank 0 has decided.
    fn read(&self, text: &[u8]) -> std::result::Result<(RevisionDecision, Arc<Choices>), String> {
        let mut decision: RevisionDecision =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
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
        (number, reason): (u64, Option<LookReason>),
        decision: RevisionDecision,
        choices: Arc<Choices>,
    ) -> Result<()> {
        let driver = self.driver.get()?;
        let Some(changes) = decision.changes else {
            let go_on = if decision.is_doubtful { Watch::restart } else { Watch::get_used };
            driver.with(|engine| engine.with_watch(go_on));
            self.log_line(&format!("before call {number}: {}", decision.note));
            if let (Some(reason), false) = (reason, decision.late.is_empty()) {
                let straggle = Straggle { call: number, ranks: decision.late, reason };
                adaptation.present.lock().stragglers.push(straggle);
            }
            return Ok(());
        };
        self.state.lock().planner.replace(choices.clone());
        driver.with(|engine| engine.with_watch(Watch::restart));
        let change = NetworkChange { call: number, links: decision.links, reason };
        self.log_line(&sentence(&change));
        let mut present = adaptation.present.lock();
        present.history.push(change);
        (present.choices, present.changes) = (choices, changes);
        Ok(())
    }

    /// One line on rank 0, for those who want to know.
    fn log_line(&self, text: &str) {
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
            let request = Request::new(operation, dtype, elements, input, output);
            self.run_patiently(request.internal(), patience)
        };
        let length = text.as_ref().map(|text| Memory::of_slice(&[text.len() as i64]));
        let length = broadcast(DType::I64, 1, length)?.to_vec::<i64>()[0].max(0) as usize;
        Ok(broadcast(DType::U8, length, text.map(|text| Memory::of_slice(&text)))?.to_vec())
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

    /// The current choices. A forked child sees the first ones.
    pub(super) fn present(&self) -> Arc<Choices> {
        let present = |adaptation: &Adaptation| {
            let present: &Present = &adaptation.present.lock();
            present.choices.clone()
        };
        self.adaptation().map_or_else(|| self.choices.clone(), present)
    }
}

/// What a rank tells the others before they look: how long it was in its latest calls, and what it suspects.
type ToldTimes = (f32, Option<[f32; 3]>);

/// More bytes than that takes.
const MOST_TOLD: usize = 256;

fn told(latest: f32, suspicion: Option<Suspicion>) -> Vec<u8> {
    let suspicion = suspicion.map(|Suspicion { ratio, took, predicted, .. }| [ratio, took, predicted]);
    serde_json::to_vec(&(latest, suspicion)).expect("numbers can be written")
}

/// How long each rank was in its latest calls, in microseconds, and the strongest reason to look.
fn heard(told: &[Vec<u8>]) -> Result<(Vec<i64>, Option<LookReason>)> {
    let mut latest = Vec::with_capacity(told.len());
    let mut strongest: Option<LookReason> = None;
    for (rank, text) in told.iter().enumerate() {
        let (seconds, suspicion): ToldTimes =
            serde_json::from_slice(text).map_err(|error| refused("suspicions", rank, unreadable(&error)))?;
        latest.push((1e6 * f64::from(seconds)) as i64);
        let reason = suspicion.map(|[ratio, took, predicted]| LookReason { rank, ratio, took, predicted });
        let is_stronger = |reason: &LookReason| strongest.is_none_or(|known| reason.ratio > known.ratio);
        strongest = reason.filter(is_stronger).or(strongest);
    }
    Ok((latest, strongest))
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

/// For example `before call 120: 0>1 carries 25 Mbit/s instead of 98.8 Mbit/s; ...`.
fn sentence(change: &NetworkChange) -> String {
    let link = |link: &Difference| match *link {
        Difference { source, target, before, now: 0.0 } => {
            format!("{source}>{target} is gone, which carried {}", rate_text(before))
        }
        Difference { source, target, before, now } => {
            format!("{source}>{target} carries {} instead of {}", rate_text(now), rate_text(before))
        }
    };
    let links: Vec<String> = change.links.iter().map(link).collect();
    let reason = change.reason.map_or(String::new(), |reason| {
        let LookReason { rank, ratio, took, predicted } = reason;
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
    use super::*;

    #[test]
    fn who_waits_least_comes_late() {
        assert_eq!(late(&[900, 1000, 100, 950]), [2]);
        assert_eq!(late(&[900, 100, 1000, 110]), [1, 3], "they share a host");
        for all in [&[900, 1000, 800, 950][..], &[0, 0], &[]] {
            assert!(late(all).is_empty(), "{all:?}");
        }
    }
}
