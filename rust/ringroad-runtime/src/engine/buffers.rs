//! The memory of one call, and the operations of its plan that involve no other rank.

use std::ops::Range;

use ringroad_core::plan::{Buffer, Command, Plan, Span};
use ringroad_core::Rank;

use crate::kernels::dtype::{DType, ReduceOp};
use crate::kernels::{self, wire as codec, Stores};
use crate::os::machine::cache::CacheMode;
use crate::transport::buffer::Region;
use crate::transport::{Arrived, LOOKED_AT};

/// How many operands are reduced in one pass.
const AT_ONCE: usize = 64;

/// The buffers of one call, under the names that plans use.
#[derive(Debug)]
pub(crate) struct CallBuffers {
    /// The caller's input.
    pub input: Region,
    /// The memory of the result. In place, this is the larger of the two.
    pub output: Region,
    /// A region of scratch memory.
    pub scratch: Region,
    /// The part of it that the plan uses.
    pub scratch_range: Range<usize>,
    /// Messages that are read in their senders' memory: each is here from its arrival until it is released.
    pub arrived: Vec<Option<Arrived>>,
    /// Whether the caches are too small for the input and output of all ranks of this host.
    pub past_caches: bool,
}

impl CallBuffers {
    /// The region that contains `span`, and the offset at which `span` begins.
    fn place(&self, span: Span) -> (&Region, usize) {
        match span.buffer {
            Buffer::Input => (&self.input, span.offset),
            Buffer::Output => (&self.output, span.offset),
            Buffer::Scratch => {
                assert!(span.offset + span.bytes <= self.scratch_range.len(), "{span:?} is not the plan's");
                (&self.scratch, self.scratch_range.start + span.offset)
            }
            Buffer::Arrived(arrival) => {
                let arrived = self.arrived[arrival as usize].as_ref();
                (&arrived.expect("it has come and was not released").region, span.offset)
            }
        }
    }

    /// The memory of `span`.
    pub fn region(&self, span: Span) -> Region {
        let (region, start) = self.place(span);
        region.part(start..start + span.bytes)
    }

    /// The memory to which `operation` receives, with the way in which it has to be written.
    pub(crate) fn target(&self, plan: &Plan, operation: u32, span: Span) -> Region {
        self.region(span).with_stores(self.stores(plan, operation, span))
    }

    /// How `operation` writes memory that no other rank reads. A part of the result is written past the caches if the
    /// caches are too small for it and no later operation reads it.
    fn stores(&self, plan: &Plan, operation: u32, span: Span) -> Stores {
        let is_last = || {
            let mut dependents =
                plan.dependents(operation).iter().map(|number| plan.operations()[*number as usize]);
            dependents.all(|dependent| matches!(dependent.command, Command::Release { .. }))
        };
        if self.past_caches && span.buffer == Buffer::Output && is_last() {
            Stores::Streaming
        } else {
            Stores::Plain
        }
    }

    /// The operands of a reduction that the caller performs, if they are not empty; `None` for other commands.
    pub(crate) fn operands(&self, plan: &Plan, command: Command) -> Option<Vec<Region>> {
        let Command::Reduce { sources, .. } = command else { return None };
        let some = plan.sources(sources).iter().filter(|span| span.bytes > 0);
        Some(some.map(|span| self.region(*span)).collect())
    }

    /// Writes what the caller has made of the operands of a reduction. Sound for the same reasons as
    /// [`CallBuffers::perform`].
    pub(crate) fn reduced(&self, command: Command, result: &Region) {
        let Command::Reduce { target, also, .. } = command else { unreachable!("only vectors are reduced") };
        for span in std::iter::once(target).chain(also) {
            // SAFETY: nobody else touches the target; the result may be one of the operands, but is not written.
            unsafe { self.region(span).copy_from(result) }
        }
    }

    fn pointer(&self, span: Span) -> *mut u8 {
        let (region, start) = self.place(span);
        assert!(start + span.bytes <= region.len(), "{span:?} is not within {region:?}");
        // SAFETY: the assertion keeps the offset within the region.
        unsafe { region.as_ptr().add(start) }
    }

