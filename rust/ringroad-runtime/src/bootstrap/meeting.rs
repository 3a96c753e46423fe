//! Where on a store the ranks of one communicator meet, and everything that they say to each other there.
//!
//! All that is set in the store is sealed here, and all waiting for it happens here. Who waits looks around every 50 ms:
//! whether a rank of this host has died, whether one has given up, whether rank 0 has begun anew elsewhere, whether the user
//! has had enough.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::exchange::CARD;
use super::{seal, BootstrapError, Card, Store, StoreError};
use crate::error::Error;
use crate::liveness::{has_ended, Liveness};
use crate::random::token;

/// What the name's key holds when nobody is meeting.
const NOWHERE: &[u8] = b"-";
const LOOK: Duration = Duration::from_millis(2);
/// How often who waits looks around.
const SLICE: Duration = Duration::from_millis(50);
/// How many cards are looked for at once, beside the one that is waited for.
const AT_ONCE: usize = 8;
/// The most bytes of an announcement, a card, and a farewell.
const PLACE_BYTES: usize = 64;
pub(super) const CARD_BYTES: usize = 1 << 20;
const END_BYTES: usize = 1 << 20;

/// Rank 0 draws a place and announces it; when everybody has come, or rank 0 has given up, it takes the announcement
/// back. So a job may make communicators of one name one after the other, and on any number of stores. Who finds a place
/// that is over, because somebody there has died or given up, waits for the next one.
pub struct Meeting {
    store: Arc<dyn Store>,
    /// The key of the announcement, where there is one.
    announced: Option<String>,
    /// All its keys begin like this.
    place: String,
    /// The part of it that ranks use who have seen the same cards.
    pub(super) part: String,
    pub(crate) card: Card,
    secret: Option<String>,
    start: Instant,
    deadline: Instant,
    /// Whose cards have come.
    pub(super) cards: Vec<Option<Card>>,
    /// Whose card is looked for next.
    next: Rank,
    liveness: Liveness,
    dead: Vec<Rank>,
    moved: bool,
    /// Kept open so that a rank without any other descriptor can still say that it gives up.
    spare: Option<File>,
}

/// What a rank leaves behind that gives up.
#[derive(Serialize, Deserialize)]
struct End {
    rank: Rank,
    /// Whether it was for a deadline.
    late: bool,
    story: String,
}

impl Meeting {
    /// Joins the meeting called `name` as the rank of this card. It begins when rank 0 comes.
    pub fn join(
        store: Arc<dyn Store>,
        name: &str,
        card: Card,
        secret: Option<&str>,
        deadline: Instant,
    ) -> Result<Meeting, BootstrapError> {
        let key = format!("ringroad/{name}");
        let place = |place: &str| format!("{key}/{place}");
        if card.rank == 0 {
            let drawn = format!("{:016x}", token());
            store.set(&key, &seal::seal(secret, &key, drawn.as_bytes()))?;
            let mut meeting = Meeting::at(store, &place(&drawn), card, secret, deadline);
            meeting.announced = Some(key);
            return Ok(meeting);
        }
        let start = Instant::now();
        // What is announced, rank 0's card there, and who gave up, where that meeting is over.
        let (mut over, mut host, mut end) = (None, None, None);
        loop {
            let announced = store.get(&key)?.filter(|announced| announced != NOWHERE);
            let known = announced.is_some() && announced == over;
            if let Some(bytes) = announced.filter(|_| !known) {
                let drawn = open_place(secret, &key, &bytes)?;
                let mut meeting = Meeting::at(store.clone(), &place(&drawn), card.clone(), secret, deadline);
                if !meeting.is_over() {
                    meeting.announced = Some(key);
                    return Ok(meeting);
                }
                end = meeting.end().ok().flatten();
                (over, host) = (Some(bytes), meeting.cards[0].take());
            }
            if Instant::now() >= deadline {
                if let Some(End { rank, story, .. }) = end {
                    let waited = start.elapsed().as_secs_f64();
                    let story = format!("within {waited:.1} s, rank 0 did not begin anew, after {story}");
                    return Err(BootstrapError::GaveUp { rank, late: true, story });
                }
                let came = host.into_iter().collect();
                return Err(BootstrapError::Missing { missing: vec![0], came, waited: start.elapsed() });
            }
            store.go_on()?;
            std::thread::sleep(if known { SLICE } else { LOOK });
        }
    }

