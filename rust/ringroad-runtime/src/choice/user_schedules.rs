//! Schedules that the user gives as files. Rank 0 reads those among which it chooses, and sends them to all.

use std::path::{Path, PathBuf};

use ringroad_core::algorithms::{given, Member};
use ringroad_core::interchange::{self, MOST_BYTES};
use ringroad_core::Schedule;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::os::files;

/// The most files of a directory.
const MOST_FILES: usize = 1000;
/// How the names of files of schedules end: ringroad's own format, and MSCCL's.
const SUFFIXES: [&str; 2] = ["json", "xml"];

/// Reads, verifies and adds the schedule of a file. The error names the file.
pub fn read(path: &Path) -> Result<Member> {
    let refuse = |reason: String| Error::Schedule(format!("{} cannot be used: {reason}", path.display()));
    let content = files::read(path, MOST_BYTES as u64).map_err(|error| refuse(error.to_string()))?;
    let schedule = interchange::read(&content).map_err(|error| refuse(error.to_string()))?;
    given::add(&schedule).map_err(|error| refuse(error.to_string()))
}

/// Reads the schedules in a directory: all files `*.json` and `*.xml`, in the order of their names.
pub fn read_all(directory: &Path) -> Result<Vec<Member>> {
    let refuse =
        |reason: String| Error::Config(format!("RINGROAD_SCHEDULES={}: {reason}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(|error| refuse(error.to_string()))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| refuse(error.to_string()))?.path();
        if path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known)) {
            paths.push(path);
        }
        if paths.len() > MOST_FILES {
            return Err(refuse(format!("it has more than {MOST_FILES} schedules")));
        }
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// A given schedule, written whole. The rank that reads it verifies it and keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent(pub Member);

impl Serialize for Sent {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let schedule =
            given::schedule(self.0).ok_or_else(|| serde::ser::Error::custom("no given schedule"))?;
        serializer.serialize_str(&schedule.to_json())
    }
}

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Sent, D::Error> {
        let schedule = Schedule::from_json(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        given::add(&schedule).map(Sent).map_err(D::Error::custom)
    }
}
