//! Random numbers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that no other process has, from the seed that the standard library draws for hash tables.
pub(crate) fn token() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
