//! What only tests need: transports around others, and faults in them.

pub mod fault;
pub mod wrapper;
