//! Everybody learns everybody's address, or why not.
//!
//! Two rounds: each rank publishes its card and reads all others; then each publishes a digest of the cards it has read
//! and compares the others' digests with its own. The second round finds a rank that was started twice and cards that
//! an earlier job has left in the store, on every rank that is affected; both would be hangs otherwise.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use sha2::{Digest, Sha256};

use super::card::{hex, Card};
use super::{Store, StoreError};

/// Why the ranks did not find each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// Some ranks were not there, or not done, in time.
    #[error("{}", missing_text(missing, came, *waited))]
    Missing {
        /// Who did not come.
        missing: Vec<Rank>,
        /// Who has published a card; one of these who is missing as well stopped before it had read all cards.
        came: Vec<Card>,
        /// How long they were waited for.
        waited: Duration,
    },
    /// The ranks do not agree on something that must be the same everywhere.
    #[error("the ranks have different {what}: {}; {remedy}", table_text(found))]
    Differ {
        /// On what.
        what: &'static str,
        /// Who has what.
        found: BTreeMap<String, Vec<Rank>>,
        /// What to do.
        remedy: &'static str,
    },
    /// There are two cards of one rank.
    #[error("{mine} finds a card of {other} in the store: start every rank once, and give every job a fresh store")]
    Duplicate {
        /// This process.
        mine: Box<Card>,
        /// The other one.
        other: Box<Card>,
    },
    /// Ranks have read other cards than this one.
    #[error("{} read other cards than rank {rank}: a rank was started twice, or the store holds cards of an earlier job; start every rank once, and give every job a fresh store", ranks_text(others))]
    Disagree {
        /// This rank.
        rank: Rank,
        /// Who has read others.
        others: Vec<Rank>,
    },
    /// A card is not what it should be.
    #[error("the card of rank {rank} is not accepted: {reason}")]
    Card {
        /// Whose.
        rank: Rank,
        /// Why, and what to do.
        reason: String,
    },
    /// The store does not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Publishes this rank's card and returns those of all ranks, in order. Nobody returns successfully before everybody
/// has read all cards. A store serves one exchange: use a [`super::PrefixStore`] for each.
pub fn exchange(
    store: &dyn Store,
    rank: Rank,
    size: usize,
    card: &Card,
    secret: Option<&str>,
    deadline: Instant,
) -> Result<Vec<Card>, BootstrapError> {
    let round = Round { store, rank, size, deadline, start: Instant::now() };
    if rank >= size || card.rank != rank || card.ranks != size {
        let reason =
            format!("it says rank {} of {}, the call says rank {rank} of {size}", card.rank, card.ranks);
        return Err(BootstrapError::Card { rank, reason });
    }
    let own = card_key(rank);
    if let Some(bytes) = store.get(&own)? {
        return Err(round.duplicate(card, &bytes, secret));
    }
    store.set(&own, &card.seal(secret))?;

    let sealed = round.collect(card_key).map_err(|e| round.missing(e, card_key, secret))?;
    let mut cards = Vec::with_capacity(size);
    for (other, bytes) in sealed.iter().enumerate() {
        cards.push(if other == rank { card.clone() } else { open(other, bytes, secret)? });
    }
    compare(&cards)?;

    let digest = digest(&cards);
    store.set(&digest_key(rank), &digest)?;
    let digests = round.collect(digest_key).map_err(|e| round.missing(e, digest_key, secret))?;
    let others: Vec<Rank> = (0..size).filter(|other| *other != rank && digests[*other] != digest).collect();
    match store.get(&own)? {
        Some(bytes) if bytes != card.seal(secret) => Err(round.duplicate(card, &bytes, secret)),
        _ if !others.is_empty() => Err(BootstrapError::Disagree { rank, others }),
        _ => Ok(cards),
    }
}

/// Rank 0 publishes `value`, everybody returns it.
pub fn share(
    store: &dyn Store,
    rank: Rank,
    key: &str,
    value: Option<&[u8]>,
    deadline: Instant,
) -> Result<Vec<u8>, StoreError> {
    match (rank, value) {
        (0, Some(value)) => store.set(key, value).map(|()| value.to_vec()),
        (0, None) => Err(StoreError::Failed {
            action: format!("share {key:?}"),
            reason: "rank 0 has no value to share".to_owned(),
        }),
        _ => store.wait(key, deadline),
    }
}

/// Publishes `value` under `kind` and returns what all ranks do, in order.
pub(crate) fn collect(
    store: &dyn Store,
    rank: Rank,
    size: usize,
    kind: &str,
    value: &[u8],
    deadline: Instant,
) -> Result<Vec<Vec<u8>>, StoreError> {
    store.set(&format!("{kind}/{rank}"), value)?;
    (0..size).map(|rank| store.wait(&format!("{kind}/{rank}"), deadline)).collect()
}

fn card_key(rank: Rank) -> String {
    format!("card/{rank}")
}

