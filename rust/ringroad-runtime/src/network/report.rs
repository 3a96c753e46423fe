//! What rank 0 makes of what was found out.

use std::net::IpAddr;

use ringroad_core::discovery::{assemble, Evidence, FoundNetwork};

use crate::choice::report::DiscoveryReport;

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
        let mut report = DiscoveryReport { stated, hosts, ..DiscoveryReport::default() };
        if hosts > 1 && !self.shows_paths() {
            report.stated = self.slowest().filter(|rate| *rate > 0.0).or(stated);
            let failure = "no trace has reached another host; a firewall may drop datagrams";
            report.failure = Some(failure.to_owned());
            return report;
        }
        match found(&self.evidence) {
            Ok(found) => report.found = Some(found),
            Err(error) => report.failure = Some(error),
        }
        report
    }
}

/// What follows from the evidence; otherwise why nothing does.
pub(crate) fn found(evidence: &Evidence) -> std::result::Result<FoundNetwork, String> {
    assemble(evidence).map_err(|error| error.to_string())
}
