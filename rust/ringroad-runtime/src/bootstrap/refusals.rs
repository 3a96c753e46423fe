//! What those who wait for ranks are told of callers that were refused.
//!
//! The word lies under one key of the store. A plain one may be anybody's, and ends no job: it is printed, and named if ranks
//! stay away. A sealed one is of a process that knows the job's secret, and ends the wait.

use super::{seal, EndpointInfo, Store};
use crate::os::messages::warn_once;

pub(super) const KEY: &str = "ringroad/refused";
const MOST_BYTES: usize = 512;
/// How many words a rank prints, whoever writes them.
const MOST_WORDS: usize = 4;

/// Says that a caller was refused, and why.
pub(super) fn tell(store: &dyn Store, text: &str) {
    // If the store is gone, no other rank can read it either.
    let _ = store.set(KEY, text.as_bytes());
}

/// Says why the ranks of this job cannot meet for certain.
pub(super) fn object(store: &dyn Store, secret: Option<&str>, text: &str) {
    let _ = store.set(KEY, &seal::seal(secret, KEY, text.as_bytes()));
}

/// The words that one rank has heard while it waits.
#[derive(Default)]
pub(super) struct Refusals {
    last: Vec<u8>,
    pub words: Vec<String>,
}

impl Refusals {
    /// Takes what lies under the key, and prints it if it is new. Returns why the ranks cannot meet, if somebody who knows
    /// the secret says so.
    pub fn note_refusal(&mut self, bytes: &[u8], secret: Option<&str>, who: &EndpointInfo) -> Option<String> {
        if bytes.is_empty() || self.last == bytes {
            return None;
        }
        if let Ok(text) = seal::open(secret, KEY, bytes, MOST_BYTES) {
            return Some(shown(text));
        }
        self.last = bytes.to_vec();
        let text = shown(bytes);
        if self.words.len() < MOST_WORDS && !self.words.contains(&text) {
            warn_once(&text, &format!("{who} still waits for others: {text}"));
            self.words.push(text);
        }
        None
    }
}

/// What somebody has written, in one line and not at any length.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]);
    text.chars().filter(|c| !c.is_control()).collect()
}
