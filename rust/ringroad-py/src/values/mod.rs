//! The nouns that need no communicator: networks, schedules, algorithms, costs and profiles.

pub mod algorithm;
pub mod cost;
pub mod given;
pub mod profile;
pub mod schedule;
pub mod topology;

use pyo3::prelude::*;
use ringroad_core::cost::CostModel;
use ringroad_core::{Schedule, Topology};

use self::cost::PyCostModel;
use self::schedule::PySchedule;
use self::topology::PyTopology;
use crate::arguments::Argument;

macro_rules! values {
    ($($class:ident: $value:ty, $words:literal,)*) => {$(
        impl<'a, 'py> Argument<'a, 'py> for &'a $value {
            fn words() -> String {
                $words.to_owned()
            }

            fn read(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                Ok(&object.cast::<$class>()?.get().0)
            }
        }
    )*};
}

values! {
    PyCostModel: CostModel, "a ringroad.CostModel",
    PySchedule: Schedule, "a ringroad.Schedule",
    PyTopology: Topology, "a ringroad.Topology",
}
