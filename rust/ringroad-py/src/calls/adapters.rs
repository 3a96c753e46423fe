//! Calls for adapters such as `ringroad.torch`: on addresses, and on torch tensors.

use std::sync::Arc;

use pyo3::prelude::*;
use ringroad_core::Collective;
use ringroad_runtime::calls::call::elements_of;
use ringroad_runtime::{CallKey, DType, Operation, Request};

use super::run::{plainly, precision, CallOptions};
use crate::arguments::{argument, Count, Number, Plain, Text};
use crate::arrays::array::{check_address, memory, Owner};
use crate::arrays::operation::reduction;
use crate::arrays::tensor::Tensor;
use crate::communicator::PyCommunicator;
use crate::interpreter::errors::raise;

fn dtype(name: &Bound<'_, PyAny>) -> PyResult<DType> {
    argument::<&str>(name)?.parse().map_err(raise)
}

impl PyCommunicator {
    /// Makes a call on the memory at two addresses. Error messages call the addresses by `names`. Returns NotImplemented
    /// if input and output overlap so that the call is not in place.
    fn run_at(
        &self,
        py: Python<'_>,
        mut key: CallKey,
        factor: f64,
        names: [&str; 2],
        addresses: [usize; 2],
        owner: Owner,
        how: CallOptions<'_>,
    ) -> PyResult<Py<PyAny>> {
        let Some(sides) = key.locate(self.0.rank(), self.0.size(), addresses).map_err(raise)? else {
            return Ok(py.NotImplemented());
        };
        for (name, side) in names.into_iter().zip(sides) {
            check_address(name, side)?;
        }
        let [input, output] = sides;
        let (input, output) = (memory(input, owner.clone()), memory(output, owner));
        let mut request = Request::from_key(key, input, output);
        request.factor = factor;
        self.run(py, &mut request, how)
    }
}

#[pymethods]
impl PyCommunicator {
    #[pyo3(name = "_run_raw", signature = (collective, input, output, elements, dtype, owner, *, counts=None, op="sum", factor=None, root=0, wire=None, max_error=None, timeout=None, async_op=false))]
    fn run_raw(
        &self,
        py: Python<'_>,
        collective: Text<'_>,
        input: Count,
        output: Count,
        elements: Count,
        #[pyo3(from_py_with = dtype)] dtype: DType,
        owner: Py<PyAny>,
        counts: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument)] op: &str,
        factor: Option<Number>,
        #[pyo3(from_py_with = argument)] root: usize,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm: None, precision: precision(wire, max_error)?, timeout, async_op };
        let mut key = match Operation::named(collective.0, root).map_err(raise)? {
            Operation::Barrier => return self.run(py, &mut Request::barrier(), how),
            operation => CallKey::new(operation, dtype, elements.0),
        };
        let mut by = 1.0;
        if let Operation::Collective(collective) = key.operation {
            key.counts = counts.map(|counts| self.rows(collective, counts)).transpose()?.map(Into::into);
            (key.op, by) = reduction(op, factor)?;
        }
        self.run_at(py, key, by, ["input", "output"], [input.0, output.0], Arc::new(owner), how)
    }

    #[pyo3(name = "_run_tensors", signature = (collective, input, output, *, op="sum", factor=None, root=0, wire=None, max_error=None, timeout=None, async_op=false))]
    fn run_tensors(
        &self,
        py: Python<'_>,
        collective: Text<'_>,
        input: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument)] op: &str,
        factor: Option<Number>,
        #[pyo3(from_py_with = argument)] root: usize,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let tensors = [Tensor::new(input), Tensor::new(output)];
        let ([Some(from), Some(to)], true) = (&tensors, root < self.0.size()) else {
            return Ok(py.NotImplemented());
        };
        let sides = [from.elements, to.elements];
        let elements = elements_of(collective, self.0.rank(), self.0.size(), sides);
        let Some(elements) = elements.filter(|_| from.dtype == to.dtype) else {
            return Ok(py.NotImplemented());
        };
        let (op, factor) = reduction(op, factor)?;
        let mut key = CallKey::new(Operation::Collective(collective), from.dtype, elements);
        key.op = op;
        let names = ["input", "output"];
        let owner = Arc::new((input.clone().unbind(), output.clone().unbind()));
        let how = CallOptions { algorithm: None, precision: precision(wire, max_error)?, timeout, async_op };
        self.run_at(py, key, factor, names, [from.address, to.address], owner, how)
    }

    #[pyo3(name = "_run_raw_tagged", signature = (direction, address, elements, dtype, owner, peer, tag, *, timeout=None, async_op=false))]
    fn run_raw_tagged(
        &self,
        py: Python<'_>,
        direction: Text<'_>,
        address: Count,
        elements: Count,
        #[pyo3(from_py_with = dtype)] dtype: DType,
        owner: Py<PyAny>,
        peer: Option<Count>,
        tag: Plain<u32>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let operation = Operation::message(direction.0, Plain::inner(peer), Some(tag.0)).map_err(raise)?;
        let key = CallKey::new(operation, dtype, elements.0);
        let how = plainly(timeout, async_op);
        self.run_at(py, key, 1.0, ["address"; 2], [address.0; 2], Arc::new(owner), how)
    }
}
