//! Schedules that were made for a graph, kept in files: making them may take seconds, and jobs are started again.
//!
//! A file is found by the digest of the network, the collective, the algorithm and the version of ringroad. It holds
//! the cost of the schedule and its digest, and the schedule itself if reading is faster than making. Nothing is
//! trusted: a schedule that is read is verified and its digest compared. A file that is damaged is ignored with a
//! warning. If files cannot be written, nothing is kept.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringroad_core::algorithms::{Member, Unavailable};
use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Rank, Schedule, Topology};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::os::files::MOST_TEXT;
use crate::os::kept::{Checked, FileKind, KeptFiles};
use crate::os::machine::READ_PER_SECOND;

/// The version of the files.
const FORMAT: u32 = 2;
/// Schedules that are made faster than this are not kept at all: reading a file takes about a millisecond.
const WORTH_KEEPING: Duration = Duration::from_millis(20);
/// The most bytes of the first line of a file, and the digits of its checksum.
const MOST_HEADER_BYTES: u64 = 16 << 20;
const SUM: usize = 32;
pub(crate) const KIND: FileKind = FileKind {
    suffix: ".schedule",
    mark: "ringroad schedule ",
    most_files: 4096,
    advice: "the schedule is made again; RINGROAD_CACHE=none keeps none",
};

/// What is known about a schedule that was made for a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownSchedule {
    /// What it costs on that graph.
    pub cost: ScheduleCost,
    pub digest: String,
}

/// What identifies a file's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScheduleKey {
    format: u32,
    ringroad: String,
    topology: String,
    collective: Collective,
    algorithm: Member,
}

/// The first line of a file, after its mark and its checksum. The second line is the schedule, or empty.
#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub key: ScheduleKey,
    pub known: KnownSchedule,
}

/// The directory in which schedules are kept, if they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedules {
    kept: Option<KeptFiles>,
}

impl Schedules {
    pub fn new(folder: Option<PathBuf>) -> Schedules {
        Schedules { kept: folder.map(|folder| KeptFiles { folder, kind: &KIND }) }
    }

    fn read<T>(
        &self,
        path: Option<&PathBuf>,
        read: impl FnOnce(&mut dyn BufRead) -> Checked<T>,
    ) -> Option<T> {
        self.kept.as_ref()?.recall(path?, |file| read(file))
    }

    fn path(&self, key: &ScheduleKey) -> Option<PathBuf> {
        let root = key.collective.root().map_or(String::new(), |root| format!("-{root}"));
        let ScheduleKey { format, ringroad, topology, collective, algorithm } = key;
        let name = format!("{topology}-{}{root}-{algorithm}-{ringroad}-{format}", collective.name());
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        Some(self.kept.as_ref()?.folder.join(name + KIND.suffix))
    }

    /// The cost of `member`'s schedule, and its digest: from a file, or by making it. `None` if there is no file, and
    /// `budget` is spent before the schedule is made.
    pub fn cost(
        &self,
        topology: &Topology,
        member: Member,
        collective: Collective,
        routes: &mut Routes<'_>,
        budget: Budget<'_>,
    ) -> Result<Option<KnownSchedule>> {
        let key = ScheduleKey::for_member(topology, member, collective);
        let path = self.path(&key);
        if let Some(known) = self.read(path.as_ref(), |file| header(file, &key)) {
            return Ok(Some(known));
        }
        if budget.check().is_err() {
            return Ok(None);
        }
        let start = Instant::now();
        let schedule = match member.build_within(topology, collective, budget) {
            Err(Unavailable::Spent { .. }) => return Ok(None),
            schedule => schedule?,
        };
        let taken = start.elapsed();
        let known =
            KnownSchedule { cost: ScheduleCost::with_routes(&schedule, routes)?, digest: schedule.digest() };
        if let Some(path) = path.filter(|_| taken >= WORTH_KEEPING) {
            self.keep(&path, &Header { key, known: known.clone() }, &schedule, taken);
        }
        Ok(Some(known))
    }

    /// The verified schedule of `member` for `rank`, from a file or made now. `expected`: the digest that it must
    /// have.
    pub fn schedule(
        &self,
        topology: &Topology,
        member: Member,
        collective: Collective,
        rank: Rank,
        expected: Option<&str>,
    ) -> Result<Schedule> {
        let made = |topology, collective| -> Result<Schedule> {
            let schedule = member.build(topology, collective)?;
            schedule.verify()?;
            Ok(schedule)
        };
        if !member.is_made_for_graph(collective) {
            return made(topology, collective);
        }
        // Kept, and compared, is the schedule for the positions of the ranks.
        let ground = member.ground(topology, collective);
        let key = ScheduleKey::for_member(ground.topology, member, ground.collective);
        let path = self.path(&key);
        let found = self.read(path.as_ref(), |file| kept(file, &key));
        let schedule = match found.flatten().filter(|schedule| is_expected(schedule, expected)) {
            Some(schedule) => schedule,
            None => made(ground.topology, ground.collective)?,
        };
        match expected.filter(|_| !is_expected(&schedule, expected)) {
            None if topology.positions().is_some() => {
                let placed = ground.place(schedule);
                placed.verify()?;
                Ok(placed)
            }
            None => Ok(schedule),
            Some(expected) => Err(Error::Schedule(format!(
                "rank {rank} has another schedule of {member} for {collective} than rank 0 chose: digest {}, not {expected}; \
                 run the same version of ringroad on all ranks, and delete rank 0's file of it, if there is one{}",
                schedule.digest(),
                path.map_or(String::new(), |path| format!(": {}", path.display()))
            ))),
        }
    }

