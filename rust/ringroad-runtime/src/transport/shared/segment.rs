//! Memory that other processes can map: a file without a name, found through the process that made it.
//!
//! It is as large as it could ever need to be, but sparse: only what is used takes memory, and nobody has to map
//! anything anew when it grows. Peers map it to read only.

use std::alloc::Layout;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;

use parking_lot::Mutex;

/// The most address space that a segment takes.
const LARGEST: usize = 64 << 30;
/// It grows by at least so much at a time.
const GROWTH: usize = 1 << 20;
/// The kernel is asked for so much at once: signals that come again and again may undo a longer request each time.
const STEP: usize = 2 << 20;
const PAGE: usize = 4096;
/// The length is as it is from the beginning on: memory comes to what is used of it.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
const HUGE_PAGE: usize = 2 << 20;

/// A mapping of one rank's memory.
pub(crate) struct Segment {
    start: *mut u8,
    bytes: usize,
    /// Where the part begins that the pool hands out.
    data: usize,
    /// The owner's file, and how many bytes of it have memory.
    file: Option<(File, Mutex<usize>)>,
}

// SAFETY: a mapping belongs to the process, not to a thread; who accesses which bytes is decided elsewhere.
unsafe impl Send for Segment {}
// SAFETY: as above; a shared reference only tells where it is.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory of this process, of which the first `control` bytes are zero and not the pool's.
    pub fn create(control: usize) -> Result<Segment, String> {
        if cfg!(miri) {
            return Ok(Segment::on_heap(control));
        }
        // SAFETY: the name is a text that ends with zero.
        let descriptor =
            unsafe { libc::memfd_create(c"ringroad".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return Err(failed("memfd_create"));
        }
        // SAFETY: new, so nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let bytes = (2 * memory()).clamp(1 << 30, LARGEST);
        file.set_len(bytes as u64).map_err(|error| refused("ftruncate", &error))?;
        seal(&file)?;
        let start = map(&file, bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: advice on a mapping that was just made; failure is harmless.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        let data = control.next_multiple_of(PAGE);
        let segment = Segment { start, bytes, data, file: Some((file, Mutex::new(0))) };
        segment.back(data)?;
        Ok(segment)
    }

    /// For Miri, which knows no mappings: enough for the ranks of one process.
    fn on_heap(control: usize) -> Segment {
        // SAFETY: the layout's size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(heap_layout()) };
        let data = control.next_multiple_of(PAGE);
        Segment { start, bytes: heap_layout().size(), data, file: None }
    }

    /// The memory of another process, to read.
    pub fn open(pid: u32, descriptor: i32) -> Result<Segment, String> {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(&path);
        let file = file.map_err(|error| refused(&path, &error))?;
        if !is_sealed(&file) {
            return Err(format!("{path}: it could be made shorter while it is read"));
        }
        let bytes = file.metadata().map_err(|error| format!("{path}: {error}"))?.len() as usize;
        let start = map(&file, bytes, libc::PROT_READ)?;
        // SAFETY: as in `create`.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Segment { start, bytes, data: 0, file: None })
    }

    /// What others need to [`Segment::open`] it.
    pub fn descriptor(&self) -> i32 {
        self.file.as_ref().map_or(-1, |(file, _)| file.as_raw_fd())
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where the control part ends.
    pub fn data(&self) -> usize {
        self.data
    }

    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }

    /// Makes sure that everything before `end` has memory: to run out of it later would kill the process. It is mapped at
    /// once, too, which else costs two interruptions for every page of the first calls, one here and one where it is read.
    pub fn back(&self, end: usize) -> Result<(), String> {
        let Some((file, backed)) = &self.file else { return Ok(()) };
        let mut backed = backed.lock();
        if end <= *backed {
            return Ok(());
        }
        let grown = end.max(*backed + GROWTH).next_multiple_of(PAGE).min(self.bytes);
        while *backed < grown {
            let bytes = STEP.min(grown - *backed);
            // SAFETY: an open file of this process.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), *backed as i64, bytes as i64) } {
                0 => {
                    // SAFETY: advice on a part of the mapping; failure is harmless, and usual before Linux 5.14.
                    unsafe { libc::madvise(self.at(*backed).cast(), bytes, libc::MADV_POPULATE_WRITE) };
                    *backed += bytes;
                }
                libc::EINTR => {}
                code => {
                    return Err(format!("no memory to share: {}", std::io::Error::from_raw_os_error(code)))
                }
            }
        }
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if cfg!(miri) {
            // SAFETY: allocated with this layout, and nobody refers to it any more.
            return unsafe { std::alloc::dealloc(self.start, heap_layout()) };
        }
        // SAFETY: mapped in one piece, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// From now on nobody can change the file's length: to read beyond the end would kill the process.
fn seal(file: &File) -> Result<(), String> {
    // SAFETY: an open file of this process.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } {
        0 => Ok(()),
        _ => Err(failed("F_ADD_SEALS")),
    }
}

/// Whether that has been done.
fn is_sealed(file: &File) -> bool {
    // SAFETY: an open file of this process.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// Maps a file from the beginning of a huge page on, else it could have none.
fn map(file: &File, bytes: usize, protection: i32) -> Result<*mut u8, String> {
    let failed = || failed(&format!("mmap of {} GiB", bytes >> 30));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let room = bytes + HUGE_PAGE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let reserved = unsafe { libc::mmap(null_mut(), room, libc::PROT_NONE, flags, -1, 0) };
    if reserved == libc::MAP_FAILED {
        return Err(failed());
    }
    let before = (reserved as usize).next_multiple_of(HUGE_PAGE) - reserved as usize;
    let start = reserved.wrapping_byte_add(before);
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: within what was reserved, which nobody else uses.
    let mapped = unsafe { libc::mmap(start, bytes, protection, flags, file.as_raw_fd(), 0) };
    let after = room - before - bytes;
    for (unused, length) in [(reserved, before), (start.wrapping_byte_add(bytes), after)] {
        // SAFETY: reserved, and not mapped to the file.
        unsafe { libc::munmap(unused, length) };
    }
    if mapped == libc::MAP_FAILED {
        // SAFETY: as above.
        unsafe { libc::munmap(start, bytes) };
        return Err(failed());
    }
    // SAFETY: advice: a core dump need not hold it.
    unsafe { libc::madvise(start, bytes, libc::MADV_DONTDUMP) };
    Ok(start.cast())
}

fn heap_layout() -> Layout {
    Layout::from_size_align(1 << 20, PAGE).expect("it is small")
}

/// Bytes of memory of this machine.
fn memory() -> usize {
    // SAFETY: asks the system, touches nothing.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0) * usize::try_from(page).unwrap_or(0)
}

fn failed(what: &str) -> String {
    refused(what, &std::io::Error::last_os_error())
}

/// What the system did not do, why, and what to raise or permit, if that is known.
pub(super) fn refused(what: &str, error: &std::io::Error) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n)",
        Some(libc::ENFILE) => "; raise the system's limit of open files (sysctl fs.file-max)",
        Some(libc::ENOMEM) => "; raise the limit of address space (ulimit -v), or free memory",
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => "; have the system or its sandbox permit that",
        _ => "",
    };
    format!("{what}: {error}{advice}")
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A descriptor of the segment's file, found as other processes find it.
    fn found(segment: &Segment) -> File {
        let path = format!("/proc/self/fd/{}", segment.descriptor());
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn nobody_can_change_the_length_and_more_of_it_can_be_used() {
        let segment = Segment::create(PAGE).unwrap();
        let file = found(&segment);
        for bytes in [0, PAGE, segment.len() - PAGE, segment.len() + PAGE] {
            assert!(file.set_len(bytes as u64).is_err(), "{bytes} bytes");
        }
        let end = 8 * GROWTH;
        segment.back(end).unwrap();
        // SAFETY: within the mapping, and nobody else knows it.
        unsafe { segment.at(end - 1).write(7) };
        let other = Segment::open(std::process::id(), segment.descriptor()).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { other.at(end - 1).read() }, 7);
    }

    #[test]
    fn memory_that_could_become_shorter_is_not_read() {
        // SAFETY: the name is a text that ends with zero.
        let descriptor = unsafe { libc::memfd_create(c"open".as_ptr(), libc::MFD_ALLOW_SEALING) };
        // SAFETY: new, so nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(1 << 20).unwrap();
        let refused = Segment::open(std::process::id(), descriptor).map(drop).unwrap_err();
        assert!(refused.contains("made shorter"), "{refused}");
    }
}
