//! A rendezvous: where in a store the ranks of one communicator meet, and everything that they tell each other there.
//!
//! All values in the store are sealed here, and all waiting for them happens here. Rank 0 reads what each rank says, and
//! publishes all of it as one value: so a rank makes as many requests in a large job as in a small one. Every 50 ms a rank
//! that waits checks whether a rank of this host has died, whether a rank has given up, whether rank 0 has started a new
//! rendezvous, and whether the user has interrupted. Among more than 16 ranks it checks less often, so that all of them
//! together do not keep the store busy.
//!
//! Rank 0 draws a random prefix of keys, the rendezvous's *place*, and announces it. A key names the place and, after
//! the exchange of endpoints, their digest, so a message is valid in no other place and at no other time. A place
//! whose rank 0 was dead when it was found belongs to an earlier job and is ignored. Rank 0's process gives the
//! others up to two seconds to read why they cannot meet, since the job's store ends with it.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::exchange::{compare, ENDPOINT};
use super::refusals::{self, Refusals};
use super::{seal, BootstrapError, EndpointInfo, Store, StoreError};
use crate::error::Error;
use crate::os::liveness::{has_ended, Liveness};
use crate::os::random::token;

/// The announcement while no rendezvous is open.
const NOWHERE: &[u8] = b"-";
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long a process waits for others, to tell them that they cannot meet: they may be on a busy machine.
const OBJECTION: Duration = Duration::from_secs(10);
/// How often a rank that waits makes these checks, if it is one of [`FEW`].
const SLICE: Duration = Duration::from_millis(50);
const FEW: usize = 16;
/// How often it makes them among very many: users who interrupt, and ranks that give up and end, wait for nobody longer.
const LONG_SLICE: Duration = Duration::from_millis(500);
/// How many other endpoints are looked for in each check.
const AT_ONCE: usize = 8;
/// The most bytes of an announcement, an endpoint, and a goodbye.
const PLACE_BYTES: usize = 64;
pub(super) const ENDPOINT_BYTES: usize = 1 << 20;
const END_BYTES: usize = 1 << 20;

/// Rank 0 draws a place in the store and announces it. When all ranks have come, or rank 0 has given up, rank 0
/// removes the announcement. So a job may make communicators of one name one after the other, and on any number of
/// stores. A rank that finds an old place, where somebody has died or given up, waits for the next announcement.
pub struct Rendezvous {
    store: Arc<dyn Store>,
    /// The key of the announcement; `None` at a fixed place.
    announced: Option<String>,
    /// The prefix of all its keys.
    place: String,
    /// The prefix of the keys of ranks that have seen the same endpoints.
    pub(super) part: String,
    pub(crate) endpoint: EndpointInfo,
    secret: Option<String>,
    start: Instant,
    pub(super) deadline: Instant,
    /// The endpoints that have come, by rank.
    pub(super) endpoints: Vec<Option<EndpointInfo>>,
    /// The rank whose endpoint is looked for next.
    next: Rank,
    liveness: Liveness,
    dead: Vec<Rank>,
    moved: bool,
    refusals: Refusals,
    /// Kept open so that a rank that runs out of descriptors can still leave its goodbye.
    spare: Option<File>,
}

/// The goodbye of a rank that gives up.
#[derive(Serialize, Deserialize)]
pub(crate) struct End {
    /// The rank that is lost: this one, or another because of which it gives up.
    rank: Rank,
    /// Whether it gave up over a timeout.
    late: bool,
    /// Whether the ranks cannot meet, since two processes claim the same, or one claims what there is not.
    #[serde(default)]
    conflict: bool,
    message: String,
}

impl End {
    fn from_conflict(message: String) -> End {
        End { rank: 0, late: false, conflict: true, message }
    }

    /// Reads and checks the goodbye of one of `ranks` ranks.
    pub(crate) fn read(content: &[u8], ranks: usize) -> Result<End, String> {
        let end: End = serde_json::from_slice(content).map_err(|e| unreadable(&e))?;
        check_rank(end.rank, ranks)?;
        Ok(end)
    }

