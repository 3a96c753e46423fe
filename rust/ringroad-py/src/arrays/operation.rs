//! The argument `op=` of calls on arrays: the name of a reduction, or one of the user's own (`ringroad._operations`).

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_runtime::{DType, Function, Memory, Own, ReduceOp};

use super::array::{dtype_of, operand, Array};
use super::interned::{NAMES, REDUCTIONS};
use super::number::{self, Exactly};
use crate::arguments::{argument_type, Number, Plain};
use crate::interpreter::errors::raise;

/// The operations that look like names of kernels and are the user's own.
const LOCATING: [&str; 2] = ["minloc", "maxloc"];

/// What a caller passes as `op=`; `None`: the sum.
pub struct OpArgument<'py>(Option<Bound<'py, PyAny>>);

argument_type! {own OpArgument<'py>, "the name of a reduction, a NumPy ufunc or a function of two arrays", |object| {
    if object.is_instance_of::<PyString>() || object.is_callable() {
        return Ok(OpArgument(Some(object.to_owned())));
    }
    Err(PyTypeError::new_err(""))
}}

/// Reads `op=` and `factor=`: the reduction, and the factor of this rank's data.
pub fn reduction(op: &str, factor: Option<Number>) -> PyResult<(ReduceOp, f64)> {
    let op: ReduceOp = op.parse().map_err(raise)?;
    Ok((op, op.factor(Plain::inner(factor)).map_err(raise)?))
}

/// How a call reduces, before the type of its elements is known.
pub struct UntypedReduction {
    op: ReduceOp,
    pub factor: f64,
    own: Option<Py<PyAny>>,
}

/// The reduction of collectives that reduce nothing.
pub const PLAIN: UntypedReduction = UntypedReduction { op: ReduceOp::Sum, factor: 1.0, own: None };

impl<'py> OpArgument<'py> {
    /// The default.
    pub fn sum() -> OpArgument<'py> {
        OpArgument(None)
    }

    pub fn is_sum(&self) -> bool {
        self.0.as_ref().is_none_or(|object| object.extract().is_ok_and(|name: &str| name == "sum"))
    }

    /// The argument, for calls that are made in Python.
    pub fn into_object(self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.unwrap_or_else(|| PyString::new(py, ReduceOp::Sum.name()).into_any())
    }

    /// The reduction; `factor`: that of this rank's data.
    pub fn reduction(self, factor: Option<Number>) -> PyResult<UntypedReduction> {
        let Some(object) = self.0 else {
            return Ok(UntypedReduction {
                factor: ReduceOp::Sum.factor(Plain::inner(factor)).map_err(raise)?,
                ..PLAIN
            });
        };
        match object.extract::<&str>() {
            Ok(name) if !LOCATING.contains(&name) => {
                let (op, factor) = reduction(name, factor)?;
                Ok(UntypedReduction { op, factor, own: None })
            }
            _ if factor.is_none() => Ok(UntypedReduction { own: Some(object.unbind()), ..PLAIN }),
            _ => Err(PyValueError::new_err("factor= goes with op='premul_sum' only")),
        }
    }
}

impl OpArgument<'_> {
    /// How elements of this type are reduced: the name of a type, or for reductions of one's own what NumPy makes a dtype of.
    /// `None`: float32.
    pub fn kind(self, py: Python<'_>, dtype: Option<Bound<'_, PyAny>>) -> PyResult<(ReduceOp, DType)> {
        let dtype = &dtype.unwrap_or_else(|| PyString::new(py, DType::F32.name()).into_any());
        let plain = match &self.0 {
            None => Some(ReduceOp::Sum),
            Some(object) => object
                .extract::<&str>()
                .ok()
                .filter(|name| !LOCATING.contains(name))
                .map(str::parse)
                .transpose()
                .map_err(raise)?,
        };
        if let (Some(op), Ok(name)) = (plain, dtype.extract::<&str>()) {
            return Ok((op, name.parse().map_err(raise)?));
        }
        let descr = PyArrayDescr::new(py, dtype)?;
        let op = match plain {
            Some(op) => op,
            None => self.reduction(None)?.for_dtype(|| descr.clone())?.0,
        };
        Ok((op, dtype_of(&descr, "the vector")?))
    }
}

impl UntypedReduction {
    /// Whether the user's own code performs it.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// How it reduces whole numbers that do not overflow; `None` if it does not.
    pub fn exactly(&self) -> Option<(ReduceOp, Exactly)> {
        number::exactly(self.op).filter(|_| !self.is_own())
    }

    /// The reduction of elements of this type, and what performs it if it is the user's own.
    pub fn for_dtype<'py>(
        &self,
        dtype: impl FnOnce() -> Bound<'py, PyArrayDescr>,
    ) -> PyResult<(ReduceOp, Option<Arc<dyn Function>>)> {
        let Some(own) = &self.own else { return Ok((self.op, None)) };
        let dtype = dtype();
        let op = dtype.py().import("ringroad._operations")?.call_method1("chosen", (own, &dtype))?;
        let name = NAMES.get(op.getattr("name")?.extract()?);
        let own = REDUCTIONS.get(&Own { name, commutative: op.getattr("commutative")?.is_truthy()? });
        let function = Combined { op: op.unbind(), dtype: dtype.into_any().unbind() };
        Ok((ReduceOp::Own(own), Some(Arc::new(function))))
    }
}

/// A reduction of the user's own on elements of one type.
#[derive(Debug)]
struct Combined {
    op: Py<PyAny>,
    dtype: Py<PyAny>,
}

impl Combined {
    fn call(&self, py: Python<'_>, left: Memory, right: Memory) -> PyResult<Memory> {
        let arguments = (&self.op, operand(py, left)?, operand(py, right)?, &self.dtype);
        let found = py.import("ringroad._operations")?.call_method1("combine", arguments)?;
        let array = Array::new(&found, "the result")?;
        Ok(array.memory(Arc::new(array.object())))
    }
}

impl Function for Combined {
    fn combine(&self, left: Memory, right: Memory) -> Result<Memory, String> {
        let result = Python::try_attach(|py| self.call(py, left, right).map_err(|error| told(py, error)));
        result.unwrap_or_else(|| Err("the interpreter is ending".to_owned()))
    }
}

/// The traceback of an error. Ctrl-C is passed on to the main thread, too.
fn told(py: Python<'_>, error: PyErr) -> String {
    let (brief, interrupted) = (error.to_string(), error.is_instance_of::<PyKeyboardInterrupt>(py));
    let told = || -> PyResult<String> {
        let lines = py.import("traceback")?.call_method1("format_exception", (error.into_value(py),))?;
        let text: String = PyString::new(py, "").call_method1("join", (lines,))?.extract()?;
        if interrupted {
            // At last, since the first Python code that runs in the main thread raises it.
            py.import("_thread")?.call_method0("interrupt_main")?;
        }
        Ok(format!("\n{}", text.trim_end()))
    };
    told().unwrap_or(brief)
}
