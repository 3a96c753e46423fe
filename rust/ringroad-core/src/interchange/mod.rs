//! Schedules in the formats of other programs: text or bytes in, values out.
//!
//! [`read`] reads whatever a file has, ringroad's own JSON included.
//! [`msccl`] reads and writes the XML of MSCCL. The others are only written: [`mscclpp`] (execution plans of MSCCL++),
//! [`goal`] (LogGOPSim) and [`chakra`] (execution traces for ASTRA-sim). The first two say what happens to chunks, as a
//! schedule does. The last two have bytes and dependencies, so they are written from the plans that the simulator runs.

mod buffers;
pub mod chakra;
mod error;
pub mod goal;
pub mod msccl;
pub mod mscclpp;

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
