//! `Schedule`.

use std::collections::BTreeMap;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringroad_core::interchange::{self, msccl};
use ringroad_core::plan::LowerOptions;
use ringroad_core::schedule::{Local, Send, Step};
use ringroad_core::synthesis::alltoall::held_by_relays;
use ringroad_core::{algorithms, Action, ChunkSet, Collective, Plan, Schedule};

use super::topology::TopologyArgument;
use crate::arguments::{argument, argument_type, Count, Plain, Text};
use crate::interpreter::errors::{raise, schedule_error};
use crate::interpreter::notebook::{hash, shown};

/// With more ranks, an all-to-all has more messages than tags can number.
const MOST_RANKS: usize = 8192;
/// How much of a schedule is printed.
const LINES: usize = 22;
const COLUMNS: usize = 96;
const SENT: &str =
    "step, source, destination, list of chunks, action, port, slot that is read, slot that is written";
const DONE: &str = "step, rank, list of chunks, action, slot that is read, slot that is written";
/// As `SENT` says.
type SendTuple<W> = (usize, usize, usize, Vec<usize>, W, usize, usize, usize);
/// As `DONE` says.
type LocalTuple<W> = (usize, usize, Vec<usize>, W, usize, usize);

fn word(action: Action) -> &'static str {
    match action {
        Action::Reduce => "reduce",
        Action::Copy => "copy",
    }
}

fn action(text: &str) -> PyResult<Action> {
    let known = [Action::Copy, Action::Reduce].into_iter().find(|action| word(*action) == text);
    known.ok_or_else(|| schedule_error(format!("an action is \"copy\" or \"reduce\", not \"{text}\"")))
}

/// The fields of a row, which may be any sequence.
fn fields<'py, T: FromPyObjectOwned<'py>>(row: &Bound<'py, PyAny>, names: &str) -> PyResult<T> {
    let items = row.try_iter().and_then(|items| items.collect::<PyResult<Vec<_>>>());
    let fields = items.and_then(|items| PyTuple::new(row.py(), items)?.extract().map_err(Into::into));
    fields.map_err(|_| schedule_error(format!("it must be ({names})")))
}

/// The set of these chunks, if a schedule with `count` chunks has them.
fn within(chunks: Vec<usize>, count: usize) -> PyResult<ChunkSet> {
    match chunks.iter().find(|chunk| **chunk >= count) {
        Some(chunk) => Err(schedule_error(format!("there is no chunk {chunk}; there are {count} chunks"))),
        None => Ok(chunks.into_iter().collect()),
    }
}

/// The error of a row that cannot be read.
fn of_row(list: &str, number: usize, row: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    schedule_error(format!("{list}[{number}], {row}: {}", error.value(row.py())))
}

/// At most a screen of a text.
fn screen(text: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(COLUMNS) {
        Some((end, _)) => format!("{} ...", &line[..line[..end].rfind(" |").unwrap_or(end)]),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().take(LINES).map(cut).collect();
    match text.lines().skip(LINES).count() {
        0 => {}
        more => lines.push(format!("... and {more} more steps; sends() and locals() return everything")),
    }
    lines.join("\n")
}

pub(crate) fn collective_of(name: &str, root: Option<Count>) -> PyResult<Collective> {
    Ok(name.parse::<Collective>().map_err(raise)?.with_root(Plain::inner(root).unwrap_or(0)))
}

/// Which rank sends which chunks to which other in which step, for all ranks.
///
/// A schedule is a value: it can be compared (by what is sent), printed, pickled, and stored as JSON.
/// The vector is cut into chunks. In a step each rank may send chunks; the receiver copies them or reduces them into its
/// own. A rank may keep several values of a chunk apart, in slots; slot 0 is the vector. If all ranks
/// do the same, only the sends of one rank are stored (`symmetric`).
///
/// Example:
///     >>> swing = ringroad.Schedule.build("swing", "torus:4x4")
///     >>> swing.verify()
///     >>> swing.ranks, swing.steps, swing.max_sent
///     (16, 8, 1.875)
#[pyclass(name = "Schedule", module = "ringroad", frozen, eq)]
pub struct PySchedule(pub Schedule);

/// By what is sent: it does not matter whether it is written out for all ranks.
impl PartialEq for PySchedule {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        let head = |schedule: &Schedule| {
            (schedule.collective, schedule.ranks, schedule.chunks, schedule.steps.len())
        };
        one == other
            || one.name == other.name
                && head(one) == head(other)
                && one.symmetry != other.symmetry
                && one.expand() == other.expand()
    }
}