    /// Performs an operation that involves no other rank. `distance`: whether this rank shares a cache with a rank
    /// that reads the scratch memory.
    ///
    /// Sound only because the crate keeps two promises. The owner of the buffers gives them to one call at a time
    /// (see [`Region::foreign`] and [`crate::Memory`]). And the engine performs the commands of a plan in an order
    /// that its executor allows, so that no request in flight touches the same bytes.
    pub(crate) fn perform(
        &self,
        plan: &Plan,
        number: u32,
        (op, dtype, format): (ReduceOp, DType, Option<codec::Format>),
        factor: f64,
        ranks: u32,
        mut distance: impl FnMut(Rank) -> Option<CacheMode>,
    ) {
        // Other ranks read scratch memory. All of it is written before the same bytes are written again.
        let mut shared = |span| {
            let bytes = self.scratch_range.len();
            if bytes < LOOKED_AT {
                return Stores::Plain;
            }
            let farthest = plan.readers(number, span).filter_map(&mut distance).max();
            farthest.map_or(Stores::Plain, |mode| Stores::for_copy(bytes, mode))
        };
        let elements = |span: Span| span.bytes / dtype.size();
        match plan.operations()[number as usize].command {
            Command::Reduce { target, sources, also } => {
                let mut pointers = [std::ptr::null(); AT_ONCE];
                let (to, elements) = (self.pointer(target), elements(target));
                let also = also.map(|span| {
                    assert_eq!(span.bytes, target.bytes);
                    (self.pointer(span), shared(span))
                });
                // From the second pass on, the result so far is the first operand.
                let mut filled = 0;
                for source in plan.sources(sources) {
                    assert_eq!(source.bytes, target.bytes);
                    if filled == AT_ONCE {
                        // SAFETY: all ranges are within their regions and equally long; nobody else touches them (see
                        // above).
                        unsafe { kernels::combine(op, dtype, to, &pointers, elements, None) };
                        (pointers[0], filled) = (to, 1);
                    }
                    pointers[filled] = self.pointer(*source);
                    filled += 1;
                }
                // SAFETY: as above.
                unsafe { kernels::combine(op, dtype, to, &pointers[..filled], elements, also) }
            }
            Command::Copy { target, source } => {
                assert_eq!(target.bytes, source.bytes);
                let (to, from) = (self.pointer(target), self.pointer(source));
                let stores = match target.buffer {
                    Buffer::Scratch => shared(target),
                    _ => self.stores(plan, number, target),
                };
                // SAFETY: as above; a plan copies to other places or to the same.
                unsafe { kernels::copy(to, from, source.bytes, stores) }
            }
            Command::Encode { target, source, kept } => {
                let (format, elements) = (format.expect("the call has a format"), elements(source));
                assert_eq!(target.bytes, format.wire.encoded(elements));
                assert!(kept.is_none_or(|kept| kept.bytes == source.bytes));
                let kept = kept.map(|kept| self.pointer(kept));
                // SAFETY: as above.
                unsafe {
                    codec::encode(format, dtype, self.pointer(target), self.pointer(source), kept, elements)
                }
            }
            Command::Decode { target, left, source } => {
                let (wire, elements) = (format.expect("the call has a format").wire, elements(target));
                assert_eq!(source.bytes, wire.encoded(elements));
                assert!(left.is_none_or(|left| left.bytes == target.bytes));
                let left = left.map(|left| self.pointer(left).cast_const());
                // SAFETY: as above.
                unsafe {
                    codec::decode(wire, dtype, self.pointer(target), left, self.pointer(source), elements)
                }
            }
            Command::Premultiply { target, source } => {
                assert_eq!(target.bytes, source.bytes);
                // SAFETY: as above.
                unsafe {
                    kernels::scale(
                        dtype,
                        self.pointer(target),
                        self.pointer(source),
                        factor,
                        elements(target),
                    )
                }
            }
            Command::Average { target } => {
                // SAFETY: as above.
                unsafe {
                    kernels::divide(
                        dtype,
                        self.pointer(target),
                        self.pointer(target),
                        ranks,
                        elements(target),
                    )
                }
            }
            Command::Send { .. }
            | Command::Receive { .. }
            | Command::Expect { .. }
            | Command::Release { .. } => unreachable!("messages are the transport's"),
        }
    }
}
