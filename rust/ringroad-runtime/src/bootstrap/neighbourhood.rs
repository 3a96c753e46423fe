//! Finds out which ranks are local: each can read the other's memory, and both know it.

use std::collections::BTreeMap;

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{check_rank, refused, unreadable, BootstrapError, EndpointInfo, Rendezvous};
use crate::config::{Config, Within};
use crate::error::{Error, Result};
use crate::transport::shared::{Home, Neighbour};

/// What a rank offers its neighbours before it knows them.
pub(crate) enum Offered {
    /// Its segment.
    Memory(Home),
    /// Nothing: it could not make a segment, for this reason.
    Nothing(String),
    /// Nothing: the settings exclude shared memory.
    Unwanted,
}

impl Offered {
    /// Makes a segment to share, unless the settings exclude it.
    pub fn new(rank: Rank, size: usize, config: &Config) -> Offered {
        if config.transport.within.is_none() {
            return Offered::Unwanted;
        }
        Home::new(rank, size).map_or_else(Offered::Nothing, Offered::Memory)
    }

    /// Adds the offer to this rank's endpoint.
    pub fn announce(&self, endpoint: &mut EndpointInfo, config: &Config) {
        match self {
            Offered::Memory(home) => {
                endpoint.memory =
                    Some(home.offer(config.host.clone().unwrap_or_else(|| endpoint.host.clone())));
            }
            Offered::Nothing(reason) => endpoint.no_memory = Some(reason.clone()),
            Offered::Unwanted => {}
        }
    }
}

/// The ranks whose segment a rank could open, each with the reason why its private memory cannot be read, if so.
pub(crate) type OpenedRanks = BTreeMap<Rank, Option<String>>;

/// What a rank publishes about the ranks of its host.
#[derive(Serialize, Deserialize)]
struct PublishedRanks {
    /// The local ranks, in runs of ranks of which it says the same: the first and the last of each, and what it says.
    local: Vec<(Rank, Rank, Option<String>)>,
    /// Why it could not open the segment of some rank of its host, if so.
    obstacle: Option<String>,
}

/// The same, read and checked.
pub(crate) struct Around {
    pub local: OpenedRanks,
    obstacle: Option<String>,
}

impl PublishedRanks {
    fn new(local: OpenedRanks, obstacle: Option<String>) -> PublishedRanks {
        let mut runs: Vec<(Rank, Rank, Option<String>)> = Vec::new();
        for (rank, reason) in local {
            match runs.last_mut() {
                Some((_, last, same)) if *last + 1 == rank && *same == reason => *last = rank,
                _ => runs.push((rank, rank, reason)),
            }
        }
        PublishedRanks { local: runs, obstacle }
    }
}

/// The kind under which that is published.
const LOCAL: &str = "near";
/// More bytes than the entry of one rank takes.
const REASON_BYTES: usize = 1024;

/// Reads and checks what `rank` has published.
pub(crate) fn read(
    rank: Rank,
    text: &[u8],
    endpoints: &[EndpointInfo],
) -> std::result::Result<Around, BootstrapError> {
    let told: std::result::Result<PublishedRanks, String> =
        serde_json::from_slice(text).map_err(|e| unreadable(&e));
    let around = told.and_then(|PublishedRanks { local: runs, obstacle }| {
        let mut local = OpenedRanks::new();
        for (first, last, reason) in runs {
            check_rank(last, endpoints.len())?;
            for other in first..=last {
                if !may_be_local(&endpoints[rank], &endpoints[other]) {
                    return Err(format!("it names rank {other}, which is not on its host"));
                }
                if local.insert(other, reason.clone()).is_some() {
                    return Err(format!("it names rank {other} twice"));
                }
            }
        }
        Ok(Around { local, obstacle })
    });
    around.map_err(|reason| refused(LOCAL, rank, reason))
}

/// The ranks around this one.
#[derive(Default)]
pub(crate) struct Neighbourhood {
    /// This rank's segment and its neighbours; `None` if no rank is local.
    pub home: Option<(Home, Vec<Neighbour>)>,
    /// Whether all ranks are local to each other.
    pub is_complete: bool,
    /// The number of ranks on each host, as [`per_host`] finds it.
    pub per_host: usize,
    /// Why some ranks of this host are not local.
    pub obstacles: Vec<String>,
    /// A rank of this host that could not make or open a segment, and why, if there is one.
    unshared: Option<String>,
    /// Why local ranks cannot read this one's private memory.
    pub unreadable: Vec<String>,
}

impl Neighbourhood {
    /// The error if the network cannot be used either. It begins with the reason why ranks of this host share no
    /// memory.
    pub fn without_network(&self, error: String) -> Error {
        Error::Transport(match &self.unshared {
            Some(reason) => {
                format!(
                    "ranks of this host share no memory ({reason}), and the network cannot be used either: {error}"
                )
            }
            None => error,
        })
    }

