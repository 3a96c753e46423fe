//! Every environment variable, in one table.
//!
//! A row holds everything about a setting: its field of [`Config`], its default, how it is read, which values are
//! allowed, and what it is for. An argument takes precedence over the environment, and the environment over the
//! default: callers use [`Config`] where they were given no argument.

mod setting;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use strsim::levenshtein;

use ringroad_core::cost::CostModel;
pub use ringroad_core::selection::Algorithms;
use ringroad_core::units;

pub use self::setting::{AllowedValues, ConfigError, Scope, Setting, SettingEntry, ValueOrigin};
use self::values::{duration, path, path_or_none, store, tcp_ports};
pub use self::values::{
    Between, Budget, Cost, Debug, Devices, Order, ProfileSource, Secret, Signal, StoreSource, TopologySource,
    TransportKind, Within, MOST_STREAMS,
};
use crate::error::Error;
use crate::os::ports::PortRange;

/// The prefix of all variables of ringroad. Variables `UCX_*` go to UCX unchanged.
pub const PREFIX: &str = "RINGROAD_";

/// Makes the table, the fields of [`Config`], and the code that reads them. A reader gets a non-empty text. Its error
/// says more than the allowed values do, and may be empty.
macro_rules! settings {
    ($($name:literal => $field:ident: $type:ty {
        default: $default:tt,
        $(unit: $unit:literal,)?
        values: $values:expr,
        help: $help:literal,
        read: $read:expr,
        $(secret: $secret:literal,)?
        $(scope: $scope:expr,)?
    })*) => {
        /// The settings.
        #[derive(Debug, Clone)]
        pub struct Config {
            $(#[doc = concat!("`", $name, "`: ", $help, ".")] pub $field: $type,)*
            /// Warnings for the user: variables that begin with the prefix but do not exist.
            pub warnings: Vec<String>,
            /// The values that were set, as they are shown, by the names of their variables.
            set: BTreeMap<&'static str, String>,
        }

        #[allow(non_upper_case_globals)]
        mod rows {
            use super::*;

            $(pub const $field: Setting = Setting {
                name: $name,
                default: settings!(@text $default),
                unit: concat!($($unit)?),
                values: $values,
                help: $help,
                secret: [$($secret,)? false][0],
                scope: [$($scope,)? Scope::Any][0],
            };)*
        }

        /// The table.
        pub const SETTINGS: &[Setting] = &[$(rows::$field),*];

        impl Config {
            /// Reads these variables, all of which have the prefix.
            fn from_variables(mut values: BTreeMap<String, String>) -> Result<Config, ConfigError> {
                let mut set = BTreeMap::new();
                Ok(Config {
                    $($field: {
                        let read: fn(&str) -> Result<$type, String> = $read;
                        let found = rows::$field.take_value(&mut values, &mut set, read)?;
                        found.unwrap_or_else(|| settings!(@value $default))
                    },)*
                    warnings: values.keys().map(|name| unknown(name)).collect(),
                    set,
                })
            }
        }
    };
    (@text unset) => { None };
    (@text $default:literal) => { Some($default) };
    (@value unset) => { Default::default() };
    (@value $default:literal) => { unreachable!("the default is read like any other value") };
}

settings! {
    "RINGROAD_ALGO" => algorithms: Algorithms {
        default: unset,
        values: AllowedValues::Words("the algorithms to choose among, for all collectives (ring,swing) or for each (allreduce:ring,swing;broadcast:binomial), and those to leave out (^bucket,swing or allreduce:^ring); file:PATH is a schedule of your own"),
        help: "which algorithms to use; unset: rules, measurements or the cost model decide",
        read: Algorithms::parse,
    }
    "RINGROAD_DETERMINISTIC" => size_invariant: bool {
        default: unset,
        values: Order::VALUES,
        help: "size-invariant: floats are added up in one order, whatever the length of the vector; unset: in the same order on all ranks, and in all runs within one host or if the network is named with its rates; only rank 0's value is used",
        read: |text| Order::read(text).map(|order| order == Order::SizeInvariant),
    }
    "RINGROAD_TUNER_FILE" => tuner_file: Option<PathBuf> {
        default: unset,
        values: AllowedValues::Words("the path of a file of rules in the format of NCCL's tuner plugin"),
        help: "which algorithm to use for which sizes: lines of collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks, with -1 for any; rank 0 reads the file",
        read: path,
        scope: Scope::Job,
    }
    "RINGROAD_PROFILE" => profile: ProfileSource {
        default: unset,
        values: AllowedValues::Words("the path of a profile that `ringroad tune` wrote, or none"),
        help: "measured costs and choices; none: the cost model's own; unset: the profile in RINGROAD_CACHE that `ringroad tune` stored for this network and machine, if there is one; rank 0 reads it",
        read: |text| Ok(path_or_none(text)?.map_or(ProfileSource::None, ProfileSource::File)),
    }
    "RINGROAD_COST" => cost: Cost {
        default: unset,
        values: AllowedValues::Words("any of bandwidth=100Gbit/s, step_latency=1us, hop_latency=500ns, message_latency=300ns, incast_latency=100ns and reduce_cost=0.1ns, separated by commas, as in CostModel"),
        help: "numbers of the cost model. bandwidth: of every link. step_latency: the time to start a step. hop_latency: the time of every hop of a message. message_latency: what each further message of a step costs its sender. incast_latency: what each further rank costs that sends to the same port in a step. reduce_cost: the time to reduce a byte. Left out: as measured, or the model's and the topology's own",
        read: |text| Cost::default().set(text),
    }
    "RINGROAD_SCHEDULES" => schedules: Option<PathBuf> {
        default: unset,
        values: AllowedValues::Words("the path of a directory"),
        help: "schedules of your own, in files *.json (ringroad's format) and *.xml (MSCCL's), which compete with the algorithms; rank 0 reads them, verifies them and sends them to all ranks",
        read: path,
    }
    "RINGROAD_CACHE" => cache: Option<PathBuf> {
        default: unset,
        values: AllowedValues::Words("the path of a directory, or none"),
        help: "where to keep what takes long to make or to measure, for later jobs: profiles of `ringroad tune`, schedules that were made for a graph, and what ranks have measured of their network; none: nowhere; unset: ringroad in the user's cache directory; only rank 0's value is used for networks and profiles",
        read: path_or_none,
    }
    "RINGROAD_TOPOLOGY" => topology: TopologySource {
        default: "auto",
        values: AllowedValues::Words("auto, off, a topology such as ring:8, torus:4x4x2, petersen, without(torus:8x8, 0-1), switch:16, hosts:2x4 or ring:9,bandwidth=200Mbit/s, or the path of a .json file that Topology.save has written"),
        help: "how the ranks are connected; auto: what ranks on several hosts find out when they start; off: nothing is sent to find out, and only algorithms that suit any network are used between hosts",
        read: TopologySource::read,
        scope: Scope::Job,
    }
    "RINGROAD_BUDGET" => budget: Budget {
        default: "discovery=1.5s,synthesis=2s",
        values: AllowedValues::Words("any of discovery=1.5s, synthesis=2s and adaptation=500ms, separated by commas, each a time, 0 or more"),
        help: "how long ranks may take to choose well. discovery: to find out when they start how several hosts are connected; 0: routes only, without measuring rates. synthesis: to make schedules for the network's graph on rank 0; those that are not made by then are left out, but an algorithm that RINGROAD_ALGO names alone is made in any case. adaptation: to measure the network of several hosts again when calls take longer or shorter than they used to, and choose again; 0 on any rank: never; left out: 500ms if ranks have found out by themselves what the network is, else never, as sums then may differ in the last bits from one run to another; never with RINGROAD_TOPOLOGY=off or a device for each port",
        read: |text| Budget::default().set(rows::budget.default.unwrap_or_default())?.set(text),
    }
    "RINGROAD_TIMEOUT" => timeout: Duration {
        default: "300",
        unit: "seconds",
        values: AllowedValues::Words("a time above 0 and up to a year, such as 500ms or 30 (seconds)"),
        help: "how long connecting, a collective or a wait may take before it fails; in torch.distributed the timeout of init_process_group counts instead",
        read: |text| duration(text).ok().filter(|time| !time.is_zero()).ok_or_else(String::new),
    }
    "RINGROAD_UCX_LIBRARY" => ucx_library: Option<PathBuf> {
        default: unset,
        values: AllowedValues::Words("the path of libucp.so.0"),
        help: "which UCX to load; unset: one that is loaded already, or the newer one of the system's and the wheel's; the system's also if LD_LIBRARY_PATH names it, or if the host has RDMA devices, which a wheel's cannot use",
        read: path,
    }
    "RINGROAD_TRANSPORT" => transport: TransportKind {
        default: "auto",
        values: AllowedValues::Words("auto, cma or no-cma, for ranks of a host; ucx or tcp, for all ranks; one of the former and one of the latter, such as auto,tcp, for ranks of a host and those of other hosts. For tcp, a number of connections for each pair of ranks may follow, such as tcp:4"),
        help: "how messages travel between processes. Within a host: by shared memory, where the kernel, if it permits that, copies long messages directly out of other ranks' private memory: auto if ranks share cores, cma always, no-cma never. Between hosts: by ringroad's own tcp connections, which are encrypted if RINGROAD_SECRET is set, or by UCX, which is the default where all hosts have RDMA devices. ucx or tcp alone: within a host, too",
        read: TransportKind::read,
    }
    "RINGROAD_HOST" => host: Option<String> {
        default: unset,
        values: AllowedValues::Words("any text"),
        help: "the name of this host: ranks with the same name share memory; unset: the machine's own name",
        read: |text| Ok(Some(text.to_owned())),
        scope: Scope::Rank,
    }
    "RINGROAD_NET_DEVICES" => net_devices: Option<Devices> {
        default: unset,
        values: AllowedValues::Words("network devices, separated by commas, such as eth0,eth1, or for UCX mlx5_0:1; or one for each port, such as per-port:eth0,eth1, and then equally many on every rank"),
        help: "which network devices to use; unset: loopback if all ranks are on one machine, else the device by which most other hosts reach this one, else the one that leads to the store's host (MASTER_ADDR), else all; for UCX also all RDMA devices, or what UCX_NET_DEVICES says. per-port: the device of each port, in rotation; the n-th device of every rank reaches the n-th devices of the others, or, on a ring or torus, where devices come in pairs up and down, is cabled to its opposite on the neighbour; a name may occur twice",
        read: |text| Devices::read(text).map(Some),
    }
    "RINGROAD_TCP_PORTS" => tcp_ports: PortRange {
        default: unset,
        values: AllowedValues::Words("the first and the last TCP port, such as 20000-20999"),
        help: "which TCP ports to listen on, for firewalls, at least two for each rank of a host; unset: any",
        read: tcp_ports,
    }
    "RINGROAD_SECRET" => secret: Option<Secret> {
        default: unset,
        values: AllowedValues::Words("any text"),
        help: "a secret of the job, the same on all ranks: only processes that know it can take part, and tcp connections of ringroad's own are encrypted; unset: what ranks write to the store is protected against accidents only, and who can read the store can make such connections",
        read: |text| Ok(Some(Secret(text.to_owned()))),
        secret: true,
    }
    "RINGROAD_STORE" => store: Option<StoreSource> {
        default: unset,
        values: AllowedValues::Words("a directory that all ranks can reach, such as file:///shared/job-17, or rank 0's host and a free port, such as tcp://node1:29500"),
        help: "where the ranks find each other: in a directory, a new one for every job, or at rank 0, which listens at the port; unset: MASTER_ADDR and MASTER_PORT, or what the launcher says",
        read: store,
    }
    "RINGROAD_SEGMENT" => segment: Option<usize> {
        default: unset,
        unit: "bytes",
        values: AllowedValues::Words("a number of bytes, 64 or more, such as 65536, 64KiB or 100KB"),
        help: "large messages are sent in segments of at most this size, so that reducing and sending overlap; unset: as much as the slowest link carries in 4 ms, within 32 KiB to 512 KiB",
        read: |text| match units::bytes(text) {
            Ok(bytes) if bytes >= 64 => Ok(Some(bytes as usize)),
            _ => Err(String::new()),
        },
    }
    "RINGROAD_DEBUG" => debug: Debug {
        default: "WARN",
        values: Debug::VALUES,
        help: "how much to print on standard error: WARN warnings; INFO also what was found, and which algorithm is chosen from how many bytes on; TRACE also every call and its algorithm",
        read: Debug::read,
    }
    "RINGROAD_SIGNAL" => signal: Option<Signal> {
        default: unset,
        values: Signal::VALUES,
        help: "the signal at which a process writes on standard error how its job stands, as `ringroad status` shows it; a handler of the program's own comes before ringroad's; unset: none",
        read: |text| Signal::read(text).map(Some),
        scope: Scope::Rank,
    }
    "RINGROAD_TRACE" => trace: Option<PathBuf> {
        default: unset,
        values: AllowedValues::Words("the path of a directory"),
        help: "where each rank writes what its calls did and when, as a file for ui.perfetto.dev, when a communicator is closed; `ringroad trace` combines the ranks' files; unset: nowhere",
        read: path,
        scope: Scope::Rank,
    }
}

impl Config {
    /// The settings of this process's environment.
    pub fn from_env() -> Result<Config, ConfigError> {
        Config::in_place(environment())
    }

    /// The settings of `arguments`, under the names of the variables, and for all others those of the environment.
    pub fn from_arguments(arguments: impl IntoIterator<Item = (String, String)>) -> crate::Result<Config> {
        let arguments: Vec<(String, String)> = arguments.into_iter().collect();
        let is_known = |name: &str| SETTINGS.iter().any(|setting| setting.name == name);
        if let Some((name, _)) = arguments.iter().find(|(name, _)| !is_known(name)) {
            return Err(Error::Argument(unknown(name)));
        }
        Ok(Config::in_place(environment().chain(arguments))?)
    }

    /// The settings of these variables. If none says so, files are kept in this user's cache directory.
    fn in_place(variables: impl Iterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        let mut config = Config::read(variables)?;
        if !config.set.contains_key(rows::cache.name) {
            config.cache = user_cache();
        }
        Ok(config)
    }

    /// The settings of these variables. Empty ones count as not set, and those without the prefix are ignored. If a
    /// name occurs several times, the last value is used.
    pub fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        Config::from_variables(variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect())
    }

    /// The directory in which `ringroad tune` stores profiles.
    pub fn profiles(&self) -> Option<PathBuf> {
        self.cached("profiles")
    }

    /// The directory for schedules that take long to make.
    pub fn made_schedules(&self) -> Option<PathBuf> {
        self.cached("schedules")
    }

    /// The directory for what ranks have measured of their network.
    pub fn networks(&self) -> Option<PathBuf> {
        self.cached("networks")
    }

    fn cached(&self, what: &str) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join(what))
    }

    /// The network devices that serve all ports, as UCX reads them.
    pub fn devices_of_all(&self) -> Option<String> {
        match &self.net_devices {
            Some(Devices::Any(names)) => Some(names.join(",")),
            _ => None,
        }
    }

    /// The network device of each port, in rotation; empty if none has its own.
    pub fn devices_of_ports(&self) -> &[String] {
        match &self.net_devices {
            Some(Devices::PerPort(names)) => names,
            _ => &[],
        }
    }

    /// How long this rank may measure its network again, if that is set; 0: never.
    pub fn adaptation(&self) -> Option<Duration> {
        let is_off = self.topology == TopologySource::Off || !self.devices_of_ports().is_empty();
        if is_off {
            Some(Duration::ZERO)
        } else {
            self.budget.adaptation
        }
    }

    /// All settings with their values, for people.
    pub fn entries(&self) -> Vec<SettingEntry> {
        let entry = |setting: &'static Setting| match self.set.get(setting.name) {
            Some(value) => {
                SettingEntry { setting, value: Some(value.clone()), origin: ValueOrigin::Environment }
            }
            None => SettingEntry {
                setting,
                value: setting.default.map(str::to_owned),
                origin: ValueOrigin::Default,
            },
        };
        SETTINGS.iter().map(entry).collect()
    }

    /// The cost model `prior`, changed by the settings.
    pub fn cost_model(&self, prior: CostModel) -> CostModel {
        let said = self.cost;
        CostModel {
            step_latency: said.step_latency.unwrap_or(prior.step_latency),
            hop_latency: said.hop_latency.or(prior.hop_latency),
            bandwidth: said.bandwidth.or(prior.bandwidth),
            message_latency: said.message_latency.unwrap_or(prior.message_latency),
            incast_latency: said.incast_latency.unwrap_or(prior.incast_latency),
            reduce_cost: said.reduce_cost.unwrap_or(prior.reduce_cost),
            ..prior
        }
    }
}

/// The environment variables of this process, as texts.
fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// A directory for files that can be made again, by the XDG base directory specification.
fn user_cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("ringroad"))
}

/// The settings if no variable is set.
impl Default for Config {
    fn default() -> Self {
        Config::read([]).expect("the defaults of the table can be used")
    }
}

fn unknown(name: &str) -> String {
    let near = |setting: &&Setting| levenshtein(&name.to_ascii_uppercase(), setting.name);
    let nearest = SETTINGS.iter().min_by_key(near).filter(|s| near(s) <= (name.len() - PREFIX.len()) / 2);
    match nearest {
        Some(setting) => format!("there is no variable {name}; did you mean {}?", setting.name),
        None => format!("there is no variable {name}; `ringroad info` lists all"),
    }
}
