"""Functions that the tests run on the workers, and cases of the oracle (`ringroad._oracle`) that they compare with.

Workers import this module by name, so it imports nothing heavy.
"""

import contextlib
import faulthandler
import hashlib
import itertools
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ringroad
from ringroad._discovery import Discovery
from ringroad._oracle import DTYPES, OUTPUTS, SUPPORTED, Case, Part, differences, dtype_of, ops, reduced, values
from ringroad._support.processes import Processes
from ringroad.measure.bench.launch import BenchError, mpirun
from ringroad.testbed.network import EmulatedNetwork

# Ranks would warn of variables that are for tests only.
os.environ.pop("RINGROAD_TEST_REQUIRE_UCX", None)
FULL = os.environ.pop("RINGROAD_TEST_FULL", None) is not None
"""Whether long tests run, too: more networks, ranks and sizes, which Rust's tests have or which take long."""

ROOT = Path(__file__).parents[1]
"""The repository."""
PROGRAMS = ROOT / "tests" / "programs"
"""Programs that tests start."""
SENTENCES = ROOT / "tests" / "sentences.txt"
"""What errors say: below the name of each test a line for each."""


long = pytest.mark.skipif(not FULL, reason="takes long: RINGROAD_TEST_FULL=1, or make check-all")


def needs_testbed() -> None:
    """Skips the test, with the reason, if this machine cannot make network namespaces."""
    try:
        EmulatedNetwork(ringroad.Topology("ring:2"), 1e7).close()
    except ringroad.testbed.TestbedError as error:
        pytest.skip(str(error))


def are_measured(found: Discovery) -> bool:
    """Whether all rates are measured, but for as many as a note says busy cores have kept from that."""
    unsure = sum(link.how != "measured" for link in found.links)
    busy = f"cores were busy: {unsure} of {len(found.links)} links"
    return not unsure or any(note.startswith(busy) for note in found.notes)


TRANSPORTS = {
    "memory": {},
    "shm": {"RINGROAD_TRANSPORT": "ucx"},
    "tcp": {"RINGROAD_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"},
}
"""Shared memory, UCX over shared memory, and UCX over tcp; in long runs also ringroad's own tcp."""
OWN = {"own": {"RINGROAD_TRANSPORT": "tcp"}}
"""ringroad's own tcp."""
if FULL:
    TRANSPORTS |= OWN

PAIRS = [(dtype, op) for dtype in DTYPES for op in SUPPORTED if dtype in SUPPORTED[op]]


