//! Writes data that a peer on another CPU will read: through the caches, or past them.

use super::instruction_set::{InstructionSet, KernelVersion};
use crate::os::machine::cache::CacheMode;
use std::ptr;

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Ordinary stores: a cache line is first fetched into this CPU's cache, from the cache that has it.
    Plain,
    /// Non-temporal stores of whole cache lines. They write to memory without fetching what they overwrite, and
    /// complete before any store that follows the call. On machines other than x86-64 and aarch64 they are plain
    /// stores.
    Streaming,
}

impl Stores {
    /// The faster way to write `bytes` bytes over data that a peer on another CPU has read, for the peer to read
    /// again.
    ///
    /// Measured by `examples/stores.rs` from 4 KiB to 32 MiB, until the peer has read them, on two cores of an AMD
    /// EPYC with 1 MiB of second-level and 32 MiB of last-level cache. Without a shared cache (`Separate`): plain stores
    /// are a tenth faster at 4 KiB; streaming ones are equal from 16 KiB on, 1.8 times as fast at 64 KiB and 2.8
    /// times from 1 MiB on (for the writer alone 4 times at 8 KiB, 5 times from 1 MiB on). With one (`Shared`): plain
    /// ones are 2 to 4 times as fast up to 512 KiB, 1.5 times up to 8 MiB, and a tenth slower where the last-level
    /// cache does not hold the bytes.
    pub fn for_copy(bytes: usize, mode: CacheMode) -> Self {
        let streaming = match mode {
            CacheMode::Shared => bytes >= 32 << 20,
            CacheMode::Separate => bytes >= 16 << 10,
        };
        if streaming {
            Stores::Streaming
        } else {
            Stores::Plain
        }
    }
}

/// Pointers, and the distance behind each of them of the bytes that will be read next.
type Ahead<'a> = (&'a [*const u8], usize);

pub(super) use crate::os::machine::CACHE_LINE as LINE;

/// Copies `bytes` bytes with these stores, in any order. Pointers need no alignment.
///
/// # Safety
/// `source` must be readable and `target` writable for `bytes` bytes, none of it written by others meanwhile. If streamed,
/// `target` must be `source` exactly, or not overlap it.
pub unsafe fn copy(target: *mut u8, source: *const u8, bytes: usize, stores: Stores) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().copy(target, source, bytes, stores) }
}

impl InstructionSet {
    /// [`copy`] with this instruction set.
    ///
    /// # Safety
    /// As [`copy`].
    pub unsafe fn copy(self, target: *mut u8, source: *const u8, bytes: usize, stores: Stores) {
        // SAFETY: the caller's promise.
        unsafe {
            match stores {
                Stores::Plain => ptr::copy(source, target, bytes),
                Stores::Streaming => {
                    self.stream(target, source, bytes, (&[], 0));
                    fence();
                }
            }
        }
    }

    /// A streaming copy that may not be complete when it returns: a [`fence`] must follow. While it waits for memory
    /// it prefetches as many bytes at the given distance behind each pointer of `ahead`; these bytes need not exist.
    ///
    /// # Safety
    /// As [`copy`].
    pub(super) unsafe fn stream(self, target: *mut u8, source: *const u8, bytes: usize, ahead: Ahead<'_>) {
        // Up to the first cache line of the target.
        let head = (target.addr().wrapping_neg() % LINE).min(bytes);
        let lines = (bytes - head) / LINE;
        let done = head + lines * LINE;
        // SAFETY: the three parts make up `bytes`; the middle one starts at a cache line; the machine has these
        // instructions.
        unsafe {
            ptr::copy(source, target, head);
            let (to, from) = (target.add(head), source.add(head));
            match self.0 {
                KernelVersion::Portable => portable::lines(to, from, lines, ahead),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                KernelVersion::Avx2 => x86::avx2(to, from, lines, ahead),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                KernelVersion::Avx512 => x86::avx512(to, from, lines, ahead),
                #[cfg(all(target_arch = "x86_64", miri))]
                _ => portable::lines(to, from, lines, ahead),
            }
            ptr::copy(source.add(done), target.add(done), bytes - done);
        }
    }
}

/// Orders streaming stores before it before all stores after it: on x86-64 not even a release does that.
pub(super) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 machine has the instruction, and it touches no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use super::{Ahead, LINE};
    use std::arch::x86_64::*;

    macro_rules! version {
        ($name:ident, $features:literal, $load:ident, $stream:ident, $vector:ty) => {
            /// # Safety
            /// As [`super::copy`], for `lines` lines; `to` must be at the start of one, and the machine must have the
            /// features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(to: *mut u8, from: *const u8, lines: usize, ahead: Ahead<'_>) {
                for line in (0..lines * LINE).step_by(LINE) {
                    // SAFETY: a vector from `at` is inside the lines, and aligned as they are; a hint may point anywhere.
                    unsafe {
                        for next in ahead.0 {
                            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(ahead.1 + line).cast());
                        }
                        for at in (line..line + LINE).step_by(size_of::<$vector>()) {
                            $stream(to.add(at).cast(), $load(from.add(at).cast()));
                        }
                    }
                }
            }
        };
    }

    version!(lines, "sse2", _mm_loadu_si128, _mm_stream_si128, __m128i);
    version!(avx2, "avx2", _mm256_loadu_si256, _mm256_stream_si256, __m256i);
    version!(avx512, "avx512f", _mm512_loadu_si512, _mm512_stream_si512, __m512i);
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86 as portable;

/// Stores of pairs. Unlike on x86-64, a later release store orders them.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod portable {
    /// # Safety
    /// As [`super::copy`], for `lines` lines.
    pub(super) unsafe fn lines(to: *mut u8, from: *const u8, lines: usize, ahead: super::Ahead<'_>) {
        for line in 0..lines {
            for next in ahead.0 {
                // SAFETY: a hint, which may point anywhere.
                unsafe {
                    std::arch::asm!(
                        "prfm pldl1keep, [{next}]",
                        next = in(reg) next.wrapping_add(ahead.1 + line * super::LINE),
                        options(nostack, readonly, preserves_flags)
                    );
                }
            }
            // SAFETY: 64 bytes from here are inside the lines.
            unsafe {
                std::arch::asm!(
                    "ldp {a:q}, {b:q}, [{from}]",
                    "ldp {c:q}, {d:q}, [{from}, #32]",
                    "stnp {a:q}, {b:q}, [{to}]",
                    "stnp {c:q}, {d:q}, [{to}, #32]",
                    a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, d = out(vreg) _,
                    from = in(reg) from.add(line * super::LINE),
                    to = in(reg) to.add(line * super::LINE),
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod portable {
    /// # Safety
    /// As [`super::copy`], for `lines` lines.
    pub(super) unsafe fn lines(to: *mut u8, from: *const u8, lines: usize, _ahead: super::Ahead<'_>) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(from, to, lines * super::LINE) }
    }
}
