//! Notes that processes leave for each other, found by their handles: who asks to join a group, and who is invited.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tcp::{Server, TcpStore, UnreachableProcess};
use super::{Handle, Store};
use crate::error::{Error, Result};

/// The notes in this process's own store, and the way to those of others.
pub struct Notes {
    server: Arc<Server>,
    secret: Option<String>,
}

impl Notes {
    /// The notes of the processes that know this secret.
    pub fn for_process(secret: Option<&str>) -> io::Result<Notes> {
        Ok(Notes { server: Server::for_process(secret)?, secret: secret.map(str::to_owned) })
    }

    /// Leaves a note in this process, which others read.
    pub fn keep(&self, key: &str, note: &[u8]) -> Result<()> {
        Ok(self.server.values().set(key, note)?)
    }

    /// The notes in this process whose keys begin with `prefix`.
    pub fn kept(&self, prefix: &str) -> Vec<Arc<[u8]>> {
        self.server.values().under(prefix)
    }

    /// Removes the notes in this process whose keys begin with `prefix`.
    pub fn forget(&self, prefix: &str) {
        self.server.values().remove(prefix);
    }

    /// Leaves a note in the process behind a handle. [`Error::Peer`] if it has ended for certain, [`Error::Timeout`] if it
    /// does not answer.
    pub fn leave(&self, handle: &Handle, key: &str, note: &[u8], within: Duration) -> Result<()> {
        Ok(self.reach(handle, within)?.set(key, note)?)
    }

    /// The note of this key in the process behind a handle. Errors as of [`Notes::leave`].
    pub fn read(&self, handle: &Handle, key: &str, within: Duration) -> Result<Option<Vec<u8>>> {
        Ok(self.reach(handle, within)?.get(key)?)
    }

    fn reach(&self, handle: &Handle, within: Duration) -> Result<TcpStore> {
        let reached = TcpStore::connect(handle, self.secret.as_deref(), Instant::now() + within);
        reached.map_err(|why| match why {
            UnreachableProcess::Gone(_) => Error::Peer { rank: 0, message: why.to_string() },
            UnreachableProcess::Refused(_) | UnreachableProcess::Silent(_) => Error::Timeout(why.to_string()),
            UnreachableProcess::Stranger(..) => Error::Store(why.to_string()),
            UnreachableProcess::Unable(..) => Error::Transport(why.to_string()),
        })
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn notes_are_left_read_and_forgotten() {
        let (own, others) = (Notes::for_process(Some("notes")).unwrap(), Notes::for_process(None).unwrap());
        let handle = Handle::for_machine(Some("notes")).unwrap();
        let soon = Duration::from_secs(20);
        own.leave(&handle, "notes/a", b"1", soon).unwrap();
        own.keep("notes/b", b"2").unwrap();
        assert_eq!(own.read(&handle, "notes/b", soon).unwrap(), Some(b"2".to_vec()));
        assert_eq!(own.kept("notes/").len(), 2);
        assert!(matches!(others.read(&handle, "notes/b", soon), Err(Error::Store(_))), "another secret");
        own.forget("notes/a");
        assert_eq!(own.kept("notes/"), [Arc::from(*b"2")]);
        let mut ended = handle;
        ended.places[0].set_port(1);
        assert!(matches!(own.read(&ended, "notes/b", soon), Err(Error::Timeout(_))), "a firewall may refuse");
    }
}
