//! Everybody learns everybody's address, or why not.
//!
//! Two rounds: each rank publishes its card and reads all others; then each publishes a digest of the cards it has read
//! and compares the others' digests with its own. The second round finds a rank that was started twice and cards that
//! an earlier job has left in the store, on every rank that is affected; both would be hangs otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use ringroad_core::Rank;
use sha2::{Digest, Sha256};

use super::card::{hex, Card};
use super::meeting::{refused, Meeting, CARD_BYTES};
use super::StoreError;
use crate::error::Error;

/// What cards are published as.
pub(super) const CARD: &str = "card";

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
    /// A rank's process has ended.
    #[error(
        "{card} died while the communicator was being made (look at its own output); start all ranks anew"
    )]
    Died {
        /// Whose.
        card: Box<Card>,
    },
    /// A rank gave up.
    #[error("{story}")]
    GaveUp {
        /// Who.
        rank: Rank,
        /// Whether it had waited too long.
        late: bool,
        /// Why, in its own words.
        story: String,
    },
    /// There is another rank 0.
    #[error("another rank 0 meets at the same place of the store as {card}: start every rank once, and give every job a store of its own")]
    Replaced {
        /// This process.
        card: Box<Card>,
    },
    /// Rank 0 has begun anew: join it there.
    #[error("rank 0 has begun anew elsewhere in the store")]
    Moved,
    /// What a rank says is not what it should be.
    #[error("the {kind} of rank {rank} in the store is not accepted: {reason}")]
    Refused {
        /// What.
        kind: String,
        /// Whose.
        rank: Rank,
        /// Why, and what to do.
        reason: String,
    },
    /// What is announced is not what it should be.
    #[error("{key:?} in the store is not accepted: {reason}")]
    Note {
        /// Where.
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
            BootstrapError::GaveUp { rank, story, .. } => Error::Peer { rank, message: story },
            BootstrapError::Died { ref card } => Error::Peer { rank: card.rank, message: error.to_string() },
            BootstrapError::Store(error) => error.into(),
            _ => Error::Store(error.to_string()),
        }
    }
}

impl Meeting {
    /// Publishes this rank's card and returns those of all ranks, in order. Nobody returns successfully before everybody
    /// has read all cards. What is said from then on holds among these ranks alone.
    pub fn exchange(&mut self) -> Result<Vec<Card>, BootstrapError> {
        let (rank, size) = (self.card.rank, self.card.ranks);
        if let Some(other) = self.look(CARD, rank, CARD_BYTES)? {
            return Err(self.duplicate(&other));
        }
        let own = self.card.write();
        self.tell(CARD, &own)?;
        self.cards[rank] = Some(self.card.clone());
        for other in 0..size {
            if self.cards[other].is_none() {
                let content = self.hear(CARD, other, 0..size, CARD_BYTES)?;
                self.welcome(Card::read(other, &content)?);
            }
        }
        let cards: Vec<Card> = self.cards.iter().flatten().cloned().collect();
        compare(&cards)?;

        let digest = digest(&cards);
        let digests = self.collect("digest", &digest, digest.len())?;
        let others: Vec<Rank> = (0..size).filter(|other| digests[*other] != digest).collect();
        match self.look(CARD, rank, CARD_BYTES)? {
            Some(other) if other != own => return Err(self.duplicate(&other)),
            _ if !others.is_empty() => return Err(BootstrapError::Disagree { rank, others }),
            _ => {}
        }
        self.part = format!("{}/{}", self.part, hex(&digest));
        Ok(cards)
    }

    /// Publishes where this rank is reached over a network, and returns the cards of all ranks with that.
    pub fn exchange_addresses(
        &mut self,
        transport: &str,
        version: &str,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Vec<Card>, BootstrapError> {
        const NETWORK: &str = "network";
        self.card.transport = transport.to_owned();
        self.card.transport_version = version.to_owned();
        self.card.addresses = addresses;
        let all = self.collect(NETWORK, &self.card.write(), CARD_BYTES)?;
        let mut cards = Vec::with_capacity(all.len());
        for (rank, content) in all.iter().enumerate() {
            let Card { transport, transport_version, addresses, handle, .. } = Card::read(rank, content)?;
            if addresses.iter().any(Vec::is_empty) {
                return Err(refused(NETWORK, rank, "an address is empty".to_owned()));
            }
            let known = self.cards[rank].clone().unwrap_or_default();
            cards.push(Card { transport, transport_version, addresses, handle, ..known });
        }
        compare(&cards)?;
        Ok(cards)
    }

    fn duplicate(&mut self, other: &[u8]) -> BootstrapError {
        // This process has no part in the meeting, and nothing to say there.
        self.cards[self.card.rank] = None;
        match Card::read(self.card.rank, other) {
            Ok(other) => {
                BootstrapError::Duplicate { mine: Box::new(self.card.clone()), other: Box::new(other) }
            }
            Err(error) => error,
        }
    }
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
