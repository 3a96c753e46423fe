//! The types of settings, and how they are read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringroad_core::{units, Topology};

use super::setting::AllowedValues;
use crate::os::files;
use crate::os::ports::PortRange;

/// The longest timeout in seconds: a year. Longer ones overflow clocks.
const LONGEST_TIMEOUT: f64 = 365.0 * 86400.0;

/// The most connections of a pair of ranks.
pub const MOST_STREAMS: usize = 16;

/// Makes an enum whose values are written with these names.
macro_rules! choice {
    ($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$meaning])* $variant,)*
        }

        impl $type {
            pub(super) const VALUES: AllowedValues = AllowedValues::OneOf(&[$($name),*]);

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }

            pub(crate) fn read(text: &str) -> Result<$type, String> {
                let values = [$(($name, $type::$variant)),*];
                let found = values.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                found.map(|(_, value)| value).ok_or_else(String::new)
            }
        }
    };
}

choice! {
    /// How messages travel between ranks of a host.
    Within {
        /// By shared memory. If ranks share cores, the kernel copies long messages (cross-memory attach).
        Auto = "auto",
        /// The kernel copies them wherever it permits that.
        Cma = "cma",
        /// It never does.
        NoCma = "no-cma",
    }
}

choice! {
    /// How messages travel between hosts.
    Between {
        /// By UCX.
        Ucx = "ucx",
        /// By connections of our own.
        Tcp = "tcp",
    }
}

/// How messages travel between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportKind {
    /// Within a host; `None`: as between hosts.
    pub within: Option<Within>,
    /// Between hosts; `None`: as suits them.
    pub between: Option<Between>,
    /// How many connections of our own each pair of ranks has; `None`: as many as suit.
    pub streams: Option<usize>,
}

impl TransportKind {
    pub(super) fn read(text: &str) -> Result<TransportKind, String> {
        let mut kind = TransportKind { within: None, between: None, streams: None };
        for word in text.split(',').map(str::trim) {
            let (name, streams) =
                word.split_once(':').map_or((word, None), |(name, streams)| (name, Some(streams)));
            match (Within::read(name), Between::read(name)) {
                (Ok(within), _) if kind.within.is_none() && streams.is_none() => kind.within = Some(within),
                (_, Ok(between)) if kind.between.is_none() => kind.between = Some(between),
                (Err(_), Err(_)) => {
                    let (within, between) = (Within::VALUES, Between::VALUES);
                    return Err(format!("there is no {name:?} among {within}, or {between}"));
                }
                _ => return Err(format!("{word:?} is one too many")),
            }
            if let Some(streams) = streams {
                let streams = streams.parse().ok().filter(|streams| (1..=MOST_STREAMS).contains(streams));
                let is_tcp = kind.between == Some(Between::Tcp);
                kind.streams = streams.filter(|_| is_tcp);
                if kind.streams.is_none() {
                    return Err(format!(
                        "{word:?} is not tcp with a number of connections from 1 to {MOST_STREAMS}"
                    ));
                }
            }
        }
        Ok(kind)
    }
}

choice! {
    /// How much to print.
    Debug {
        /// Warnings.
        Warn = "WARN",
        /// Also what was found and chosen.
        Info = "INFO",
        /// Also every call.
        Trace = "TRACE",
    }
}

choice! {
    /// A signal that programs may use as they like.
    Signal {
        /// SIGUSR1.
        Usr1 = "USR1",
        /// SIGUSR2.
        Usr2 = "USR2",
    }
}

choice! {
    /// The order in which floats are added up.
    Order {
        /// One order, whatever the length of the vector.
        SizeInvariant = "size-invariant",
    }
}

/// Makes a struct whose fields are written as `name=value,name=value`.
macro_rules! parts {
    ($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $field:ident: $value:ty = $read:expr,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct $type {
            $($(#[$meaning])* pub $field: $value,)*
        }

        impl $type {
            /// These values, changed by a text.
            pub(super) fn set(mut self, text: &str) -> Result<$type, String> {
                let mut named = Vec::new();
                for part in text.split(',').map(str::trim) {
                    let malformed = || format!("{part:?} is not written as name=value");
                    let (name, value) = part.split_once('=').ok_or_else(malformed)?;
                    let name = name.trim();
                    match name {
                        $(stringify!($field) => {
                            let read: fn(&str) -> Result<$value, &'static str> = $read;
                            self.$field = read(value).map_err(|must| format!("{name} must be {must}"))?;
                        })*
                        _ => {
                            let meant = units::nearest(name, [$(stringify!($field)),*].into_iter());
                            let meant = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                            return Err(format!("there is no {name:?}{meant}"));
                        }
                    }
                    if named.contains(&name) {
                        return Err(format!("{name} is given twice"));
                    }
                    named.push(name);
                }
                Ok(self)
            }
        }
    };
}

parts! {
    /// The numbers of the cost model that are stated, as `CostModel` has them.
    Cost {
        /// Bytes per second of every link.
        bandwidth: Option<f64> = rate,
        /// Seconds to start a step.
        step_latency: Option<f64> = |text| time(text).map(Some),
        /// Seconds of every hop of a message.
        hop_latency: Option<f64> = |text| time(text).map(Some),
        /// Seconds that each further message of a step costs its sender.
        message_latency: Option<f64> = |text| time(text).map(Some),
        /// Seconds that each further rank costs that sends to the same port in a step.
        incast_latency: Option<f64> = |text| time(text).map(Some),
        /// Seconds to reduce a byte.
        reduce_cost: Option<f64> = |text| time(text).map(Some),
    }
}

parts! {
    /// How long ranks may take to choose well.
    Budget {
        /// To find out how hosts are connected.
        discovery: Duration = duration,
        /// To make schedules for a graph.
        synthesis: Duration = duration,
        /// To measure the network again; zero: never. `None`: [`Budget::ADAPTATION`] if ranks have found it out.
        adaptation: Option<Duration> = |text| duration(text).map(Some),
    }
}

impl Budget {
    /// How long ranks measure their network again, unless the user says so.
    pub const ADAPTATION: Duration = Duration::from_millis(500);
}

/// The network devices to use, by UCX's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// These serve all ports.
    Any(Vec<String>),
    /// One for each port, in rotation.
    PerPort(Vec<String>),
}

impl Devices {
    pub(super) fn read(text: &str) -> Result<Devices, String> {
        match text.strip_prefix("per-port:") {
            Some(names) => device_names(names).map(Devices::PerPort),
            None => device_names(text).map(Devices::Any),
        }
    }
}

/// Where measured costs come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProfileSource {
    /// From the profile in the cache that fits, if there is one.
    #[default]
    Stored,
    /// From no file: the cost model's own are used.
    None,
    /// From this file. It is an error if the file does not fit this network and machine.
    File(PathBuf),
}

