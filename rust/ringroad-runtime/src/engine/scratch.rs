//! Memory that calls need beside the caller's, kept from one to the next.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use crate::buffer::Region;
use crate::transport::Transport;

/// So many regions may be kept in any case, and so many at most if they have no more bytes than this in all.
const FEW: usize = 4;
const MOST: usize = 64;
const BYTES: usize = 4 << 20;
/// A region that has more than so many times the bytes that are needed is left for calls that need it.
const LARGER: usize = 4;
/// Scratch memory of at least so many bytes begins half a page away from where the caller's begins in its page, at a cache
/// line: what is copied to where it is less than a line further on in its page takes 1.3 to 6 times as long (AMD EPYC,
/// `rep movsb`). As arrays of all ranks mostly begin alike, this holds for copies out of it, too.
const APART: usize = 16 << 10;
const PAGE: usize = 4096;
const LINE: usize = 64;
/// To write what another core has just read takes it from there, line by line. Calls that need so much take turns with
/// [`SPAN`] bytes, twice a core's second-level cache: what was there before has left both cores' own caches by then, but not
/// the one that they share. On two such cores (AMD EPYC, 1 MiB each) 64 KiB to 256 KiB then take half as long, 32 KiB two
/// thirds; on two threads of one core a tenth longer.
const TURNS: RangeInclusive<usize> = 512..=1 << 20;
const SPAN: usize = 2 << 20;

/// What is kept; near ranks may still be reading it.
pub(super) struct Scratch {
    /// What was used last is at the back.
    kept: VecDeque<Region>,
    bytes: usize,
    takes_turns: bool,
    /// So many bytes were needed last where there was enough to take turns with; 0 where that may have changed.
    suffices_for: usize,
}

impl Scratch {
    /// `takes_turns`: the memory of all ranks need not share one core's caches.
    pub fn new(takes_turns: bool) -> Scratch {
        Scratch { kept: VecDeque::new(), bytes: 0, takes_turns, suffices_for: 0 }
    }

    /// Memory to be kept for later, and what of it is scratch memory; or why there is none. `like`: the address of what is
    /// copied to it.
    pub fn take(
        &mut self,
        needed: usize,
        like: usize,
        transport: &mut dyn Transport,
    ) -> Result<(Region, Range<usize>), String> {
        if needed == 0 {
            return Ok((Region::nothing(), 0..0));
        }
        let apart = needed >= APART;
        let bytes = if apart { needed + PAGE } else { needed };
        let room = match self.find(bytes, transport) {
            Some(room) => room,
            None => match transport.pool() {
                Some(pool) => pool.allocate(bytes)?,
                None => Region::scratch(bytes),
            },
        };
        let place = (like + PAGE / 2) / LINE * LINE;
        let start = if apart { place.wrapping_sub(room.as_ptr() as usize) % PAGE } else { 0 };
        Ok((room, start..start + needed))
    }

    fn find(&mut self, bytes: usize, transport: &mut dyn Transport) -> Option<Region> {
        let turns = self.takes_turns && TURNS.contains(&bytes);
        let most = if turns { bytes + bytes / 4 } else { LARGER * bytes };
        let fits = |region: &&Region| (bytes..=most).contains(&region.len());
        if turns && self.suffices_for != bytes {
            let (number, sum) =
                self.kept.iter().filter(fits).fold((0, 0), |(n, sum), region| (n + 1, sum + region.len()));
            if number < MOST && sum < SPAN {
                return None;
            }
            self.suffices_for = bytes;
        }
        let free = |region: &Region| fits(&region) && region.is_unshared();
        let index = self.kept.iter().position(free).or_else(|| {
            transport.tidy();
            self.kept.iter().position(free)
        });
        let region = self.kept.remove(index?)?;
        self.bytes -= region.len();
        Some(region)
    }

    pub fn keep(&mut self, region: Region) {
        if region.is_empty() {
            return;
        }
        self.bytes += region.len();
        self.kept.push_back(region);
        while self.kept.len() > MOST || self.kept.len() > FEW && self.bytes > BYTES {
            let oldest = self.kept.pop_front().expect("there are some");
            self.bytes -= oldest.len();
            self.suffices_for = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::transport::in_process::InProcess;

    /// So many different places for calls that need `bytes` each, one after the other.
    fn places(scratch: &mut Scratch, bytes: usize) -> usize {
        let mut transport = InProcess::group(1).remove(0);
        let mut places = HashSet::new();
        for _ in 0..100 {
            let (region, range) = scratch.take(bytes, 0, &mut transport).unwrap();
            assert!(range.len() == bytes && range.end <= region.len());
            places.insert(region.as_ptr());
            scratch.keep(region);
        }
        places.len()
    }

    #[test]
    fn memory_is_used_again() {
        for bytes in [1, 500, 3 << 20] {
            assert_eq!(places(&mut Scratch::new(true), bytes), 1, "{bytes} bytes");
        }
        assert_eq!(places(&mut Scratch::new(false), 256 << 10), 1);
    }

    #[test]
    fn calls_of_some_length_take_turns() {
        let mut scratch = Scratch::new(true);
        for bytes in [200 << 10, 64 << 10, 512 << 10, (1 << 20) - PAGE, 64 << 10] {
            places(&mut scratch, bytes);
            let found = places(&mut scratch, bytes);
            assert_eq!(found, SPAN.div_ceil(bytes + PAGE), "{bytes} bytes");
        }
        assert_eq!(places(&mut scratch, 16 << 10), MOST);
    }

    #[test]
    fn little_is_kept() {
        let mut scratch = Scratch::new(true);
        for bytes in (1..40).map(|number| number * 300_000) {
            places(&mut scratch, bytes);
            assert!(scratch.kept.len() <= FEW || scratch.bytes <= BYTES);
            assert_eq!(scratch.bytes, scratch.kept.iter().map(Region::len).sum::<usize>());
        }
    }

    #[test]
    fn what_is_read_or_too_large_is_left_alone() {
        let mut transport = InProcess::group(1).remove(0);
        let mut scratch = Scratch::new(true);
        let (region, _) = scratch.take(1000, 0, &mut transport).unwrap();
        let (reader, first) = (region.clone(), region.as_ptr());
        scratch.keep(region);
        assert_ne!(scratch.take(1000, 0, &mut transport).unwrap().0.as_ptr(), first);
        drop(reader);
        assert_ne!(scratch.take(100, 0, &mut transport).unwrap().0.as_ptr(), first);
        assert_eq!(scratch.take(500, 0, &mut transport).unwrap().0.as_ptr(), first);
    }
}
