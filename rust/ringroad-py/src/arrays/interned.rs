//! Values that stay until the process ends, so that the runtime can hold references to them.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use ringroad_runtime::{Opaque, Own};

/// A set of such values. Programs use few of them; each new graph of ranks is one, of 200 bytes.
pub struct Interned<T: ?Sized + 'static>(Mutex<Option<HashSet<&'static T>>>);

/// The names of types and of reductions.
pub static NAMES: Interned<str> = Interned(Mutex::new(None));
/// The reductions of the user's own.
pub static REDUCTIONS: Interned<Own> = Interned(Mutex::new(None));
/// The types that kernels do not know.
pub static TYPES: Interned<Opaque> = Interned(Mutex::new(None));

impl<T: ?Sized + Eq + Hash + ToOwned> Interned<T>
where
    T::Owned: Into<Box<T>>,
{
    /// The value that is equal to this one.
    pub fn get(&self, value: &T) -> &'static T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(known) = known.get(value) {
            return known;
        }
        let new: &'static T = Box::leak(value.to_owned().into());
        known.insert(new);
        new
    }
}