def cases(collective: str, ranks: int, sizes: list[int] | None = None) -> Iterator[Case]:
    """All dtypes and operations, each with one of the sizes, roots and OUTPUTS in turn."""
    sizes = sizes or [0, 1, 2, 3, 7, ranks - 1, ranks, ranks + 1, 1000, 65537]
    pairs = [(dtype, op) for dtype in DTYPES for op in ops(collective, dtype)]
    for index in range(max(len(pairs), len(sizes) * len(OUTPUTS), ranks)):
        dtype, op = pairs[index % len(pairs)]
        output = OUTPUTS[index // len(sizes) % len(OUTPUTS)]
        yield Case(collective, sizes[index % len(sizes)], dtype, op, index % ranks, output, seed=index)


def by_every_algorithm(collective: str, network: str, sizes: list[int], **others: Any) -> list[Case]:
    """The same with each algorithm in turn, and with none named."""
    topology = ringroad.Topology(network)
    names = [None, *(a.name for a in ringroad.algorithms(topology) if a.supports(topology, collective))]
    some = list(cases(collective, topology.ranks, sizes))
    turns = zip(itertools.cycle(some), itertools.cycle(names), range(max(len(some), len(names))), strict=False)
    return [replace(case, algorithm=name, seed=turn, **others) for case, name, turn in turns]


def run_case(comm: Any, case: Case) -> np.ndarray | None:
    """Makes the call and compares the result with NumPy's. Returns it for comparison between ranks."""
    part = Part(case, comm.size, comm.rank)
    before = part.send.tobytes()
    call = part.start(comm)
    wrong = call.finish()
    assert wrong is None, wrong
    assert part.send.tobytes() == before, f"{case}: the input was changed"
    return call.got


def check_cases(comm: Any, many: list[Case]) -> list[str]:
    """Runs the cases. Returns a digest of each result."""
    return [digest(run_case(comm, case)) for case in many]


def digest(array: np.ndarray | None) -> str:
    return "" if array is None else hashlib.sha256(array.tobytes()).hexdigest()


# ------------------------------------------------------------------------------------------------ other work


def check_rows(comm: Any, counts: list[int]) -> None:
    """The calls with blocks of `counts` rows of three numbers. Refuses wrong counts."""
    rank, total = comm.rank, sum(counts)
    whole = np.arange(total * 3).reshape(total, 3)
    own = whole[sum(counts[:rank]) : sum(counts[: rank + 1])]
    assert np.array_equal(comm.allgather(own, counts=counts), whole)
    assert np.array_equal(comm.reduce_scatter(whole, counts=counts), comm.size * own)
    assert np.array_equal(
        comm.alltoall(whole, counts=np.array([counts] * comm.size)), np.concatenate([own] * comm.size)
    )
    assert np.array_equal(comm.scatter(whole if rank == 0 else None, np.empty_like(own), counts=counts), own)
    gathered = comm.gather(own, counts=counts)
    assert np.array_equal(gathered, whole) if rank == 0 else gathered is None
    for wrong, send in (([*counts, 1], whole), (counts, np.zeros((total + 1, 3)))):
        with pytest.raises(ValueError, match=r"counts|rows"):
            comm.reduce_scatter(send, counts=wrong)
    comm.barrier()


def check_async(comm: Any, order: list[int], counts: list[int]) -> list[str]:
    """Several allreduces in flight, for which the rank waits in the given order."""
    sends = [values(comm.rank, n, np.dtype("float32"), seed=i) for i, n in enumerate(counts)]
    works = [comm.allreduce(send, async_op=True) for send in sends]
    for index in order:
        assert works[index].wait() is True
    digests = []
    for index, work in enumerate(works):
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert isinstance(work.algorithm, str) and work.algorithm
        inputs = [values(r, counts[index], np.dtype("float32"), seed=index) for r in range(comm.size)]
        expected, tolerance = reduced("sum", inputs)
        assert differences(work.result(), expected, np.dtype("float32"), tolerance) is None
        digests.append(digest(work.result()))
    return digests


def check_ring(comm: Any, count: int, dtype: str) -> None:
    """Every rank sends to the next rank and receives from the previous one, with two tags in reverse order."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent = [values(comm.rank, count, dtype_of(dtype), seed=tag) for tag in (3, 4)]
    works = [comm.send(array, after, tag, async_op=True) for tag, array in zip((3, 4), sent, strict=True)]
    for tag in (4, 3):
        out = np.empty(count, dtype_of(dtype))
        assert comm.recv(out, before, tag) is out
        assert differences(out, values(before, count, dtype_of(dtype), seed=tag), dtype_of(dtype)) is None
    for work in works:
        work.wait()


def failure_of(call: Callable[[], object]) -> tuple[str, str]:
    """The type and the text of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def check_tutorial(results: Sequence[Any]) -> None:
    """Checks what the ranks have got from `programs/mpi4py_tutorial.py`."""
    size = len(results)
    assert results[1]["objects_between_two"] == results[1]["objects_without_blocking"] == {"a": 7, "b": 3.14}
    assert results[1]["arrays_between_two"] == list(range(100))
    for rank, result in enumerate(results):
        assert result["broadcast_an_object"] == {"key1": [7, 2.72, "2+3j"], "key2": ["abc", "xyz"]}
        assert result["matrix_vector_product"] == [(rank + 1) * 3 * sum(range(size))] * 3
        assert result["reductions"] == [size - 1, 3.142 if rank == 0 else None]
    assert results[0]["self_scheduling"] == 2 * sum(range(20))


def sentences() -> dict[str, list[str]]:
    """What `SENTENCES` has, by test."""
    blocks = [block.split("\n    ") for block in SENTENCES.read_text().removesuffix("\n").split("\n\n")]
    return {test: said for test, *said in blocks}


def write_sentences(changed: dict[str, list[str]]) -> None:
    """Replaces what these tests have in `SENTENCES`; no list drops one."""
    found = sorted((sentences() | changed).items())
    SENTENCES.write_text("\n".join("\n    ".join([test, *said]) + "\n" for test, said in found if said))


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

LAUNCHERS = [
    {"RANK": "1", "WORLD_SIZE": "3"},
    {"SLURM_PROCID": "1", "SLURM_NTASKS": "3"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
    {"PMI_RANK": "1", "PMI_SIZE": "3"},
]
"""Rank 1 of 3 in the variables of each launcher."""

TOTAL = """
import json
import numpy as np
import ringroad
from ringroad._discovery import Discovery

with ringroad.init(timeout=60) as comm:
    total = comm.allreduce(np.full(4, comm.rank + 1.0))
    print(json.dumps([comm.rank, comm.size, total.tolist(), str(comm.transport)]))
"""
"""A program that makes one call and prints what it was part of."""


def in_child(action: Callable[[], Any], meanwhile: Callable[[], Any] = lambda: None, seconds: float = 30) -> Any:
    """Calls `action` in a forked child and returns its result as JSON has it, or the text of its error. Kills the child
    after `seconds`.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # instead of pytest-timeout's handler
        signal.alarm(math.ceil(seconds))
        faulthandler.dump_traceback_later(seconds - 5, file=sys.__stderr__)
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


_PORTS = random.sample(range(20_000, 32_000), 12_000)


def free_port() -> str:
    """A port that no other call has returned, and that the kernel does not give to clients: these connect before the
    server listens, and one could get the port.
    """
    while True:
        port = _PORTS.pop()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)


def launch(
    program: Path | str,
    size: int,
    *,
    env: dict[str, str] | None = None,
    timeout: float = 60,
    launcher: tuple[str, str] = ("RANK", "WORLD_SIZE"),
    host: Callable[[int], tuple[list[str], dict[str, str]]] = lambda rank: ([], {}),
) -> list["Ended"]:
    """Runs a Python program, or code, in `size` processes, with rank and size in the variables of a launcher.

    `host` says where a rank runs: the beginning of its command, and additional environment.
    """
    environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | (env or {})
    command = [sys.executable, "-X", "faulthandler", *(["-c", program] if isinstance(program, str) else [str(program)])]
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


def by_mpi4py(program: str, ranks: int, seeds: Sequence[int], seconds: float) -> Any:
    """What a module of `programs` prints, run by mpi4py, as JSON has it. Skips the test where it cannot run."""
    few_cores = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    try:
        command = [mpirun(), "-n", str(ranks), *few_cores]
    except BenchError as error:
        pytest.skip(str(error))
    command += [sys.executable, "-m", f"programs.{program}", *map(str, seeds)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": seconds, "cwd": ROOT / "tests"}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=os.environ | allowed, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def within(seconds: float, look: Callable[[], Any]) -> Any:
    """What `look` returns once that is something, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
