//! How a process is found by others that want to form a group with it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::card::{host_name, pid_space, space};
use super::tcp::{Reach, Server};
use crate::interfaces::address_towards;
use crate::liveness::is_gone;
use crate::random::token;

const FORMAT: u32 = 1;
/// No address list of a machine is longer than a text of this length.
const LONGEST: usize = 4 << 10;

/// What a process hands to others, by whatever way, so that they can form a group with it. As text: one line of JSON.
///
/// Ordered by host, so that ranks of a host come one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    host: String,
    pid: u32,
    pid_space: String,
    net_space: String,
    /// Tells the handles of one process apart.
    instance: u64,
    ringroad: u32,
    pub(super) token: [u8; 16],
    pub(super) places: Vec<SocketAddr>,
}

impl Handle {
    /// A new one of this process, for everybody who reaches it by the interface that leads to `MASTER_ADDR`, or, where that
    /// is not set, by any.
    pub fn issue(secret: Option<&str>) -> io::Result<Handle> {
        let master = std::env::var("MASTER_ADDR").ok().filter(|master| !master.is_empty());
        Handle::for_all(secret, master.as_deref())
    }

    /// As [`Handle::issue`], with a host in place of `MASTER_ADDR`.
    pub(crate) fn for_all(secret: Option<&str>, host: Option<&str>) -> io::Result<Handle> {
        let address = host.and_then(address_towards);
        Handle::of(&*Server::of_process(secret)?, address.map_or(Reach::All, Reach::Address))
    }

    /// A new one of this process, for processes of this machine.
    pub(crate) fn for_machine(secret: Option<&str>) -> io::Result<Handle> {
        Handle::of(&*Server::of_process(secret)?, Reach::Machine)
    }

    pub(super) fn of(server: &Server, reach: Reach) -> io::Result<Handle> {
        Ok(Handle {
            host: host_name(),
            pid: std::process::id(),
            pid_space: pid_space(),
            net_space: space("net"),
            instance: token(),
            ringroad: FORMAT,
            token: *server.token(),
            places: server.places(reach)?,
        })
    }

    /// The inverse of [`Handle::to_text`]; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Handle, String> {
        let short: String = text.chars().take(60).collect();
        let wrong =
            |why: String| format!("{short:?} is no handle of ringroad: {why}; pass what handle() returned");
        if text.len() > LONGEST {
            return Err(wrong("it is too long".to_owned()));
        }
        let handle: Handle = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if handle.ringroad != FORMAT {
            return Err(wrong("another version wrote it".to_owned()));
        }
        Ok(handle)
    }

    /// One line that [`Handle::parse`] reads.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a handle has nothing that JSON cannot express")
    }

    /// Whether this process issued it.
    pub fn is_own(&self) -> bool {
        self.pid == std::process::id() && self.pid_space == pid_space()
    }

    /// Whether this process's loopback leads to it.
    pub(super) fn is_behind_loopback(&self) -> bool {
        !self.net_space.is_empty() && self.net_space == space("net")
    }

    /// Whether its process certainly is no more.
    pub(super) fn has_ended(&self) -> bool {
        !self.pid_space.is_empty() && self.pid_space == pid_space() && is_gone(self.pid)
    }
}

/// Reads as `process 17 on host a`.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {}", self.pid, self.host)
    }
}
