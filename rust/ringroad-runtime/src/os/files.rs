//! Reads files that users and settings name.
//!
//! A path may lead to anything. Only regular files are read, and only up to a limit: a device may have no end, and to
//! open a FIFO would mean to wait for a writer.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The most bytes of a text that settings name: a network, a profile, or a tuner's rules.
pub const MOST_TEXT: u64 = 256 << 20;

/// Opens a regular file of at most `most` bytes.
pub(crate) fn open(path: &Path, most: u64, flags: OFlags) -> Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | flags).bits();
    let irregular = || Error::other("it is not a regular file");
    let opened = File::options().read(true).custom_flags(flags.cast_signed()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        // A socket.
        Some(libc::ENXIO) => irregular(),
        _ => error,
    })?;
    let about = file.metadata()?;
    match about.len() {
        _ if !about.is_file() => Err(irregular()),
        bytes if bytes > most => Err(too_long(most)),
        _ => Ok(file),
    }
}

fn too_long(most: u64) -> Error {
    Error::other(format!("it has more than {most} bytes"))
}

/// The content of a regular file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    // It may grow while it is read.
    open(path, most, OFlags::empty())?.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 > most {
        true => Err(too_long(most)),
        false => Ok(content),
    }
}

/// The content of a regular file of at most [`MOST_TEXT`] bytes, as text.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path, MOST_TEXT)?).map_err(|_| Error::other("it is not text in UTF-8"))
}

/// Opens /dev/null in the place of standard streams that are closed, as daemons have them. The next sockets would take
/// their numbers, and what anybody prints would go into those. Children of the program do not inherit it.
pub fn fill_standard_streams() {
    let open = || File::options().read(true).write(true).open("/dev/null");
    while let Some(file) = open().ok().filter(|file| file.as_raw_fd() <= 2) {
        std::mem::forget(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri makes no FIFOs")]
    fn only_regular_files_are_read_and_only_to_their_limit() {
        let folder = std::env::temp_dir().join(format!("ringroad-files-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let [file, fifo, zero, text] = ["file", "fifo", "zero", "text"].map(|name| folder.join(name));
        std::fs::write(&file, "ä").unwrap();
        std::fs::write(&text, b"\xff").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        let whole = [read_text(&file).unwrap(), String::from_utf8(read(&file, 2).unwrap()).unwrap()];
        let refused = [&fifo, &zero, &folder, &text].map(|path| read_text(path).unwrap_err().to_string());
        let long = read(&file, 1).unwrap_err().to_string();
        let missing = read(&folder.join("missing"), 1).unwrap_err().kind();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(whole, ["ä", "ä"]);
        let irregular = "it is not a regular file";
        assert_eq!(refused, [irregular, irregular, irregular, "it is not text in UTF-8"]);
        assert_eq!((long.as_str(), missing), ("it has more than 1 bytes", std::io::ErrorKind::NotFound));
    }
}
