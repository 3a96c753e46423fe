//! How ranks form a communicator.

use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use ringroad_core::{Collective, Rank};

use super::carrier;
use super::paths;
use super::recovery::after_pauses::{self, Followed};
use super::status::Reporting;
use super::{Called, Communicator, CommunicatorState, Discovery, Explored, Group, ThreadFamily};
use crate::bootstrap::neighbourhood::{Neighbourhood, Offered};
use crate::bootstrap::{
    interface, report_by, share_loopback, BootstrapError, EndpointInfo, Handle, Rendezvous, Reporter, Store,
    StoreError,
};
use crate::calls::request::Request;
use crate::choice::agreement::{agree, choose, send_buffer};
use crate::choice::choices::Choices;
use crate::choice::choices::NetworkOrigin;
use crate::choice::options::Options;
use crate::choice::planner::Planner;
use crate::choice::report::{warning, DiscoveryReport};
use crate::choice::schedule_cache::Schedules;
use crate::config::{Config, Debug, Secret, TopologySource, Within};
use crate::engine::progress::Driver;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::os::fork::ProcessOwned;
use crate::os::lock::Mutex;
use crate::os::machine::COPIED;
use crate::os::messages::{print_message, say_once, warn_once};
use crate::os::pauses;
use crate::os::scheduler::HostLoad;
use crate::transport::in_process::InProcess;
use crate::transport::notice::FailureReason;
use crate::transport::shared::SharedMemory;
use crate::transport::{ucx, Opening, Tag, Transport};

/// How often the first barrier checks whether the user has interrupted or a rank has given up.
const LISTEN: Duration = Duration::from_millis(50);

/// What a communicator is made with, so that another one can be made the same way.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// The `libucp.so.0` of an installed `libucx` package, used if the system has none.
    pub wheel: Option<PathBuf>,
    /// The settings.
    pub config: Config,
    /// The caller's options.
    pub options: Options,
    /// What finds out the network between hosts, and follows its changes.
    pub discovery: Option<Discovery>,
}

impl Means {
    /// The time that a caller has who starts to wait now: since when, and until when.
    pub fn time(&self) -> Range<Instant> {
        let start = Instant::now();
        start..start + self.options.timeout(&self.config)
    }

    /// Meets the other ranks at `store` and connects to them, in this time. Every rank calls this.
    pub fn connect(
        &self,
        time: Range<Instant>,
        store: Arc<dyn Store>,
        rank: Rank,
        size: usize,
    ) -> Result<Communicator> {
        let Means { config, options, .. } = self;
        let (name, secret) = (options.name(), config.secret.as_ref().map(Secret::reveal));
        // Rank 0 has told nobody yet where to meet.
        let object = |error: &dyn Display| {
            if rank > 0 && size > 1 {
                let who = EndpointInfo::new(rank, size, "", "", Vec::new());
                Rendezvous::object(&*store, name, secret, format!("{who} cannot take part: {error}"));
            }
        };
        check_group(rank, size).inspect_err(|error| object(error))?;
        config.warnings.iter().filter(|_| rank == 0).for_each(|w| print_message(&format!("warning: {w}")));
        let handle = (size > 1).then(|| listen(Handle::for_machine(secret))).flatten();
        loop {
            let offered = Offered::new(rank, size, config);
            let mut endpoint = EndpointInfo::new(rank, size, "", "", Vec::new());
            offered.announce(&mut endpoint, config);
            endpoint.handle = handle.clone();
            endpoint.adaptation = config.adaptation();
            endpoint.rdma = !ucx::rdma_devices().is_empty();
            endpoint.asked = config.transport.between.map(|between| between.name().to_owned());
            let joined = Rendezvous::join(store.clone(), name, endpoint, secret, time.clone());
            let mut rendezvous = match joined {
                Err(BootstrapError::Store(error @ StoreError::Failed { .. })) => {
                    // What it held may be what this process lacks to tell the others.
                    drop(offered);
                    object(&error);
                    return Err(error.into());
                }
                joined => joined?,
            };
            match self.meet(&mut rendezvous, offered, rank, &time) {
                Err(_) if rendezvous.has_moved() => {}
                Err(error) => {
                    rendezvous.give_up(&error);
                    return Err(error);
                }
                communicator => return communicator,
            }
        }
    }

