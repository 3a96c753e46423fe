"""Calls with a wire format: replicas stay bit-identical, errors within bounds, and everything else exact."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import ringroad
from helpers import FULL, OWN, PROGRAMS, TRANSPORTS, launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIRES = ["bf16", "f16", "fp8", "int8", "int4"]
"""All formats."""
ERROR = {"bf16": 1 / 256, "f16": 1 / 2048, "fp8": 1 / 25, "int8": 1 / 252, "int4": 1 / 12}
"""The most by which one rounding moves an element, as a fraction of the largest magnitude of its block."""


def everywhere(group: list[ringroad.Communicator], call: Callable[[ringroad.Communicator], Any]) -> list[Any]:
    """The results of a call of all ranks."""
    with ThreadPoolExecutor(len(group)) as pool:
        return [future.result(60) for future in [pool.submit(call, comm) for comm in group]]


def vectors(ranks: int, elements: int, dtype: str = "float32") -> list[Any]:
    """Vectors of all ranks, of different magnitudes."""
    rng = np.random.default_rng(ranks + elements)
    return [(rng.standard_normal(elements) * 2.0 ** (rank % 3)).astype(dtype) for rank in range(ranks)]


def test_stochastic_rounding_is_the_same_on_all_ranks_and_differs_between_calls(refused: Any) -> None:
    group = ringroad.Communicator.in_process(3, timeout=60)
    given = vectors(3, 3000)
    exact = given[0] + given[1] + given[2]
    bound = 3 * 2 * ERROR["int8"] * 1.1 * sum(np.abs(vector).max() for vector in given)
    calls = []
    for _ in range(8):
        sums = everywhere(group, lambda comm: comm.allreduce(given[comm.rank], wire="int8:stochastic"))
        assert all(result.tobytes() == sums[0].tobytes() for result in sums)
        assert np.abs(sums[0] - exact).max() <= bound
        calls.append(sums[0])
    assert len({call.tobytes() for call in calls}) == len(calls)
    assert np.abs(np.mean(calls, 0) - exact).mean() < 0.6 * np.abs(calls[0] - exact).mean()
    (comm,) = ringroad.Communicator.in_process(1)
    for wire, dtype in [("fp8:stochastic", "float32"), ("int8:stochastic", "float16")]:
        with refused(ValueError):
            comm.allreduce(np.ones(3, dtype), wire=wire)


def test_an_error_is_allowed_in_other_collectives_too() -> None:
    ranks = 4
    group = ringroad.Communicator.in_process(ranks, timeout=60, topology="ring:4,bandwidth=50Mbit/s")
    given = vectors(ranks, 50_000 * ranks)
    total = sum(given)
    norm = sum(np.abs(vector).max() for vector in given)
    rows = np.stack(given).reshape(ranks, ranks, -1).transpose(1, 0, 2).reshape(ranks, -1)
    calls = {
        "reduce_scatter": (lambda comm, **how: comm.reduce_scatter(given[comm.rank], **how), total.reshape(ranks, -1)),
        "allgather": (lambda comm, **how: comm.allgather(given[comm.rank], **how), [np.concatenate(given)] * ranks),
        "broadcast": (lambda comm, **how: comm.broadcast(given[comm.rank].copy(), 1, **how), [given[1]] * ranks),
        "alltoall": (lambda comm, **how: comm.alltoall(given[comm.rank], **how), rows),
    }
    for name, (call, exact) in calls.items():
        found = everywhere(group, lambda comm, call=call: call(comm, max_error=0.05))
        errors = [np.abs(result - answer).max() for result, answer in zip(found, exact, strict=True)]
        assert 1e-4 * norm < max(errors) <= 0.05 * norm, name


def test_traces_tell_codecs_from_reductions() -> None:
    group = ringroad.Communicator.in_process(2, timeout=60)
    given = vectors(2, 5000)

    def traced(comm: ringroad.Communicator) -> ringroad.measure.Trace:
        with ringroad.measure.trace(comm) as trace:
            comm.allreduce(given[comm.rank], wire="int8")
        return trace

    trace = everywhere(group, traced)[0]
    kinds = {event.kind for event in trace.events}
    assert {"encode", "decode"} <= kinds
    assert "reduce" not in kinds


OVER_TCP = """
import numpy as np
import ringroad

