"""Functions that the tests run on the workers, and the slow twins of the collectives that they compare with.

Workers import this module by name, so it imports nothing heavy.
"""

import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import ringroad
from ringroad._native import ucx_info
from ringroad._support.processes import Processes
from ringroad._support.ucx import _ucx_wheel
from ringroad.testbed.network import EmulatedNetwork

# Not left to ranks, which would warn of an unknown variable.
REQUIRES_UCX = os.environ.pop("RINGROAD_TEST_REQUIRE_UCX", "") == "1"


def needs_testbed() -> None:
    """Skips the test, with the reason, if this machine cannot make network namespaces, or has no UCX for them."""
    try:
        ucx_info(_ucx_wheel())
        EmulatedNetwork(ringroad.Topology("ring:2"), 1e7).close()
    except (ringroad.TransportError, ringroad.testbed.TestbedError) as error:
        if isinstance(error, ringroad.TransportError) and REQUIRES_UCX:
            raise
        pytest.skip(str(error))


TRANSPORTS = {
    "memory": {},
    "shm": {"RINGROAD_TRANSPORT": "ucx"},
    "tcp": {"RINGROAD_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"},
}
"""Shared memory, UCX over shared memory, and UCX over tcp."""

INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
UNSIGNED = ["uint16", "uint32", "uint64"]  # whose sums and bitwise operations are those of signed integers
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = [*FLOATS, *INTEGERS, *UNSIGNED, "bool", *COMPLEX]

SUPPORTED = {
    "sum": DTYPES,
    "product": [*FLOATS, *INTEGERS, "bool", *COMPLEX],
    "min": [*FLOATS, *INTEGERS, *UNSIGNED, "bool"],
    "max": [*FLOATS, *INTEGERS, *UNSIGNED, "bool"],
    "avg": [*FLOATS, *COMPLEX],
    "premul_sum": [*FLOATS, *COMPLEX],
    "band": [*INTEGERS, "bool"],
    "bor": [*INTEGERS, "bool"],
    "bxor": [*INTEGERS, "bool"],
}
PAIRS = [(dtype, op) for dtype in DTYPES for op in SUPPORTED if dtype in SUPPORTED[op]]

COLLECTIVES = [
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter", "alltoall",
    "scan", "exscan",
]  # fmt: skip
SCANS = {"scan", "exscan"}
REDUCTIONS = {"allreduce", "reduce_scatter", "reduce"} | SCANS
ROOTED = {"broadcast", "reduce", "gather", "scatter"}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def is_inexact(dtype: np.dtype) -> bool:
    return dtype == ml_dtypes.bfloat16 or np.issubdtype(dtype, np.inexact)


