//! The job around a communicator: its settings, the stores at which its ranks meet, and how it stands.

pub mod info;
pub mod notes;
pub mod presence_check;
pub mod status;
pub mod store;
