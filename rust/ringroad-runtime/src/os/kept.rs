//! Files that are kept for later jobs, in a folder that may hold anything else.
//!
//! A file is ours if nobody but this user can write it or its folder, its name ends with the suffix of its kind, and
//! its content begins with the mark of its kind. Nothing else is read, replaced or removed, and no symbolic link is
//! followed. If there are too many files of ours, the least recently used ones are removed.

use std::fs::{self, File, Metadata};
use std::io::{BufReader, Error, ErrorKind, Result, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::files;
use super::messages::warn_once;
use super::random::token;

/// The most bytes of all files of a kind together.
const MOST_BYTES: u64 = 1 << 30;

/// A value, or why it is not used.
pub(crate) type Checked<T> = std::result::Result<T, String>;

/// What all files of a kind have in common.
#[derive(Debug)]
pub(crate) struct FileKind {
    pub suffix: &'static str,
    pub mark: &'static str,
    pub most_files: usize,
    /// What is done without a file that is not used, and what the user can do.
    pub advice: &'static str,
}

/// The files of a kind in a folder.
#[derive(Debug, Clone)]
pub(crate) struct KeptFiles {
    pub folder: PathBuf,
    pub kind: &'static FileKind,
}

impl KeptFiles {
    /// What `read` makes of a file. If there is one that is not used, a warning says why.
    pub fn recall<T>(&self, path: &Path, read: impl FnOnce(&mut BufReader<File>) -> Checked<T>) -> Option<T> {
        let found = self.own(path).transpose()?.and_then(|file| {
            // When it was last used.
            let _ = file.set_modified(SystemTime::now());
            read(&mut BufReader::new(file)).map_err(|reason| (path, reason))
        });
        let warn = |(path, reason): (&Path, _)| {
            let path = path.display().to_string();
            warn_once(&path, &format!("{path} is not used: {reason}; {}", self.kind.advice));
        };
        found.map_err(warn).ok()
    }

    /// Makes the folder, for this user only. An error if it or the file is not ours.
    pub fn prepare(&self, path: &Path) -> Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let refuse = |(path, reason): (&Path, _)| Error::other(format!("{}: {reason}", path.display()));
        self.own(path).map(drop).map_err(refuse)
    }

    /// Writes a file, in place of the former one. It gets its name when it is complete.
    pub fn keep(&self, path: &Path, content: &[&[u8]]) -> Result<()> {
        if !content[0].starts_with(self.kind.mark.as_bytes()) {
            return Err(Error::other(format!("it does not begin with {:?}", self.kind.mark)));
        }
        self.prepare(path)?;
        let partial = self.folder.join(format!(".{:016x}{}", token(), self.kind.suffix));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&partial)?;
        let written = content.iter().try_for_each(|part| file.write_all(part));
        written.and_then(|()| fs::rename(&partial, path)).inspect_err(|_| drop(fs::remove_file(&partial)))?;
        self.make_room(MOST_BYTES)
    }

    /// Removes the least recently used files.
    fn make_room(&self, most_bytes: u64) -> Result<()> {
        let about = |entry: fs::DirEntry| {
            let (path, about) = (entry.path(), entry.metadata().ok()?);
            let is_named = path.as_os_str().as_encoded_bytes().ends_with(self.kind.suffix.as_bytes());
            is_named.then_some((about.modified().ok()?, about.len(), path))
        };
        let mut files: Vec<_> = fs::read_dir(&self.folder)?.flatten().filter_map(about).collect();
        let all: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if files.len() <= self.kind.most_files && all <= most_bytes {
            return Ok(());
        }
        files.retain(|(.., path)| matches!(self.own(path), Ok(Some(_))));
        files.sort();
        let mut all = 0;
        for (younger, (_, bytes, path)) in files.iter().rev().enumerate() {
            all += bytes;
            if younger >= self.kind.most_files || all > most_bytes {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// The file, if there is one. An error says what is not ours, it or the folder, and why.
    fn own<'a>(&'a self, path: &'a Path) -> std::result::Result<Option<File>, (&'a Path, String)> {
        let folder = match self.folder.symlink_metadata() {
            Err(_) => return Ok(None),
            Ok(about) if about.is_dir() => check_owner(&self.folder, &about),
            Ok(_) => Err("it is not a directory".to_owned()),
        };
        folder.map_err(|reason| (&*self.folder, reason))?;
        let own = |file: File| {
            check_owner(path, &file.metadata().map_err(|error| error.to_string())?)?;
            let mut start = vec![0; self.kind.mark.len()];
            match file.read_exact_at(&mut start, 0) {
                Ok(()) if start == self.kind.mark.as_bytes() => Ok(Some(file)),
                _ => Err("ringroad has not written it; move it away".to_owned()),
            }
        };
        match files::open(path, files::MOST_TEXT, OFlags::NOFOLLOW) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map_err(|error| error.to_string()).and_then(own).map_err(|reason| (path, reason)),
        }
    }
}

