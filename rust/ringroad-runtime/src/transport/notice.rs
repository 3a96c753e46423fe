//! The notices by which a rank that gives up tells the others why.

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

/// Why a rank has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// Ranks made different calls.
    Mismatch { number: u64 },
    /// A rank is gone, or it is the sender itself and leaves.
    Peer { rank: Rank },
    /// The deadline of a collective passed.
    Timeout { number: u64 },
    /// The deadline of a message between two ranks passed.
    LateMessage,
    /// The user aborted it, or nothing of the above applies.
    Abort,
}

impl Reason {
    /// The number of the collective call that failed, if the reason names one.
    pub fn number(&self) -> Option<u64> {
        match *self {
            Reason::Mismatch { number } | Reason::Timeout { number } => Some(number),
            _ => None,
        }
    }
}

/// The reason, a message for people, the sender's latest collective calls by number, and the number of the last
/// collective call that has ended there together with all calls before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub reason: Reason,
    pub message: String,
    pub calls: Vec<(u64, String)>,
    #[serde(default)]
    pub ended: u64,
}

/// The longest notice that is accepted, in bytes.
pub(crate) const LONGEST: usize = if cfg!(miri) { 64 << 10 } else { 1 << 20 };
/// How many of its latest calls a rank tells the others.
pub(crate) const CALLS_TOLD: usize = 8;
/// How many bytes of each text are sent. A notice with all its calls is then never too long, even though JSON may
/// turn one byte into six.
const TEXT: usize = LONGEST / 64;

impl Notice {
    pub fn to_bytes(&self) -> Vec<u8> {
        let calls = self.calls.iter().map(|(number, call)| (*number, cut(call))).collect();
        let told = Notice { message: cut(&self.message), calls, ..*self };
        serde_json::to_vec(&told).expect("a notice holds only numbers and text")
    }

    /// Whether the sender gives up by its own will, and not over something that it noticed.
    pub fn is_of_own_end(&self, from: Rank) -> bool {
        matches!(self.reason, Reason::Abort) || self.reason == Reason::Peer { rank: from }
    }

    /// The notice of one of `ranks` ranks; `None` if it is invalid.
    pub fn parse(payload: &[u8], ranks: usize) -> Option<Notice> {
        let notice: Notice = serde_json::from_slice(payload).ok()?;
        let exists = !matches!(notice.reason, Reason::Peer { rank } if rank >= ranks);
        (exists && notice.calls.len() <= CALLS_TOLD).then_some(notice)
    }
}

/// Shortens a text that is too long.
fn cut(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let end = (0..=TEXT - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(reason: Reason, message: &str, calls: usize) -> Notice {
        let calls = (0..calls as u64).map(|number| (number, message.to_owned())).collect();
        Notice { reason, message: message.to_owned(), calls, ended: 3 }
    }

    #[test]
    fn notices_come_back() {
        for reason in [Reason::Mismatch { number: 3 }, Reason::Peer { rank: 1 }, Reason::Abort] {
            let told = notice(reason, "why", CALLS_TOLD);
            assert_eq!(Notice::parse(&told.to_bytes(), 2), Some(told));
        }
    }

    /// JSON may lengthen the texts.
    #[test]
    fn long_messages_are_cut() {
        for letter in ["x", "\u{1}", "\u{e4}", "\u{1f525}"] {
            let told = notice(Reason::Abort, &letter.repeat(LONGEST), CALLS_TOLD).to_bytes();
            assert!(told.len() <= LONGEST, "{letter:?}: {}", told.len());
            let message = Notice::parse(&told, 2).unwrap().message;
            assert!(message.len() <= TEXT && message.ends_with(&format!("{letter}...")), "{letter:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let ghost = notice(Reason::Peer { rank: 2 }, "", 0);
        let talker = notice(Reason::Abort, "", CALLS_TOLD + 1);
        for payload in [ghost.to_bytes(), talker.to_bytes(), b"{}".to_vec(), b"\xff".to_vec(), Vec::new()] {
            assert_eq!(Notice::parse(&payload, 2), None, "{payload:?}");
        }
    }
}
