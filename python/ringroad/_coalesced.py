"""Several arrays in one call: packed side by side, by dtype, into arrays that other ranks read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad._arrays import as_array, check_output, parts_of
from ringroad._native import Communicator, PreparedCall
from ringroad._support.text import items

Array = NDArray[Any]


def allreduce_coalesced(
    comm: Communicator,
    arrays: Sequence[ArrayLike],
    out: Sequence[Array] | None,
    op: Any,
    factor: float | None,
    algorithm: Any,
    timeout: float | None,
) -> list[Array]:
    arrays = items("arrays", arrays)
    inputs = [as_array(array, f"arrays[{index}]") for index, array in enumerate(arrays)]
    if isinstance(op, str):  # Python's bools count, as in `allreduce`
        bools = [one.dtype == bool and not hasattr(array, "dtype") for one, array in zip(inputs, arrays, strict=True)]
        inputs = [one.astype(np.int64) if counts else one for one, counts in zip(inputs, bools, strict=True)]
    if out is not None:
        out = items("out", out)
        _check_outputs(inputs, out)
    calls, views = [], list(inputs)
    how: dict[str, Any] = {"op": op, "factor": factor, "algorithm": algorithm, "timeout": timeout}
    for indices, flat, lengths in _by_dtype(comm, inputs):
        calls.append(comm.prepare("allreduce", flat, flat, counts=lengths, **how))
        for index, view in zip(indices, parts_of(flat, [inputs[index].shape for index in indices]), strict=True):
            np.copyto(view, inputs[index])
            views[index] = view
    _run(calls)
    return views if out is None else _copied(views, out)


def broadcast_coalesced(
    comm: Communicator, arrays: Sequence[Array], root: int, algorithm: Any, timeout: float | None
) -> list[Array]:
    arrays = items("arrays", arrays)
    _check_outputs(arrays, arrays, "arrays")
    calls, views = [], list(arrays)
    for indices, flat, lengths in _by_dtype(comm, arrays):
        calls.append(comm.prepare("broadcast", flat, counts=lengths, root=root, algorithm=algorithm, timeout=timeout))
        for index, view in zip(indices, parts_of(flat, [arrays[index].shape for index in indices]), strict=True):
            if comm.rank == root:
                np.copyto(view, arrays[index])
            views[index] = view
    _run(calls)
    return list(arrays) if comm.rank == root else _copied(views, arrays)


def _by_dtype(comm: Communicator, arrays: Sequence[Array]) -> list[tuple[list[int], Array, list[int]]]:
    """The indices of the arrays of each dtype, in order, an array that is as long as all of them together, and their
    lengths."""
    groups: dict[np.dtype[Any], list[int]] = {}
    for index, array in enumerate(arrays):
        groups.setdefault(array.dtype, []).append(index)
    lengths = {dtype: [arrays[index].size for index in indices] for dtype, indices in groups.items()}
    return [(indices, comm.empty(sum(lengths[dtype]), dtype), lengths[dtype]) for dtype, indices in groups.items()]


def _run(calls: list[PreparedCall]) -> None:
    """Starts all calls, and waits for all."""
    for work in [call.start() for call in calls]:
        work.wait()


def _copied(views: list[Array], out: Sequence[Array]) -> list[Array]:
    for view, array in zip(views, out, strict=True):
        np.copyto(array, view)
    return list(out)


def _check_outputs(inputs: Sequence[Array], out: Sequence[Array], name: str = "out") -> None:
    if len(out) != len(inputs):
        raise ValueError(f"{name} must have one array for each of {len(inputs)}, not {len(out)}")
    for index, (given, array) in enumerate(zip(inputs, out, strict=True)):
        expected = as_array(given, f"{name}[{index}]")
        check_output(array, expected.shape, expected.dtype, f"{name}[{index}]")
