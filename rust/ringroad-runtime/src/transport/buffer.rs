//! Memory that operations in flight may refer to.
//!
//! A [`Region`] is a byte range together with a share in its owner, so that a request which holds a region keeps the
//! memory alive: nothing in flight can dangle, in whatever order things are dropped. Regions are passed to hardware
//! and to other threads, so they give out raw pointers, never references. The plan's dependencies decide who may
//! access which bytes when: two operations that conflict are never in flight together.

use std::alloc::{alloc, alloc_zeroed, dealloc, Layout};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::convert;
use crate::kernels::{self, Stores};
use crate::os::machine::{CACHE_LINE, HUGE_PAGE};

/// There is no memory for this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {0} bytes")]
pub struct NoMemory(pub usize);

convert! {
    NoMemory => Memory,
}

/// A byte range and a share in its owner.
#[derive(Clone)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
    /// The stores that copies into it use.
    stores: Stores,
    /// `None` if there are no bytes.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: a region is a pointer and a thread-safe owner. Its bytes are only reached through functions below that are
// `unsafe` (whose callers promise that nobody else is writing) or that take the region apart.
unsafe impl Send for Region {}
// SAFETY: as above; a shared region allows no access that an owned one does not.
unsafe impl Sync for Region {}

struct Allocation {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the allocation is only a pointer, which is freed once, by the thread that drops it.
unsafe impl Send for Allocation {}
// SAFETY: a shared reference to it gives access to nothing.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `Region::allocate`, and dropped once.
        unsafe { dealloc(self.start, self.layout) }
    }
}

