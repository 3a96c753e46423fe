//! Measures what [`Stores::for_copy`] decides: one thread writes a buffer that another thread, on another CPU, has
//! just read and reads again. `cargo run --release -p ringroad-runtime --example stores`
//!
//! Prints median times in microseconds, for writing and until the data has been read, with plain and with streaming
//! stores in turn.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringroad_runtime::kernels::{copy, Stores};
use ringroad_runtime::os::machine::cache::{allowed, CacheProbe};
use rustix::thread::{sched_setaffinity, CpuSet};

const KINDS: [Stores; 2] = [Stores::Plain, Stores::Streaming];

fn main() {
    let cpus = allowed();
    let [first, .., last] = cpus[..] else { return println!("one CPU only: nobody to read") };
    println!("{:>9} {:>32} {:>32}", "", "write", "write and read");
    println!("{:>9}{}", "KiB", format!("{:>11} {:>10} {:>10}", "plain", "streaming", "ratio").repeat(2));
    for bytes in (12..=25).map(|bits| 1usize << bits) {
        let probe = CacheProbe::among(&cpus);
        let [plain, streaming] = measure(bytes, first, last);
        print!("{:>9}", bytes >> 10);
        for (plain, streaming) in [(plain.0, streaming.0), (plain.1, streaming.1)] {
            print!("{plain:>11.2} {streaming:>10.2} {:>10.2}", plain / streaming);
        }
        println!("   {probe}: {:?}", Stores::for_copy(bytes, probe.mode));
    }
}

/// The microseconds for writing, and for writing and reading, with each kind of stores.
fn measure(bytes: usize, writer: usize, reader: usize) -> [(f64, f64); 2] {
    let source = vec![1u64; bytes / 8];
    let shared: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::default()).collect();
    let turn = AtomicU32::new(0);
    let rounds = ((64 << 20) / bytes).clamp(12, 400) as u32 * KINDS.len() as u32;
    let mut times = [Vec::new(), Vec::new()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            bind(reader);
            for round in 0..rounds {
                wait_for(&turn, 2 * round + 1);
                black_box(
                    shared.iter().fold(0, |sum: u64, word| sum.wrapping_add(word.load(Ordering::Relaxed))),
                );
                turn.store(2 * round + 2, Ordering::Release);
            }
        });
        bind(writer);
        for round in 0..rounds {
            let kind = round as usize % KINDS.len();
            let start = Instant::now();
            // SAFETY: both hold this many bytes, and the reader waits for its turn.
            unsafe { copy(shared.as_ptr().cast_mut().cast(), source.as_ptr().cast(), bytes, KINDS[kind]) };
            let written = start.elapsed();
            turn.store(2 * round + 1, Ordering::Release);
            wait_for(&turn, 2 * round + 2);
            times[kind].push((written, start.elapsed()));
        }
    });
    times.map(|times| {
        let (written, read): (Vec<_>, Vec<_>) = times.into_iter().skip(3).unzip();
        (median(written), median(read))
    })
}

fn wait_for(turn: &AtomicU32, value: u32) {
    while turn.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}

fn bind(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("this CPU is allowed");
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
