//! Which UCX to open where there are two: the system's and a wheel's.
//!
//! A process can open only one, and what is open once stays. So their versions are read from their files first.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::environment::RDMA;
use crate::load::{Origin, SONAME};

pub(crate) type UcxVersion = (u32, u32, u32);

/// The part of a library's file in which its texts are; what follows is for debuggers.
const TEXTS: u64 = 4 << 20;
/// A file larger than this is no cache of the loader.
const CACHE: u64 = 64 << 20;
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// What the choice depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundLibraries {
    /// Whether a directory of `LD_LIBRARY_PATH` has a libucp: the user has chosen.
    pub by_path: bool,
    /// Whether the host has RDMA devices, which a wheel's UCX cannot use.
    pub rdma: bool,
    pub system: Option<UcxVersion>,
    pub wheel: Option<UcxVersion>,
}

impl FoundLibraries {
    /// Looks for what there is, and opens nothing.
    pub fn detect(wheel: &Path) -> FoundLibraries {
        let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let named = |folder: PathBuf| !folder.as_os_str().is_empty() && folder.join(SONAME).exists();
        let devices = std::fs::read_dir(RDMA);
        FoundLibraries {
            by_path: std::env::split_paths(&search).any(named),
            rdma: devices.is_ok_and(|mut devices| devices.next().is_some()),
            system: system().as_deref().and_then(version_in),
            wheel: version_in(wheel),
        }
    }

    /// Which one to try first, and why.
    pub fn prefer(&self) -> (Origin, String) {
        let text = |(major, minor, release): UcxVersion| format!("{major}.{minor}.{release}");
        match (self.system, self.wheel) {
            _ if self.by_path => (Origin::System, "LD_LIBRARY_PATH names it".to_owned()),
            (Some(_), _) if self.rdma => {
                (Origin::System, "this host has RDMA devices, which a wheel's UCX cannot use".to_owned())
            }
            (Some(system), Some(wheel)) if wheel > system => {
                (Origin::Wheel, format!("it is newer than the system's {}", text(system)))
            }
            (Some(_), Some(wheel)) => {
                (Origin::System, format!("it is at least as new as the wheel's {}", text(wheel)))
            }
            _ => (Origin::System, "it is looked for first".to_owned()),
        }
    }
}

/// The file that the loader finds by the soname, by its cache.
fn system() -> Option<PathBuf> {
    let mut bytes = Vec::new();
    File::open("/etc/ld.so.cache").ok()?.take(CACHE).read_to_end(&mut bytes).ok()?;
    let found = cached(&bytes, SONAME).map(PathBuf::from).find(|path| path.exists());
    found
}

/// The paths of a library in the loader's cache, whose format is that of `struct cache_file_new` in glibc.
fn cached<'a>(bytes: &'a [u8], soname: &'a str) -> impl Iterator<Item = &'a str> {
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC);
    let cache = start.map_or(&[][..], |start| &bytes[start..]);
    let number = |at: usize| {
        let bytes = cache.get(at..at + 4)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes) as usize)
    };
    let text = move |at: usize| {
        let rest = cache.get(at..)?;
        std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
    };
    let count = number(MAGIC.len()).unwrap_or(0).min(cache.len() / ENTRY);
    (0..count).filter_map(move |index| {
        let entry = HEADER + index * ENTRY;
        (text(number(entry + 4)?)? == soname).then(|| text(number(entry + 8)?)).flatten()
    })
}

/// The version that a library's file names: the only text there of the form `1.22.0`.
fn version_in(library: &Path) -> Option<UcxVersion> {
    let mut bytes = Vec::new();
    File::open(library).ok()?.take(TEXTS).read_to_end(&mut bytes).ok()?;
    let mut versions: Vec<UcxVersion> = bytes.split(|byte| *byte == 0).filter_map(version_at_end).collect();
    versions.sort_unstable();
    versions.dedup();
    match versions[..] {
        [version] => Some(version),
        _ => None,
    }
}

/// The version with which these bytes end. Other bytes may precede it, but for `_`, with which versions of symbols
/// begin.
fn version_at_end(bytes: &[u8]) -> Option<UcxVersion> {
    let length = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (before, text) = bytes.split_at(bytes.len() - length);
    let text = std::str::from_utf8(text).ok().filter(|_| before.last() != Some(&b'_'))?;
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let version = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_one_unless_there_is_a_reason() {
        let (old, new) = (Some((1, 13, 1)), Some((1, 22, 0)));
        let check = |found: FoundLibraries, origin, reason: &str| {
            let (preferred, text) = found.prefer();
            assert_eq!(preferred, origin, "{found:?}");
            assert!(text.contains(reason), "{found:?}: {text}");
        };
        let both = |system, wheel| FoundLibraries { system, wheel, ..FoundLibraries::default() };
        check(both(old, new), Origin::Wheel, "newer than the system's 1.13.1");
        check(both(new, old), Origin::System, "as new as the wheel's 1.13.1");
        check(both(new, new), Origin::System, "as new as the wheel's 1.22.0");
        check(FoundLibraries { by_path: true, ..both(old, new) }, Origin::System, "LD_LIBRARY_PATH");
        check(FoundLibraries { rdma: true, ..both(old, new) }, Origin::System, "RDMA");
        // A file that names no version, and a wheel alone: the system's is tried, then the wheel's.
        check(both(old, None), Origin::System, "first");
        check(both(None, new), Origin::System, "first");
    }

    #[test]
    fn versions_are_found_in_bytes() {
        let cases: [(&[u8], Option<UcxVersion>); 7] = [
            (b"A1.13.1", Some((1, 13, 1))),
            (b"1.22.0", Some((1, 22, 0))),
            (b"GLIBC_2.2.5", None),
            (b"1.22", None),
            (b"10.0.0.1", None),
            (b"1.22.0-rc1", None),
            (b"", None),
        ];
        for (bytes, version) in cases {
            assert_eq!(version_at_end(bytes), version, "{bytes:?}");
        }
    }

    #[test]
    fn the_loaders_cache_is_read() {
        let mut cache = [MAGIC, &2u32.to_ne_bytes()].concat();
        cache.resize(HEADER + 2 * ENTRY, 0);
        let strings = b"libucp.so.0\0/lib/libucp.so.0\0libc.so.6\0/lib/libc.so.6\0";
        let base = cache.len() as u32;
        for (index, (key, value)) in [(29, 39), (0, 12)].into_iter().enumerate() {
            for (field, at) in [(4, key), (8, value)] {
                let at: u32 = base + at;
                let place = HEADER + index * ENTRY + field;
                cache[place..place + 4].copy_from_slice(&at.to_ne_bytes());
            }
        }
        cache.extend(strings);
        let found = |bytes: &[u8], name| cached(bytes, name).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(found(&cache, SONAME), ["/lib/libucp.so.0"]);
        assert_eq!(found(&[b"ld.so-1.7.0".as_slice(), &cache].concat(), "libc.so.6"), ["/lib/libc.so.6"]);
        for end in 0..cache.len() - 1 {
            assert!(found(&cache[..end], SONAME).len() <= 1, "cut off at {end}");
        }
    }
}
