//! A rank's own segment, and how others find it.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::channel::{Counters, DescriptorChannel, Doorbell, SegmentGoodbye};
use super::cma::Cma;
use super::segment::Segment;
use crate::error::refused;
use crate::os::machine::{CACHE_LINE, PAGE};
use crate::transport::events::EventWait;
use crate::transport::Wait;

/// Offsets in a segment.
pub(super) const DOORBELL: usize = CACHE_LINE;
pub(super) const GOODBYE: usize = 2 * CACHE_LINE;
pub(super) const COUNTERS: usize = PAGE;

pub(super) fn channels(size: usize) -> usize {
    (COUNTERS + size * size_of::<Counters>()).next_multiple_of(PAGE)
}

/// How many bytes precede the pool's part. Only counters of neighbours are ever touched, and channels that are used.
pub(super) fn control(size: usize) -> usize {
    channels(size) + size * size_of::<DescriptorChannel>()
}

/// How to reach a rank's memory from another process of the same host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryOffer {
    /// The host's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The descriptor of the segment's file in that process.
    pub segment: i32,
    /// The descriptor of the pipe that wakes the rank, in that process.
    pub doorbell: i32,
    /// The instance number at the beginning of the segment, drawn at random.
    pub instance: u64,
    /// The address in private memory where the instance number is, too.
    pub address: u64,
}

/// This rank's segment, before the others are known.
pub struct Home {
    pub(super) rank: Rank,
    pub(super) size: usize,
    pub(super) segment: Arc<Segment>,
    /// A copy in private memory, which others read to check that they read this process.
    instance: Box<u64>,
    /// Both ends of the pipe by which others wake this rank.
    pub(super) doorbell: [File; 2],
}

impl Home {
    /// Makes the segment of rank `rank` of `size`, or says why that is impossible.
    pub fn new(rank: Rank, size: usize) -> Result<Home, String> {
        let segment = Segment::create(control(size))?;
        segment.back(segment.mapping(), 0..COUNTERS)?;
        let instance = crate::os::random::token();
        // SAFETY: the segment's first bytes, which nobody else has seen yet.
        unsafe { segment.at(0).cast::<u64>().write(instance) };
        let mut pipe = [0; 2];
        // SAFETY: creates two descriptors and writes them to the array.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(refused("pipe", &std::io::Error::last_os_error()));
        }
        // SAFETY: new, so nobody else owns them.
        let doorbell = pipe.map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
        Ok(Home { rank, size, segment: Arc::new(segment), instance: Box::new(instance), doorbell })
    }

    /// What other ranks need to reach this segment; `host` names this host.
    pub fn offer(&self, host: String) -> MemoryOffer {
        MemoryOffer {
            host,
            pid: std::process::id(),
            segment: self.segment.descriptor(),
            doorbell: self.doorbell[1].as_raw_fd(),
            instance: *self.instance,
            address: self.address(),
        }
    }

    /// The address in private memory of the instance number.
    pub(super) fn address(&self) -> u64 {
        (&raw const *self.instance).addr() as u64
    }

    /// Opens the segment of rank `rank`, or says why it cannot be read. With `cma`, also tries to read its private
    /// memory.
    pub fn open(&self, rank: Rank, offer: &MemoryOffer, cma: bool) -> Result<Neighbour, String> {
        let segment = Segment::open(offer.pid, offer.segment, channels(self.size))?;
        // SAFETY: the segment's first bytes, which its owner wrote before it made the offer.
        if unsafe { segment.at(0).cast::<u64>().read() } != offer.instance {
            return Err(format!("the memory found is not that of rank {rank}"));
        }
        let path = format!("/proc/{}/fd/{}", offer.pid, offer.doorbell);
        let mut options = OpenOptions::new();
        // Opened for reading, too: if the owner dies, a reader is left, and writing to the pipe does not raise
        // SIGPIPE.
        options.read(true).write(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK);
        let doorbell = options.open(&path).map_err(|error| refused(&path, &error))?;
        // The number comes from the store. Another rank's pipe, or a terminal, must not get the bytes.
        let kind = doorbell.metadata().map_err(|error| refused(&path, &error))?.file_type();
        if !kind.is_fifo() {
            return Err(format!("{path} is not a pipe: the memory found is not that of rank {rank}"));
        }
        let open = || Cma::open(offer.pid, offer.address, offer.instance);
        let cma = if cma { open() } else { Err("RINGROAD_TRANSPORT=no-cma".to_owned()) };
        Ok(Neighbour { rank, segment: Arc::new(segment), doorbell, cma })
    }

    /// This segment, for another rank of this process.
    pub fn beside(&self) -> Result<Neighbour, String> {
        let doorbell = self.doorbell[1].try_clone().map_err(|error| refused("dup", &error))?;
        let cma = Err("it is not tried within a process".to_owned());
        let segment = match self.segment.file() {
            Some(file) => Arc::new(Segment::reader(file, channels(self.size))?),
            None => self.segment.clone(),
        };
        Ok(Neighbour { rank: self.rank, segment, doorbell, cma })
    }

    /// Allocates the memory of the counters for a neighbour, before they are used.
    pub fn prepare_for(&self, peer: Rank) -> Result<(), String> {
        self.back(COUNTERS + peer * size_of::<Counters>(), size_of::<Counters>())
    }

    /// Allocates the memory of the channel to a neighbour, before its first descriptor.
    pub(super) fn open_channel_to(&self, peer: Rank) -> Result<(), String> {
        self.back(
            channels(self.size) + peer * size_of::<DescriptorChannel>(),
            size_of::<DescriptorChannel>(),
        )?;
        self.counters_for(peer).open();
        Ok(())
    }

    fn back(&self, offset: usize, bytes: usize) -> Result<(), String> {
        self.segment.back(self.segment.mapping(), offset..offset + bytes)
    }

    /// Makes what blocks until others ring the doorbell, for a rank that waits for nothing else.
    pub fn waiter(&self) -> Result<Arc<dyn Wait>, String> {
        Ok(Arc::new(EventWait::new(vec![self.doorbell()?])?))
    }

    /// A descriptor that is readable when others have rung, for a rank that waits for other things, too.
    pub fn doorbell(&self) -> Result<OwnedFd, String> {
        self.doorbell[0].try_clone().map(OwnedFd::from).map_err(|error| refused("dup", &error))
    }

    pub(super) fn own_doorbell(&self) -> &Doorbell {
        // SAFETY: within the segment; zeros are the doorbell of a rank that is awake, and the doorbell is shared from then
        // on.
        unsafe { &*self.segment.at(DOORBELL).cast() }
    }

    pub(super) fn own_goodbye(&self) -> &SegmentGoodbye {
        // SAFETY: as above; zeros are the goodbye of a rank that has not ended.
        unsafe { &*self.segment.at(GOODBYE).cast() }
    }

    pub(super) fn channel_to(&self, peer: Rank) -> &DescriptorChannel {
        // SAFETY: as above; zeros are empty slots.
        unsafe { &*self.segment.at(channels(self.size) + peer * size_of::<DescriptorChannel>()).cast() }
    }

    pub(super) fn counters_for(&self, peer: Rank) -> &Counters {
        // SAFETY: as above.
        unsafe { &*self.segment.at(COUNTERS + peer * size_of::<Counters>()).cast() }
    }
}

