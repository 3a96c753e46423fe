//! A channel carries messages from one rank to another. It is a ring of slots that only the sender writes, and two
//! counters that only the receiver writes. Each side keeps its own position private, so there are no locks.
//!
//! A slot is free again when the receiver has taken its content. The memory that a message names is free when the
//! receiver has released it. Both counters only grow, and mean "all before this one".
//!
//! A release before older descriptors are released is reported by a descriptor of its own, since a send must not wait for
//! other sends.
//!
//! A rank that is about to block sets its [`Doorbell`] and then polls once more. A rank that has put something reads the
//! doorbell afterwards. Both have a full fence in between, so that one of them sees what the other has done.

use crate::os::machine::cache::CacheMode;
use crate::os::sync::{fence, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// How many descriptors a channel holds before the receiver has taken any.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Messages of at most this many bytes travel within the slot.
pub(super) const INLINE: usize = 32;

/// A message, or the place where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(super) struct Descriptor {
    /// A [`crate::transport::Tag`].
    pub tag: u64,
    /// The length in bytes, below the code of the [`DescriptorForm`].
    length: u64,
    /// Where the message lies; its meaning depends on the form.
    pub place: u64,
    /// The message itself, if it is short.
    pub inline: [u64; INLINE / 8],
}

/// What a descriptor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DescriptorForm {
    /// The message itself.
    Inline,
    /// An offset in the sender's segment.
    Segment,
    /// No message: the descriptor of this number in the opposite channel has been released before older ones.
    Release,
    /// The first part of a long message, at an offset in the sender's segment. The length is that of the whole
    /// message.
    Flow,
    /// Another part of a long message. The tag is the number of the first part's descriptor.
    Part,
    /// An address in the sender's private memory.
    Cma,
    /// None of these: the sender has made a mistake.
    Unknown,
}

/// The bits of `Descriptor::length` that hold the length in bytes.
const LENGTH: u64 = (1 << FORM) - 1;
/// The lowest bit of `Descriptor::length` that belongs to the form.
const FORM: u32 = 61;

impl Descriptor {
    pub fn new(tag: u64, form: DescriptorForm, bytes: usize) -> Descriptor {
        Descriptor { tag, length: bytes as u64 | (form as u64) << FORM, ..Descriptor::default() }
    }

    /// A descriptor whose length may name no form.
    #[cfg(test)]
    pub fn with_length(tag: u64, length: u64) -> Descriptor {
        Descriptor { tag, length, ..Descriptor::default() }
    }

    pub fn bytes(&self) -> usize {
        (self.length & LENGTH) as usize
    }

    pub fn form(&self) -> DescriptorForm {
        match self.length >> FORM {
            0 => DescriptorForm::Inline,
            1 => DescriptorForm::Segment,
            2 => DescriptorForm::Release,
            3 => DescriptorForm::Flow,
            4 => DescriptorForm::Part,
            5 => DescriptorForm::Cma,
            _ => DescriptorForm::Unknown,
        }
    }
}

/// One cache line.
#[repr(C, align(64))]
struct DescriptorSlot {
    descriptor: UnsafeCell<Descriptor>,
    /// The number of the descriptor in this slot, plus one, modulo 2^32.
    number: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<DescriptorSlot>() == crate::os::machine::CACHE_LINE);

/// The part that the sender writes, in the sender's segment.
#[repr(C)]
pub(super) struct DescriptorChannel {
    slots: [DescriptorSlot; SLOTS],
}

/// The part that the receiver writes, in the receiver's segment. All descriptors before these numbers have been ...
#[repr(C, align(64))]
pub(super) struct Counters {
    /// ... taken out of their slots.
    taken: AtomicU64,
    /// ... released.
    released: AtomicU64,
    /// Whether the ranks share a cache, as the receiver has measured it; 0 while that is unknown.
    distance: AtomicU32,
    /// Whether the channel in the opposite direction, which lies in the same segment, has memory.
    opened: AtomicU32,
}

/// Whether a rank is about to block; in its own segment.
#[repr(C, align(64))]
pub(super) struct Doorbell {
    asleep: AtomicU32,
}

