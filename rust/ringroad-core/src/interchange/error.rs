//! Why a file cannot be read or written.

use crate::schedule::FormatError;

/// Why a schedule cannot be read from a format or written in it.
#[derive(Debug, thiserror::Error)]
pub enum InterchangeError {
    /// The text is no schedule in ringroad's own format.
    #[error(transparent)]
    Json(#[from] FormatError),
    /// The text is no file of the format, or has something that a schedule cannot express.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// The text is too large to be read.
    #[error("{what}; ringroad reads at most {most}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The most that is read.
        most: usize,
    },
    /// The format cannot express the schedule.
    #[error("{format} cannot express this schedule: {what}")]
    Inexpressible {
        /// The format.
        format: &'static str,
        /// What it cannot express.
        what: String,
    },
}

impl InterchangeError {
    pub(super) fn at(line: usize, what: impl Into<String>) -> InterchangeError {
        InterchangeError::Line { line, what: what.into() }
    }
}