with ringroad.init(timeout=30) as comm:
    for wire in ("bf16", "f16", "fp8", "int8", "int4", "int8:stochastic"):
        data = np.random.default_rng(comm.rank).standard_normal(300_000).astype(np.float32)
        exact = comm.allreduce(data)
        total = comm.allreduce(data, wire=wire)
        assert 0 < np.abs(total - exact).max() < 4, wire
        assert (comm.allgather(total).reshape(comm.size, -1) == total).all(), wire
"""


@pytest.mark.parametrize("transport", [TRANSPORTS["tcp"], OWN["own"]], ids=["ucx", "own"])
def test_replicas_are_bit_identical_over_tcp(tmp_path: Path, transport: dict[str, str]) -> None:
    for ended in launch(OVER_TCP, 3, env={"RINGROAD_STORE": f"file://{tmp_path}"} | transport):
        assert ended.status == 0, ended


def test_bytes_that_are_no_shorter_are_sent_as_they_are() -> None:
    group = ringroad.Communicator.in_process(2, timeout=60)
    given = vectors(2, 100, "float16")
    sums = everywhere(group, lambda comm: comm.allreduce(given[comm.rank], wire="bf16"))
    assert (sums[0] == given[0] + given[1]).all()


@pytest.mark.parametrize("wire", [*WIRES, "int8:stochastic", "int4:stochastic"])
def test_what_is_not_finite_stays_so(wire: Any) -> None:
    group = ringroad.Communicator.in_process(3, timeout=60)
    given = vectors(3, 2000)
    given[0][10], given[1][700], given[2][1500] = np.nan, np.inf, -np.inf
    given[0][1501], given[1][1501] = np.inf, -np.inf
    sums = everywhere(group, lambda comm: comm.allreduce(given[comm.rank], wire=wire))
    with np.errstate(invalid="ignore"):
        exact = given[0] + given[1] + given[2]
    for result in sums:
        assert result.tobytes() == sums[0].tobytes()
        assert (np.isnan(result) == np.isnan(exact)).all()
        assert (result[np.isinf(exact)] == exact[np.isinf(exact)]).all()
        assert np.isfinite(result[np.isfinite(exact)]).all()


def test_other_collectives() -> None:
    ranks = 3
    group = ringroad.Communicator.in_process(ranks, timeout=60)
    given = vectors(ranks, 300 * ranks)
    close = {"rtol": 0, "atol": 4 * ranks * 8 / 254}
    counts = [400, 0, 500]
    exact = given[0] + given[1] + given[2]
    blocks = everywhere(group, lambda comm: comm.reduce_scatter(given[comm.rank], wire="int8"))
    np.testing.assert_allclose(np.concatenate(blocks), exact, **close)
    blocks = everywhere(group, lambda comm: comm.reduce_scatter(given[comm.rank], counts=counts, wire="int8"))
    np.testing.assert_allclose(np.concatenate(blocks), exact, **close)
    whole = everywhere(group, lambda comm: comm.allgather(given[comm.rank], wire="int8"))
    np.testing.assert_allclose(whole[0], np.concatenate(given), **close)
    assert all(result.tobytes() == whole[0].tobytes() for result in whole)
    parts = [given[rank][: counts[rank]] for rank in range(ranks)]
    whole = everywhere(group, lambda comm: comm.allgather(parts[comm.rank], counts=counts, wire="int4"))
    assert all(result.tobytes() == whole[0].tobytes() for result in whole)
    everyone = everywhere(group, lambda comm: comm.broadcast(given[comm.rank].copy(), 1, wire="fp8"))
    np.testing.assert_allclose(everyone[2], given[1], rtol=0, atol=2 * 8 / 28)
    assert all(result.tobytes() == everyone[0].tobytes() for result in everyone)
    swapped = everywhere(group, lambda comm: comm.alltoall(given[comm.rank], wire="bf16"))
    rows = np.stack(given).reshape(ranks, ranks, -1).transpose(1, 0, 2).reshape(ranks, -1)
    np.testing.assert_allclose(np.stack(swapped), rows, rtol=1 / 256)


def test_ranks_with_different_formats_are_told() -> None:
    for wires in (["int8", "bf16", "int8"], ["int8", None, None], ["int8", "int8:stochastic", "int8"]):
        group = ringroad.Communicator.in_process(3, timeout=20)
        given = vectors(3, 3000)

        def call(comm: ringroad.Communicator, given: Any = given, wires: Any = wires) -> str:
            with pytest.raises(ringroad.MismatchError) as raised:
                comm.allreduce(given[comm.rank], wire=wires[comm.rank])
            return str(raised.value)

        texts = everywhere(group, call)
        assert texts[0] == texts[1] == texts[2]
        assert "in int8" in texts[0]
        assert wires[1] is None or f"in {wires[1]}" in texts[0]


def test_everything_else_is_exact_and_says_why(refused: Any) -> None:
    (comm,) = ringroad.Communicator.in_process(1)
    with refused(ValueError, "int32"):
        comm.allreduce(np.ones(3, "int32"), wire="int8")
    with refused(ValueError, "max"):
        comm.allreduce(np.ones(3, "float32"), op="max", wire="int8")
    with refused(ValueError, "max_error", "NaN"):
        comm.allreduce(np.ones(3), max_error=float("nan"))
    with refused(ValueError):
        comm.allreduce(np.ones(3), max_error=0.1, wire="int8")
    with refused(ValueError, "int9"):
        comm.allreduce(np.ones(3), wire="int9")  # type: ignore[call-overload]
    assert comm.allreduce(np.full(3, 0.1), wire="int4").tolist() == [0.1] * 3


def test_the_error_that_is_allowed_decides() -> None:
    """On a slow network a large error takes fewer bytes, and none takes all of them."""
    group = ringroad.Communicator.in_process(4, timeout=60, topology="ring:4,bandwidth=50Mbit/s")
    given = vectors(4, 200_000)
    exact = everywhere(group, lambda comm: comm.allreduce(given[comm.rank]))[0]
    norm = sum(np.abs(vector).max() for vector in given)
    found = []
    for most in (0.0, 0.005, 0.03, 0.5):
        sums = everywhere(group, lambda comm, most=most: comm.allreduce(given[comm.rank], max_error=most))
        assert all(result.tobytes() == sums[0].tobytes() for result in sums)
        found.append(np.abs(sums[0] - exact).max() / norm)
        assert found[-1] <= most
    assert found[0] == 0
    assert found[3] > found[1] > 0


def test_errors_are_within_bounds_at_all_magnitudes(tmp_path: Path) -> None:
    """From the smallest number of every type to the largest, in every collective."""
    program = [sys.executable, str(PROGRAMS / "compressed_calls.py"), "200000" if FULL else "600"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=1800, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 wrong" in ended.stdout


@pytest.mark.parametrize(("dtype", "exponents"), [("float32", range(-44, 38, 9)), ("float64", range(-300, 201, 50))])
def test_gradients_of_any_size_keep_the_error_that_is_allowed(dtype: str, exponents: range) -> None:
    group = ringroad.Communicator.in_process(4, timeout=60, topology="ring:4,bandwidth=50Mbit/s")
    for exponent, most in itertools.product(exponents, (5e-4, 5e-3, 2e-2)):
        rng = np.random.default_rng(exponent + 1000)
        given = [(rng.uniform(-1, 1, 20_000) * 10.0**exponent).astype(dtype) for _ in group]
        sums = everywhere(group, lambda comm, given=given, most=most: comm.allreduce(given[comm.rank], max_error=most))
        exact = sum(vector.astype(np.longdouble) for vector in given)
        norm = sum(np.abs(vector).max() for vector in given)
        assert np.abs(sums[0] - exact).max() <= most * norm, (exponent, most)
