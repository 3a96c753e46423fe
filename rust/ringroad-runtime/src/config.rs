//! Every environment variable, in one table.
//!
//! A row says what a variable means and how it is read; [`Config`] is what comes of it, read once. An argument beats
//! the environment, and the environment beats the default: callers apply [`Config`] where they were given no argument.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use strsim::levenshtein;

use ringroad_core::cost::CostModel;
use ringroad_core::Topology;

pub use crate::preferences::Algorithms;

/// All variables begin like this; `UCX_*` goes to UCX as it is.
pub const PREFIX: &str = "RINGROAD_";

/// The longest timeout: a year. Longer ones overflow clocks.
const LONGEST_TIMEOUT: f64 = 365.0 * 86400.0;

/// One environment variable.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it is when it is not set, as one would write it; empty where leaving it unset says something else.
    pub default: &'static str,
    /// The unit of its value, or empty.
    pub unit: &'static str,
    /// What can be written.
    pub allowed: &'static str,
    /// What it is for, and what leaving it unset means.
    pub meaning: &'static str,
    /// Whether its value is never shown.
    pub secret: bool,
    /// Reads a value that is not empty. An error adds to what is allowed; it may be empty.
    read: fn(&mut Config, &str) -> Result<(), String>,
}

/// The table.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "RINGROAD_ALGO",
        default: "",
        unit: "",
        allowed: "the algorithms to choose among, for all collectives (ring,swing) or for each (allreduce:ring,swing;broadcast:binomial), and those to leave out (^bucket,swing or allreduce:^ring)",
        meaning: "which algorithms to use; unset: rules, measurements or the cost model decide",
        secret: false,
        read: |config, text| Algorithms::parse(text).map(|algorithms| config.algorithms = algorithms),
    },
    Setting {
        name: "RINGROAD_DETERMINISTIC",
        default: "",
        unit: "",
        allowed: "size-invariant",
        meaning: "size-invariant: floats are added up in one order, whatever the length of the vector; unset: in the same order on all ranks and in all runs; rank 0's counts",
        secret: false,
        read: |config, text| one_of(text, &[("size-invariant", true)]).map(|on| config.size_invariant = on),
    },
    Setting {
        name: "RINGROAD_TUNER_FILE",
        default: "",
        unit: "",
        allowed: "the path of rules as for NCCL's tuner plugin",
        meaning: "which algorithm for which sizes: lines of collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks, -1 for any; rank 0 reads it",
        secret: false,
        read: |config, text| {
            config.tuner_file = Some(PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_PROFILE",
        default: "",
        unit: "",
        allowed: "the path of a profile that `ringroad tune` wrote, or none",
        meaning: "measured costs and choices; none: the cost model's own; unset: the profile that `ringroad tune` stored for this network and machine, if there is one; rank 0 reads it",
        secret: false,
        read: |config, text| {
            let none = text.eq_ignore_ascii_case("none");
            config.profile = if none { ProfileSource::None } else { ProfileSource::File(PathBuf::from(text)) };
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_SYNTHESIS_BUDGET",
        default: "2",
        unit: "seconds",
        allowed: "a number of seconds, 0 or more",
        meaning: "how long rank 0 may take before it leaves out what is still to be made for the network's graph; what RINGROAD_ALGO names alone is made in any case",
        secret: false,
        read: |config, text| {
            let seconds = number(text, |n| (0.0..=LONGEST_TIMEOUT).contains(&n))?;
            config.synthesis_budget = Duration::from_secs_f64(seconds);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_SCHEDULE_CACHE",
        default: "",
        unit: "",
        allowed: "the path of a directory, or none",
        meaning: "where schedules are kept that were made for a graph and take long to make; none: nowhere; unset: ringroad/schedules in the user's cache directory",
        secret: false,
        read: |config, text| {
            let none = text.eq_ignore_ascii_case("none");
            config.schedule_cache = (!none).then(|| PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_TOPOLOGY",
        default: "",
        unit: "",
        allowed: "a topology such as ring:8, torus:4x4x2, petersen, without(torus:8x8, 0-1), switch:16 or hosts:2x4, or the path of a .json file that Topology.save has written",
        meaning: "how the ranks are connected; unset: as hosts whose ranks share memory, where all have as many, else all to one switch",
        secret: false,
        read: |config, text| {
            config.topology = Some(read_topology(text)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_TIMEOUT",
        default: "300",
        unit: "seconds",
        allowed: "a number of seconds above 0 and up to a year",
        meaning: "how long connecting, a collective or a wait may take before it fails",
        secret: false,
        read: |config, text| {
            let seconds = number(text, |n| n > 0.0 && n <= LONGEST_TIMEOUT)?;
            config.timeout = Duration::from_secs_f64(seconds);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_UCX_LIBRARY",
        default: "",
        unit: "",
        allowed: "the path of libucp.so.0",
        meaning: "which UCX to load; unset: one that is loaded already, the system's, or the wheel's",
        secret: false,
        read: |config, text| {
            config.ucx_library = Some(PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_TRANSPORT",
        default: "auto",
        unit: "",
        allowed: "auto or ucx",
        meaning: "what carries the bytes between processes: shared memory within a host and UCX between hosts, or UCX always",
        secret: false,
        read: |config, text| {
            let kinds = [("auto", TransportKind::Auto), ("ucx", TransportKind::Ucx)];
            one_of(text, &kinds).map(|kind| config.transport = kind)
        },
    },
    Setting {
        name: "RINGROAD_CMA",
        default: "auto",
        unit: "",
        allowed: "auto, on or off",
        meaning: "whether the kernel copies long messages out of the private memory of other ranks of the host, where it permits \
                  that: auto where ranks share cores, on always, off never",
        secret: false,
        read: |config, text| {
            let kinds = [("auto", Cma::Auto), ("on", Cma::On), ("off", Cma::Off)];
            one_of(text, &kinds).map(|kind| config.cma = kind)
        },
    },
    Setting {
        name: "RINGROAD_HOST",
        default: "",
        unit: "",
        allowed: "any text",
        meaning: "names this host: ranks share memory where they have the same name; unset: the machine's own",
        secret: false,
        read: |config, text| {
            config.host = Some(text.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_NET_DEVICES",
        default: "",
        unit: "",
        allowed: "UCX network devices, separated by commas, such as mlx5_0:1,eth0",
        meaning: "which network devices to use; unset: UCX_NET_DEVICES, or for tcp loopback if all ranks are on one machine, else the one that leads to the store's host (MASTER_ADDR), else those that UCX chooses",
        secret: false,
        read: |config, text| {
            config.net_devices = Some(devices(text)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_PORTS",
        default: "",
        unit: "",
        allowed: "one UCX network device for each port, separated by commas, such as mlx5_0:1,mlx5_1:1, and as many on every rank",
        meaning: "the network device of each port, in rotation; the n-th of every rank reaches the n-th of the others, or on a ring or torus, where they come in pairs up and down, is cabled to its opposite on the neighbour; a name may come twice; unset: RINGROAD_NET_DEVICES serves all ports",
        secret: false,
        read: |config, text| {
            config.ports = Some(devices(text)?);
            // The row above has been read.
            match config.net_devices {
                Some(_) => Err("RINGROAD_NET_DEVICES is set too, unset one of them".to_owned()),
                None => Ok(()),
            }
        },
    },
    Setting {
        name: "RINGROAD_PORT_RANGE",
        default: "",
        unit: "",
        allowed: "the first and the last TCP port, such as 20000-20999",
        meaning: "which TCP ports to listen on, for firewalls; unset: any",
        secret: false,
        read: |config, text| {
            let (first, last) = text.split_once('-').ok_or("")?;
            let port = |text: &str| text.trim().parse::<u16>().map_err(|_| format!("{text:?} is no port"));
            let (first, last) = (port(first)?, port(last)?);
            if first == 0 || first > last {
                return Err("ports are above 0, and the first is not above the last".to_owned());
            }
            config.port_range = Some((first, last));
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_SECRET",
        default: "",
        unit: "",
        allowed: "any text",
        meaning: "seals all that ranks say in the store, the same on all ranks; unset: it is guarded against accidents only",
        secret: true,
        read: |config, text| {
            config.secret = Some(Secret(text.to_owned()));
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_STORE",
        default: "",
        unit: "",
        allowed: "a directory that all ranks can reach, such as file:///shared/job-17",
        meaning: "where the ranks find each other, a new directory for every job",
        secret: false,
        read: |config, text| match text.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => {
                config.store = Some(PathBuf::from(path));
                Ok(())
            }
            Some(_) => Err("the path must begin with a slash".to_owned()),
            None => Err("".to_owned()),
        },
    },
    Setting {
        name: "RINGROAD_SEGMENT",
        default: "524288",
        unit: "bytes",
        allowed: "a whole number of bytes, 64 or more",
        meaning: "large messages are sent in segments of at most this size, so that reducing and sending overlap",
        secret: false,
        read: |config, text| match text.parse() {
            Ok(bytes) if bytes >= 64 => {
                config.segment = bytes;
                Ok(())
            }
            _ => Err("".to_owned()),
        },
    },
    Setting {
        name: "RINGROAD_DEBUG",
        default: "WARN",
        unit: "",
        allowed: "WARN, INFO or TRACE",
        meaning: "how much to say on standard error: warnings; what was found, and which algorithm is chosen from how many bytes on; every call and its algorithm",
        secret: false,
        read: |config, text| {
            let levels = [("WARN", Debug::Warn), ("INFO", Debug::Info), ("TRACE", Debug::Trace)];
            one_of(text, &levels).map(|level| config.debug = level)
        },
    },
    Setting {
        name: "RINGROAD_STEP_LATENCY",
        default: "",
        unit: "seconds",
        allowed: "a number of seconds, 0 or more, such as 1e-6",
        meaning: "cost model: what it takes to start a step; unset: the model's own",
        secret: false,
        read: |config, text| {
            config.step_latency = Some(number(text, |n| n >= 0.0)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_HOP_LATENCY",
        default: "",
        unit: "seconds",
        allowed: "a number of seconds, 0 or more, such as 0.5e-6",
        meaning: "cost model: what every hop of a message takes; unset: the topology's latencies",
        secret: false,
        read: |config, text| {
            config.hop_latency = Some(number(text, |n| n >= 0.0)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_BANDWIDTH",
        default: "",
        unit: "bytes per second",
        allowed: "a number above 0, such as 12.5e9 for 100 Gb/s",
        meaning: "cost model: what every link carries; unset: the topology's bandwidths",
        secret: false,
        read: |config, text| {
            config.bandwidth = Some(number(text, |n| n > 0.0)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_MESSAGE_LATENCY",
        default: "",
        unit: "s",
        allowed: "a number of seconds, 0 or more, such as 0.3e-6",
        meaning: "cost model: what each further message of a step costs its sender; unset: the model's own",
        secret: false,
        read: |config, text| {
            config.message_latency = Some(number(text, |n| n >= 0.0)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_INCAST_LATENCY",
        default: "",
        unit: "s",
        allowed: "a number of seconds, 0 or more, such as 0.1e-6",
        meaning: "cost model: what each further rank adds that sends to the same port in a step; unset: the model's own",
        secret: false,
        read: |config, text| {
            config.incast_latency = Some(number(text, |n| n >= 0.0)?);
            Ok(())
        },
    },
    Setting {
        name: "RINGROAD_REDUCE_COST",
        default: "",
        unit: "seconds per byte",
        allowed: "a number, 0 or more, such as 0.1e-9 for 10 GB/s",
        meaning: "cost model: what it takes to reduce a byte; unset: the model's own",
        secret: false,
        read: |config, text| {
            config.reduce_cost = Some(number(text, |n| n >= 0.0)?);
            Ok(())
        },
    },
];

/// Whether the kernel copies messages between ranks of a host (cross-memory attach).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cma {
    /// Where ranks share cores.
    Auto,
    /// Wherever it permits that.
    On,
    /// Nowhere.
    Off,
}

/// What carries the bytes between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// Shared memory within a host, UCX between hosts.
    Auto,
    /// UCX always.
    Ucx,
}

/// Where measured costs are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSource {
    /// Nowhere.
    None,
    /// In this file, which must fit wherever it is for this network.
    File(PathBuf),
    /// In the user's directory of profiles, if there is one that fits.
    Stored(PathBuf),
}

/// How much to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Debug {
    /// What the user should change.
    Warn,
    /// What was chosen, and why.
    Info,
    /// Every call.
    Trace,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(set)")
    }
}

/// What the environment says.
#[derive(Debug, Clone)]
pub struct Config {
    /// `RINGROAD_ALGO`.
    pub algorithms: Algorithms,
    /// `RINGROAD_DETERMINISTIC`: whether floats are added up in one order for all lengths.
    pub size_invariant: bool,
    /// `RINGROAD_TUNER_FILE`.
    pub tuner_file: Option<PathBuf>,
    /// `RINGROAD_PROFILE`.
    pub profile: ProfileSource,
    /// `RINGROAD_SYNTHESIS_BUDGET`.
    pub synthesis_budget: Duration,
    /// `RINGROAD_SCHEDULE_CACHE`: the directory.
    pub schedule_cache: Option<PathBuf>,
    /// `RINGROAD_TOPOLOGY`.
    pub topology: Option<Topology>,
    /// `RINGROAD_TIMEOUT`.
    pub timeout: Duration,
    /// `RINGROAD_UCX_LIBRARY`.
    pub ucx_library: Option<PathBuf>,
    /// `RINGROAD_TRANSPORT`.
    pub transport: TransportKind,
    /// `RINGROAD_CMA`.
    pub cma: Cma,
    /// `RINGROAD_HOST`.
    pub host: Option<String>,
    /// `RINGROAD_NET_DEVICES`.
    pub net_devices: Option<Vec<String>>,
    /// `RINGROAD_PORTS`.
    pub ports: Option<Vec<String>>,
    /// `RINGROAD_PORT_RANGE`: the first and the last.
    pub port_range: Option<(u16, u16)>,
    /// `RINGROAD_SECRET`.
    pub secret: Option<Secret>,
    /// `RINGROAD_STORE`: the directory.
    pub store: Option<PathBuf>,
    /// `RINGROAD_SEGMENT`, in bytes.
    pub segment: usize,
    /// `RINGROAD_DEBUG`.
    pub debug: Debug,
    /// `RINGROAD_STEP_LATENCY`, in seconds.
    pub step_latency: Option<f64>,
    /// `RINGROAD_HOP_LATENCY`, in seconds.
    pub hop_latency: Option<f64>,
    /// `RINGROAD_BANDWIDTH`, in bytes per second.
    pub bandwidth: Option<f64>,
    /// `RINGROAD_MESSAGE_LATENCY`, in seconds.
    pub message_latency: Option<f64>,
    /// `RINGROAD_INCAST_LATENCY`, in seconds.
    pub incast_latency: Option<f64>,
    /// `RINGROAD_REDUCE_COST`, in seconds per byte.
    pub reduce_cost: Option<f64>,
    /// What the user should know: variables of ours that do not exist.
    pub warnings: Vec<String>,
    /// The values that were set, as they are shown, by the names of their variables.
    set: BTreeMap<&'static str, String>,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is the default.
    Default,
    /// The variable is set.
    Environment,
}

/// A row of what `ringroad info` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The variable.
    pub name: &'static str,
    /// Its value as written; `set` where it is secret, `unset` where there is none.
    pub value: String,
    /// The unit of the value, or empty.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// What it is for.
    pub meaning: &'static str,
}

/// A variable has a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value:?} cannot be used{}; write {allowed}", if reason.is_empty() { String::new() } else { format!(": {reason}") })]
pub struct ConfigError {
    /// Its name.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it, where that is not plain.
    pub reason: String,
    /// What can be written.
    pub allowed: &'static str,
}

impl Config {
    /// What the environment of this process says.
    pub fn from_env() -> Result<Config, ConfigError> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let mut config = Config::read(std::env::vars_os().map(|(name, value)| (text(name), text(value))))?;
        if !config.set.contains_key("RINGROAD_PROFILE") {
            config.profile = profiles().map_or(ProfileSource::None, ProfileSource::Stored);
        }
        if !config.set.contains_key("RINGROAD_SCHEDULE_CACHE") {
            config.schedule_cache = cached("schedules");
        }
        Ok(config)
    }

    /// What these variables say. Those that are empty count as not set, those that are not ours do not matter.
    pub fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        let mut config = Config::blank();
        let mut values: BTreeMap<String, String> =
            variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        for setting in SETTINGS {
            let value = values.remove(setting.name).filter(|value| !value.trim().is_empty());
            if let Some(value) = &value {
                let shown = if setting.secret { "set" } else { value };
                config.set.insert(setting.name, shown.to_owned());
            }
            let value = value.unwrap_or_else(|| setting.default.to_owned());
            // Spaces around a secret are part of it.
            let text = if setting.secret { &value } else { value.trim() };
            if text.is_empty() {
                continue;
            }
            (setting.read)(&mut config, text).map_err(|reason| ConfigError {
                variable: setting.name,
                value: text.to_owned(),
                reason,
                allowed: setting.allowed,
            })?;
        }
        config.warnings = values.keys().map(|name| unknown(name)).collect();
        Ok(config)
    }

    /// Before the table's defaults.
    fn blank() -> Config {
        Config {
            algorithms: Algorithms::default(),
            size_invariant: false,
            tuner_file: None,
            profile: ProfileSource::None,
            synthesis_budget: Duration::ZERO,
            schedule_cache: None,
            topology: None,
            timeout: Duration::ZERO,
            ucx_library: None,
            transport: TransportKind::Auto,
            cma: Cma::Auto,
            host: None,
            net_devices: None,
            ports: None,
            port_range: None,
            secret: None,
            store: None,
            segment: 0,
            debug: Debug::Warn,
            step_latency: None,
            hop_latency: None,
            bandwidth: None,
            message_latency: None,
            incast_latency: None,
            reduce_cost: None,
            warnings: Vec::new(),
            set: BTreeMap::new(),
        }
    }

    /// All variables with their values, for people.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |setting: &Setting| {
            let (value, origin) = match self.set.get(setting.name) {
                Some(value) => (value.as_str(), Origin::Environment),
                None if setting.default.is_empty() => ("unset", Origin::Default),
                None => (setting.default, Origin::Default),
            };
            Entry {
                name: setting.name,
                value: value.to_owned(),
                unit: setting.unit,
                origin,
                meaning: setting.meaning,
            }
        };
        SETTINGS.iter().map(entry).collect()
    }

    /// Whether the environment says anything about the cost model.
    pub fn has_cost_model(&self) -> bool {
        let Config {
            step_latency, hop_latency, bandwidth, message_latency, incast_latency, reduce_cost, ..
        } = self;
        let stated = [step_latency, hop_latency, bandwidth, message_latency, incast_latency, reduce_cost];
        stated.iter().any(|v| v.is_some())
    }

    /// The cost model `prior` with what the environment says about it.
    pub fn cost_model(&self, prior: CostModel) -> CostModel {
        CostModel {
            step_latency: self.step_latency.unwrap_or(prior.step_latency),
            hop_latency: self.hop_latency.or(prior.hop_latency),
            bandwidth: self.bandwidth.or(prior.bandwidth),
            message_latency: self.message_latency.unwrap_or(prior.message_latency),
            incast_latency: self.incast_latency.unwrap_or(prior.incast_latency),
            reduce_cost: self.reduce_cost.unwrap_or(prior.reduce_cost),
            ..prior
        }
    }
}

/// Says on standard error what the user should know, once for each `key` however many communicators there are.
pub(crate) fn warn_once(key: &str, text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().insert(key.to_owned()) {
        eprintln!("ringroad: warning: {text}");
    }
}

/// Where `ringroad tune` stores profiles.
pub fn profiles() -> Option<PathBuf> {
    cached("profiles")
}

/// A directory by the XDG base directory specification: among what can be made again.
fn cached(what: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("ringroad").join(what))
}

/// What holds where no variable is set.
impl Default for Config {
    fn default() -> Self {
        Config::read([]).expect("the defaults of the table can be used")
    }
}

/// Names of network devices.
fn devices(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    if names.contains(&"") {
        return Err("a name is empty".to_owned());
    }
    match names.iter().find(|name| name.contains(char::is_whitespace)) {
        Some(name) => Err(format!("{name:?} has a space within, where a comma belongs")),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// A spec, or a file with the serialised form. Other forms of graphs are Python's to read.
fn read_topology(text: &str) -> Result<Topology, String> {
    if !ringroad_core::topology::names_a_file(text) {
        return Topology::parse(text).map_err(|e| e.to_string());
    }
    let content = std::fs::read_to_string(text).map_err(|e| e.to_string())?;
    serde_json::from_str(&content).map_err(|e| e.to_string())
}

fn number(text: &str, allowed: fn(f64) -> bool) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && allowed(number) => Ok(number),
        _ => Err(String::new()),
    }
}

fn one_of<V: Copy>(text: &str, values: &[(&str, V)]) -> Result<V, String> {
    let found = values.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(String::new)
}

fn unknown(name: &str) -> String {
    let near = |setting: &&Setting| levenshtein(&name.to_ascii_uppercase(), setting.name);
    let nearest = SETTINGS.iter().min_by_key(near).filter(|s| near(s) <= (name.len() - PREFIX.len()) / 2);
    match nearest {
        Some(setting) => format!("there is no variable {name}; did you mean {}?", setting.name),
        None => format!("there is no variable {name}; `ringroad info` lists all"),
    }
}
