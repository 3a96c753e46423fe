//! The one loop, and its versions for each instruction set.

use super::element::{Element, Isa, Portable};
use super::instruction_set::{InstructionSet, KernelVersion};
use super::op::Op;

/// Sets `dst[i] = op(a[i], b[i])`, with the instruction set `set`.
///
/// # Safety
/// As [`super::reduce`], with elements of type `E`.
#[inline]
pub(super) unsafe fn run<E: Element, O: Op<E::Lane>, const N: usize>(
    set: InstructionSet,
    op: O,
    dst: *mut u8,
    a: *const u8,
    b: *const u8,
    elements: usize,
) {
    // SAFETY: the pointers are as the caller promised, and an `InstructionSet` is one that this machine has.
    unsafe {
        match set.0 {
            KernelVersion::Portable => blocks::<Portable, E, O, N>(op, dst, a, b, elements),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx2 => x86::avx2::<E, O, N>(op, dst, a, b, elements),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx512 => x86::avx512::<E, O, N>(op, dst, a, b, elements),
        }
    }
}

/// Loads whole blocks, then stores whole blocks. The compiler sees no aliasing within a block, so it vectorises
/// whether or not `dst` is an operand. For a plain loop over the pointers it would fall back to scalar code in place,
/// which is the usual case here.
///
/// # Safety
/// As [`run`]; the machine must have what `I` requires.
#[inline(always)]
unsafe fn blocks<I: Isa, E: Element, O: Op<E::Lane>, const N: usize>(
    op: O,
    dst: *mut u8,
    a: *const u8,
    b: *const u8,
    elements: usize,
) {
    let (dst, a, b) = (dst.cast::<E>(), a.cast::<E>(), b.cast::<E>());
    let whole = elements - elements % N;
    let mut i = 0;
    while i < whole {
        keep_loop();
        // SAFETY: i + N <= elements, so all three blocks are inside what the caller promised.
        unsafe {
            let x = a.add(i).cast::<[E; N]>().read_unaligned();
            let y = b.add(i).cast::<[E; N]>().read_unaligned();
            let z = block::<I, E, O, N>(op, &x, &y);
            dst.add(i).cast::<[E; N]>().write_unaligned(z);
        }
        i += N;
    }
    if i < elements {
        let rest = (elements - i) * size_of::<E>();
        let (mut x, mut y) = ([E::zeroed(); N], [E::zeroed(); N]);
        // SAFETY: `rest` bytes, less than a block, are left of each operand. Both are copied before `dst` is written,
        // so `dst` may be either.
        unsafe {
            std::ptr::copy_nonoverlapping(a.add(i).cast::<u8>(), x.as_mut_ptr().cast(), rest);
            std::ptr::copy_nonoverlapping(b.add(i).cast::<u8>(), y.as_mut_ptr().cast(), rest);
            let z = block::<I, E, O, N>(op, &x, &y);
            std::ptr::copy_nonoverlapping(z.as_ptr().cast(), dst.add(i).cast::<u8>(), rest);
        }
    }
}

/// Sets `dst[i] = op(...op(op(sources[0][i], sources[1][i]), sources[2][i])...)`, with the instruction set `set`. For
/// three sources or more and operations of one instruction this is up to 1.6 times as fast as one source after the
/// other, which loads and stores the result so far each time. For longer operations, which run out of registers, it
/// is slower.
///
/// # Safety
/// As [`super::reduce`], for each source; there is at least one.
#[inline]
pub(super) unsafe fn run_abreast<E: Element<Lane = E>, O: Op<E>, const N: usize>(
    set: InstructionSet,
    op: O,
    dst: *mut u8,
    sources: &[*const u8],
    elements: usize,
) {
    // SAFETY: as in `run`.
    unsafe {
        match set.0 {
            KernelVersion::Portable => blocks_abreast::<Portable, E, O, N>(op, dst, sources, elements),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx2 => x86::avx2_abreast::<E, O, N>(op, dst, sources, elements),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx512 => x86::avx512_abreast::<E, O, N>(op, dst, sources, elements),
        }
    }
}

