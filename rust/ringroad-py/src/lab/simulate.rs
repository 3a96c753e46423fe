//! `simulate` and its `Outcome`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_core::cost::CostModel;
use ringroad_core::plan::LowerOptions;
use ringroad_core::simulate::{
    Forwarding, Outcome, Pace, Scenario, SimulationError, Simulator, DEFAULT_EAGER,
};
use ringroad_core::{Schedule, Topology};
use ringroad_runtime::Error;

use crate::arguments::{argument, Count, Length, Plain};
use crate::interpreter::errors::{raise, value_error};
use crate::interpreter::watch::listening;
use crate::results::object;

/// The Python module with the classes of these results.
const SIMULATION: &str = "ringroad.lab._simulation";

/// What the native `simulate` returns, for `ringroad.lab.Simulation`.
#[pyclass(name = "Outcome", module = "ringroad", frozen)]
pub struct PyOutcome(Outcome);

#[pymethods]
impl PyOutcome {
    /// Returns the fields of `Simulation` that are results.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, SIMULATION, &self.0)
    }

    /// Returns the bytes of every link in every step. Empty without details.
    fn link_loads<'py>(
        &self,
        py: Python<'py>,
        topology: Plain<&Topology>,
        model: Plain<&CostModel>,
    ) -> PyResult<Bound<'py, PyAny>> {
        object(py, SIMULATION, &self.0.link_loads(&topology, &model))
    }

    /// Returns for each step the link that needs the longest time; None if none carried anything.
    fn busiest_links<'py>(
        &self,
        py: Python<'py>,
        topology: Plain<&Topology>,
        model: Plain<&CostModel>,
    ) -> PyResult<Bound<'py, PyAny>> {
        object(py, SIMULATION, &self.0.busiest_links(&topology, &model))
    }

    /// Returns the timeline. Empty without details.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, SIMULATION, &self.0.trace.events)
    }

    /// Returns the timeline as JSON.
    fn trace_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.trace).map_err(value_error)
    }

    /// Returns the timeline as JSON for chrome://tracing and ui.perfetto.dev.
    fn chrome_trace(&self) -> String {
        self.0.trace.to_chrome()
    }
}

fn one_of<T: Copy>(what: &str, word: &str, choices: [(&str, T); 2]) -> PyResult<T> {
    let chosen = choices.iter().find(|(name, _)| *name == word);
    chosen.map(|(_, choice)| *choice).ok_or_else(|| {
        let [(first, _), (second, _)] = choices;
        PyValueError::new_err(format!("unknown {what} {word:?}; expected {first:?} or {second:?}"))
    })
}

fn exception(error: SimulationError) -> PyErr {
    let text = error.to_string();
    raise(match error {
        SimulationError::Schedule(_) | SimulationError::TooFewRanks { .. } => Error::Schedule(text),
        SimulationError::Lower(_) | SimulationError::Spent(_) => Error::Schedule(text),
        SimulationError::CutOff { .. } => Error::Topology(text),
        SimulationError::Scenario(_) | SimulationError::Indivisible { .. } => Error::Argument(text),
    })
}

/// Runs a schedule on a model of the network. `ringroad.lab.simulate` calls it, and says what the arguments
/// mean.
#[pyfunction]
#[pyo3(signature = (
    schedule, topology, bytes, late, slow_ranks, slow_links, failed_links, *, model=None, pace="synchronous",
    forwarding="cut-through", skew=None, eager=None, segment=None, details=true
))]
pub fn simulate(
    py: Python<'_>,
    schedule: Plain<&Schedule>,
    topology: Plain<&Topology>,
    bytes: Length,
    late: Plain<Vec<(usize, f64)>>,
    slow_ranks: Plain<Vec<(usize, f64)>>,
    slow_links: Plain<Vec<(usize, usize, f64)>>,
    failed_links: Plain<Vec<(usize, usize)>>,
    model: Option<Plain<&CostModel>>,
    #[pyo3(from_py_with = argument)] pace: &str,
    #[pyo3(from_py_with = argument)] forwarding: &str,
    skew: Option<Plain<(f64, u64)>>,
    eager: Option<Count>,
    segment: Option<Count>,
    #[pyo3(from_py_with = argument)] details: bool,
) -> PyResult<PyOutcome> {
    let paces = [("synchronous", Pace::Synchronous), ("free", Pace::Free)];
    let ways = [("cut-through", Forwarding::CutThrough), ("store-and-forward", Forwarding::StoreAndForward)];
    let lowering = LowerOptions::default();
    let simulator = Simulator {
        model: Plain::inner(model).copied().unwrap_or_default(),
        pace: one_of("pace", pace, paces)?,
        forwarding: one_of("forwarding", forwarding, ways)?,
        eager: Plain::inner(eager).unwrap_or(DEFAULT_EAGER),
        lowering: LowerOptions {
            segment: Plain::inner(segment).unwrap_or(lowering.segment).max(1),
            ..lowering
        },
        details,
    };
    let mut scenario = Scenario {
        late: late.0,
        slow_ranks: slow_ranks.0,
        slow_links: slow_links.0,
        failed_links: failed_links.0,
    };
    if let Some(Plain((spread, seed))) = skew {
        scenario.late.extend(Scenario::skew(schedule.0.ranks, spread, seed).late);
    }
    let (schedule, topology) = (schedule.0, topology.0);
    let outcome =
        listening(py, |budget| simulator.run_within(schedule, topology, bytes.0, &scenario, budget))?;
    outcome.map(PyOutcome).map_err(exception)
}
