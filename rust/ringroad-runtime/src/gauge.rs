//! How far the readers of a rank's memory are, as the copies that it makes for them show.
//!
//! A probe answers when the communicator is made, but a virtual machine may move its CPUs at any time. Plain stores over
//! what a far CPU has read take many times as long as over what a near one has, so that their own time tells. Each rank
//! looks after itself: which stores it uses is nobody else's business.
//!
//! Where ranks share cores, some readers are near and others far. So each is judged by what is copied for it: calls repeat,
//! so that who will read it has mostly read what it overwrites.

use std::time::{Duration, Instant};

use ringroad_core::Rank;

use crate::cache::CacheMode;
use crate::kernels::Stores;

/// Plain copies of so many bytes are timed; longer ones wait for memory, whoever has read what they overwrite.
const TIMED: std::ops::RangeInclusive<usize> = 16 << 10..=512 << 10;
/// Nanoseconds per byte of a plain copy that is slow. On two cores that drift between both: near up to 0.03, or 0.1 where
/// what is copied comes from memory; far from 0.25 on, but for copies by `rep movsb` to where they do not get in their own
/// way, which are good far, too.
const SLOW: f64 = 0.2;
/// From so many bytes on, what is copied and what it overwrites after streaming both come from memory, which the other cores
/// want too: near up to 0.29, far from 0.34 on.
const LONG: usize = 256 << 10;
const SLOW_LONG: f64 = 0.3;
/// So many slow copies in a row are no interruptions.
const PERSISTENT: u32 = 3;
/// A try of plain stores ends with so many copies of one kind, slow or fast: the first ones after streaming may be slow because
/// they bring what they overwrite from memory, wherever the readers are, and one that is fast may be luck.
const AGREE: u32 = 2;
/// So many times in a row stores may suit without a look at how they do.
const UNSEEN: u32 = 32;
/// How many copies go by, at least and at most, before plain stores are tried again.
const RESTS: [u32; 2] = [16, 256];

/// What is known of the readers.
#[derive(Debug)]
pub(crate) struct Gauge(Vec<Reader>);

/// A rank that reads what this one writes.
#[derive(Debug, Clone)]
struct Reader {
    mode: CacheMode,
    /// Slow plain copies in a row, or while plain stores are tried.
    slow: u32,
    /// Fast ones while plain stores are tried.
    fast: u32,
    /// Copies until plain stores are tried again, and until then from the last time that was in vain.
    rest: u32,
    rests: u32,
    /// How often stores were said to suit since the last copy.
    unseen: u32,
}

impl Gauge {
    /// For so many ranks.
    pub fn new(mode: CacheMode, ranks: usize) -> Gauge {
        Gauge(vec![Reader::new(mode); ranks])
    }

    /// Has `copy` copy so many bytes for `readers` by the stores that suit. `of`: the bytes that are written before any is
    /// written again.
    pub fn watch(
        &mut self,
        readers: impl Iterator<Item = Rank> + Clone,
        bytes: usize,
        of: usize,
        copy: impl FnOnce(Stores),
    ) {
        if !depends(of) {
            return copy(Stores::for_copy(of, CacheMode::Near));
        }
        let stores = self.stores(readers.clone(), bytes, of);
        let tells = TIMED.contains(&bytes);
        if tells {
            readers.clone().for_each(|rank| self.0[rank].unseen = 0);
        }
        let start = (stores == Stores::Plain && tells).then(Instant::now);
        copy(stores);
        if let Some(start) = start {
            self.note(readers, bytes, start.elapsed());
        }
    }

    /// The stores that suit a sum of so many bytes that goes to where `readers` read it in the same pass. `None` now and
    /// then where nothing else is copied for them, and while plain stores are tried: the sum had better be copied afterwards,
    /// so that the copy can be watched.
    pub fn suited(
        &mut self,
        readers: impl Iterator<Item = Rank> + Clone,
        bytes: usize,
        of: usize,
    ) -> Option<Stores> {
        if !depends(of) {
            return Some(Stores::for_copy(of, CacheMode::Near));
        }
        let mut unseen = false;
        for rank in readers.clone() {
            let reader = &mut self.0[rank];
            reader.unseen = reader.unseen.saturating_add(1);
            unseen |= reader.unseen > UNSEEN;
        }
        let mode = self.mode(readers.clone());
        let looks = unseen || mode == CacheMode::Far && self.is_tried(readers);
        (!looks || !TIMED.contains(&bytes)).then(|| Stores::for_copy(of, mode))
    }

