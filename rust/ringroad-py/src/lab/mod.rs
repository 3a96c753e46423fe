//! What `ringroad.lab` calls, and the methods that the laboratory adds. Nothing else of the extension uses it.

pub mod alltoall;
pub mod finder;
pub mod formats;
pub mod routes;
pub mod simulate;
pub mod synthesis;
