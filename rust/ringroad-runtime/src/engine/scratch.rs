//! Scratch memory: memory that calls need beside the caller's, kept from one call to the next.
//!
//! It begins half a page apart from where the caller's array begins in its page: copying to a place shortly ahead of
//! that takes processors several times as long. If there is a core for every rank, calls of 4 KiB to 1 MiB take turns
//! with 2 MiB of scratch memory, shorter calls with less. The reason: memory that another core has just read must be
//! taken from that core's cache to be written again, unless it has left both cores' own caches meanwhile.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use crate::os::machine::{ALIKE, APART, CACHE_LINE, PAGE, SPAN};
use crate::transport::buffer::Region;
use crate::transport::Transport;

/// How many regions are kept that do not take turns.
const SPARE: usize = 4;
/// Calls that need this many bytes take turns with [`SPAN`] bytes.
const TURNS: RangeInclusive<usize> = 512..=1 << 20;
/// Of regions shorter than this many bytes only [`MAX_SHORT_REGIONS`] take turns: more of them gain nothing.
const SHORT: usize = 4 << 10;
const MAX_SHORT_REGIONS: usize = 64;
/// All regions that take turns have at most this many bytes together.
const BYTES: usize = 2 * SPAN;
/// A ring that was not used for this many turns may be dropped to make room for others.
const MAX_IDLE_TURNS: u64 = 256;

/// The regions that are kept. Near ranks may still be reading them.
pub(super) struct Scratch {
    /// Sorted by length, so that small calls take small regions. When there are too many, the smallest is dropped.
    spare: VecDeque<Region>,
    takes_turns: bool,
    rings: Vec<Ring>,
    /// How many turns have been taken.
    turns: u64,
}

/// Regions of one length that take turns.
struct Ring {
    length: usize,
    /// The one that was used last is at the back. Regions in use are missing.
    regions: VecDeque<Region>,
    /// The number of regions, including those in use.
    members: usize,
    /// The last turn that was taken in this ring.
    used: u64,
}

impl Ring {
    /// How many regions suffice.
    fn enough(&self) -> usize {
        if self.length < SHORT {
            MAX_SHORT_REGIONS
        } else {
            SPAN.div_ceil(self.length)
        }
    }
}

impl Scratch {
    /// `takes_turns`: local ranks read this memory, and each rank has a core of its own.
    pub fn new(takes_turns: bool) -> Scratch {
        Scratch { spare: VecDeque::new(), takes_turns, rings: Vec::new(), turns: 0 }
    }

    /// Takes a region of `needed` bytes or more. Returns it and the part to use, or says why there is no memory.
    /// `like`: the address of the data that will be copied to it.
    pub fn take_region(
        &mut self,
        needed: usize,
        like: usize,
        transport: &mut dyn Transport,
    ) -> Result<(Region, Range<usize>), String> {
        if needed == 0 {
            return Ok((Region::nothing(), 0..0));
        }
        let apart = needed >= APART;
        let mut bytes = if apart { needed + PAGE } else { needed };
        let found = if self.takes_turns && TURNS.contains(&needed) {
            bytes = rounded(bytes);
            self.take_turn(bytes, transport)
        } else {
            take_free(&mut self.spare, bytes, transport)
        };
        let room = match found {
            Some(room) => room,
            None => self.allocate(bytes, transport)?,
        };
        let like = if needed < ALIKE { like / CACHE_LINE * CACHE_LINE } else { like };
        let place = like + PAGE / 2;
        let start = if apart { place.wrapping_sub(room.as_ptr() as usize) % PAGE } else { 0 };
        Ok((room, start..start + needed))
    }

    pub fn keep(&mut self, region: Region) {
        if region.is_empty() {
            return;
        }
        // A region of a ring's length may be none of its own: then the ring has all of them, or finds room for it.
        let has_place = |ring: &&mut Ring| ring.length == region.len() && ring.regions.len() < ring.members;
        match self.rings.iter_mut().find(has_place) {
            Some(ring) if ring.members > ring.enough().max(SPARE) => ring.members -= 1,
            Some(ring) => ring.regions.push_back(region),
            None => {
                let smaller = self.spare.partition_point(|spare| spare.len() < region.len());
                self.spare.insert(smaller, region);
                if self.spare.len() > SPARE {
                    self.spare.remove(0);
                }
            }
        }
    }

