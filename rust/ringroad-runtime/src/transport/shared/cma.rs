//! Private memory of another process, from which the kernel copies, if it permits that (cross-memory attach, CMA).
//!
//! This takes one copy instead of two: what lies outside the sender's segment need not go through it. The kernel
//! first looks up every page, so this pays where ranks share cores, not where sender and receiver can copy at the
//! same time. Measured on two cores with messages of 2 to 32 MiB: an all-to-all takes 0.5 to 1 times as long among 4
//! ranks and 0.6 to 0.7 times among 8, a scatter 0.4 to 0.8 times. With a core for every rank it takes 1 to 3 times
//! as long from 8 MiB on, in pages of 4 KiB.
//!
//! Plans leave data in private memory only if one rank at a time copies it out and this call has not written it
//! (`Near::copies`): one copy in the caches serves many readers better. While connecting, each rank tries whether it
//! may read the others' memory, and tells them (`neighbourhood`). Memory that the kernel does not find, such as
//! memory of devices, goes through the segment.

use std::io;

use libc::{c_void, iovec};

use super::matching::LocalReceive;
use super::SharedMemory;
pub use crate::os::machine::PRIVATE;
use crate::transport::buffer::Region;
use crate::transport::{Arrived, Event, Failure, LocalMemory, Posted};

/// At most this many bytes are copied at once; then other messages have their turn.
const SLICE: usize = 1 << 20;

/// The private memory of another process.
pub(super) struct Cma {
    pid: u32,
    /// The address of the process's instance number. Process numbers are reused, instance numbers are not.
    address: u64,
    instance: u64,
}

impl Cma {
    /// The private memory of process `pid`, or why it cannot be read. `address` and `instance` are where the process
    /// keeps its instance number, and that number.
    pub fn open(pid: u32, address: u64, instance: u64) -> Result<Cma, String> {
        if cfg!(miri) {
            return Err("Miri knows no other processes".to_owned());
        }
        let cma = Cma { pid, address, instance };
        // SAFETY: the target is empty.
        let read = unsafe { cma.read(address, &Region::nothing()) };
        read.map(|()| cma).map_err(|error| error.to_string())
    }

    /// Copies the bytes at `address` to `target`, or says why that is impossible.
    ///
    /// # Safety
    /// Nobody else may be reading or writing the target. (The kernel checks the source.)
    unsafe fn read(&self, address: u64, target: &Region) -> io::Result<()> {
        const NUMBER: usize = size_of::<u64>();
        let mut done = 0;
        loop {
            let (mut found, rest) = (0_u64, target.len() - done);
            let from = [part(self.address, NUMBER), part(address + done as u64, rest)];
            // SAFETY: within the target, or at its end.
            let start = unsafe { target.as_ptr().add(done) };
            let to = [
                iovec { iov_base: (&raw mut found).cast(), iov_len: NUMBER },
                iovec { iov_base: start.cast(), iov_len: rest },
            ];
            // SAFETY: it writes to `found` and the target only; the caller guarantees that the target is ours.
            let (kind, reason) = match unsafe { copy(self.pid, from, to) } {
                Err(error) => (error.kind(), error.to_string()),
                Ok(_) if found != self.instance => (io::ErrorKind::NotFound, "it is another one".to_owned()),
                Ok(NUMBER) if rest > 0 => {
                    (io::ErrorKind::NotFound, format!("it has nothing at {:#x}", address + done as u64))
                }
                Ok(read) if read < NUMBER + rest => {
                    done += read - NUMBER;
                    continue;
                }
                Ok(_) => return Ok(()),
            };
            return Err(io::Error::new(kind, format!("process_vm_readv: {reason}")));
        }
    }
}

/// Whether the kernel finds this memory of this process. It does not find memory of devices or secret memory.
pub(super) fn is_found(start: u64, length: usize) -> bool {
    let mut bytes = [0_u8; 2];
    let byte = |byte: &mut u8| iovec { iov_base: (&raw mut *byte).cast(), iov_len: 1 };
    let from = [part(start, 1), part(start + length as u64 - 1, 1)];
    let [first, last] = &mut bytes;
    // SAFETY: it writes to `bytes` only.
    unsafe { copy(std::process::id(), from, [byte(first), byte(last)]) }.is_ok_and(|read| read == 2)
}

fn part(address: u64, bytes: usize) -> iovec {
    iovec { iov_base: address as *mut c_void, iov_len: bytes }
}