def epsilon(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


# ------------------------------------------------------------------------------------------------ data and oracles


def vector(rank: int, count: int, dtype: np.dtype, op: str = "sum", seed: int = 0) -> np.ndarray:
    """The vector that `rank` contributes. Any rank can compute it."""
    random = np.random.default_rng([seed, rank, count])
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if not is_inexact(dtype):
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    values = random.standard_normal(count)
    if np.issubdtype(dtype, np.complexfloating):
        return (values + 1j * random.standard_normal(count)).astype(dtype)
    if op in ("min", "max"):
        values[random.random(count) < 0.02] = np.nan
    return values.astype(dtype)


def factor_of(rank: int) -> float:
    """The factor that `rank` passes to premul_sum; it is exact in every dtype."""
    return 1 + rank / 2


def reduced(op: str, inputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray | float]:
    """The reduction by NumPy, and the tolerance of each element."""
    dtype = inputs[0].dtype
    functions = {
        "min": np.minimum,
        "max": np.maximum,
        "product": np.multiply,
        "band": np.bitwise_and,
        "bor": np.bitwise_or,
        "bxor": np.bitwise_xor,
    }
    if not is_inexact(dtype) or op in ("min", "max"):
        with np.errstate(over="ignore", invalid="ignore"):
            return reduce(functions.get(op, np.add), inputs), 0.0
    wide = [x.astype(np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64) for x in inputs]
    if op == "premul_sum":
        wide = [x * factor_of(rank) for rank, x in enumerate(wide)]
    result = reduce(functions.get(op, np.add), wide)
    tiny = 0.0 if op != "product" else 1e-5 if dtype == np.float16 else 0.0  # products may be subnormal
    scale = np.abs(result) if op == "product" else sum(np.abs(x) for x in wide)
    if op == "avg":
        result, scale = result / len(inputs), scale / len(inputs)
    return result, 2 * (len(inputs) + 1) * epsilon(dtype) * scale + tiny


def differences(actual: Any, expected: np.ndarray, dtype: np.dtype, tolerance: np.ndarray | float = 0.0) -> str | None:
    """What is wrong with a result; None if nothing is."""
    if not isinstance(actual, np.ndarray) or actual.dtype != dtype or actual.shape != expected.shape:
        return (
            f"got {getattr(actual, 'dtype', type(actual))} {getattr(actual, 'shape', '')}, not {dtype} {expected.shape}"
        )
    if not is_inexact(dtype):
        wrong = actual != expected
    else:
        wide = np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64
        actual, expected = actual.astype(wide), expected.astype(wide)
        both_nan = np.isnan(actual) & np.isnan(expected)
        wrong = ~((np.abs(actual - expected) <= tolerance) | (actual == expected) | both_nan)
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} differ; at {first}: {actual.flat[first]}, not {expected.flat[first]}"


# ------------------------------------------------------------------------------------------------ collectives


@dataclass(frozen=True)
class Case:
    collective: str
    count: int  # elements of the vector, or of one block
    dtype: str
    op: str
    root: int
    placement: str  # a "new" array, an "out" argument, or "in place"
    algorithm: str | None = None
    seed: int = 0