    /// The region of this length whose turn it is, or `None` if another one should be allocated.
    fn take_turn(&mut self, length: usize, transport: &mut dyn Transport) -> Option<Region> {
        self.turns += 1;
        let turn = self.turns;
        let ring = self.ring(length);
        ring.used = turn;
        if ring.members >= ring.enough() || !self.makes_room(length) {
            let free = take_free(&mut self.ring(length).regions, length, transport);
            if free.is_some() {
                return free;
            }
        }
        self.ring(length).members += 1;
        None
    }

    fn ring(&mut self, length: usize) -> &mut Ring {
        let index = self.rings.iter().position(|ring| ring.length == length).unwrap_or_else(|| {
            self.rings.push(Ring { length, regions: VecDeque::new(), members: 0, used: 0 });
            self.rings.len() - 1
        });
        &mut self.rings[index]
    }

    /// Whether another region of this length may take turns. Drops rings that were not used for long, if necessary.
    fn makes_room(&mut self, length: usize) -> bool {
        let fits = |rings: &[Ring]| {
            rings.iter().map(|ring| ring.length * ring.members).sum::<usize>() + length <= BYTES
        };
        if !fits(&self.rings) {
            self.rings.retain(|ring| self.turns - ring.used <= MAX_IDLE_TURNS);
        }
        fits(&self.rings)
    }

    fn allocate(&mut self, bytes: usize, transport: &mut dyn Transport) -> Result<Region, String> {
        let pool = transport.local_memory().map(|memory| memory.pool());
        let allocate = || match &pool {
            Some(pool) => pool.allocate(bytes),
            None => Region::scratch(bytes).map_err(|error| error.to_string()),
        };
        allocate().or_else(|_| {
            // The regions that are kept may take the memory that is missing.
            self.spare.clear();
            self.rings.clear();
            reclaim(transport);
            allocate()
        })
    }
}

/// The first of these regions that is long enough and that nobody reads any more.
fn take_free(regions: &mut VecDeque<Region>, bytes: usize, transport: &mut dyn Transport) -> Option<Region> {
    let fits = |region: &Region| region.len() >= bytes && region.is_unshared();
    let index = regions.iter().position(fits).or_else(|| {
        reclaim(transport);
        regions.iter().position(fits)
    });
    regions.remove(index?)
}

/// Reclaims regions that local ranks have read.
fn reclaim(transport: &mut dyn Transport) {
    if let Some(memory) = transport.local_memory() {
        memory.reclaim();
    }
}

