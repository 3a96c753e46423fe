//! Finds out whether CPUs share a cache, which decides how to write data that a peer will read (see
//! [`crate::kernels::Stores::for_copy`]), and how much the last-level caches hold.
//!
//! Sharing is measured: the caches that a virtual machine lists need not be those of the cores that it runs on, and
//! these may change. Two threads pass a cache line back and forth. If that is impossible, the system's list is used.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use serde::{Deserialize, Serialize};

use super::{LAST_LEVEL, NEAR};

/// Whether data that one CPU writes reaches another through a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CacheMode {
    /// They share a cache.
    Shared,
    /// Lines go from one cache to another.
    Separate,
}

/// Whether CPUs share a cache, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheProbe {
    /// The result.
    pub mode: CacheMode,
    /// How it is known.
    pub evidence: CacheEvidence,
}

/// The basis of a [`CacheProbe`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheEvidence {
    /// There is only one CPU.
    OneCpu,
    /// The time that a cache line takes from one of these CPUs to the other.
    Measured {
        /// The pair that was measured.
        cpus: (usize, usize),
        /// The time in one direction, in the fastest batch.
        nanoseconds: f64,
    },
    /// The system's list of caches says whether these CPUs share one.
    Listed {
        /// The pair that was looked up.
        cpus: (usize, usize),
    },
    /// Neither was available; the result is assumed.
    Unknown,
}

/// A pair is measured in one of this many attempts. Each begins with both threads asleep: if other threads use the
/// CPUs all the time, a thread that wakes up soon gets its turn, so that both run at once. A measurement takes 0.3
/// ms, and 10 ms at worst.
const ATTEMPTS: u32 = 5;
const ATTEMPT: Duration = Duration::from_millis(2);
const ASLEEP: Duration = Duration::from_micros(200);
const AWAKE: Duration = Duration::from_micros(600);

/// The fastest of this many batches counts, so that only interruptions of all batches spoil the result.
const BATCHES: u32 = 48;
const ROUND_TRIPS: u32 = 8;

/// More nanoseconds than any machine takes: a longer time means that one of the threads did not run.
const INTERRUPTED: f64 = 2000.0;

impl CacheProbe {
    /// Probes the CPUs that the calling thread may run on.
    pub fn new() -> Self {
        Self::among(&allowed())
    }

    /// Probes these CPUs, which are in ascending order; for example all CPUs of the ranks of a host, if each rank is
    /// bound to its own.
    ///
    /// If the system lists one last-level cache for all, one pair is measured: the first and the last CPU, which are
    /// seldom two threads of one core. If it lists several, a pair across two caches is measured, too, and the slower
    /// pair decides: if ranks are spread over the host, most pairs are across caches, and to assume a shared cache
    /// wrongly costs more than the reverse.
    ///
    /// The threads that measure are bound to their CPUs; the caller stays where it is.
    pub fn among(cpus: &[usize]) -> Self {
        let sysfs = Path::new(SYSFS);
        let pairs = pairs(cpus, |a, b| share_cache(sysfs, a, b));
        let Some(cpus) = pairs.last().copied() else {
            return Self { mode: CacheMode::Shared, evidence: CacheEvidence::OneCpu };
        };
        let measured = pairs.iter().filter_map(|pair| Some((*pair, one_way(*pair)?)));
        if let Some((cpus, nanoseconds)) = measured.max_by(|x, y| x.1.total_cmp(&y.1)) {
            let mode =
                if nanoseconds > NEAR.as_secs_f64() * 1e9 { CacheMode::Separate } else { CacheMode::Shared };
            return Self { mode, evidence: CacheEvidence::Measured { cpus, nanoseconds } };
        }
        match share_cache(sysfs, cpus.0, cpus.1) {
            Some(true) => Self { mode: CacheMode::Shared, evidence: CacheEvidence::Listed { cpus } },
            Some(false) => Self { mode: CacheMode::Separate, evidence: CacheEvidence::Listed { cpus } },
            None => Self { mode: CacheMode::Shared, evidence: CacheEvidence::Unknown },
        }
    }
}

impl Default for CacheProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CacheMode::Shared => "shared",
            CacheMode::Separate => "separate",
        })
    }
}

impl fmt::Display for CacheProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.mode)?;
        match self.evidence {
            CacheEvidence::OneCpu => write!(f, "one cpu)"),
            CacheEvidence::Measured { cpus: (a, b), nanoseconds } => {
                write!(f, "{:.2} us between cpu {a} and {b}, measured)", nanoseconds / 1e3)
            }
            CacheEvidence::Listed { cpus: (a, b) } => {
                let share = if self.mode == CacheMode::Shared { "share a cache" } else { "share no cache" };
                write!(f, "cpu {a} and {b} {share}, listed by the system)")
            }
            CacheEvidence::Unknown => write!(f, "assumed: neither measured nor listed by the system)"),
        }
    }
}

