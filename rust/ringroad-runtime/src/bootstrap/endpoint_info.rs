//! What a rank tells the others about itself.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;
use std::time::Duration;

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::exchange::{BootstrapError, ENDPOINT};
use super::rendezvous::{refused, unreadable};
use super::Handle;
use crate::os::fork::Global;
use crate::os::liveness::{self, ProcessInfo};
use crate::os::machine::cache;
use crate::os::random::token;
use crate::os::routes::NetDevice;
use crate::transport::shared::MemoryOffer;

/// The version of the endpoint's format.
const FORMAT: u32 = 5;

/// What a rank tells the others about itself.
///
/// Unknown fields are ignored and missing fields are empty, so that ranks of different versions can report that they
/// differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointInfo {
    /// The version of the endpoint's format.
    pub format: u32,
    /// The version of ringroad.
    pub ringroad: String,
    /// The rank's number.
    pub rank: Rank,
    /// The number of ranks, as this rank was told.
    pub ranks: usize,
    /// The name of the host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The kernel and the namespaces in which `pid` and `started` are valid; empty if unknown.
    pub pid_space: String,
    /// When the process started, in clock ticks since the machine started: process numbers are reused.
    pub started: Option<u64>,
    /// The kernel and the namespace of its loopback interface; empty if unknown.
    pub net_space: String,
    /// Drawn at random, to tell this process from others that claim to be the same rank.
    pub instance: u64,
    /// The transport, for example `ucx`.
    pub transport: String,
    /// The version of the transport.
    pub transport_version: String,
    /// The transport's addresses of this rank, one for each of its network devices.
    #[serde(with = "hexadecimal")]
    pub addresses: Vec<Vec<u8>>,
    /// What carries messages between hosts, if its settings name it: `ucx` or `tcp`.
    pub asked: Option<String>,
    /// The network devices that it uses, if UCX asks for the routes between them (see `routes`).
    pub devices: Vec<NetDevice>,
    /// How long it may measure its network again while calls run, if its settings say so; 0: never, on any rank.
    pub adaptation: Option<Duration>,
    /// Whether its host has an RDMA device that is up.
    pub rdma: bool,
    /// How many cores the process may use.
    pub cores: usize,
    /// The numbers of these cores; with a quota, of more than it may use at a time.
    pub cpus: Vec<usize>,
    /// The name of the processor.
    pub cpu: String,
    /// How ranks of the same host reach its segment.
    pub memory: Option<MemoryOffer>,
    /// Why it has no segment, if so.
    pub no_memory: Option<String>,
    /// The handle by which others find its process again once a rank is lost; `None` if it cannot listen.
    pub handle: Option<Handle>,
}

impl EndpointInfo {
    /// The endpoint of this process.
    pub fn new(
        rank: Rank,
        ranks: usize,
        transport: &str,
        transport_version: &str,
        addresses: Vec<Vec<u8>>,
    ) -> EndpointInfo {
        EndpointInfo {
            format: FORMAT,
            ringroad: env!("CARGO_PKG_VERSION").to_owned(),
            rank,
            ranks,
            host: host_name(),
            pid: std::process::id(),
            pid_space: pid_space(),
            net_space: space("net"),
            started: liveness::started(std::process::id()),
            instance: token(),
            transport: transport.to_owned(),
            transport_version: transport_version.to_owned(),
            addresses,
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            cpus: if cfg!(miri) { Vec::new() } else { cache::allowed() },
            cpu: processor(),
            ..EndpointInfo::default()
        }
    }

    /// What it says of its process.
    pub(crate) fn process(&self) -> ProcessInfo<'_> {
        ProcessInfo { rank: self.rank, pid: self.pid, pid_space: &self.pid_space, started: self.started }
    }

    /// Whether both ranks run on one machine. Decided by their kernels, or, if one is unknown, by their host names.
    /// Several machines may have the same host name, and one machine several.
    pub(crate) fn shares_machine(&self, other: &EndpointInfo) -> bool {
        let kernel = |endpoint: &EndpointInfo| {
            endpoint.pid_space.split(' ').next().map(str::to_owned).filter(|name| !name.is_empty())
        };
        match (kernel(self), kernel(other)) {
            (Some(own), Some(others)) => own == others,
            _ => self.host == other.host,
        }
    }

    /// How many cores these ranks of one host have together. Ranks that may use fewer cores than their masks name are
    /// assumed to share one quota.
    pub(crate) fn cores_of(endpoints: &[&EndpointInfo]) -> usize {
        let together: BTreeSet<usize> =
            endpoints.iter().flat_map(|endpoint| &endpoint.cpus).copied().collect();
        let quotas = endpoints
            .iter()
            .filter(|endpoint| endpoint.cores != endpoint.cpus.len())
            .map(|endpoint| endpoint.cores);
        quotas.fold(together.len(), |least, cores| if least == 0 { cores } else { least.min(cores) }).max(1)
    }

    /// The endpoint as JSON, for publishing.
    pub(crate) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an endpoint has nothing that JSON cannot express")
    }

    /// Reads the endpoint that `rank` has published.
    pub(crate) fn read(rank: Rank, content: &[u8]) -> Result<EndpointInfo, BootstrapError> {
        let endpoint: EndpointInfo =
            serde_json::from_slice(content).map_err(|e| refused(ENDPOINT, rank, unreadable(&e)))?;
        if endpoint.rank != rank {
            let reason = format!("it belongs to {endpoint}; give every job a fresh store");
            return Err(refused(ENDPOINT, rank, reason));
        }
        Ok(endpoint)
    }
}

