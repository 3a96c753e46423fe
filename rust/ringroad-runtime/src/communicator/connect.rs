//! How ranks become a communicator.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringroad_core::{Collective, Rank, Topology};
use ucx_sys::LoadOptions;

use super::{Communicator, State};
use crate::agreement::{agree, choose};
use crate::bootstrap::{exchange, Card, Meeting, PrefixStore, Store};
use crate::config::{Cma, Config, Debug, Secret};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::neighbourhood::{Neighbourhood, Offered};
use crate::planner::{Choices, Planner};
use crate::progress::Driver;
use crate::scheduler::Crowd;
use crate::schedules::Schedules;
use crate::transport::in_process::InProcess;
use crate::transport::shared::SharedMemory;
use crate::transport::ucx::{UcxSettings, UcxTransport};
use crate::transport::{Tag, Transport};

/// From so many bytes on for each core, the vectors of all ranks taken together, the kernel's one copy out of private memory
/// is faster than two within the caches.
const COPIED: usize = 4 << 20;

/// What a communicator may be told; everything else comes from [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Tells communicators on one store apart; "world" where empty.
    pub name: String,
    /// For every call, and for making the communicator.
    pub timeout: Option<Duration>,
    /// The network. Rank 0's counts.
    pub topology: Option<Topology>,
    /// As `RINGROAD_ALGO`. Rank 0's counts.
    pub algorithm: Option<String>,
    /// As `RINGROAD_DETERMINISTIC`. Rank 0's counts.
    pub size_invariant: Option<bool>,
}

impl Communicator {
    /// Meets the other ranks at `store` and connects to them over UCX. Every rank calls this.
    ///
    /// `wheel` is the `libucp.so.0` of an installed `libucx` package, used where the system has none.
    pub fn connect(
        store: Arc<dyn Store>,
        rank: Rank,
        size: usize,
        wheel: Option<PathBuf>,
        config: &Config,
        options: &Options,
    ) -> Result<Communicator> {
        check_group(rank, size)?;
        let timeout = options.timeout.unwrap_or(config.timeout);
        let deadline = Instant::now() + timeout;
        config.warnings.iter().filter(|_| rank == 0).for_each(|w| eprintln!("ringroad: warning: {w}"));
        let secret = config.secret.as_ref().map(Secret::reveal);
        let name = if options.name.is_empty() { "world" } else { &options.name };
        let offered = Offered::new(rank, size, config);
        let meeting = Meeting::join(store, name, rank, deadline)?;
        let store = meeting.store();
        let mut card = Card::new(rank, size, "", "", Vec::new());
        offered.announce(&mut card, config);
        let mut cards = exchange(&store, rank, size, &card, secret, deadline)?;
        let around = Neighbourhood::explore(&store, offered, &cards, rank, config, deadline)?;
        let bell = around.home.as_ref().map(|(home, _)| home.bell()).transpose();
        let bell = bell.map_err(|reason| Error::Transport(format!("shared memory: {reason}")))?;
        let mut network = None;
        if !around.is_complete {
            let transport = open_network(rank, size, wheel, config, bell.into_iter().collect())?;
            let card = Card::new(rank, size, "ucx", transport.version(), transport.addresses());
            cards =
                exchange(&PrefixStore::new("network", store.clone()), rank, size, &card, secret, deadline)?;
            network = Some(transport);
        }
        let choices = agree(&store, rank, &cards, config, options, around.per_host, deadline)?;
        if let Some(network) = &mut network {
            network.set_addresses(cards.iter().map(|c| c.addresses.clone()).collect(), &choices.topology);
        }
        let transport: Box<dyn Transport> = match (around.home, network) {
            (None, Some(network)) => Box::new(network),
            (Some((home, neighbours)), network) => {
                let wanted = match config.cma {
                    Cma::Auto => crowd(&cards, rank).is_crowded(),
                    Cma::On => true,
                    Cma::Off => false,
                };
                let private = wanted && around.unreadable.is_empty();
                let cache = choices.lowering.cache;
                Box::new(SharedMemory::new(home, neighbours, network, private, cache)?)
            }
            // A rank on its own sends nothing.
            (None, None) => Box::new(InProcess::group(1).remove(0)),
        };
        let communicator = Communicator::assemble(name, cards, rank, transport, choices, timeout, config);
        // Everybody has come, so the next communicator of this name meets elsewhere.
        drop(meeting);
        // Connects what small collectives use, and finds out now who cannot be reached.
        communicator.barrier(Some(deadline.saturating_duration_since(Instant::now())))?;
        if config.debug >= Debug::Info {
            communicator.introduce(&around.obstacles);
        }
        // Who has asked for it hears that it cannot be had.
        if config.cma == Cma::On || config.cma == Cma::Auto && config.debug >= Debug::Info {
            for reason in &around.unreadable {
                eprintln!("ringroad: {name}: nobody copies out of rank {rank}'s private memory: {reason}");
            }
        }
        Ok(communicator)
    }

    /// A group of threads of this process.
    pub fn in_process(size: usize, config: &Config, options: &Options) -> Result<Vec<Communicator>> {
        check_group(0, size)?;
        let transports =
            InProcess::group(size).into_iter().map(|t| Box::new(t) as Box<dyn Transport>).collect();
        Communicator::over(transports, config, options)
    }