argument_type! {&'a Schedule, "a ringroad.Schedule", |object| Ok(&object.cast::<PySchedule>()?.get().0)}
argument_type! {Bound<'py, PySchedule>, "a ringroad.Schedule", |object| Ok(object.cast()?.to_owned())}

#[pymethods]
impl PySchedule {
    /// Builds the schedule of an algorithm on a network.
    ///
    /// Args:
    ///     algorithm: The algorithm's name, such as "swing" or "generalized:2".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     collective: For example "allreduce".
    ///     root: The root of a broadcast, reduce, gather or scatter. None: rank 0.
    ///
    /// Returns:
    ///     The schedule. It is not verified; `verify` does that.
    ///
    /// Raises:
    ///     ScheduleError: The algorithm is unknown, or does not perform the collective on this network. The
    ///         message names algorithms that do.
    ///     ValueError: The collective is unknown.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> print(ringroad.Schedule.build("binomial", 4, "broadcast"))
    ///     binomial: broadcast (root 0) over 4 ranks, 1 chunks
    ///     step 0: 0→2 =[0]
    ///     step 1: 0→1 =[0] | 2→3 =[0]
    #[staticmethod]
    #[pyo3(signature = (algorithm, topology, collective="allreduce", root=None))]
    fn build(
        py: Python<'_>,
        algorithm: Text<'_>,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
        root: Option<Count>,
    ) -> PyResult<Self> {
        let collective = collective_of(collective, root)?;
        let (member, topology) = (algorithms::find(algorithm.0).map_err(raise)?, topology.resolve()?);
        py.detach(|| member.build(&topology, collective)).map(PySchedule).map_err(raise)
    }

    /// Reads what `to_json` wrote.
    ///
    /// Args:
    ///     text: The JSON.
    ///
    /// Returns:
    ///     The schedule. It is not verified.
    ///
    /// Raises:
    ///     ScheduleError: The text is not a schedule. The message says why.
    #[staticmethod]
    fn from_json(text: Text<'_>) -> PyResult<Self> {
        Schedule::from_json(text.0).map(PySchedule).map_err(schedule_error)
    }

    /// Makes a schedule of messages, the opposite of `sends` and `locals`.
    ///
    /// `ScheduleBuilder` is more convenient by hand.
    ///
    /// Args:
    ///     name: The schedule's name.
    ///     ranks: The number of ranks.
    ///     chunks: Into how many equal chunks the data is cut: the vector, or in an alltoall all blocks of all
    ///         ranks. None: as few as the collective needs, one for each block.
    ///     sends: Tuples or lists as `sends` returns them. Messages of a step that reduce into the same chunk do
    ///         so in this order.
    ///     locals: Tuples or lists as `locals` returns them, in the order in which ranks do them.
    ///     collective: What the schedule is meant to perform.
    ///     root: The root of a broadcast, reduce, gather or scatter. None: rank 0.
    ///
    /// Returns:
    ///     The schedule. It is not verified. Empty steps are left out, and later ones move up.
    ///
    /// Raises:
    ///     ScheduleError: A message or local operation cannot be read, is empty, names what does not exist, or
    ///         leads from a rank to itself; or the number of chunks or the root does not fit the collective.
    ///         The message says which one.
    ///     ValueError: The collective is unknown, or a number is negative.
    ///
    /// Example:
    ///     >>> swap = [(0, 0, 1, [0], "copy", 0, 0, 0), (0, 1, 0, [1], "copy", 0, 0, 0)]
    ///     >>> ringroad.Schedule.from_sends("swap", 2, None, swap, collective="allgather").verify()
    #[staticmethod]
    #[pyo3(signature = (name, ranks, chunks, sends, locals=None, collective="allreduce", root=None))]
    fn from_sends(
        name: Text<'_>,
        ranks: Count,
        chunks: Option<Count>,
        sends: Plain<Vec<Bound<'_, PyAny>>>,
        locals: Option<Plain<Vec<Bound<'_, PyAny>>>>,
        #[pyo3(from_py_with = argument)] collective: &str,
        root: Option<Count>,
    ) -> PyResult<Self> {
        let collective = collective_of(collective, root)?;
        let chunks = Plain::inner(chunks).unwrap_or_else(|| collective.blocks(ranks.0));
        let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
        for (number, row) in sends.0.iter().enumerate() {
            let read = |row| -> PyResult<(usize, Send)> {
                let (step, source, destination, sent, word, port, from, into): SendTuple<String> =
                    fields(row, SENT)?;
                let (chunks, action) = (within(sent, chunks)?, action(&word)?);
                Ok((step, Send { source, destination, chunks, action, port, from, into }))
            };
            let (step, send) = read(row).map_err(|error| of_row("sends", number, row, error))?;
            steps.entry(step).or_default().sends.push(send);
        }
        for (number, row) in Plain::inner(locals).unwrap_or_default().iter().enumerate() {
            let read = |row| -> PyResult<(usize, Local)> {
                let (step, rank, combined, word, from, into): LocalTuple<String> = fields(row, DONE)?;
                let (chunks, action) = (within(combined, chunks)?, action(&word)?);
                Ok((step, Local { rank, chunks, action, from, into }))
            };
            let (step, local) = read(row).map_err(|error| of_row("locals", number, row, error))?;
            steps.entry(step).or_default().locals.push(local);
        }
        let steps = steps.into_values().collect();
        Schedule::from_steps(name.0, collective, ranks.0, chunks, steps)
            .map(PySchedule)
            .map_err(schedule_error)
    }

    /// Cuts the vector into equal slices and runs a schedule on each, step by step and side by side.
    ///
    /// Messages from one rank to another by the same port become one.
    ///
    /// Args:
    ///     name: The new schedule's name.
    ///     parts: A schedule for each slice, all for the same collective, ranks and number of chunks.
    ///
    /// Returns:
    ///     The schedule.
    ///
    /// Raises:
    ///     ScheduleError: There are no parts, or they do not fit together.
    #[staticmethod]
    fn split(name: Text<'_>, parts: Plain<Vec<Bound<'_, PySchedule>>>) -> PyResult<Self> {
        let parts: Vec<Schedule> = parts.0.iter().map(|p| p.get().0.clone()).collect();
        Schedule::split(name.0, &parts).map(PySchedule).map_err(schedule_error)
    }

    /// Returns the schedule as JSON.
    ///
    /// Example:
    ///     >>> ring = ringroad.Schedule.build("ring", 4)
    ///     >>> ringroad.Schedule.from_json(ring.to_json()) == ring
    ///     True
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Reads the XML of MSCCL, which msccl-tools, TACCL, TE-CCL and ForestColl write.
    ///
    /// GPUs become ranks, channels become ports, and places in buffers become slots of chunks.
    ///
    /// Args:
    ///     text: The XML.
    ///
    /// Returns:
    ///     The schedule. It is not verified.
    ///
    /// Raises:
    ///     ScheduleError: The text is no program of MSCCL, is too large, or has something that a schedule
    ///         cannot express. The message names the line.
    #[staticmethod]
    fn from_msccl(py: Python<'_>, text: Text<'_>) -> PyResult<Self> {
        py.detach(|| msccl::read(text.0)).map(PySchedule).map_err(schedule_error)
    }

    #[classattr]
    const _MOST_BYTES: usize = interchange::MOST_BYTES;

    /// Reads the contents of a file, in any format that ringroad reads.
    #[staticmethod]
    fn _read(py: Python<'_>, content: Plain<&[u8]>) -> PyResult<Self> {
        py.detach(|| interchange::read(content.0)).map(PySchedule).map_err(schedule_error)
    }

    /// Returns the schedule as XML for MSCCL. `from_msccl` reads it back equal, but for the numbers of slots.
    ///
    /// Raises:
    ///     ScheduleError: MSCCL does not have the collective: gather and scatter.
    ///
    /// Example:
    ///     >>> ring = ringroad.Schedule.build("ring", 4)
    ///     >>> ringroad.Schedule.from_msccl(ring.to_msccl()) == ring
    ///     True
    fn to_msccl(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| msccl::write(&self.0)).map_err(schedule_error)
    }

    /// Checks that the schedule performs its collective. Counts every rank's contribution to every chunk.
    ///
    /// Raises:
    ///     ScheduleError: A contribution is missing or counted twice, or the schedule is malformed. The
    ///         message names rank, chunk and step.
    ///
    /// Example:
    ///     >>> ringroad.Schedule.build("ring", 4).verify()
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.verify()).map_err(schedule_error)
    }

    /// Returns the same messages backwards: the last step first, receivers as senders, copies as
    /// reductions.
    ///
    /// It turns a reduce_scatter into an allgather, a broadcast into a reduce, a gather into a scatter, and
    /// back.
    ///
    /// Raises:
    ///     ScheduleError: The reverse performs no collective, or ranks combine slots.
    ///
    /// Example:
    ///     >>> ringroad.Schedule.build("ring", 4, "reduce_scatter").reverse().collective
    ///     'allgather'
    fn reverse(&self) -> PyResult<Self> {
        self.0.reverse().map(PySchedule).map_err(schedule_error)
    }

    /// Returns a schedule that runs this one and then another.
    ///
    /// A reduce_scatter and an allgather make an allreduce, a scatter and an allgather a broadcast, a
    /// reduce_scatter and a gather a reduce.
    ///
    /// Args:
    ///     after: The schedule that follows; for as many ranks and chunks.
    ///
    /// Raises:
    ///     ScheduleError: The two do not fit together.
    ///
    /// Example:
    ///     >>> scatter = ringroad.Schedule.build("ring", 4, "reduce_scatter")
    ///     >>> scatter.compose(scatter.reverse()).collective
    ///     'allreduce'
    fn compose(&self, after: Plain<&Schedule>) -> PyResult<Self> {
        self.0.compose(&after).map(PySchedule).map_err(schedule_error)
    }

    /// Returns what a symmetric schedule does with one slice of the vector, as a schedule of a whole
    /// vector.
    ///
    /// Args:
    ///     index: The slice, from 0.
    ///
    /// Raises:
    ///     ScheduleError: The schedule has no such slice, or is written out.
    fn on_slice(&self, index: Count) -> PyResult<Self> {
        self.0.on_slice(index.0).map(PySchedule).map_err(schedule_error)
    }

    /// The all-to-all on a grid of ranks of these lengths that goes along one dimension after the other.
    #[staticmethod]
    fn _along_dimensions(sizes: Plain<Vec<usize>>) -> PyResult<Self> {
        let ranks = sizes.0.iter().try_fold(1usize, |ranks, size| ranks.checked_mul(*size));
        if ranks.is_none_or(|ranks| !(1..=MOST_RANKS).contains(&ranks)) {
            let text = format!("a grid of lengths {:?} has not 1 to {MOST_RANKS} ranks", sizes.0);
            return Err(PyValueError::new_err(text));
        }
        Ok(PySchedule(algorithms::along_dimensions(&sizes.0)))
    }

    /// The schedule's name, mostly that of its algorithm.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The collective that it performs, such as "allreduce".
    #[getter]
    fn collective(&self) -> &'static str {
        self.0.collective.name()
    }

    /// The root of a broadcast, reduce, gather or scatter; None for other collectives.
    #[getter]
    fn root(&self) -> Option<usize> {
        self.0.collective.root()
    }

    /// The number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks
    }

    /// The number of chunks into which the data of the collective is cut: the vector, or in an alltoall all
    /// blocks of all ranks.
    #[getter]
    fn chunks(&self) -> usize {
        self.0.chunks
    }

    /// The number of steps.
    #[getter]
    fn steps(&self) -> usize {
        self.0.steps.len()
    }

    /// The number of ports by which ranks send.
    #[getter]
    fn ports(&self) -> usize {
        self.0.ports()
    }

    /// The most that a rank sends, in units of the vector.
    #[getter]
    fn max_sent(&self) -> f64 {
        self.0.max_sent()
    }

    /// The number of values of a chunk that a rank keeps apart; 1 in most schedules.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Whether the sends of one rank stand for those of all.
    #[getter]
    fn symmetric(&self) -> bool {
        self.0.symmetry.is_some()
    }

    /// Returns the same schedule with the sends of all ranks written out.
    fn expand(&self, py: Python<'_>) -> Self {
        PySchedule(py.detach(|| self.0.expand()))
    }

    /// Returns all messages, with those of all ranks written out.
    ///
    /// Returns:
    ///     Tuples of step, source, destination, chunks, "copy" or "reduce", port, the slot that is read,
    ///     and the slot that is written.
    ///
    /// Example:
    ///     >>> ringroad.Schedule.build("ring", 2, "allgather").sends()
    ///     [(0, 0, 1, [0], 'copy', 0, 0, 0), (0, 1, 0, [1], 'copy', 0, 0, 0)]
    fn sends(&self) -> Vec<SendTuple<&'static str>> {
        let schedule = self.0.expand();
        let steps = schedule.steps.iter().enumerate();
        steps
            .flat_map(|(step, s)| s.sends.iter().map(move |send| (step, send)))
            .map(|(step, s)| {
                let chunks = s.chunks.iter().collect();
                (step, s.source, s.destination, chunks, word(s.action), s.port, s.from, s.into)
            })
            .collect()
    }

    /// Returns what ranks do with their own slots at the ends of steps.
    ///
    /// Returns:
    ///     Tuples of step, rank, chunks, "copy" or "reduce", the slot that is read, and the slot that is
    ///     written.
    fn locals(&self) -> Vec<LocalTuple<&'static str>> {
        let schedule = self.0.expand();
        let steps = schedule.steps.iter().enumerate();
        steps
            .flat_map(|(step, s)| s.locals.iter().map(move |local| (step, local)))
            .map(|(step, l)| (step, l.rank, l.chunks.iter().collect(), word(l.action), l.from, l.into))
            .collect()
    }

    /// Makes the plan of one rank and returns its size.
    ///
    /// Args:
    ///     rank: The rank.
    ///     count: Elements of the whole vector (allreduce, broadcast, reduce) or of one rank's block
    ///         (others).
    ///     itemsize: The bytes of an element.
    ///
    /// Returns:
    ///     The number of operations, and the bytes of scratch memory that they need.
    ///
    /// Raises:
    ///     ScheduleError: The rank is out of range, or the plan would be too large.
    #[pyo3(signature = (rank, count, itemsize=4))]
    fn lower(
        &self,
        py: Python<'_>,
        rank: Count,
        count: Count,
        #[pyo3(from_py_with = argument)] itemsize: usize,
    ) -> PyResult<(usize, usize)> {
        let plan = py.detach(|| Plan::lower(&self.0, rank.0, count.0, itemsize, &LowerOptions::default()));
        let plan = plan.map_err(schedule_error)?;
        Ok((plan.operations().len(), plan.scratch()))
    }

    /// In an alltoall, the most that a rank holds at once on the way from one other rank to another, in
    /// units of the vector; 0 for other collectives.
    #[getter]
    fn held_for_others(&self, py: Python<'_>) -> f64 {
        match self.0.collective {
            Collective::Alltoall => {
                let held = py.detach(|| held_by_relays(&self.0));
                held as f64 / self.0.chunks_per_vector() as f64
            }
            _ => 0.0,
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PySchedule>().getattr("from_json")?, (self.0.to_json(),)))
    }

    fn __str__(&self) -> String {
        screen(&self.0.to_string())
    }

    fn __repr__(&self) -> String {
        let Schedule { name, collective, ranks, .. } = &self.0;
        let steps = self.steps();
        format!("<Schedule {name}: {collective} over {ranks} ranks in {steps} steps>")
    }

    fn __hash__(&self) -> u64 {
        hash(&self.__repr__())
    }

    /// Returns all messages as a pandas.DataFrame with a row for each, in the order of `sends`.
    ///
    /// Raises:
    ///     ImportError: pandas is not installed.
    fn df<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "df")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "html")
    }
}
