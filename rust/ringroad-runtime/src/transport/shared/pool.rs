//! Hands out parts of a rank's segment, and takes them back when nobody holds them any more.
//!
//! Memory that a caller frees goes back to the machine.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::memory_limits::available;
use super::segment::{Mapping, Segment, HUGE_PAGE};
use crate::os::fork::ProcessOwned;
use crate::os::lock::Mutex;
use crate::os::machine::CACHE_LINE;
use crate::transport::buffer::Region;

/// The segment gets memory, and returns it to the machine, in pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// How many free bytes keep their memory after callers have freed some or messages were read, at first. Each time that
/// memory is needed again, the limit grows by as much, but at most doubles: who goes on allocating as much soon finds
/// memory there, which takes a third of the time.
const KEPT: usize = 16 << 20;
/// From this many bytes on, check first whether the machine has as much memory.
const ASKED: usize = 64 << 20;
/// How often more of the segment can be mapped. Mostly each mapping doubles what is mapped.
const MAPPINGS: usize = 32;

/// The memory of a rank that its neighbours can read.
pub struct Pool {
    segment: Arc<Segment>,
    /// Further mappings of the segment, in the order of its bytes.
    more: [OnceLock<Mapping>; MAPPINGS],
    free: Mutex<Free>,
}

struct Free {
    /// Lengths of the free parts by their offsets. Adjacent parts are joined.
    parts: BTreeMap<usize, usize>,
    /// The offset at which the mapped part ends.
    end: usize,
    /// For each piece, whether it has memory.
    backed: Vec<bool>,
    /// How many bytes have memory, and how many are in use.
    memory: usize,
    used: usize,
    /// At most this many free bytes keep their memory when a part is freed that returns its memory.
    kept: usize,
    /// Bytes whose memory was returned to the machine and that have not been needed since, ...
    given_back: usize,
    /// ... and those that were needed again, since `kept` last grew.
    needed_again: usize,
}

/// A part in use.
struct PoolPart {
    pool: ProcessOwned<Arc<Pool>>,
    range: Range<usize>,
    /// Whether as much may never be needed again: a caller has allocated it, or it is the copy of a message, of which many
    /// may wait for a late receiver. Calls repeat, so their scratch memory is kept.
    returns: bool,
}

impl Drop for PoolPart {
    fn drop(&mut self) {
        // A forked child returns nothing, since the lock may stay locked there for ever.
        if let Ok(pool) = self.pool.get() {
            pool.take_back(self.range.clone(), self.returns);
        }
    }
}

impl Free {
    /// Adds a free range. Returns the free part that it now belongs to.
    fn insert(&mut self, Range { mut start, mut end }: Range<usize>) -> Range<usize> {
        if let Some((&before, &length)) = self.parts.range(..start).next_back() {
            if before + length == start {
                self.parts.remove(&before);
                start = before;
            }
        }
        if let Some(after) = self.parts.remove(&end) {
            end += after;
        }
        self.parts.insert(start, end - start);
        start..end
    }

    /// Takes `bytes` bytes, aligned to `align`, out of the first free part that has room.
    fn take_range(&mut self, bytes: usize, align: usize) -> Option<Range<usize>> {
        let fits = |(&offset, &length): (&usize, &usize)| {
            let start = offset.next_multiple_of(align);
            (start + bytes <= offset + length).then_some((offset, length, start))
        };
        let (offset, length, start) = self.parts.iter().find_map(fits)?;
        self.parts.remove(&offset);
        if start > offset {
            self.parts.insert(offset, start - offset);
        }
        if start + bytes < offset + length {
            self.parts.insert(start + bytes, offset + length - start - bytes);
        }
        Some(start..start + bytes)
    }

    fn is_backed(&self, piece: usize) -> bool {
        self.backed.get(piece).copied().unwrap_or(false)
    }

    /// The first pieces of a range that have no memory, up to one that has.
    fn missing(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let mut pieces = range.start / PIECE..range.end.div_ceil(PIECE);
        let first = pieces.find(|piece| !self.is_backed(*piece))?;
        let last = pieces.take_while(|piece| !self.is_backed(*piece)).last().unwrap_or(first);
        Some(first * PIECE..(last + 1) * PIECE)
    }

    /// How many bytes of memory a range still needs.
    fn lacking(&self, range: &Range<usize>) -> usize {
        let pieces = range.start / PIECE..range.end.div_ceil(PIECE);
        PIECE * pieces.filter(|piece| !self.is_backed(*piece)).count()
    }

