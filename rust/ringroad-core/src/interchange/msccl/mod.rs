//! The XML of MSCCL, the format in which msccl-tools, TACCL, TE-CCL and ForestColl write collective algorithms.
//!
//! ```text
//! <algo name="ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1" ...>
//!   <gpu id="0" i_chunks="0" o_chunks="2" s_chunks="0">
//!     <tb id="0" send="1" recv="-1" chan="0">
//!       <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
//! ```
//!
//! A GPU is a rank. It has an input `i`, an output `o` and scratch memory `s`, each an array of chunks. A thread block
//! runs its steps one after the other. It sends to one peer and receives from one peer, over one channel; the n-th
//! message that a GPU sends a peer over a channel is the n-th that the peer receives from it over this channel. A step
//! may wait for a step of another thread block of its GPU (`depid` and `deps`). The types are `s` send, `r` receive,
//! `rcs` receive, copy and send, `rrs` receive, reduce and send, `rrc` receive, reduce and copy, `rrcs` all of these,
//! `cpy` copy, `re` reduce, and `nop`.
//!
//! Where these programs say which value is at which place of a buffer, a schedule says which slot of which chunk holds
//! it. So [`read`] follows the values: the place of a chunk in the input and in the output is slot 0, any other place
//! is a further slot. It also finds the steps of the schedule, as early as the order of the file allows
//! (`levels`). [`write()`] states them: it adds the attributes `round` and `order`, which other programs ignore, and
//! [`read`] returns the same steps.
//!
//! Sources: the parsers of microsoft/msccl and Azure/msccl-executor-nccl, and the writer of microsoft/msccl-tools.

mod document;
mod levels;
mod order;
mod values;
mod write;

pub use write::write;

use super::InterchangeError;
use crate::schedule::Schedule;

/// The most steps of all thread blocks together.
pub const MOST_STEPS: usize = 1 << 20;
/// The most chunks that all steps name together.
pub const MOST_PIECES: usize = 1 << 22;
/// The most places of all buffers together.
pub const MOST_PLACES: usize = 1 << 22;

/// Reads a program as a schedule. Channels become ports.
///
/// This checks that every value that is read has been written, that only values of the same chunk are added up, and that
/// outputs end with the chunks that belong there. It also checks that MSCCL, which knows no steps, would do the same
/// (`order`). Whether they have all contributions, [`Schedule::verify`] checks.
pub fn read(text: &str) -> Result<Schedule, InterchangeError> {
    let program = document::read(text)?;
    let levels = levels::levels(&program)?;
    values::schedule(&program, &levels)
}
