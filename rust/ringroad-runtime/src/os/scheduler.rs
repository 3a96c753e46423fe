//! What a waiting thread asks of the scheduler: short time slices that come soon, or another core. And how long threads
//! had to wait for their cores.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity, CpuSet};

/// The time slice of a waiting thread: polling needs no longer one.
const NANOSECONDS: u64 = 100_000;

/// The kernel's `sched_attr`, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
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

/// Asks for shorter time slices that come sooner, for the calling thread; its share of the core stays the same. Linux
/// supports this since 6.12, for all users. Otherwise nothing changes.
pub(crate) fn shorten() {
    thread_local!(static ASKED: Cell<bool> = const { Cell::new(false) });
    if ASKED.replace(true) || cfg!(miri) {
        return;
    }
    let mut attributes = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, the size of the structure; 0 is the calling thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) } == 0;
    if known && matches!(attributes.policy, OTHER | BATCH) {
        attributes.size = size;
        attributes.runtime = NANOSECONDS;
        // SAFETY: reads a structure that contains its size.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
    }
}

/// The duration of a system call that does nothing.
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

/// Moves the calling thread to another core, if it may run on one. The scheduler itself leaves two threads that keep
/// waking each other on one core for seconds, even if another core is idle.
pub(crate) fn change_core() {
    move_among(|cores| cores.unset(sched_getcpu()));
}

/// The ranks that run on the same cores, and the place of this rank among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostLoad {
    /// How many ranks there are.
    pub ranks: usize,
    /// How many cores they have together.
    pub cores: usize,
    /// The number of this rank among them.
    pub number: usize,
}

impl HostLoad {
    /// Whether there are fewer cores than ranks.
    pub fn is_oversubscribed(&self) -> bool {
        self.ranks > self.cores
    }
}

/// Moves the calling thread to its own core, if the threads of an oversubscribed host are distributed evenly over the cores. The
/// scheduler leaves too many of them on one core for seconds: it sees them all running all the time.
pub(crate) fn take_core(load: HostLoad) {
    if cfg!(miri) {
        return;
    }
    // A thread may wait in several groups and have another number in each: its number in the largest group counts.
    thread_local!(static LARGEST: Cell<Option<HostLoad>> = const { Cell::new(None) });
    // The core that it got last: mostly it is still there.
    thread_local!(static LAST: Cell<Option<usize>> = const { Cell::new(None) });
    let largest = LARGEST.get().max(Some(load));
    if LARGEST.replace(largest) == largest && LAST.get() == Some(sched_getcpu()) {
        return;
    }
    move_among(|cores| {
        let own = largest.and_then(|load| own_core(cores, load));
        LAST.set(own);
        cores.clear();
        own.filter(|own| *own != sched_getcpu()).into_iter().for_each(|own| cores.set(own));
    });
}

/// The core of this rank. `None` if a quota leaves fewer cores than the mask: then it is unknown which ones.
fn own_core(mask: &CpuSet, load: HostLoad) -> Option<usize> {
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect();
    (cores.len() == load.cores).then(|| cores[load.number % load.cores])
}

/// Moves the calling thread to one of the cores that `choose` leaves of those where it may run, if any. Afterwards
/// the thread may run on all of its cores again, and may return at any time.
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
    // If this is refused, the thread stays on these cores: fewer than it may use, but never others.
    let _ = sched_setaffinity(None, &lasting(allowed, online()));
}

/// The mask that lets a thread run where it may run now. `online` is the number of cores that there are. A thread
/// that may run everywhere gets a mask with all bits, so that it may use cores that are added later: the kernel
/// ignores bits of cores that do not exist.
fn lasting(allowed: CpuSet, online: Option<u32>) -> CpuSet {
    let mut mask = allowed;
    if online == Some(allowed.count()) {
        (0..CpuSet::MAX_CPU).for_each(|cpu| mask.set(cpu));
    }
    mask
}

/// Cores are busy if the threads of this process have waited for them longer than this part of the time.
const BUSY: f64 = 0.1;

/// How long the threads of this process had waited for their cores at some time, where the kernel counts that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    at: Instant,
    waited: Duration,
}

impl Cores {
    pub fn now() -> Cores {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        Cores { at: Instant::now(), waited: threads.filter_map(|thread| waited(&thread.path())).sum() }
    }

    /// The same of the calling thread alone.
    pub fn of_thread() -> Cores {
        Cores { at: Instant::now(), waited: waited(Path::new("/proc/thread-self")).unwrap_or_default() }
    }

    /// Whether they were busy with something else since then, until `now`.
    pub fn were_busy(self, now: Cores) -> bool {
        now.waited.saturating_sub(self.waited) > (now.at - self.at).mul_f64(BUSY)
    }
}

/// Whether threads of this machine have waited for cores in the last seconds, where the kernel counts that. The kernel's own
/// threads, which forward packets, wait then as well.
pub(crate) fn machine_is_busy() -> bool {
    // `some avg10=99.77 avg60=98.70 avg300=95.25 total=4295182910`, in per cent.
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let average = text.split_once("avg10=").and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
    average.is_some_and(|average| average > 100.0 * BUSY)
}

/// How long the thread of this directory has waited for its core.
fn waited(thread: &Path) -> Option<Duration> {
    let counts = fs::read_to_string(thread.join("schedstat")).ok()?;
    counts.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

fn online() -> Option<u32> {
    // SAFETY: only returns a number.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok().filter(|cores| *cores > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn mask(cpus: &[usize]) -> CpuSet {
        let mut mask = CpuSet::new();
        cpus.iter().for_each(|cpu| mask.set(*cpu));
        mask
    }

    #[test]
    fn cores_are_dealt_out() {
        let some = mask(&[1, 4, 6]);
        let own = |cores, number| own_core(&some, HostLoad { ranks: 7, cores, number });
        assert_eq!(
            (0..7).map(|number| own(3, number)).collect::<Option<Vec<_>>>(),
            Some(vec![1, 4, 6, 1, 4, 6, 1])
        );
        assert_eq!([own(2, 0), own(0, 0)], [None, None]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has no cores")]
    fn who_shares_a_core_waits_for_it() {
        let (start, first, seen) = (Cores::now(), sched_getcpu(), AtomicBool::new(false));
        let spin = || {
            sched_setaffinity(None, &mask(&[first])).unwrap();
            while !seen.load(Ordering::Relaxed) {
                seen.fetch_or(start.were_busy(Cores::now()), Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(spin))));
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
        // Sets of cores that begin with the first core, and with the second.
        for (kept, start) in (1..=cpus.len()).flat_map(|kept| [(kept, 0), (kept, 1)]) {
            let some = mask(&cpus.iter().copied().cycle().skip(start).take(kept).collect::<Vec<_>>());
            sched_setaffinity(None, &some).unwrap();
            for _ in 0..20 {
                let load = HostLoad { ranks: 9, cores: kept, number: 1 };
                for step in [&change_core as &dyn Fn(), &|| take_core(load)] {
                    step();
                    assert_eq!(sched_getaffinity(None).unwrap(), some);
                    assert!(some.is_set(sched_getcpu()));
                }
            }
        }
    }
}