/// Reads as `rank 3 (host a, pid 17)`.
impl fmt::Display for EndpointInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (host {}, pid {})", self.rank, self.host, self.pid)
    }
}

/// The kernel and the namespaces in which a process's number and start time are valid; empty if unknown, or if `/proc` is that
/// of another namespace, where the numbers are those of other processes.
pub(super) fn pid_space() -> String {
    let pids = space("pid");
    let own = std::process::id().to_string();
    if pids.is_empty() || std::fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() != own.as_str())
    {
        return String::new();
    }
    // Another time namespace has another origin of start times.
    let time = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{pids} {}", time.display())
}

/// The kernel and this process's namespace of this kind; empty if unknown.
pub(super) fn space(kind: &str) -> String {
    let namespace = std::fs::read_link(format!("/proc/self/ns/{kind}"));
    match (kernel(), namespace) {
        (Some(kernel), Ok(namespace)) => format!("{kernel} {}", namespace.display()),
        _ => String::new(),
    }
}

/// What names the running kernel. Read once: later, descriptors may be short.
fn kernel() -> Option<&'static str> {
    static KERNEL: OnceLock<String> = OnceLock::new();
    if KERNEL.get().is_none() {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        return Some(KERNEL.get_or_init(|| read.trim().to_owned()));
    }
    KERNEL.get().map(String::as_str)
}

pub(super) fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    let known = kernel.ok().or_else(|| std::env::var("HOSTNAME").ok()).filter(|name| !name.is_empty());
    known.unwrap_or_else(|| "unknown".to_owned())
}

/// The kernel's name of this machine's processor, or else its architecture.
fn processor() -> String {
    static NAME: Global<Option<String>> = Global::new();
    // Read once: the file is long if there are many cores, and the kernel makes it anew for each reader.
    let find = || {
        let file = BufReader::new(File::open("/proc/cpuinfo").ok()?);
        file.lines().map_while(std::io::Result::ok).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            ["model name", "CPU part"].contains(&key.trim()).then(|| value.trim().to_owned())
        })
    };
    NAME.lock().get_or_insert_with(|| find().unwrap_or_else(|| std::env::consts::ARCH.to_owned())).clone()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lists of bytes as hexadecimal text, since JSON has no bytes.
mod hexadecimal {
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(list: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|bytes| super::hex(bytes)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let all: Option<Vec<Vec<u8>>> = texts.iter().map(|text| bytes(text)).collect();
        all.ok_or_else(|| D::Error::custom("an address is not written in hexadecimal digits"))
    }

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
        Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores_of(ranks: &[(&[usize], usize)]) -> usize {
        let endpoint = |(cpus, cores): &(&[usize], usize)| EndpointInfo {
            cpus: cpus.to_vec(),
            cores: *cores,
            ..EndpointInfo::default()
        };
        let endpoints: Vec<EndpointInfo> = ranks.iter().map(endpoint).collect();
        EndpointInfo::cores_of(&endpoints.iter().collect::<Vec<_>>())
    }

    #[test]
    fn kernels_tell_machines_apart_and_names_only_where_there_is_nothing_else() {
        let endpoint = |host: &str, pid_space: &str| EndpointInfo {
            host: host.to_owned(),
            pid_space: pid_space.to_owned(),
            ..EndpointInfo::default()
        };
        let own = endpoint("localhost", "boot-1 pid:[7]");
        for (other, expected) in [
            (endpoint("localhost", "boot-1 pid:[7]"), true),
            (endpoint("container", "boot-1 pid:[8]"), true),
            (endpoint("localhost", "boot-2 pid:[7]"), false),
            (endpoint("localhost", ""), true),
            (endpoint("other", ""), false),
        ] {
            assert_eq!(
                (own.shares_machine(&other), other.shares_machine(&own)),
                (expected, expected),
                "{other:?}"
            );
        }
    }

    #[test]
    fn ranks_share_cores_or_have_their_own() {
        assert_eq!(cores_of(&[(&[0, 1], 2), (&[0, 1], 2)]), 2);
        assert_eq!(cores_of(&[(&[3], 1), (&[5], 1), (&[4, 5], 2)]), 3);
        // Quotas.
        assert_eq!(cores_of(&[(&[0, 1, 2, 3], 2), (&[0, 1, 2, 3], 2)]), 2);
        assert_eq!(cores_of(&[(&[0, 1], 2), (&[2, 3], 1)]), 1);
        // The numbers of the cores are unknown.
        assert_eq!(cores_of(&[(&[], 4), (&[], 4)]), 4);
        assert_eq!(cores_of(&[(&[], 0)]), 1);
    }
}
