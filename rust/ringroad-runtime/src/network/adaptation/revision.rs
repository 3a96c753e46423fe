//! What all ranks do when they have voted to look at their network: they measure the network again, and change their choices if it has changed.

use std::sync::Arc;

use ringroad_core::changes::{Base, Changes, Difference, Observation};
use ringroad_core::discovery::Evidence;
use ringroad_core::units::rate_text;
use ringroad_core::Rank;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::watch::{Suspicion, Watch};
use super::Follower;
use crate::adaptation::{LookReason, NetworkChange, Straggle};
use crate::bootstrap::{hosts, leaders, refused, unreadable, Exchange};
use crate::choice::agreement::choose_again;
use crate::choice::choices::Choices;
use crate::config::Debug;
use crate::error::Result;
use crate::network::{self, DiscoveryLimits};
use crate::os::messages::print_message;

/// A rank that was in its calls for less than this part of the time of others comes late.
const LATE: f64 = 0.5;

/// What rank 0 makes of what was measured.
#[derive(Default, Serialize, Deserialize)]
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
        RevisionDecision { note, ..RevisionDecision::default() }
    }
}

impl Follower {
    /// Measures and decides. All ranks do this before the same call. Returns what they use from now on, if the network has
    /// changed.
    pub(super) fn revise(&self, call: u64, ranks: &mut dyn Exchange) -> Result<Option<Arc<Choices>>> {
        let suspicion = self.known.lock().suspicion.take();
        let latest = self.with_watch(|watch| {
            watch.rest();
            watch.latest()
        });
        let told = ranks.collect("suspicions", &told(latest, suspicion), MOST_TOLD)?;
        let (latest, reason) = heard(&told)?;
        let (endpoints, first) = (&self.group.endpoints, &self.group.choices);
        let leaders = leaders(&hosts(endpoints));
        let base = Base { topology: &first.topology, bandwidth: first.model.bandwidth, leaders: &leaders };
        let limits = DiscoveryLimits {
            budget: self.budget,
            ports: self.group.means.config.tcp_ports,
            memory: None,
            rounds: usize::MAX,
            probes: Some(base.probes()),
        };
        // What cannot be used is the same on all ranks. If the communicator has failed, the next call says so.
        let evidence = network::gather(ranks, endpoints, self.group.rank, &limits);
        let decision = (self.group.rank == 0).then(|| match &evidence {
            Ok(gathered) => self.judge(&base, &gathered.evidence, &latest),
            Err(error) => RevisionDecision::nothing(error.to_string()),
        });
        let text =
            decision.map(|decision| serde_json::to_vec(&decision).expect("numbers and text can be written"));
        let text = ranks.share("decision", text)?;
        let decision = self.read(&text);
        let mut digest = Sha256::digest(&text).to_vec();
        digest.push(u8::from(decision.is_ok()));
        let all = ranks.collect("decisions", &digest, digest.len())?;
        let agreed = all.iter().all(|one| *one == digest);
        let is_suspected = reason.is_some();
        let adopted = match decision {
            Ok((decision, choices)) if agreed => self.adopt((call, reason), decision, choices),
            other => {
                self.with_watch(Watch::restart);
                let why =
                    other.err().unwrap_or_else(|| "a rank cannot use what rank 0 has chosen".to_owned());
                self.log_line(&format!("before call {call}: nothing changes, because {why}"));
                None
            }
        };
        self.rest(adopted.is_some(), is_suspected);
        Ok(adopted)
    }

    /// Does something with what the times of calls have shown.
    fn with_watch<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> T {
        act(&mut self.watching.lock().watch)
    }

    /// On rank 0: what has changed, and what follows.
    fn judge(&self, base: &Base<'_>, evidence: &Evidence, latest: &[i64]) -> RevisionDecision {
        let before = self.known.lock().changes.clone();
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
        let topology = now.apply(base.topology)?;
        let (first, means) = (&self.group.choices, &self.group.means);
        choose_again(first, topology, &means.config, &means.options, base.leaders.len())
    }

    /// Reads and checks what rank 0 has decided.
    fn read(&self, text: &[u8]) -> std::result::Result<(RevisionDecision, Arc<Choices>), String> {
        let mut decision: RevisionDecision =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let choices = match decision.choices.take() {
            None => self.group.choices.clone(),
            Some(choices) => {
                choices.check(self.group.endpoints.len(), self.group.choices.place.per_host)?;
                Arc::new(choices)
            }
        };
        Ok((decision, choices))
    }

    /// All ranks do this before the same call. Returns the choices if the network has changed.
    fn adopt(
        &self,
        (number, reason): (u64, Option<LookReason>),
        decision: RevisionDecision,
        choices: Arc<Choices>,
    ) -> Option<Arc<Choices>> {
        let Some(changes) = decision.changes else {
            let go_on = if decision.is_doubtful { Watch::restart } else { Watch::get_used };
            self.with_watch(go_on);
            self.log_line(&format!("before call {number}: {}", decision.note));
            if let (Some(reason), false) = (reason, decision.late.is_empty()) {
                let straggle = Straggle { call: number, ranks: decision.late, reason };
                self.known.lock().present.stragglers.push(straggle);
            }
            return None;
        };
        self.with_watch(Watch::restart);
        let change = NetworkChange { call: number, links: decision.links, reason };
        self.log_line(&sentence(&change));
        let mut known = self.known.lock();
        known.present.changes.push(change);
        (known.present.choices, known.changes) = (choices.clone(), changes);
        Some(choices)
    }

    /// One line on rank 0, for those who want to know.
    fn log_line(&self, text: &str) {
        if self.group.rank == 0 && self.group.means.config.debug >= Debug::Info {
            print_message(&format!("{}: {text}", self.group.name));
        }
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
