//! Exchanges the endpoints of all ranks, or says why that failed.
//!
//! There are two rounds. Each rank first publishes its endpoint and reads all others, as rank 0 has found them. Then each
//! publishes a digest of the endpoints that it has read, of its own as it stands in the store, and compares the others'
//! digests with its own. The second round detects a rank that was started twice, and endpoints that an earlier job has left
//! in the store, on every affected rank. Without it, both would make ranks hang.

use std::collections::BTreeMap;
use std::time::Duration;

use ringroad_core::Rank;
use sha2::{Digest, Sha256};

use super::endpoint_info::{hex, EndpointInfo};
use super::rendezvous::{refused, Rendezvous, ENDPOINT_BYTES};
use super::StoreError;
use crate::error::Error;

/// The kind under which endpoints are published.
pub(super) const ENDPOINT: &str = "endpoint";
const NETWORK: &str = "network";

/// Why the ranks could not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// Some ranks did not come, or did not finish, in time.
    #[error("{}", missing_text(missing, came, *waited, refused))]
    Missing {
        /// The ranks that did not come.
        missing: Vec<Rank>,
        /// The endpoints that were published. A rank that is also in `missing` stopped before it had read all endpoints.
        came: Vec<EndpointInfo>,
        /// How long this rank waited.
        waited: Duration,
        /// Callers that were refused meanwhile, and why.
        refused: Vec<String>,
    },
    /// The ranks cannot meet, as one of their processes says.
    #[error("{0}")]
    Conflict(String),
    /// The ranks differ in something that must be the same everywhere.
    #[error("the ranks have different {what}: {}; {remedy}", table_text(found))]
    Differ {
        /// What differs.
        what: &'static str,
        /// The ranks by their values.
        found: BTreeMap<String, Vec<Rank>>,
        /// What to do.
        remedy: &'static str,
    },
    /// There are two endpoints of one rank.
    #[error("{mine} finds an endpoint of {other} in the store: start every rank once, and give every job a fresh store")]
    Duplicate {
        /// This process.
        mine: Box<EndpointInfo>,
        /// The other process.
        other: Box<EndpointInfo>,
    },
    /// Other ranks have read different endpoints.
    #[error("{} read other endpoints than rank {rank}: a rank was started twice, or the store holds endpoints of an earlier job; start every rank once, and give every job a fresh store", ranks_text(others))]
    Disagree {
        /// This rank.
        rank: Rank,
        /// The ranks that have read different endpoints.
        others: Vec<Rank>,
    },
    /// A rank's process has ended.
    #[error(
        "{endpoint} died while the communicator was being made (look at its own output); start all ranks anew"
    )]
    Died {
        /// The process's endpoint.
        endpoint: Box<EndpointInfo>,
    },
    /// A rank gave up.
    #[error("{message}")]
    GaveUp {
        /// The rank.
        rank: Rank,
        /// Whether it gave up over a timeout.
        late: bool,
        /// The error on that rank.
        message: String,
    },
    /// There is another rank 0.
    #[error("another rank 0 meets at the same place of the store as {endpoint}: start every rank once, and give every job a store of its own")]
    Replaced {
        /// This process.
        endpoint: Box<EndpointInfo>,
    },
    /// Rank 0 has started a new rendezvous: join that.
    #[error("rank 0 has started a new rendezvous elsewhere in the store")]
    Moved,
    /// Something that a rank has published is invalid.
    #[error("the {kind} of rank {rank} in the store is not accepted: {reason}")]
    Refused {
        /// Its kind.
        kind: String,
        /// The rank.
        rank: Rank,
        /// Why, and what to do.
        reason: String,
    },
    /// An announcement or a goodbye in the store is invalid.
    #[error("{key:?} in the store is not accepted: {reason}")]
    Note {
        /// Its key.
        key: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The store does not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<BootstrapError> for Error {
    fn from(error: BootstrapError) -> Self {
        match error {
            BootstrapError::Missing { .. } | BootstrapError::GaveUp { late: true, .. } => {
                Error::Timeout(error.to_string())
            }
            BootstrapError::GaveUp { rank, message, .. } => Error::Peer { rank, message },
            BootstrapError::Died { ref endpoint } => {
                Error::Peer { rank: endpoint.rank, message: error.to_string() }
            }
            BootstrapError::Differ { .. } => Error::Config(error.to_string()),
            BootstrapError::Store(error) => error.into(),
            _ => Error::Store(error.to_string()),
        }
    }
}

impl Rendezvous {
    /// Publishes this rank's endpoint and returns the endpoints of all ranks, in order. No rank succeeds before all ranks
    /// have read all endpoints. All later exchanges are among exactly these ranks.
    pub fn exchange(&mut self) -> Result<Vec<EndpointInfo>, BootstrapError> {
        let (rank, size) = (self.endpoint.rank, self.endpoint.ranks);
        self.endpoints[rank] = Some(self.endpoint.clone());
        if let Some(other) = self.published_value(ENDPOINT, rank, ENDPOINT_BYTES)? {
            return Err(self.duplicate(&other));
        }
        let own = self.endpoint.write();
        self.tell(ENDPOINT, &own)?;
        let endpoints = if rank == 0 {
            let mut all = vec![own.clone()];
            for other in 1..size {
                let content = self.wait_for_value(ENDPOINT, other, (ENDPOINT, 0..size), ENDPOINT_BYTES)?;
                self.welcome(EndpointInfo::read(other, &content)?);
                all.push(content);
            }
            self.tell_all(ENDPOINT, &all)?;
            self.endpoints.iter().flatten().cloned().collect()
        } else {
            let all = self.hear_all(ENDPOINT, ENDPOINT_BYTES)?;
            if let Some(mine) = all.get(rank).filter(|mine| **mine != own) {
                return Err(self.duplicate(mine));
            }
            let read = all.iter().enumerate().map(|(other, content)| EndpointInfo::read(other, content));
            let mut read = read.collect::<Result<Vec<_>, _>>()?;
            if rank >= read.len() {
                read.push(self.endpoint.clone()); // rank 0 expects fewer ranks, which is said below
            }
            read
        };
        compare(&endpoints)?;
        if endpoints.len() != size {
            return Err(refused(ENDPOINT, 0, format!("it lists {} of {size} ranks", endpoints.len())));
        }
        endpoints.iter().for_each(|endpoint| self.welcome(endpoint.clone()));

        let other = self.published_value(ENDPOINT, rank, ENDPOINT_BYTES)?.filter(|stored| *stored != own);
        let digest = digest(&endpoints);
        let told = if other.is_none() { digest.clone() } else { vec![0; digest.len()] };
        let digests = self.collect("digest", &told, digest.len())?;
        if let Some(other) = other {
            return Err(self.duplicate(&other));
        }
        let others: Vec<Rank> = (0..size).filter(|other| digests[*other] != digest).collect();
        if !others.is_empty() {
            return Err(BootstrapError::Disagree { rank, others });
        }
        self.part = format!("{}/{}", self.part, hex(&digest));
        Ok(endpoints)
    }

    /// Publishes this rank's network addresses and devices, and returns the endpoints of all ranks with theirs.
    pub fn exchange_addresses(
        &mut self,
        transport: &str,
        version: &str,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Vec<EndpointInfo>, BootstrapError> {
        self.endpoint.transport = transport.to_owned();
        self.endpoint.transport_version = version.to_owned();
        self.endpoint.addresses = addresses;
        let all = self.collect(NETWORK, &self.endpoint.write(), ENDPOINT_BYTES)?;
        let mut endpoints = Vec::with_capacity(all.len());
        for (rank, content) in all.iter().enumerate() {
            let EndpointInfo { transport, transport_version, addresses, devices, handle, .. } =
                EndpointInfo::read(rank, content)?;
            if addresses.iter().any(Vec::is_empty) {
                return Err(refused(NETWORK, rank, "an address is empty".to_owned()));
            }
            let known = self.endpoints[rank].clone().unwrap_or_default();
            endpoints.push(EndpointInfo {
                transport,
                transport_version,
                addresses,
                devices,
                handle,
                ..known
            });
        }
        compare(&endpoints)?;
        Ok(endpoints)
    }

    /// Another process claims to be this rank: tells all others.
    pub(super) fn duplicate(&mut self, other: &[u8]) -> BootstrapError {
        let error = match EndpointInfo::read(self.endpoint.rank, other) {
            Ok(other) => {
                BootstrapError::Duplicate { mine: Box::new(self.endpoint.clone()), other: Box::new(other) }
            }
            Err(error) => error,
        };
        self.refuse(error.to_string());
        error
    }
}

/// Checks that the endpoints agree. Each rank has all endpoints, so all ranks get the same result.
pub(crate) fn compare(endpoints: &[EndpointInfo]) -> Result<(), BootstrapError> {
    type Aspect = (&'static str, fn(&EndpointInfo) -> Option<String>, &'static str);
    const ASPECTS: [Aspect; 6] = [
        ("versions of ringroad", |c| Some(c.ringroad.clone()), "install the same on all"),
        ("versions of the endpoint info", |c| Some(c.format.to_string()), "install the same ringroad on all"),
        ("numbers of ranks", |c| Some(c.ranks.to_string()), "start all with the same number"),
        ("transports", |c| c.asked.clone(), "set the same RINGROAD_TRANSPORT for all"),
        (
            "versions of the transport",
            |c| Some(format!("{} {}", c.transport, c.transport_version)),
            "they cannot talk to each other; install the same on all, or point RINGROAD_UCX_LIBRARY to it",
        ),
        (
            "numbers of ports",
            |c| Some(c.addresses.len().to_string()),
            "name equally many devices in RINGROAD_NET_DEVICES=per-port:... on all",
        ),
    ];
    for (what, value, remedy) in ASPECTS {
        let mut found = BTreeMap::<String, Vec<Rank>>::new();
        for endpoint in endpoints {
            if let Some(value) = value(endpoint) {
                found.entry(value).or_default().push(endpoint.rank);
            }
        }
        if found.len() > 1 {
            return Err(BootstrapError::Differ { what, found, remedy });
        }
    }
    Ok(())
}

/// The name of the group of processes that have these endpoints.
pub(crate) fn identity(endpoints: &[EndpointInfo]) -> String {
    hex(&digest(endpoints)[..16])
}

fn digest(endpoints: &[EndpointInfo]) -> Vec<u8> {
    let mut digest = Sha256::new();
    for endpoint in endpoints {
        digest.update(endpoint.instance.to_le_bytes());
    }
    digest.finalize().to_vec()
}

/// `rank 3` or `ranks 1, 4-7`.
fn ranks_text(ranks: &[Rank]) -> String {
    let mut runs: Vec<(Rank, Rank)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let run = |(first, last): &(Rank, Rank)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let text = runs.iter().map(run).collect::<Vec<_>>().join(", ");
    format!("{} {text}", if ranks.len() == 1 { "rank" } else { "ranks" })
}

fn table_text(found: &BTreeMap<String, Vec<Rank>>) -> String {
    let row = |(value, ranks): (&String, &Vec<Rank>)| {
        let value = if value.is_empty() { "none" } else { value };
        format!("{value} on {}", ranks_text(ranks))
    };
    found.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// The owners of the endpoints; not all of them if there are many.
fn endpoints_text(endpoints: &[&EndpointInfo]) -> String {
    const MAX_LISTED_ENDPOINTS: usize = 16;
    let mut text =
        endpoints.iter().take(MAX_LISTED_ENDPOINTS).map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
    if endpoints.len() > MAX_LISTED_ENDPOINTS {
        text += &format!(" and {} more", endpoints.len() - MAX_LISTED_ENDPOINTS);
    }
    text
}

fn missing_text(missing: &[Rank], came: &[EndpointInfo], waited: Duration, refused: &[String]) -> String {
    let (stopped, there): (Vec<&EndpointInfo>, Vec<&EndpointInfo>) =
        came.iter().partition(|endpoint| missing.contains(&endpoint.rank));
    let absent: Vec<Rank> =
        missing.iter().copied().filter(|r| !stopped.iter().any(|endpoint| endpoint.rank == *r)).collect();
    let mut parts = Vec::new();
    if !absent.is_empty() {
        parts.push(format!("{} did not come", ranks_text(&absent)));
    }
    if !stopped.is_empty() {
        parts.push(format!(
            "{} came but stopped half-way (look at its own error; long packets may be lost on the way: MTU?)",
            endpoints_text(&stopped)
        ));
    }
    if !there.is_empty() {
        parts.push(format!("{} came", endpoints_text(&there)));
    }
    parts.extend_from_slice(refused);
    format!(
        "within {:.1} s, {}; check that every rank is running and uses the same store and RINGROAD_SECRET, or allow more time (RINGROAD_TIMEOUT)",
        waited.as_secs_f64(),
        parts.join("; "),
    )
}
