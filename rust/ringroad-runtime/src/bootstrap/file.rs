//! A store in a directory that all processes of a job can reach.
//!
//! A value is a file. It is written under another name and renamed, so that nobody reads half of it. Waiting means
//! polling. A directory serves one job: [`super::Rendezvous::exchange`] detects what an earlier job has left there.

use std::fs;
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::endpoint_info::hex;
use super::{Store, StoreError};
use crate::error::advice;
use crate::os::files;
use crate::os::random::token;

/// The prefix of the names of values.
const VALUE: &str = "key.";
/// The prefix of the names of values that are being written.
const PARTIAL: &str = "tmp.";
/// Longer names are replaced by a digest: file systems allow 255 bytes.
const LONGEST_NAME: usize = 200;
/// The most bytes of a value.
const LARGEST: u64 = 4 << 30;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A store in a directory.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    /// Distinguishes the files that this process is writing from those of others.
    writer: u64,
    written: AtomicU64,
}

impl FileStore {
    /// The store in `directory`, which is created if it does not exist, for this user only. Refuses a directory that
    /// contains anything else.
    pub fn open(directory: impl Into<PathBuf>) -> Result<FileStore, StoreError> {
        let directory = directory.into();
        let action = || format!("use {} as a directory", directory.display());
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|e| failed(action(), format!("{e}; give a directory that can be written")))?;
        let entries = fs::read_dir(&directory).map_err(|e| failed(action(), e.to_string()))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(VALUE) && !name.starts_with(PARTIAL) {
                return Err(failed(
                    action(),
                    format!(
                        "it holds {name:?}, which is not part of a store; give a new or an empty directory"
                    ),
                ));
            }
        }
        Ok(FileStore { directory, writer: token(), written: AtomicU64::new(0) })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(file_name(key))
    }
}

impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let partial = self.directory.join(format!("{PARTIAL}{:016x}.{number}", self.writer));
        let write = || {
            let mut file = fs::File::create_new(&partial)?;
            file.write_all(value)?;
            // Over a network file system others may open the file as soon as it has its name.
            file.sync_all()?;
            fs::rename(&partial, self.path(key))
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&partial);
            let advice = exhausted(&e).map_or_else(
                || format!("check that {} exists, can be written and is not full", self.directory.display()),
                str::to_owned,
            );
            failed(format!("write {key:?}"), format!("{e}; {advice}"))
        })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(key);
        match files::read(&path, LARGEST) {
            Ok(value) => Ok(Some(value)),
            // A missing key is normal, a missing directory is not.
            Err(e) if e.kind() == ErrorKind::NotFound && self.directory.is_dir() => Ok(None),
            Err(e) if e.raw_os_error().is_none() => Err(failed(
                format!("read {key:?}"),
                format!("{}: {e}; give every job a new or an empty directory", path.display()),
            )),
            Err(e) => {
                let advice = exhausted(&e).map_or_else(
                    || format!("check that {} exists and can be read", self.directory.display()),
                    str::to_owned,
                );
                Err(failed(format!("read {key:?}"), format!("{e}; {advice}")))
            }
        }
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(value) = self.get(key)? {
                return Ok(value);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Timeout { key: key.to_owned(), waited: start.elapsed() });
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// The advice for a process that has no descriptor or memory left: then the directory is not to blame.
fn exhausted(error: &Error) -> Option<&'static str> {
    advice(error).filter(|_| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)))
}

fn failed(action: String, reason: String) -> StoreError {
    StoreError::Failed { action, reason }
}

/// The file name of a key. Different keys have different names: all but plain characters are written as their code.
fn file_name(key: &str) -> String {
    let mut name = VALUE.to_owned();
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > LONGEST_NAME {
        name = format!("{VALUE}%%{}", hex(&Sha256::digest(key)));
    }
    name
}
