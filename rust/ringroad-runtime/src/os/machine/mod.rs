//! What is known about the machine: the sizes that data is laid out by, what is read or measured when a process
//! starts, and the numbers that were found by measuring.
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

// What follows was found by measuring, on two cores of an AMD EPYC unless the comment names other machines: a virtual
// machine with 1 MiB of second-level cache for each, whose cores drift between sharing a cache and not.

/// CPUs share a cache if they hand over a cache line in less time than this: within a cache it takes 20 to 70 ns,
/// between caches 90 and more; on this machine it drifts between 30 and 130 to 180.
pub(crate) const NEAR: Duration = Duration::from_nanos(90);
/// A look at a channel that takes at most this time finds a cache line that a peer with a shared cache has written:
/// such looks mostly take 30 to 60 ns, or 1 to 30 if ranks share a core; without a shared cache they take 75 to 150,
/// though some are as fast.
pub(crate) const FAST_LOOK: Duration = Duration::from_nanos(70);
/// The most bytes in one message between ranks that share memory; this large because data that was just written is slow
/// to read as long as it is in another core's own cache: 4 MiB in messages of 128 KiB take 1.1 to 1.15 times as long.
pub(crate) const LOCAL_SEGMENT: usize = 512 << 10;
/// The most bytes in one message over a network: in messages of 64 KiB tcp on loopback takes up to 1.3 times as long.
pub(crate) const LONGEST_SEGMENT: usize = 512 << 10;
/// Long vectors are not cut into messages of fewer bytes than this, however slow the network is (nine emulated hosts in
/// a ring of 200 Mbit/s).
pub(crate) const SHORTEST_SEGMENT: usize = 32 << 10;
/// Messages over a network are cut so that its slowest link carries one in this time: the ranks that forward or reduce
/// it then begin sooner; 4 MiB by trivance or swing then take 0.8 to 0.9 times as long as in messages of 512 KiB (nine
/// emulated hosts in a ring of 200 Mbit/s).
pub(crate) const SEGMENT_TIME: Duration = Duration::from_millis(4);
/// If the slowest link carries this many bytes in [`SEND_BUFFER_TIME`] or more, a tcp connection accepts no more than
/// these before it has sent them: messages that others wait for then do not queue behind a long one; 4 MiB over three
/// links of every rank then take 1.03 to 1.06 times as long as simulated instead of 1.13 to 1.26, and 16 MiB as long as
/// without (eight emulated hosts in a hypercube of 100 Mbit/s).
pub(crate) const SEND_BUFFER: usize = 64 << 10;
/// On faster links than that, 1 Gbit/s, the kernel decides how much a tcp connection takes on; chosen, not measured.
pub(crate) const SEND_BUFFER_TIME: Duration = Duration::from_micros(500);
/// How long a message over tcp between emulated hosts keeps a core of their machine busy, at the sender and the
/// receiver together; found from 1 KiB by eight algorithms (seven to nine emulated hosts in rings and a torus of 100
/// Mbit/s).
pub(crate) const EMULATED_MESSAGE: Duration = Duration::from_nanos(5500);
/// Like [`LOCAL_SEGMENT`], if all ranks wait for the messages of one: 1 MiB to four ranks takes 1.6 times as long in
/// messages of 512 KiB.
pub(crate) const LOCAL_BROADCAST_SEGMENT: usize = 128 << 10;
/// From this many bytes on, waiting until other ranks have read the data takes less time than copying it for them.
pub(crate) const LEND: usize = 32 << 10;
/// The most bytes of a vector at a time if all ranks share memory, up to 15 of them: data that others read then stays
/// in the caches; with more ranks their blocks would become too short.
pub(crate) const SHARED_PART: usize = 1 << 20;
/// Work on at least this many bytes takes long enough to wake peers before it.
pub(crate) const AWHILE: usize = 4 << 10;
/// For messages of at least this many bytes it matters whether sender and receiver share a cache, and the time to
/// measure that does not.
pub(crate) const LOOKED_AT: usize = 16 << 10;
/// Messages of at least this many bytes flow through the segment in parts, unless they are in it already; shorter ones
/// are copied whole, and their senders wait for nobody.
pub const LONG: usize = if cfg!(miri) { 5 << 10 } else { 2 << 20 };
/// Bytes of a part of a message that flows through the segment: two parts fit a core's own cache.
pub(crate) const PART: usize = if cfg!(miri) { 1 << 10 } else { 256 << 10 };
/// In collectives, messages of at least this many bytes are copied out of private memory, if plans leave them there.
pub const PRIVATE: usize = 64 << 10;
/// If the vectors of all ranks together have at least this many bytes for each core, the kernel's one copy out of
/// private memory is faster than two copies within the caches.
pub(crate) const COPIED: usize = 4 << 20;
/// Bytes that are combined at a time, so that partial results stay in the first-level cache: this many of the result,
/// and as many of a source; 4 to 16 KiB are equally fast (an AMD EPYC of 2024).
pub(crate) const PIECE: usize = 8192;
/// Scratch memory of at least this many bytes begins half a page away from where the caller's memory begins in its
/// page, at a cache line: copies to a place less than a line further on in its page take 1.3 to 6 times as long (an AMD
/// EPYC, rep movsb).
pub(crate) const APART: usize = 16 << 10;
/// From this many bytes on, which exceed any core's own cache, scratch memory begins at the same place within a cache
/// line as the caller's: copies from line to line take 0.8 to 0.9 times as long; shorter sums take a few hundredths
/// less if one operand begins at a line (an AMD EPYC).
pub(crate) const ALIKE: usize = 1 << 20;
/// Calls of 512 bytes to 1 MiB take turns with this much scratch memory, twice a core's second-level cache: memory that
/// another core has just read must be taken from its cache to be written again, unless it has left both cores' own
/// caches by then; 16 KiB to 256 KiB then take 0.4 to 0.7 times as long, 4 and 8 KiB 0.7 to 0.8 times, on two threads
/// of one core up to a tenth longer.
pub(crate) const SPAN: usize = 2 << 20;
/// How long a waiting thread spins that has a core of its own.
pub(crate) const SPIN_ALONE: Duration = Duration::from_micros(50);
/// A yield that takes longer than this, and than [`SYSTEM_CALLS`] other system calls, has let somebody else run.
pub(crate) const SOMEBODY: Duration = Duration::from_micros(2);
/// A yield that takes longer than this many other system calls, and than [`SOMEBODY`], has let somebody else run.
pub(crate) const SYSTEM_CALLS: u32 = 8;
/// The shortest spin, and the first one after a yield has found nobody else on the core.
pub(crate) const SPIN_LEAST: Duration = Duration::from_micros(1);
/// After this many yields in a row that let somebody run, a thread asks for another core; the number is multiplied by a
/// factor of 1 to 16 that depends on the rank, so that not all ranks move.
pub(crate) const MAX_CONTENDED_YIELDS: u32 = 8;
/// A change of core has helped if nobody else runs on the new core for so long; after that the kernel may have woken
/// another rank there.
pub(crate) const HELPED: Duration = Duration::from_millis(1);
/// How long a thread does not ask for another core after it has asked for one.
pub(crate) const FIRST_STAY: Duration = Duration::from_millis(20);
/// The longest such time: it doubles with each change of core that does not help.
pub(crate) const LONGEST_STAY: Duration = Duration::from_secs(5);
/// How long a thread does not yield after a yield of [`LONG_YIELD`] or more, where there are cores for all ranks.
pub(crate) const FIRST_BACK_OFF: Duration = Duration::from_millis(5);
/// The longest such time: it doubles with each such yield in a row.
pub(crate) const LONGEST_BACK_OFF: Duration = Duration::from_millis(160);
/// A yield that takes longer than this shows that others want the core: ranks that only wait then give it up sooner.
pub(crate) const LONG_YIELD: Duration = Duration::from_micros(1200);
/// In an oversubscribed host, who has not yielded for so long has computed or slept, and may have come back on any
/// core.
pub(crate) const AWAY: Duration = Duration::from_micros(300);
/// A step costs this between ranks of one host that have a core each; `ringroad tune` measures it.
pub(crate) const SHARED_STEP: Duration = Duration::from_nanos(500);
/// Another message of the same step costs this there; `ringroad tune` measures it.
pub(crate) const SHARED_MESSAGE: Duration = Duration::from_nanos(100);
/// What a rank copies in a second there; `ringroad tune` measures it.
pub(crate) const SHARED_COPY: f64 = 55e9;
/// What a rank reduces in a second there, besides the copy that it would make otherwise; `ringroad tune` measures it.
pub(crate) const SHARED_REDUCE: f64 = 250e9;
/// How many bytes of a vector in memory a rank encodes or decodes in a second, where messages have a wire format;
/// `ringroad tune` measures it.
pub(crate) const CODEC: f64 = 15e9;
/// Where ranks share cores, a step costs this besides [`SHARED_STEP`] for every rank of a core but the first: it ends
/// when all have had a turn; `ringroad tune` measures it.
pub(crate) const OVERSUBSCRIBED_STEP: Duration = Duration::from_nanos(2500);
/// A message costs this there: the caches of both ranks have been used by others meanwhile; `ringroad tune` measures
/// it.
pub(crate) const OVERSUBSCRIBED_MESSAGE: Duration = Duration::from_nanos(600);
/// What all ranks of a host copy in a second there; `ringroad tune` measures it.
pub(crate) const OVERSUBSCRIBED_COPY: f64 = 80e9;
/// What a rank reduces in a second there; `ringroad tune` measures it.
pub(crate) const OVERSUBSCRIBED_REDUCE: f64 = 40e9;
/// At least this many bytes of a schedule are read and parsed in a second; schedules that are made faster than that are
/// made again.
pub(crate) const READ_PER_SECOND: f64 = 60e6;

/// What is read and measured on this machine.
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
        }
    }
}
