//! Random numbers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use rustix::rand::{getrandom, GetRandomFlags};

/// A number that no other process has, from the seed that the standard library draws for hash tables.
pub(crate) fn token() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Random bytes that nobody can guess.
pub(crate) fn secret<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let count = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if count == N {
        Ok(bytes)
    } else {
        Err(io::Error::other("the kernel has too few random bytes"))
    }
}
