//! What Python's interpreter asks of an extension: exceptions, signals, its lock, and its end. Knows nothing of communication.

pub mod detached;
pub mod errors;
pub mod notebook;
pub mod once;
pub mod shutdown;
pub mod signals;
pub mod watch;
