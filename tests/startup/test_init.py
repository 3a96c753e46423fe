"""`ringroad.init`: rank, size and store from the environment, and which UCX is used."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import ringroad
from helpers import LAUNCHERS, PROGRAMS, TOTAL, free_port, launch
from ringroad._support.ucx import _ucx_wheel
from ringroad.start.rendezvous import _place


@pytest.fixture
def bare(monkeypatch):
    """An environment without a launcher's variables."""
    for row in LAUNCHERS:
        for name in row:
            monkeypatch.delenv(name, raising=False)
    for name in ("RINGROAD_STORE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("environ", LAUNCHERS)
def test_place_from_the_launcher(environ):
    assert _place(None, None, environ) == (1, 3)
    assert _place(2, None, environ) == (2, 3)
    assert _place(0, 8, {}) == (0, 8)


def test_first_launcher_wins():
    assert _place(None, None, {"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "5", "SLURM_NTASKS": "6"}) == (0, 2)
    assert _place(None, None, {"SLURM_NTASKS": "6", "PMI_RANK": "1", "PMI_SIZE": "2"}) == (1, 2)


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ["RANK", "WORLD_SIZE"]),
        ({"RANK": "0"}, ["only RANK"]),
        ({"RANK": "x", "WORLD_SIZE": "2"}, ["RANK='x'"]),
        ({"RANK": "2", "WORLD_SIZE": "2"}, ["rank 2 of 2"]),
    ],
)
def test_place_unknown(environ, names, refused):
    with refused(ringroad.ConfigError, *names):
        _place(None, None, environ)


def test_never_alone_by_accident(bare, refused):
    with refused(ringroad.ConfigError, "WORLD_SIZE"):
        ringroad.init()


def test_what_is_the_programs_stays(bare):
    """Signals, hooks, logging, warnings, the environment, names, and what else a program may have set."""
    for which in ([], ["torch"] if find_spec("torch") else []):
        command = [sys.executable, str(PROGRAMS / "takes_nothing.py"), *which]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.split("\n")[:2] == ["changed:", "dumped"], (which, done.stdout, done.stderr)


def test_store_unknown(bare, refused):
    with refused(ringroad.ConfigError, "RINGROAD_STORE=tcp://", "RINGROAD_STORE=file:///"):
        ringroad.init(rank=0, size=2)
    bare.setenv("RINGROAD_STORE", "redis://somewhere")
    with refused(ringroad.ConfigError, "RINGROAD_STORE", "redis"):
        ringroad.init(rank=0, size=2)


def totals(ended):
    reports = [process.json() for process in ended]
    size = len(reports)
    assert [report[:3] for report in reports] == [[rank, size, [size * (size + 1) / 2] * 4] for rank in range(size)]
    return reports


def test_file_store(tmp_path):
    totals(launch(TOTAL, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/new"}))


def test_init_again_and_again(tmp_path):
    """Each call makes another communicator over the same store, even after a failure."""
    code = """
import json
import numpy as np
import ringroad

results = []
for _ in range(3):
    with ringroad.init(timeout=30) as comm:
        results.append(comm.allreduce(np.ones(1)).item())
        try:
            comm.recv(np.empty(1), 1 - comm.rank, timeout=0.5)
        except ringroad.RingroadError:
            continue
print(json.dumps(results))
"""
    for process in launch(code, 2, env={"RINGROAD_STORE": f"file://{tmp_path}"}):
        assert process.json() == [2.0, 2.0, 2.0]


def test_group_of_one_needs_no_store():
    totals(launch(TOTAL, 1))


def test_the_log_says_which_algorithms_run(tmp_path):
    code = """
import numpy as np
import ringroad

with ringroad.init(timeout=30) as comm:
    comm.allreduce(np.ones(3), algorithm="swing")
    comm.barrier()
"""
    said = {}
    for level in ("WARN", "INFO", "TRACE"):
        env = {"RINGROAD_STORE": f"file://{tmp_path}/{level}", "RINGROAD_DEBUG": level}
        ranks = launch(code, 2, env=env)
        assert [process.status for process in ranks] == [0, 0], ranks
        said[level] = ranks[0].err
    choice, call = "world: allreduce on hosts:1x2: ", "world: rank 0: allreduce of 3 float64, sum, by swing\n"
    assert [choice in said[level] for level in said] == [False, True, True], said
    assert [call in said[level] for level in said] == [False, False, True], said
    assert "world: rank 0: barrier, by " in said["TRACE"]


def test_master_address():
    """torch is not loaded, which would take seconds and much memory."""
    code = f"{TOTAL}import sys; assert 'torch' not in sys.modules"
    totals(launch(code, 2, env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}))


def test_one_master_port_serves_torch_as_well():
    pytest.importorskip("torch")
    code = """
import ringroad, torch, torch.distributed as dist
world = ringroad.init()
dist.init_process_group('gloo')
dist.all_reduce(total := torch.ones(1))
assert total.item() == world.allreduce(1) == 2
dist.destroy_process_group()
"""
    for process in launch(code, 2, env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}):
        assert process.status == 0, process


