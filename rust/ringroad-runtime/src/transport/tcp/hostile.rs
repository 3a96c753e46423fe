//! What peers may send who have the group's key: for the fuzz target, and for a test.
//!
//! An input is what comes by two connections, as it is on the wire, with two differences. On the wire a header begins with
//! its check. Here that is computed, and the first two bytes say how the input is to be read: how many bytes of the body are
//! kept back, to come before the next header of the same connection, and which connection it is. And a header of no kind
//! posts a receive.

use std::sync::OnceLock;

use super::frame::{check, Frame, HEADER};
use super::handshake::Session;
use super::matching_state::{ArrivalLimits, MatchingState, Taken, Who, COST};
use super::reader::Reader;
use crate::transport::buffer::Region;
use crate::transport::{Event, MessageKind, Tag};

const KEY: u64 = 7;
/// Small, so that short inputs reach them; what leaves takes several parts.
const LIMITS: ArrivalLimits = ArrivalLimits { eager: 64, window: 1024, announced: 4 };
/// The longest receive.
const LONG: usize = 200;

fn tag(source: usize, message: u32) -> Tag {
    Tag { source, kind: MessageKind::PointToPoint, sequence: 0, message, check: 0 }
}

struct Stream {
    who: Who,
    reader: Reader,
    /// How many bytes of a body were kept back.
    owed: usize,
}

/// Reads such an input; an error says what is wrong with it. Receives are posted meanwhile, and sends are in flight. No
/// request may end twice, and nothing may be written to a receive that has ended.
pub(crate) fn hear_anything(bytes: &[u8]) -> Result<(), String> {
    static SOURCE: OnceLock<Region> = OnceLock::new();
    let source = SOURCE.get_or_init(|| Region::zeroed(300 << 10));
    let session = Session { check: KEY, cipher: None, sent: 0, received: 0 };
    let mut matching_state = MatchingState::with_limits(LIMITS, 3, 1, 2);
    // The memory of receives that have not ended, by request.
    let (mut running, mut ended) = (Vec::new(), Vec::new());
    for bytes in [source.len(), source.len(), source.len(), 10] {
        let request = running.len() as u64;
        matching_state.header(1, tag(0, request as u32).pack(), &source.part(0..bytes), request);
        running.push(Some(Region::nothing()));
    }
    let mut streams = [0, 1].map(|link| {
        let who = Who { link, peer: 1, device: 0, stream: link };
        Stream { who, reader: Reader::new(&session, true), owed: 0 }
    });
    let (mut rest, mut result) = (bytes, Ok(()));
    while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
        let ([kept, link, ..], mut header) = (*header, *header);
        rest = after;
        if header[HEADER - 1] == 0 {
            let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("8 bytes"));
            let target = Region::zeroed(LONG.min(word(16) as usize));
            let request = running.len() as u64;
            running.push(Some(target.clone()));
            match matching_state.receive(0, Tag { source: 1, ..Tag::unpack(word(8)) }, target, request) {
                Taken::Whole => matching_state.events.push(Event::Completed { request, result: Ok(()) }),
                Taken::Redirect(at, place) => streams[at].reader.redirect(place),
                Taken::Wait | Taken::Answer(..) => {}
            }
        } else {
            let sum = check(&header, KEY);
            header[..4].copy_from_slice(&sum);
            let body = Frame::read(&header, KEY).map_or(0, Frame::body).min(after.len());
            let now = body.saturating_sub(kept.into());
            let stream = &mut streams[usize::from(link % 2)];
            let parts = [&vec![9; stream.owed][..], &header, &after[..now]];
            result =
                parts.iter().try_for_each(|part| stream.reader.feed(part, stream.who, &mut matching_state));
            if result.is_err() {
                break;
            }
            (stream.owed, rest) = (body - now, &after[body..]);
            while let Some((_, part, send)) = matching_state.next_part(stream.who) {
                matching_state.part_left(1, send, part.len());
            }
            let _ = matching_state.grant(stream.who);
        }
        for event in matching_state.events.drain(..) {
            if let Event::Completed { request, .. } = event {
                let target: Region = running[request as usize].take().expect("a request ends once");
                // SAFETY: nobody may write it any more, as is checked below.
                ended.push((unsafe { target.to_vec::<u8>() }, target));
            }
        }
    }
    for (content, target) in ended {
        // SAFETY: as above.
        assert_eq!(content, unsafe { target.to_vec::<u8>() }, "a receive that had ended was written");
    }
    result
}

