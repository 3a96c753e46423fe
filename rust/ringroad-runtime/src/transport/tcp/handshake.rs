//! Proves that a caller may connect: the Noise protocol `NNpsk0`, by whose third message both sides have proved that they know the
//! group's key and are who they say they are.
//!
//! ```text
//! caller -> door    hello (who calls whom, in the clear), e
//! door -> caller    e, ee
//! caller -> door    an empty sealed message: the first was no replay
//! ```
//!
//! The hello is the protocol's prologue, so that nobody can change it. Each side draws new keys for each connection: what
//! was recorded of one is worth nothing on another. All three messages have fixed lengths, so that a stranger cannot
//! make a rank allocate anything.

use std::sync::Arc;

use hmac::{Hmac, Mac};
use ringroad_core::Rank;
use sha2::Sha256;
use snow::{Builder, HandshakeState, StatelessTransportState};

/// The lengths of the three messages.
pub(crate) const FIRST: usize = HELLO + EPHEMERAL;
pub(crate) const SECOND: usize = EPHEMERAL;
pub(crate) const THIRD: usize = TAG;

const HELLO: usize = 24;
const EPHEMERAL: usize = 32 + TAG;
const TAG: usize = 16;
const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// Names the protocol and its version.
const MAGIC: &[u8; 8] = b"ringrd\x00\x01";
/// The key of groups without a secret begins with this.
const PUBLIC: &str = "ringroad: no secret";

/// What the members of a group know and strangers do not.
#[derive(Clone)]
pub(crate) struct GroupKey {
    bytes: [u8; 32],
    /// Whether everything is encrypted, and not only the handshake authenticated.
    pub is_sealed: bool,
}

impl GroupKey {
    /// The key of the group in which rank i has published the i-th of `parts`, which nobody can guess who has not read
    /// the group's store. With a secret, reading the store is not enough.
    pub fn new<'a>(secret: Option<&str>, parts: impl IntoIterator<Item = &'a [u8]>) -> GroupKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.unwrap_or(PUBLIC).as_bytes())
            .expect("keys of all lengths work");
        mac.update(MAGIC);
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        GroupKey { bytes: mac.finalize().into_bytes().into(), is_sealed: secret.is_some() }
    }
}

/// Which rank calls which, and which of their connections this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub from: Rank,
    pub to: Rank,
    /// The device of `to`.
    pub device: usize,
    pub stream: usize,
}

impl Hello {
    fn write(self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(MAGIC);
        for (place, number) in [self.from, self.to, self.device, self.stream].into_iter().enumerate() {
            let number = u32::try_from(number).expect("ranks, devices and streams are few");
            bytes[8 + 4 * place..][..4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Hello> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let number = |place: usize| Some(u32::from_le_bytes(*rest.get(4 * place..)?.first_chunk()?) as usize);
        let hello = Hello { from: number(0)?, to: number(1)?, device: number(2)?, stream: number(3)? };
        (magic == MAGIC).then_some(hello)
    }
}

/// What both sides have after a handshake.
pub(crate) struct Session {
    /// The key of the headers' checks.
    pub check: u64,
    /// What encrypts; `None` if nothing is encrypted.
    pub cipher: Option<Arc<StatelessTransportState>>,
    /// The numbers of the next records that leave and come.
    pub sent: u64,
    pub received: u64,
}

/// The caller's side, between its first message and its third.
pub(crate) struct Caller {
    noise: Box<HandshakeState>,
    is_sealed: bool,
}

impl Caller {
    /// Begins to call. Returns the first message, too.
    pub fn new(key: &GroupKey, hello: Hello) -> Result<(Caller, [u8; FIRST]), snow::Error> {
        let hello = hello.write();
        let mut noise = builder(key, &hello)?.build_initiator()?;
        let mut message = [0; FIRST];
        message[..HELLO].copy_from_slice(&hello);
        noise.write_message(&[], &mut message[HELLO..])?;
        Ok((Caller { noise: Box::new(noise), is_sealed: key.is_sealed }, message))
    }

    /// Takes the second message. Returns the third, too; `None` if the other side does not know the key.
    pub fn finish(mut self, answer: &[u8; SECOND]) -> Option<(Session, [u8; THIRD])> {
        self.noise.read_message(answer, &mut []).ok()?;
        let check = check_of(&self.noise);
        let cipher = self.noise.into_stateless_transport_mode().ok()?;
        let mut message = [0; THIRD];
        cipher.write_message(0, &[], &mut message).ok()?;
        let cipher = self.is_sealed.then(|| Arc::new(cipher));
        Some((Session { check, cipher, sent: 1, received: 0 }, message))
    }
}

/// The other side, between the second message and the third.
pub(crate) struct Answered {
    pub hello: Hello,
    cipher: StatelessTransportState,
    check: u64,
    is_sealed: bool,
}

impl Answered {
    /// Takes the first message. Returns the second, too; `None` if the caller does not know the key, or `is_meant`
    /// says that nobody calls like this.
    pub fn new(
        key: &GroupKey,
        message: &[u8; FIRST],
        is_meant: impl FnOnce(Hello) -> bool,
    ) -> Option<(Answered, [u8; SECOND])> {
        let (hello, rest) = message.split_at(HELLO);
        let said = Hello::read(hello).filter(|hello| is_meant(*hello))?;
        let mut noise = builder(key, hello).ok()?.build_responder().ok()?;
        noise.read_message(rest, &mut []).ok()?;
        let mut answer = [0; SECOND];
        noise.write_message(&[], &mut answer).ok()?;
        let check = check_of(&noise);
        let cipher = noise.into_stateless_transport_mode().ok()?;
        Some((Answered { hello: said, cipher, check, is_sealed: key.is_sealed }, answer))
    }

    /// Takes the third message; `None` if the first was a replay.
    pub fn finish(self, message: &[u8; THIRD]) -> Option<Session> {
        self.cipher.read_message(0, message, &mut []).ok()?;
        let cipher = self.is_sealed.then(|| Arc::new(self.cipher));
        Some(Session { check: self.check, cipher, sent: 0, received: 1 })
    }
}

fn builder<'a>(key: &'a GroupKey, hello: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(NOISE.parse()?).psk(0, &key.bytes)?.prologue(hello)
}

fn check_of(noise: &HandshakeState) -> u64 {
    let hash = noise.get_handshake_hash().first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*hash)
}

