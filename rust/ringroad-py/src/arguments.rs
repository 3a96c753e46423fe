//! Reads what Python passes. Errors say what was expected, and show what came; pyo3 adds the argument's name as a note.
//!
//! pyo3's own errors name Rust's types, and some name no argument. So an argument of a plain type is a [`Plain`]. One with a
//! default that is a literal has `#[pyo3(from_py_with = argument)]`, since the literal has the argument's type and is shown
//! in the signature. tests/api/test_odd_arguments.py passes odd objects to all of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_core::{units, Rank};

/// Lists that are longer than this are refused.
const MOST_ITEMS: usize = 1 << 26;

/// Errors show objects whose text is no longer than this, and the types of others.
const SHOWN: usize = 60;

/// A type of arguments, with the words for it in errors.
pub trait Argument<'a, 'py>: Sized {
    fn words() -> String;
    fn read(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self>;
}

/// Reads an argument. Raises TypeError, or ValueError for a number that is too small or too large.
pub fn argument<'a, 'py, T: Argument<'a, 'py>>(object: &'a Bound<'py, PyAny>) -> PyResult<T> {
    converted(object.as_borrowed())
}

/// As [`argument`].
pub fn converted<'a, 'py, T: Argument<'a, 'py>>(object: Borrowed<'a, 'py, PyAny>) -> PyResult<T> {
    T::read(object).map_err(|error| refused(&object, &T::words(), error))
}

/// An argument of a type that others define.
#[derive(Clone, Copy, IntoPyObject)]
pub struct Plain<T>(pub T);

pub type Count = Plain<usize>;
pub type Number = Plain<f64>;
pub type Text<'a> = Plain<&'a str>;

impl<T> Plain<T> {
    /// What an argument that may be left out stands for.
    pub fn inner(given: Option<Plain<T>>) -> Option<T> {
        given.map(|given| given.0)
    }
}

impl<T> Deref for Plain<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'a, 'py, T: Argument<'a, 'py>> FromPyObject<'a, 'py> for Plain<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        converted(object).map(Plain)
    }
}

/// Makes a type one of arguments, by the words for it in errors and how it is read. Of `own` types, functions have arguments
/// without a [`Plain`].
macro_rules! argument_type {
    (own $kind:ty, $words:expr, $read:expr) => {
        argument_type! {$kind, $words, $read}

        impl<'a, 'py> pyo3::FromPyObject<'a, 'py> for $kind {
            type Error = pyo3::PyErr;

            fn extract(object: pyo3::Borrowed<'a, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                $crate::arguments::converted(object)
            }
        }
    };
    ($kind:ty, $words:expr, $read:expr) => {
        impl<'a, 'py> $crate::arguments::Argument<'a, 'py> for $kind {
            fn words() -> String {
                $words.to_owned()
            }

            fn read(object: pyo3::Borrowed<'a, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let read: fn(pyo3::Borrowed<'a, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> = $read;
                read(object)
            }
        }
    };
}
pub(crate) use argument_type;

/// The error for an object that could not be read as what these words say.
pub fn refused(object: &Bound<'_, PyAny>, words: &str, error: PyErr) -> PyErr {
    let text = || format!("expected {words}, not {}", shown(object));
    if error.is_instance_of::<PyTypeError>(object.py()) {
        PyTypeError::new_err(text())
    } else if error.is_instance_of::<PyOverflowError>(object.py()) {
        PyValueError::new_err(text())
    } else {
        error
    }
}

/// The object in an error.
pub fn shown(object: &Bound<'_, PyAny>) -> String {
    match object.repr() {
        Ok(text) if !object.is_callable() && text.len().is_ok_and(|length| length <= SHOWN) => {
            text.to_string()
        }
        _ => match object.get_type().name() {
            Ok(name) => format!("an object of type {name}"),
            Err(_) => "this object".to_owned(),
        },
    }
}

/// The error for a number out of range, which [`refused`] words.
fn no_number() -> PyErr {
    PyOverflowError::new_err("out of range")
}

macro_rules! arguments {
    ($($kind:ty: $words:expr,)*) => {
        $(argument_type! {$kind, $words, |object| object.extract().map_err(Into::into)})*
    };
}

arguments! {
    &'a str: "a text (str)",
    String: "a text (str)",
    bool: "True or False",
    f64: "a number",
    u16: "a whole number from 0 to 65535",
    u32: "a whole number from 0 to 2^32 - 1",
    usize: "a whole number from 0 to 2^64 - 1",
    u64: "a whole number from 0 to 2^64 - 1",
    isize: "a whole number from -2^63 to 2^63 - 1",
    i64: "a whole number from -2^63 to 2^63 - 1",
    &'a [u8]: "bytes",
    Cow<'a, [u8]>: "bytes",
    PathBuf: "a path",
    (usize, usize): "a pair of whole numbers from 0 on",
    (usize, f64): "a rank with a number",
    (usize, usize, f64): "two nodes with a number",
    (usize, usize, f64, f64, f64, f64): "the properties of a link",
    (f64, u64): "a number with a seed",
    (String, String, u64, f64): "(collective, algorithm, bytes, seconds)",
    Bound<'py, PyAny>: "an object",
    HashMap<String, String>: "a dict of texts (str)",
}

