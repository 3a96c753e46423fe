//! What rank 0 knows of the network, as plain data, and what it tells the user of it.

use ringroad_core::discovery::{FoundNetwork, How, Mismatch};
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

/// What to say if the ranks stand on another network than the user names.
pub(crate) fn warning(named: &Topology, mismatch: &Mismatch) -> String {
    let remedy = match &mismatch.spec {
        Some(spec) => format!("RINGROAD_TOPOLOGY={spec}"),
        None => "RINGROAD_TOPOLOGY=auto".to_owned(),
    };
    format!("the network is not {named}: {mismatch}; set {remedy} (or topology=), or see `ringroad discover`")
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
