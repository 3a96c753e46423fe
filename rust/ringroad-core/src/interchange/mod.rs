//! Files of schedules.
//!
//! [`read`] reads whatever a file has: ringroad's own JSON, or the XML of MSCCL, which [`msccl`] reads and writes.
//! [`buffers`] are the places that programs for GPUs have for chunks.

pub mod buffers;
mod error;
pub mod msccl;

pub use error::InterchangeError;

use crate::schedule::Schedule;

/// The most bytes of a file that is read.
pub const MOST_BYTES: usize = 1 << 28;

/// Reads the contents of a file. XML begins with `<`; all else should be JSON. The schedule is not verified.
pub fn read(content: &[u8]) -> Result<Schedule, InterchangeError> {
    if content.len() > MOST_BYTES {
        return Err(InterchangeError::TooLarge {
            what: "the file has more bytes".to_owned(),
            most: MOST_BYTES,
        });
    }
    let text = std::str::from_utf8(content).map_err(|error| {
        let before = &content[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        InterchangeError::at(line, "this is not UTF-8 text")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('<') {
        msccl::read(text)
    } else {
        Ok(Schedule::from_json(text)?)
    }
}