    /// Leaves it at a place. Returns whether the store has taken it: if it is gone, no other rank can read it either.
    fn leave(&self, store: &dyn Store, place: &str, secret: Option<&str>) -> bool {
        let key = end_of(place);
        let content = serde_json::to_vec(self).expect("numbers and text can be written");
        store.set(&key, &seal::seal(secret, &key, &content)).is_ok()
    }
}

/// Uses the store. Its server may be slow, and is asked again until the deadline.
fn patiently<T>(
    store: &dyn Store,
    deadline: Instant,
    act: impl Fn(&dyn Store) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    loop {
        match act(store) {
            Err(StoreError::Silent(_)) if Instant::now() < deadline => store.go_on()?,
            outcome => return outcome,
        }
    }
}

impl Rendezvous {
    /// Joins the rendezvous called `name` as the rank of this endpoint. The rendezvous begins when rank 0 comes. `time`:
    /// since when this rank waits for others, and until when.
    pub fn join(
        store: Arc<dyn Store>,
        name: &str,
        endpoint: EndpointInfo,
        secret: Option<&str>,
        time: Range<Instant>,
    ) -> Result<Rendezvous, BootstrapError> {
        let key = format!("ringroad/{name}");
        let place = |place: &str| format!("{key}/{place}");
        if endpoint.rank == 0 {
            let drawn = format!("{:016x}", token());
            let known =
                |key| patiently(&*store, time.end, |store| store.get(key)).map(|value| value.is_some());
            // After earlier attempts it belongs to them. Before the first one, callers may have been refused already.
            if known(&key)? && known(refusals::KEY)? {
                patiently(&*store, time.end, |store| store.set(refusals::KEY, &[]))?;
            }
            let announcement = seal::seal(secret, &key, drawn.as_bytes());
            patiently(&*store, time.end, |store| store.set(&key, &announcement))?;
            let mut rendezvous = Rendezvous::at(store, &place(&drawn), endpoint, secret, time);
            rendezvous.announced = Some(key);
            return Ok(rendezvous);
        }
        // The announcement of an old rendezvous, rank 0's endpoint there, and its goodbye.
        let (mut over, mut host, mut end) = (None, None, None);
        loop {
            let announced = patiently(&*store, time.end, |store| store.get(&key))?;
            let announced = announced.filter(|announced| announced != NOWHERE);
            let known = announced.is_some() && announced == over;
            if let Some(bytes) = announced.filter(|_| !known) {
                let drawn = open_place(secret, &key, &bytes).inspect_err(|error| {
                    refusals::tell(&*store, &format!("{endpoint} cannot come in: {error}"));
                })?;
                let mut rendezvous =
                    Rendezvous::at(store.clone(), &place(&drawn), endpoint.clone(), secret, time.clone());
                if !rendezvous.is_over() {
                    rendezvous.announced = Some(key);
                    return Ok(rendezvous);
                }
                end = rendezvous.end().ok().flatten();
                (over, host) = (Some(bytes), rendezvous.endpoints[0].take());
            }
            if Instant::now() >= time.end {
                let waited = time.start.elapsed();
                if let Some(End { rank, message, .. }) = end {
                    let waited = waited.as_secs_f64();
                    let message = format!(
                        "rank 0 did not start a new rendezvous within {waited:.1} s, after {message}"
                    );
                    return Err(BootstrapError::GaveUp { rank, late: true, message });
                }
                let came = host.into_iter().collect();
                return Err(BootstrapError::Missing { missing: vec![0], came, waited, refused: Vec::new() });
            }
            store.go_on()?;
            std::thread::sleep(if known { SLICE } else { POLL_INTERVAL });
        }
    }