impl Region {
    /// New memory, all zero. Panics if there is none.
    pub fn zeroed(bytes: usize) -> Region {
        Region::try_zeroed(bytes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// New memory, all zero; an error if there is none.
    pub fn try_zeroed(bytes: usize) -> Result<Region, NoMemory> {
        Region::allocate(bytes, true)
    }

    /// New memory with arbitrary content, which is written before it is read.
    pub(crate) fn scratch(bytes: usize) -> Result<Region, NoMemory> {
        Region::allocate(bytes, false)
    }

    fn allocate(bytes: usize, zeroed: bool) -> Result<Region, NoMemory> {
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        let layout = Layout::from_size_align(bytes.max(1), align).map_err(|_| NoMemory(bytes))?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe {
            if zeroed {
                alloc_zeroed(layout)
            } else {
                alloc(layout)
            }
        };
        if start.is_null() {
            return Err(NoMemory(bytes));
        }
        if bytes >= HUGE_PAGE && !cfg!(miri) {
            // SAFETY: advice on whole pages of memory that was just allocated; failure is harmless and ignored.
            unsafe { libc::madvise(start.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        let owner = Arc::new(Allocation { start, layout });
        Ok(Region { start, bytes, stores: Stores::Plain, owner: Some(owner) })
    }

    /// A copy of `values`.
    pub fn from_slice<T: Pod>(values: &[T]) -> Region {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let region = Region::zeroed(bytes.len());
        // SAFETY: both ranges are `bytes.len()` long, and the region is new, so nobody else refers to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.start, bytes.len()) };
        region
    }

    /// Foreign memory, kept alive by `owner`.
    ///
    /// # Safety
    /// `start..start + bytes` must stay readable until the owner is dropped, and writable if the region is used as
    /// an output or in place. While a call is using it nobody else may write it, nor read what the call writes.
    pub unsafe fn foreign(start: *mut u8, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> Region {
        Region { start, bytes, stores: Stores::Plain, owner: Some(owner) }
    }

    /// No memory at all.
    pub fn nothing() -> Region {
        let start = std::ptr::NonNull::<u64>::dangling().as_ptr().cast();
        Region { start, bytes: 0, stores: Stores::Plain, owner: None }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether no other region shares its owner.
    pub(crate) fn is_unshared(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| Arc::strong_count(owner) == 1)
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// A part of it.
    pub fn part(&self, range: Range<usize>) -> Region {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "{range:?} is not within {} bytes",
            self.bytes
        );
        // SAFETY: the assertion keeps the offset within the region.
        let start = unsafe { self.start.add(range.start) };
        Region { start, bytes: range.len(), stores: self.stores, owner: self.owner.clone() }
    }

    /// Its first `bytes` bytes, or all if it has fewer.
    pub(crate) fn shrink(self, bytes: usize) -> Region {
        Region { bytes: bytes.min(self.bytes), ..self }
    }

    /// The same bytes; copies into them use these stores.
    pub(crate) fn with_stores(self, stores: Stores) -> Region {
        Region { stores, ..self }
    }

    /// The region as it was before [`Region::shrink`].
    ///
    /// # Safety
    /// It had this many bytes.
    pub(crate) unsafe fn regrow(self, bytes: usize) -> Region {
        Region { bytes, ..self }
    }

    /// The bytes as values. Panics if the length is no multiple of the value's size.
    ///
    /// # Safety
    /// Nobody may be writing the region.
    pub unsafe fn to_vec<T: Pod>(&self) -> Vec<T> {
        assert_eq!(self.bytes % size_of::<T>(), 0, "{} bytes are no whole number of values", self.bytes);
        let mut values = vec![T::zeroed(); self.bytes / size_of::<T>()];
        let target: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        // SAFETY: the target has exactly `bytes` bytes of its own; the caller promises that nobody writes the source.
        unsafe { std::ptr::copy_nonoverlapping(self.start, target.as_mut_ptr(), self.bytes) };
        values
    }

    /// Copies the bytes of `source`, which has the same length and may overlap.
    ///
    /// # Safety
    /// What is written past the caches must not overlap the source, unless it is the same. Nobody may be writing
    /// `source`, nor reading or writing this region, until this returns.
    pub unsafe fn copy_from(&self, source: &Region) {
        assert_eq!(self.bytes, source.bytes);
        // SAFETY: both ranges are `bytes` long; the caller promises to be alone; plain copies allow overlap.
        unsafe { kernels::copy(self.start, source.start, self.bytes, self.stores) }
    }
}

/// Whether they are the same bytes of memory, whatever their values.
impl PartialEq for Region {
    fn eq(&self, other: &Region) -> bool {
        (self.start, self.bytes) == (other.start, other.bytes)
    }
}

impl Eq for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:p}, {} bytes)", self.start, self.bytes)
    }
}

/// Memory that belongs to the caller alone until a call borrows it.
#[derive(Debug)]
pub struct Memory(Region);

impl Memory {
    /// New memory, all zero. Panics if there is none.
    pub fn zeroed(bytes: usize) -> Memory {
        Memory(Region::zeroed(bytes))
    }

    pub(crate) fn new(region: Region) -> Memory {
        Memory(region)
    }

    /// A copy of `values`.
    pub fn from_slice<T: Pod>(values: &[T]) -> Memory {
        Memory(Region::from_slice(values))
    }

    /// No memory, for ranks that have no input or no output.
    pub fn nothing() -> Memory {
        Memory(Region::nothing())
    }

    /// Foreign memory.
    ///
    /// # Safety
    /// See [`Region::foreign`].
    pub unsafe fn foreign(start: *mut u8, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> Memory {
        // SAFETY: the same promise.
        Memory(unsafe { Region::foreign(start, bytes, owner) })
    }

    /// The address of the first byte. Before writing there, make sure that no call is using the memory.
    pub fn address(&self) -> usize {
        self.0.start as usize
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The bytes as values. Panics if the length is no multiple of the value's size.
    pub fn to_vec<T: Pod>(&self) -> Vec<T> {
        // SAFETY: this is the only owner (calls return it when nobody uses it any more).
        unsafe { self.0.to_vec() }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.0
    }

    /// Takes the memory out of its place, which then has none.
    pub(crate) fn take(&mut self) -> Memory {
        std::mem::replace(self, Memory::nothing())
    }

    pub(crate) fn into_region(self) -> Region {
        self.0
    }
}
