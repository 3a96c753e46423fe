//! How a process is found by others that want to form a group with it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::endpoint_info::{host_name, pid_space, space};
use super::tcp::{Server, ServerReach};
use crate::os::interfaces::address_towards;
use crate::os::liveness::{is_gone, started};
use crate::os::ports::PortRange;
use crate::os::random::token;

const FORMAT: u32 = 1;
/// All addresses of a machine fit in a text of this length.
const MAX_HANDLE_LENGTH: usize = 4 << 10;

/// A text that a process gives to others, in any way, so that they can form a group with it. As text it is one line
/// of JSON.
///
/// Handles are ordered by host, so that the ranks of a host follow each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    host: String,
    pid: u32,
    pid_space: String,
    /// When it started, in clock ticks since the machine started: process numbers are reused.
    #[serde(default)]
    started: Option<u64>,
    net_space: String,
    /// Distinguishes the handles of one process.
    instance: u64,
    ringroad: u32,
    pub(super) token: [u8; 16],
    pub(super) places: Vec<SocketAddr>,
}

impl Handle {
    /// A new handle of this process. Other processes reach it through the interface that leads to `MASTER_ADDR`, or
    /// through all interfaces if that is not set, at one of these ports.
    pub fn issue(secret: Option<&str>, ports: PortRange) -> io::Result<Handle> {
        let master = std::env::var("MASTER_ADDR").ok().filter(|master| !master.is_empty());
        Handle::for_all(secret, master.as_deref(), ports)
    }

    /// Like [`Handle::issue`], with `host` in place of `MASTER_ADDR`.
    pub(crate) fn for_all(secret: Option<&str>, host: Option<&str>, ports: PortRange) -> io::Result<Handle> {
        let address = host.and_then(address_towards);
        Handle::from_server(
            &*Server::for_process(secret)?,
            address.map_or(ServerReach::All, ServerReach::Address),
            ports,
        )
    }

    /// A new handle of this process, for processes of this machine.
    pub(crate) fn for_machine(secret: Option<&str>) -> io::Result<Handle> {
        Handle::from_server(&*Server::for_process(secret)?, ServerReach::Machine, None)
    }

    pub(super) fn from_server(server: &Server, reach: ServerReach, ports: PortRange) -> io::Result<Handle> {
        Ok(Handle {
            host: host_name(),
            pid: std::process::id(),
            pid_space: pid_space(),
            started: started(std::process::id()),
            net_space: space("net"),
            instance: token(),
            ringroad: FORMAT,
            token: *server.token(),
            places: server.places(reach, ports)?,
        })
    }

    /// The inverse of [`Handle::to_text`]. An error says what is wrong.
    pub fn parse(text: &str) -> Result<Handle, String> {
        let short: String = text.chars().take(60).collect();
        let wrong = |why: String| {
            format!("{short:?} is not a handle of ringroad: {why}; pass what handle() returned")
        };
        if text.len() > MAX_HANDLE_LENGTH {
            return Err(wrong("it is too long".to_owned()));
        }
        let handle: Handle = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if handle.ringroad != FORMAT {
            return Err(wrong("another version wrote it".to_owned()));
        }
        Ok(handle)
    }

    /// The handle as one line of text, for [`Handle::parse`].
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a handle has nothing that JSON cannot express")
    }

    /// Whether this process issued the handle.
    pub fn is_own(&self) -> bool {
        self.pid == std::process::id() && self.pid_space == pid_space() && !is_gone(self.pid, self.started)
    }

    /// Whether this process's loopback interface leads to that process.
    pub(super) fn is_behind_loopback(&self) -> bool {
        !self.net_space.is_empty() && self.net_space == space("net")
    }

    /// Whether this process sees by its number whether that one still runs.
    pub(crate) fn is_visible(&self) -> bool {
        !self.pid_space.is_empty() && self.pid_space == pid_space()
    }

    /// Whether that process has certainly ended.
    pub(super) fn has_ended(&self) -> bool {
        self.is_visible() && is_gone(self.pid, self.started)
    }
}

/// Reads as `process 17 on host a`.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {}", self.pid, self.host)
    }
}
