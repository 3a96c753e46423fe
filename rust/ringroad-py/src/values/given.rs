//! Algorithms as arguments: names, and schedules of the user's own.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use ringroad_core::algorithms::{self, Member};
use ringroad_runtime::choice::user_schedules;

use super::schedule::PySchedule;
use crate::arguments::argument_type;
use crate::interpreter::errors::{raise, schedule_error};

/// A schedule of the user's own, or the path of its file.
pub enum UserSchedule<'py> {
    Schedule(PyRef<'py, PySchedule>),
    File(PathBuf),
}

argument_type! {own UserSchedule<'py>, "a ringroad.Schedule or the path of its file", |object| {
    match object.cast::<PySchedule>() {
        Ok(schedule) => Ok(UserSchedule::Schedule(schedule.borrow())),
        Err(_) => Ok(UserSchedule::File(object.extract()?)),
    }
}}

impl UserSchedule<'_> {
    fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            UserSchedule::Schedule(schedule) => {
                let schedule = &schedule.0;
                py.detach(|| algorithms::given::add(schedule)).map_err(schedule_error)
            }
            UserSchedule::File(path) => py.detach(|| user_schedules::read(&path)).map_err(raise),
        }
    }
}

/// The members of schedules of the user's own.
pub fn members(py: Python<'_>, schedules: Vec<UserSchedule<'_>>) -> PyResult<Vec<Member>> {
    schedules.into_iter().map(|given| given.member(py)).collect()
}

/// The argument `algorithm=` of a call.
pub enum By<'py> {
    Name(PyBackedStr),
    Given(UserSchedule<'py>),
}

argument_type! {own By<'py>, "the name of an algorithm, a ringroad.Schedule or the path of its file", |object| {
    match object.extract() {
        Ok(name) => Ok(By::Name(name)),
        Err(_) => UserSchedule::read(object).map(By::Given),
    }
}}

impl By<'_> {
    /// The member that it names.
    pub fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            By::Name(name) => match name.strip_prefix("file:") {
                Some(path) => UserSchedule::File(path.into()).member(py),
                None if name.contains(['/', '.']) => UserSchedule::File((*name).into()).member(py),
                None => algorithms::find(&name).map_err(raise),
            },
            By::Given(given) => given.member(py),
        }
    }
}