/// Whether and how a rank has ended; in its own segment.
#[repr(C, align(64))]
pub(super) struct SegmentGoodbye {
    said: AtomicU32,
}

/// How a rank has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ChannelEnd {
    Closed = 1,
    Aborted,
    Dropped,
}

// SAFETY: a slot's descriptor is written by the sender only while the slot is free, which `Counters::taken` says. The
// receiver reads it only while it is full, which `number` says. Both numbers are acquired before the access and
// released after it.
unsafe impl Sync for DescriptorChannel {}

impl DescriptorChannel {
    #[cfg(test)]
    pub fn new() -> DescriptorChannel {
        let slot = |_| DescriptorSlot {
            descriptor: UnsafeCell::new(Descriptor::default()),
            number: AtomicU32::new(0),
        };
        DescriptorChannel { slots: std::array::from_fn(slot) }
    }

    /// Puts descriptor `number` into its slot, which must be free. Only the sender may call this, with consecutive
    /// numbers.
    #[inline]
    pub fn put(&self, number: u64, descriptor: &Descriptor) {
        let slot = &self.slots[number as usize % SLOTS];
        // SAFETY: the caller is the only writer, and nobody reads a free slot.
        slot.descriptor.with_mut(|place| unsafe { *place = *descriptor });
        slot.number.store(mark(number), Ordering::Release);
    }

    /// Descriptor `number`, if it is there. Only the receiver may call this, with consecutive numbers. Afterwards it
    /// frees the slot with [`Counters::free_slots`].
    #[inline]
    pub fn get(&self, number: u64) -> Option<Descriptor> {
        // SAFETY: the slot is full, and the sender leaves it alone until it is free.
        self.full(number).map(|descriptor| descriptor.with(|place| unsafe { *place }))
    }

    /// The form and the tag of descriptor `number`, if it is there. For the receiver, as [`DescriptorChannel::get`].
    #[inline]
    pub fn peek(&self, number: u64) -> Option<(DescriptorForm, u64)> {
        // SAFETY: as above.
        self.full(number)
            .map(|descriptor| descriptor.with(|place| unsafe { ((*place).form(), (*place).tag) }))
    }

    #[inline]
    fn full(&self, number: u64) -> Option<&UnsafeCell<Descriptor>> {
        self.has(number).then(|| &self.slots[number as usize % SLOTS].descriptor)
    }

    /// Whether descriptor `number` is there.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        self.slots[number as usize % SLOTS].number.load(Ordering::Acquire) == mark(number)
    }
}

/// The value of `DescriptorSlot::number` in the slot that holds descriptor `number`.
#[inline]
fn mark(number: u64) -> u32 {
    (number as u32).wrapping_add(1)
}

/// Whether the receiver has to wake the sender after it took descriptor `number`. A sender that found the channel full may
/// have blocked. It read the counter at some value, and exactly one multiple of [`SLOTS`] is above that value and not
/// above the number of descriptors that it has put. The receiver rings after the counter has reached that multiple, so
/// that one of the two sees the other.
#[inline]
pub(super) fn makes_room(number: u64) -> bool {
    (number + 1).is_multiple_of(SLOTS as u64)
}

impl Counters {
    #[cfg(test)]
    pub fn new() -> Counters {
        let (taken, released) = (AtomicU64::new(0), AtomicU64::new(0));
        Counters { taken, released, distance: AtomicU32::new(0), opened: AtomicU32::new(0) }
    }

    /// Records that the slots of all descriptors before `number` are free.
    #[inline]
    pub fn free_slots(&self, number: u64) {
        self.taken.store(number, Ordering::Release);
    }

    /// Records that the memory of all descriptors before `number` has been read.
    #[inline]
    pub fn release(&self, number: u64) {
        self.released.store(number, Ordering::Release);
    }

    /// Tells the sender whether the two ranks share a cache.
    pub fn tell_distance(&self, mode: CacheMode) {
        self.distance.store(1 + u32::from(mode == CacheMode::Separate), Ordering::Relaxed);
    }