    /// Notes that these pieces have memory now, or no longer have any.
    fn note(&mut self, pieces: Range<usize>, backed: bool) {
        let pieces = pieces.start / PIECE..pieces.end / PIECE;
        if self.backed.len() < pieces.end {
            self.backed.resize(pieces.end, false);
        }
        let changed = self.backed[pieces].iter_mut().filter(|piece| **piece != backed);
        let bytes = PIECE * changed.map(|piece| *piece = backed).count();
        if backed {
            self.memory += bytes;
            let again = bytes.min(self.given_back);
            self.given_back -= again;
            self.needed_again += again;
        } else {
            self.memory -= bytes;
            self.given_back += bytes;
        }
    }

    /// The last pieces of a free part whose memory is to be returned to the machine.
    fn excess(&mut self, part: &Range<usize>) -> Range<usize> {
        let idle = self.memory.saturating_sub(self.used);
        let Range { mut start, end } = whole_pieces(part);
        if idle > self.kept && start < end {
            self.kept += std::mem::take(&mut self.needed_again).min(self.kept);
        }
        let mut excess = idle.saturating_sub(self.kept).div_ceil(PIECE);
        for piece in (start / PIECE..end / PIECE).rev() {
            if excess == 0 {
                start = (piece + 1) * PIECE;
                break;
            }
            excess -= usize::from(self.is_backed(piece));
        }
        start..end
    }
}

/// Checks whether `bytes` bytes of memory can be had, given that `idle` bytes can be returned first. The kernel
/// promises more than there is, and kills the process that uses it.
fn check(bytes: usize, idle: usize) -> Result<(), String> {
    if bytes < ASKED {
        return Ok(());
    }
    let available = available().saturating_add(idle);
    if bytes <= available {
        return Ok(());
    }
    Err(format!("no memory to share: {bytes} bytes are needed, and {available} are left"))
}

/// The pieces that are completely within a range.
fn whole_pieces(range: &Range<usize>) -> Range<usize> {
    let start = range.start.next_multiple_of(PIECE);
    start..(range.end / PIECE * PIECE).max(start)
}

impl Pool {
    pub(super) fn new(segment: Arc<Segment>) -> Arc<Pool> {
        let (data, end) = (segment.data(), segment.mapped());
        let free = Free {
            parts: BTreeMap::from([(data, end - data)]),
            end,
            backed: Vec::new(),
            memory: 0,
            used: 0,
            kept: KEPT,
            given_back: 0,
            needed_again: 0,
        };
        Arc::new(Pool { segment, more: Default::default(), free: Mutex::new(free) })
    }

    /// From now on all memory is kept, even free memory: peers may be reading it.
    pub(super) fn keep_all(&self) {
        self.free.lock().kept = usize::MAX;
    }

    /// Allocates memory, or says why there is none. The memory holds what was there before.
    pub fn allocate(self: &Arc<Pool>, bytes: usize) -> Result<Region, String> {
        self.take_region(bytes, false)
    }

    /// The same for memory of which much is returned to the machine when it is freed.
    pub fn allocate_to_return(self: &Arc<Pool>, bytes: usize) -> Result<Region, String> {
        self.take_region(bytes, true)
    }

    fn take_region(self: &Arc<Pool>, bytes: usize, returns: bool) -> Result<Region, String> {
        let full = || format!("a segment of {} bytes has no {bytes} bytes left", self.segment.len());
        if bytes > self.segment.len() {
            return Err(full());
        }
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        let rounded = bytes.max(1).next_multiple_of(CACHE_LINE);
        let mut free = self.free.lock();
        let range = match free.take_range(rounded, align) {
            Some(range) => range,
            None => {
                let reason = self.map_more(&mut free, rounded).err();
                let failed = |reason| format!("{bytes} bytes: {reason}");
                free.take_range(rounded, align).ok_or_else(|| reason.map_or_else(full, failed))?
            }
        };
        free.used += rounded;
        let is_backed = free.missing(&range).is_none();
        drop(free);
        let part = PoolPart { pool: ProcessOwned::new(self.clone()), range: range.clone(), returns };
        let mapping = self.mapping_of(range.start);
        if !is_backed {
            self.back(mapping, &range).map_err(|reason| format!("{bytes} bytes: {reason}"))?;
        }
        // SAFETY: the part is within a mapping, which lives as long as the pool, which the part holds. Nobody else
        // has the part.
        Ok(unsafe { Region::foreign(mapping.at(range.start), bytes, Arc::new(part)) })
    }

