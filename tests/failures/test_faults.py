"""The short version of `make check-faults` and `make soak`: each kind of fault a few times, and some thousand calls."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ringroad
from faults.judge import judge
from faults.kinds import Job, Kind, Stops
from helpers import FULL, PROGRAMS, ROOT, TRANSPORTS, launch, long
from ringroad._native import ucx_info
from ringroad._oracle import Case, Part

TOOLS = ROOT / "tools"

KINDS = ["kills", "stops", "mismatches", "memory", "descriptors", "seccomp"]
RUNS = 3 if FULL else 1


def tool(name: str, *arguments: object) -> str:
    command = [sys.executable, str(TOOLS / name), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stdout


def faults(place: Path, runs: int, kinds: list[str]) -> dict:
    """The results of `runs` runs of each kind. Tests do not judge times, so the limits are wide."""
    chosen = ["--runs", runs, "--only", ",".join(kinds), "--histories", 0]
    tool("check_faults.py", *chosen, "--slack", 3, "--json", place / "found.json")
    return json.loads((place / "found.json").read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """Runs cut networks beside the other faults, since waiting for a cut to be noticed takes no core."""
    places = [tmp_path_factory.mktemp("faults") for _ in range(2)]
    if ucx_info()["version"].startswith("1.13."):  # it notices a cut network only at the deadline
        return faults(places[0], RUNS, KINDS)
    with ThreadPoolExecutor() as pool:
        many = pool.submit(faults, places[0], RUNS, KINDS)
        cuts = pool.submit(faults, places[1], 3, ["cuts"])
        return many.result() | cuts.result()


def check(tally: dict) -> None:
    assert tally["runs"] > 0
    assert not tally["failed"], json.dumps(tally["failed"], indent=1)


ERROR = {"event": "error", "at": 11.0, "began": 9.0, "type": "PeerError", "text": "rank 2 (vm, pid 5) is gone"}
END = {"event": "end", "leaks": {}}


@pytest.mark.parametrize(
    ("log", "hanging", "finding"),
    [
        ([ERROR, END], [], None),
        ([ERROR], [0], "hang"),
        ([ERROR | {"at": 12.5}, END], [], "late"),
        ([ERROR | {"text": "rank 3 is gone"}, END], [], "wrong error"),
        ([ERROR | {"type": "ValueError"}, END], [], "wrong error"),
        ([ERROR | {"at": 9.5}, END], [], "wrong error"),
        ([END], [], "wrong error"),
        ([{"event": "wrong", "text": "7, not 8"}, ERROR, END], [], "wrong result"),
        ([ERROR, {"event": "unusable", "text": "no"}, END], [], "unusable"),
        ([ERROR, END | {"leaks": {"descriptor of socket": 1}}], [], "leak"),
    ],
)
def test_what_is_found(log, hanging, finding):
    job = Job(seed="", transport="memory", ranks=3, victims=(2,))
    logs = {0: log, 1: [ERROR | {"text": "ranks 1-2 are gone"}, END], 2: []}
    findings, _ = judge(Kind(None), job, 10.0, logs, {0: 0, 1: 0, 2: -9}, hanging)
    assert [what for what, _ in findings] == ([finding] if finding else [])


def test_a_stopped_rank_may_hear_of_it_between_two_calls():
    """The others gave up meanwhile. No call of its own has raised that, and it lost nobody."""
    job = Job(seed="", transport="memory", ranks=2, victims=(1,))
    others = ERROR | {"type": "TimeoutError", "text": "timed out: rank 0 waits for rank 1"}
    own = ERROR | {"type": "AbortedError", "text": f"failed earlier; the cause was: {others['text']}"}
    findings, _ = judge(Stops(None), job, 10.0, {0: [others, END], 1: [own, END]}, {0: 0, 1: 0}, [])
    assert not findings


def test_wrong_results_are_seen():
    with ringroad.Communicator.in_process(1)[0] as comm:
        for name in ("allreduce", "alltoall", "gather"):
            part = Part(Case(name, count=5), 1, 0)
            call = part.start(comm)
            assert call.finish() is None
            call.got = call.got + 1
            assert re.search(r"5 of 5 differ; at 0: (\d+)\.0, not ", call.finish())


@pytest.mark.parametrize("kind", [*KINDS, "cuts"])
def test_faults(kind, found):
    if kind not in found:
        pytest.skip("this machine makes no network namespaces, or its UCX notices no cut network")
    check(found[kind])


STOPPED = PROGRAMS / "stopped_in_a_call.py"


@pytest.mark.parametrize(("transport", "timeout"), [("memory", 20), ("shm", 0.3)])
def test_no_call_ends_well_with_what_came_after_it(transport, timeout, tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "END": f"{tmp_path}/end"}
    env |= {"BYTES": "9000", "TIMEOUT": str(timeout)}
    ended = launch(STOPPED, 4, env=env | TRANSPORTS[transport])
    assert [rank.status for rank in ended] == [0] * 4, [rank.err for rank in ended]


COMPUTES = PROGRAMS / "computing.py"


def test_a_rank_that_computes_is_not_gone(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "UCX_TCP_USER_TIMEOUT": "1s"}
    ended = launch(COMPUTES, 2, env=env | TRANSPORTS["tcp"])
    assert [rank.status for rank in ended] == [0] * 2, [rank.err for rank in ended]


AHEAD = PROGRAMS / "far_ahead.py"


@pytest.mark.parametrize("transport", ["shm", pytest.param("tcp", marks=long)])
def test_a_rank_that_only_sends_is_held_up(transport, tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "FAR": f"{tmp_path}/far"}
    ended = launch(AHEAD, 2, env=env | TRANSPORTS[transport])
    assert [rank.status for rank in ended] == [0] * 2, [rank.err for rank in ended]


def test_soak(tmp_path):
    tool("soak.py", "--minutes", 0.02, "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["calls"] > 1000
    assert (found["errors"], found["failed"], found["hanging"]) == (0, [], []), found
