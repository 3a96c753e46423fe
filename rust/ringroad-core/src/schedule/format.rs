//! Schedules as text: versioned JSON, and a readable form with one line per step.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, ChunkSet, Schedule, Step, Symmetry};
use crate::collective::Collective;
use crate::units::{Rank, Slot};

/// The version of the JSON format that this library writes. It also reads the older versions: version 1 has neither
/// symmetries nor slots, and version 2 only symmetries of grids.
pub const FORMAT_VERSION: u32 = 3;

/// The most slots that a rank may have for a chunk.
const MOST_SLOTS: usize = 1 << 14;
/// The most slots that a rank may have for all chunks together.
const MOST_PLACES: usize = 1 << 25;

/// Why a text cannot be read as a schedule.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The text is not JSON, or fields are missing or of the wrong type.
    #[error("this is not a schedule: {0}")]
    Json(#[from] serde_json::Error),
    /// The text has a format version that this library does not read.
    #[error("schedule has format_version {found}, this library reads 1 to {FORMAT_VERSION}; convert it or update ringroad")]
    Version {
        /// The version of the text.
        found: u32,
    },
    /// The schedule names ranks or chunks that do not exist, or is inconsistent otherwise.
    #[error("schedule is malformed: {0}")]
    Malformed(String),
}

#[derive(Serialize)]
struct Versioned<'a> {
    format_version: u32,
    #[serde(flatten)]
    schedule: &'a Schedule,
}

impl Schedule {
    /// The schedule as JSON. See [`FORMAT_VERSION`].
    pub fn to_json(&self) -> String {
        let value = Versioned { format_version: FORMAT_VERSION, schedule: self };
        serde_json::to_string(&value).expect("a schedule holds only numbers and strings")
    }