    /// A group within this process over given transports, one per rank.
    pub fn over(
        transports: Vec<Box<dyn Transport>>,
        config: &Config,
        options: &Options,
    ) -> Result<Vec<Communicator>> {
        let size = transports.len();
        check_group(0, size)?;
        let cards: Vec<Card> = (0..size).map(|r| Card::new(r, size, "in-process", "", Vec::new())).collect();
        let choices = choose(&cards, config, options, 1)?;
        let name = if options.name.is_empty() { "world" } else { &options.name };
        let timeout = options.timeout.unwrap_or(config.timeout);
        let assemble = |(rank, transport)| {
            Communicator::assemble(name, cards.clone(), rank, transport, choices.clone(), timeout, config)
        };
        Ok(transports.into_iter().enumerate().map(assemble).collect())
    }

    fn assemble(
        name: &str,
        cards: Vec<Card>,
        rank: Rank,
        transport: Box<dyn Transport>,
        choices: Choices,
        timeout: Duration,
        config: &Config,
    ) -> Communicator {
        let (debug, kept) = (config.debug, Schedules::new(config.schedule_cache.clone()));
        let (near, pool) = (transport.near(), transport.pool());
        let crowd = crowd(&cards, rank);
        let copies = transport.private().then(|| COPIED * crowd.cores.min(crowd.ranks) / crowd.ranks);
        let crowd = Some(crowd).filter(Crowd::is_crowded);
        let cards = Arc::new(cards);
        let engine = Engine::new(name.to_owned(), rank, cards.clone(), &choices.lowering, transport);
        Communicator {
            name: name.to_owned(),
            rank,
            cards,
            timeout,
            debug,
            state: Mutex::new(State {
                planner: Planner::new(rank, near, copies, choices, kept),
                calls: 0,
                recent: VecDeque::new(),
            }),
            pool,
            driver: Driver::new(engine, rank, crowd),
        }
    }

    /// Says on standard error what was found and chosen.
    fn introduce(&self, obstacles: &[String]) {
        let Communicator { name, rank, .. } = self;
        eprintln!("ringroad: {name}: rank {rank} of {}: {}", self.size(), self.transport());
        for obstacle in obstacles {
            eprintln!("ringroad: {name}: rank {rank} shares no memory with others of its host: {obstacle}");
        }
        if *rank > 0 {
            return;
        }
        let choices = self.choices();
        match &choices.profile {
            Some(file) => eprintln!("ringroad: {name}: costs as measured, from {file}"),
            None => eprintln!("ringroad: {name}: costs are assumed; `ringroad tune` measures them"),
        }
        for collective in Collective::ALL {
            let points: Vec<String> = choices
                .switch_points(collective)
                .iter()
                .map(|r| format!("{} from {} bytes ({})", r.algorithm, r.from_bytes, r.origin))
                .collect();
            eprintln!(
                "ringroad: {name}: {} on {}: {}",
                collective.name(),
                choices.topology,
                points.join(", ")
            );
        }
    }
}

/// Opens UCX, and this rank's devices.
fn open_network(
    rank: Rank,
    size: usize,
    wheel: Option<PathBuf>,
    config: &Config,
    bell: Vec<OwnedFd>,
) -> Result<UcxTransport> {
    prepare_environment(config);
    let ucx = ucx_sys::load(&LoadOptions {
        explicit: config.ucx_library.clone(),
        wheel,
        environment: true,
        tls: None,
    })?;
    let settings = UcxSettings {
        net_devices: config.net_devices.as_ref().map(|d| d.join(",")),
        ports: config.ports.clone().unwrap_or_default(),
        ..UcxSettings::default()
    };
    Ok(UcxTransport::new(ucx, rank, size, settings, bell)?)
}

/// Sets what UCX reads from the environment only, once and unless the user has. No other thread may be reading the
/// environment meanwhile (see [`ucx_sys::load`]), which holds the better the earlier the first communicator is made.
fn prepare_environment(config: &Config) {
    static ONCE: Once = Once::new();
    let set = |name: &str, value: String| {
        if std::env::var_os(name).is_none() {
            std::env::set_var(name, value);
        }
    };
    ONCE.call_once(|| {
        if let Some((first, last)) = config.port_range {
            set("UCX_TCP_PORT_RANGE", format!("{first}-{last}"));
        }
        if config.debug < Debug::Info {
            // What goes wrong is told by our errors; UCX's own lines appear with RINGROAD_DEBUG=INFO.
            set("UCX_LOG_LEVEL", "fatal".to_owned());
        }
    });
}

/// The ranks on this one's machine.
fn crowd(cards: &[Card], rank: Rank) -> Crowd {
    let here: Vec<&Card> = cards.iter().filter(|card| card.shares_machine(&cards[rank])).collect();
    let number = here.iter().position(|card| card.rank == rank).expect("it has a card itself");
    Crowd { ranks: here.len(), cores: Card::cores_of(&here), number }
}

fn check_group(rank: Rank, size: usize) -> Result<()> {
    if size == 0 || rank >= size || size > Tag::RANKS {
        return Err(Error::Argument(format!(
            "rank {rank} of {size} makes no sense: ranks are 0..size, and size is 1..={}",
            Tag::RANKS
        )));
    }
    Ok(())
}
