//! Schedules that were made for a graph, kept in files: making them may take seconds, and jobs are started again.
//!
//! A file is found by the digest of the network, the collective, the algorithm and the version of ringroad. It holds
//! the cost of the schedule and its digest, and the schedule itself if reading is faster than making. Nothing is
//! trusted: a schedule that is read is verified and its digest compared. A file that is damaged or belongs to another
//! user is ignored with a warning. If files cannot be written, nothing is kept. If there are too many, the least
//! recently used ones are deleted.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ringroad_core::algorithms::{Member, Unavailable};
use ringroad_core::cost::ScheduleCost;
use ringroad_core::synthesis::Budget;
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Rank, Schedule, Topology};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::os::files;
use crate::os::machine::READ_PER_SECOND;
use crate::os::messages::warn_once;

/// The version of the files.
const FORMAT: u32 = 1;
/// Schedules that are made faster than this are not kept at all: reading a file takes about a millisecond.
const WORTH_KEEPING: Duration = Duration::from_millis(20);
/// The largest file that is read or written, and the most bytes of all files together.
const MOST_BYTES: u64 = 256 << 20;
const MOST_BYTES_IN_ALL: u64 = 1 << 30;
/// The most bytes of the first line of a file, and the digits of its checksum.
const MOST_HEADER_BYTES: u64 = 16 << 20;
const SUM: usize = 32;
const SUFFIX: &str = ".schedule";

/// What is known about a schedule that was made for a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// What it costs on that graph.
    pub cost: ScheduleCost,
    pub digest: String,
}

/// What identifies a file's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Key {
    format: u32,
    ringroad: String,
    topology: String,
    collective: Collective,
    algorithm: Member,
}

/// The first line of a file, after its checksum. The second line is the schedule, or empty.
#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub key: Key,
    pub known: Known,
}

/// The directory in which schedules are kept, if they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedules {
    folder: Option<PathBuf>,
}

impl Schedules {
    pub fn new(folder: Option<PathBuf>) -> Schedules {
        Schedules { folder }
    }