    /// Connects the ranks that come to this rendezvous.
    fn meet(
        &self,
        rendezvous: &mut Rendezvous,
        offered: Offered,
        rank: Rank,
        time: &Range<Instant>,
    ) -> Result<Communicator> {
        let Means { wheel, config, options, discovery } = self;
        let mut endpoints = rendezvous.exchange()?;
        // Memory comes before the network: what is local to each other needs no other carrier. And the network is explored
        // before it is opened, since what is found says by which interface.
        let around = Neighbourhood::explore(rendezvous, offered, &endpoints, rank, config)?;
        let explored = match discovery {
            _ if around.is_complete || share_loopback(&endpoints) => Explored::default(),
            Some(discovery) => (discovery.explore)(rendezvous, &endpoints, rank, self)?,
            None => Explored::nothing(&endpoints),
        };
        let mut network = None;
        if !around.is_complete {
            let between = carrier::between(rendezvous, &endpoints, config, wheel.as_ref())?;
            let interface = explored.interface.clone().or_else(|| interface(&endpoints, rendezvous.host()));
            let doorbell =
                around.home.as_ref().map(|(home, _)| home.doorbell()).transpose().map_err(unshared)?;
            let opening = Opening {
                rank,
                size: endpoints.len(),
                config,
                wheel: wheel.as_ref(),
                several_hosts: endpoints.iter().any(|endpoint| endpoint.host != endpoints[0].host),
                interface,
                send_buffer: send_buffer(config, options, explored.slowest),
                others: doorbell.into_iter().collect(),
            };
            let transport = carrier::open(between, opening, &around)?;
            if !share_loopback(&endpoints) {
                let secret = config.secret.as_ref().map(Secret::reveal);
                let host = rendezvous.host();
                rendezvous.endpoint.handle =
                    listen(Handle::for_all(secret, host.as_deref(), config.tcp_ports));
                rendezvous.endpoint.devices =
                    transport.routed_devices().map(paths::devices).unwrap_or_default();
            }
            endpoints = rendezvous.exchange_addresses(
                transport.name(),
                transport.version(),
                transport.addresses(),
            )?;
            network = Some(transport);
        }
        // Rank 0 decides only now, since the network's devices and who shares memory are part of what it decides by.
        let choices =
            agree(rendezvous, rank, &endpoints, config, options, around.per_host, &explored.report)?;
        if let Some(network) = &mut network {
            paths::check(rendezvous, &endpoints, rank, &choices.topology, network.version())?;
            let addresses = endpoints.iter().map(|endpoint| endpoint.addresses.clone()).collect();
            network.set_addresses(addresses, &choices.topology)?;
        }
        // The network alone, shared memory alone, or both, of which one wakes for the other.
        let transport: Box<dyn Transport> = match (around.home, network) {
            (None, Some(network)) => network,
            (Some((home, neighbours)), network) => {
                let waiter = match &network {
                    Some(network) => network.waiter(),
                    None => home.waiter().map_err(unshared)?,
                };
                let wanted = match config.transport.within {
                    Some(Within::Auto) => load(&endpoints, rank).is_oversubscribed(),
                    Some(Within::Cma) => true,
                    Some(Within::NoCma) | None => false,
                };
                let cma = wanted && around.unreadable.is_empty();
                let cache = choices.lowering.cache;
                let local = SharedMemory::new(home, neighbours, waiter, cma, cache)?;
                match network {
                    None => Box::new(local),
                    Some(network) => network.beside(local),
                }
            }
            // A single rank sends nothing.
            (None, None) => Box::new(InProcess::group(1).remove(0)),
        };
        let timeout = options.timeout(config);
        let name = options.name();
        let mut communicator =
            Communicator::assemble(name, endpoints, rank, transport, choices, timeout, config);
        communicator.means = Some(Arc::new(self.clone()));
        // Earlier pauses do not matter: all ranks count on this one now.
        if communicator.size() > 1 {
            communicator.agreements.pauses.store(pauses::pauses(), Ordering::Relaxed);
            after_pauses::follow(Followed {
                agreements: Arc::downgrade(&communicator.agreements),
                rank,
                endpoints: communicator.endpoints.clone(),
                secret: config.secret.as_ref().map(|secret| secret.reveal().to_owned()),
            });
        }
        if let Some(adaptation) = discovery.and_then(|discovery| (discovery.adapt)(communicator.group()?)) {
            communicator.follow(adaptation)?;
        }
        // All ranks have come, so the next communicator of this name meets elsewhere.
        rendezvous.close();
        // Connects the pairs of ranks that small collectives use, and finds out now which ranks cannot be reached.
        communicator.first_barrier(rendezvous, time)?;
        communicator.driver.get()?.with(|engine| engine.calls.begin());
        communicator.record_into(config)?;
        // From here on all is said that the user should know, once the communicator works.
        let is_asked_for = config.topology == TopologySource::Off && config.debug < Debug::Info;
        if rank == 0
            && communicator.choices.origin != NetworkOrigin::Given
            && explored.report.hosts > 1
            && !is_asked_for
        {
            let sentence = explored.report.sentence(&communicator.choices.topology);
            say_once(&sentence);
        }
        if let Some(mismatch) = communicator.choices.mismatch.as_ref().filter(|_| rank == 0) {
            let text = warning(&communicator.choices.topology, mismatch);
            warn_once(&text, &text);
        }
        if config.debug >= Debug::Info {
            communicator.introduce(&around.obstacles)?;
        }
        // If the user has asked for CMA, say why it cannot be used.
        let is_expected = match config.transport.within {
            Some(Within::Auto) => config.debug >= Debug::Info,
            within => within == Some(Within::Cma),
        };
        if is_expected {
            for reason in &around.unreadable {
                print_message(&format!(
                    "{name}: no rank copies out of rank {rank}'s private memory: {reason}"
                ));
            }
        }
        Ok(communicator)
    }
}