/// Whether nobody but this user, and root, can have written a file or a directory.
fn check_owner(path: &Path, about: &Metadata) -> Checked<()> {
    if ![rustix::process::geteuid().as_raw(), 0].contains(&about.uid()) {
        return Err(format!(
            "it belongs to user {}; set RINGROAD_CACHE to a directory of your own",
            about.uid()
        ));
    }
    match about.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(format!("other users may write it; if nobody has, run: chmod go-w {}", path.display())),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};
    use std::time::Duration;

    use super::*;

    const KIND: FileKind =
        FileKind { suffix: ".test", mark: "ringroad test ", most_files: 3, advice: "it is made again" };

    /// Files of ours in a folder of a folder, which is removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            let path = std::env::temp_dir().join(format!("ringroad-kept-{:016x}", token()));
            fs::create_dir(&path).unwrap();
            Place(path)
        }

        fn kept(&self) -> KeptFiles {
            KeptFiles { folder: self.0.join("cache/tests"), kind: &KIND }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn recalled(kept: &KeptFiles, name: &str) -> Option<String> {
        kept.recall(&kept.folder.join(name), |file| {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|error| error.to_string())?;
            Ok(text)
        })
    }

    fn keep(kept: &KeptFiles, name: &str, text: &str) -> Result<()> {
        kept.keep(&kept.folder.join(name), &[KIND.mark.as_bytes(), text.as_bytes()])
    }

    /// Lets a file be from so many seconds ago.
    fn age(path: &Path, seconds: u64) {
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    fn names(folder: &Path) -> BTreeSet<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn only_our_own_files_go_and_the_oldest_first() {
        let place = Place::new();
        let kept = place.kept();
        keep(&kept, "a.test", "1").unwrap();
        let modes = [kept.folder.parent().unwrap(), &kept.folder, &kept.folder.join("a.test")]
            .map(|path| path.metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        // What a user may have there: other names, our suffix, our content under another name, and what is no file.
        let path = |name: &str| kept.folder.join(name);
        for number in 0..80 {
            let name = path(&format!("model-{number}.{}", ["pt", "test"][number % 2]));
            fs::write(&name, "precious").unwrap();
            age(&name, 1_000_000);
        }
        fs::write(path("ours.txt"), KIND.mark).unwrap();
        fs::create_dir(path("folder.test")).unwrap();
        let outside = place.0.join("outside.test");
        fs::write(&outside, format!("{}elsewhere", KIND.mark)).unwrap();
        symlink(&outside, path("link.test")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo.test"), mode).unwrap();
        fs::write(path("open.test"), KIND.mark).unwrap();
        fs::set_permissions(path("open.test"), PermissionsExt::from_mode(0o622)).unwrap();
        let before = names(&kept.folder);
        age(&path("a.test"), 100);
        for (seconds, name) in [(40, "b.test"), (30, "c.test"), (20, "d.test"), (10, "e.test")] {
            if name == "d.test" {
                // It is used, and so the others are older.
                assert_eq!(recalled(&kept, "a.test").as_deref(), Some("ringroad test 1"));
            }
            keep(&kept, name, "2").unwrap();
            age(&path(name), seconds);
        }
        let after = names(&kept.folder);
        assert!(before.is_subset(&after), "{after:?}");
        let come: Vec<&str> = after.difference(&before).map(String::as_str).collect();
        assert_eq!(come, ["d.test", "e.test"]);
        kept.make_room(40).unwrap();
        assert_eq!(["a.test", "d.test", "e.test"].map(|name| path(name).exists()), [true, false, true]);

        // None of them is read or replaced either.
        for name in ["model-1.test", "folder.test", "link.test", "fifo.test", "open.test"] {
            assert_eq!(recalled(&kept, name), None, "{name}");
            let error = keep(&kept, name, "4").unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(fs::read_to_string(outside).unwrap(), "ringroad test elsewhere");
        assert_eq!(fs::read_to_string(path("model-1.test")).unwrap(), "precious");
        assert!(before
            .iter()
            .filter(|name| *name != "a.test")
            .all(|name| path(name).symlink_metadata().is_ok()));
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let place = Place::new();
        let kept = place.kept();
        keep(&kept, "a.test", "1").unwrap();
        let file = kept.folder.join("a.test");
        let whole = || recalled(&kept, "a.test").is_some();
        assert!(whole());
        for path in [&file, &kept.folder] {
            let mode = path.metadata().unwrap().mode();
            for open in [0o020, 0o002] {
                fs::set_permissions(path, PermissionsExt::from_mode(mode | open)).unwrap();
                assert!(!whole() && keep(&kept, "a.test", "2").is_err(), "{}", path.display());
                assert!(path == &file || keep(&kept, "b.test", "2").is_err(), "a file in a folder of others");
            }
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            // Root may give files away.
            if rustix::process::geteuid().is_root() {
                chown(path, Some(12345), None).unwrap();
                assert!(!whole() && keep(&kept, "a.test", "2").is_err(), "{}", path.display());
                chown(path, Some(0), None).unwrap();
            }
            assert!(whole());
        }
        // A folder behind a link may be anybody's.
        let moved = place.0.join("moved");
        fs::rename(&kept.folder, &moved).unwrap();
        symlink(&moved, &kept.folder).unwrap();
        assert!(!whole() && keep(&kept, "b.test", "2").is_err());
        assert_eq!(names(&moved), BTreeSet::from(["a.test".to_owned()]));
    }
}