/// Where the system lists CPUs and their caches.
pub(super) const SYSFS: &str = "/sys/devices/system/cpu";

/// How many bytes of last-level cache each of `ranks` ranks of this host has, by the system's list of caches.
pub fn share_of_last_level(ranks: usize) -> usize {
    let (one, all) = last_level(Path::new(SYSFS)).unwrap_or((LAST_LEVEL, LAST_LEVEL));
    one.min(all / ranks.max(1))
}

/// Bytes of one last-level cache, and of all together. All caches are assumed to be like the first CPU's. `None` if
/// there is no third level or higher: a virtual machine may hide it.
pub(super) fn last_level(sysfs: &Path) -> Option<(usize, usize)> {
    let read = |path: PathBuf| std::fs::read_to_string(path).ok();
    let caches = std::fs::read_dir(sysfs.join("cpu0/cache")).ok()?.filter_map(|index| {
        let cache = index.ok()?.path();
        let level: u32 = read(cache.join("level"))?.trim().parse().ok()?;
        let kilobytes: usize = read(cache.join("size"))?.trim().strip_suffix('K')?.parse().ok()?;
        Some((level, kilobytes << 10, cpus_in(&read(cache.join("shared_cpu_list"))?)))
    });
    let (level, one, sharing) = caches.max()?;
    let all = one * cpus_in(&read(sysfs.join("online"))?).div_ceil(sharing.max(1));
    (level >= 3 && all > 0).then_some((one, all))
}

/// The CPUs that the calling thread may run on, in ascending order; empty if the system does not say.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The pairs to measure, the nearest first; see [`CacheProbe::among`].
fn pairs(cpus: &[usize], share: impl Fn(usize, usize) -> Option<bool>) -> Vec<(usize, usize)> {
    let Some((&first, others)) = cpus.split_first() else { return Vec::new() };
    let (within, across): (Vec<usize>, Vec<usize>) =
        others.iter().partition(|other| share(first, **other) != Some(false));
    [within.last(), across.last()].into_iter().flatten().map(|other| (first, *other)).collect()
}

/// Whether the system lists a cache that both CPUs belong to; `None` if it lists none at all.
fn share_cache(sysfs: &Path, a: usize, b: usize) -> Option<bool> {
    let lists: Vec<String> = std::fs::read_dir(sysfs.join(format!("cpu{a}/cache")))
        .ok()?
        .filter_map(|index| std::fs::read_to_string(index.ok()?.path().join("shared_cpu_list")).ok())
        .collect();
    (!lists.is_empty()).then(|| lists.iter().any(|list| lists_cpu(list, b)))
}

/// Whether a list such as `0-3,8` contains the CPU.
fn lists_cpu(list: &str, cpu: usize) -> bool {
    ranges(list).any(|range| range.contains(&cpu))
}

/// How many CPUs such a list contains.
fn cpus_in(list: &str) -> usize {
    ranges(list).map(|range| range.count()).sum()
}

fn ranges(list: &str) -> impl Iterator<Item = RangeInclusive<usize>> + '_ {
    list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    })
}

/// A counter that shares neither its cache line, nor the one that is fetched along with it, with other data.
#[repr(align(128))]
#[derive(Default)]
struct Ball(AtomicU32);

/// Two threads that count the ball up in turn.
struct Game {
    ball: Ball,
    over: AtomicBool,
    start: Instant,
}

impl Game {
    /// Waits until the ball has this count; returns `false` at the deadline. Reads the clock seldom, and does not
    /// pause: both would be measured, too.
    fn wait_for(&self, value: u32, deadline: Instant) -> bool {
        loop {
            if (0..1024).any(|_| self.ball.0.load(Ordering::Acquire) == value) {
                return true;
            }
            if self.over.load(Ordering::Relaxed) || Instant::now() > deadline {
                return false;
            }
        }
    }

    fn pass(&self, value: u32) {
        self.ball.0.store(value, Ordering::Release);
    }

    /// Binds the calling thread to the CPU. Then calls `attempt` with the ball's first count and the deadline of each
    /// attempt, until the game is over.
    fn play(&self, cpu: usize, mut attempt: impl FnMut(u32, Instant)) {
        let mut set = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        if sched_setaffinity(None, &set).is_err() {
            self.over.store(true, Ordering::Relaxed);
        }
        for number in 0..ATTEMPTS {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let wake = self.start + ATTEMPT * number + ASLEEP;
            thread::sleep(wake.saturating_duration_since(Instant::now()));
            attempt(number * 2 * BATCHES * ROUND_TRIPS, wake + AWAKE);
        }
    }

