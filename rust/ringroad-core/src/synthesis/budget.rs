//! How long a search may go on. The core has no clock, so its caller decides.

use std::fmt;

/// Asks the caller of a search whether it may go on. Searches ask again and again, between pieces of work that take
/// well below a millisecond on usual networks.
#[derive(Clone, Copy)]
pub struct Budget<'a>(Option<&'a (dyn Fn() -> bool + Sync)>);

/// The caller of a search has ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time for it has run out")]
pub struct Spent;

impl<'a> Budget<'a> {
    /// A search may take as long as it needs.
    pub const UNLIMITED: Budget<'static> = Budget(None);

    /// A search may go on as long as `go_on` returns true.
    pub fn new(go_on: &'a (dyn Fn() -> bool + Sync)) -> Budget<'a> {
        Budget(Some(go_on))
    }

    /// An error if the search must end.
    pub fn check(self) -> Result<(), Spent> {
        match self.0 {
            Some(go_on) if !go_on() => Err(Spent),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Budget(limited)" } else { "Budget(unlimited)" })
    }
}
