//! A transport that dies.

use ringroad_core::Rank;
use ringroad_runtime::transport::{Description, Event, Posted, Transport, TransportError};
use ringroad_testing::wrapper::{Post, Wrapped, Wrapper};

/// A transport that dies as a process does: from then on it does nothing, and its peers notice its end.
pub struct Mortal<T> {
    inner: T,
    /// An unused transport that replaces `inner` after the death.
    spare: Option<T>,
    /// How many more sends and receives it posts.
    left: u64,
}

impl<T: Transport> Mortal<T> {
    /// Posts this many sends and receives, then dies.
    pub fn new(inner: T, spare: T, posts: u64) -> Wrapped<Mortal<T>> {
        Wrapped(Mortal { inner, spare: Some(spare), left: posts })
    }
}

impl<T: Transport> Wrapper for Mortal<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    fn describe(&self) -> Description {
        let text = if self.spare.is_some() { "mortal" } else { "dead" }.to_owned();
        Description { text, ..Description::default() }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        match self.left {
            0 => Ok(()),
            _ => self.inner.connect(peer),
        }
    }

    fn post(&mut self, post: Post) -> Result<Posted, TransportError> {
        if self.left == 0 {
            return Ok(Posted::Pending);
        }
        self.left -= 1;
        post.to(&mut self.inner)
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if self.left > 0 {
            self.inner.notify(peer, payload);
        }
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        if self.left > 0 {
            return self.inner.progress(events);
        }
        if let Some(spare) = self.spare.take() {
            self.inner = spare;
        }
        false
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        if self.left > 0 {
            self.inner.inspect(next, events);
        }
    }
}
