//! A plain allreduce over shared memory without any library: what this machine allows, for benchmarks to compare with.
//!
//! `reference RANKS MAX_BYTES` forks the ranks and obeys lines of standard input, until it ends:
//!
//! - `tune in|out BYTES` measures all ways to do it and keeps the fastest; it answers with its name;
//! - `burst in|out BYTES CALLS` sums float32 vectors CALLS times; it answers `WRONG ns ns ...`, rank after rank.
//!
//! Between commands the ranks block in `read`.
//!
//! All memory asks for huge pages, as NumPy's large arrays do.

mod allreduce;
mod memory;
mod rank;

use std::fs::File;
use std::io::{BufRead, Read, Write};

use allreduce::WAYS;
use rank::{Order, Team};

const TUNE_CALLS: usize = 8;
const TUNE_ROUNDS: usize = 3;
/// Elements of vectors that take long.
const LONG: usize = 1 << 22;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ranks, bytes] => serve(number(ranks), number(bytes)),
        _ => fail("usage: reference RANKS MAX_BYTES"),
    }
}

fn serve(ranks: usize, max_bytes: usize) {
    let team = Team::start(ranks, max_bytes / 4);
    let mut runner = Runner { team, ways: [0; 2] };
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap_or_else(|error| fail(&format!("standard input: {error}")));
        let answer = match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["tune", place, bytes] => runner.tune(place == "in", number(bytes) / 4),
            ["burst", place, bytes, calls] => runner.burst(place == "in", number(bytes) / 4, number(calls)),
            _ => fail(&format!("no command: {line:?}")),
        };
        println!("{answer}");
    }
}

struct Runner {
    team: Team,
    /// The fastest of [`WAYS`] out of place and in place, as far as is known.
    ways: [usize; 2],
}

impl Runner {
    fn tune(&mut self, in_place: bool, count: usize) -> String {
        let (calls, rounds) = if count > LONG { (1, 1) } else { (TUNE_CALLS, TUNE_ROUNDS) };
        let mut best = vec![u64::MAX; WAYS.len()];
        for round in 0..=rounds {
            let so_far = best.iter().min().map_or(u64::MAX, |&least| least.saturating_mul(2));
            for index in (0..WAYS.len()).filter(|&way| WAYS[way].fits(count)) {
                // Ways that are out of the question get no second chance, except the first, which found cold memory.
                if round > 0 && index > 0 && best[index] > so_far {
                    continue;
                }
                let (times, _) = self.run(Order { in_place, count, calls, way: index, check: false });
                best[index] = best[index].min(times.chunks(calls).map(median).max().unwrap_or(u64::MAX));
            }
        }
        let way = (0..WAYS.len()).min_by_key(|&way| best[way]).unwrap_or(0);
        self.ways[usize::from(in_place)] = way;
        WAYS[way].to_string()
    }

    fn burst(&mut self, in_place: bool, count: usize, calls: usize) -> String {
        let (times, wrong) =
            self.run(Order { in_place, count, calls, way: self.ways[usize::from(in_place)], check: true });
        let times: Vec<String> = times.iter().map(u64::to_string).collect();
        format!("{wrong} {}", times.join(" "))
    }

    /// Nanoseconds of every call of every rank, and how many elements were wrong.
    fn run(&mut self, order: Order) -> (Vec<u64>, u64) {
        for (orders, _) in &mut self.team.pipes {
            orders
                .write_all(&order.to_bytes())
                .unwrap_or_else(|error| fail(&format!("a rank is gone: {error}")));
        }
        let (mut times, mut wrong) = (Vec::new(), 0);
        for (_, answers) in &mut self.team.pipes {
            wrong += read_number(answers);
            times.extend((0..order.calls).map(|_| read_number(answers)));
        }
        (times, wrong)
    }
}

fn read_number(pipe: &mut File) -> u64 {
    let mut bytes = [0; 8];
    pipe.read_exact(&mut bytes).unwrap_or_else(|error| fail(&format!("a rank is gone: {error}")));
    u64::from_ne_bytes(bytes)
}

fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| fail(&format!("{text:?} is not a number")))
}

fn fail(message: &str) -> ! {
    eprintln!("reference: {message}");
    std::process::exit(2);
}
