//! Memory that other processes can map: a file without a name, which they find through the process that made it.
//!
//! The file is longer than any rank could need, but sparse: only used parts take memory. Address space is taken piece
//! by piece: the owner maps more of the file when it needs more, and so do its peers, only to read.
//!
//! It is sealed, so that it cannot shrink. It has space for a channel to every rank, which takes memory from its
//! first message on; until then a peer maps only the counters.

use std::alloc::Layout;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;

use crate::error::refused;
pub(super) use crate::os::machine::HUGE_PAGE;
use crate::os::machine::PAGE;

/// The length of every file in bytes, the same on all machines.
const LENGTH: usize = 1 << 40;
/// The owner and the readers first map this many bytes beyond the control part.
const FIRST: usize = 64 << 20;
/// The kernel is asked for this many bytes at a time: signals that come again and again may undo a longer request
/// each time.
const STEP: usize = 2 << 20;
/// The length never changes: memory is allocated for the parts that are used.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// One rank's memory; its beginning is mapped.
pub(crate) struct Segment {
    mapping: Mapping,
    length: usize,
    /// The offset at which the pool's part begins.
    data: usize,
    /// The file; only the owner has it.
    file: Option<File>,
}

/// A mapped part of a segment.
pub(super) struct Mapping {
    start: *mut u8,
    /// The bytes of the segment that are mapped.
    range: Range<usize>,
}

// SAFETY: a mapping belongs to the process, not to a thread; the callers decide who accesses which bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference only tells the addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The address of the byte at this offset of the segment.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset - self.range.start)
    }

    /// The bytes of the segment that are mapped.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The offset in the segment of the byte at `address`, if `bytes` bytes from there on are in this mapping.
    #[inline]
    pub fn offset_of(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start as usize)?;
        (offset + bytes <= self.range.len()).then(|| self.range.start + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if cfg!(miri) {
            // SAFETY: allocated with this layout, and nobody refers to it any more.
            return unsafe { std::alloc::dealloc(self.start, heap_layout()) };
        }
        // SAFETY: mapped in one piece, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.range.len()) };
    }
}

impl Segment {
    /// A new segment of this process. Its first `control` bytes are zero and do not belong to the pool. No part has
    /// memory yet.
    pub fn create(control: usize) -> Result<Segment, String> {
        let data = control.next_multiple_of(PAGE);
        if cfg!(miri) {
            return Ok(Segment::on_heap(data));
        }
        // SAFETY: the name is a text that ends with zero.
        let descriptor =
            unsafe { libc::memfd_create(c"ringroad".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return Err(failed("memfd_create"));
        }
        // SAFETY: new, so nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(LENGTH as u64).map_err(|error| refused("ftruncate", &error))?;
        seal(&file)?;
        let mapping = map(&file, 0..first(control), libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Segment { mapping, length: LENGTH, data, file: Some(file) })
    }

    /// Memory of the heap instead, for Miri, which knows no mappings: enough for the ranks of one process.
    fn on_heap(data: usize) -> Segment {
        // SAFETY: the layout's size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(heap_layout()) };
        let length = heap_layout().size();
        Segment { mapping: Mapping { start, range: 0..length }, length, data, file: None }
    }

    /// Maps the first bytes of another process's segment to read. An error says why that is impossible.
    pub fn open(pid: u32, descriptor: i32, bytes: usize) -> Result<Segment, String> {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(&path);
        let file = file.map_err(|error| refused(&path, &error))?;
        Segment::reader(&file, bytes).map_err(|reason| format!("{path}: {reason}"))
    }

    /// Maps the first bytes of the segment of this file to read.
    pub fn reader(file: &File, bytes: usize) -> Result<Segment, String> {
        if !is_sealed(file) {
            return Err("it could be made shorter while it is read".to_owned());
        }
        let length = file.metadata().map_err(|error| error.to_string())?.len() as usize;
        if length < LENGTH {
            return Err(format!("it has only {length} bytes"));
        }
        let mapping = map(file, 0..bytes, libc::PROT_READ)?;
        Ok(Segment { mapping, length, data: 0, file: None })
    }

    /// The same segment, mapped so far that most of what its owner sends is there: beyond the control part.
    pub fn with_pool(&self, control: usize) -> Result<Segment, String> {
        self.wider(first(control))
    }

    /// The same segment, mapped up to `end` at least, at a new address, since somebody may still be reading at the
    /// old one.
    pub fn wider(&self, end: usize) -> Result<Segment, String> {
        let (start, mapped) = (self.mapping.start.cast(), self.mapped());
        let map = |bytes: usize| {
            let reserved = reserve(bytes)?;
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: with an old size of 0 the kernel makes a second mapping, at a place that was reserved for it.
            match unsafe { libc::mremap(start, 0, bytes, flags, reserved) } {
                libc::MAP_FAILED => Err(give_up(reserved, bytes, "mremap")),
                start => Ok(Mapping { start: start.cast(), range: 0..bytes }),
            }
        };
        let least = end.next_multiple_of(HUGE_PAGE).min(self.length);
        // If possible, at least double the mapping, so that it does not have to grow for every part.
        let mapping = map(least.max(2 * mapped).min(self.length)).or_else(|_| map(least))?;
        Ok(Segment { mapping, length: self.length, data: self.data, file: None })
    }

    /// The owner's file descriptor, which other processes need to [`Segment::open`] the segment; -1 without a file.
    pub fn descriptor(&self) -> i32 {
        self.file.as_ref().map_or(-1, File::as_raw_fd)
    }

    /// The file; `None` in a reader.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The length of the file in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// How many of its first bytes are mapped.
    #[inline]
    pub fn mapped(&self) -> usize {
        self.mapping.range.end
    }

    /// The offset at which the control part ends.
    pub fn data(&self) -> usize {
        self.data
    }

    /// The first part, which is mapped from the beginning on.
    #[inline]
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.mapping.at(offset)
    }