    /// Joins the meeting at a place that all know, and that serves one meeting only.
    pub fn at(
        store: Arc<dyn Store>,
        place: &str,
        card: Card,
        secret: Option<&str>,
        deadline: Instant,
    ) -> Meeting {
        Meeting {
            store,
            announced: None,
            place: place.to_owned(),
            part: place.to_owned(),
            secret: secret.map(str::to_owned),
            start: Instant::now(),
            deadline,
            cards: vec![None; card.ranks],
            next: 0,
            liveness: Liveness::default(),
            dead: Vec::new(),
            moved: false,
            spare: File::open("/dev/null").ok(),
            card,
        }
    }

    /// Whether rank 0 has begun anew, which ended this meeting: join the next one.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// An error where the user has had enough, or a rank has given up.
    pub fn go_on(&self) -> Result<(), BootstrapError> {
        self.store.go_on()?;
        match self.end()? {
            Some(End { rank, late, story }) => Err(BootstrapError::GaveUp { rank, late, story }),
            None => Ok(()),
        }
    }

    /// The host that serves the store, where there is one.
    pub fn host(&self) -> Option<String> {
        self.store.host()
    }

    /// Takes rank 0's announcement back.
    pub fn close(&mut self) {
        let Some(key) = self.announced.take().filter(|_| self.card.rank == 0) else { return };
        // Another rank 0 may have announced its own meanwhile. Where the store is gone, nobody else can come either.
        let Ok(Some(bytes)) = self.store.get(&key) else { return };
        let is_mine = open_place(self.secret(), &key, &bytes).is_ok_and(|place| self.place.ends_with(&place));
        if is_mine {
            let _ = self.store.set(&key, NOWHERE);
        }
    }

