//! Schedules as text: JSON with a version, and one readable line per step.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, Schedule};

/// The version of the JSON format that this library writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// The text is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not JSON, or fields are missing or of the wrong type.
    #[error("this is not a schedule: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a library with another format.
    #[error("schedule has format_version {found}, this library reads {FORMAT_VERSION}; convert it or update ringroad")]
    Version {
        /// What the text says.
        found: u32,
    },
    /// Ranks or chunks that do not exist.
    #[error("schedule is malformed: {0}")]
    Malformed(String),
}

#[derive(Serialize, Deserialize)]
struct Versioned<S> {
    format_version: u32,
    #[serde(flatten)]
    schedule: S,
}

impl Schedule {
    /// The schedule as JSON. See [`FORMAT_VERSION`].
    pub fn to_json(&self) -> String {
        let value = Versioned { format_version: FORMAT_VERSION, schedule: self };
        serde_json::to_string(&value).expect("a schedule holds only numbers and strings")
    }

    /// Reads what [`Schedule::to_json`] wrote. Indices are checked, the claim is not: call [`Schedule::verify`].
    pub fn from_json(text: &str) -> Result<Schedule, FormatError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let Version { format_version: found } = serde_json::from_str(text)?;
        if found != FORMAT_VERSION {
            return Err(FormatError::Version { found });
        }
        let Versioned { schedule, .. } = serde_json::from_str::<Versioned<Schedule>>(text)?;
        schedule.check_indices().map_err(FormatError::Malformed)?;
        Ok(schedule)
    }

    /// Whether all ranks, chunks and the chunk count make sense; the text says which do not.
    pub(super) fn check_indices(&self) -> Result<(), String> {
        let Schedule { ranks, chunks, collective, .. } = self;
        // More cannot be replayed or kept by any machine.
        const MOST: usize = 1 << 24;
        let blocks = collective.blocks(*ranks);
        if *ranks == 0 || *chunks == 0 || *ranks > MOST || *chunks > MOST || chunks % blocks != 0 {
            return Err(format!(
                "{collective} over {ranks} ranks needs a positive multiple of {blocks} chunks, not {chunks}, and at \
                 most {MOST} of each"
            ));
        }
        if let Some(root) = collective.root().filter(|root| root >= ranks) {
            return Err(format!("root {root} is not one of {ranks} ranks"));
        }
        for (index, step) in self.steps.iter().enumerate() {
            for send in &step.sends {
                let (source, destination) = (send.source, send.destination);
                if source >= *ranks || destination >= *ranks || source == destination {
                    return Err(format!("step {index} sends {source}→{destination} among {ranks} ranks"));
                }
                match send.chunks.max() {
                    None => return Err(format!("step {index} sends nothing {source}→{destination}")),
                    Some(c) if c >= *chunks => {
                        return Err(format!(
                            "step {index} sends chunk {c} of {chunks} {source}→{destination}"
                        ))
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// One line per step: `step 0: 0→1 +[3] | 1→0 +[0]`, where `+` reduces and `=` copies.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} over {} ranks, {} chunks", self.name, self.collective, self.ranks, self.chunks)?;
        for (index, step) in self.steps.iter().enumerate() {
            write!(f, "step {index}:")?;
            for (i, send) in step.sends.iter().enumerate() {
                let bar = if i > 0 { " |" } else { "" };
                let sign = if send.action == Action::Reduce { '+' } else { '=' };
                write!(f, "{bar} {}→{} {sign}[{}]", send.source, send.destination, send.chunks)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
