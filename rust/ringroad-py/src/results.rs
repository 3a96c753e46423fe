//! Makes Python objects of results, which are plain data with serde.
//!
//! A struct becomes an object of the class that has its name in the given module, called with its fields as keywords: a
//! dataclass, a NamedTuple, or a class of this extension. A struct without such a class becomes a dict. So a result is
//! described twice, in Rust and by its class in Python, and an object cannot be made if the two differ.

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3::BoundObject;
use serde::ser::{Error, Impossible, Serialize, Serializer};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple};

/// The object that Python has for this value. `module` has the classes.
pub fn object<'py>(py: Python<'py>, module: &str, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let module = &py.import(module)?;
    value.serialize(Maker { module }).map_err(|error| error.0)
}

/// A Python exception as an error of serde.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] PyErr);

impl Error for Failed {
    fn custom<T: Display>(text: T) -> Failed {
        Failed(PyValueError::new_err(text.to_string()))
    }
}

type MadeObject<'py> = Result<Bound<'py, PyAny>, Failed>;

#[derive(Clone, Copy)]
struct Maker<'a, 'py> {
    module: &'a Bound<'py, PyModule>,
}

impl<'a, 'py> Maker<'a, 'py> {
    fn plain<T: IntoPyObject<'py>>(self, value: T) -> MadeObject<'py>
    where
        PyErr: From<T::Error>,
    {
        Ok(value.into_pyobject(self.module.py()).map_err(PyErr::from)?.into_bound().into_any())
    }

    fn items(self, length: usize) -> Items<'a, 'py> {
        Items { maker: self, items: Vec::with_capacity(length) }
    }

    fn fields(self, class: Option<Bound<'py, PyAny>>) -> Fields<'a, 'py> {
        Fields { maker: self, class, fields: PyDict::new(self.module.py()), key: None }
    }
}

/// The items of a list or a tuple.
struct Items<'a, 'py> {
    maker: Maker<'a, 'py>,
    items: Vec<Bound<'py, PyAny>>,
}

/// The fields of an object of this class; without a class, of a dict.
struct Fields<'a, 'py> {
    maker: Maker<'a, 'py>,
    class: Option<Bound<'py, PyAny>>,
    fields: Bound<'py, PyDict>,
    key: Option<Bound<'py, PyAny>>,
}

macro_rules! plain {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method(self, value: $type) -> MadeObject<'py> {
            self.plain(value)
        }
    )*};
}

/// The shapes that no result has.
macro_rules! unused {
    ($($method:ident($($type:ty),*) -> $shape:ident;)*) => {$(
        fn $method(self, name: &'static str, $(_: $type),*) -> Result<Self::$shape, Failed> {
            Err(Failed::custom(format!("results have no tuples with names and no variants with fields, as {name} has")))
        }
    )*};
}

impl<'a, 'py> Serializer for Maker<'a, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;
    type SerializeSeq = Items<'a, 'py>;
    type SerializeTuple = Items<'a, 'py>;
    type SerializeMap = Fields<'a, 'py>;
    type SerializeStruct = Fields<'a, 'py>;
    type SerializeTupleStruct = Impossible<Bound<'py, PyAny>, Failed>;
    type SerializeTupleVariant = Impossible<Bound<'py, PyAny>, Failed>;
    type SerializeStructVariant = Impossible<Bound<'py, PyAny>, Failed>;

    plain! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str,
        serialize_bytes: &[u8],
    }

    fn serialize_none(self) -> MadeObject<'py> {
        Ok(self.module.py().None().into_bound(self.module.py()))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> MadeObject<'py> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> MadeObject<'py> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> MadeObject<'py> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> MadeObject<'py> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> MadeObject<'py> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> MadeObject<'py> {
        let mut fields = self.fields(None);
        SerializeMap::serialize_entry(&mut fields, variant, value)?;
        SerializeMap::end(fields)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items<'a, 'py>, Failed> {
        Ok(self.items(length.unwrap_or(0)))
    }

    fn serialize_tuple(self, length: usize) -> Result<Items<'a, 'py>, Failed> {
        Ok(self.items(length))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields<'a, 'py>, Failed> {
        Ok(self.fields(None))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'a, 'py>, Failed> {
        Ok(self.fields(self.module.getattr_opt(name)?))
    }

    unused! {
        serialize_tuple_struct(usize) -> SerializeTupleStruct;
        serialize_tuple_variant(u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_struct_variant(u32, &'static str, usize) -> SerializeStructVariant;
    }
}

impl<'py> SerializeSeq for Items<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        self.items.push(value.serialize(self.maker)?);
        Ok(())
    }

    fn end(self) -> MadeObject<'py> {
        Ok(PyList::new(self.maker.module.py(), self.items)?.into_any())
    }
}

impl<'py> SerializeTuple for Items<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> MadeObject<'py> {
        Ok(PyTuple::new(self.maker.module.py(), self.items)?.into_any())
    }
}

impl<'py> SerializeMap for Fields<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        self.key = Some(key.serialize(self.maker)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let key = self.key.take().expect("serde writes the key first");
        Ok(self.fields.set_item(key, value.serialize(self.maker)?)?)
    }

    fn end(self) -> MadeObject<'py> {
        match self.class {
            Some(class) => Ok(class.call((), Some(&self.fields))?),
            None => Ok(self.fields.into_any()),
        }
    }
}

impl<'py> SerializeStruct for Fields<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failed> {
        SerializeMap::serialize_entry(self, key, value)
    }

    fn end(self) -> MadeObject<'py> {
        SerializeMap::end(self)
    }
}
