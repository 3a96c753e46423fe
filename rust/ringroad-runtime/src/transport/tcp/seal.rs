//! Encrypted records: a length of two bytes, and that many bytes of ciphertext.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use libc::iovec;
use snow::StatelessTransportState;

use super::socket;

/// The most bytes of a record before it is encrypted.
pub(crate) const PLAIN: usize = 32 << 10;
pub(crate) const LENGTH: usize = 2;
const TAG: usize = 16;
const RECORD: usize = LENGTH + PLAIN + TAG;
/// How many records are written or read at once.
const RECORDS: usize = 4;
/// As many bytes become a record where they are. Shorter ones are collected.
const LONG: usize = 4 << 10;

/// Appends a record to others. `number`: how many have left before.
pub(crate) fn seal(
    cipher: &StatelessTransportState,
    number: &mut u64,
    plain: &[u8],
    records: &mut Vec<u8>,
) -> io::Result<()> {
    let length = plain.len() + TAG;
    records.extend_from_slice(&(length as u16).to_le_bytes());
    let start = records.len();
    records.resize(start + length, 0);
    cipher.write_message(*number, plain, &mut records[start..]).map_err(io::Error::other)?;
    *number += 1;
    Ok(())
}

/// The length of the ciphertext that follows these bytes.
pub(crate) fn length(bytes: [u8; LENGTH]) -> Result<usize, String> {
    let length = u16::from_le_bytes(bytes) as usize;
    let is_possible = (TAG..=PLAIN + TAG).contains(&length);
    is_possible.then_some(length).ok_or_else(|| "it has sent a record of an impossible length".to_owned())
}

/// Decrypts the ciphertext of a record into `plain`, which has room for the tag. Returns its length. `number`: how many have
/// come before.
pub(crate) fn open(
    cipher: &StatelessTransportState,
    number: &mut u64,
    record: &[u8],
    plain: &mut [u8],
) -> Result<usize, String> {
    let count = cipher.read_message(*number, record, plain);
    *number += 1;
    count.map_err(|_| "it has sent a record that its key did not seal".to_owned())
}

/// Encrypts what leaves.
pub(super) struct Sealer {
    cipher: Arc<StatelessTransportState>,
    /// The number of the next record.
    number: u64,
    plain: Vec<u8>,
    /// Whether nothing more belongs to the next record.
    is_full: bool,
    /// Records, and how much of them has left.
    records: Vec<u8>,
    left: usize,
}

impl Sealer {
    pub fn new(cipher: Arc<StatelessTransportState>, number: u64) -> Sealer {
        let (plain, records) = (Vec::with_capacity(PLAIN), Vec::with_capacity(RECORDS * RECORD));
        Sealer { cipher, number, plain, is_full: false, records, left: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether another record fits.
    pub fn has_room(&self) -> bool {
        self.left == 0 && self.records.len() + RECORD <= RECORDS * RECORD
    }

    /// Adds to the next record what belongs to it of these bytes, which follow those that were added before. Returns how
    /// many that are.
    pub fn add_bytes(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_long = bytes.len() >= LONG;
        self.is_full |= is_long && !self.plain.is_empty();
        if self.is_full {
            return Ok(0);
        }
        let count = bytes.len().min(PLAIN - self.plain.len());
        if is_long {
            seal(&self.cipher, &mut self.number, &bytes[..count], &mut self.records)?;
            self.is_full = true;
        } else {
            self.plain.extend_from_slice(&bytes[..count]);
        }
        Ok(count)
    }

    /// Ends the record.
    pub fn seal(&mut self) -> io::Result<()> {
        let mut plain = std::mem::take(&mut self.plain);
        if !plain.is_empty() {
            seal(&self.cipher, &mut self.number, &plain, &mut self.records)?;
            plain.clear();
        }
        (self.plain, self.is_full) = (plain, false);
        Ok(())
    }

    /// Returns how many bytes it has tried to write, and how many the kernel has taken.
    pub fn write(&mut self, socket: &OwnedFd) -> io::Result<(usize, usize)> {
        let rest = &mut self.records[self.left..];
        if rest.is_empty() {
            return Ok((0, 0));
        }
        let tried = rest.len();
        let mut part = [iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: tried }];
        // SAFETY: memory of this value, which is borrowed here.
        let taken = unsafe { socket::write(socket, &mut part) }?.unwrap_or(0);
        self.left += taken;
        if taken == tried {
            self.records.clear();
            self.left = 0;
        }
        Ok((tried, taken))
    }
}

/// Decrypts what comes.
pub(super) struct Opener {
    cipher: Arc<StatelessTransportState>,
    number: u64,
    records: Box<[u8]>,
    /// How many bytes of records have come and are not decrypted.
    have: usize,
    plain: Box<[u8]>,
}

impl Opener {
    pub fn new(cipher: Arc<StatelessTransportState>, number: u64) -> Opener {
        // With room for the tag, records are decrypted where they end up.
        let (records, plain) = (vec![0; RECORDS * RECORD].into(), vec![0; PLAIN + TAG].into());
        Opener { cipher, number, records, have: 0, plain }
    }

    /// Reads what has come; `None` if that is nothing, 0 at the end. Whether there may be more: see [`Opener::is_full`].
    pub fn read(&mut self, socket: &OwnedFd) -> io::Result<Option<usize>> {
        let room = &mut self.records[self.have..];
        let part = [iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }];
        // SAFETY: memory of this value, which is borrowed here.
        let count = unsafe { socket::read(socket, &part) }?;
        self.have += count.unwrap_or(0);
        Ok(count)
    }

    /// Whether all room has been used, so that more may be there to be read.
    pub fn is_full(&self) -> bool {
        self.have == self.records.len()
    }

    /// Passes on what the records contain that have come whole.
    pub fn open(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        let mut start = 0;
        while let Some(length) = self.records[start..self.have].first_chunk::<LENGTH>() {
            let end = start + LENGTH + self::length(*length)?;
            if end > self.have {
                break;
            }
            let record = &self.records[start + LENGTH..end];
            let count = open(&self.cipher, &mut self.number, record, &mut self.plain)?;
            each(&self.plain[..count])?;
            start = end;
        }
        self.records.copy_within(start..self.have, 0);
        self.have -= start;
        Ok(())
    }
}
