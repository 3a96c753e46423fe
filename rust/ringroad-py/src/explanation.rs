//! Makes an `Explanation`, which is a class of Python.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use ringroad_core::cost::{CostModel, Crossing, Term, Terms};
use ringroad_core::selection::Explanation;
use ringroad_core::Bytes;

use crate::cost::{made, CostFields, PyCostModel};

type Named = BTreeMap<&'static str, f64>;
/// The smallest number of bytes, and the largest one if there is one.
type Range = (Bytes, Option<Bytes>);

#[derive(IntoPyObject)]
struct Fields<'py> {
    topology: String,
    collective: &'static str,
    bytes: Bytes,
    algorithm: String,
    origin: String,
    range: Range,
    model: PyCostModel,
    candidates: Vec<Bound<'py, PyAny>>,
    runner_up: Option<String>,
    margin: Option<f64>,
    terms: Option<Named>,
    runner_up_terms: Option<Named>,
    runner_up_bytes: Option<Range>,
    factors: Named,
}

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

/// Makes an `Explanation`.
pub fn explanation(py: Python<'_>, model: CostModel, found: Explanation) -> PyResult<Bound<'_, PyAny>> {
    let Explanation { topology, collective, bytes, algorithm, origin, range, candidates, runner_up } = &found;
    let candidate = |(row, cost): &(_, _)| {
        CostFields::new(&model, cost, *collective, topology, *bytes).candidate(py, Clone::clone(row))
    };
    let comparison = runner_up.as_ref().map(|(_, comparison)| comparison);
    let (from, to) = *range;
    let fields = Fields {
        topology: topology.spec(),
        collective: collective.name(),
        bytes: *bytes,
        algorithm: algorithm.name(),
        origin: origin.to_string(),
        range: (from, (to < Bytes::MAX).then_some(to)),
        model: PyCostModel(model),
        candidates: candidates.iter().map(candidate).collect::<PyResult<_>>()?,
        runner_up: runner_up.as_ref().map(|(rival, _)| rival.name()),
        margin: comparison.map(|comparison| comparison.margin),
        terms: comparison.map(|comparison| named(&comparison.best)),
        runner_up_terms: comparison.map(|comparison| named(&comparison.rival)),
        runner_up_bytes: comparison.and_then(|comparison| comparison.bytes).map(|bytes| match bytes {
            Crossing::From(from) => (from, None),
            Crossing::UpTo(to) => (0, Some(to)),
        }),
        factors: comparison
            .map(|comparison| {
                comparison.factors.iter().map(|(term, factor)| (name(*term), *factor)).collect()
            })
            .unwrap_or_default(),
    };
    made(&fields.into_pyobject(py)?, "Explanation")
}
