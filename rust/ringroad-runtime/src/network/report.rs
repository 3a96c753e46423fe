//! What rank 0 makes of what was found out, and what it tells the user of it.

use std::net::IpAddr;

use ringroad_core::discovery::{assemble, Evidence, FoundNetwork, How, Mismatch};
use ringroad_core::topology::Link;
use ringroad_core::units::rate_text;
use ringroad_core::Topology;

/// What rank 0 knows of the network, besides what the user says.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryReport {
    pub found: Option<FoundNetwork>,
    /// How it differs from the network that the user names.
    pub mismatch: Option<Mismatch>,
    /// The bandwidth that the slowest NIC states, in bytes per second, where nothing was measured.
    pub stated: Option<f64>,
    /// Why nothing was found out, if that was tried.
    pub failure: Option<String>,
    /// How many hosts there are, each with a network of its own; 0 if that does not matter.
    pub hosts: usize,
}

impl DiscoveryReport {
    /// One line for the user: what is known or assumed of a network that nobody has named.
    pub fn sentence(&self, topology: &Topology) -> String {
        let hosts = self.hosts;
        let known = match (&self.found, &self.failure) {
            (Some(found), _) => {
                let measured = found.links.iter().filter(|link| link.how == How::Measured);
                let rates = measured.map(|link| link.bytes_per_second);
                format!("discovered {topology} ({hosts} hosts{})", rates_text(rates))
            }
            (None, failure) => {
                let rates = topology.links().iter().map(Link::bytes_per_second);
                let why = failure.as_deref().unwrap_or("RINGROAD_TOPOLOGY=off");
                format!("unknown network ({why}); assuming {topology} ({hosts} hosts{})", rates_text(rates))
            }
        };
        let notes = self.found.iter().flat_map(|found| &found.notes).map(|note| format!("; {note}"));
        format!(
            "{known}{}; `ringroad discover` shows more, RINGROAD_TOPOLOGY overrides it",
            notes.collect::<String>()
        )
    }

    /// What is to be said of it.
    pub fn notes(&self) -> Vec<String> {
        let found = self.found.iter().flat_map(|found| found.notes.iter().cloned());
        found.chain(self.failure.clone()).collect()
    }
}

/// What was found out.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    pub evidence: Evidence,
    /// For each host, the address by which most others reach it; `None` if none does.
    pub main: Vec<Option<IpAddr>>,
    /// For each host, the bandwidth that the NIC of this address states in bytes per second.
    pub stated: Vec<Option<f64>>,
}

impl Gathered {
    /// The bytes per second of the slowest flow.
    pub fn slowest(&self) -> Option<f64> {
        let flows = self.evidence.rounds.iter().flat_map(|round| &round.flows);
        flows.map(|flow| flow.bytes_per_second).reduce(f64::min)
    }

    /// Whether any trace has come to its end. If none has, what rates alone suggest is not to be relied on.
    fn shows_paths(&self) -> bool {
        self.evidence.traces.iter().any(|trace| trace.reached && !trace.hops.is_empty())
    }

    /// What rank 0 makes of it.
    pub fn report(&self) -> DiscoveryReport {
        let stated = self.stated.iter().flatten().copied().reduce(f64::min);
        let hosts = self.evidence.hosts.len();
        if hosts > 1 && !self.shows_paths() {
            let slowest = self.slowest().filter(|rate| *rate > 0.0);
            let failure = Some("no trace has reached another host; a firewall may drop datagrams".to_owned());
            return DiscoveryReport {
                stated: slowest.or(stated),
                failure,
                hosts,
                ..DiscoveryReport::default()
            };
        }
        match found(&self.evidence) {
            Ok(found) => DiscoveryReport { found: Some(found), stated, hosts, ..DiscoveryReport::default() },
            Err(error) => {
                DiscoveryReport { stated, failure: Some(error), hosts, ..DiscoveryReport::default() }
            }
        }
    }
}

/// What follows from the evidence; otherwise why nothing does.
pub(crate) fn found(evidence: &Evidence) -> std::result::Result<FoundNetwork, String> {
    assemble(evidence).map_err(|error| error.to_string())
}

/// The range of these rates, which are in bytes per second.
fn rates_text(rates: impl Iterator<Item = f64> + Clone) -> String {
    let (least, most) = (rates.clone().reduce(f64::min), rates.reduce(f64::max));
    match least.zip(most).map(|(least, most)| (rate_text(least), rate_text(most))) {
        None => String::new(),
        Some((least, most)) if least == most => format!(", {least} links"),
        Some((least, most)) => format!(", {least} to {most} links"),
    }
}
