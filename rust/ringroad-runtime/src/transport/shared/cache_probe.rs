//! Measures whether a peer's CPU shares a cache with this one, by the peer's messages.
//!
//! A probe finds that out when the communicator is made, but a virtual machine may move its CPUs at any time. So a
//! rank that waits for a long message times the look that finds it: the peer has just written that cache line, so it
//! comes from the peer's cache. The rank tells the peer when the answer changes: the distance matters to the sender,
//! and many senders never wait for their receivers.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::os::machine::cache::CacheMode;
use crate::os::machine::FAST_LOOK;

/// How many looks are remembered. If all were fast, the ranks share a cache; if [`GONE`] or more were slow, they do
/// not.
const LOOKS: u32 = 6;
const GONE: u32 = 4;

/// The measurements of one peer.
#[derive(Debug)]
pub(super) struct CacheProbe {
    mode: CacheMode,
    /// A bit for each of the last looks: whether it was slow.
    slow: u8,
    /// How many looks there were, up to one more than are remembered.
    found: u32,
}

impl CacheProbe {
    pub fn new(mode: CacheMode) -> CacheProbe {
        CacheProbe { mode, slow: if mode == CacheMode::Shared { 0 } else { (1 << LOOKS) - 1 }, found: 0 }
    }

    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// Notes a look that began at `start` and has just found something. Returns whether the peer has to be told of
    /// the mode.
    pub fn found(&mut self, start: Instant) -> bool {
        self.note(start.elapsed(), clock())
    }

    /// Notes a look that took `took`, of which `clock` is the clock's own time.
    fn note(&mut self, took: Duration, clock: Duration) -> bool {
        let before = self.mode;
        self.slow = (self.slow << 1 | u8::from(took.saturating_sub(clock) > FAST_LOOK)) % (1 << LOOKS);
        if self.slow.count_ones() >= GONE {
            self.mode = CacheMode::Separate;
        } else if self.slow == 0 {
            self.mode = CacheMode::Shared;
        }
        self.found = (self.found + 1).min(LOOKS + 1);
        self.mode != before || self.found == LOOKS
    }
}

/// Whether reading the clock is fast enough to measure looks.
pub(super) fn is_clock_fast() -> bool {
    clock() <= FAST_LOOK
}

/// How long it takes to read the clock.
fn clock() -> Duration {
    static CLOCK: OnceLock<Duration> = OnceLock::new();
    *CLOCK.get_or_init(|| (0..64).map(|_| Instant::now().elapsed()).min().expect("there were some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Duration = Duration::from_nanos(60);

    /// The modes after looks of so many nanoseconds each, not counting the clock's own time.
    fn modes(mode: CacheMode, looks: &[u64]) -> Vec<CacheMode> {
        let mut cache_probe = CacheProbe::new(mode);
        let mut after = |look: &u64| {
            cache_probe.note(Duration::from_nanos(*look) + CLOCK, CLOCK);
            cache_probe.mode()
        };
        looks.iter().map(&mut after).collect()
    }

    #[test]
    fn most_of_the_last_looks_tell() {
        let (near, far) = ([CacheMode::Shared].as_slice(), [CacheMode::Separate].as_slice());
        assert_eq!(modes(CacheMode::Shared, &[40, 130, 5000, 40, 40].repeat(4)), near.repeat(20));
        assert_eq!(modes(CacheMode::Shared, &[130; 12]), [near.repeat(3), far.repeat(9)].concat());
        assert_eq!(modes(CacheMode::Separate, &[130, 40, 40, 40, 40].repeat(4)), far.repeat(20));
        assert_eq!(modes(CacheMode::Separate, &[40; 12]), [far.repeat(5), near.repeat(7)].concat());
    }

    #[test]
    fn what_is_known_is_told_once_and_what_changes_then() {
        let mut cache_probe = CacheProbe::new(CacheMode::Shared);
        let tells: Vec<bool> = [[40; 8], [130; 8]]
            .concat()
            .iter()
            .map(|look| cache_probe.note(Duration::from_nanos(*look), Duration::ZERO))
            .collect();
        let told: Vec<usize> = (0..tells.len()).filter(|number| tells[*number]).collect();
        assert_eq!(told, [LOOKS as usize - 1, 8 + GONE as usize - 1]);
    }
}
