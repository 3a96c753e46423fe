//! Who is near whom: the ranks that can read each other's memory, which others of them know too.

use std::collections::BTreeMap;

use ringroad_core::Rank;

use crate::bootstrap::{check_rank, refused, unreadable, BootstrapError, Card, Meeting};
use crate::config::{Cma, Config, TransportKind};
use crate::error::{Error, Result};
use crate::transport::shared::{Home, Neighbour};

/// What a rank offers its neighbours before it knows them.
pub(crate) enum Offered {
    /// Its memory.
    Memory(Home),
    /// Nothing, for this reason.
    Nothing(String),
}

impl Offered {
    /// Makes memory to share, unless that is not wanted.
    pub fn new(rank: Rank, size: usize, config: &Config) -> Offered {
        if config.transport == TransportKind::Ucx {
            return Offered::Nothing("RINGROAD_TRANSPORT=ucx".to_owned());
        }
        Home::new(rank, size).map_or_else(Offered::Nothing, Offered::Memory)
    }

    /// Adds the offer to this rank's card.
    pub fn announce(&self, card: &mut Card, config: &Config) {
        if let Offered::Memory(home) = self {
            card.memory = Some(home.offer(config.host.clone().unwrap_or_else(|| card.host.clone())));
        }
    }
}

/// Whose memory a rank could open, and why not also what is private, if so.
type Near = BTreeMap<Rank, Option<String>>;

/// What that is published as.
const NEAR: &str = "near";
/// More than it takes for one rank.
const REASON_BYTES: usize = 1024;

/// What `rank` has published of those around it.
fn read(rank: Rank, text: &[u8], cards: &[Card]) -> std::result::Result<Near, BootstrapError> {
    let near: std::result::Result<Near, String> = serde_json::from_slice(text).map_err(|e| unreadable(&e));
    let near = near.and_then(|near| {
        for other in near.keys() {
            check_rank(*other, cards.len())?;
            if !may_be_near(&cards[rank], &cards[*other]) {
                return Err(format!("it names rank {other}, which is not on its host"));
            }
        }
        Ok(near)
    });
    near.map_err(|reason| refused(NEAR, rank, reason))
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
    /// Why ranks that are near cannot read this one's private memory.
    pub unreadable: Vec<String>,
}

impl Neighbourhood {
    /// The error where there is no network either: why ranks of this host do not share memory comes first.
    pub fn without_network(&self, error: String) -> Error {
        let Some(first) = self.obstacles.first() else { return Error::Transport(error) };
        Error::Transport(format!("ranks of this host share no memory: {first}; and without that: {error}"))
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
            Offered::Memory(home) => {
                let (mut opened, cma) = (Vec::new(), config.cma != Cma::Off);
                for other in cards.iter().filter(|other| may_be_near(&cards[rank], other)) {
                    match other.memory.as_ref().map(|offer| home.open(other.rank, offer, cma)) {
                        Some(Ok(neighbour)) => opened.push(neighbour),
                        Some(Err(reason)) => obstacles.push(format!("rank {}: {reason}", other.rank)),
                        None => {}
                    }
                }
                (Some(home), opened)
            }
        };
        let candidates = |a: &Card| cards.iter().any(|b| may_be_near(a, b));
        if !cards.iter().any(candidates) {
            let is_complete = cards.len() == 1;
            return Ok(Neighbourhood {
                home: None,
                is_complete,
                per_host: 1,
                obstacles,
                unreadable: Vec::new(),
            });
        }
        let mine: Near = opened.iter().map(|n| (n.rank(), n.obstacle().map(str::to_owned))).collect();
        let text = serde_json::to_vec(&mine).expect("numbers and words can be written");
        let all = meeting.collect(NEAR, &text, (cards.len() + 1) * REASON_BYTES)?;
        let read = |(rank, text): (Rank, &Vec<u8>)| read(rank, text, cards);
        let all: Vec<Near> = all.iter().enumerate().map(read).collect::<std::result::Result<_, _>>()?;
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
        Ok(Neighbourhood { home, is_complete, per_host, obstacles, unreadable })
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
