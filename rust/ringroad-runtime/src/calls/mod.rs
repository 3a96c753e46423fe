//! What a user asks of a communicator, and what becomes of it: a call, the same with its memory, its handle while it is
//! in flight, and the callbacks at its end.

pub mod call;
pub(crate) mod callbacks;
pub(crate) mod request;
pub(crate) mod work;