    /// Reads a schedule that [`Schedule::to_json`] wrote. This checks indices, but not whether the schedule performs
    /// its collective: call [`Schedule::verify`].
    pub fn from_json(text: &str) -> Result<Schedule, FormatError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let Version { format_version: found } = serde_json::from_str(text)?;
        if !(1..=FORMAT_VERSION).contains(&found) {
            return Err(FormatError::Version { found });
        }
        let schedule: Schedule = serde_json::from_str(text)?;
        schedule.check_indices().map_err(FormatError::Malformed)?;
        Ok(schedule)
    }

    /// A schedule with these steps. This checks indices, as [`Schedule::from_json`] does.
    pub fn from_steps(
        name: &str,
        collective: Collective,
        ranks: usize,
        chunks: usize,
        steps: Vec<Step>,
    ) -> Result<Schedule, FormatError> {
        let schedule = Schedule { steps, ..Schedule::empty(name, collective, ranks, chunks) };
        schedule.check_indices().map_err(FormatError::Malformed)?;
        Ok(schedule)
    }

    /// As [`Schedule::check_named`], and checks that replaying the schedule does not take too much memory.
    pub(crate) fn check_indices(&self) -> Result<(), String> {
        self.check_named()?;
        let Schedule { ranks, chunks, .. } = self;
        // Replaying a schedule needs a place for each slot of each rank, lowering it one for each slot of each chunk.
        let slots = self.slots();
        if ranks.max(chunks).saturating_mul(slots) > MOST_PLACES {
            return Err(format!(
                "{ranks} ranks with {chunks} chunks and {slots} slots would take too much memory to verify"
            ));
        }
        Ok(())
    }

    /// Checks that all ranks, chunks and slots exist, and the symmetry; the error says what is wrong.
    pub(crate) fn check_named(&self) -> Result<(), String> {
        let Schedule { ranks, chunks, collective, .. } = self;
        // No machine can replay or store larger schedules.
        const MAX_COUNT: usize = 1 << 24;
        let blocks = collective.blocks(*ranks);
        if *ranks == 0 || *chunks == 0 || *ranks > MAX_COUNT || *chunks > MAX_COUNT || chunks % blocks != 0 {
            return Err(format!(
                "{collective} over {ranks} ranks needs a positive multiple of {blocks} chunks, not {chunks}, and at \
                 most {MAX_COUNT} of each"
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
                self.check_part(&send.chunks, send.from.max(send.into))
                    .map_err(|what| format!("step {index} sends {what} {source}→{destination}"))?;
            }
            for local in &step.locals {
                let rank = local.rank;
                if rank >= *ranks || local.from == local.into {
                    return Err(format!(
                        "step {index} has rank {rank} of {ranks} combine slot {} with slot {}",
                        local.from, local.into
                    ));
                }
                self.check_part(&local.chunks, local.from.max(local.into))
                    .map_err(|what| format!("step {index} has rank {rank} combine {what}"))?;
            }
        }
        self.symmetry.as_ref().map_or(Ok(()), |symmetry| self.check_symmetry(symmetry))
    }

    fn check_part(&self, chunks: &ChunkSet, slot: Slot) -> Result<(), String> {
        match chunks.max() {
            None => Err("nothing".to_owned()),
            Some(chunk) if chunk >= self.chunks => Err(format!("chunk {chunk} of {}", self.chunks)),
            Some(_) if slot >= MOST_SLOTS => Err(format!("slot {slot} (there are at most {MOST_SLOTS})")),
            Some(_) => Ok(()),
        }
    }

    /// Checks that what holds for the first block of a slice holds for the others: every send and every local operation
    /// starts at the first position of its slice and has chunks of this slice only, and each rank has the block that
    /// the collective gives it.
    fn check_symmetry(&self, symmetry: &Symmetry) -> Result<(), String> {
        let Schedule { ranks, chunks, collective, .. } = *self;
        if collective.root().is_some() || collective.is_prefix() {
            return Err(format!("a schedule of {collective} cannot be symmetric"));
        }
        symmetry.check(ranks, chunks)?;
        let per_block = chunks / collective.blocks(ranks);
        let mut slices = vec![0; chunks];
        for (index, slice) in symmetry.slices.iter().enumerate() {
            slice.chunks.iter().for_each(|chunk| slices[*chunk] = index);
            let whole = slice.chunks.len() == ranks;
            let blocks: Vec<usize> = slice.chunks.iter().map(|chunk| chunk / per_block).collect();
            let everybody_has_its_own = match collective {
                // A motion that moves source and target of a block must move the block, too.
                Collective::Alltoall => whole && slice.pairs_move(&blocks),
                _ => !collective.has_blocks() || whole && (0..ranks).all(|p| blocks[p] == slice.rank(p)),
            };
            if !everybody_has_its_own {
                return Err(format!("slice {index} does not assign every rank its own block"));
            }
        }
        let fits = |rank: Rank, chunks: &ChunkSet| {
            let mut all = chunks.iter().map(|chunk| slices[chunk]);
            all.next().is_some_and(|slice| {
                symmetry.slices[slice].rank(0) == rank && all.all(|other| other == slice)
            })
        };
        let all = self.steps.iter().all(|step| {
            step.sends.iter().all(|s| fits(s.source, &s.chunks))
                && step.locals.iter().all(|l| fits(l.rank, &l.chunks))
        });
        let wrong = "a send or local operation has chunks of several slices, or does not start at the first position of its slice";
        all.then_some(()).ok_or_else(|| wrong.to_owned())
    }
}

/// One line per step: `step 0: 0→1 +[3] | 1→0 =[0]`, where `+` reduces and `=` copies. A slot other than 0 follows
/// after a colon, `0:2→1:3`. Local operations follow after `then`: `0 s2+s1 [0]` reduces slot 1 of rank 0 into slot 2.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |action| if action == Action::Reduce { '+' } else { '=' };
        let at = |rank: Rank, slot: Slot| if slot == 0 { rank.to_string() } else { format!("{rank}:{slot}") };
        writeln!(f, "{}: {} over {} ranks, {} chunks", self.name, self.collective, self.ranks, self.chunks)?;
        for (index, step) in self.expand().steps.iter().enumerate() {
            write!(f, "step {index}:")?;
            for (i, send) in step.sends.iter().enumerate() {
                let bar = if i > 0 { " |" } else { "" };
                let (source, target) = (at(send.source, send.from), at(send.destination, send.into));
                write!(f, "{bar} {source}→{target} {}[{}]", sign(send.action), send.chunks)?;
            }
            for (i, local) in step.locals.iter().enumerate() {
                let start = if i > 0 { " |" } else { " then" };
                let (rank, into, from) = (local.rank, local.into, local.from);
                write!(f, "{start} {rank} s{into}{}s{from} [{}]", sign(local.action), local.chunks)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
