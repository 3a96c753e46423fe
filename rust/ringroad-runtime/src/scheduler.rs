//! What a waiting thread asks the scheduler for: short turns that come soon, or another core.

use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity, CpuSet};

/// A thread that only looks whether something has come needs no longer turn than this.
const NANOSECONDS: u64 = 100_000;

/// What the kernel calls `sched_attr`, in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Policies of ordinary threads.
const OTHER: u32 = 0;
const BATCH: u32 = 3;

/// Lets the calling thread have shorter turns, and sooner, from now on; its share of the core stays as it is. Linux does
/// so since 6.12 and lets everybody ask for it; where it does not, nothing changes.
pub(crate) fn shorten() {
    thread_local!(static ASKED: Cell<bool> = const { Cell::new(false) });
    if ASKED.replace(true) || cfg!(miri) {
        return;
    }
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, which is how large the structure is; 0 is the calling thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) } == 0;
    if known && matches!(attributes.policy, OTHER | BATCH) {
        attributes.size = size;
        attributes.runtime = NANOSECONDS;
        // SAFETY: reads a structure that says its size.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
    }
}

/// How long a system call takes that does nothing.
pub(crate) fn system_call() -> Duration {
    if cfg!(miri) {
        return Duration::ZERO;
    }
    let call = || {
        let start = Instant::now();
        std::hint::black_box(std::os::unix::process::parent_id());
        start.elapsed()
    };
    (0..8).map(|_| call()).min().unwrap_or_default()
}

/// Moves the calling thread to another core, where it may run on one. The scheduler itself leaves two threads that keep
/// waking each other on one core for seconds although another has nothing to do.
pub(crate) fn change_core() {
    move_among(|cores| cores.unset(sched_getcpu()));
}

/// Moves the calling thread, number `index` of those that share the cores where it may run, to the one that is its own if
/// they take turns. The scheduler leaves more of them than that on one core for seconds: they all run all the time.
pub(crate) fn take_core(index: usize) {
    // A thread may wait in several groups, with another number in each: the first counts.
    thread_local!(static INDEX: OnceCell<usize> = const { OnceCell::new() });
    let index = INDEX.with(|first| *first.get_or_init(|| index));
    move_among(|cores| {
        let mut all = (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core));
        let own = all.nth(index % cores.count().max(1) as usize);
        cores.clear();
        if let Some(own) = own.filter(|own| *own != sched_getcpu()) {
            cores.set(own);
        }
    });
}

/// Moves the calling thread to one of the cores that `choose` leaves of those where it may run, if it leaves any. It may
/// run on the same ones afterwards, and so may come back at any time.
fn move_among(choose: impl FnOnce(&mut CpuSet)) {
    if cfg!(miri) {
        return;
    }
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut others = allowed;
    choose(&mut others);
    if others.count() == 0 || sched_setaffinity(None, &others).is_err() {
        return;
    }
    // Where this is refused it stays on those others, which is less than it may, never more.
    let _ = sched_setaffinity(None, &lasting(allowed, online()));
}

/// The mask that a thread has to be given to go on as it may run now, on that many cores that there are. Who may run
/// everywhere shall go on so when there are more: the kernel takes of a mask what there is.
fn lasting(allowed: CpuSet, online: Option<u32>) -> CpuSet {
    let mut mask = allowed;
    if online == Some(allowed.count()) {
        (0..CpuSet::MAX_CPU).for_each(|cpu| mask.set(cpu));
    }
    mask
}

fn online() -> Option<u32> {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok().filter(|cores| *cores > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(cpus: &[usize]) -> CpuSet {
        let mut mask = CpuSet::new();
        cpus.iter().for_each(|cpu| mask.set(*cpu));
        mask
    }

    #[test]
    fn only_who_may_run_everywhere_may_run_on_more() {
        let some = mask(&[1, 2]);
        assert_eq!(lasting(some, Some(2)).count(), CpuSet::MAX_CPU as u32);
        assert_eq!([lasting(some, Some(3)), lasting(some, None)], [some, some]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has no cores")]
    fn whoever_moves_may_run_where_it_might_before() {
        let all = sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        // From the first core on, and from the second.
        for (kept, start) in (1..=cpus.len()).flat_map(|kept| [(kept, 0), (kept, 1)]) {
            let some = mask(&cpus.iter().copied().cycle().skip(start).take(kept).collect::<Vec<_>>());
            sched_setaffinity(None, &some).unwrap();
            for _ in 0..20 {
                for step in [change_core, || take_core(1)] {
                    step();
                    assert_eq!(sched_getaffinity(None).unwrap(), some);
                    assert!(some.is_set(sched_getcpu()));
                }
            }
        }
    }
}