fn digest_key(rank: Rank) -> String {
    format!("digest/{rank}")
}

struct Round<'a> {
    store: &'a dyn Store,
    rank: Rank,
    size: usize,
    deadline: Instant,
    start: Instant,
}

impl Round<'_> {
    fn collect(&self, key: fn(Rank) -> String) -> Result<Vec<Vec<u8>>, StoreError> {
        (0..self.size).map(|rank| self.store.wait(&key(rank), self.deadline)).collect()
    }

    /// Who is missing, where the store has run out of time.
    fn missing(&self, error: StoreError, key: fn(Rank) -> String, secret: Option<&str>) -> BootstrapError {
        let StoreError::Timeout { .. } = error else { return error.into() };
        let there = |rank: &Rank| matches!(self.store.get(&key(*rank)), Ok(Some(_)));
        let missing: Vec<Rank> = (0..self.size).filter(|rank| !there(rank)).collect();
        if missing.is_empty() {
            return error.into();
        }
        let card = |rank: Rank| open(rank, &self.store.get(&card_key(rank)).ok()??, secret).ok();
        let came = (0..self.size).filter_map(card).collect();
        BootstrapError::Missing { missing, came, waited: self.start.elapsed() }
    }

    fn duplicate(&self, mine: &Card, other: &[u8], secret: Option<&str>) -> BootstrapError {
        match open(self.rank, other, secret) {
            Ok(other) => BootstrapError::Duplicate { mine: Box::new(mine.clone()), other: Box::new(other) },
            Err(error) => error,
        }
    }
}

fn open(rank: Rank, bytes: &[u8], secret: Option<&str>) -> Result<Card, BootstrapError> {
    let card = Card::unseal(bytes, secret).map_err(|reason| BootstrapError::Card { rank, reason })?;
    if card.rank != rank {
        let reason = format!("it is that of {card}; give every job a fresh store");
        return Err(BootstrapError::Card { rank, reason });
    }
    Ok(card)
}

/// Everybody has all cards, so everybody comes to the same result.
fn compare(cards: &[Card]) -> Result<(), BootstrapError> {
    type Aspect = (&'static str, fn(&Card) -> String, &'static str);
    const ASPECTS: [Aspect; 6] = [
        ("versions of ringroad", |c| c.ringroad.clone(), "install the same on all"),
        ("versions of the address card", |c| c.format.to_string(), "install the same ringroad on all"),
        ("numbers of ranks", |c| c.ranks.to_string(), "start all with the same number"),
        ("transports", |c| c.transport.clone(), "set the same RINGROAD_TRANSPORT for all"),
        (
            "versions of the transport",
            |c| format!("{} {}", c.transport, c.transport_version),
            "they cannot talk to each other; install the same on all, or point RINGROAD_UCX_LIBRARY to it",
        ),
        (
            "numbers of ports",
            |c| c.addresses.len().to_string(),
            "list equally many network devices in RINGROAD_PORTS on all",
        ),
    ];
    for (what, value, remedy) in ASPECTS {
        let mut found = BTreeMap::<String, Vec<Rank>>::new();
        for card in cards {
            found.entry(value(card)).or_default().push(card.rank);
        }
        if found.len() > 1 {
            return Err(BootstrapError::Differ { what, found, remedy });
        }
    }
    Ok(())
}

/// Names the group of processes that have these cards.
pub(crate) fn identity(cards: &[Card]) -> String {
    hex(&digest(cards)[..16])
}

fn digest(cards: &[Card]) -> Vec<u8> {
    let mut digest = Sha256::new();
    for card in cards {
        digest.update(card.instance.to_le_bytes());
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

/// The cards' owners; not all of them where they are many.
fn cards_text(cards: &[&Card]) -> String {
    const MOST: usize = 16;
    let mut text = cards.iter().take(MOST).map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
    if cards.len() > MOST {
        text += &format!(" and {} more", cards.len() - MOST);
    }
    text
}

fn missing_text(missing: &[Rank], came: &[Card], waited: Duration) -> String {
    let (stopped, there): (Vec<&Card>, Vec<&Card>) =
        came.iter().partition(|card| missing.contains(&card.rank));
    let absent: Vec<Rank> =
        missing.iter().copied().filter(|r| !stopped.iter().any(|card| card.rank == *r)).collect();
    let mut parts = Vec::new();
    if !absent.is_empty() {
        parts.push(format!("{} did not come", ranks_text(&absent)));
    }
    if !stopped.is_empty() {
        parts.push(format!("{} came but stopped half-way (look at its own error)", cards_text(&stopped)));
    }
    if !there.is_empty() {
        parts.push(format!("{} came", cards_text(&there)));
    }
    format!(
        "within {:.1} s, {}; check that every rank is running and uses the same store, or allow more time (RINGROAD_TIMEOUT)",
        waited.as_secs_f64(),
        parts.join("; "),
    )
}
