//! A roll call: which ranks of a job come in time, though some may be missing. `ringroad doctor` begins with one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;

use super::exchange::CARD;
use super::rendezvous::{refused, unreadable};
use super::{BootstrapError, Card, Meeting, Store};

const WORD: &str = "word";
const ROSTER: &str = "roster";
/// The most bytes of what a rank says.
const MOST: usize = 1 << 24;
const LOOK: Duration = Duration::from_millis(20);
/// How much later than all others rank 0 may decide who came.
const GRACE: Duration = Duration::from_secs(5);

/// The ranks that came, at the meeting where they go on talking.
pub struct RollCall {
    meeting: Meeting,
    words: Vec<Option<String>>,
}

impl RollCall {
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
    ) -> Result<RollCall, BootstrapError> {
        let start = Instant::now();
        loop {
            let card = Card::new(rank, ranks, "", "", Vec::new());
            let mut meeting = Meeting::join(store.clone(), name, card, secret, start + patience)?;
            // Rank 0 may come this much later, and then waits this long for others.
            meeting.deadline = if rank == 0 { start + patience } else { start + 2 * patience + GRACE };
            meeting.tell(WORD, word.as_bytes())?;
            let words = match rank {
                0 => gather(&mut meeting, ranks),
                _ => listen(&mut meeting, rank, word),
            };
            match words {
                Err(_) if meeting.has_moved() => {}
                words => return Ok(RollCall { words: words?, meeting }),
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
        self.meeting.tell(kind, text.as_bytes())
    }

    /// The text that a rank has published as `kind`, if it has.
    pub fn look(&self, kind: &str, rank: Rank) -> Result<Option<String>, BootstrapError> {
        look(&self.meeting, kind, rank)
    }
}

fn look(meeting: &Meeting, kind: &str, rank: Rank) -> Result<Option<String>, BootstrapError> {
    let read = |bytes| String::from_utf8(bytes).map_err(|_| refused(kind, rank, "is no text".to_owned()));
    meeting.look(kind, rank, MOST)?.map(read).transpose()
}

/// Rank 0's part. Its card lets others see that it has died.
fn gather(meeting: &mut Meeting, ranks: usize) -> Result<Vec<Option<String>>, BootstrapError> {
    meeting.tell(CARD, &meeting.card.write())?;
    let mut words = vec![None; ranks];
    loop {
        for (rank, word) in words.iter_mut().enumerate().filter(|(_, word)| word.is_none()) {
            *word = look(meeting, WORD, rank)?;
        }
        if words.iter().all(Option::is_some) {
            break;
        }
        match meeting.look_around(WORD, &(0..ranks))? {
            None => std::thread::sleep(LOOK),
            Some(BootstrapError::Missing { .. }) => break,
            Some(obstacle) => return Err(obstacle),
        }
    }
    meeting.tell(ROSTER, &serde_json::to_vec(&words).expect("texts can be written"))?;
    Ok(words)
}

/// The part of another rank. A list without its word may be that of an earlier roll call, which rank 0 then replaces.
fn listen(meeting: &mut Meeting, rank: Rank, word: &str) -> Result<Vec<Option<String>>, BootstrapError> {
    let bytes = meeting.hear(ROSTER, 0, 0..1, MOST)?;
    let words: Vec<Option<String>> =
        serde_json::from_slice(&bytes).map_err(|error| refused(ROSTER, 0, unreadable(&error)))?;
    while words.get(rank).and_then(Option::as_deref) != Some(word) {
        match meeting.look_around(ROSTER, &(0..1))? {
            None => std::thread::sleep(LOOK),
            Some(BootstrapError::Missing { .. }) => break,
            Some(obstacle) => return Err(obstacle),
        }
    }
    Ok(words)
}
