//! Schedules as text: JSON with a version, and one readable line per step.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, ChunkSet, Schedule, Symmetry};
use crate::collective::Collective;
use crate::units::{Rank, Slot};

/// The version of the JSON format that this library writes. It reads the older ones as well: version 1 knows neither
/// symmetries nor slots, and version 2 no symmetries but those of grids.
pub const FORMAT_VERSION: u32 = 3;

/// The most slots that a rank may have for a chunk, slots of all chunks, and slots of all ranks times ranks.
const MOST_SLOTS: usize = 1 << 14;
const MOST_PLACES: usize = 1 << 25;
const MOST_SETS: usize = 1 << 31;

/// The text is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not JSON, or fields are missing or of the wrong type.
    #[error("this is not a schedule: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a library with another format.
    #[error("schedule has format_version {found}, this library reads 1 to {FORMAT_VERSION}; convert it or update ringroad")]
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
        if !(1..=FORMAT_VERSION).contains(&found) {
            return Err(FormatError::Version { found });
        }
        let Versioned { schedule, .. } = serde_json::from_str::<Versioned<Schedule>>(text)?;
        schedule.check_indices().map_err(FormatError::Malformed)?;
        Ok(schedule)
    }

    /// As [`Schedule::check_named`], and that nobody needs too much memory to look into what it does.
    pub(crate) fn check_indices(&self) -> Result<(), String> {
        self.check_named()?;
        let Schedule { ranks, chunks, .. } = self;
        // Whoever replays or lowers it has a set of ranks, or a place, for each of these.
        let slots = self.slots();
        let sets = ranks.checked_mul(*ranks).and_then(|pairs| pairs.checked_mul(slots));
        if sets.is_none_or(|sets| sets > MOST_SETS) || chunks.saturating_mul(slots) > MOST_PLACES {
            return Err(format!(
                "{ranks} ranks with {chunks} chunks and {slots} slots are too many to look into"
            ));
        }
        Ok(())
    }

    /// Whether all ranks, chunks and the chunk count make sense; the text says which do not.
    pub(crate) fn check_named(&self) -> Result<(), String> {
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

    /// Whether what holds for the first block of a slice holds for the others: rows start where slices start and keep to
    /// one slice, and blocks belong to ranks as the collective wants it.
    fn check_symmetry(&self, symmetry: &Symmetry) -> Result<(), String> {
        let Schedule { ranks, chunks, collective, .. } = *self;
        if collective.root().is_some() {
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
                // The block that the first position sends to another moves with both of them.
                Collective::Alltoall => whole && slice.pairs_move(&blocks),
                _ => !collective.has_blocks() || whole && (0..ranks).all(|p| blocks[p] == slice.rank(p)),
            };
            if !everybody_has_its_own {
                return Err(format!("slice {index} does not give every rank its own block"));
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
        all.then_some(()).ok_or_else(|| "a row does not start at the first position of its slice".to_owned())
    }
}

/// One line per step: `step 0: 0→1 +[3] | 1→0 =[0]`, where `+` reduces and `=` copies. Slots other than the vector stand
/// behind a colon, `0:2→1:3`. What a rank does on its own follows after `then`: `0 s2+s1 [0]` reduces slot 1 into slot 2.
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