    /// Publishes `value` as `kind` and returns what all ranks do, in order: at most so many bytes each.
    pub fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.tell(kind, value)?;
        (0..self.card.ranks).map(|rank| self.hear(kind, rank, 0..self.card.ranks, most)).collect()
    }

    /// Rank 0 publishes `value`, everybody returns it: at most so many bytes.
    pub fn share(
        &mut self,
        kind: &str,
        value: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<u8>, BootstrapError> {
        match (self.card.rank, value) {
            (0, Some(value)) => self.tell(kind, value).map(|()| value.to_vec()),
            (0, None) => Err(BootstrapError::Store(StoreError::Failed {
                action: format!("share {kind:?}"),
                reason: "rank 0 has no value to share".to_owned(),
            })),
            _ => self.hear(kind, 0, 0..1, most),
        }
    }

    /// Tells those who still wait for this rank that it gives up, and why. Nothing where it has not come, or where
    /// another rank was the first. The announcement stays, so that who comes later hears of it, too.
    pub fn give_up(&mut self, error: &Error) {
        let key = self.end_key();
        if self.moved || self.cards[self.card.rank].is_none() {
            return;
        }
        self.spare = None;
        if !matches!(self.store.get(&key), Ok(None)) {
            self.announced = None;
            return;
        }
        let late = matches!(error, Error::Timeout(_));
        let story: String = format!("{} gave up: {error}", self.card).chars().take(END_BYTES / 16).collect();
        let end = End { rank: self.card.rank, late, story };
        let content = serde_json::to_vec(&end).expect("numbers and text can be written");
        // Where the store is gone, nobody else can read it either.
        if self.store.set(&key, &seal::seal(self.secret(), &key, &content)).is_ok() {
            self.announced = None;
        }
    }

    pub(super) fn tell(&self, kind: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let key = self.key(kind, self.card.rank);
        Ok(self.store.set(&key, &seal::seal(self.secret(), &key, value))?)
    }

    /// What `rank` has published as `kind`, as all of `sources` do or will.
    pub(super) fn hear(
        &mut self,
        kind: &str,
        rank: Rank,
        sources: Range<Rank>,
        most: usize,
    ) -> Result<Vec<u8>, BootstrapError> {
        let key = self.key(kind, rank);
        let bytes = loop {
            match self.store.wait(&key, self.deadline.min(Instant::now() + SLICE)) {
                Ok(bytes) => break bytes,
                Err(StoreError::Timeout { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(obstacle) = self.look_around(kind, &sources)? {
                // Whoever has ended or gone on may have published it meanwhile.
                break self.store.get(&key)?.ok_or(obstacle)?;
            }
        };
        self.open(kind, rank, &bytes, most)
    }

    /// What `rank` has published as `kind` by now.
    pub(super) fn look(
        &self,
        kind: &str,
        rank: Rank,
        most: usize,
    ) -> Result<Option<Vec<u8>>, BootstrapError> {
        let bytes = self.store.get(&self.key(kind, rank))?;
        bytes.map(|bytes| self.open(kind, rank, &bytes, most)).transpose()
    }

    /// Takes notice of a card that has come.
    pub(super) fn welcome(&mut self, card: Card) {
        self.liveness.watch(self.card.process(), card.process());
        let rank = card.rank;
        self.cards[rank] = Some(card);
    }

    fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn key(&self, kind: &str, rank: Rank) -> String {
        format!("{}/{kind}/{rank}", self.part)
    }

    fn end_key(&self) -> String {
        format!("{}/end", self.place)
    }

    fn open(&self, kind: &str, rank: Rank, bytes: &[u8], most: usize) -> Result<Vec<u8>, BootstrapError> {
        let content = seal::open(self.secret(), &self.key(kind, rank), bytes, most);
        content.map(<[u8]>::to_vec).map_err(|reason| refused(kind, rank, reason))
    }

    /// Whether this is the place of ranks that have given up or died. What cannot be accepted there is an error later, when
    /// the others can hear of it.
    fn is_over(&mut self) -> bool {
        let [host, mine] = [0, self.card.rank].map(|rank| self.look_for_card(rank).ok().flatten());
        let ended =
            [&host, &mine].into_iter().flatten().any(|card| has_ended(self.card.process(), card.process()));
        let is_over = ended || matches!(self.end(), Ok(Some(_)));
        if is_over {
            self.cards[0] = host;
        }
        is_over
    }

    /// Why there is no sense in waiting any longer, if so.
    fn look_around(
        &mut self,
        kind: &str,
        sources: &Range<Rank>,
    ) -> Result<Option<BootstrapError>, BootstrapError> {
        if kind == CARD {
            self.look_for_cards()?;
        }
        // In this order: what a rank has to say comes before its end.
        self.dead.extend(self.liveness.ended());
        match self.go_on() {
            Err(obstacle @ BootstrapError::GaveUp { .. }) => return Ok(Some(obstacle)),
            go_on => go_on?,
        }
        if let Some(card) = self.dead.first().and_then(|rank| self.cards[*rank].clone()) {
            return Ok(Some(BootstrapError::Died { card: Box::new(card) }));
        }
        if let Some(obstacle) = self.look_for_announcement()? {
            return Ok(Some(obstacle));
        }
        Ok((Instant::now() >= self.deadline).then(|| self.missing(kind, sources)))
    }

    /// What a rank has left behind here that gave up.
    fn end(&self) -> Result<Option<End>, BootstrapError> {
        let key = self.end_key();
        let Some(bytes) = self.store.get(&key)? else { return Ok(None) };
        let content = seal::open(self.secret(), &key, &bytes, END_BYTES);
        let end = content.and_then(|content| {
            let end: End = serde_json::from_slice(content).map_err(|e| unreadable(&e))?;
            check_rank(end.rank, self.card.ranks)?;
            Ok(end)
        });
        end.map(Some).map_err(|reason| BootstrapError::Note { key, reason })
    }

    fn look_for_cards(&mut self) -> Result<(), BootstrapError> {
        for _ in 0..AT_ONCE.min(self.card.ranks) {
            let rank = self.next;
            self.next = (rank + 1) % self.card.ranks;
            if self.cards[rank].is_none() {
                if let Some(card) = self.look_for_card(rank)? {
                    self.welcome(card);
                }
            }
        }
        Ok(())
    }

    fn look_for_card(&self, rank: Rank) -> Result<Option<Card>, BootstrapError> {
        self.look(CARD, rank, CARD_BYTES)?.map(|content| Card::read(rank, &content)).transpose()
    }

    /// Whether rank 0 has announced another place, or for rank 0, whether somebody else has.
    fn look_for_announcement(&mut self) -> Result<Option<BootstrapError>, BootstrapError> {
        let Some(key) = &self.announced else { return Ok(None) };
        let announced = self.store.get(key)?.filter(|announced| announced != NOWHERE);
        let Some(bytes) = announced else {
            if self.card.rank == 0 {
                // An earlier meeting ended a little late.
                self.announce()?;
            }
            return Ok(None);
        };
        let place = format!("{key}/{}", open_place(self.secret(), key, &bytes)?);
        if place == self.place {
            return Ok(None);
        }
        if self.card.rank == 0 {
            return Ok(Some(BootstrapError::Replaced { card: Box::new(self.card.clone()) }));
        }
        self.moved = true;
        Ok(Some(BootstrapError::Moved))
    }

    fn announce(&self) -> Result<(), StoreError> {
        let Some(key) = &self.announced else { return Ok(()) };
        let drawn = self.place.rsplit('/').next().unwrap_or_default();
        self.store.set(key, &seal::seal(self.secret(), key, drawn.as_bytes()))
    }

    /// Who is missing, where time has run out.
    fn missing(&self, kind: &str, sources: &Range<Rank>) -> BootstrapError {
        let there = |rank: &Rank| matches!(self.store.get(&self.key(kind, *rank)), Ok(Some(_)));
        let missing: Vec<Rank> = sources.clone().filter(|rank| !there(rank)).collect();
        // Whoever is waited for may come at this very moment.
        let card = |rank: Rank| match &self.cards[rank] {
            None if kind == CARD => self.look_for_card(rank).ok().flatten(),
            known => known.clone(),
        };
        let came = (0..self.card.ranks).filter_map(card).collect();
        BootstrapError::Missing { missing, came, waited: self.start.elapsed() }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.close();
    }
}

fn open_place(secret: Option<&str>, key: &str, bytes: &[u8]) -> Result<String, BootstrapError> {
    let content = seal::open(secret, key, bytes, PLACE_BYTES);
    let place = content.and_then(|content| {
        let place = String::from_utf8_lossy(content).into_owned();
        let is_one = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then_some(place).ok_or_else(|| "it names no place".to_owned())
    });
    place.map_err(|reason| BootstrapError::Note { key: key.to_owned(), reason })
}

/// What a rank says that cannot be accepted.
pub(crate) fn refused(kind: &str, rank: Rank, reason: String) -> BootstrapError {
    BootstrapError::Refused { kind: kind.to_owned(), rank, reason }
}

/// Why a message is no use.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    format!("it cannot be read ({error}); use the same version of ringroad on all ranks")
}

/// Numbers of ranks that others name.
pub(crate) fn check_rank(rank: Rank, ranks: usize) -> Result<(), String> {
    if rank < ranks {
        return Ok(());
    }
    Err(format!("it names rank {rank}, but there are {ranks} ranks"))
}