    /// Opens the segments of the ranks of this host, and learns which ranks could open this one's.
    pub fn explore(
        rendezvous: &mut Rendezvous,
        offered: Offered,
        endpoints: &[EndpointInfo],
        rank: Rank,
        config: &Config,
    ) -> Result<Self> {
        let mut obstacles = Vec::new();
        // Every rank first opens what it can. Whom that makes local is known only when all have said what they could open.
        let (home, opened) = match offered {
            Offered::Nothing(reason) => {
                obstacles.push(reason);
                (None, Vec::new())
            }
            Offered::Unwanted => {
                obstacles
                    .push("RINGROAD_TRANSPORT names only what carries messages between hosts".to_owned());
                (None, Vec::new())
            }
            Offered::Memory(home) => {
                let (mut opened, cma) = (Vec::new(), config.transport.within != Some(Within::NoCma));
                for other in endpoints.iter().filter(|other| may_be_local(&endpoints[rank], other)) {
                    let open = |offer| {
                        home.prepare_for(other.rank)?;
                        home.open(other.rank, offer, cma)
                    };
                    match other.memory.as_ref().map(open) {
                        Some(Ok(neighbour)) => opened.push(neighbour),
                        Some(Err(reason)) => obstacles.push(format!("rank {}: {reason}", other.rank)),
                        None => {}
                    }
                }
                (Some(home), opened)
            }
        };
        let own = &endpoints[rank];
        let without = |endpoint: &EndpointInfo| {
            let reason = endpoint.no_memory.as_ref().filter(|_| endpoint.host == own.host)?;
            Some(format!("{endpoint}: {reason}"))
        };
        let unshared = endpoints.iter().find_map(without);
        let candidates = |a: &EndpointInfo| endpoints.iter().any(|b| may_be_local(a, b));
        // Where no two ranks may be local, which all ranks see alike, there is nothing to exchange.
        if !endpoints.iter().any(candidates) {
            let is_complete = endpoints.len() == 1;
            return Ok(Neighbourhood { is_complete, per_host: 1, obstacles, unshared, ..Default::default() });
        }
        let local = opened.iter().map(|n| (n.rank(), n.obstacle().map(str::to_owned))).collect();
        let text = serde_json::to_vec(&PublishedRanks::new(local, obstacles.first().cloned()))
            .expect("numbers and words can be written");
        let all = rendezvous.collect(LOCAL, &text, (endpoints.len() + 1) * REASON_BYTES)?;
        let read = |(rank, text): (Rank, &Vec<u8>)| read(rank, text, endpoints);
        let all: Vec<Around> = all.iter().enumerate().map(read).collect::<std::result::Result<_, _>>()?;
        let obstacle = |(rank, around): (Rank, &Around)| {
            let reason = around.obstacle.as_ref().filter(|_| endpoints[rank].host == own.host)?;
            Some(format!("{}: {reason}", endpoints[rank]))
        };
        let unshared = unshared.or_else(|| all.iter().enumerate().find_map(obstacle));
        let all: Vec<OpenedRanks> = all.into_iter().map(|around| around.local).collect();
        // Only pairs count that could open each other's memory, both ways.
        let per_host = per_host(&all);
        let is_complete = per_host == endpoints.len();
        let neighbours: Vec<Neighbour> =
            opened.into_iter().filter(|n| all[n.rank()].contains_key(&rank)).collect();
        let unreadable = |n: &Neighbour| {
            let reason = all[n.rank()].get(&rank)?.as_ref()?;
            Some(format!("rank {} cannot read it: {reason}", n.rank()))
        };
        let unreadable = neighbours.iter().filter_map(unreadable).collect();
        let home = home.filter(|_| !neighbours.is_empty()).map(|home| (home, neighbours));
        Ok(Neighbourhood { home, is_complete, per_host, obstacles, unshared, unreadable })
    }
}

/// The number of ranks on each host, if it is the same on all and the ranks of each host are consecutive; otherwise
/// 1.
pub(crate) fn per_host(local: &[OpenedRanks]) -> usize {
    let count = local[0].len() + 1;
    let fits = |(rank, others): (Rank, &OpenedRanks)| {
        let first = rank / count * count;
        others.keys().copied().eq((first..first + count).filter(|other| *other != rank))
    };
    if local.len().is_multiple_of(count) && local.iter().enumerate().all(fits) {
        count
    } else {
        1
    }
}

/// Whether both offer memory on one host. Process numbers must mean the same to both: segments are found by them, and
/// the end of a process is noticed by them.
fn may_be_local(a: &EndpointInfo, b: &EndpointInfo) -> bool {
    let host = |endpoint: &EndpointInfo| endpoint.memory.as_ref().map(|offer| offer.host.clone());
    a.rank != b.rank
        && host(a).is_some()
        && host(a) == host(b)
        && !a.pid_space.is_empty()
        && a.pid_space == b.pid_space
}
