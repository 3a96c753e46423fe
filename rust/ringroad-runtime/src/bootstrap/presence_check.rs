//! A presence check: which ranks of a job come in time, though some may be missing. `ringroad doctor` begins with one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;

use super::exchange::ENDPOINT;
use super::rendezvous::{refused, unreadable};
use super::{BootstrapError, EndpointInfo, Rendezvous, Store};

const WORD: &str = "word";
const ROSTER: &str = "roster";
/// The most bytes of what a rank says.
const MAX_MESSAGE_BYTES: usize = 1 << 24;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How much later than all others rank 0 may decide who came.
const GRACE: Duration = Duration::from_secs(5);

/// The ranks that came, at the rendezvous where they go on talking.
pub struct PresenceCheck {
    rendezvous: Rendezvous,
    words: Vec<Option<String>>,
}

impl PresenceCheck {
    /// Rank 0 waits for the words of all ranks, but no longer than `patience`; the others wait for rank 0's list.
    /// Returns an error if the store fails, or rank 0 does not come in time.
    pub fn hold(
        store: &Arc<dyn Store>,
        name: &str,
        rank: Rank,
        ranks: usize,
        secret: Option<&str>,
        patience: Duration,
        word: &str,
    ) -> Result<PresenceCheck, BootstrapError> {
        let start = Instant::now();
        loop {
            let endpoint = EndpointInfo::new(rank, ranks, "", "", Vec::new());
            let mut rendezvous =
                Rendezvous::join(store.clone(), name, endpoint, secret, start..start + patience)?;
            // Rank 0 may come this much later, and then waits this long for others.
            rendezvous.deadline = if rank == 0 { start + patience } else { start + 2 * patience + GRACE };
            rendezvous.tell(WORD, word.as_bytes())?;
            let words = match rank {
                0 => gather(&mut rendezvous, ranks),
                _ => listen(&mut rendezvous, rank, word),
            };
            match words {
                Err(_) if rendezvous.has_moved() => {}
                words => return Ok(PresenceCheck { words: words?, rendezvous }),
            }
        }
    }

    /// What each rank said; `None` of those that are missing. A rank that finds another word than its own has come
    /// too late.
    pub fn words(&self) -> &[Option<String>] {
        &self.words
    }

    /// Publishes a text of this rank as `kind`.
    pub fn tell(&self, kind: &str, text: &str) -> Result<(), BootstrapError> {
        self.rendezvous.tell(kind, text.as_bytes())
    }

    /// The text that a rank has published as `kind`, if it has.
    pub fn published_text(&self, kind: &str, rank: Rank) -> Result<Option<String>, BootstrapError> {
        read_text(&self.rendezvous, kind, rank)
    }
}

fn read_text(rendezvous: &Rendezvous, kind: &str, rank: Rank) -> Result<Option<String>, BootstrapError> {
    let read = |bytes| String::from_utf8(bytes).map_err(|_| refused(kind, rank, "is not text".to_owned()));
    rendezvous.published_value(kind, rank, MAX_MESSAGE_BYTES)?.map(read).transpose()
}

/// Rank 0's part. Its endpoint lets others see that it has died.
fn gather(rendezvous: &mut Rendezvous, ranks: usize) -> Result<Vec<Option<String>>, BootstrapError> {
    rendezvous.tell(ENDPOINT, &rendezvous.endpoint.write())?;
    let mut words = vec![None; ranks];
    loop {
        for (rank, word) in words.iter_mut().enumerate().filter(|(_, word)| word.is_none()) {
            *word = read_text(rendezvous, WORD, rank)?;
        }
        if words.iter().all(Option::is_some) {
            break;
        }
        match rendezvous.look_around(WORD, &(0..ranks))? {
            None => std::thread::sleep(POLL_INTERVAL),
            Some(BootstrapError::Missing { .. }) => break,
            Some(obstacle) => return Err(obstacle),
        }
    }
    rendezvous.tell(ROSTER, &serde_json::to_vec(&words).expect("texts can be written"))?;
    Ok(words)
}

/// The part of another rank. A list without its word may be that of an earlier presence check, which rank 0 then replaces.
fn listen(
    rendezvous: &mut Rendezvous,
    rank: Rank,
    word: &str,
) -> Result<Vec<Option<String>>, BootstrapError> {
    let bytes = rendezvous.wait_for_value(ROSTER, 0, (ROSTER, 0..1), MAX_MESSAGE_BYTES)?;
    let words: Vec<Option<String>> =
        serde_json::from_slice(&bytes).map_err(|error| refused(ROSTER, 0, unreadable(&error)))?;
    while words.get(rank).and_then(Option::as_deref) != Some(word) {
        match rendezvous.look_around(ROSTER, &(0..1))? {
            None => std::thread::sleep(POLL_INTERVAL),
            Some(BootstrapError::Missing { .. }) => break,
            Some(obstacle) => return Err(obstacle),
        }
    }
    Ok(words)
}
