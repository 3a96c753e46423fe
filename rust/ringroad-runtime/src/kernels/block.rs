//! The one loop, and its versions for each instruction set.

use super::element::{Element, Isa, Portable};
use super::instruction_set::{InstructionSet, Version};
use super::op::Op;

/// `dst[i] = op(a[i], b[i])`, by the instructions of `set`.
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
            Version::Portable => blocks::<Portable, E, O, N>(op, dst, a, b, elements),
            #[cfg(target_arch = "x86_64")]
            Version::Avx2 => x86::avx2::<E, O, N>(op, dst, a, b, elements),
            #[cfg(target_arch = "x86_64")]
            Version::Avx512 => x86::avx512::<E, O, N>(op, dst, a, b, elements),
        }
    }
}

/// A load of whole blocks, then a store of whole blocks: the compiler sees no aliasing inside a block, so it vectorises
/// whether or not `dst` is an operand. A plain loop over the pointers would fall back to scalar code in place, which is
/// the usual case here.
///
/// # Safety
/// As [`run`]; the machine must have what `I` says.
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
        // SAFETY: `rest` bytes are left of each operand, and fewer than a block. Both are copied before `dst` is
        // written, so it may be either.
        unsafe {
            std::ptr::copy_nonoverlapping(a.add(i).cast::<u8>(), x.as_mut_ptr().cast(), rest);
            std::ptr::copy_nonoverlapping(b.add(i).cast::<u8>(), y.as_mut_ptr().cast(), rest);
            let z = block::<I, E, O, N>(op, &x, &y);
            std::ptr::copy_nonoverlapping(z.as_ptr().cast(), dst.add(i).cast::<u8>(), rest);
        }
    }
}

/// Stops LLVM from vectorising across blocks. A block is already whole vectors, yet where it unrolls the block early (32
/// lanes and fewer) it will otherwise pair up blocks with gathers and scatters, ten times slower.
#[inline(always)]
fn keep_loop() {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: there is no instruction in it.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// # Safety
/// The machine must have what `I` says.
#[inline(always)]
unsafe fn block<I: Isa, E: Element, O: Op<E::Lane>, const N: usize>(op: O, x: &[E; N], y: &[E; N]) -> [E; N] {
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
        ($name:ident, $isa:ident, $features:literal) => {
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
        };
    }

    version!(avx2, Avx2, "avx2,f16c");
    version!(avx512, Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c");
}
