//! Writes the table of the topology finder anew:
//!
//! ```text
//! cargo run --release -p ringroad-lab --example bases > rust/ringroad-lab/src/finder/bases.zlib
//! ```
//!
//! Takes about half an hour of one core, divided by the cores that there are.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use ringroad_lab::finder::{compressed, lines, pruned, TABLE_RANKS};

fn main() -> io::Result<()> {
    let next = AtomicUsize::new(3);
    let table = Mutex::new(vec![String::new(); TABLE_RANKS + 1]);
    let work = || loop {
        let ranks = next.fetch_add(1, Ordering::Relaxed);
        if ranks > TABLE_RANKS {
            return;
        }
        let own = lines(ranks);
        table.lock().unwrap()[ranks] = own;
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    io::stdout().write_all(&compressed(&pruned(&table.into_inner().unwrap().concat())))
}