    /// Tells the ranks that meet, or are about to, that a process of their job cannot take part, so that they cannot meet.
    pub(crate) fn object(store: &dyn Store, name: &str, secret: Option<&str>, message: String) {
        let key = format!("ringroad/{name}");
        let until = Instant::now() + OBJECTION;
        let end = End::from_conflict(message);
        while Instant::now() < until && store.go_on().is_ok() {
            let Ok(announced) = patiently(store, until, |store| store.get(&key)) else { return };
            match announced.filter(|announced| announced != NOWHERE) {
                Some(bytes) => {
                    let place = open_place(secret, &key, &bytes).map(|drawn| format!("{key}/{drawn}"));
                    return drop(place.map(|place| end.leave(store, &place, secret)));
                }
                None => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Joins the rendezvous at a fixed place, which all ranks know and which serves one rendezvous only.
    pub fn at(
        store: Arc<dyn Store>,
        place: &str,
        endpoint: EndpointInfo,
        secret: Option<&str>,
        time: Range<Instant>,
    ) -> Rendezvous {
        Rendezvous {
            store,
            announced: None,
            place: place.to_owned(),
            part: place.to_owned(),
            secret: secret.map(str::to_owned),
            start: time.start,
            deadline: time.end,
            endpoints: vec![None; endpoint.ranks],
            next: 0,
            liveness: Liveness::default(),
            dead: Vec::new(),
            moved: false,
            refusals: Refusals::default(),
            spare: File::open("/dev/null").ok(),
            endpoint,
        }
    }

    /// Whether rank 0 has started a new rendezvous and so ended this one. Then join the next one.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// Returns an error if the user has interrupted or a rank has given up.
    pub fn go_on(&self) -> Result<(), BootstrapError> {
        self.store.go_on()?;
        match self.end()? {
            Some(End { conflict: true, message, .. }) => Err(BootstrapError::Conflict(message)),
            Some(End { rank, late, message, .. }) => Err(BootstrapError::GaveUp { rank, late, message }),
            None => Ok(()),
        }
    }

    /// The host that serves the store, if there is one.
    pub fn host(&self) -> Option<String> {
        self.store.host()
    }

    /// Removes rank 0's announcement.
    pub fn close(&mut self) {
        let Some(key) = self.announced.take().filter(|_| self.endpoint.rank == 0) else { return };
        // Another rank 0 may have announced its own place meanwhile. If the store is gone, no rank can come either.
        let Ok(Some(bytes)) = self.store.get(&key) else { return };
        let is_mine = open_place(self.secret(), &key, &bytes).is_ok_and(|place| self.place.ends_with(&place));
        if is_mine {
            let _ = self.store.set(&key, NOWHERE);
        }
    }

    /// Publishes `value` as `kind` and returns the values of all ranks, in order. Each has at most `most` bytes.
    pub fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.tell(kind, value)?;
        let all = 0..self.endpoint.ranks;
        if self.endpoint.rank > 0 {
            let values = self.hear_all(kind, most)?;
            let reason = || format!("it holds {} values, but there are {} ranks", values.len(), all.end);
            return if values.len() == all.end {
                Ok(values)
            } else {
                Err(refused(&bundle(kind), 0, reason()))
            };
        }
        let values = all.clone().map(|rank| self.wait_for_value(kind, rank, (kind, all.clone()), most));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        self.tell_all(kind, &values)?;
        Ok(values)
    }

    /// Publishes what all ranks have published as `kind`, as rank 0.
    pub(super) fn tell_all(&self, kind: &str, values: &[Vec<u8>]) -> Result<(), BootstrapError> {
        self.tell(&bundle(kind), &pack(values))
    }

    /// Waits for what rank 0 has read of all ranks as `kind`: of as many ranks as it expects.
    pub(super) fn hear_all(&mut self, kind: &str, most: usize) -> Result<Vec<Vec<u8>>, BootstrapError> {
        let (ranks, name) = (self.endpoint.ranks, bundle(kind));
        let whole = most.saturating_add(LENGTH).saturating_mul(ranks);
        let bytes = self.wait_for_value(&name, 0, (kind, 0..ranks), whole)?;
        unpack(&bytes, most).map_err(|reason| refused(&name, 0, reason))
    }

    /// Rank 0 publishes `value`, and all ranks return it. It has at most `most` bytes.
    pub fn share(
        &mut self,
        kind: &str,
        value: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<u8>, BootstrapError> {
        match (self.endpoint.rank, value) {
            (0, Some(value)) => self.tell(kind, value).map(|()| value.to_vec()),
            (0, None) => Err(BootstrapError::Store(StoreError::Failed {
                action: format!("share {kind:?}"),
                reason: "rank 0 has no value to share".to_owned(),
            })),
            _ => self.wait_for_value(kind, 0, (kind, 0..1), most),
        }
    }

    /// Tells the ranks that wait for this one that it gives up, and why. Does nothing if this rank has not come, or
    /// if another rank has given up first. The announcement stays, so that ranks that come later read the goodbye,
    /// too.
    pub fn give_up(&mut self, error: &Error) {
        let key = end_of(&self.place);
        if self.moved || self.endpoints[self.endpoint.rank].is_none() {
            return;
        }
        self.spare = None;
        if matches!(self.store.get(&key), Ok(None)) {
            self.leave_goodbye(error);
        } else {
            self.announced = None;
        }
        // This process may serve the store, and end.
        self.store.until_told(Instant::now() + OBJECTION);
    }

    fn leave_goodbye(&mut self, error: &Error) {
        let late = matches!(error, Error::Timeout(_));
        let message: String =
            format!("{} gave up: {error}", self.endpoint).chars().take(END_BYTES / 16).collect();
        let rank = match error {
            Error::Peer { rank, .. } => *rank,
            _ => self.endpoint.rank,
        };
        let end = End { rank, late, conflict: false, message };
        if end.leave(&*self.store, &self.place, self.secret()) {
            self.announced = None;
        }
    }

    /// Tells the other ranks why they cannot meet for certain. This process is not part of the rendezvous.
    pub(super) fn refuse(&mut self, message: String) {
        End::from_conflict(message).leave(&*self.store, &self.place, self.secret());
        self.endpoints[self.endpoint.rank] = None;
    }

    pub(super) fn tell(&self, kind: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let key = self.key(kind, self.endpoint.rank);
        Ok(self.set(&key, &seal::seal(self.secret(), &key, value))?)
    }

    /// Waits for the value that `rank` publishes as `kind`. `awaited`: what has to be published before, and by whom.
    pub(super) fn wait_for_value(
        &mut self,
        kind: &str,
        rank: Rank,
        awaited: (&str, Range<Rank>),
        most: usize,
    ) -> Result<Vec<u8>, BootstrapError> {
        let key = self.key(kind, rank);
        // Rank 0 asks itself, or alone.
        let ranks = if self.endpoint.rank == 0 { 1 } else { self.endpoint.ranks };
        let slice = (SLICE * ranks.div_ceil(FEW) as u32).min(LONG_SLICE);
        let bytes = loop {
            match self.store.wait(&key, self.deadline.min(Instant::now() + slice)) {
                Ok(bytes) => break bytes,
                Err(StoreError::Timeout { .. } | StoreError::Silent(_)) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(obstacle) = self.look_around(awaited.0, &awaited.1)? {
                // A rank that has ended or left may have published it meanwhile, or the store may have ended with it.
                break self.get(&key).ok().flatten().ok_or(obstacle)?;
            }
        };
        self.open(kind, rank, &bytes, most)
    }

    /// The value that `rank` has published as `kind`, or `None` if there is none yet.
    pub(super) fn published_value(
        &self,
        kind: &str,
        rank: Rank,
        most: usize,
    ) -> Result<Option<Vec<u8>>, BootstrapError> {
        let bytes = self.get(&self.key(kind, rank))?;
        bytes.map(|bytes| self.open(kind, rank, &bytes, most)).transpose()
    }

    /// Notes an endpoint that has come.
    pub(super) fn welcome(&mut self, endpoint: EndpointInfo) {
        let known = &mut self.endpoints[endpoint.rank];
        if known.as_ref() != Some(&endpoint) {
            self.liveness.watch(self.endpoint.process(), endpoint.process());
            *known = Some(endpoint);
        }
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        patiently(&*self.store, self.deadline, |store| store.get(key))
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        patiently(&*self.store, self.deadline, |store| store.set(key, value))
    }

    fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn key(&self, kind: &str, rank: Rank) -> String {
        format!("{}/{kind}/{rank}", self.part)
    }

    fn open(&self, kind: &str, rank: Rank, bytes: &[u8], most: usize) -> Result<Vec<u8>, BootstrapError> {
        let content = seal::open(self.secret(), &self.key(kind, rank), bytes, most);
        content.map(<[u8]>::to_vec).map_err(|reason| refused(kind, rank, reason))
    }

    /// Whether ranks have died or given up here. Invalid values at this place are reported later, once the other
    /// ranks can be told.
    fn is_over(&mut self) -> bool {
        let [host, mine] = [0, self.endpoint.rank].map(|rank| self.look_for_endpoint(rank).ok().flatten());
        let ended = [&host, &mine]
            .into_iter()
            .flatten()
            .any(|endpoint| has_ended(self.endpoint.process(), endpoint.process()));
        let is_over = ended || matches!(self.end(), Ok(Some(_)));
        if is_over {
            self.endpoints[0] = host;
        }
        is_over
    }

    /// Why waiting is pointless, if it is.
    pub(super) fn look_around(
        &mut self,
        kind: &str,
        sources: &Range<Rank>,
    ) -> Result<Option<BootstrapError>, BootstrapError> {
        if kind == ENDPOINT {
            self.look_for_endpoints()?;
        }
        // In this order, a rank's goodbye is found before its end.
        self.dead.extend(self.liveness.ended());
        match self.go_on() {
            Err(obstacle @ (BootstrapError::GaveUp { .. } | BootstrapError::Conflict(_))) => {
                return Ok(Some(obstacle));
            }
            go_on => go_on?,
        }
        if let Some(endpoint) = self.dead.first().and_then(|rank| self.endpoints[*rank].clone()) {
            return Ok(Some(BootstrapError::Died { endpoint: Box::new(endpoint) }));
        }
        if let Some(obstacle) = self.look_for_announcement()? {
            return Ok(Some(obstacle));
        }
        if self.announced.is_some() {
            let refused = self.get(refusals::KEY)?.unwrap_or_default();
            if let Some(reason) = self.refusals.note_refusal(&refused, self.secret.as_deref(), &self.endpoint)
            {
                return Ok(Some(BootstrapError::Conflict(reason)));
            }
        }
        Ok((Instant::now() >= self.deadline).then(|| self.missing(kind, sources)))
    }

    /// The goodbye of a rank that gave up here, if there is one.
    fn end(&self) -> Result<Option<End>, BootstrapError> {
        let key = end_of(&self.place);
        let Some(bytes) = self.get(&key)? else { return Ok(None) };
        let content = seal::open(self.secret(), &key, &bytes, END_BYTES);
        let end = content.and_then(|content| End::read(content, self.endpoint.ranks));
        end.map(Some).map_err(|reason| BootstrapError::Note { key, reason })
    }

    fn look_for_endpoints(&mut self) -> Result<(), BootstrapError> {
        for _ in 0..AT_ONCE.min(self.endpoint.ranks) {
            let rank = self.next;
            self.next = (rank + 1) % self.endpoint.ranks;
            let is_own = rank == self.endpoint.rank;
            if !is_own && self.endpoints[rank].is_some() {
                continue;
            }
            match self.look_for_endpoint(rank)? {
                // Both have come at the same moment.
                Some(other) if is_own && other.instance != self.endpoint.instance => {
                    return Err(self.duplicate(&other.write()));
                }
                // Ranks that expect other numbers of ranks would wait for each other in vain.
                Some(other) if other.ranks != self.endpoint.ranks => {
                    compare(&[self.endpoint.clone(), other])?
                }
                Some(endpoint) if !is_own => self.welcome(endpoint),
                _ => {}
            }
        }
        Ok(())
    }

    fn look_for_endpoint(&self, rank: Rank) -> Result<Option<EndpointInfo>, BootstrapError> {
        self.published_value(ENDPOINT, rank, ENDPOINT_BYTES)?
            .map(|content| EndpointInfo::read(rank, &content))
            .transpose()
    }

    /// Checks the announcement. For rank 0: whether another process has announced a place. For others: whether rank 0
    /// has announced another place.
    fn look_for_announcement(&mut self) -> Result<Option<BootstrapError>, BootstrapError> {
        let Some(key) = &self.announced else { return Ok(None) };
        let announced = self.get(key)?.filter(|announced| announced != NOWHERE);
        let Some(bytes) = announced else {
            if self.endpoint.rank == 0 {
                // The announcement was removed a little late by an earlier rendezvous.
                let drawn = self.place.rsplit('/').next().unwrap_or_default();
                self.set(key, &seal::seal(self.secret(), key, drawn.as_bytes()))?;
            }
            return Ok(None);
        };
        let place = format!("{key}/{}", open_place(self.secret(), key, &bytes)?);
        if place == self.place {
            return Ok(None);
        }
        if self.endpoint.rank == 0 {
            let replaced = BootstrapError::Replaced { endpoint: Box::new(self.endpoint.clone()) };
            // The others meet the newcomer, and may wait for a rank that has taken itself for rank 0.
            refusals::tell(&*self.store, &replaced.to_string());
            return Ok(Some(replaced));
        }
        self.moved = true;
        Ok(Some(BootstrapError::Moved))
    }

    /// The error after a timeout, with the ranks that are missing.
    fn missing(&self, kind: &str, sources: &Range<Rank>) -> BootstrapError {
        let there = |rank: &Rank| matches!(self.store.get(&self.key(kind, *rank)), Ok(Some(_)));
        let mut missing: Vec<Rank> = sources.clone().filter(|rank| !there(rank)).collect();
        if missing.is_empty() {
            missing.push(0); // all have published it, but rank 0 has not said so
        }
        // A rank may come at this very moment.
        let endpoint = |rank: Rank| match &self.endpoints[rank] {
            None if kind == ENDPOINT => self.look_for_endpoint(rank).ok().flatten(),
            known => known.clone(),
        };
        let came = (0..self.endpoint.ranks).filter_map(endpoint).collect();
        let refused = self.refusals.words.clone();
        BootstrapError::Missing { missing, came, waited: self.start.elapsed(), refused }
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.close();
    }
}

const END: &str = "/end";

fn end_of(place: &str) -> String {
    format!("{place}{END}")
}

/// Whether a goodbye lies under this key.
pub(super) fn is_goodbye(key: &str) -> bool {
    key.ends_with(END)
}

fn open_place(secret: Option<&str>, key: &str, bytes: &[u8]) -> Result<String, BootstrapError> {
    let content = seal::open(secret, key, bytes, PLACE_BYTES);
    content.and_then(read_place).map_err(|reason| BootstrapError::Note { key: key.to_owned(), reason })
}

/// Reads and checks the content of an announcement.
pub(crate) fn read_place(content: &[u8]) -> Result<String, String> {
    let place = String::from_utf8_lossy(content).into_owned();
    let is_one = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(place).ok_or_else(|| "it contains no rendezvous place".to_owned())
}

/// The kind under which rank 0 publishes what all ranks have published as `kind`.
fn bundle(kind: &str) -> String {
    format!("all.{kind}")
}

/// The bytes before each value of a bundle, which say how long it is.
const LENGTH: usize = size_of::<u64>();

fn pack(values: &[Vec<u8>]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| (value.len() as u64).to_le_bytes().into_iter().chain(value.iter().copied()))
        .collect()
}

/// Reads a bundle of values of at most `most` bytes each.
pub(crate) fn unpack(mut bytes: &[u8], most: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut values = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= most);
        let cut = length.and_then(|length| rest.split_at_checked(length));
        let (value, rest) = cut.ok_or("a value in it is too long")?;
        values.push(value.to_vec());
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(values)
    } else {
        Err("it ends within a value".to_owned())
    }
}

/// The error for an invalid value that a rank has published.
pub(crate) fn refused(kind: &str, rank: Rank, reason: String) -> BootstrapError {
    BootstrapError::Refused { kind: kind.to_owned(), rank, reason }
}

/// Why a value cannot be read.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    format!("it cannot be read ({error}); use the same version of ringroad on all ranks")
}

/// Checks the number of a rank that another process has named.
pub(crate) fn check_rank(rank: Rank, ranks: usize) -> Result<(), String> {
    if rank < ranks {
        return Ok(());
    }
    Err(format!("it names rank {rank}, but there are {ranks} ranks"))
}
