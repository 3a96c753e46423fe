//! `Explanation`: why an algorithm was chosen.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use ringroad_core::cost::{Comparison, CostModel, Crossing, Term, Terms};
use ringroad_core::Bytes;
use ringroad_runtime::planner::Explanation;

use crate::cost::{PyCandidate, PyCost, PyCostModel};

/// Why an algorithm was chosen. `print` shows it in words. Times are in seconds.
///
/// `comm.explain`, `CostModel.choice` and `Profile.choice` return it.
///
/// Example:
///     >>> found = ringroad.CostModel().choice("allreduce", ringroad.Topology("torus:8x8"), 1 << 20)
///     >>> print(str(found).splitlines()[0])
///     allreduce of 1 MiB on torus:8x8: bfb-ring
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
    /// The spec of the network.
    #[getter]
    fn topology(&self) -> String {
        self.inner.topology.spec()
    }

    /// The collective.
    #[getter]
    fn collective(&self) -> &'static str {
        self.inner.collective.name()
    }

    /// The length of the vector in bytes.
    #[getter]
    fn bytes(&self) -> Bytes {
        self.inner.bytes
    }

    /// The algorithm that is chosen.
    #[getter]
    fn algorithm(&self) -> String {
        self.inner.algorithm.name()
    }

    /// What chose it: "model", "measured" (a profile), "rules" (RINGROAD_TUNER_FILE) or "only" (no other is
    /// allowed).
    #[getter]
    fn origin(&self) -> String {
        self.inner.origin.to_string()
    }

    /// The smallest and the largest number of bytes for which it is chosen; None: there is no largest.
    #[getter]
    fn range(&self) -> (Bytes, Option<Bytes>) {
        let (from, to) = self.inner.range;
        (from, (to < Bytes::MAX).then_some(to))
    }

    /// The `CostModel` that predicts the times.
    #[getter]
    fn model(&self) -> PyCostModel {
        PyCostModel(self.model)
    }

    /// A `Candidate` for each algorithm that can run, the fastest by the model first.
    #[getter]
    fn candidates(&self, py: Python<'_>) -> PyResult<Vec<Py<PyCandidate>>> {
        let Explanation { ref topology, collective, bytes, .. } = self.inner;
        let cost = |cost| PyCost::new(&self.model, cost, collective, topology, bytes);
        let all = self.inner.candidates.iter();
        all.map(|(row, found)| PyCandidate::make(py, cost(found), row.clone())).collect()
    }

    /// The fastest of the other algorithms by the model; None if there is no other.
    #[getter]
    fn runner_up(&self) -> Option<String> {
        self.inner.runner_up.as_ref().map(|(rival, _)| rival.name())
    }

    /// How much longer the runner-up takes, as a fraction of the chosen algorithm's time. Negative if the
    /// model prefers the runner-up.
    #[getter]
    fn margin(&self) -> Option<f64> {
        self.comparison().map(|comparison| comparison.margin)
    }

    /// The chosen algorithm's seconds by their cause: "steps", "messages", "incast", "hops", "bytes",
    /// "reduction".
    #[getter]
    fn terms(&self) -> Option<Named> {
        self.comparison().map(|comparison| named(&comparison.best))
    }

    /// The runner-up's seconds by their cause, as in `terms`.
    #[getter]
    fn runner_up_terms(&self) -> Option<Named> {
        self.comparison().map(|comparison| named(&comparison.rival))
    }

    /// The smallest and the largest number of bytes for which the runner-up is faster; None: it never is.
    #[getter]
    fn runner_up_bytes(&self) -> Option<(Bytes, Option<Bytes>)> {
        match self.comparison()?.bytes? {
            Crossing::From(from) => Some((from, None)),
            Crossing::UpTo(to) => Some((0, Some(to))),
        }
    }

    /// By cause: if it took this many times as long, for all algorithms, both algorithms would be equally
    /// fast.
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