/// Where the ranks of a job find each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreSource {
    /// In this directory.
    Directory(PathBuf),
    /// At rank 0, which listens on this host at this port.
    Server(String, u16),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(super) String);

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

pub(super) fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(PathBuf::from(text)))
}

pub(super) fn path_or_none(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!text.eq_ignore_ascii_case("none")).then(|| PathBuf::from(text)))
}

pub(super) fn store(text: &str) -> Result<Option<StoreSource>, String> {
    if let Some(address) = text.strip_prefix("tcp://") {
        let (host, port) = address.rsplit_once(':').ok_or("the port is missing")?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let port = port.ok_or("the port must be a number from 1 to 65535")?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err("the host is missing".to_owned());
        }
        return Ok(Some(StoreSource::Server(host.to_owned(), port)));
    }
    match text.strip_prefix("file://") {
        Some(path) if path.starts_with('/') => Ok(Some(StoreSource::Directory(PathBuf::from(path)))),
        Some(_) => Err("the path must begin with a slash".to_owned()),
        None => Err(String::new()),
    }
}

pub(super) fn tcp_ports(text: &str) -> Result<PortRange, String> {
    let (first, last) = text.split_once('-').ok_or("")?;
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| format!("{text:?} is not a port"));
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err("ports are above 0, and the first is not above the last".to_owned());
    }
    Ok(Some((first, last)))
}

/// Reads a list of names of network devices.
fn device_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    if names.contains(&"") {
        return Err("a name is empty".to_owned());
    }
    match names.iter().find(|name| name.contains(char::is_whitespace)) {
        Some(name) => Err(format!("{name:?} has a space within, where a comma belongs")),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// What the settings say about the network.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum TopologySource {
    /// Ranks on several hosts find out.
    #[default]
    Auto,
    /// Nothing is known, and nothing is sent to find out.
    Off,
    /// This one.
    Given(Box<Topology>),
}

impl TopologySource {
    /// The topology, if one is given.
    pub fn given(&self) -> Option<&Topology> {
        match self {
            TopologySource::Given(topology) => Some(topology),
            TopologySource::Auto | TopologySource::Off => None,
        }
    }

    pub(super) fn read(text: &str) -> Result<TopologySource, String> {
        match text {
            "auto" => Ok(TopologySource::Auto),
            "off" => Ok(TopologySource::Off),
            _ => read_topology(text).map(Box::new).map(TopologySource::Given),
        }
    }
}

/// Without a topology, ranks find out.
impl From<Option<Topology>> for TopologySource {
    fn from(given: Option<Topology>) -> TopologySource {
        given.map_or(TopologySource::Auto, |topology| TopologySource::Given(Box::new(topology)))
    }
}

/// Reads a spec, or a file with the serialised form. Only Python reads other forms of graphs.
fn read_topology(text: &str) -> Result<Topology, String> {
    if !ringroad_core::topology::names_a_file(text) {
        return Topology::parse(text).map_err(|e| e.to_string());
    }
    let content = files::read_text(Path::new(text)).map_err(|e| e.to_string())?;
    serde_json::from_str(&content).map_err(|e| e.to_string())
}

pub(super) fn rate(text: &str) -> Result<Option<f64>, &'static str> {
    let rate = units::bandwidth(text).ok().filter(|rate| *rate > 0.0);
    rate.map(Some).ok_or("a bandwidth above 0, such as 100Gbit/s")
}

fn time(text: &str) -> Result<f64, &'static str> {
    units::seconds(text).map_err(|_| "a time, 0 or more, such as 500ns")
}

pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    let seconds = units::seconds(text).ok().filter(|seconds| *seconds <= LONGEST_TIMEOUT);
    seconds.map(Duration::from_secs_f64).ok_or("a time of up to a year, such as 500ms")
}