/// What ranks say that do what they should, as inputs of [`hear_anything`].
pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let say = |frame: Frame, kept, link| {
        let mut bytes = frame.write(KEY).to_vec();
        (bytes[0], bytes[1]) = (kept, link);
        bytes.resize(HEADER + frame.body(), 5);
        bytes
    };
    let own = |message| tag(1, message).pack();
    let eager = |message, bytes| Frame::Eager { tag: own(message), bytes };
    let announce = |message, send| Frame::Announce { tag: own(message), bytes: LONG, send };
    let post = |message, bytes| {
        let mut header = say(Frame::Announce { tag: own(message), bytes, send: 0 }, 0, 0);
        header[HEADER - 1] = 0;
        header
    };
    let part = |receive, offset, bytes| Frame::Part { receive, offset, bytes };
    let all = [
        // Eager messages come after their receives, before them, and while they are posted.
        vec![
            [say(Frame::Welcome, 0, 0), post(0, 8), say(eager(0, 8), 0, 0)].concat(),
            [say(eager(1, 60), 0, 0), say(eager(2, 0), 0, 1), post(2, 0), post(1, 60)].concat(),
            [say(eager(3, 60), 50, 0), say(eager(3, 30), 20, 1), post(3, 60), post(3, 40)].concat(),
            [say(eager(4, 9), 0, 0), say(eager(5, 9), 0, 1)].concat(),
        ],
        // Longer ones are announced; their parts come by both connections.
        vec![
            [post(0, LONG), say(announce(0, 0), 0, 0), say(announce(1, 1), 0, 0), post(1, LONG)].concat(),
            [say(part(0, 0, 120), 30, 0), say(part(1, 80, 120), 0, 1), say(part(0, 120, 80), 0, 1)].concat(),
            [say(part(1, 0, 80), 0, 0), say(announce(2, 7), 0, 1), post(2, 70)].concat(),
        ],
        // This rank's messages are wanted, or not; what it has is taken up; the peer says something to all, and leaves.
        vec![
            say(Frame::Accept { send: 0, receive: 3 }, 0, 0),
            say(Frame::Decline { send: 1 }, 0, 1),
            say(Frame::Notice { bytes: 40 }, 20, 0),
            (0..9).flat_map(|message| [post(message, 0), say(eager(message, 0), 0, 0)].concat()).collect(),
            say(Frame::Goodbye { aborted: false }, 0, 0),
        ],
        vec![
            say(Frame::Credit { cost: 10 + COST as u64 }, 0, 0),
            say(Frame::Goodbye { aborted: true }, 0, 1),
        ],
    ];
    all.iter().map(|parts| parts.concat()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::matching_state::{Consequence, Sink};
    use super::*;
    use crate::transport::Lack;

    fn announces(matching_state: &mut MatchingState, message: u32) -> Result<(), String> {
        let who = Who { link: 0, peer: 1, device: 0, stream: 0 };
        let frame = Frame::Announce { tag: tag(1, message).pack(), bytes: LONG, send: message };
        matching_state.heard(who, frame).map(drop)
    }

    #[test]
    fn announcements_are_bounded() {
        let mut matching_state = MatchingState::with_limits(LIMITS, 2, 1, 1);
        let most = LIMITS.announced as u32;
        (0..most).for_each(|message| announces(&mut matching_state, message).unwrap());
        let _ = matching_state.receive(0, tag(1, 1), Region::zeroed(LONG), 0);
        announces(&mut matching_state, most).unwrap();
        let error = announces(&mut matching_state, most + 1).unwrap_err();
        assert!(error.contains("announced more than 4 messages"), "{error}");
    }

    /// A rank without memory for what a peer sends does not blame the peer.
    #[test]
    fn memory_for_messages_may_be_lacking() {
        let limits = ArrivalLimits { eager: 1 << 60, window: 1 << 61, announced: 4 };
        let mut matching_state = MatchingState::with_limits(limits, 2, 1, 1);
        let who = Who { link: 0, peer: 1, device: 0, stream: 0 };
        let frame = Frame::Eager { tag: tag(1, 0).pack(), bytes: 1 << 60 };
        assert!(matches!(matching_state.heard(who, frame), Ok(Consequence::Body(Sink::Nowhere))));
        let reason = format!("no memory for {} bytes", 1u64 << 60);
        assert_eq!(matching_state.events, [Event::Lacks { peer: 1, what: Lack::Memory, reason }]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

        /// Ranks say what they should, and some bytes of it are changed.
        #[test]
        fn whatever_a_peer_sends_is_checked(changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..8)) {
            for mut bytes in conversations() {
                prop_assert_eq!(hear_anything(&bytes), Ok(()));
                for (place, byte) in &changes {
                    let place = usize::from(*place) % bytes.len();
                    bytes[place] = *byte;
                }
                let _ = hear_anything(&bytes);
            }
        }
    }
}