def cases(collective: str, ranks: int, sizes: list[int] | None = None) -> Iterator[Case]:
    """All dtypes and operations, each with one of the sizes, roots and placements in turn."""
    sizes = sizes or [0, 1, 2, 3, 7, ranks - 1, ranks, ranks + 1, 1000, 65537]
    pairs = PAIRS if collective in REDUCTIONS else [(dtype, "sum") for dtype in DTYPES]
    if collective in SCANS:
        pairs = [(dtype, op) for dtype, op in pairs if op != "avg"]
    placements = ["new", "out", "in place"]
    total = max(len(pairs), len(sizes) * len(placements), ranks)
    for index in range(total):
        dtype, op = pairs[index % len(pairs)]
        placement = placements[index // len(sizes) % len(placements)]
        yield Case(collective, sizes[index % len(sizes)], dtype, op, index % ranks, placement, seed=index)


def run_case(comm: Any, case: Case) -> np.ndarray | None:
    """Performs the collective and compares the result with NumPy's. Returns it for comparison between ranks."""
    inputs, expected, tolerance = _expectation(comm.size, comm.rank, case)
    mine = inputs[comm.rank].copy()
    arguments: dict[str, Any] = {"algorithm": case.algorithm}
    if case.collective in REDUCTIONS:
        arguments["op"] = case.op
        if case.op == "premul_sum":
            arguments["factor"] = factor_of(comm.rank)
    if case.collective in ROOTED:
        arguments["root"] = case.root
    send, out = _buffers(comm.rank, comm.size, case, mine, expected)
    before = None if send is None or case.placement == "in place" else send.copy()
    if case.collective == "broadcast":
        result = comm.broadcast(send, **arguments)
        assert result is send
    else:
        result = getattr(comm, case.collective)(send, out, **arguments)
    if expected is None:
        assert result is None, f"{case}: rank {comm.rank} got {result!r}, not None"
        return None
    assert out is None or result is out, f"{case}: the result is not `out`"
    wrong = differences(result, expected, dtype_of(case.dtype), tolerance)
    assert wrong is None, f"{case} on rank {comm.rank} of {comm.size}: {wrong}"
    if before is not None and case.collective != "broadcast":
        assert send.tobytes() == before.tobytes(), f"{case}: the input was changed"
    return np.ascontiguousarray(result)


def _expectation(size: int, rank: int, case: Case) -> tuple[list[np.ndarray], np.ndarray | None, Any]:
    """Every rank's input, this rank's result (None if it has none), and its tolerance."""
    dtype, root = dtype_of(case.dtype), case.root
    blocks = size if case.collective in ("reduce_scatter", "scatter", "alltoall") else 1
    inputs = [vector(r, case.count * blocks, dtype, case.op, case.seed) for r in range(size)]

    def block(x: Any, r: int) -> Any:
        return x[r * case.count : (r + 1) * case.count] if isinstance(x, np.ndarray) else x

    match case.collective:
        case "allreduce" | "reduce" | "reduce_scatter":
            result, tolerance = reduced(case.op, inputs)
            if case.collective == "reduce_scatter":
                result, tolerance = block(result, rank), block(tolerance, rank)
            return inputs, None if case.collective == "reduce" and rank != root else result, tolerance
        case "scan" | "exscan":
            before = inputs[: rank + (case.collective == "scan")]
            return inputs, *(reduced(case.op, before) if before else (None, 0.0))
        case "allgather" | "gather":
            return inputs, None if case.collective == "gather" and rank != root else np.concatenate(inputs), 0.0
        case "broadcast":
            return inputs, inputs[root], 0.0
        case "scatter":
            return inputs, block(inputs[root], rank), 0.0
        case "alltoall":
            return inputs, np.concatenate([block(x, rank) for x in inputs]), 0.0
    raise AssertionError(case)


def _buffers(
    rank: int, size: int, case: Case, mine: np.ndarray, expected: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The arguments `send` and `out`."""
    collective, here = case.collective, slice(rank * case.count, (rank + 1) * case.count)
    if collective == "scatter" and rank != case.root:
        return None, np.empty_like(expected)
    if expected is None or case.placement == "new" or collective == "broadcast":
        return mine, None
    if case.placement == "out":
        return mine, np.empty_like(expected, dtype=mine.dtype)
    if collective in ("reduce_scatter", "scatter"):
        return mine, mine[here]
    if collective in ("allgather", "gather"):
        out = np.empty_like(expected)
        out[here] = mine
        return out[here], out
    return mine, mine


def check_cases(comm: Any, many: list[Case]) -> list[str]:
    """Runs the cases. Returns a digest of each result."""
    return [digest(run_case(comm, case)) for case in many]


def digest(array: np.ndarray | None) -> str:
    return "" if array is None else hashlib.sha256(array.tobytes()).hexdigest()


# ------------------------------------------------------------------------------------------------ other work


def check_alltoall_v(comm: Any, matrices: list[list[list[int]]], algorithms: list[str | None]) -> None:
    """Exchanges rows of two numbers, whose count per pair is in a matrix, with all types in turn; into new and into
    given arrays.
    """
    rank, size = comm.rank, comm.size
    for turn, counts in enumerate(matrices):
        dtype = dtype_of(DTYPES[turn % len(DTYPES)])
        table = np.asarray(counts)
        starts = np.cumsum(np.hstack([np.zeros((size, 1), int), table]), axis=1)
        inputs = [vector(r, 2 * int(starts[r, -1]), dtype, seed=turn).reshape(-1, 2) for r in range(size)]
        expected = np.concatenate([inputs[r][starts[r, rank] : starts[r, rank + 1]] for r in range(size)])
        for algorithm in algorithms:
            result = comm.alltoall_v(inputs[rank], counts, algorithm=algorithm)
            wrong = differences(result, expected, dtype)
            assert wrong is None, f"{algorithm}, {counts}, rank {rank}: {wrong}"
            out = np.empty_like(expected)
            work = comm.alltoall_v(inputs[rank].copy(), table, out, algorithm=algorithm, async_op=True)
            assert work.result() is out
            assert out.tobytes() == expected.tobytes()


def check_uneven(comm: Any, counts: list[int]) -> None:
    """Gathers and scatters blocks of `counts` rows of three numbers: into new and given arrays, and in place. Refuses
    wrong counts.
    """
    rank, size, total = comm.rank, comm.size, sum(counts)
    start = sum(counts[:rank])
    own = slice(start, start + counts[rank])
    whole = [np.arange(total * 3, dtype="int64").reshape(total, 3) * (r + 1) for r in range(size)]
    summed = sum(whole)
    gathered = np.concatenate([whole[r][sum(counts[:r]) : sum(counts[: r + 1])] for r in range(size)])
    network = f"hosts:1x{size}"
    for algorithm in [None, *(a.name for a in ringroad.algorithms(network) if a.supports(network, "allgather"))]:
        assert np.array_equal(comm.reduce_scatter_v(whole[rank], counts, algorithm=algorithm), summed[own])
        out = np.full((total, 3), -1)
        assert comm.allgather_v(whole[rank][own], counts, out, algorithm=algorithm) is out
        assert np.array_equal(out, gathered)
    both = whole[rank].copy()
    assert np.array_equal(comm.allgather_v(both[own], counts, both), gathered)
    both = whole[rank].copy()
    assert np.array_equal(comm.reduce_scatter_v(both, counts, both[own]), summed[own])
    for root in {0, size // 2, size - 1}:
        names = [a.name for a in ringroad.algorithms(network)]
        for algorithm in [None, *(name for name in names if ringroad.Algorithm(name).supports(network, "gather"))]:
            out = np.full((total, 3), -1) if rank == root else None
            result = comm.gather_v(whole[rank][own], counts, out, root, algorithm=algorithm)
            assert result is out and (out is None or np.array_equal(out, gathered)), (algorithm, root, out)
            send = whole[root] if rank == root else None
            out = np.full((counts[rank], 3), -1)
            assert comm.scatter_v(send, counts, out, root, algorithm=algorithm) is out
            assert np.array_equal(out, whole[root][own]), (algorithm, root, out)
        both = whole[rank].copy()
        result = comm.gather_v(both[own], counts, both if rank == root else None, root)
        assert np.array_equal(both, gathered if rank == root else whole[rank])
        both = whole[root].copy() if rank == root else np.full((total, 3), -1)
        result = comm.scatter_v(both if rank == root else None, counts, both[own], root)
        assert np.array_equal(result, whole[root][own])
        if rank == root:
            assert np.array_equal(comm.gather_v(whole[rank][own], counts, root=root), gathered)
            assert np.array_equal(comm.scatter_v(both, counts, root=root), whole[root][own])
        else:
            assert comm.gather_v(whole[rank][own], counts, root=root) is None
            comm.scatter_v(None, counts, np.empty((counts[rank], 3), "int64"), root=root)
    work = comm.allgather_v(whole[rank][own], counts, async_op=True)
    work.wait()
    assert np.array_equal(work.result(), gathered)
    for wrong, send in (([*counts, 1], whole[rank]), (counts, np.zeros((total + 1, 3)))):
        with pytest.raises(ValueError, match=r"counts|rows"):
            comm.reduce_scatter_v(send, wrong)
    comm.barrier()


def check_async(comm: Any, order: list[int], counts: list[int]) -> list[str]:
    """Several allreduces in flight, for which the rank waits in the given order."""
    sends = [vector(comm.rank, n, np.dtype("float32"), seed=i) for i, n in enumerate(counts)]
    works = [comm.allreduce(send, async_op=True) for send in sends]
    for index in order:
        assert works[index].wait() is True
    digests = []
    for index, work in enumerate(works):
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert isinstance(work.algorithm, str) and work.algorithm
        inputs = [vector(r, counts[index], np.dtype("float32"), seed=index) for r in range(comm.size)]
        expected, tolerance = reduced("sum", inputs)
        assert differences(work.result(), expected, np.dtype("float32"), tolerance) is None
        digests.append(digest(work.result()))
    return digests


def check_ring(comm: Any, count: int, dtype: str) -> None:
    """Every rank sends to the next rank and receives from the previous one, with two tags in reverse order."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent = [vector(comm.rank, count, dtype_of(dtype), seed=tag) for tag in (3, 4)]
    works = [comm.send(array, after, tag, async_op=True) for tag, array in zip((3, 4), sent, strict=True)]
    for tag in (4, 3):
        out = np.empty(count, dtype_of(dtype))
        assert comm.recv(out, before, tag) is out
        assert differences(out, vector(before, count, dtype_of(dtype), seed=tag), dtype_of(dtype)) is None
    for work in works:
        work.wait()


def failure_of(call: Callable[[], object]) -> tuple[str, str]:
    """The type and the text of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def in_threads(size: int, function: Callable[[Any], Any], **options: Any) -> list[Any]:
    """Calls `function(comm)` in `size` threads of this process, each with its communicator. Returns the results by
    rank.
    """
    comms = ringroad.Communicator.in_process(size, **options)
    try:
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(function, comms))
    finally:
        for comm in comms:
            comm.close()


# ------------------------------------------------------------------------------------------------ processes


def in_child(action: Callable[[], Any], meanwhile: Callable[[], Any] = lambda: None, seconds: float = 30) -> Any:
    """Calls `action` in a forked child and returns its result as JSON has it, or the text of its error. Kills the child
    after `seconds`.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # instead of pytest-timeout's handler
        signal.alarm(math.ceil(seconds))
        try:
            said = {"returned": action()}
        except BaseException as error:
            said = {"raised": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    meanwhile()
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert text, f"the child did not end within {seconds} s"
    said = json.loads(text)
    assert "returned" in said, said["raised"]
    return said["returned"]


def launch(
    code: str,
    size: int,
    *,
    env: dict[str, str] | None = None,
    timeout: float = 60,
    launcher: tuple[str, str] = ("RANK", "WORLD_SIZE"),
    host: Callable[[int], tuple[list[str], dict[str, str]]] = lambda rank: ([], {}),
) -> list["Ended"]:
    """Runs Python code in `size` processes, with rank and size in the variables of a launcher.

    `host` says where a rank runs: the beginning of its command, and additional environment.
    """
    environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | (env or {})
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def end(process: subprocess.Popen[str]) -> Ended:
        out, err = process.communicate(timeout=timeout)
        return Ended(process.pid, out, err, process.returncode)

    with Processes() as processes:
        for rank in range(size):
            before, more = host(rank)
            place = dict(zip(launcher, (str(rank), str(size)), strict=True))
            processes.start(before + command, environ | place | more, **pipes)
        with ThreadPoolExecutor(size) as pool:  # one thread each, so that no process stays a zombie while others run
            return list(pool.map(end, processes.all))


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    pid: int
    out: str
    err: str
    status: int

    def json(self) -> Any:
        """The printed JSON, after a check that the process succeeded."""
        assert self.status == 0, f"exit status {self.status}\n{self.out}\n{self.err}"
        return json.loads(self.out)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def permutations(count: int) -> list[list[int]]:
    return [list(p) for p in itertools.permutations(range(count))]


def check_fits(capsys: Any, monkeypatch: Any, show: Callable[[], object]) -> None:
    """Checks that what `show` prints fits narrow terminals, and has all words and numbers there."""
    monkeypatch.delenv("COLUMNS", raising=False)
    show()
    wide = capsys.readouterr().out
    assert wide
    for columns in (80, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        show()
        narrow = capsys.readouterr().out
        too_long = [line for line in narrow.splitlines() if len(line) > columns and len(line.split()) > 1]
        assert not too_long
        assert not Counter(wide.split()) - Counter(narrow.split())