    /// Far if any of them is.
    fn mode(&self, mut readers: impl Iterator<Item = Rank>) -> CacheMode {
        if readers.any(|rank| self.0[rank].mode == CacheMode::Far) {
            CacheMode::Far
        } else {
            CacheMode::Near
        }
    }

    fn stores(&mut self, readers: impl Iterator<Item = Rank> + Clone, bytes: usize, of: usize) -> Stores {
        let stores = Stores::for_copy(of, self.mode(readers.clone()));
        if stores == Stores::Plain || !TIMED.contains(&bytes) {
            return stores;
        }
        for rank in readers.clone() {
            let reader = &mut self.0[rank];
            reader.rest = reader.rest.saturating_sub(1);
        }
        if self.is_tried(readers) {
            Stores::Plain
        } else {
            stores
        }
    }

    /// Whether plain stores are tried for those of them that are far.
    fn is_tried(&self, mut readers: impl Iterator<Item = Rank>) -> bool {
        readers.all(|rank| self.0[rank].mode == CacheMode::Near || self.0[rank].rest == 0)
    }

    /// A plain copy took so long.
    fn note(&mut self, readers: impl Iterator<Item = Rank> + Clone, bytes: usize, took: Duration) {
        let limit = if bytes < LONG { SLOW } else { SLOW_LONG };
        let slow = took.as_nanos() as f64 > limit * bytes as f64;
        // Somebody who is known to be far explains it.
        let explained = slow && self.mode(readers.clone()) == CacheMode::Far;
        for rank in readers {
            let reader = &mut self.0[rank];
            if !explained || reader.mode == CacheMode::Far {
                reader.note(slow);
            }
        }
    }
}

/// Whether it depends on the readers which stores suit.
fn depends(of: usize) -> bool {
    Stores::for_copy(of, CacheMode::Near) != Stores::for_copy(of, CacheMode::Far)
}

impl Reader {
    fn new(mode: CacheMode) -> Reader {
        Reader { mode, slow: 0, fast: 0, rest: RESTS[0], rests: RESTS[0], unseen: 0 }
    }

