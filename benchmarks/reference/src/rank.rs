//! The ranks: processes that wait for orders, run them, time them and verify the results.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::time::Instant;

use crate::allreduce::{Segment, WAYS};
use crate::memory::map;

/// What all ranks do next.
#[derive(Clone, Copy)]
pub struct Order {
    pub in_place: bool,
    pub count: usize,
    pub calls: usize,
    pub way: usize,
    /// Whether to verify the last result.
    pub check: bool,
}

impl Order {
    pub fn to_bytes(self) -> [u8; 40] {
        let numbers = [usize::from(self.in_place), self.count, self.calls, self.way, usize::from(self.check)];
        let mut bytes = [0; 40];
        for (slot, number) in bytes.chunks_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; 40]) -> Order {
        let number = |i: usize| usize::from_ne_bytes(std::array::from_fn(|j| bytes[8 * i + j]));
        Order {
            in_place: number(0) == 1,
            count: number(1),
            calls: number(2),
            way: number(3),
            check: number(4) == 1,
        }
    }
}

/// The ranks' processes, seen from the one that commands them.
pub struct Team {
    /// For every rank, where orders go and where answers come from.
    pub pipes: Vec<(File, File)>,
}

impl Team {
    /// Forks the ranks; vectors have at most `max_count` elements.
    pub fn start(ranks: usize, max_count: usize) -> Team {
        let segment = Segment::new(ranks, max_count);
        let mut pipes = Vec::new();
        for rank in 0..ranks {
            let ((orders, order), (answer, answers)) = (pipe(), pipe());
            // SAFETY: there is one thread only, so that the child may do whatever it likes.
            if unsafe { libc::fork() } == 0 {
                // Else a rank would hold the earlier ranks' pipes open.
                pipes.clear();
                drop((order, answer));
                Rank::new(rank, ranks, max_count, segment).obey(orders, answers);
                std::process::exit(0);
            }
            pipes.push((order, answer));
        }
        Team { pipes }
    }
}

/// (reader, writer)
fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: two places for two descriptors, which become the files'.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0, "{}", std::io::Error::last_os_error());
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

struct Rank {
    rank: usize,
    ranks: usize,
    segment: Segment,
    input: &'static mut [f32],
    output: &'static mut [f32],
}

impl Rank {
    fn new(rank: usize, ranks: usize, max_count: usize, segment: Segment) -> Rank {
        let vector = || {
            // SAFETY: new zeroed memory of this size that is never freed.
            unsafe { std::slice::from_raw_parts_mut(map(max_count * 4, false).cast(), max_count) }
        };
        Rank { rank, ranks, segment, input: vector(), output: vector() }
    }

    fn obey(&mut self, mut orders: File, mut answers: File) {
        let mut bytes = [0; 40];
        while orders.read_exact(&mut bytes).is_ok() {
            let (times, wrong) = self.run(Order::from_bytes(bytes));
            let numbers = std::iter::once(wrong).chain(times);
            let answer: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
            if answers.write_all(&answer).is_err() {
                return;
            }
        }
    }

    /// Nanoseconds of every call, and how many elements of the last result are wrong.
    fn run(&mut self, order: Order) -> (Vec<u64>, u64) {
        let (input, output) = (&mut self.input[..order.count], &mut self.output[..order.count]);
        for (i, value) in (if order.in_place { &mut *output } else { input }).iter_mut().enumerate() {
            *value = (i % 61 + self.rank + 1) as f32;
        }
        self.segment.meet(self.rank);
        let mut times = Vec::with_capacity(order.calls);
        for _ in 0..order.calls {
            let start = Instant::now();
            let input = (!order.in_place).then_some(&self.input[..order.count]);
            WAYS[order.way].allreduce(&mut self.segment, self.rank, input, &mut self.output[..order.count]);
            times.push(start.elapsed().as_nanos() as u64);
        }
        if !order.check {
            return (times, 0);
        }
        // In place every call after the first adds n equal vectors. Exact for powers of two.
        let ranks = self.ranks as f64;
        let repeated = if order.in_place { ranks.powi(order.calls as i32 - 1) } else { 1.0 };
        let tolerance = if self.ranks.is_power_of_two() { 0.0 } else { 2e-7 * order.calls as f64 };
        let wrong = self.output[..order.count].iter().enumerate().filter(|&(i, &value)| {
            let right = ((i % 61) as f64 * ranks + ranks * (ranks + 1.0) / 2.0) * repeated;
            (f64::from(value) - right).abs() > tolerance * right
        });
        let wrong = wrong.count() as u64;
        (times, wrong)
    }
}