    /// Maps more of the segment, so that `bytes` bytes fit.
    #[cold]
    fn map_more(&self, free: &mut Free, bytes: usize) -> Result<(), String> {
        let full = || "it is all in use".to_owned();
        let place = self.more.iter().find(|place| place.get().is_none()).ok_or_else(full)?;
        // The huge page in between is never used, so that no part lies in two mappings.
        check(bytes, free.memory.saturating_sub(free.used))?;
        let start = free.end + HUGE_PAGE;
        let room = self.segment.len().checked_sub(start).ok_or_else(full)?;
        let least = bytes.next_multiple_of(HUGE_PAGE);
        if least > room {
            return Err(full());
        }
        let map = |bytes| self.segment.map(start..start + bytes);
        let mapping = map(least.max(free.end).min(room)).or_else(|_| map(least))?;
        let range = mapping.range();
        free.end = range.end;
        free.insert(range);
        let _ = place.set(mapping);
        Ok(())
    }

    /// Makes sure that a part has memory.
    #[cold]
    fn back(&self, mapping: &Mapping, range: &Range<usize>) -> Result<(), String> {
        self.try_to_back(mapping, range).or_else(|_| {
            // Free parts may have the memory that is missing.
            self.give_back_all();
            self.try_to_back(mapping, range)
        })
    }

    fn try_to_back(&self, mapping: &Mapping, range: &Range<usize>) -> Result<(), String> {
        check(self.free.lock().lacking(range), 0)?;
        loop {
            let Some(pieces) = self.free.lock().missing(range) else { return Ok(()) };
            // The first piece also holds the control part, and the last one may go beyond the mapping.
            let within = pieces.start.max(self.segment.data())..pieces.end.min(mapping.range().end);
            if let Err(reason) = self.segment.back(mapping, within) {
                // Nobody else has any of these pieces.
                let inside = whole_pieces(&(range.start.max(pieces.start)..range.end.min(pieces.end)));
                self.segment.unback(inside);
                return Err(reason);
            }
            self.free.lock().note(pieces, true);
        }
    }

    /// Takes back a part that nobody holds any more.
    fn take_back(&self, range: Range<usize>, returns: bool) {
        let mut free = self.free.lock();
        free.used -= range.len();
        let part = free.insert(range);
        if returns {
            let excess = free.excess(&part);
            self.give_back(&mut free, excess);
        }
    }

    /// Returns the memory of these free pieces to the machine.
    fn give_back(&self, free: &mut Free, pieces: Range<usize>) {
        if !pieces.is_empty() && self.segment.unback(pieces.clone()) {
            free.note(pieces, false);
        }
    }

    fn give_back_all(&self) {
        let mut free = self.free.lock();
        if free.kept < usize::MAX {
            let parts: Vec<_> =
                free.parts.iter().map(|(start, bytes)| whole_pieces(&(*start..start + bytes))).collect();
            parts.into_iter().for_each(|pieces| self.give_back(&mut free, pieces));
        }
    }

    fn mapping_of(&self, offset: usize) -> &Mapping {
        let mappings =
            std::iter::once(self.segment.mapping()).chain(self.more.iter().map_while(OnceLock::get));
        let mut mappings = mappings.filter(|mapping| mapping.range().contains(&offset));
        mappings.next().expect("parts are within mappings")
    }

