//! Headers of what travels on a connection.

/// The length of every header.
pub(super) const HEADER: usize = 24;
/// The bits of a header's last word that hold the length; the others hold the kind.
const LENGTH: u64 = (1 << 56) - 1;

/// What a header announces. A body of [`Frame::body`] bytes follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message, with its bytes.
    Eager { tag: u64, bytes: usize },
    /// A message whose bytes follow once the receiver has accepted them. The sender calls it `send`.
    Announce { tag: u64, bytes: usize, send: u32 },
    /// The receiver wants the bytes of `send`, and calls them `receive`.
    Accept { send: u32, receive: u32 },
    /// The receiver does not want the bytes of `send`.
    Decline { send: u32 },
    /// Bytes of the message `receive`, from `offset` on.
    Part { receive: u32, offset: u64, bytes: usize },
    /// Eager messages that cost so much have been taken up.
    Credit { cost: u64 },
    /// A notice, which concerns the whole communicator.
    Notice { bytes: usize },
    /// The sender has taken the call of the receiver.
    Welcome,
    /// The sender leaves: after its last message, or because it has aborted.
    Goodbye { aborted: bool },
}

impl Frame {
    /// The number of bytes that follow the header.
    pub fn body(self) -> usize {
        match self {
            Frame::Eager { bytes, .. } | Frame::Part { bytes, .. } | Frame::Notice { bytes } => bytes,
            _ => 0,
        }
    }

    /// The header. `key` is the connection's.
    pub fn write(self, key: u64) -> [u8; HEADER] {
        let (kind, number, first, second) = match self {
            Frame::Eager { tag, bytes } => (1, 0, tag, bytes as u64),
            Frame::Announce { tag, bytes, send } => (2, send, tag, bytes as u64),
            Frame::Accept { send, receive } => (3, send, u64::from(receive), 0),
            Frame::Decline { send } => (4, send, 0, 0),
            Frame::Part { receive, offset, bytes } => (5, receive, offset, bytes as u64),
            Frame::Credit { cost } => (6, 0, cost, 0),
            Frame::Notice { bytes } => (7, 0, 0, bytes as u64),
            Frame::Goodbye { aborted } => (8, u32::from(aborted), 0, 0),
            Frame::Welcome => (9, 0, 0, 0),
        };
        debug_assert!(second <= LENGTH);
        let second = second & LENGTH | kind << 56;
        let mut header = [0; HEADER];
        header[4..8].copy_from_slice(&number.to_le_bytes());
        header[8..16].copy_from_slice(&first.to_le_bytes());
        header[16..].copy_from_slice(&second.to_le_bytes());
        let sum = check(&header, key);
        header[..4].copy_from_slice(&sum);
        header
    }

    /// The inverse of [`Frame::write`]; `None` if this is no header of the connection.
    pub fn read(header: &[u8; HEADER], key: u64) -> Option<Frame> {
        let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("8 bytes"));
        let (number, first, second) = ((word(0) >> 32) as u32, word(8), word(16));
        let bytes = usize::try_from(second & LENGTH).ok()?;
        let frame = match second >> 56 {
            1 => Frame::Eager { tag: first, bytes },
            2 => Frame::Announce { tag: first, bytes, send: number },
            3 => Frame::Accept { send: number, receive: u32::try_from(first).ok()? },
            4 => Frame::Decline { send: number },
            5 => Frame::Part { receive: number, offset: first, bytes },
            6 => Frame::Credit { cost: first },
            7 => Frame::Notice { bytes },
            8 => Frame::Goodbye { aborted: number != 0 },
            9 => Frame::Welcome,
            _ => return None,
        };
        (frame.write(key) == *header).then_some(frame)
    }
}

/// What a header begins with. Finds headers that are none: those at a wrong place of the stream, or damaged ones that TCP's
/// own sum lets pass.
pub(super) fn check(header: &[u8; HEADER], key: u64) -> [u8; 4] {
    let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("8 bytes"));
    let mix = |sum: u64, word: u64| {
        let product = u128::from(sum ^ word) * 0x9E37_79B9_7F4A_7C15;
        (product >> 64) as u64 ^ product as u64
    };
    ([word(0) >> 32, word(8), word(16)].into_iter().fold(key, mix) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Frame; 10] = [
        Frame::Eager { tag: u64::MAX, bytes: 7 },
        Frame::Announce { tag: 5, bytes: 1 << 40, send: u32::MAX },
        Frame::Accept { send: 3, receive: 4 },
        Frame::Decline { send: 9 },
        Frame::Part { receive: 1, offset: 1 << 33, bytes: 128 << 10 },
        Frame::Credit { cost: 1000 },
        Frame::Notice { bytes: 20 },
        Frame::Welcome,
        Frame::Goodbye { aborted: true },
        Frame::Goodbye { aborted: false },
    ];

    #[test]
    fn headers_come_back() {
        for frame in ALL {
            assert_eq!(Frame::read(&frame.write(77), 77), Some(frame));
            assert_eq!(Frame::read(&frame.write(77), 78), None, "{frame:?} of another connection");
        }
    }

    #[test]
    fn damage_is_found() {
        for frame in ALL {
            for bit in 0..HEADER * 8 {
                let mut header = frame.write(1);
                header[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Frame::read(&header, 1), None, "{frame:?}, bit {bit}");
            }
        }
    }
}
