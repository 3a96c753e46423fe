//! How far the readers of a rank's memory are, as the copies that it makes for them show.
//!
//! A probe answers when the communicator is made, but a virtual machine may move its CPUs at any time. Plain stores over
//! what a far CPU has read take many times as long as over what a near one has, so that their own time tells. Each rank
//! looks after itself: which stores it uses is nobody else's business.

use std::time::{Duration, Instant};

use crate::cache::CacheMode;
use crate::kernels::Stores;

/// Plain copies of so many bytes are timed; longer ones wait for memory, whoever has read what they overwrite.
const TIMED: std::ops::RangeInclusive<usize> = 16 << 10..=512 << 10;
/// Nanoseconds per byte. On two cores that drift between both: near up to 0.03, or 0.1 where what is copied comes from
/// memory; far from 0.25 on, but for copies by `rep movsb` to where they do not get in their own way, which are good far,
/// too.
const SLOW: f64 = 0.2;
/// So many slow copies in a row are no interruptions.
const PERSISTENT: u32 = 3;
/// So many times in a row stores may suit without a look at how they do.
const UNSEEN: u32 = 32;
/// How many copies go by, at least and at most, before plain stores are tried again.
const RESTS: [u32; 2] = [16, 1024];

/// What is known.
#[derive(Debug)]
pub(crate) struct Gauge {
    mode: CacheMode,
    /// Slow plain copies in a row.
    slow: u32,
    /// Copies until plain stores are tried again, and until then from the last time that was in vain.
    rest: u32,
    rests: u32,
    /// How often stores were said to suit since the last copy.
    unseen: u32,
}

impl Gauge {
    pub fn new(mode: CacheMode) -> Gauge {
        Gauge { mode, slow: 0, rest: RESTS[0], rests: RESTS[0], unseen: 0 }
    }

    /// Has `copy` copy so many bytes by the stores that suit. `of`: the bytes that are written before any is written again.
    pub fn watch(&mut self, bytes: usize, of: usize, copy: impl FnOnce(Stores)) {
        self.unseen = 0;
        let stores = self.stores(bytes, of);
        let start = (stores == Stores::Plain && TIMED.contains(&bytes)).then(Instant::now);
        copy(stores);
        if let Some(start) = start {
            self.note(bytes, start.elapsed());
        }
    }

    /// The stores that suit a sum of so many bytes that goes to where others read it in the same pass. `None` now and then
    /// where nothing else is copied: the sum had better be copied afterwards, so that the copy can be watched.
    pub fn suited(&mut self, bytes: usize, of: usize) -> Option<Stores> {
        self.unseen += 1;
        (self.unseen <= UNSEEN || !TIMED.contains(&bytes)).then(|| Stores::for_copy(of, self.mode))
    }

    fn stores(&mut self, bytes: usize, of: usize) -> Stores {
        let stores = Stores::for_copy(of, self.mode);
        if stores == Stores::Plain || self.mode == CacheMode::Near || !TIMED.contains(&bytes) {
            return stores;
        }
        self.rest = self.rest.saturating_sub(1);
        if self.rest == 0 {
            Stores::Plain
        } else {
            stores
        }
    }

    /// A plain copy took so long.
    fn note(&mut self, bytes: usize, took: Duration) {
        let slow = took.as_nanos() as f64 > SLOW * bytes as f64;
        match (self.mode, slow) {
            (CacheMode::Near, false) => self.slow = 0,
            (CacheMode::Near, true) => {
                self.slow += 1;
                if self.slow == PERSISTENT {
                    *self = Gauge::new(CacheMode::Far);
                }
            }
            (CacheMode::Far, false) => *self = Gauge::new(CacheMode::Near),
            (CacheMode::Far, true) => {
                self.rests = (2 * self.rests).min(RESTS[1]);
                self.rest = self.rests;
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

    /// How many copies stream until one does not.
    fn streamed(gauge: &mut Gauge) -> u32 {
        (0..).find(|_| gauge.stores(BYTES, BYTES) == Stores::Plain).unwrap()
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut gauge = Gauge::new(CacheMode::Near);
        for _ in 0..10 {
            (0..PERSISTENT - 1).for_each(|_| gauge.note(BYTES, slow()));
            gauge.note(BYTES, fast());
        }
        assert_eq!(gauge.stores(BYTES, BYTES), Stores::Plain);
    }

    #[test]
    fn it_streams_when_readers_go_far_and_stops_when_they_come_back() {
        let mut gauge = Gauge::new(CacheMode::Near);
        (0..PERSISTENT).for_each(|_| gauge.note(BYTES, slow()));
        assert_eq!(streamed(&mut gauge), RESTS[0] - 1);
        gauge.note(BYTES, fast());
        assert_eq!(streamed(&mut gauge), 0);
    }

    #[test]
    fn it_tries_ever_more_seldom() {
        let mut gauge = Gauge::new(CacheMode::Far);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push(streamed(&mut gauge) + 1);
            gauge.note(BYTES, slow());
        }
        assert_eq!(pauses, [16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn sums_are_copied_apart_where_nothing_else_is_seen() {
        let mut gauge = Gauge::new(CacheMode::Near);
        for _ in 0..3 {
            for _ in 0..UNSEEN {
                assert_eq!(gauge.suited(BYTES, BYTES), Some(Stores::Plain));
            }
            assert_eq!(gauge.suited(BYTES, BYTES), None);
            gauge.watch(BYTES, BYTES, |_| {});
        }
        for _ in 0..2 * UNSEEN {
            assert_eq!(gauge.suited(1 << 10, 1 << 10), Some(Stores::Plain), "too short to tell");
        }
    }

    #[test]
    fn long_copies_follow_the_mode() {
        let mut gauge = Gauge::new(CacheMode::Far);
        for _ in 0..2 * RESTS[1] {
            assert_eq!(gauge.stores(1 << 20, 1 << 20), Stores::Streaming);
        }
    }
}
