//! A rank's own memory, and how others find it.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::lane::{Bell, Counters, Farewell, Lane};
use super::private::Private;
use super::segment::Segment;
use crate::error::refused;
use crate::machine::{CACHE_LINE, PAGE};
use crate::transport::events::EventWait;
use crate::transport::Wait;

/// Where things are in a segment.
pub(super) const BELL: usize = CACHE_LINE;
pub(super) const FAREWELL: usize = 2 * CACHE_LINE;
pub(super) const COUNTERS: usize = PAGE;

pub(super) fn lanes(size: usize) -> usize {
    (COUNTERS + size * size_of::<Counters>()).next_multiple_of(PAGE)
}

/// How long the part before the pool's is. Of the lanes and counters only neighbours' are ever touched.
fn control(size: usize) -> usize {
    lanes(size) + size * size_of::<Lane>()
}

/// How to reach a rank's memory from another process of the same host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// Names the host.
    pub host: String,
    /// The process, and its descriptors of the segment and of the pipe that wakes it.
    pub pid: u32,
    /// The file of the segment.
    pub segment: i32,
    /// The pipe that wakes it.
    pub bell: i32,
    /// What is at the beginning of the segment: drawn at random.
    pub instance: u64,
    /// Where it is in private memory, too.
    pub address: u64,
}

/// This rank's memory, before the others are known.
pub struct Home {
    pub(super) rank: Rank,
    pub(super) size: usize,
    pub(super) segment: Arc<Segment>,
    /// In a place of its own, where others look for it.
    instance: Box<u64>,
    /// Both ends of the pipe that others wake this rank by.
    pub(super) bell: [File; 2],
}

impl Home {
    /// New memory for rank `rank` of `size`, or why there is none.
    pub fn new(rank: Rank, size: usize) -> Result<Home, String> {
        let segment = Segment::create(control(size))?;
        segment.back(segment.mapping(), 0..COUNTERS)?;
        let instance = crate::random::token();
        // SAFETY: the segment's first bytes, which nobody has seen yet.
        unsafe { segment.at(0).cast::<u64>().write(instance) };
        let mut pipe = [0; 2];
        // SAFETY: creates two descriptors and writes them to the array.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(refused("pipe", &std::io::Error::last_os_error()));
        }
        // SAFETY: new, so nobody else owns them.
        let bell = pipe.map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
        Ok(Home { rank, size, segment: Arc::new(segment), instance: Box::new(instance), bell })
    }

    /// For the other ranks.
    pub fn offer(&self, host: String) -> Offer {
        Offer {
            host,
            pid: std::process::id(),
            segment: self.segment.descriptor(),
            bell: self.bell[1].as_raw_fd(),
            instance: *self.instance,
            address: self.address(),
        }
    }

    /// Where the instance number is in private memory.
    pub(super) fn address(&self) -> u64 {
        (&raw const *self.instance).addr() as u64
    }

    /// The memory of rank `rank`, or why it cannot be read; with `cma` also what is private, if possible.
    pub fn open(&self, rank: Rank, offer: &Offer, cma: bool) -> Result<Neighbour, String> {
        let segment = Segment::open(offer.pid, offer.segment, control(self.size))?;
        // SAFETY: the segment's first bytes, which its owner wrote before it made the offer.
        if unsafe { segment.at(0).cast::<u64>().read() } != offer.instance {
            return Err(format!("the memory found is not that of rank {rank}"));
        }
        let path = format!("/proc/{}/fd/{}", offer.pid, offer.bell);
        let mut options = OpenOptions::new();
        // To read as well, so that a reader is left when the owner dies: without any, to ring would be a SIGPIPE.
        options.read(true).write(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK);
        let bell = options.open(&path).map_err(|error| refused(&path, &error))?;
        let open = || Private::open(offer.pid, offer.address, offer.instance);
        let private = if cma { open() } else { Err("RINGROAD_CMA=off".to_owned()) };
        Ok(Neighbour { rank, segment: Arc::new(segment), bell, private })
    }

    /// The memory of another rank of this process.
    pub fn beside(&self) -> Result<Neighbour, String> {
        let bell = self.bell[1].try_clone().map_err(|error| refused("dup", &error))?;
        let private = Err("it is not tried within a process".to_owned());
        let segment = match self.segment.file() {
            Some(file) => Arc::new(Segment::reader(file, control(self.size))?),
            None => self.segment.clone(),
        };
        Ok(Neighbour { rank: self.rank, segment, bell, private })
    }

    /// Makes room for what goes to and fro between this rank and a neighbour, before anything does.
    pub fn prepare_for(&self, peer: Rank) -> Result<(), String> {
        let back =
            |offset: usize, bytes: usize| self.segment.back(self.segment.mapping(), offset..offset + bytes);
        back(COUNTERS + peer * size_of::<Counters>(), size_of::<Counters>())?;
        back(lanes(self.size) + peer * size_of::<Lane>(), size_of::<Lane>())
    }

    /// What blocks until others ring, where they are all that there is to wait for.
    pub fn waiter(&self) -> Result<Arc<dyn Wait>, String> {
        Ok(Arc::new(EventWait::new(vec![self.bell()?])?))
    }

    /// What can be read when others have rung, for a waiter of more than them.
    pub fn bell(&self) -> Result<OwnedFd, String> {
        self.bell[0].try_clone().map(OwnedFd::from).map_err(|error| refused("dup", &error))
    }

    pub(super) fn own_bell(&self) -> &Bell {
        // SAFETY: within the segment; zero at first, which is a bell of somebody awake, and shared from then on.
        unsafe { &*self.segment.at(BELL).cast() }
    }

    pub(super) fn own_farewell(&self) -> &Farewell {
        // SAFETY: as above; zero is that of somebody who is here.
        unsafe { &*self.segment.at(FAREWELL).cast() }
    }

    pub(super) fn lane_to(&self, peer: Rank) -> &Lane {
        // SAFETY: as above; zeros are empty slots.
        unsafe { &*self.segment.at(lanes(self.size) + peer * size_of::<Lane>()).cast() }
    }

    pub(super) fn counters_for(&self, peer: Rank) -> &Counters {
        // SAFETY: as above.
        unsafe { &*self.segment.at(COUNTERS + peer * size_of::<Counters>()).cast() }
    }
}

/// The memory of another rank, before it is known whether that one can read ours.
pub struct Neighbour {
    pub(super) rank: Rank,
    pub(super) segment: Arc<Segment>,
    pub(super) bell: File,
    pub(super) private: Result<Private, String>,
}

impl Neighbour {
    /// Whose memory it is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Why its private memory cannot be read, if so.
    pub fn obstacle(&self) -> Option<&str> {
        self.private.as_ref().err().map(String::as_str)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// What a rank of a large job takes depends on how many are near.
    #[test]
    fn only_neighbours_take_memory() {
        let home = Home::new(17, 16_000).unwrap();
        let blocks = || home.segment.file().unwrap().metadata().unwrap().blocks() * 512;
        let alone = blocks();
        assert!(alone <= 4 << 10, "{alone} bytes");
        (0..16_000).step_by(1000).for_each(|peer| home.prepare_for(peer).unwrap());
        let spread = blocks() - alone;
        // A page of the counters and one lane, or two where it begins within a page.
        assert!((16 * 8192..=16 * 12_288).contains(&spread), "{spread} bytes for 16 neighbours");
        for (peer, last) in [(0, 0), (15_000, 63)] {
            home.lane_to(peer).put(last, &super::super::lane::Parcel::default());
            home.counters_for(peer).take(1);
        }
        assert_eq!(blocks() - alone, spread);
    }
}