    /// Writes a file, if possible.
    fn keep(&self, path: &Path, header: &Header, schedule: &Schedule, taken: Duration) {
        let Some(kept) = &self.kept else { return };
        let body = schedule.to_json();
        let worth_it = body.len() as f64 / READ_PER_SECOND < taken.as_secs_f64();
        let body = if worth_it && body.len() as u64 <= MOST_TEXT / 2 { &*body } else { "" };
        let header = serde_json::to_string(header).expect("a header holds only finite numbers and text");
        let first = format!("{}{}{header}\n", KIND.mark, checksum(&header));
        let _ = kept.keep(path, &[first.as_bytes(), body.as_bytes()]);
    }
}

impl ScheduleKey {
    pub fn for_member(topology: &Topology, member: Member, collective: Collective) -> ScheduleKey {
        let (topology, algorithm) = (topology.digest(), member);
        let ringroad = env!("CARGO_PKG_VERSION").to_owned();
        ScheduleKey { format: FORMAT, ringroad, topology, collective, algorithm }
    }
}

fn is_expected(schedule: &Schedule, expected: Option<&str>) -> bool {
    expected.is_none_or(|expected| schedule.digest() == expected)
}

pub(crate) fn checksum(header: &str) -> String {
    Sha256::digest(header)[..SUM / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of the first line, if it has this key.
fn header(file: &mut dyn BufRead, wanted: &ScheduleKey) -> Checked<KnownSchedule> {
    let mut line = String::new();
    (&mut *file).take(MOST_HEADER_BYTES).read_line(&mut line).map_err(|error| error.to_string())?;
    let line = line.strip_suffix('\n').and_then(|line| line.strip_prefix(KIND.mark));
    let parts = line.and_then(|line| line.split_at_checked(SUM));
    let Some((_, text)) = parts.filter(|(sum, text)| *sum == checksum(text)) else {
        return Err("it is damaged".to_owned());
    };
    let Header { key, known } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if key == *wanted {
        Ok(known)
    } else {
        Err("it belongs to another network, algorithm or version".to_owned())
    }
}

/// The schedule, if it is kept and correct, has this key, and matches the first line.
pub(crate) fn kept(file: &mut dyn BufRead, wanted: &ScheduleKey) -> Checked<Option<Schedule>> {
    let KnownSchedule { digest, .. } = header(file, wanted)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.is_empty() {
        return Ok(None);
    }
    let schedule = Schedule::from_json(&text).map_err(|error| error.to_string())?;
    if schedule.digest() != digest || schedule.collective != wanted.collective {
        return Err("its schedule is another one".to_owned());
    }
    schedule.verify().map_err(|error| error.to_string())?;
    Ok(Some(schedule))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    use super::*;
    use crate::os::random::token;

    /// A directory of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            let path = std::env::temp_dir().join(format!("ringroad-schedules-{:x}", token()));
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Whatever happens to a file, reading it returns the schedule that was kept, or none.
    #[test]
    #[cfg_attr(miri, ignore = "Miri does not set the times of files")]
    fn what_is_kept_comes_back_whole_or_not_at_all() {
        let folder = Folder::new();
        let schedules = Schedules::new(Some(folder.0.clone()));
        let topology = Topology::parse("without(torus:2x4, 0-1)").unwrap();
        let (member, collective) = (ringroad_core::algorithms::find("bfb").unwrap(), Collective::Allreduce);
        let schedule = member.build(&topology, collective).unwrap();
        let key = ScheduleKey::for_member(&topology, member, collective);
        let path = schedules.path(&key).unwrap();
        let known = KnownSchedule {
            cost: ScheduleCost::from_schedule(&schedule, &topology).unwrap(),
            digest: schedule.digest(),
        };
        let header = Header { key, known: known.clone() };
        schedules.keep(&path, &header, &schedule, Duration::from_secs(1));
        let found = || schedules.read(Some(&path), |file| kept(file, &header.key)).flatten();
        let cost = || {
            let mut routes = Routes::new(&topology);
            schedules.cost(&topology, member, collective, &mut routes, Budget::new(&|| false)).unwrap()
        };
        assert_eq!((found(), cost()), (Some(schedule.clone()), Some(known)));
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for (at, readable) in
            [(20, false), (60, false), (first / 2, false), (first, false), (first + 20, true)]
        {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            for text in [&damaged[..], &whole[..at]] {
                fs::write(&path, text).unwrap();
                assert_eq!(found(), None, "at {at}");
                assert_eq!(cost().is_some(), readable, "at {at}");
            }
            // The schedule is made again.
            assert_eq!(schedules.schedule(&topology, member, collective, 0, None).unwrap(), schedule);
        }
        // A correct schedule, but not the one of the first line.
        let other = Schedule { name: "other".to_owned(), ..schedule.clone() };
        schedules.keep(&path, &header, &other, Duration::from_secs(1));
        assert_eq!(found(), None);
        let error = schedules.schedule(&topology, member, collective, 3, Some("0")).unwrap_err().to_string();
        for part in ["rank 3", "bfb", &schedule.digest(), &path.display().to_string()] {
            assert!(error.contains(part), "{error}");
        }
        // A file that other users can write is ignored.
        fs::write(&path, &whole).unwrap();
        assert!(found().is_some());
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(found().is_none());
        // If nothing can be written, schedules are still made.
        let nowhere = Schedules::new(Some(path.join("below")));
        nowhere.keep(&path.join("below/file"), &header, &schedule, Duration::from_secs(1));
        assert_eq!(nowhere.schedule(&topology, member, collective, 0, None).unwrap(), schedule);
    }
}
