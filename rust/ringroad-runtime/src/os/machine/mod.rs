//! What is known about the machine: the sizes that data is laid out by, what is read or measured when a process
//! starts, and the numbers that were found by measuring, each with the machine on which. `ringroad info` prints all
//! of them.
//!
//! Numbers of a protocol (the slots of a channel, the bits of a tag) are where they are used.

pub mod cache;

use std::time::Duration;

use serde::Serialize;

use self::cache::{allowed, last_level, CacheEvidence, CacheMode, CacheProbe};

/// Bytes of a cache line. Data that one rank writes and another reads has cache lines of its own.
pub const CACHE_LINE: usize = 64;
/// Bytes of a page. On machines with longer pages, more memory is taken than is asked for.
pub const PAGE: usize = 4096;
/// Bytes of a huge page. Memory of at least this length asks for huge pages: otherwise page faults dominate large
/// transfers.
pub const HUGE_PAGE: usize = 2 << 20;
/// The assumed size of a last-level cache in bytes, if the system does not say.
pub(crate) const LAST_LEVEL: usize = 32 << 20;

/// A number that was found by measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Number {
    /// Its name in the code.
    pub name: &'static str,
    /// Its value, in `unit`.
    pub value: f64,
    /// Bytes, seconds, bytes per second, or times.
    pub unit: &'static str,
    /// What it decides, and why it has this value.
    pub help: &'static str,
    /// Where it was measured.
    pub measured: &'static str,
}

/// The machine on which most numbers were measured. Its CPUs drift between sharing a cache and not.
const TWO_CORES: &str = "two cores of an AMD EPYC, a virtual machine; 1 MiB of second-level cache each";
const EIGHT_HOSTS: &str = "eight emulated hosts in a hypercube of 100 Mbit/s";
const NINE_HOSTS: &str = "nine emulated hosts in a ring of 200 Mbit/s";

const SEVERAL_NETWORKS: &str = "seven, eight and nine emulated hosts in rings and a torus of 100 Mbit/s, on two cores of a virtual machine";

/// The types of numbers, with their units.
trait Quantity {
    const UNIT: &'static str;

    fn number(self) -> f64;
}

impl Quantity for usize {
    const UNIT: &'static str = "bytes";
    fn number(self) -> f64 {
        self as f64
    }
}

impl Quantity for Duration {
    const UNIT: &'static str = "seconds";
    fn number(self) -> f64 {
        self.as_secs_f64()
    }
}

impl Quantity for u32 {
    const UNIT: &'static str = "times";
    fn number(self) -> f64 {
        f64::from(self)
    }
}

impl Quantity for f64 {
    const UNIT: &'static str = "bytes per second";
    fn number(self) -> f64 {
        self
    }
}

fn unit<Q: Quantity>(_: Q) -> &'static str {
    Q::UNIT
}

