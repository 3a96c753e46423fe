//! How objects show themselves in notebooks, which Python does, and how they hash.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::prelude::*;

/// Calls the function `how` of `ringroad._notebook` with the object.
pub fn shown<'py, T>(object: &Bound<'py, T>, how: &str) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("ringroad._notebook")?.call_method1(how, (object.as_any(),))
}

/// The hash of an object that equals another one only if this text is the same.
pub fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