    /// A plain copy was slow or not.
    fn note(&mut self, slow: bool) {
        match (self.mode, slow) {
            (CacheMode::Near, false) => self.slow = 0,
            (CacheMode::Near, true) => {
                self.slow += 1;
                if self.slow == PERSISTENT {
                    *self = Reader::new(CacheMode::Far);
                }
            }
            (CacheMode::Far, false) => {
                self.fast += 1;
                if self.fast == AGREE {
                    *self = Reader::new(CacheMode::Near);
                }
            }
            (CacheMode::Far, true) => {
                self.slow += 1;
                if self.slow == AGREE {
                    (self.slow, self.fast) = (0, 0);
                    self.rests = (2 * self.rests).min(RESTS[1]);
                    self.rest = self.rests;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;

    fn fast() -> Duration {
        Duration::from_nanos(BYTES as u64 / 20)
    }

    fn slow() -> Duration {
        Duration::from_nanos(BYTES as u64 / 2)
    }

    /// Of two ranks.
    fn gauge(mode: CacheMode) -> Gauge {
        Gauge::new(mode, 2)
    }

    fn of(ranks: &[Rank]) -> impl Iterator<Item = Rank> + Clone + '_ {
        ranks.iter().copied()
    }

    /// How many copies stream until one does not.
    fn streamed(gauge: &mut Gauge, readers: &[Rank]) -> u32 {
        (0..).find(|_| gauge.stores(of(readers), BYTES, BYTES) == Stores::Plain).unwrap()
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut gauge = gauge(CacheMode::Near);
        for _ in 0..10 {
            (0..PERSISTENT - 1).for_each(|_| gauge.note(of(&[1]), BYTES, slow()));
            gauge.note(of(&[1]), BYTES, fast());
        }
        assert_eq!(streamed(&mut gauge, &[1]), 0);
    }

    #[test]
    fn it_streams_when_readers_go_far_and_stops_when_they_come_back() {
        let mut gauge = gauge(CacheMode::Near);
        (0..PERSISTENT).for_each(|_| gauge.note(of(&[1]), BYTES, slow()));
        assert_eq!(streamed(&mut gauge, &[1]), RESTS[0] - 1);
        // Neither the first slow copy nor the first fast one decides.
        for took in [slow(), fast(), fast()] {
            gauge.note(of(&[1]), BYTES, took);
            assert_eq!(streamed(&mut gauge, &[1]), 0);
        }
        gauge.note(of(&[1]), BYTES, slow());
        assert_eq!(streamed(&mut gauge, &[1]), 0, "it is near again");
    }

    #[test]
    fn it_tries_ever_more_seldom() {
        let mut gauge = gauge(CacheMode::Far);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            pauses.push(streamed(&mut gauge, &[1]) + 1);
            for took in [slow(), fast()] {
                gauge.note(of(&[1]), BYTES, took);
                assert_eq!(streamed(&mut gauge, &[1]), 0);
            }
            gauge.note(of(&[1]), BYTES, slow());
        }
        assert_eq!(pauses, [16, 32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn readers_are_told_apart() {
        let mut gauge = gauge(CacheMode::Near);
        for _ in 0..PERSISTENT {
            gauge.note(of(&[0]), BYTES, fast());
            gauge.note(of(&[1]), BYTES, slow());
        }
        assert_eq!(streamed(&mut gauge, &[0]), 0);
        assert_eq!(streamed(&mut gauge, &[1]), RESTS[0] - 1);
        // What both read is slow because of the one.
        (0..AGREE).for_each(|_| gauge.note(of(&[0, 1]), BYTES, slow()));
        assert_eq!(streamed(&mut gauge, &[0]), 0);
        assert_eq!(gauge.suited(of(&[0, 1]), BYTES, BYTES), Some(Stores::Streaming));
        assert_eq!(gauge.suited(of(&[0]), BYTES, BYTES), Some(Stores::Plain));
        assert_eq!(streamed(&mut gauge, &[0, 1]), 2 * RESTS[0] - 1);
        (0..AGREE).for_each(|_| gauge.note(of(&[0, 1]), BYTES, fast()));
        assert_eq!(streamed(&mut gauge, &[0, 1]) + streamed(&mut gauge, &[1]), 0);
    }

    #[test]
    fn what_nobody_explains_is_everybodys_fault() {
        let mut gauge = gauge(CacheMode::Near);
        (0..PERSISTENT).for_each(|_| gauge.note(of(&[0, 1]), BYTES, slow()));
        for reader in [0, 1] {
            assert_eq!(streamed(&mut gauge, &[reader]), RESTS[0] - 1);
        }
    }

    #[test]
    fn sums_are_copied_apart_where_nothing_else_is_seen() {
        let mut gauge = gauge(CacheMode::Near);
        let copy = |gauge: &mut Gauge, readers: &[Rank], bytes| {
            gauge.watch(of(readers), bytes, BYTES, |_| {});
            // However slow the clock says that was.
            gauge.note(of(readers), bytes, Duration::ZERO);
        };
        for _ in 0..3 {
            for _ in 0..UNSEEN {
                // What is copied for another says nothing.
                copy(&mut gauge, &[0], BYTES);
                assert_eq!(gauge.suited(of(&[0, 1]), BYTES, BYTES), Some(Stores::Plain));
            }
            assert_eq!(gauge.suited(of(&[0, 1]), BYTES, BYTES), None);
            copy(&mut gauge, &[0, 1], BYTES);
        }
        for _ in 0..2 * UNSEEN {
            // Too short to tell.
            copy(&mut gauge, &[0, 1], 1 << 10);
            assert_eq!(gauge.suited(of(&[0, 1]), 1 << 10, BYTES), Some(Stores::Plain));
        }
        assert_eq!(gauge.suited(of(&[0, 1]), BYTES, BYTES), None);
    }

    #[test]
    fn a_try_ends_soon_where_only_sums_are_written() {
        let mut gauge = gauge(CacheMode::Far);
        let mut tried = Vec::new();
        for call in 0.. {
            let apart = gauge.suited(of(&[1]), BYTES, BYTES).is_none();
            if apart && gauge.stores(of(&[1]), BYTES, BYTES) == Stores::Plain {
                gauge.note(of(&[1]), BYTES, fast());
                tried.push(call);
            }
            if gauge.mode(of(&[1])) == CacheMode::Near {
                break;
            }
        }
        assert_eq!(tried.len() as u32, AGREE);
        assert_eq!(tried[1], tried[0] + 1);
    }

    #[test]
    fn long_copies_that_wait_for_memory_are_not_slow() {
        let mut gauge = gauge(CacheMode::Near);
        for (bytes, streamed_at) in [(LONG, 0), (LONG - 1, RESTS[0] - 1)] {
            (0..PERSISTENT).for_each(|_| gauge.note(of(&[1]), bytes, Duration::from_nanos(bytes as u64 / 4)));
            assert_eq!(streamed(&mut gauge, &[1]), streamed_at);
        }
    }

    #[test]
    fn long_copies_follow_the_mode() {
        let mut gauge = gauge(CacheMode::Far);
        for _ in 0..2 * RESTS[1] {
            assert_eq!(gauge.stores(of(&[1]), 1 << 20, 1 << 20), Stores::Streaming);
        }
    }
}
