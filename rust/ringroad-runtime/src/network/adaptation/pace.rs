//! Before which call all ranks vote whether to look at their network.
//!
//! A vote is due once the calls since the last one should have taken a while, which all ranks compute alike from the calls that
//! they make. It comes before a call in which every rank waits for every other one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringroad_core::Collective;

use crate::calls::call::{CallKey, Operation};

/// How long the calls between two votes should take, at least: bytes at the rate of the slowest link, and a while for each
/// call. Mostly they take two to ten times as long, and a vote about a hundredth of that.
const PERIOD: Duration = Duration::from_millis(50);
const EACH_CALL: Duration = Duration::from_micros(50);

/// When the ranks vote. All numbers are the same on all ranks whenever they begin the same call.
pub(super) struct VotePace {
    /// Bytes per second of the slowest link.
    rate: f64,
    /// What the calls since the last vote should have taken, in nanoseconds. Calls begin one after the other.
    since: AtomicU64,
}

impl VotePace {
    pub fn new(rate: f64) -> VotePace {
        VotePace { rate, since: AtomicU64::new(0) }
    }

    /// Whether this call begins without a vote. Then it counts.
    pub fn begins(&self, key: &CallKey) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        let is_due = u128::from(since) >= PERIOD.as_nanos() && waits_for_all(key);
        let bytes = key.total() * key.dtype.size();
        let nanoseconds = bytes as f64 / self.rate * 1e9 + EACH_CALL.as_nanos() as f64;
        let since = if is_due { 0 } else { since.saturating_add(nanoseconds as u64) };
        self.since.store(since, Ordering::Relaxed);
        !is_due
    }

    /// The next call in which all wait for all is one before which the ranks vote.
    #[cfg(test)]
    pub fn vote_next(&self) {
        self.since.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Whether no rank can end this call before all have made it.
fn waits_for_all(key: &CallKey) -> bool {
    use Collective::{Allgather, Allreduce, Alltoall, ReduceScatter};
    match (key.operation, &key.counts) {
        (Operation::Barrier, _) => true,
        (Operation::Collective(Allreduce), _) => key.total() > 0,
        (Operation::Collective(Allgather | Alltoall | ReduceScatter), None) => key.elements > 0,
        (Operation::Collective(Allgather | Alltoall | ReduceScatter), Some(counts)) => {
            counts.iter().all(|count| *count > 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dtype::DType;

    #[test]
    fn ranks_vote_only_where_all_wait_for_all() {
        let key =
            |collective, elements| CallKey::new(Operation::Collective(collective), DType::F32, elements);
        let blocks =
            |counts: &[usize]| CallKey { counts: Some(counts.into()), ..key(Collective::Allgather, 0) };
        assert!(waits_for_all(&CallKey::barrier()) && waits_for_all(&key(Collective::Allreduce, 1)));
        assert!(waits_for_all(&blocks(&[1, 2])) && !waits_for_all(&blocks(&[1, 0])));
        for no in [key(Collective::Broadcast { root: 0 }, 9), key(Collective::Allreduce, 0)] {
            assert!(!waits_for_all(&no), "{no:?}");
        }
    }
}
