//! The notices by which a rank that gives up tells the others why.

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

/// Why a rank has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureReason {
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

impl FailureReason {
    /// The number of the collective call that failed, if the reason names one.
    pub fn number(&self) -> Option<u64> {
        match *self {
            FailureReason::Mismatch { number } | FailureReason::Timeout { number } => Some(number),
            _ => None,
        }
    }
}

/// A message between two ranks that has neither left nor come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unfinished {
    /// Whether it is to be sent, and not received.
    pub sends: bool,
    /// The rank at the other end; `None`: any.
    pub peer: Option<Rank>,
    /// The call, for people.
    pub call: String,
}

/// The reason, a message for people, the sender's latest collective calls by number, and the number of the last
/// collective call that has ended there together with all calls before it; and its unfinished messages, if the reason
/// is one of those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub reason: FailureReason,
    pub message: String,
    pub calls: Vec<(u64, String)>,
    #[serde(default)]
    pub ended: u64,
    #[serde(default)]
    pub messages: Vec<Unfinished>,
}

/// The longest notice that is accepted, in bytes.
pub(crate) const MAX_NOTICE_BYTES: usize = if cfg!(miri) { 64 << 10 } else { 1 << 20 };
/// How many of its latest calls, and of its unfinished messages, a rank tells the others.
pub(crate) const CALLS_TOLD: usize = 8;
/// How many bytes of each text are sent. A notice with all its calls is then never too long, even though JSON may
/// turn one byte into six.
const TEXT: usize = MAX_NOTICE_BYTES / 128;

impl Notice {
    pub fn to_bytes(&self) -> Vec<u8> {
        let calls = self.calls.iter().map(|(number, call)| (*number, cut(call))).collect();
        let cut_all = |message: &Unfinished| Unfinished { call: cut(&message.call), ..*message };
        let messages = self.messages.iter().take(CALLS_TOLD).map(cut_all).collect();
        let told = Notice { message: cut(&self.message), calls, messages, ..*self };
        serde_json::to_vec(&told).expect("a notice holds only numbers and text")
    }

    /// Whether the sender gives up by its own will, and not over something that it noticed.
    pub fn is_of_own_end(&self, from: Rank) -> bool {
        matches!(self.reason, FailureReason::Abort) || self.reason == FailureReason::Peer { rank: from }
    }

    /// The notice of one of `ranks` ranks; `None` if it is invalid.
    pub fn parse(payload: &[u8], ranks: usize) -> Option<Notice> {
        let notice: Notice = serde_json::from_slice(payload).ok()?;
        let exists = !matches!(notice.reason, FailureReason::Peer { rank } if rank >= ranks);
        let exists =
            exists && notice.messages.iter().all(|message| message.peer.is_none_or(|rank| rank < ranks));
        let few = notice.calls.len() <= CALLS_TOLD && notice.messages.len() <= CALLS_TOLD;
        (exists && few).then_some(notice)
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

    fn notice(reason: FailureReason, message: &str, calls: usize) -> Notice {
        let unfinished = Unfinished { sends: true, peer: Some(1), call: message.to_owned() };
        let messages = vec![unfinished; calls];
        let calls = (0..calls as u64).map(|number| (number, message.to_owned())).collect();
        Notice { reason, message: message.to_owned(), calls, ended: 3, messages }
    }

    #[test]
    fn notices_come_back() {
        for reason in [
            FailureReason::Mismatch { number: 3 },
            FailureReason::Peer { rank: 1 },
            FailureReason::LateMessage,
        ] {
            let told = notice(reason, "why", CALLS_TOLD);
            assert_eq!(Notice::parse(&told.to_bytes(), 2), Some(told));
        }
    }

    /// JSON may lengthen the texts.
    #[test]
    fn long_messages_are_cut() {
        for letter in ["x", "\u{1}", "\u{e4}", "\u{1f525}"] {
            let told = notice(FailureReason::Abort, &letter.repeat(MAX_NOTICE_BYTES), CALLS_TOLD).to_bytes();
            assert!(told.len() <= MAX_NOTICE_BYTES, "{letter:?}: {}", told.len());
            let message = Notice::parse(&told, 2).unwrap().message;
            assert!(message.len() <= TEXT && message.ends_with(&format!("{letter}...")), "{letter:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let ghost = notice(FailureReason::Peer { rank: 2 }, "", 0);
        let talker = serde_json::to_vec(&notice(FailureReason::Abort, "", CALLS_TOLD + 1)).unwrap();
        let to_a_ghost = Unfinished { sends: true, peer: Some(2), call: String::new() };
        let waiting = Notice { messages: vec![to_a_ghost], ..notice(FailureReason::LateMessage, "", 0) };
        for payload in
            [ghost.to_bytes(), waiting.to_bytes(), talker, b"{}".to_vec(), b"\xff".to_vec(), Vec::new()]
        {
            assert_eq!(Notice::parse(&payload, 2), None, "{payload:?}");
        }
    }
}
