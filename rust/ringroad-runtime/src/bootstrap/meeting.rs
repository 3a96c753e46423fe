//! Where on a store the ranks of one communicator meet, though earlier ones of the same name have left keys there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;

use super::card::token;
use super::{BootstrapError, PrefixStore, Store, StoreError};

/// What the name's key holds when nobody is meeting.
const NOWHERE: &[u8] = b"-";
const LOOK: Duration = Duration::from_millis(2);

/// Rank 0 draws a place and announces it; when everybody has come, or rank 0 has given up, it takes the announcement
/// back. So a job may make communicators of one name one after the other, and on any number of stores.
pub struct Meeting {
    store: Arc<dyn Store>,
    key: String,
    rank: Rank,
    place: String,
}

impl Meeting {
    /// Joins the meeting called `name`, which begins when rank 0 comes.
    pub fn join(
        store: Arc<dyn Store>,
        name: &str,
        rank: Rank,
        deadline: Instant,
    ) -> Result<Meeting, BootstrapError> {
        let key = format!("ringroad/{name}");
        let start = Instant::now();
        let place = if rank == 0 {
            let place = format!("{:016x}", token());
            store.set(&key, place.as_bytes())?;
            place
        } else {
            loop {
                match store.get(&key)? {
                    Some(place) if place != NOWHERE => break String::from_utf8_lossy(&place).into_owned(),
                    _ if Instant::now() >= deadline => {
                        return Err(BootstrapError::Missing {
                            missing: vec![0],
                            came: vec![],
                            waited: start.elapsed(),
                        });
                    }
                    _ => std::thread::sleep(LOOK),
                }
            }
        };
        Ok(Meeting { store, key, rank, place })
    }

    /// The part of the store that is this meeting's alone.
    pub fn store(&self) -> PrefixStore<Arc<dyn Store>> {
        PrefixStore::new(format!("{}/{}", self.key, self.place), self.store.clone())
    }

    fn end(&self) -> Result<(), StoreError> {
        self.store.set(&self.key, NOWHERE)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if self.rank == 0 {
            // Where the store is gone, nobody else can come either.
            let _ = self.end();
        }
    }
}
