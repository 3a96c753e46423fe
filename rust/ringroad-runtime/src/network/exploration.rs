//! What ranks find out of their network while they meet, and whether it is the one that the user has named.
//!
//! A network is called wrong only if a second look finds the same difference, and no rank had to wait for its core
//! meanwhile: on busy machines answers are late and flows are slow.

use std::time::Duration;

use ringroad_core::discovery::Mismatch;
use ringroad_core::{Rank, Topology};

use crate::bootstrap::neighbourhood::Neighbourhood;
use crate::bootstrap::{refused, unreadable, EndpointInfo, Rendezvous};
use crate::choice::agreement::given;
use crate::choice::options::Options;
use crate::config::{Config, TopologySource};
use crate::error::Result;
use crate::network::{self, DiscoveryLimits, DiscoveryReport, Exchange};
use crate::os::interfaces;
use crate::os::routes;
use crate::os::scheduler::Cores;

/// What a rank knows of the network before it opens its devices.
#[derive(Default)]
pub(super) struct Explored {
    /// Rank 0's.
    pub report: DiscoveryReport,
    /// The interface by whose address most other hosts reach this one.
    pub interface: Option<String>,
    /// The bytes per second of the slowest flow that was measured.
    pub slowest: Option<f64>,
}

/// Finds out what the network is, if ranks are on several hosts and rank 0 does not know it.
pub(super) fn explore(
    rendezvous: &mut Rendezvous,
    endpoints: &[EndpointInfo],
    rank: Rank,
    config: &Config,
    options: &Options,
    around: &Neighbourhood,
) -> Result<Explored> {
    if around.is_complete || share_loopback(endpoints) {
        return Ok(Explored::default());
    }
    let hosts = network::hosts(endpoints).into_iter().max().unwrap_or(0) + 1;
    let is_named = options.topology.is_some() || config.topology.given().is_some();
    let budget = match &config.topology {
        _ if is_named => config.budget.discovery.min(CHECK),
        TopologySource::Off => Duration::ZERO,
        _ => config.budget.discovery,
    };
    let is_wanted = !budget.is_zero() || config.topology == TopologySource::Auto && !is_named;
    let wanted = (rank == 0).then(|| is_wanted.then_some((budget, is_named)));
    let text = wanted.map(|wanted| serde_json::to_vec(&wanted).expect("numbers can be written"));
    let text = rendezvous.share(EXPLORE, text.as_deref(), 128)?;
    let wanted: Option<(Duration, bool)> =
        serde_json::from_slice(&text).map_err(|e| refused(EXPLORE, 0, unreadable(&e)))?;
    let Some((budget, is_named)) = wanted else {
        let stated = interface(endpoints, rendezvous.host()).and_then(|name| network::stated_speed(&name));
        let report = DiscoveryReport { stated, hosts, ..DiscoveryReport::default() };
        return Ok(Explored { report, ..Explored::default() });
    };
    // To check a network that is named, two looks at each link are enough, which are not worth remembering.
    let (memory, rounds) = match is_named {
        true => (None, 2),
        false => (config.networks(), usize::MAX),
    };
    let limits = DiscoveryLimits { budget, ports: config.tcp_ports, memory, rounds, probes: None };
    let cores = Cores::now();
    let gathered = network::gather(rendezvous, endpoints, rank, &limits)?;
    let own = gathered.main[gathered.evidence.host_of[rank]];
    let mut report = if rank == 0 { gathered.report() } else { DiscoveryReport::default() };
    if is_named {
        let named = given(config, options);
        report.mismatch = mismatch(rendezvous, endpoints, rank, &limits, named, &report, cores)?;
    }
    let named = |address| routes::interfaces().into_iter().find(|one| one.address == address);
    let interface = own.and_then(named).map(|interface| interface.name);
    Ok(Explored { report, interface, slowest: gathered.slowest() })
}

/// On rank 0, how the network differs from its name: what a second look finds, too, if no cores have been busy since then.
fn mismatch(
    rendezvous: &mut Rendezvous,
    endpoints: &[EndpointInfo],
    rank: Rank,
    limits: &DiscoveryLimits,
    named: Option<&Topology>,
    report: &DiscoveryReport,
    cores: Cores,
) -> Result<Option<Mismatch>> {
    let differs = |report: &DiscoveryReport| Mismatch::between(named?, report.found.as_ref()?);
    let first = differs(report);
    if rendezvous.collect(DIFFERS, &[u8::from(first.is_some())], 1)?[0] != [1] {
        return Ok(None);
    }
    let again = network::gather(&mut Again(rendezvous), endpoints, rank, limits)?;
    let busy = rendezvous.collect(BUSY, &[u8::from(cores.were_busy())], 1)?;
    let both = first.zip(differs(&again.report())).filter(|_| busy.iter().all(|busy| *busy == [0]));
    Ok(both.and_then(|(first, second)| first.agreed(second, endpoints.len())))
}

/// What to say if the ranks stand on another network than the user names.
pub(super) fn warning(named: &Topology, mismatch: &Mismatch) -> String {
    let remedy = match &mismatch.spec {
        Some(spec) => format!("RINGROAD_TOPOLOGY={spec}"),
        None => "RINGROAD_TOPOLOGY=auto".to_owned(),
    };
    format!("the network is not {named}: {mismatch}; set {remedy} (or topology=), or see `ringroad discover`")
}

/// How long it may take to check a network that the user names.
const CHECK: Duration = Duration::from_millis(400);
/// The kind under which rank 0 says whether the network is explored, for how long, and whether it is named.
const EXPLORE: &str = "explore";
/// Whether it differs from its name, as rank 0 sees it, and whether a rank's cores were busy meanwhile.
const DIFFERS: &str = "network.differs";
const BUSY: &str = "network.busy";

/// The second look, whose kinds have names of their own.
struct Again<'a>(&'a mut Rendezvous);

impl Exchange for Again<'_> {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        Exchange::collect(&mut *self.0, &format!("again.{kind}"), value, most)
    }
}

/// Whether all ranks have the same loopback interface.
pub(super) fn share_loopback(endpoints: &[EndpointInfo]) -> bool {
    let here = &endpoints[0].net_space;
    !here.is_empty() && endpoints.iter().all(|endpoint| endpoint.net_space == *here)
}

/// The network interface to listen on: loopback if that leads to all ranks, otherwise the one that leads to the host
/// of the store. `None` if neither is known.
pub(super) fn interface(endpoints: &[EndpointInfo], rendezvous_place: Option<String>) -> Option<String> {
    if share_loopback(endpoints) {
        return interfaces::loopback();
    }
    // A host's own name may stand for loopback there, which leads to none of the others.
    let leads = |interface: &String| interfaces::loopback().as_ref() != Some(interface);
    interfaces::towards(&rendezvous_place?).filter(leads)
}