impl Communicator {
    /// A group whose ranks are threads of this process.
    pub fn in_process(size: usize, config: &Config, options: &Options) -> Result<Vec<Communicator>> {
        check_group(0, size)?;
        let transports =
            InProcess::group(size).into_iter().map(|t| Box::new(t) as Box<dyn Transport>).collect();
        Communicator::over(transports, config, options)
    }

    /// A group within this process over the given transports, one for each rank.
    pub fn over(
        transports: Vec<Box<dyn Transport>>,
        config: &Config,
        options: &Options,
    ) -> Result<Vec<Communicator>> {
        let size = transports.len();
        check_group(0, size)?;
        let endpoints: Vec<EndpointInfo> =
            (0..size).map(|r| EndpointInfo::new(r, size, "in-process", "", Vec::new())).collect();
        let choices = choose(&endpoints, config, options, 1, &DiscoveryReport::default())?;
        let name = options.name();
        let timeout = options.timeout(config);
        let assemble = |(rank, transport)| {
            Communicator::assemble(name, endpoints.clone(), rank, transport, choices.clone(), timeout, config)
        };
        let mut group: Vec<Communicator> = transports.into_iter().enumerate().map(assemble).collect();
        let family =
            ThreadFamily { config: config.clone(), options: options.clone(), made: Mutex::default() };
        let family = Arc::new(family);
        group.iter_mut().for_each(|communicator| communicator.family = Some(family.clone()));
        group.iter().try_for_each(|communicator| communicator.record_into(config))?;
        Ok(group)
    }

    fn assemble(
        name: &str,
        endpoints: Vec<EndpointInfo>,
        rank: Rank,
        mut transport: Box<dyn Transport>,
        choices: Choices,
        timeout: Duration,
        config: &Config,
    ) -> Communicator {
        let (debug, kept) = (config.debug, Schedules::new(config.made_schedules()));
        let (mut local, mut pool, mut copies_by_cma) = (Arc::default(), None, false);
        if let Some(memory) = transport.local_memory() {
            (local, pool, copies_by_cma) = (memory.ranks(), Some(memory.pool()), memory.copies_by_cma());
        }
        let load = load(&endpoints, rank);
        let copies = copies_by_cma.then(|| COPIED * load.cores.min(load.ranks) / load.ranks);
        let load = Some(load).filter(HostLoad::is_oversubscribed);
        let (endpoints, choices) = (Arc::new(endpoints), Arc::new(choices));
        let engine = Engine::new(name.to_owned(), rank, endpoints.clone(), &choices.lowering, transport);
        let driver = Driver::new(engine, rank, load);
        let reporting = Arc::new(Reporting {
            name: name.to_owned(),
            rank,
            endpoints: endpoints.clone(),
            secret: config.secret.as_ref().map(Secret::reveal).map(str::to_owned),
            driver: ProcessOwned::new(Arc::downgrade(&driver)),
            adaptation: OnceLock::new(),
        });
        let reporter: Weak<dyn Reporter> = Arc::downgrade(&(reporting.clone() as Arc<dyn Reporter>));
        report_by(reporter);
        Communicator {
            name: name.to_owned(),
            rank,
            endpoints,
            timeout,
            debug,
            state: Arc::new(Mutex::new(CommunicatorState {
                planner: Planner::new(rank, local, copies, choices.clone(), kept),
                calls: 0,
                is_holding: false,
            })),
            adaptation: None,
            pool,
            choices,
            driver: ProcessOwned::new(driver),
            reporting,
            means: None,
            family: None,
            agreements: Arc::default(),
            splits: Arc::default(),
        }
    }