def test_torchrun(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "total.py"
    # Each line is one write, so that lines do not mix.
    script.write_text(TOTAL.replace("print(", "import os; os.write(1, b'%s\\n' % ").replace("]))", "]).encode())"))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    reports = sorted(json.loads(line) for line in done.stdout.splitlines())
    assert [report[:3] for report in reports] == [[0, 2, [3.0] * 4], [1, 2, [3.0] * 4]]


# ------------------------------------------------------------------------------------------------ which UCX

WHERE = """
import json, ringroad
from ringroad.measure import facts
with ringroad.init(timeout=60) as comm:
    print(json.dumps(facts.ucx() | {"transport": str(comm.transport)}))
"""


def test_the_newer_ucx_is_preferred():
    """The system's and the wheel's; the reason is given. The soname alone stands for the system's."""
    (used,) = launch(WHERE, 1, env={"RINGROAD_UCX_LIBRARY": ""})
    (system,) = launch(WHERE, 1, env={"RINGROAD_UCX_LIBRARY": "libucp.so.0"})
    if system.status != 0 or _ucx_wheel() is None:
        pytest.skip("there are not both")
    assert "site-packages" not in system.json()["path"]
    (wheel,) = launch(WHERE, 1, env={"RINGROAD_UCX_LIBRARY": _ucx_wheel() or ""})
    versions = [tuple(map(int, one.json()["version"].split("."))) for one in (used, system, wheel)]
    assert versions[0] == max(versions), versions
    assert any(word in used.json()["why"] for word in ("newer", "as new"))


def test_wheel_ucx(tmp_path):
    wheel = _ucx_wheel()
    if wheel is None:
        pytest.skip("pip has installed no UCX")
    env = {"RINGROAD_TRANSPORT": "ucx", "RINGROAD_UCX_LIBRARY": wheel, "RINGROAD_STORE": f"file://{tmp_path}"}
    reports = totals(launch(TOTAL, 2, env=env))
    (ended,) = launch(WHERE, 1, env={"RINGROAD_UCX_LIBRARY": wheel})
    used = ended.json()
    assert os.path.dirname(os.path.realpath(used["path"])) == os.path.dirname(os.path.realpath(wheel))
    assert used["version"] in reports[0][3]


def test_a_communicator_made_directly_finds_the_same_ucx(tmp_path):
    code = """
import json, os, ringroad
store, rank = ringroad.FileStore(os.environ["PLACE"]), int(os.environ["RANK"])
comms = [ringroad.init(timeout=60), ringroad.Communicator(store, rank, 2, timeout=60)]
print(json.dumps([str(comm.transport) for comm in comms]))
"""
    env = {"RINGROAD_TRANSPORT": "ucx", "PLACE": str(tmp_path / "a"), "RINGROAD_STORE": f"file://{tmp_path}/b"}
    for ended in launch(code, 2, env=env):
        if "no UCX found" in ended.err and _ucx_wheel() is None:
            pytest.skip("there is no UCX")
        assert len(set(ended.json())) == 1 and ended.json()[0].startswith("ucx"), ended


def test_topology_and_algorithm(tmp_path):
    code = """
import json, ringroad
with ringroad.init(timeout=60, topology="ring:2", algorithm="ring") as comm:
    print(json.dumps([comm.topology, comm.algorithm_for("allreduce", 8), comm.timeout]))
"""
    for process in launch(code, 2, env={"RINGROAD_STORE": f"file://{tmp_path}"}):
        assert process.json() == ["ring:2", "ring", 60.0]


def test_torch_store_as_argument():
    """Any of torch's stores is accepted."""
    dist = pytest.importorskip("torch.distributed")
    store = dist.HashStore()
    comm = ringroad.init(store, rank=0, size=1, timeout=10)
    assert comm.allreduce(np.ones(2)).tolist() == [1.0, 1.0]
    comm.close()
