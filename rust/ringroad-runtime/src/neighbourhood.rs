//! Who is near whom: the ranks that can read each other's memory, which others of them know too.

use std::collections::BTreeMap;

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{check_rank, refused, unreadable, BootstrapError, Card, Meeting};
use crate::config::{Cma, Config, TransportKind};
use crate::error::{Error, Result};
use crate::transport::shared::{Home, Neighbour};

/// What a rank offers its neighbours before it knows them.
pub(crate) enum Offered {
    /// Its memory.
    Memory(Home),
    /// Nothing, because it could not make any, for this reason.
    Nothing(String),
    /// Nothing, because that is not wanted.
    Unwanted,
}

impl Offered {
    /// Makes memory to share, unless that is not wanted.
    pub fn new(rank: Rank, size: usize, config: &Config) -> Offered {
        if config.transport == TransportKind::Ucx {
            return Offered::Unwanted;
        }
        Home::new(rank, size).map_or_else(Offered::Nothing, Offered::Memory)
    }

    /// Adds the offer to this rank's card.
    pub fn announce(&self, card: &mut Card, config: &Config) {
        match self {
            Offered::Memory(home) => {
                card.memory = Some(home.offer(config.host.clone().unwrap_or_else(|| card.host.clone())));
            }
            Offered::Nothing(reason) => card.no_memory = Some(reason.clone()),
            Offered::Unwanted => {}
        }
    }
}

/// Whose memory a rank could open, and why not also what is private, if so.
type Near = BTreeMap<Rank, Option<String>>;

/// What a rank tells of those around it.
#[derive(Serialize, Deserialize)]
struct Around {
    near: Near,
    /// Why it could not open the memory of some rank of its host, if so.
    obstacle: Option<String>,
}

/// What that is published as.
const NEAR: &str = "near";
/// More than it takes for one rank.
const REASON_BYTES: usize = 1024;

/// What `rank` has published of those around it.
fn read(rank: Rank, text: &[u8], cards: &[Card]) -> std::result::Result<Around, BootstrapError> {
    let around: std::result::Result<Around, String> =
        serde_json::from_slice(text).map_err(|e| unreadable(&e));
    let around = around.and_then(|around| {
        for other in around.near.keys() {
            check_rank(*other, cards.len())?;
            if !may_be_near(&cards[rank], &cards[*other]) {
                return Err(format!("it names rank {other}, which is not on its host"));
            }
        }
        Ok(around)
    });
    around.map_err(|reason| refused(NEAR, rank, reason))
}

/// The ranks around this one.
pub(crate) struct Neighbourhood {
    /// This rank's memory, where anybody is near.
    pub home: Option<(Home, Vec<Neighbour>)>,
    /// Whether all ranks are near each other.
    pub is_complete: bool,
    /// So many ranks each, one after the other, are near each other.
    pub per_host: usize,
    /// Why ranks of this host are not near.
    pub obstacles: Vec<String>,
    /// Who on this host could not make or open memory, and why, if so.
    unshared: Option<String>,
    /// Why ranks that are near cannot read this one's private memory.
    pub unreadable: Vec<String>,
}

impl Neighbourhood {
    /// The error where there is no network either: why ranks of this host do not share memory comes first.
    pub fn without_network(&self, error: String) -> Error {
        Error::Transport(match &self.unshared {
            Some(reason) => {
                format!("ranks of this host share no memory ({reason}), and cannot do without: {error}")
            }
            None => error,
        })
    }

    /// Opens the memory of those who are on this host, and hears whether they could open this one's.
    pub fn explore(
        meeting: &mut Meeting,
        offered: Offered,
        cards: &[Card],
        rank: Rank,
        config: &Config,
    ) -> Result<Self> {
        let mut obstacles = Vec::new();
        let (home, opened) = match offered {
            Offered::Nothing(reason) => {
                obstacles.push(reason);
                (None, Vec::new())
            }
            Offered::Unwanted => {
                obstacles.push("RINGROAD_TRANSPORT=ucx".to_owned());
                (None, Vec::new())
            }
            Offered::Memory(home) => {
                let (mut opened, cma) = (Vec::new(), config.cma != Cma::Off);
                for other in cards.iter().filter(|other| may_be_near(&cards[rank], other)) {
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
        let own = &cards[rank];
        let without = |card: &Card| {
            let reason = card.no_memory.as_ref().filter(|_| card.host == own.host)?;
            Some(format!("{card}: {reason}"))
        };
        let unshared = cards.iter().find_map(without);
        let candidates = |a: &Card| cards.iter().any(|b| may_be_near(a, b));
        if !cards.iter().any(candidates) {
            let is_complete = cards.len() == 1;
            return Ok(Neighbourhood {
                home: None,
                is_complete,
                per_host: 1,
                obstacles,
                unshared,
                unreadable: Vec::new(),
            });
        }
        let near: Near = opened.iter().map(|n| (n.rank(), n.obstacle().map(str::to_owned))).collect();
        let mine = Around { near, obstacle: obstacles.first().cloned() };
        let text = serde_json::to_vec(&mine).expect("numbers and words can be written");
        let all = meeting.collect(NEAR, &text, (cards.len() + 1) * REASON_BYTES)?;
        let read = |(rank, text): (Rank, &Vec<u8>)| read(rank, text, cards);
        let all: Vec<Around> = all.iter().enumerate().map(read).collect::<std::result::Result<_, _>>()?;
        let obstacle = |(rank, around): (Rank, &Around)| {
            let reason = around.obstacle.as_ref().filter(|_| cards[rank].host == own.host)?;
            Some(format!("{}: {reason}", cards[rank]))
        };
        let unshared = unshared.or_else(|| all.iter().enumerate().find_map(obstacle));
        let all: Vec<Near> = all.into_iter().map(|around| around.near).collect();
        let per_host = per_host(&all);
        let is_complete = per_host == cards.len();
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

/// The number of ranks on each host if it is the same on all, and hosts' ranks come one after the other; else 1.
fn per_host(near: &[Near]) -> usize {
    let count = near[0].len() + 1;
    let fits = |(rank, others): (Rank, &Near)| {
        let first = rank / count * count;
        others.keys().copied().eq((first..first + count).filter(|other| *other != rank))
    };
    if near.len().is_multiple_of(count) && near.iter().enumerate().all(fits) {
        count
    } else {
        1
    }
}

/// Whether they offer memory on one host. Process numbers must mean the same to both: memory is found by them, and so is
/// the end of a process.
fn may_be_near(a: &Card, b: &Card) -> bool {
    let host = |card: &Card| card.memory.as_ref().map(|offer| offer.host.clone());
    a.rank != b.rank
        && host(a).is_some()
        && host(a) == host(b)
        && !a.pid_space.is_empty()
        && a.pid_space == b.pid_space
}