/// The segment of another rank, before it is known whether that rank can read this one's.
pub struct Neighbour {
    pub(super) rank: Rank,
    pub(super) segment: Arc<Segment>,
    pub(super) doorbell: File,
    pub(super) cma: Result<Cma, String>,
}

impl Neighbour {
    /// The rank that owns the segment.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Why the rank's private memory cannot be read; `None` if it can.
    pub fn obstacle(&self) -> Option<&str> {
        self.cma.as_ref().err().map(String::as_str)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// What an endpoint names as a rank's pipe may be anything that the process has open.
    #[test]
    fn only_pipes_are_doorbells() {
        let home = Home::new(0, 2).unwrap();
        let offer = home.offer("here".to_owned());
        assert!(home.open(0, &offer, false).is_ok());
        let file = File::open("/dev/null").unwrap();
        let error = home.open(0, &MemoryOffer { doorbell: file.as_raw_fd(), ..offer }, false).err();
        assert!(error.as_ref().is_some_and(|error| error.contains("is not a pipe")), "{error:?}");
    }

    /// How much memory a rank of a large job takes depends on how many neighbours it has.
    #[test]
    fn only_neighbours_take_memory() {
        let home = Home::new(17, 16_000).unwrap();
        let blocks = || home.segment.file().unwrap().metadata().unwrap().blocks() * 512;
        let alone = blocks();
        assert!(alone <= 4 << 10, "{alone} bytes");
        (0..16_000).step_by(1000).for_each(|peer| home.prepare_for(peer).unwrap());
        let spread = blocks() - alone;
        assert!(spread <= 16 * 4096, "{spread} bytes of counters for 16 neighbours");
        for (peer, last) in [(0, 0), (15_000, 63)] {
            home.open_channel_to(peer).unwrap();
            let opened = blocks();
            home.channel_to(peer).put(last, &super::super::channel::Descriptor::default());
            home.counters_for(peer).free_slots(1);
            assert_eq!(blocks(), opened);
        }
        let channels = blocks() - alone - spread;
        assert!((2 * 4096..=4 * 4096).contains(&channels), "{channels} bytes for 2 channels");
    }
}