    /// Whether they share a cache, as the receiver has told; `None` while that is unknown.
    pub fn distance(&self) -> Option<CacheMode> {
        match self.distance.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(CacheMode::Shared),
            _ => Some(CacheMode::Separate),
        }
    }

    /// Tells the peer that it finds a channel from the owner of this segment from now on.
    pub fn open(&self) {
        self.opened.store(1, Ordering::Release);
    }

    /// Whether it does. Until then, reading the channel would take memory.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    #[inline]
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }
}

impl Doorbell {
    #[cfg(test)]
    pub fn new() -> Doorbell {
        Doorbell { asleep: AtomicU32::new(0) }
    }

    /// The owner calls this before it polls for the last time and blocks. `releases`: it waits for releases or free
    /// slots, too.
    pub fn announce_sleep(&self, releases: bool) {
        self.asleep.store(1 + u32::from(releases), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner no longer blocks.
    pub fn announce_awake(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// A rank calls this after it has put descriptors, released some or freed slots, and before it reads the doorbells of the
    /// ranks concerned.
    #[inline]
    pub fn before_look() {
        fence(Ordering::SeqCst);
    }

    /// Whether the owner has to be woken; to be called after [`Doorbell::before_look`]. `released`: no descriptor has been
    /// put, only memory released or slots freed.
    #[inline]
    pub fn is_asleep(&self, released: bool) -> bool {
        self.asleep.load(Ordering::Relaxed) > u32::from(released)
    }
}

impl SegmentGoodbye {
    #[cfg(all(test, loom))]
    pub fn new() -> SegmentGoodbye {
        SegmentGoodbye { said: AtomicU32::new(0) }
    }

    /// The owner calls this after its last descriptor.
    pub fn announce_end(&self, end: ChannelEnd) {
        self.said.store(end as u32, Ordering::Release);
    }

    /// How the owner has ended, or `None` while it has not. After an end no more descriptors come.
    #[inline]
    pub fn said(&self) -> Option<ChannelEnd> {
        match self.said.load(Ordering::Acquire) {
            0 => None,
            1 => Some(ChannelEnd::Closed),
            2 => Some(ChannelEnd::Aborted),
            _ => Some(ChannelEnd::Dropped),
        }
    }
}

/// With threads of the standard library; Miri and ThreadSanitizer watch them (`make check-memory`).
#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn descriptor(number: u64) -> Descriptor {
        let mut descriptor = Descriptor::new(number, DescriptorForm::Segment, number as usize);
        descriptor.inline = [number; INLINE / 8];
        descriptor
    }

    #[test]
    fn descriptors_say_what_they_are() {
        for bytes in [0, 1, INLINE, LENGTH as usize] {
            for form in [
                DescriptorForm::Inline,
                DescriptorForm::Segment,
                DescriptorForm::Release,
                DescriptorForm::Flow,
                DescriptorForm::Part,
                DescriptorForm::Cma,
            ] {
                let descriptor = Descriptor::new(7, form, bytes);
                assert_eq!((descriptor.tag, descriptor.form(), descriptor.bytes()), (7, form, bytes));
            }
        }
    }

    #[test]
    fn slots_are_used_again() {
        // The slots' numbers have 32 bits and wrap around.
        for first in [0, (1 << 32) - 3 * SLOTS as u64, (1 << 33) - 2 * SLOTS as u64] {
            let channel = DescriptorChannel::new();
            for number in first..first + 5 * SLOTS as u64 {
                assert_eq!(channel.get(number), None, "{number}");
                channel.put(number, &descriptor(number));
                assert_eq!(channel.get(number + 1), None, "{number}");
                assert_eq!(channel.get(number), Some(descriptor(number)));
            }
        }
    }

    #[test]
    fn whoever_sleeps_is_woken_for_what_it_waits_for() {
        let doorbell = Doorbell::new();
        let woken = || {
            Doorbell::before_look();
            (doorbell.is_asleep(false), doorbell.is_asleep(true))
        };
        assert_eq!(woken(), (false, false));
        doorbell.announce_sleep(false);
        assert_eq!(woken(), (true, false));
        doorbell.announce_sleep(true);
        assert_eq!(woken(), (true, true));
        doorbell.announce_awake();
        assert_eq!(woken(), (false, false));
    }

    /// Two threads and one channel. The receiver also reads the memory that the descriptors name, and releases several
    /// descriptors at once.
    #[test]
    fn nothing_is_lost_or_mixed() {
        let rounds = if cfg!(miri) { 300 } else { 100_000 };
        let (channel, counters) = (DescriptorChannel::new(), Counters::new());
        struct Shared([UnsafeCell<u64>; 4]);
        impl Shared {
            fn cell_of(&self, number: u64) -> &UnsafeCell<u64> {
                &self.0[number as usize % 4]
            }
        }
        // SAFETY: the counters decide who accesses it when.
        unsafe impl Sync for Shared {}
        let memory = Shared(Default::default());
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..rounds {
                    while number - counters.taken() >= SLOTS as u64 || number - counters.released() >= 4 {
                        thread::yield_now();
                    }
                    // SAFETY: the descriptor of four numbers ago, which used this place, has been released.
                    memory.cell_of(number).with_mut(|place| unsafe { *place = number });
                    channel.put(number, &descriptor(number));
                }
                while counters.released() < rounds {
                    thread::yield_now();
                }
                ended.store(true, Ordering::Relaxed);
            });
            let mut number = 0;
            while number < rounds {
                let Some(found) = channel.get(number) else {
                    thread::yield_now();
                    continue;
                };
                assert_eq!(found, descriptor(number));
                // SAFETY: the place belongs to this descriptor until it is released.
                assert_eq!(memory.cell_of(number).with(|place| unsafe { *place }), number);
                number += 1;
                counters.free_slots(number);
                if number % 3 == 0 || number == rounds {
                    counters.release(number);
                }
            }
        });
        assert!(ended.into_inner());
    }
}

