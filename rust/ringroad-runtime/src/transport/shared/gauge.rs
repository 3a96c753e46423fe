//! How far a peer's CPU is, as its messages show.
//!
//! A probe answers when the communicator is made, but a virtual machine may move its CPUs at any time. So who waits for a long
//! message times the look that finds it: the line that it looks at has just been written by the peer, and comes from its
//! cache.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::cache::CacheMode;

/// How long a look takes that is fast. On two cores that drift between both, near ones mostly take 30 to 60 nanoseconds, or 1
/// to 30 where ranks share a core; far ones 75 to 150, of which some are fast all the same.
const FAST: Duration = Duration::from_nanos(70);
/// So many looks are remembered. If all were fast the peer is near, and far if [`GONE`] were slow.
const LOOKS: u32 = 6;
const GONE: u32 = 4;

/// What is known of a peer.
#[derive(Debug)]
pub(super) struct Gauge {
    mode: CacheMode,
    /// Of the last looks, a bit for each: whether it was slow.
    slow: u8,
}

impl Gauge {
    pub fn new(mode: CacheMode) -> Gauge {
        Gauge { mode, slow: if mode == CacheMode::Near { 0 } else { (1 << LOOKS) - 1 } }
    }

    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// A look that began then has just found something.
    pub fn found(&mut self, start: Instant) {
        self.note(start.elapsed().saturating_sub(clock()));
    }

    fn note(&mut self, took: Duration) {
        self.slow = (self.slow << 1 | u8::from(took > FAST)) % (1 << LOOKS);
        if self.slow.count_ones() >= GONE {
            self.mode = CacheMode::Far;
        } else if self.slow == 0 {
            self.mode = CacheMode::Near;
        }
    }
}

/// How long it takes to look at the clock.
fn clock() -> Duration {
    static CLOCK: OnceLock<Duration> = OnceLock::new();
    *CLOCK.get_or_init(|| (0..64).map(|_| Instant::now().elapsed()).min().expect("there were some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modes after looks of so many nanoseconds each.
    fn modes(mode: CacheMode, looks: &[u64]) -> Vec<CacheMode> {
        let mut gauge = Gauge::new(mode);
        let mut after = |look: &u64| {
            gauge.note(Duration::from_nanos(*look));
            gauge.mode()
        };
        looks.iter().map(&mut after).collect()
    }

    #[test]
    fn most_of_the_last_looks_tell() {
        let (near, far) = ([CacheMode::Near].as_slice(), [CacheMode::Far].as_slice());
        assert_eq!(modes(CacheMode::Near, &[40, 130, 5000, 40, 40].repeat(4)), near.repeat(20));
        assert_eq!(modes(CacheMode::Near, &[130; 12]), [near.repeat(3), far.repeat(9)].concat());
        assert_eq!(modes(CacheMode::Far, &[130, 40, 40, 40, 40].repeat(4)), far.repeat(20));
        assert_eq!(modes(CacheMode::Far, &[40; 12]), [far.repeat(5), near.repeat(7)].concat());
    }

    #[test]
    #[cfg_attr(miri, ignore = "there, nothing is fast")]
    fn the_clock_is_not_counted() {
        let mut gauge = Gauge::new(CacheMode::Far);
        // Interrupted ones do not count.
        let near = (0..1000).any(|_| {
            gauge.found(Instant::now());
            gauge.mode() == CacheMode::Near
        });
        assert!(near);
    }
}
