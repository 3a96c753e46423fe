//! Schedules in other programs' formats.

use pyo3::prelude::*;
use ringroad_core::cost::CostModel;
use ringroad_core::simulate::Simulator;
use ringroad_lab::formats::{chakra, goal, mscclpp};

use crate::arguments::{Length, Plain};
use crate::interpreter::errors::schedule_error;
use crate::values::schedule::PySchedule;

#[pymethods]
impl PySchedule {
    /// Returns an execution plan for MSCCL++ 0.9.0, as JSON.
    ///
    /// Raises:
    ///     ScheduleError: MSCCL++ does not have the collective, or the plan would be longer than its executor
    ///         accepts.
    fn to_mscclpp(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| mscclpp::write(&self.0)).map_err(schedule_error)
    }

    /// Returns a call as GOAL, the text that LogGOPSim reads. It has the messages that `ringroad.lab.simulate`
    /// simulates.
    ///
    /// Args:
    ///     bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
    ///     model: The cost model, for the time of reductions; None: the default one.
    ///
    /// Raises:
    ///     ScheduleError: The schedule is wrong.
    ///
    /// Example:
    ///     >>> ringroad.Schedule.build("ring", 2, "allgather").to_goal(16).splitlines()[0]
    ///     'num_ranks 2'
    #[pyo3(signature = (bytes, model=None))]
    fn to_goal(&self, py: Python<'_>, bytes: Length, model: Option<Plain<&CostModel>>) -> PyResult<String> {
        let simulator = simulator(model);
        py.detach(|| goal::write(&self.0, bytes.0, &simulator)).map_err(schedule_error)
    }

    /// Returns a call as Chakra execution traces, which ASTRA-sim reads: the contents of a file for each rank.
    ///
    /// Args:
    ///     bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
    ///     model: The cost model, for the time of reductions; None: the default one.
    ///
    /// Raises:
    ///     ScheduleError: The schedule is wrong.
    ///
    /// Example:
    ///     >>> len(ringroad.Schedule.build("ring", 4).to_chakra(1 << 20))
    ///     4
    #[pyo3(signature = (bytes, model=None))]
    fn to_chakra(
        &self,
        py: Python<'_>,
        bytes: Length,
        model: Option<Plain<&CostModel>>,
    ) -> PyResult<Vec<Vec<u8>>> {
        let simulator = simulator(model);
        py.detach(|| chakra::write(&self.0, bytes.0, &simulator)).map_err(schedule_error)
    }
}

fn simulator(model: Option<Plain<&CostModel>>) -> Simulator {
    Simulator { model: Plain::inner(model).copied().unwrap_or_default(), ..Simulator::default() }
}
