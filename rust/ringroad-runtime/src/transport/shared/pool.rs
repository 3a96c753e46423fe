//! Hands out parts of a rank's segment, and takes them back when nobody holds them any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::segment::Segment;
use crate::buffer::Region;
use crate::fork::Own;

const CACHE_LINE: usize = 64;
/// Parts of at least this many bytes begin at a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// The memory of a rank that its neighbours can read.
pub struct Pool {
    segment: Arc<Segment>,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Bytes by offset; neighbours are joined.
    parts: BTreeMap<usize, usize>,
}

/// A part in use.
struct Part {
    pool: Own<Arc<Pool>>,
    offset: usize,
    bytes: usize,
}

impl Drop for Part {
    fn drop(&mut self) {
        // A forked child has nothing to give back, and may find the lock taken for ever.
        if let Ok(pool) = self.pool.get() {
            pool.free.lock().insert(self.offset, self.bytes);
        }
    }
}

impl Free {
    fn insert(&mut self, mut offset: usize, mut bytes: usize) {
        if let Some((&before, &length)) = self.parts.range(..offset).next_back() {
            if before + length == offset {
                self.parts.remove(&before);
                (offset, bytes) = (before, bytes + length);
            }
        }
        if let Some(after) = self.parts.remove(&(offset + bytes)) {
            bytes += after;
        }
        self.parts.insert(offset, bytes);
    }

    /// The first part that has room.
    fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
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
        Some(start)
    }
}

impl Pool {
    pub(super) fn new(segment: Arc<Segment>) -> Arc<Pool> {
        let mut free = Free::default();
        free.insert(segment.data(), segment.len() - segment.data());
        Arc::new(Pool { segment, free: Mutex::new(free) })
    }

    /// New memory, or why there is none. It holds what was there before.
    pub fn allocate(self: &Arc<Pool>, bytes: usize) -> Result<Region, String> {
        let full = || format!("a segment of {} bytes has no {bytes} bytes left", self.segment.len());
        if bytes > self.segment.len() {
            return Err(full());
        }
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        let rounded = bytes.max(1).next_multiple_of(CACHE_LINE);
        let offset = self.free.lock().take(rounded, align).ok_or_else(full)?;
        let part = Part { pool: Own::new(self.clone()), offset, bytes: rounded };
        self.segment.back(offset + rounded).map_err(|reason| format!("{bytes} bytes: {reason}"))?;
        let start = self.segment.at(offset);
        // SAFETY: the part is within the segment, which lives as long as the pool that the part holds, and nobody else
        // has it.
        Ok(unsafe { Region::foreign(start, bytes, Arc::new(part)) })
    }

    /// Where in the segment a region is, if it is there.
    #[inline]
    pub fn offset_of(&self, region: &Region) -> Option<usize> {
        let offset = (region.as_ptr() as usize).checked_sub(self.segment.at(0) as usize)?;
        (offset + region.len() <= self.segment.len()).then_some(offset)
    }
}