    /// The nanoseconds from this CPU to that of the other side.
    fn serve(&self, cpu: usize) -> Option<f64> {
        let mut best = INTERRUPTED;
        self.play(cpu, |mut count, deadline| {
            for _ in 0..BATCHES {
                let start = Instant::now();
                for _ in 0..ROUND_TRIPS {
                    self.pass(count + 1);
                    count += 2;
                    if !self.wait_for(count, deadline) {
                        return;
                    }
                }
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(2 * ROUND_TRIPS));
            }
            if best < INTERRUPTED {
                self.over.store(true, Ordering::Relaxed);
            }
        });
        (best < INTERRUPTED).then_some(best)
    }

    fn echo(&self, cpu: usize) {
        self.play(cpu, |mut count, deadline| {
            for _ in 0..BATCHES * ROUND_TRIPS {
                if !self.wait_for(count + 1, deadline) {
                    return;
                }
                count += 2;
                self.pass(count);
            }
        });
    }
}

/// The nanoseconds from one CPU to the other. `None` if threads cannot be bound to them, or if other threads use them
/// all the time.
fn one_way((a, b): (usize, usize)) -> Option<f64> {
    let game = Game { ball: Ball::default(), over: AtomicBool::new(false), start: Instant::now() };
    thread::scope(|scope| {
        let side = || thread::Builder::new().name("ringroad-cache".into());
        let echo = side().spawn_scoped(scope, || game.echo(b));
        let serve = side().spawn_scoped(scope, || game.serve(a));
        if echo.is_err() || serve.is_err() {
            game.over.store(true, Ordering::Relaxed);
        }
        serve.ok()?.join().ok()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_the_ends_of_the_first_group_and_of_all() {
        let check = |cpus: &[usize], group: fn(usize) -> usize, want: &[(usize, usize)]| {
            let share = |a, b| Some(group(a) == group(b));
            assert_eq!(pairs(cpus, share), want, "{cpus:?}");
        };
        check(&[], |_| 0, &[]);
        check(&[5], |_| 0, &[]);
        check(&[0, 1, 2, 3], |_| 0, &[(0, 3)]);
        check(&[0, 1, 2, 3], |cpu| cpu / 2, &[(0, 1), (0, 3)]);
        check(&[1, 2], |cpu| cpu / 2, &[(1, 2)]);
        assert_eq!(pairs(&[0, 1, 2], |_, _| None), [(0, 2)]);
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        let named = |list| (0..12usize).filter(|cpu| lists_cpu(list, *cpu)).collect::<Vec<_>>();
        assert_eq!(named("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(named("7"), [7]);
        assert_eq!(named("\n"), [0; 0]);
        assert_eq!(["0-3,8\n", "7", "\n"].map(cpus_in), [5, 1, 0]);
    }

    #[test]
    fn last_level_caches_are_added_up() {
        let sysfs = std::env::temp_dir().join(format!("ringroad-cache-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = sysfs.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(last_level(&sysfs), None);
        for (index, level, size, cpus) in [(0, "1\n", "32K\n", "0\n"), (3, "3\n", "2048K\n", "0-3,8-11\n")] {
            write(&format!("cpu0/cache/index{index}/level"), level);
            write(&format!("cpu0/cache/index{index}/size"), size);
            write(&format!("cpu0/cache/index{index}/shared_cpu_list"), cpus);
        }
        write("cpu0/cache/uevent", "");
        write("online", "0-15\n");
        assert_eq!(last_level(&sysfs), Some((2 << 20, 4 << 20)));
        write("online", "\n");
        assert_eq!(last_level(&sysfs), None);
        write("online", "0-15\n");
        write("cpu0/cache/index3/level", "2\n");
        assert_eq!(last_level(&sysfs), None);
        std::fs::remove_dir_all(&sysfs).unwrap();
        assert!(share_of_last_level(1) >= share_of_last_level(3) && share_of_last_level(3) > 0);
    }

    #[test]
    fn the_evidence_is_printed() {
        let cpus = (0, 1);
        let print = |mode, evidence| CacheProbe { mode, evidence }.to_string();
        let measured = CacheEvidence::Measured { cpus, nanoseconds: 212.0 };
        assert_eq!(print(CacheMode::Separate, measured), "separate (0.21 us between cpu 0 and 1, measured)");
        let listed = CacheEvidence::Listed { cpus };
        assert_eq!(
            print(CacheMode::Shared, listed),
            "shared (cpu 0 and 1 share a cache, listed by the system)"
        );
        assert_eq!(print(CacheMode::Shared, CacheEvidence::OneCpu), "shared (one cpu)");
    }

    #[test]
    fn probing_leaves_the_caller_where_it_is_and_needs_no_cpu_to_exist() {
        let before = allowed();
        let probe = CacheProbe::new();
        assert_eq!(allowed(), before);
        assert_eq!(before.len() == 1, probe.evidence == CacheEvidence::OneCpu, "{probe}");
        let absent = CacheProbe::among(&[before[0], CpuSet::MAX_CPU]);
        assert!(!matches!(absent.evidence, CacheEvidence::Measured { .. }), "{absent}");
    }
}
