//! `Explanation`: why an algorithm was chosen.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use ringroad_core::cost::{Comparison, CostModel, Crossing, Term, Terms};
use ringroad_core::Bytes;
use ringroad_runtime::planner::Explanation;

use crate::cost::{PyCandidate, PyCost, PyCostModel};

/// Why an algorithm was chosen.
#[pyclass(name = "Explanation", module = "ringroad", frozen)]
pub struct PyExplanation {
    model: CostModel,
    inner: Explanation,
}

type Named = BTreeMap<&'static str, f64>;

fn name(term: Term) -> &'static str {
    match term {
        Term::Steps => "steps",
        Term::Messages => "messages",
        Term::Incast => "incast",
        Term::Hops => "hops",
        Term::Bytes => "bytes",
        Term::Reduction => "reduction",
    }
}

fn named(terms: &Terms) -> Named {
    terms.all().into_iter().map(|(term, seconds)| (name(term), seconds)).collect()
}

impl PyExplanation {
    pub fn new(model: CostModel, inner: Explanation) -> PyExplanation {
        PyExplanation { model, inner }
    }

    fn comparison(&self) -> Option<&Comparison> {
        self.inner.runner_up.as_ref().map(|(_, comparison)| comparison)
    }
}

#[pymethods]
impl PyExplanation {
    #[getter]
    fn topology(&self) -> String {
        self.inner.topology.spec()
    }

    #[getter]
    fn collective(&self) -> &'static str {
        self.inner.collective.name()
    }

    #[getter]
    fn bytes(&self) -> Bytes {
        self.inner.bytes
    }

    #[getter]
    fn algorithm(&self) -> String {
        self.inner.algorithm.name()
    }

    #[getter]
    fn origin(&self) -> String {
        self.inner.origin.to_string()
    }

    #[getter]
    fn range(&self) -> (Bytes, Option<Bytes>) {
        let (from, to) = self.inner.range;
        (from, (to < Bytes::MAX).then_some(to))
    }

    #[getter]
    fn model(&self) -> PyCostModel {
        PyCostModel(self.model)
    }

    #[getter]
    fn candidates(&self, py: Python<'_>) -> PyResult<Vec<Py<PyCandidate>>> {
        let Explanation { ref topology, collective, bytes, .. } = self.inner;
        let cost = |cost| PyCost::new(&self.model, cost, collective, topology, bytes);
        let all = self.inner.candidates.iter();
        all.map(|(row, found)| PyCandidate::make(py, cost(found), row.clone())).collect()
    }

    #[getter]
    fn runner_up(&self) -> Option<String> {
        self.inner.runner_up.as_ref().map(|(rival, _)| rival.name())
    }

    #[getter]
    fn margin(&self) -> Option<f64> {
        self.comparison().map(|comparison| comparison.margin)
    }

    #[getter]
    fn terms(&self) -> Option<Named> {
        self.comparison().map(|comparison| named(&comparison.best))
    }

    #[getter]
    fn runner_up_terms(&self) -> Option<Named> {
        self.comparison().map(|comparison| named(&comparison.rival))
    }

    #[getter]
    fn runner_up_bytes(&self) -> Option<(Bytes, Option<Bytes>)> {
        match self.comparison()?.bytes? {
            Crossing::From(from) => Some((from, None)),
            Crossing::UpTo(to) => Some((0, Some(to))),
        }
    }

    #[getter]
    fn factors(&self) -> Named {
        let factors = self.comparison().map_or(&[][..], |comparison| &comparison.factors);
        factors.iter().map(|(term, factor)| (name(*term), *factor)).collect()
    }

    fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("ringroad._explain")?.call_method1("text", (slf,))?.extract()
    }

    fn __repr__(&self) -> String {
        let Explanation { collective, bytes, algorithm, origin, .. } = &self.inner;
        format!("<Explanation: {} of {bytes} bytes by {algorithm} ({origin})>", collective.name())
    }
}
