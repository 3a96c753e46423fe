//! What was measured of a network, in a file for the next job on the same hosts.
//!
//! A file belongs to hosts with these network namespaces and addresses; a kernel that has started again has other
//! namespaces. What it says is used only if the routes are still the same and some flows are as fast as they were.

use std::path::{Path, PathBuf};

use ringroad_core::discovery::{Evidence, Flow, TracedRoute};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bootstrap::hex;
use crate::os::kept::{FileKind, KeptFiles};

/// How much slower or faster a flow may be now.
const TOLERANCE: f64 = 0.15;
const KIND: FileKind = FileKind {
    suffix: ".network",
    mark: r#"{"ringroad":"network","#,
    // Hosts that start again, and containers, leave files behind that nobody reads again.
    most_files: 64,
    advice: "the network is measured again; RINGROAD_CACHE=none keeps nothing",
};

#[derive(Serialize, Deserialize)]
struct Remembered {
    /// The kind of file.
    ringroad: String,
    /// Whose network it is.
    place: String,
    evidence: Evidence,
}

/// The file for hosts in these network namespaces.
pub(super) struct HistoryFile {
    kept: KeptFiles,
    file: PathBuf,
    place: String,
}

impl HistoryFile {
    pub fn in_directory(directory: &Path, spaces: &[String], evidence: &Evidence) -> HistoryFile {
        let addresses: Vec<_> = evidence.hosts.iter().map(|host| &host.addresses).collect();
        let whole = (spaces, addresses, &evidence.host_of);
        let text = serde_json::to_vec(&whole).expect("numbers and text can be written");
        let place = hex(&Sha256::digest(&text)[..16]);
        let file = directory.join(format!("{place}{}", KIND.suffix));
        HistoryFile { kept: KeptFiles { folder: directory.to_owned(), kind: &KIND }, file, place }
    }

    /// What was measured then, if the routes are the same as now; of hops that do not answer now, it says who answered
    /// then.
    pub fn recall(&self, now: &Evidence) -> Option<Evidence> {
        let read = |file: &mut _| serde_json::from_reader(file).map_err(|error| error.to_string());
        let remembered: Remembered = self.kept.recall(&self.file, read)?;
        let mut then = remembered.evidence;
        let hosts = now.hosts.len();
        let known = |flow: &Flow| flow.from < hosts && flow.to < hosts && flow.bytes_per_second > 0.0;
        let sensible = then.rounds.iter().flat_map(|round| &round.flows).all(known)
            && then.latencies.iter().all(|one| one.from < hosts && one.to < hosts);
        let same = then.traces.len() == now.traces.len() && then.traces.iter().zip(&now.traces).all(alike);
        for (then, now) in then.traces.iter_mut().zip(&now.traces) {
            then.reached = now.reached;
            then.hops.iter_mut().zip(&now.hops).for_each(|(hop, now)| *hop = now.or(*hop));
        }
        (remembered.place == self.place && sensible && same).then_some(then)
    }

    /// Writes what was measured, if possible. Several jobs may do so at the same time.
    pub fn store(&self, evidence: &Evidence) {
        let (place, evidence) = (self.place.clone(), evidence.clone());
        let remembered = Remembered { ringroad: "network".to_owned(), place, evidence };
        let text = serde_json::to_vec(&remembered).expect("numbers and text can be written");
        // The next job measures anew if it cannot be stored.
        let _ = self.kept.keep(&self.file, &[&text]);
    }
}

/// Whether two traces of a route agree, where both say something.
fn alike((then, now): (&TracedRoute, &TracedRoute)) -> bool {
    let hops = then.hops.iter().zip(&now.hops).all(|(a, b)| a.is_none() || b.is_none() || a == b);
    (then.from, then.to, then.hops.len()) == (now.from, now.to, now.hops.len()) && hops
}

/// Some flows that do not share a host, and how fast they were.
pub(super) fn sample(then: &Evidence) -> Vec<Flow> {
    let Some(first) = then.rounds.first() else { return Vec::new() };
    let mut chosen: Vec<Flow> = Vec::new();
    for flow in &first.flows {
        let apart =
            |other: &Flow| ![other.from, other.to].iter().any(|host| [flow.from, flow.to].contains(host));
        if chosen.iter().all(apart) {
            chosen.push(*flow);
        }
    }
    chosen
}

/// Whether each of these flows is as fast as it was.
pub(super) fn still_holds(then: &[Flow], now: &[Flow]) -> bool {
    let as_fast = |then: &Flow| {
        let same = now.iter().find(|now| (now.from, now.to) == (then.from, then.to));
        same.is_some_and(|now| (now.bytes_per_second / then.bytes_per_second - 1.0).abs() < TOLERANCE)
    };
    !then.is_empty() && then.iter().all(as_fast)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use ringroad_core::discovery::{HostFacts, Round};

    use super::*;
    use crate::os::random::token;

    fn evidence(rate: f64) -> Evidence {
        let host = |number: u8| HostFacts { name: String::new(), addresses: vec![[10, 0, 0, number].into()] };
        let hop = |number: u8| Some([10, 0, 0, number].into());
        let flow = |from, to| Flow { from, to, bytes_per_second: rate, spread: 0.0, starved: false };
        Evidence {
            hosts: vec![host(1), host(2)],
            host_of: vec![0, 1],
            traces: vec![
                TracedRoute { from: 0, to: 1, hops: vec![hop(2)], reached: true },
                TracedRoute { from: 1, to: 0, hops: vec![hop(1)], reached: true },
            ],
            rounds: vec![Round { flows: vec![flow(0, 1), flow(1, 0)] }],
            latencies: Vec::new(),
        }
    }

    #[test]
    fn what_was_measured_is_recalled_on_the_same_hosts() {
        let directory = std::env::temp_dir().join(format!("ringroad-networks-{:016x}", token()));
        let spaces = ["a".to_owned(), "b".to_owned()];
        let now = Evidence { rounds: Vec::new(), ..evidence(1.0) };
        let memory = HistoryFile::in_directory(&directory, &spaces, &now);
        assert!(memory.recall(&now).is_none());
        memory.store(&evidence(100.0));
        let then = memory.recall(&now).expect("it was stored");
        let sample = sample(&then);
        assert_eq!(sample.len(), 1, "flows that share no host");
        assert!(still_holds(&sample, &evidence(95.0).rounds[0].flows));
        assert!(!still_holds(&sample, &evidence(50.0).rounds[0].flows));
        assert!(!still_holds(&sample, &[]));
        // Other namespaces, and another route.
        assert!(HistoryFile::in_directory(&directory, &["a".to_owned(), "c".to_owned()], &now)
            .recall(&now)
            .is_none());
        let mut elsewhere = now.clone();
        elsewhere.traces[0].hops.push(None);
        assert!(memory.recall(&elsewhere).is_none());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
