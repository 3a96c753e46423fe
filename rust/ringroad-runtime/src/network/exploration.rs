//! What ranks find out of their network while they meet, and whether it is the one that the user has named.
//!
//! A network is called wrong only if a second look finds the same difference, and no rank had to wait for its core
//! meanwhile: on busy machines answers are late and flows are slow.

use std::time::Duration;

use ringroad_core::discovery::Mismatch;
use ringroad_core::{Rank, Topology};

use super::{gather, stated_speed, DiscoveryLimits};
use crate::bootstrap::{hosts, interface, refused, unreadable, EndpointInfo, Exchange, Rendezvous};
use crate::choice::agreement::given;
use crate::choice::report::DiscoveryReport;
use crate::communicator::{Explored, Means};
use crate::config::TopologySource;
use crate::error::Result;
use crate::os::routes;
use crate::os::scheduler::Cores;

/// Finds out what the network between several hosts is, if rank 0 does not know it.
pub(super) fn explore(
    rendezvous: &mut Rendezvous,
    endpoints: &[EndpointInfo],
    rank: Rank,
    Means { config, options, .. }: &Means,
) -> Result<Explored> {
    let hosts = hosts(endpoints).into_iter().max().unwrap_or(0) + 1;
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
        let stated = interface(endpoints, rendezvous.host()).and_then(|name| stated_speed(&name));
        let report = DiscoveryReport { stated, hosts, ..DiscoveryReport::default() };
        return Ok(Explored { report, ..Explored::default() });
    };
    // To check a network that is named, two looks at each link are enough, and on busy cores three. They are not worth
    // remembering.
    let (memory, rounds) = match is_named {
        true => (None, 3),
        false => (config.networks(), usize::MAX),
    };
    let limits = DiscoveryLimits { budget, ports: config.tcp_ports, memory, rounds, probes: None };
    let cores = Cores::now();
    let gathered = gather(rendezvous, endpoints, rank, &limits)?;
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
    let again = gather(&mut Again(rendezvous), endpoints, rank, limits)?;
    let busy = rendezvous.collect(BUSY, &[u8::from(cores.were_busy(Cores::now()))], 1)?;
    let both = first.zip(differs(&again.report())).filter(|_| busy.iter().all(|busy| *busy == [0]));
    Ok(both.and_then(|(first, second)| first.agreed(second, endpoints.len())))
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