/// Rounds a length up, so that there are only a few different lengths.
fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of((1 << bytes.ilog2()) / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::transport::in_process::InProcess;
    use crate::transport::shared::SharedMemory;

    const ROUNDS: usize = 600;

    /// The addresses that calls of these lengths, made in turn, get in `rounds` rounds.
    fn places(scratch: &mut Scratch, needs: &[usize], rounds: usize) -> Vec<HashSet<*mut u8>> {
        let mut transport = InProcess::group(1).remove(0);
        let mut places = vec![HashSet::new(); needs.len()];
        for _ in 0..rounds {
            for (places, &bytes) in places.iter_mut().zip(needs) {
                let (region, range) = scratch.take_region(bytes, 0, &mut transport).unwrap();
                assert!(range.len() == bytes && range.end <= region.len());
                places.insert(region.as_ptr());
                scratch.keep(region);
            }
        }
        places
    }

    /// The length of the regions for calls of this many bytes.
    fn length(bytes: usize) -> usize {
        rounded(if bytes < APART { bytes } else { bytes + PAGE })
    }

    fn number(scratch: &mut Scratch, bytes: usize) -> usize {
        places(scratch, &[bytes], ROUNDS).remove(0).len()
    }

    #[test]
    fn long_memory_begins_apart_from_the_callers() {
        let mut transport = InProcess::group(1).remove(0);
        let mut scratch = Scratch::new(true);
        for bytes in [APART, ALIKE - 1, ALIKE, 3 << 20] {
            for like in [0, 16, 2047, 2048, 4095, 4096, 12_345_679] {
                let (region, range) = scratch.take_region(bytes, like, &mut transport).unwrap();
                assert!(range.len() == bytes && range.end <= region.len());
                let begin = region.as_ptr() as usize + range.start;
                let expected = if bytes < ALIKE { like / CACHE_LINE * CACHE_LINE } else { like };
                assert_eq!(begin % PAGE, (expected + PAGE / 2) % PAGE, "{bytes} bytes like {like}");
                scratch.keep(region);
            }
        }
    }

    #[test]
    fn memory_is_used_again() {
        for bytes in [1, 500, 3 << 20] {
            assert_eq!(number(&mut Scratch::new(true), bytes), 1, "{bytes} bytes");
        }
        assert_eq!(number(&mut Scratch::new(false), 256 << 10), 1);
    }

    #[test]
    fn calls_of_some_length_take_turns() {
        for bytes in [SHORT, 200 << 10, 64 << 10, 512 << 10, 1 << 20] {
            let expected = SPAN.div_ceil(length(bytes));
            assert_eq!(number(&mut Scratch::new(true), bytes), expected, "{bytes} bytes");
        }
        assert_eq!(number(&mut Scratch::new(true), SHORT / 2), MAX_SHORT_REGIONS);
    }

    /// After the first rounds, no call allocates memory.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of calls, and no unsafe code")]
    fn calls_of_several_lengths_settle() {
        let patterns: [&[usize]; 6] = [
            // The second takes no turns, but its regions are as long as those of the first.
            &[1 << 20, length(1 << 20) - PAGE],
            &[1 << 10, 15_000],
            &[64 << 10, 256 << 10],
            &[64 << 20, 64 << 10, 64 << 10, 64 << 10],
            &[64 << 20, 8, 40, 200, 1800],
            &[600, 3000, 16 << 10, 64 << 10, 200 << 10, 512 << 10, 1 << 20],
        ];
        for needs in patterns {
            let mut scratch = Scratch::new(true);
            places(&mut scratch, needs, ROUNDS);
            let places = |scratch: &mut Scratch| -> HashSet<*mut u8> {
                places(scratch, needs, ROUNDS).into_iter().flatten().collect()
            };
            let before = places(&mut scratch);
            assert_eq!(places(&mut scratch), before, "{needs:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of calls, and no unsafe code")]
    fn lengths_that_are_not_used_any_more_make_room() {
        let mut scratch = Scratch::new(true);
        for bytes in [2000, 64 << 10, 100 << 10, 200 << 10, 300 << 10, 64 << 10] {
            places(&mut scratch, &[bytes], 2 * MAX_IDLE_TURNS as usize);
            assert_eq!(number(&mut scratch, bytes), scratch.ring(length(bytes)).enough());
            let all = scratch.rings.iter().map(|ring| ring.length * ring.members).sum::<usize>();
            assert!(all <= BYTES, "{all} bytes");
        }
    }

    #[test]
    fn what_is_read_is_left_alone() {
        let mut transport = InProcess::group(1).remove(0);
        for (turns, bytes) in [(false, 1000), (true, 100), (true, 1 << 20)] {
            let mut scratch = Scratch::new(turns);
            let (first, _) = scratch.take_region(bytes, 0, &mut transport).unwrap();
            let (reader, place) = (first.clone(), first.as_ptr());
            scratch.keep(first);
            for _ in 0..10 {
                let (other, _) = scratch.take_region(bytes, 0, &mut transport).unwrap();
                assert_ne!(other.as_ptr(), place);
                scratch.keep(other);
            }
            drop(reader);
            let all: Vec<Region> =
                (0..10).map(|_| scratch.take_region(bytes, 0, &mut transport).unwrap().0).collect();
            assert!(all.iter().any(|region| region.as_ptr() == place));
        }
    }

    /// A request for more than there can be is refused, and the memory that is there stays usable.
    #[test]
    #[cfg_attr(miri, ignore = "ends where it has no memory")]
    fn too_much_is_refused() {
        let mut local = SharedMemory::group(2).unwrap().remove(0);
        let mut remote = InProcess::group(1).remove(0);
        for transport in [&mut local as &mut dyn Transport, &mut remote] {
            let mut scratch = Scratch::new(true);
            for bytes in [1 << 50, isize::MAX as usize] {
                let refused = scratch.take_region(bytes, 0, transport).unwrap_err();
                let room = (bytes + PAGE).to_string();
                assert!(refused.contains(&room), "{refused} does not tell of {room} bytes");
            }
            assert!(scratch.take_region(1000, 0, transport).is_ok());
        }
    }

    /// When several calls are in flight at the same time, the ring neither loses regions nor grows without bound.
    #[test]
    fn many_at_once_settle_too() {
        let mut transport = InProcess::group(1).remove(0);
        let mut scratch = Scratch::new(true);
        let mut seen = HashSet::new();
        for _ in 0..50 {
            let taken: Vec<Region> =
                (0..4).map(|_| scratch.take_region(1 << 20, 0, &mut transport).unwrap().0).collect();
            seen.extend(taken.iter().map(|region| region.as_ptr()));
            taken.into_iter().for_each(|region| scratch.keep(region));
        }
        assert_eq!(seen.len(), 4);
        assert_eq!(scratch.rings[0].members, 4);
    }
}