/// The numbers of [`PROC_NULL`](ringroad_runtime::PROC_NULL) and of any rank or tag in Python: no rank and no tag, also in
/// NumPy's arrays of int32.
pub const PROC_NULL: i64 = i32::MIN as i64;
pub const ANY: i64 = PROC_NULL + 1;

/// The rank at the other end of a message.
#[derive(Clone, Copy)]
pub struct PeerArgument(pub Rank);

/// The rank from which a message is received; `None`: any.
#[derive(Clone, Copy)]
pub struct SourceArgument(pub Option<Rank>);

/// The tag of a message to be received; `None`: any.
#[derive(Clone, Copy)]
pub struct AnyTag(pub Option<u32>);

/// A rank as Python knows it.
pub fn number_of(peer: Rank) -> i64 {
    i64::try_from(peer).ok().filter(|_| peer != ringroad_runtime::PROC_NULL).unwrap_or(PROC_NULL)
}

argument_type! {own PeerArgument, "a rank, which is a whole number from 0 on, or ringroad.PROC_NULL", |object| {
    match object.extract()? {
        PROC_NULL => Ok(PeerArgument(ringroad_runtime::PROC_NULL)),
        peer => Ok(PeerArgument(Rank::try_from(peer).map_err(|_| no_number())?)),
    }
}}

argument_type! {own SourceArgument, "a rank, which is a whole number from 0 on, None, ringroad.ANY or ringroad.PROC_NULL", |object| {
    if object.is_none() || object.extract::<i64>().is_ok_and(|number| number == ANY) {
        return Ok(SourceArgument(None));
    }
    PeerArgument::read(object).map(|PeerArgument(peer)| SourceArgument(Some(peer)))
}}

argument_type! {own AnyTag, "a whole number from 0 on, or ringroad.ANY", |object| {
    match object.extract()? {
        ANY => Ok(AnyTag(None)),
        tag => Ok(AnyTag(Some(u32::try_from(tag).map_err(|_| no_number())?))),
    }
}}

/// The length of a vector: a number of bytes, or a text with a unit.
pub struct Length(pub u64);

/// Such lengths.
pub struct Lengths(pub Vec<u64>);

argument_type! {own Length, "a number of bytes from 0 on, or a text such as \"1MiB\"", |object| {
    let Ok(text) = object.cast::<PyString>() else { return Ok(Length(object.extract()?)) };
    units::bytes(&text.to_cow()?).map(Length).map_err(|error| PyValueError::new_err(error.to_string()))
}}

impl<'py> FromPyObject<'_, 'py> for Lengths {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let words = "a list of numbers of bytes, or of texts such as \"1MiB\"";
        let items = items(&object).map_err(|error| refused(&object, words, error))?;
        items
            .iter()
            .map(|item| item.extract::<Length>().map(|length| length.0))
            .collect::<PyResult<_>>()
            .map(Lengths)
    }
}

/// Reads a `timeout` argument in seconds.
pub fn duration(seconds: Option<Number>) -> PyResult<Option<Duration>> {
    match Plain::inner(seconds) {
        None => Ok(None),
        Some(seconds) if seconds > 0.0 && seconds <= 365.0 * 86400.0 => {
            Ok(Some(Duration::from_secs_f64(seconds)))
        }
        Some(seconds) => Err(PyValueError::new_err(format!(
            "timeout must be a number of seconds above 0 and up to a year, not {seconds:?}"
        ))),
    }
}

/// The items of a list. PyO3 reserves memory for as many as a `range` says that it has, and ends the process if there is
/// none.
fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match object.len() {
        Ok(length) if length > MOST_ITEMS => Err(PyValueError::new_err(format!(
            "expected a list of at most {MOST_ITEMS} items, not of {length}"
        ))),
        _ => object.extract(),
    }
}

/// A sequence, but no text.
impl<'py, T: for<'a> Argument<'a, 'py>> Argument<'_, 'py> for Vec<T> {
    fn words() -> String {
        format!("a list, each item of which is {}", T::words())
    }

    fn read(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        items(&object)?.iter().map(|item| T::read(item.as_borrowed())).collect()
    }
}

impl<'a, 'py, T: Argument<'a, 'py>> Argument<'a, 'py> for Option<T> {
    fn words() -> String {
        T::words()
    }

    fn read(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        (!object.is_none()).then(|| T::read(object)).transpose()
    }
}