    /// Maps another part of the segment to read and write; only the owner can do so.
    pub(super) fn map(&self, range: Range<usize>) -> Result<Mapping, String> {
        let file = self.file.as_ref().ok_or("it cannot grow")?;
        map(file, range, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes sure that a part of a mapping has memory: running out of it later would kill the process. Also populates
    /// the page tables at once, which saves two page faults for every page in the first calls, one here and one in
    /// the reader.
    pub(super) fn back(&self, mapping: &Mapping, range: Range<usize>) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let (mut start, end) = (range.start / PAGE * PAGE, range.end.next_multiple_of(PAGE));
        while start < end {
            let bytes = STEP.min(end - start);
            // SAFETY: an open file of this process.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), start as i64, bytes as i64) } {
                0 => {
                    // SAFETY: advice on a part of the mapping; failure is harmless, and usual before Linux 5.14.
                    unsafe { libc::madvise(mapping.at(start).cast(), bytes, libc::MADV_POPULATE_WRITE) };
                    start += bytes;
                }
                libc::EINTR => {}
                code => {
                    return Err(format!("no memory to share: {}", std::io::Error::from_raw_os_error(code)))
                }
            }
        }
        Ok(())
    }

    /// Gives the memory of a part back to the machine; readers of that part then find zeros. Returns whether that was
    /// possible.
    pub(super) fn unback(&self, range: Range<usize>) -> bool {
        let Some(file) = &self.file else { return false };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: an open file of this process.
        unsafe { libc::fallocate(file.as_raw_fd(), mode, range.start as i64, range.len() as i64) == 0 }
    }
}

/// How many bytes are mapped at first if the control part has `control` bytes.
fn first(control: usize) -> usize {
    (control + FIRST).next_multiple_of(HUGE_PAGE)
}

/// Seals the file, so that nobody can change its length: reading beyond the end would kill the process.
fn seal(file: &File) -> Result<(), String> {
    // SAFETY: an open file of this process.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } {
        0 => Ok(()),
        _ => Err(failed("F_ADD_SEALS")),
    }
}