    fn path(&self, key: &Key) -> Option<PathBuf> {
        let root = key.collective.root().map_or(String::new(), |root| format!("-{root}"));
        let Key { ringroad, topology, collective, algorithm, .. } = key;
        let name = format!("{topology}-{}{root}-{algorithm}-{ringroad}", collective.name());
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        Some(self.folder.as_ref()?.join(name + SUFFIX))
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
    ) -> Result<Option<Known>> {
        let key = Key::of(topology, member, collective);
        let path = self.path(&key);
        if let Some(known) = path.as_ref().and_then(|path| read(path, |file| header(file, &key))) {
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
        let known = Known { cost: ScheduleCost::with_routes(&schedule, routes)?, digest: schedule.digest() };
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
        let key = Key::of(ground.topology, member, ground.collective);
        let path = self.path(&key);
        let found = path.as_ref().and_then(|path| read(path, |file| kept(file, &key)));
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

    /// Writes a file, if possible. The file gets its final name only when it is complete.
    fn keep(&self, path: &Path, header: &Header, schedule: &Schedule, taken: Duration) {
        let Some(folder) = &self.folder else { return };
        let body = schedule.to_json();
        let worth_it = body.len() as f64 / READ_PER_SECOND < taken.as_secs_f64();
        let body = if worth_it && body.len() as u64 <= MOST_BYTES / 2 { &*body } else { "" };
        let header = serde_json::to_string(header).expect("a header holds only finite numbers and text");
        let partial = folder.join(format!(".{:016x}", token()));
        let write = || -> std::io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let mut file = File::options().write(true).create_new(true).open(&partial)?;
            writeln!(file, "{}{header}", checksum(&header))?;
            file.write_all(body.as_bytes())?;
            drop(file);
            fs::rename(&partial, path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&partial);
            return;
        }
        make_room(folder, MOST_BYTES_IN_ALL);
    }
}

impl Key {
    pub fn of(topology: &Topology, member: Member, collective: Collective) -> Key {
        let (topology, algorithm) = (topology.digest(), member);
        let ringroad = env!("CARGO_PKG_VERSION").to_owned();
        Key { format: FORMAT, ringroad, topology, collective, algorithm }
    }
}

fn is_expected(schedule: &Schedule, expected: Option<&str>) -> bool {
    expected.is_none_or(|expected| schedule.digest() == expected)
}

/// A number that no other thread or process has.
fn token() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

pub(crate) fn checksum(header: &str) -> String {
    Sha256::digest(header)[..SUM / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file, if it exists and nothing is wrong with it. Updates its time of modification, which shows when it was
/// last used.
fn read<T>(path: &Path, read: impl FnOnce(&mut BufReader<File>) -> Checked<T>) -> Option<T> {
    let checked = |file: File| -> Checked<T> {
        let about = file.metadata().map_err(|error| error.to_string())?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            return Err("another user may have written it".to_owned());
        }
        let _ = file.set_modified(SystemTime::now());
        read(&mut BufReader::new(file))
    };
    let checked = match files::open(path, MOST_BYTES) {
        Err(error) if error.raw_os_error().is_some() => return None,
        opened => opened.map_err(|error| error.to_string()).and_then(checked),
    };
    checked
        .map_err(|reason| {
            let file = path.display();
            let text = format!(
                "{file} is not used, and its schedule made again: {reason}; RINGROAD_CACHE=none keeps none"
            );
            warn_once(&file.to_string(), &text);
        })
        .ok()
}

pub(crate) type Checked<T> = std::result::Result<T, String>;

/// The content of the first line, if it has this key.
fn header(file: &mut impl BufRead, wanted: &Key) -> Checked<Known> {
    let mut line = String::new();
    file.by_ref().take(MOST_HEADER_BYTES).read_line(&mut line).map_err(|error| error.to_string())?;
    let parts = line.strip_suffix('\n').and_then(|line| line.split_at_checked(SUM));
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
pub(crate) fn kept(file: &mut impl BufRead, wanted: &Key) -> Checked<Option<Schedule>> {
    let Known { digest, .. } = header(file, wanted)?;
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

/// Deletes the least recently used files, until all together have at most `most` bytes.
fn make_room(folder: &Path, most: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let about = |entry: fs::DirEntry| {
        let path = entry.path();
        let about = entry.metadata().ok().filter(|_| path.to_string_lossy().ends_with(SUFFIX))?;
        Some((about.modified().ok()?, about.len(), path))
    };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries.flatten().filter_map(about).collect();
    files.sort();
    let mut all: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if all <= most {
            return;
        }
        let _ = fs::remove_file(path);
        all -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            let path = std::env::temp_dir().join(format!("ringroad-schedules-{:x}", token()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not set the times of files")]
    fn those_not_used_for_long_go_first() {
        let folder = Folder::new();
        for (age, name) in [(30, "a"), (10, "b"), (20, "c"), (40, "other")] {
            let suffix = if name == "other" { "" } else { SUFFIX };
            let path = folder.0.join(format!("{name}{suffix}"));
            fs::write(&path, [0; 100]).unwrap();
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        make_room(&folder.0, 250);
        let has = |name: &str| folder.0.join(name).exists();
        assert_eq!(["a.schedule", "b.schedule", "c.schedule", "other"].map(has), [false, true, true, true]);
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
        let key = Key::of(&topology, member, collective);
        let path = schedules.path(&key).unwrap();
        let known =
            Known { cost: ScheduleCost::of(&schedule, &topology).unwrap(), digest: schedule.digest() };
        let header = Header { key, known: known.clone() };
        schedules.keep(&path, &header, &schedule, Duration::from_secs(1));
        let found = || read(&path, |file| kept(file, &header.key)).flatten();
        let cost = || {
            let mut routes = Routes::new(&topology);
            schedules.cost(&topology, member, collective, &mut routes, Budget::new(&|| false)).unwrap()
        };
        assert_eq!((found(), cost()), (Some(schedule.clone()), Some(known)));
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for (at, readable) in
            [(0, false), (40, false), (first / 2, false), (first, false), (first + 20, true)]
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
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&path, mode(0o666)).unwrap();
        assert!(found().is_none());
        // If nothing can be written, schedules are still made.
        let nowhere = Schedules::new(Some(path.join("below")));
        nowhere.keep(&path.join("below/file"), &header, &schedule, Duration::from_secs(1));
        assert_eq!(nowhere.schedule(&topology, member, collective, 0, None).unwrap(), schedule);
    }
}