    /// The offset of a region in the segment, if it is there.
    #[inline]
    pub fn offset_of(&self, region: &Region) -> Option<usize> {
        let (address, bytes) = (region.as_ptr() as usize, region.len());
        let find = |mapping: &Mapping| mapping.offset_of(address, bytes);
        find(self.segment.mapping()).or_else(|| self.more.iter().map_while(OnceLock::get).find_map(find))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use ringroad_core::random::Random;

    use super::*;

    const MIB: usize = 1 << 20;

    fn pool() -> Arc<Pool> {
        Pool::new(Arc::new(Segment::create(4096).unwrap()))
    }

    /// How many MiB of memory the segment has.
    fn memory(pool: &Pool) -> usize {
        pool.segment.file().unwrap().metadata().unwrap().blocks().div_ceil(2048) as usize
    }

    /// Writes a mark to the last byte; returns what was there.
    fn touch(region: &Region) -> u8 {
        let last = region.as_ptr().wrapping_add(region.len() - 1);
        // SAFETY: nobody else has the region.
        unsafe { last.replace(7) }
    }

    #[test]
    fn what_a_caller_gives_back_is_given_back_to_the_machine() {
        let pool = pool();
        let other = pool.allocate_to_return(3 * MIB).unwrap();
        touch(&other);
        for bytes in [300 * MIB, 320 * MIB] {
            let region = pool.allocate_to_return(bytes).unwrap();
            touch(&region);
            assert!(memory(&pool) >= bytes / MIB);
            drop(region);
            let rest = memory(&pool);
            assert!(rest <= 4 * KEPT / MIB, "{bytes} bytes: {rest} MiB are left");
        }
        assert_eq!(touch(&other), 7);
        let free = pool.free.lock();
        assert_eq!(free.memory / MIB, memory(&pool));
        assert_eq!(free.used, other.len());
    }

    #[test]
    fn what_is_needed_again_and_again_keeps_its_memory() {
        let pool = pool();
        let found = [(); 8].map(|()| touch(&pool.allocate_to_return(100 * MIB).unwrap()));
        assert_eq!(found, [0, 0, 0, 0, 7, 7, 7, 7]);
        assert!((100..110).contains(&memory(&pool)), "{} MiB", memory(&pool));
    }

    #[test]
    fn what_calls_give_back_keeps_its_memory() {
        let pool = pool();
        for found in [0, 7, 7] {
            let region = pool.allocate(100 * MIB).unwrap();
            assert_eq!(touch(&region), found);
            drop(region);
            assert!(memory(&pool) >= 100);
        }
    }

    #[test]
    fn what_others_may_be_reading_keeps_its_memory() {
        let pool = pool();
        let region = pool.allocate_to_return(100 * MIB).unwrap();
        pool.keep_all();
        drop(region);
        assert!(memory(&pool) >= 100);
    }

    /// Parts in use keep their content, whatever happens around them. At the end each mapping is one free part again.
    #[test]
    fn parts_in_use_keep_what_they_hold() {
        let pool = pool();
        let mut numbers = Random::new(12_345);
        let mut random = |below: usize| numbers.below(below);
        let mut held: Vec<(Region, usize)> = Vec::new();
        let ends = |region: &Region| {
            [0, region.len() / 8 - 1].map(|i| region.as_ptr().cast::<usize>().wrapping_add(i))
        };
        for round in 0..400 {
            if held.len() < 8 || held.len() < 16 && random(2) == 0 {
                let bytes = [64, 64 << 10, MIB, 3 * MIB + 64, 10 * MIB][random(5)];
                let returns = random(4) > 0;
                let region = pool.take_region(bytes, returns).unwrap();
                // SAFETY: both are within the region, which nobody else has.
                ends(&region).into_iter().for_each(|end| unsafe { end.write(round) });
                held.push((region, round));
            } else {
                let (region, mark) = held.swap_remove(random(held.len()));
                // SAFETY: as above.
                assert_eq!(ends(&region).map(|end| unsafe { end.read() }), [mark; 2]);
            }
        }
        drop(held);
        let free = pool.free.lock();
        assert_eq!((free.used, free.memory / MIB), (0, memory(&pool)));
        assert!(free.memory < free.kept + 200 * MIB);
        let mapped = 1 + pool.more.iter().map_while(OnceLock::get).count();
        assert_eq!(free.parts.len(), mapped);
        assert_eq!(free.parts.values().sum::<usize>() + (mapped - 1) * HUGE_PAGE + 4096, free.end);
    }

    /// A refused request, for more memory than there is or can be, leaves nothing behind.
    #[test]
    fn what_is_refused_takes_nothing() {
        let pool = pool();
        let length = pool.segment.len();
        for (bytes, reason) in [(length / 2, "are left"), (length - MIB, "are left"), (length + 1, "has no")]
        {
            drop(pool.allocate(2 * MIB).unwrap());
            let refused = pool.allocate_to_return(bytes).unwrap_err();
            assert!(refused.contains(reason) && refused.contains(&bytes.to_string()), "{refused}");
            assert!(memory(&pool) <= 4 && pool.free.lock().used == 0, "{} MiB", memory(&pool));
        }
        assert!(pool.more.iter().all(|place| place.get().is_none()), "no address space either");
    }
}