    /// Its ranks, if it is of processes.
    pub(super) fn group(&self) -> Option<Group> {
        let Communicator { name, rank, endpoints, choices, means, .. } = self;
        let (name, endpoints, choices) = (name.clone(), endpoints.clone(), choices.clone());
        Some(Group { name, rank: *rank, endpoints, choices, means: means.clone()? })
    }

    /// Records everything from now on, if the settings ask for a trace.
    fn record_into(&self, config: &Config) -> Result<()> {
        let driver = self.driver.get()?;
        config
            .trace
            .clone()
            .into_iter()
            .for_each(|directory| driver.with(|engine| engine.record_into(directory)));
        Ok(())
    }

    /// A barrier that also ends if the user interrupts, or if a rank gives up that has not come so far.
    fn first_barrier(&self, rendezvous: &Rendezvous, time: &Range<Instant>) -> Result<()> {
        let timeout = Some(time.end - time.start);
        let Called::InFlight(work) = self.call(Request { timeout, ..Request::barrier() })? else {
            return Ok(());
        };
        // The time runs since the ranks began to meet.
        self.driver.get()?.with(|engine| engine.calls.count_from(time.start));
        while !work.wait_until(Instant::now() + LISTEN) {
            match rendezvous.go_on() {
                // Rank 0 may have ended, and its store with it, as soon as it has what it needs.
                Ok(()) | Err(BootstrapError::Store(StoreError::Failed { .. } | StoreError::Silent(_))) => {}
                Err(error) => {
                    let error = Error::from(error);
                    match error.clone() {
                        // It is lost to the others, too, who may hear of it from this rank first.
                        Error::Peer { rank, message } => self
                            .driver
                            .get()?
                            .with(|engine| engine.fail(error.clone(), FailureReason::Peer { rank }, message)),
                        _ => self.abort(&error.to_string())?,
                    }
                    return Err(error);
                }
            }
        }
        work.finish().map(drop)
    }

    /// Prints on standard error what was found and chosen.
    fn introduce(&self, obstacles: &[String]) -> Result<()> {
        let Communicator { name, rank, .. } = self;
        print_message(&format!("{name}: rank {rank} of {}: {}", self.size(), self.transport()?));
        for obstacle in obstacles {
            print_message(&format!(
                "{name}: rank {rank} shares no memory with others of its host: {obstacle}"
            ));
        }
        if *rank > 0 {
            return Ok(());
        }
        let choices = &self.choices;
        match &choices.profile {
            Some(file) => print_message(&format!("{name}: costs as measured, from {file}")),
            None => print_message(&format!("{name}: costs are assumed; `ringroad tune` measures them")),
        }
        for collective in Collective::ALL {
            let points: Vec<String> = choices
                .switch_points(collective)
                .iter()
                .map(|r| format!("{} from {} bytes ({})", r.algorithm, r.from_bytes, r.origin))
                .collect();
            print_message(&format!(
                "{name}: {} on {}: {}",
                collective.name(),
                choices.topology,
                points.join(", ")
            ));
        }
        Ok(())
    }
}

/// The handle, or `None` after a warning. Without a handle the job runs as well, unless a rank is lost.
fn listen(handle: std::io::Result<Handle>) -> Option<Handle> {
    let unheard = |error| {
        let text = format!("cannot listen for other processes: {error}; ranks cannot regroup after a loss");
        warn_once("listen", &text);
    };
    handle.map_err(unheard).ok()
}

/// The number of ranks on this rank's machine, their cores, and this rank's place among them.
fn load(endpoints: &[EndpointInfo], rank: Rank) -> HostLoad {
    let here: Vec<&EndpointInfo> =
        endpoints.iter().filter(|endpoint| endpoint.shares_machine(&endpoints[rank])).collect();
    let number = here.iter().position(|endpoint| endpoint.rank == rank).expect("it has an endpoint itself");
    HostLoad { ranks: here.len(), cores: EndpointInfo::cores_of(&here), number }
}

pub(super) fn check_group(rank: Rank, size: usize) -> Result<()> {
    if size == 0 || rank >= size || size > Tag::RANKS {
        return Err(Error::Argument(format!(
            "rank {rank} of {size} is out of range: ranks count from 0 to size - 1, and size is from 1 to {}",
            Tag::RANKS
        )));
    }
    Ok(())
}

/// The error if the doorbell of local ranks cannot be used.
fn unshared(reason: String) -> Error {
    Error::Transport(format!("shared memory: {reason}"))
}