macro_rules! numbers {
    ($($visible:vis $name:ident: $type:ty = $value:expr, on $measured:expr, $help:literal;)*) => {
        $(#[doc = $help] $visible const $name: $type = $value;)*

        /// All numbers.
        pub fn numbers() -> Vec<Number> {
            vec![$(Number {
                name: stringify!($name),
                value: $name.number(),
                unit: unit($name),
                help: $help,
                measured: $measured,
            }),*]
        }
    };
}

numbers! {
    pub(crate) NEAR: Duration = Duration::from_nanos(90), on TWO_CORES,
        "CPUs share a cache if they hand over a cache line in less time than this: within a cache it takes 20 to 70 ns, between caches 90 and more; on this machine it drifts between 30 and 130 to 180";
    pub(crate) FAST_LOOK: Duration = Duration::from_nanos(70), on TWO_CORES,
        "a look at a channel that takes at most this time finds a cache line that a peer with a shared cache has written: such looks mostly take 30 to 60 ns, or 1 to 30 if ranks share a core; without a shared cache they take 75 to 150, though some are as fast";
    pub(crate) LOCAL_SEGMENT: usize = 512 << 10, on TWO_CORES,
        "the most bytes in one message between ranks that share memory; this large because data that was just written is slow to read as long as it is in another core's own cache: 4 MiB in messages of 128 KiB take 1.1 to 1.15 times as long";
    pub(crate) LONGEST_SEGMENT: usize = 512 << 10, on TWO_CORES,
        "the most bytes in one message over a network: in messages of 64 KiB tcp on loopback takes up to 1.3 times as long";
    pub(crate) SHORTEST_SEGMENT: usize = 32 << 10, on NINE_HOSTS,
        "long vectors are not cut into messages of fewer bytes than this, however slow the network is";
    pub(crate) SEGMENT_TIME: Duration = Duration::from_millis(4), on NINE_HOSTS,
        "messages over a network are cut so that its slowest link carries one in this time: the ranks that forward or reduce it then begin sooner; 4 MiB by trivance or swing then take 0.8 to 0.9 times as long as in messages of 512 KiB";
    pub(crate) SEND_BUFFER: usize = 64 << 10, on EIGHT_HOSTS,
        "if the slowest link carries this many bytes in SEND_BUFFER_TIME or more, a tcp connection accepts no more than these before it has sent them: messages that others wait for then do not queue behind a long one; 4 MiB over three links of every rank then take 1.03 to 1.06 times as long as simulated instead of 1.13 to 1.26, and 16 MiB as long as without";
    pub(crate) SEND_BUFFER_TIME: Duration = Duration::from_micros(500), on EIGHT_HOSTS,
        "on faster links than that, 1 Gbit/s, the kernel decides how much a tcp connection takes on; chosen, not measured";
    pub(crate) EMULATED_MESSAGE: Duration = Duration::from_nanos(5500), on SEVERAL_NETWORKS,
        "how long a message over tcp between emulated hosts keeps a core of their machine busy, at the sender and the receiver together; found from 1 KiB by eight algorithms";
    pub(crate) LOCAL_BROADCAST_SEGMENT: usize = 128 << 10, on TWO_CORES,
        "like LOCAL_SEGMENT, if all ranks wait for the messages of one: 1 MiB to four ranks takes 1.6 times as long in messages of 512 KiB";
    pub(crate) LEND: usize = 32 << 10, on TWO_CORES,
        "from this many bytes on, waiting until other ranks have read the data takes less time than copying it for them";
    pub(crate) SHARED_PART: usize = 1 << 20, on TWO_CORES,
        "the most bytes of a vector at a time if all ranks share memory, up to 15 of them: data that others read then stays in the caches; with more ranks their blocks would become too short";
    pub(crate) AWHILE: usize = 4 << 10, on TWO_CORES,
        "work on at least this many bytes takes long enough to wake peers before it";
    pub(crate) LOOKED_AT: usize = 16 << 10, on TWO_CORES,
        "for messages of at least this many bytes it matters whether sender and receiver share a cache, and the time to measure that does not";
    pub LONG: usize = if cfg!(miri) { 5 << 10 } else { 2 << 20 }, on TWO_CORES,
        "messages of at least this many bytes flow through the segment in parts, unless they are in it already; shorter ones are copied whole, and their senders wait for nobody";
    pub(crate) PART: usize = if cfg!(miri) { 1 << 10 } else { 256 << 10 }, on TWO_CORES,
        "bytes of a part of a message that flows through the segment: two parts fit a core's own cache";
    pub PRIVATE: usize = 64 << 10, on TWO_CORES,
        "in collectives, messages of at least this many bytes are copied out of private memory, if plans leave them there";
    pub(crate) COPIED: usize = 4 << 20, on TWO_CORES,
        "if the vectors of all ranks together have at least this many bytes for each core, the kernel's one copy out of private memory is faster than two copies within the caches";
    pub(crate) PIECE: usize = 8192, on "an AMD EPYC of 2024",
        "bytes that are combined at a time, so that partial results stay in the first-level cache: this many of the result, and as many of a source; 4 to 16 KiB are equally fast";
    pub(crate) APART: usize = 16 << 10, on "an AMD EPYC (rep movsb)",
        "scratch memory of at least this many bytes begins half a page away from where the caller's memory begins in its page, at a cache line: copies to a place less than a line further on in its page take 1.3 to 6 times as long";
    pub(crate) ALIKE: usize = 1 << 20, on "an AMD EPYC",
        "from this many bytes on, which exceed any core's own cache, scratch memory begins at the same place within a cache line as the caller's: copies from line to line take 0.8 to 0.9 times as long; shorter sums take a few hundredths less if one operand begins at a line";
    pub(crate) SPAN: usize = 2 << 20, on TWO_CORES,
        "calls of 512 bytes to 1 MiB take turns with this much scratch memory, twice a core's second-level cache: memory that another core has just read must be taken from its cache to be written again, unless it has left both cores' own caches by then; 16 KiB to 256 KiB then take 0.4 to 0.7 times as long, 4 and 8 KiB 0.7 to 0.8 times, on two threads of one core up to a tenth longer";
    pub(crate) SPIN_ALONE: Duration = Duration::from_micros(50), on TWO_CORES,
        "how long a waiting thread spins that has a core of its own";
    pub(crate) SOMEBODY: Duration = Duration::from_micros(2), on TWO_CORES,
        "a yield that takes longer than this, and than SYSTEM_CALLS other system calls, has let somebody else run";
    pub(crate) SYSTEM_CALLS: u32 = 8, on TWO_CORES,
        "a yield that takes longer than this many other system calls, and than SOMEBODY, has let somebody else run";
    pub(crate) SPIN_LEAST: Duration = Duration::from_micros(1), on TWO_CORES,
        "the shortest spin, and the first one after a yield has found nobody else on the core";
    pub(crate) MAX_CONTENDED_YIELDS: u32 = 8, on TWO_CORES,
        "after this many yields in a row that let somebody run, a thread asks for another core; the number is multiplied by a factor of 1 to 16 that depends on the rank, so that not all ranks move";
    pub(crate) HELPED: Duration = Duration::from_millis(1), on TWO_CORES,
        "a change of core has helped if nobody else runs on the new core for so long; after that the kernel may have woken another rank there";
    pub(crate) FIRST_STAY: Duration = Duration::from_millis(20), on TWO_CORES,
        "how long a thread does not ask for another core after it has asked for one";
    pub(crate) LONGEST_STAY: Duration = Duration::from_secs(5), on TWO_CORES,
        "the longest such time: it doubles with each change of core that does not help";
    pub(crate) FIRST_BACK_OFF: Duration = Duration::from_millis(5), on TWO_CORES,
        "how long a thread does not yield after a yield of LONG_YIELD or more, where there are cores for all ranks";
    pub(crate) LONGEST_BACK_OFF: Duration = Duration::from_millis(160), on TWO_CORES,
        "the longest such time: it doubles with each such yield in a row";
    pub(crate) LONG_YIELD: Duration = Duration::from_micros(1200), on TWO_CORES,
        "a yield that takes longer than this shows that others want the core: ranks that only wait then give it up sooner";
    pub(crate) AWAY: Duration = Duration::from_micros(300), on TWO_CORES,
        "in an oversubscribed host, who has not yielded for so long has computed or slept, and may have come back on any core";
    pub(crate) SHARED_STEP: Duration = Duration::from_nanos(500), on TWO_CORES,
        "a step costs this between ranks of one host that have a core each; `ringroad tune` measures it";
    pub(crate) SHARED_MESSAGE: Duration = Duration::from_nanos(100), on TWO_CORES,
        "another message of the same step costs this there; `ringroad tune` measures it";
    pub(crate) SHARED_COPY: f64 = 55e9, on TWO_CORES,
        "what a rank copies in a second there; `ringroad tune` measures it";
    pub(crate) SHARED_REDUCE: f64 = 250e9, on TWO_CORES,
        "what a rank reduces in a second there, besides the copy that it would make otherwise; `ringroad tune` measures it";
    pub(crate) CODEC: f64 = 15e9, on TWO_CORES,
        "how many bytes of a vector in memory a rank encodes or decodes in a second, where messages have a wire format; `ringroad tune` measures it";
    pub(crate) OVERSUBSCRIBED_STEP: Duration = Duration::from_nanos(2500), on TWO_CORES,
        "where ranks share cores, a step costs this besides SHARED_STEP for every rank of a core but the first: it ends when all have had a turn; `ringroad tune` measures it";
    pub(crate) OVERSUBSCRIBED_MESSAGE: Duration = Duration::from_nanos(600), on TWO_CORES,
        "a message costs this there: the caches of both ranks have been used by others meanwhile; `ringroad tune` measures it";
    pub(crate) OVERSUBSCRIBED_COPY: f64 = 80e9, on TWO_CORES,
        "what all ranks of a host copy in a second there; `ringroad tune` measures it";
    pub(crate) OVERSUBSCRIBED_REDUCE: f64 = 40e9, on TWO_CORES,
        "what a rank reduces in a second there; `ringroad tune` measures it";
    pub(crate) READ_PER_SECOND: f64 = 60e6, on TWO_CORES,
        "at least this many bytes of a schedule are read and parsed in a second; schedules that are made faster than that are made again";
}

/// What is read and measured on this machine, and the table of numbers.
#[derive(Debug, Serialize)]
pub struct MachineReport {
    /// The CPUs that this thread may run on.
    pub cpus: Vec<usize>,
    /// `shared` if these CPUs share a cache, `separate` if they do not, `single` if there is only one.
    pub caches: &'static str,
    /// How long the CPUs take to hand over a cache line; `None` if that was not measured.
    pub nanoseconds: Option<f64>,
    /// Both in words, and how they are known.
    pub distance: String,
    /// Bytes of one last-level cache, and of all together; `None` if the system does not list them.
    pub last_level: Option<(usize, usize)>,
    /// [`CACHE_LINE`].
    pub cache_line: usize,
    /// [`PAGE`].
    pub page: usize,
    /// [`HUGE_PAGE`].
    pub huge_page: usize,
    /// Numbers that were measured on other machines.
    pub numbers: Vec<Number>,
}

impl MachineReport {
    /// Reads and measures all of it; measuring takes a few milliseconds.
    pub fn detect() -> MachineReport {
        let probe = CacheProbe::new();
        MachineReport {
            cpus: allowed(),
            caches: match (probe.evidence, probe.mode) {
                (CacheEvidence::OneCpu, _) => "single",
                (_, CacheMode::Shared) => "shared",
                (_, CacheMode::Separate) => "separate",
            },
            nanoseconds: match probe.evidence {
                CacheEvidence::Measured { nanoseconds, .. } => Some(nanoseconds),
                _ => None,
            },
            distance: probe.to_string(),
            last_level: last_level(cache::SYSFS.as_ref()),
            cache_line: CACHE_LINE,
            page: PAGE,
            huge_page: HUGE_PAGE,
            numbers: numbers(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_their_units() {
        let numbers = numbers();
        let find = |name| *numbers.iter().find(|number: &&Number| number.name == name).unwrap();
        assert_eq!((find("LEND").value, find("LEND").unit), (32768.0, "bytes"));
        assert_eq!((find("NEAR").value, find("NEAR").unit), (90e-9, "seconds"));
        assert!(numbers.iter().all(|number| !number.help.is_empty() && !number.measured.is_empty()));
    }
}
