//! A store in every process, reached over TCP: ranks can regroup though whoever held the job's first store has died.

mod client;
mod server;
mod wire;

pub use client::{TcpStore, Unreachable};
pub use server::{Promise, Server};