/// Tries every order in which the accesses may take effect: `RUSTFLAGS="--cfg loom" cargo test --release --lib channel`.
///
/// No thread really sleeps here: the models check at the end that each sleeper would have been woken.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// What one rank sends another.
    struct Way {
        channel: DescriptorChannel,
        counters: Counters,
        /// The doorbell of the rank that sleeps in the model.
        doorbell: Doorbell,
        goodbye: SegmentGoodbye,
        /// The memory that the descriptors name.
        memory: UnsafeCell<u64>,
    }

    // SAFETY: the channel's protocol decides who accesses the memory when; loom checks that.
    unsafe impl Sync for Way {}
    // SAFETY: as above.
    unsafe impl Send for Way {}

    fn descriptor(number: u64) -> Descriptor {
        Descriptor { place: number, ..Descriptor::new(10 + number, DescriptorForm::Segment, 100) }
    }

    /// Runs two threads in every order.
    fn model(one: fn(&Way) -> bool, other: fn(&Way) -> bool, fits: fn(bool, bool) -> bool) {
        model_with(None, one, other, fits);
    }

    /// Runs two threads in every order in which a thread is interrupted at most `interruptions` times.
    fn model_with(
        interruptions: Option<usize>,
        one: fn(&Way) -> bool,
        other: fn(&Way) -> bool,
        fits: fn(bool, bool) -> bool,
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = interruptions;
        builder.check(move || {
            let way = Arc::new(Way {
                channel: DescriptorChannel::new(),
                counters: Counters::new(),
                doorbell: Doorbell::new(),
                goodbye: SegmentGoodbye::new(),
                memory: UnsafeCell::new(0),
            });
            let same = way.clone();
            let thread = thread::spawn(move || one(&same));
            let other = other(&way);
            assert!(fits(thread.join().unwrap(), other));
        });
    }

    fn put(way: &Way, numbers: std::ops::Range<u64>) -> bool {
        for number in numbers {
            while number - way.counters.taken() >= SLOTS as u64 {
                thread::yield_now();
            }
            way.channel.put(number, &descriptor(number));
        }
        true
    }

    fn rings(way: &Way, released: bool) -> bool {
        Doorbell::before_look();
        way.doorbell.is_asleep(released)
    }

    /// Takes the descriptors that are there from `first` up to `end`. Returns the number of the next one, and whether the
    /// sender was woken.
    fn take_descriptors(way: &Way, first: u64, end: u64) -> (u64, bool) {
        let (mut next, mut has_room) = (first, false);
        while next < end {
            let Some(found) = way.channel.get(next) else { break };
            assert_eq!(found, descriptor(next));
            has_room |= makes_room(next);
            next += 1;
            way.counters.free_slots(next);
        }
        (next, has_room && rings(way, true))
    }

    #[test]
    fn descriptors_come_in_order_and_slots_are_used_again() {
        let receive = |way: &Way| {
            let mut next = 0;
            while next < 3 {
                match take_descriptors(way, next, 3).0 {
                    same if same == next => thread::yield_now(),
                    more => next = more,
                }
            }
            true
        };
        model_with(Some(3), |way| put(way, 0..3), receive, |_, _| true);
    }

    #[test]
    fn memory_is_read_after_it_was_written_and_written_after_it_was_read() {
        let send = |way: &Way| {
            for number in 0..2 {
                // SAFETY: the descriptor before this one, if there is one, has been released.
                way.memory.with_mut(|memory| unsafe { *memory = 7 + number });
                way.channel.put(number, &descriptor(number));
                while way.counters.released() <= number {
                    thread::yield_now();
                }
            }
            true
        };
        let receive = |way: &Way| {
            for number in 0..2 {
                while way.channel.get(number).is_none() {
                    thread::yield_now();
                }
                // The slot is free long before the memory is read.
                way.counters.free_slots(number + 1);
                // SAFETY: the descriptor has come and was not released.
                assert_eq!(way.memory.with(|memory| unsafe { *memory }), 7 + number);
                way.counters.release(number + 1);
            }
            true
        };
        model(send, receive, |_, _| true);
    }

    /// Either the sleeper sees the descriptor, or the sender sees the sleeper.
    #[test]
    fn who_waits_for_descriptors_is_woken() {
        let sleep = |way: &Way| {
            way.doorbell.announce_sleep(false);
            way.channel.get(0).is_some()
        };
        let send = |way: &Way| {
            way.channel.put(0, &descriptor(0));
            rings(way, false)
        };
        model(sleep, send, |seen, rung| seen || rung);
    }

    #[test]
    fn who_waits_for_releases_is_woken() {
        let sleep = |way: &Way| {
            way.doorbell.announce_sleep(true);
            way.counters.released() == 1
        };
        let release = |way: &Way| {
            way.counters.release(1);
            rings(way, true)
        };
        model(sleep, release, |seen, rung| seen || rung);
    }

    /// The sender has one descriptor more than there are slots, and sleeps if it sees no free one.
    #[test]
    fn who_waits_for_slots_is_woken() {
        let send = |way: &Way| {
            put(way, 0..2);
            way.doorbell.announce_sleep(true);
            way.counters.taken() > 0
        };
        let receive = |way: &Way| {
            let (mut next, mut woken) = (0, false);
            while next < 2 {
                let (more, rung) = take_descriptors(way, next, 2);
                woken |= rung;
                if more == next {
                    thread::yield_now();
                }
                next = more;
            }
            woken
        };
        model(send, receive, |seen, rung| seen || rung);
    }

    /// A rank that sees another's goodbye also finds all descriptors that were put before.
    #[test]
    fn last_words_are_heard() {
        let leave = |way: &Way| {
            way.channel.put(0, &descriptor(0));
            way.goodbye.announce_end(ChannelEnd::Closed);
            true
        };
        let hear = |way: &Way| way.goodbye.said().is_none() || way.channel.get(0).is_some();
        model(leave, hear, |_, complete| complete);
    }

    /// A rank that sleeps again is woken again.
    #[test]
    fn who_sleeps_twice_is_woken_twice() {
        let sleep = |way: &Way| {
            way.doorbell.announce_sleep(false);
            if way.channel.get(0).is_none() {
                // Woken, possibly without a reason.
                way.doorbell.announce_awake();
                way.doorbell.announce_sleep(false);
            }
            way.channel.get(0).is_some()
        };
        let send = |way: &Way| {
            way.channel.put(0, &descriptor(0));
            rings(way, false)
        };
        model(sleep, send, |seen, rung| seen || rung);
    }
}
