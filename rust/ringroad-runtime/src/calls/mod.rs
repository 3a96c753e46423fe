//! What a user asks of a communicator, and what becomes of it: a call, the same with its memory, its handle while it is
//! in flight, the callbacks at its end, and reductions of the user's own.

pub mod call;
pub(crate) mod callbacks;
pub mod function;
pub(crate) mod request;
pub(crate) mod work;