/// Takes the first message of a call, with the bits changed that `bytes` has. The other messages take thousands of times as
/// long, since new keys are drawn; a test changes them.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    use std::sync::OnceLock;

    static GENUINE: OnceLock<(GroupKey, [u8; FIRST])> = OnceLock::new();
    let (key, genuine) = GENUINE.get_or_init(|| {
        let key = GroupKey::new(None, [&b"address"[..]]);
        let (_, first) = Caller::new(&key, Hello { from: 0, to: 1, device: 0, stream: 0 }).unwrap();
        (key, first)
    });
    let mut changed = *genuine;
    bytes.iter().zip(&mut changed).for_each(|(byte, place)| *place ^= byte);
    if changed != *genuine {
        assert!(Answered::new(key, &changed, |_| true).is_none(), "nobody guesses the key");
    }
}

// Miri runs no assembly, as ciphers have.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const HELLO: Hello = Hello { from: 3, to: 1, device: 2, stream: 0 };

    fn key(secret: Option<&str>) -> GroupKey {
        GroupKey::new(secret, [&b"one"[..], b"two"])
    }

    #[test]
    fn who_knows_the_key_is_admitted() {
        for secret in [None, Some("secret")] {
            let (caller, first) = Caller::new(&key(secret), HELLO).unwrap();
            let (answered, second) = Answered::new(&key(secret), &first, |hello| hello == HELLO).unwrap();
            let (one, third) = caller.finish(&second).unwrap();
            let other = answered.finish(&third).unwrap();
            assert_eq!(one.check, other.check);
            assert_eq!((one.cipher.is_some(), other.cipher.is_some()), (secret.is_some(), secret.is_some()));
            assert_eq!((one.sent, one.received), (other.received, other.sent));
            if let (Some(cipher), Some(opener)) = (&one.cipher, &other.cipher) {
                let (mut sealed, mut opened) = ([0; 20], [0; 4]);
                assert_eq!(cipher.write_message(one.sent, b"word", &mut sealed).unwrap(), 20);
                assert_eq!(opener.read_message(other.received, &sealed, &mut opened).unwrap(), 4);
                assert_eq!(&opened, b"word");
                assert!(opener.read_message(other.received + 1, &sealed, &mut opened).is_err(), "a replay");
            }
        }
    }

    #[test]
    fn others_are_not() {
        let right = key(Some("secret"));
        let parts = [&b"one"[..], b"tw", b"o"];
        for wrong in [key(None), key(Some("Secret")), GroupKey::new(Some("secret"), parts)] {
            let (_, first) = Caller::new(&wrong, HELLO).unwrap();
            assert!(Answered::new(&right, &first, |_| true).is_none());
        }
        let (_, first) = Caller::new(&right, HELLO).unwrap();
        assert!(Answered::new(&right, &first, |_| false).is_none(), "nobody calls like this");
        for place in 0..FIRST {
            let mut changed = first;
            changed[place] ^= 1;
            assert!(Answered::new(&right, &changed, |_| true).is_none(), "byte {place} was changed");
        }
    }

    /// One byte of the second or the third message is another.
    #[test]
    fn answers_and_proofs_are_checked() {
        let key = key(None);
        for place in 0..SECOND + THIRD {
            let (caller, first) = Caller::new(&key, HELLO).unwrap();
            let (answered, mut second) = Answered::new(&key, &first, |_| true).unwrap();
            if place < SECOND {
                second[place] ^= 1;
                assert!(caller.finish(&second).is_none(), "byte {place} of the second was changed");
            } else {
                let (_, mut third) = caller.finish(&second).unwrap();
                third[place - SECOND] ^= 1;
                assert!(
                    answered.finish(&third).is_none(),
                    "byte {} of the third was changed",
                    place - SECOND
                );
            }
        }
    }

    #[test]
    fn replays_end_at_the_third_message() {
        let key = key(None);
        let (caller, first) = Caller::new(&key, HELLO).unwrap();
        let (_, second) = Answered::new(&key, &first, |_| true).unwrap();
        let (_, third) = caller.finish(&second).unwrap();
        let (again, _) = Answered::new(&key, &first, |_| true).unwrap();
        assert!(again.finish(&third).is_none());
        let (caller, _) = Caller::new(&key, HELLO).unwrap();
        assert!(caller.finish(&second).is_none(), "the answer to another call");
    }
}
