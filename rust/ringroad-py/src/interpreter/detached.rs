//! Values of the runtime that Python objects own.

use std::ops::Deref;

use pyo3::prelude::*;

/// A value that is dropped with the GIL released: that may take locks, and wait for threads that need the GIL.
pub struct Detached<T: Send>(Option<T>);

impl<T: Send> Detached<T> {
    pub fn new(value: T) -> Detached<T> {
        Detached(Some(value))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken only when it is dropped")
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        Python::attach(|py| py.detach(|| drop(value)));
    }
}
