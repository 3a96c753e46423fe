//! How far apart the first two CPUs are: the time in which a cache line travels from one to the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Longer than this, one way, means that the CPUs share no cache. Such that do take 13 to 35, others 140 to 230.
const FAR_NANOSECONDS: f64 = 90.0;
const TRIALS: usize = 200;
const TURNS: u64 = 200;

/// `NANOSECONDS near|far`, one way; `0 single` on one CPU.
pub fn report() -> String {
    let cpus = allowed();
    let [first, second, ..] = cpus[..] else { return "0 single".to_owned() };
    let nanoseconds = one_way(first, second);
    format!("{nanoseconds:.1} {}", if nanoseconds > FAR_NANOSECONDS { "far" } else { "near" })
}

/// The fastest quarter's end: others use the CPUs too.
fn one_way(first: usize, second: usize) -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    static BALL: Line = Line(AtomicU64::new(0));
    let last = 2 * TURNS * TRIALS as u64;
    let other = thread::spawn(move || {
        pin(second);
        for turn in (1..last).step_by(2) {
            wait(&BALL.0, turn);
            BALL.0.store(turn + 1, Ordering::Release);
        }
    });
    pin(first);
    let mut times = Vec::new();
    for trial in 0..TRIALS as u64 {
        let start = Instant::now();
        for turn in (2 * TURNS * trial..2 * TURNS * (trial + 1)).step_by(2) {
            wait(&BALL.0, turn);
            BALL.0.store(turn + 1, Ordering::Release);
        }
        times.push(start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64);
    }
    other.join().expect("the other thread only counts");
    times.sort_by(f64::total_cmp);
    times[TRIALS / 4]
}

fn wait(ball: &AtomicU64, turn: u64) {
    let mut spins = 0u32;
    while ball.load(Ordering::Acquire) != turn {
        std::hint::spin_loop();
        spins += 1;
        if spins > 20_000 {
            thread::yield_now();
        }
    }
}

fn allowed() -> Vec<usize> {
    // SAFETY: a set of CPUs is plain bits, and the call gets its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: the index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

fn pin(cpu: usize) {
    // SAFETY: as above; concerns the calling thread only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
