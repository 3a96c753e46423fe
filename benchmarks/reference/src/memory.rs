//! Memory from the system, and copies into it.

/// Zeroed memory that is never freed; `shared` with the processes forked later. Asks for huge pages.
pub fn map(bytes: usize, shared: bool) -> *mut u8 {
    let visibility = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, visibility | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // Room to start at a huge page.
    let length = bytes.next_multiple_of(HUGE) + HUGE;
    // SAFETY: a new mapping, which overlaps nothing.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED, "no memory: {}", std::io::Error::last_os_error());
    let start = (address as usize).next_multiple_of(HUGE) as *mut u8;
    // SAFETY: within the mapping; advice that may be refused.
    unsafe { libc::madvise(start.cast(), length - HUGE, libc::MADV_HUGEPAGE) };
    start
}

const HUGE: usize = 2 << 20;

/// Copies, past the caches where `stream`. The copy is visible before any later store.
pub fn copy(target: &mut [f32], source: &[f32], stream: bool) {
    if stream {
        copy_streaming(target, source);
    } else {
        target.copy_from_slice(source);
    }
}

#[cfg(target_arch = "x86_64")]
fn copy_streaming(target: &mut [f32], source: &[f32]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = 4;
    assert_eq!(target.len(), source.len());
    let head = target.as_ptr().align_offset(64).min(target.len());
    let tail = head + (target.len() - head) / WORD * WORD;
    target[..head].copy_from_slice(&source[..head]);
    for i in (head..tail).step_by(WORD) {
        // SAFETY: 16 bytes within both; those of the target are aligned.
        unsafe {
            let value = _mm_loadu_si128(source.as_ptr().add(i).cast::<__m128i>());
            _mm_stream_si128(target.as_mut_ptr().add(i).cast::<__m128i>(), value);
        }
    }
    target[tail..].copy_from_slice(&source[tail..]);
    // SAFETY: needs SSE, which every x86-64 has.
    unsafe { _mm_sfence() };
}

/// Elsewhere there are no such stores: as usual.
#[cfg(not(target_arch = "x86_64"))]
fn copy_streaming(target: &mut [f32], source: &[f32]) {
    target.copy_from_slice(source);
}
