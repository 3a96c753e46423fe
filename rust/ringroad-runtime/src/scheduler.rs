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

/// Moves the calling thread to one of the cores that `choose` leaves of those where it may run, if it leaves any; it may
/// come back at any time.
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
    // Who may run everywhere shall go on so when there are more cores: the kernel takes of a mask what there is.
    let narrowed = online().is_none_or(|online| allowed.count() < online);
    if !(narrowed && sched_setaffinity(None, &allowed).is_ok()) {
        let _ = sched_setaffinity(None, &every_cpu());
    }
}

fn every_cpu() -> CpuSet {
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    every
}

fn online() -> Option<u32> {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok().filter(|cores| *cores > 0)
}