/// Makes the kernel copy from memory of a process. Returns how many bytes it has copied.
///
/// # Safety
/// Nobody else may be reading or writing the targets.
unsafe fn copy(pid: u32, from: [iovec; 2], to: [iovec; 2]) -> io::Result<usize> {
    // SAFETY: the caller guarantees that the targets may be written; the kernel checks the sources.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, to.as_ptr(), 2, from.as_ptr(), 2, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// A message that is being copied out of its sender's private memory.
pub(super) struct CmaReading {
    /// The message to release to the sender at the end.
    arrived: Option<Arrived>,
    address: u64,
    wanted: LocalReceive,
    to: Region,
    done: usize,
}

impl SharedMemory {
    /// Copies a message of `bytes` bytes from its sender's private memory. If the message is long, an event follows.
    #[cold]
    pub(super) fn read_by_cma(
        &mut self,
        arrived: Arrived,
        address: u64,
        bytes: usize,
        wanted: LocalReceive,
    ) -> Result<Posted, Failure> {
        let to = match wanted.room(bytes) {
            Ok(to) => to,
            Err(failure) => {
                self.release(arrived);
                return Err(failure);
            }
        };
        let mut reading = CmaReading { arrived: Some(arrived), address, wanted, to, done: 0 };
        let posted = self.read_slice(&mut reading)?;
        if posted == Posted::Pending {
            self.readings.push_back(reading);
        }
        Ok(posted)
    }

    /// Copies the next slice of a long message. Returns whether there is such a message.
    #[cold]
    pub(super) fn read_on(&mut self) -> bool {
        let Some(mut reading) = self.readings.pop_front() else { return false };
        match self.read_slice(&mut reading) {
            Ok(Posted::Pending) => self.readings.push_back(reading),
            posted => self.events.extend(Event::from_posted(reading.wanted.request, posted)),
        }
        true
    }

    /// Copies the next slice. The message is pending until that was the last one.
    fn read_slice(&mut self, reading: &mut CmaReading) -> Result<Posted, Failure> {
        self.ring();
        let (start, end) = (reading.done, reading.to.len().min(reading.done + SLICE));
        let peer = reading.arrived.as_ref().expect("it has not been released").peer;
        let cma = self.peers.get(peer).cma.as_ref();
        let read = cma.ok_or_else(|| io::Error::other("nobody may")).and_then(|cma| {
            // SAFETY: the poster leaves the target alone until the receive has ended.
            unsafe { cma.read(reading.address + start as u64, &reading.to.part(start..end)) }
        });
        reading.done = end;
        if read.is_ok() && end < reading.to.len() {
            return Ok(Posted::Pending);
        }
        self.release(reading.arrived.take().expect("it has not been released"));
        read.map_err(|error| {
            let refused = error.kind() == io::ErrorKind::PermissionDenied;
            let hint = if refused { "; RINGROAD_TRANSPORT=no-cma does without" } else { "" };
            Failure::Broken(format!("its memory cannot be read: {error}{hint}"))
        })?;
        let to = std::mem::replace(&mut reading.to, Region::nothing());
        reading.wanted.copied(peer, to)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn copies_what_is_there_and_only_from_who_is_meant() {
        let (pid, instance) = (std::process::id(), Box::new(0x1234_5678_9abc_u64));
        let address = (&raw const *instance).addr() as u64;
        let source: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        let place = source.as_ptr().addr() as u64;
        let target = Region::zeroed(source.len());
        // SAFETY: nobody else knows the target.
        let read = |cma: &Cma, place: u64, part: Region| unsafe { cma.read(place, &part) };

        let cma = Cma::open(pid, address, *instance).unwrap();
        read(&cma, place, target.part(0..source.len())).unwrap();
        // SAFETY: nobody writes it any more.
        assert!(unsafe { target.to_vec::<u8>() } == source);
        read(&cma, place, target.part(0..0)).unwrap();
        let nowhere = read(&cma, 4096, target.part(0..10)).unwrap_err().to_string();
        assert!(nowhere.contains("nothing at 0x1000"), "{nowhere}");

        let other = Cma::open(pid, address, *instance + 1).map(|_| ()).unwrap_err();
        assert!(other.contains("another one"), "{other}");
        assert!(Cma::open(pid, 4096, *instance).is_err());
    }
}
