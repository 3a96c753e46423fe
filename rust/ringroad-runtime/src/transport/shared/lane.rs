//! A lane carries messages from one rank to another: a ring of slots that only the sender writes, and two counters that
//! only the receiver writes. Each side keeps its own position to itself, so nobody waits for a lock.
//!
//! A slot is free again when the receiver has taken its content out; the memory that a message is about is free when
//! the receiver has released it. Both counters only grow and say "all before this one".
//!
//! Whoever blocks says so in a [`Bell`] first and then looks once more; whoever has put something there looks at the bell
//! afterwards. Each of the two puts a full fence between, so one of them sees the other.

use crate::sync::{fence, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Messages that may be on their way before the receiver has looked.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Messages of at most this many bytes travel within the slot.
pub(super) const INLINE: usize = 32;

/// A message, or where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(super) struct Parcel {
    /// A [`crate::transport::Tag`].
    pub tag: u64,
    /// How long it is, below the code of its [`Form`].
    length: u64,
    /// Where it lies, as the form says.
    pub place: u64,
    /// The message itself, where it is short.
    pub inline: [u64; INLINE / 8],
}

/// What a parcel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The message itself.
    Inline,
    /// An offset in the sender's segment.
    Segment,
    /// An address in the sender's memory.
    Address,
}

/// The bits of a length that say how long it is.
const LENGTH: u64 = (1 << 62) - 1;

impl Parcel {
    pub fn new(tag: u64, form: Form, bytes: usize) -> Parcel {
        Parcel { tag, length: bytes as u64 | (form as u64) << 62, ..Parcel::default() }
    }

    pub fn bytes(&self) -> usize {
        (self.length & LENGTH) as usize
    }

    pub fn form(&self) -> Form {
        match self.length >> 62 {
            0 => Form::Inline,
            1 => Form::Segment,
            _ => Form::Address,
        }
    }
}

/// One cache line.
#[repr(C, align(64))]
struct Slot {
    parcel: UnsafeCell<Parcel>,
    /// The number of the parcel that is there, plus one, modulo 2^32.
    number: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64);

/// The sender's side, in the sender's segment.
#[repr(C)]
pub(super) struct Lane {
    slots: [Slot; SLOTS],
}

/// The receiver's side, in the receiver's segment: all parcels before these numbers have been ...
#[repr(C, align(64))]
pub(super) struct Counters {
    /// ... taken out of their slots.
    taken: AtomicU64,
    /// ... released.
    released: AtomicU64,
}

/// Whether a rank is about to block, in its own segment.
#[repr(C, align(64))]
pub(super) struct Bell {
    asleep: AtomicU32,
}

// SAFETY: a slot's parcel is written by the sender only while the slot is free, which `Counters::taken` says, and read by
// the receiver only while it is full, which `number` says; both are acquired before and released after the access.
unsafe impl Sync for Lane {}

impl Lane {
    #[cfg(any(test, loom))]
    pub fn new() -> Lane {
        let slot = |_| Slot { parcel: UnsafeCell::new(Parcel::default()), number: AtomicU32::new(0) };
        Lane { slots: std::array::from_fn(slot) }
    }

    /// Puts parcel `number` in its slot, which must be free. Only the sender may call it, with numbers that count up.
    #[inline]
    pub fn put(&self, number: u64, parcel: &Parcel) {
        let slot = &self.slots[number as usize % SLOTS];
        // SAFETY: the caller is the only writer, and nobody reads a free slot.
        slot.parcel.with_mut(|place| unsafe { *place = *parcel });
        slot.number.store(number as u32 + 1, Ordering::Release);
    }

    /// Parcel `number`, if it is there. Only the receiver may call it, with numbers that count up; it says with
    /// [`Counters::take`] that the slot is free.
    #[inline]
    pub fn get(&self, number: u64) -> Option<Parcel> {
        let slot = &self.slots[number as usize % SLOTS];
        if slot.number.load(Ordering::Acquire) != number as u32 + 1 {
            return None;
        }
        // SAFETY: the slot is full, and the sender leaves it alone until it is free.
        Some(slot.parcel.with(|place| unsafe { *place }))
    }
}

impl Counters {
    #[cfg(any(test, loom))]
    pub fn new() -> Counters {
        Counters { taken: AtomicU64::new(0), released: AtomicU64::new(0) }
    }

    /// Says that the slots of all parcels before `number` are free.
    #[inline]
    pub fn take(&self, number: u64) {
        self.taken.store(number, Ordering::Release);
    }

    /// Says that the memory of all parcels before `number` has been read.
    #[inline]
    pub fn release(&self, number: u64) {
        self.released.store(number, Ordering::Release);
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

impl Bell {
    #[cfg(any(test, loom))]
    pub fn new() -> Bell {
        Bell { asleep: AtomicU32::new(0) }
    }

    /// Before the owner looks for the last time and blocks. `releases`: it waits for releases, too.
    pub fn lie_down(&self, releases: bool) {
        self.asleep.store(1 + u32::from(releases), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is up again.
    pub fn get_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// After somebody has put a parcel, or released one: whether to wake the owner.
    #[inline]
    pub fn is_asleep(&self, released: bool) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) > u32::from(released)
    }
}
