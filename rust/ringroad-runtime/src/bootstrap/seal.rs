//! Seals everything that ranks put into the store: length, content, and an HMAC-SHA256 of these and the key.
//!
//! Only processes that know the secret can make a seal, and it is valid for one key, which names the rendezvous, the
//! kind of value, and the rank. So nothing can be forged, moved to another key, or taken from another rendezvous.
//! Without a secret the seal protects against accidents only.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The key of seals if the job has no secret.
const PUBLIC_KEY: &str = "ringroad: no secret";
const LENGTH: usize = size_of::<u32>();
const SEAL: usize = 32;

/// The value to set under `key` for this content.
pub(crate) fn seal(secret: Option<&str>, key: &str, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("what ranks say when they meet is far below 4 GiB");
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(content);
    let seal = mac(secret, key, &bytes).finalize().into_bytes();
    bytes.extend_from_slice(&seal);
    bytes
}

/// Checks a value that was found under `key`, and returns its content of at most `most` bytes. An error says what is
/// wrong with it, and what to do.
pub(crate) fn open<'a>(
    secret: Option<&str>,
    key: &str,
    bytes: &'a [u8],
    most: usize,
) -> Result<&'a [u8], String> {
    let count = bytes.len();
    if count > most.saturating_add(LENGTH + SEAL) {
        return Err(format!(
            "it has {count} bytes, but at most {most} are allowed; start all ranks anew with a fresh store"
        ));
    }
    let incomplete = || format!("it is incomplete ({count} bytes); start all ranks anew with a fresh store");
    let length = bytes.first_chunk::<LENGTH>().ok_or_else(incomplete)?;
    let end = (u32::from_le_bytes(*length) as usize).saturating_add(LENGTH);
    if count != end.saturating_add(SEAL) {
        return Err(incomplete());
    }
    let (sealed, seal) = bytes.split_at(end);
    mac(secret, key, sealed).verify_slice(seal).map_err(|_| {
        let secrets = match secret {
            Some(_) => "this rank's secret; set the same RINGROAD_SECRET for all ranks",
            None => "it; set the same RINGROAD_SECRET for all ranks or for none",
        };
        format!(
            "its seal does not fit {secrets}. If that is set correctly, it was damaged or comes from elsewhere: give every \
             job a fresh store that nobody else can write"
        )
    })?;
    Ok(&sealed[LENGTH..])
}

fn mac(secret: Option<&str>, key: &str, bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::new_from_slice(secret.unwrap_or(PUBLIC_KEY).as_bytes()).expect("keys of all lengths work");
    mac.update(&(key.len() as u64).to_le_bytes());
    mac.update(key.as_bytes());
    mac.update(bytes);
    mac
}