/// Whether the file has been sealed.
fn is_sealed(file: &File) -> bool {
    // SAFETY: an open file of this process.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// Maps a part of a file, at an address that is aligned to a huge page if the part has as many bytes.
fn map(file: &File, range: Range<usize>, protection: i32) -> Result<Mapping, String> {
    let bytes = range.len();
    let reserved = reserve(bytes)?;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range was reserved here, and nobody else uses it.
    let start = unsafe {
        libc::mmap(reserved, bytes, protection, flags, file.as_raw_fd(), range.start as libc::off_t)
    };
    if start == libc::MAP_FAILED {
        return Err(give_up(reserved, bytes, "mmap"));
    }
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTDUMP] {
        // SAFETY: advice on a mapping that was just made; failure is harmless. Core dumps need not hold it.
        unsafe { libc::madvise(start, bytes, advice) };
    }
    Ok(Mapping { start: start.cast(), range })
}

/// Reserves `bytes` bytes of address space, aligned to a huge page; otherwise huge pages would not be used. Shorter parts
/// lie close together instead, and share page tables.
fn reserve(bytes: usize) -> Result<*mut libc::c_void, String> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let align = if bytes < HUGE_PAGE { PAGE } else { HUGE_PAGE };
    let room = bytes + align;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let reserved = unsafe { libc::mmap(null_mut(), room, libc::PROT_NONE, flags, -1, 0) };
    if reserved == libc::MAP_FAILED {
        return Err(failed(&format!("mmap of {room} bytes")));
    }
    let before = (reserved as usize).next_multiple_of(align) - reserved as usize;
    let start = reserved.wrapping_byte_add(before);
    let after = room - before - bytes;
    for (unused, length) in [(reserved, before), (start.wrapping_byte_add(bytes), after)] {
        // SAFETY: reserved above, and not needed.
        unsafe { libc::munmap(unused, length) };
    }
    Ok(start)
}

/// Frees the reserved address space after `what` has failed, and returns the reason.
fn give_up(reserved: *mut libc::c_void, bytes: usize, what: &str) -> String {
    let reason = failed(&format!("{what} of {bytes} bytes"));
    // SAFETY: reserved, and not mapped to anything else.
    unsafe { libc::munmap(reserved, bytes) };
    reason
}

fn heap_layout() -> Layout {
    Layout::from_size_align(1 << 20, PAGE).expect("it is small")
}

fn failed(what: &str) -> String {
    refused(what, &std::io::Error::last_os_error())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Opens the segment's file as other processes do.
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
        let end = segment.mapped();
        segment.back(segment.mapping(), end - 10 * PAGE..end).unwrap();
        // SAFETY: within the mapping, and nobody else knows it.
        unsafe { segment.at(end - 1).write(7) };
        let other = Segment::open(std::process::id(), segment.descriptor(), PAGE).unwrap();
        assert_eq!(other.mapped(), PAGE);
        let other = other.with_pool(PAGE).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { other.at(end - 1).read() }, 7);
    }

    #[test]
    fn more_is_mapped_by_who_writes_and_by_who_reads() {
        let segment = Segment::create(PAGE).unwrap();
        let reader = Segment::reader(segment.file().unwrap(), PAGE).unwrap();
        let start = segment.mapped() + HUGE_PAGE;
        let more = segment.map(start..start + 2 * HUGE_PAGE).unwrap();
        segment.back(&more, start..start + PAGE).unwrap();
        // SAFETY: within the mapping, and nobody else knows it.
        unsafe { more.at(start).write(7) };
        let wider = reader.wider(start + PAGE).unwrap();
        assert!(wider.mapped() >= start + PAGE && (wider.at(0) as usize).is_multiple_of(HUGE_PAGE));
        drop(reader);
        // SAFETY: as above.
        assert_eq!(unsafe { wider.at(start).read() }, 7);
        assert!(segment.unback(start..start + PAGE), "the seals permit it");
        // SAFETY: as above.
        assert_eq!(unsafe { (wider.at(start).read(), more.at(start).read()) }, (0, 0));
    }

    #[test]
    fn memory_that_could_become_shorter_or_is_too_short_is_not_read() {
        // SAFETY: the name is a text that ends with zero.
        let descriptor = unsafe { libc::memfd_create(c"open".as_ptr(), libc::MFD_ALLOW_SEALING) };
        // SAFETY: new, so nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(1 << 20).unwrap();
        let refused = || Segment::open(std::process::id(), descriptor, PAGE).map(drop).unwrap_err();
        assert!(refused().contains("made shorter"), "{}", refused());
        seal(&file).unwrap();
        assert!(refused().contains("only 1048576 bytes"), "{}", refused());
    }
}