/// # Safety
/// As [`run_abreast`]; the machine must have what `I` requires.
#[inline(always)]
unsafe fn blocks_abreast<I: Isa, E: Element<Lane = E>, O: Op<E>, const N: usize>(
    op: O,
    dst: *mut u8,
    sources: &[*const u8],
    elements: usize,
) {
    let (first, others) = sources.split_first().expect("there is a source");
    let bytes = elements * size_of::<E>();
    let block_bytes = size_of::<[E; N]>();
    let whole = bytes - bytes % block_bytes;
    for at in (0..whole).step_by(block_bytes) {
        // SAFETY: a block from `at` is inside what the caller promised; all of them are read before `dst` is written.
        unsafe {
            let load = |source: &*const u8| source.add(at).cast::<[E; N]>().read_unaligned();
            let mut sum = load(first);
            for source in others {
                keep_loop();
                sum = block::<I, E, O, N>(op, &sum, &load(source));
            }
            dst.add(at).cast::<[E; N]>().write_unaligned(sum);
        }
    }
    // SAFETY: less than a block is left of each source.
    unsafe {
        let load = |source: &*const u8| {
            let mut block = [E::zeroed(); N];
            std::ptr::copy_nonoverlapping(source.add(whole), block.as_mut_ptr().cast(), bytes - whole);
            block
        };
        let rest =
            others.iter().fold(load(first), |sum, source| block::<I, E, O, N>(op, &sum, &load(source)));
        std::ptr::copy_nonoverlapping(rest.as_ptr().cast(), dst.add(whole), bytes - whole);
    }
}

/// Keeps LLVM from vectorising across blocks. A block already consists of whole vectors, yet if LLVM unrolls the
/// block early (32 lanes and fewer), it would pair up blocks with gathers and scatters, ten times slower.
#[inline(always)]
pub(super) fn keep_loop() {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: it contains no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// `op` of two blocks.
///
/// # Safety
/// The machine must have what `I` requires.
#[inline(always)]
pub(super) unsafe fn block<I: Isa, E: Element, O: Op<E::Lane>, const N: usize>(
    op: O,
    x: &[E; N],
    y: &[E; N],
) -> [E; N] {
    // SAFETY: the caller's promise.
    let (x, y) = unsafe { (E::widen::<I, N>(x), E::widen::<I, N>(y)) };
    let mut z = x;
    for lane in 0..N {
        z[lane] = op.apply(x[lane], y[lane]);
    }
    // SAFETY: the caller's promise.
    unsafe { E::narrow::<I, N>(&z) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::element::{Avx2, Avx512, Element};
    use super::super::op::Op;

    macro_rules! version {
        ($name:ident, $abreast:ident, $isa:ident, $features:literal) => {
            /// # Safety
            /// As [`super::run`]; the machine must have the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name<E: Element, O: Op<E::Lane>, const N: usize>(
                op: O,
                dst: *mut u8,
                a: *const u8,
                b: *const u8,
                elements: usize,
            ) {
                // SAFETY: the caller's promise; the features are what the type says.
                unsafe { super::blocks::<$isa, E, O, N>(op, dst, a, b, elements) }
            }

            /// # Safety
            /// As [`super::run_abreast`]; the machine must have the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $abreast<E: Element<Lane = E>, O: Op<E>, const N: usize>(
                op: O,
                dst: *mut u8,
                sources: &[*const u8],
                elements: usize,
            ) {
                // SAFETY: as above.
                unsafe { super::blocks_abreast::<$isa, E, O, N>(op, dst, sources, elements) }
            }
        };
    }

    version!(avx2, avx2_abreast, Avx2, "avx2,f16c");
    version!(avx512, avx512_abreast, Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c");
}
