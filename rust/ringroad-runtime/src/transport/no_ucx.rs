//! The place of `ucx` in a build without it: the rest finds what it finds on a machine that has none.

use std::path::PathBuf;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::transport::{Carrier, Opening};

const ABSENT: &str = "this build of ringroad has no UCX";

pub(crate) fn open(_: Opening) -> Result<Box<dyn Carrier>> {
    Err(absent())
}

pub(crate) fn obstacle(_: &Config, _: Option<&PathBuf>) -> Option<String> {
    Some(ABSENT.to_owned())
}

pub(crate) fn rdma_devices() -> Vec<String> {
    Vec::new()
}

/// An error: there is none.
pub fn library(_: &Config, _: Option<&PathBuf>) -> Result<Vec<(&'static str, String)>> {
    Err(absent())
}

fn absent() -> Error {
    Error::Transport(format!(
        "{ABSENT}; build it with Cargo's feature `ucx`, as wheels are, or use ringroad's own connections \
         (RINGROAD_TRANSPORT=auto,tcp on all ranks)"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::bootstrap::{MemoryStore, Store};
    use crate::communicator::{between_hosts, Means};

    /// Also a rank that hears of it from the other.
    #[test]
    #[cfg_attr(miri, ignore = "it listens")]
    fn who_asks_for_ucx_hears_what_to_do() {
        let asked = [("RINGROAD_TRANSPORT".to_owned(), "ucx".to_owned())];
        let means = Means { config: Config::from_arguments(asked).unwrap(), ..Means::default() };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let connect = |rank| means.connect(means.time(), store.clone(), rank, 2).map(drop).unwrap_err();
        let connect = &connect;
        thread::scope(|scope| {
            for thread in [0, 1].map(|rank| scope.spawn(move || connect(rank))) {
                let error = thread.join().unwrap().to_string();
                assert!(error.contains("has no UCX; build it with"), "{error}");
                assert!(error.contains("RINGROAD_TRANSPORT=auto,tcp"), "{error}");
            }
        });
    }

    #[test]
    fn nobody_else_gets_it() {
        assert_eq!(between_hosts(&Config::default(), None), "tcp: this build of ringroad has no UCX");
    }
}
