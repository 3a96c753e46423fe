"""How processes that a launcher has started find each other."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ringroad
from helpers import PROGRAMS, TOTAL, check_tutorial, free_port, launch
from ringroad.start.launchers import counts_of, derived, first_of, job_of, launcher_of, local_of, master

# Far longer than anything here takes: a test that reaches it waited in vain.
LIMIT = 60

# Each line is one write, so that the lines of several ranks do not mix.
LINES = TOTAL.replace("print(", "import os; os.write(1, b'%s\\n' % ").replace("]))", "]).encode())")

FAILS = """
import json, os, time
import ringroad
start = time.monotonic()
try:
    ringroad.init(timeout=float(os.environ.get("SECONDS_TO_WAIT", "60"))).close()
except ringroad.RingroadError as error:
    print(json.dumps([type(error).__name__, str(error), time.monotonic() - start]))
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """An environment without any launcher's variables. SLURM_CONF says where Slurm itself is."""
    prefixes = (
        *("RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI", "MPI_", "RINGROAD_STORE"),
        *("FLUX_", "PALS_", "JSM_", "MV2_"),
    )
    for name in list(os.environ):
        if name.startswith(prefixes) and name != "SLURM_CONF":
            monkeypatch.delenv(name)
    return monkeypatch


def check(size, **how):
    """All ranks meet and add up."""
    start = time.monotonic()
    reports = [process.json()[:3] for process in launch(TOTAL, size, **how)]
    assert reports == [[rank, size, [size * (size + 1) / 2] * 4] for rank in range(size)]
    assert time.monotonic() - start < LIMIT / 2


# ------------------------------------------------------------------------------------------------ launchers


def mpirun(ranks, *command):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("mpirun", path=path)
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""
    if "Open MPI" not in version:
        pytest.skip("Open MPI is not installed")
    environ = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = [found, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    return subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_open_mpi(tmp_path):
    """Two jobs at the same time do not meet. Shells between mpirun and the ranks do not matter."""
    script = tmp_path / "total.py"
    script.write_text(LINES)
    jobs = {3: [sys.executable, str(script)], 2: ["sh", "-c", f"{shlex.join([sys.executable, str(script)])}; exit $?"]}
    started = {size: mpirun(size, *command) for size, command in jobs.items()}
    for size, job in started.items():
        out, err = job.communicate(timeout=LIMIT)
        assert job.returncode == 0, err
        found = sorted(json.loads(line)[:3] for line in out.splitlines())
        assert found == [[rank, size, [size * (size + 1) / 2] * 4] for rank in range(size)]


def test_mpi4pys_tutorial():
    """The programs of mpi4py's tutorial, as docs/moving.md has their lines."""
    job = mpirun(4, sys.executable, str(PROGRAMS / "mpi4py_tutorial.py"))
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 0, err
    check_tutorial([result for _, result in sorted(map(json.loads, out.splitlines()))])


def test_mpich(tmp_path):
    hydra = shutil.which("mpiexec.hydra")
    if hydra is None:
        pytest.skip("neither MPICH nor Intel MPI is installed")
    script = tmp_path / "total.py"
    script.write_text(LINES)
    command = [hydra, "-n", "2", "sh", "-c", f"{shlex.join([sys.executable, str(script)])}; exit $?"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(line)[:3] for line in done.stdout.splitlines()) == [[0, 2, [3.0] * 4], [1, 2, [3.0] * 4]]


def test_srun(tmp_path):
    if shutil.which("srun") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip("Slurm is not installed, or does not run")
    script = tmp_path / "total.py"
    script.write_text(LINES)
    done = subprocess.run(["srun", "-n", "2", sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(line)[:3] for line in done.stdout.splitlines()) == [[0, 2, [3.0] * 4], [1, 2, [3.0] * 4]]


SLURM = ("SLURM_PROCID", "SLURM_NTASKS")
STEP = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
PMI = ("PMI_RANK", "PMI_SIZE")
TORCHRUN = ("RANK", "WORLD_SIZE")


@pytest.mark.parametrize("nodes", ["node7", "localhost,node[1-3]"])
def test_variables_of_slurm(nodes):
    check(3, launcher=SLURM, env=STEP | {"SLURM_STEP_NODELIST": nodes})


@pytest.mark.parametrize("shell", [[], ["sh", "-c", '"$@"; exit $?', "sh"]])
def test_variables_of_mpich(shell):
    """The ranks have this process in common, also if each has a shell of its own."""
    check(3, launcher=PMI, env={"MPI_LOCALNRANKS": "3"}, host=lambda rank: (shell, {}))


@pytest.mark.parametrize(
    ("launcher", "env"),
    [
        (PMI, {"PMI_LOCAL_SIZE": "2"}),
        (PMI, {"PALS_LOCAL_SIZE": "2", "PALS_APID": "6f1c"}),
        (PMI, {"FLUX_JOB_NNODES": "1", "FLUX_TASK_RANK": "7", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}),
        (("FLUX_TASK_RANK", "FLUX_JOB_SIZE"), {"FLUX_JOB_NNODES": "1", "FLUX_JOB_ID": "f1a2b3"}),
        (("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), {"MV2_COMM_WORLD_LOCAL_SIZE": "2"}),
        (("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), {"JSM_NAMESPACE_LOCAL_SIZE": "2"}),
    ],
)
def test_variables_of_others_on_one_host(launcher, env):
    check(2, launcher=launcher, env=env)


def test_variables_of_torchrun():
    check(2, env={"MASTER_ADDR": "localhost", "MASTER_PORT": free_port()})


def test_the_agent_of_torchrun_keeps_its_port():
    with socket.create_server(("127.0.0.1", 0)) as agent:
        port = str(agent.getsockname()[1])
        env = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none"}
        check(2, env=env | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})


def test_store_by_its_address():
    """With an installed torch, too. Ranks with the same secret meet, again and again."""
    code = """
import numpy as np, ringroad, sys
for _ in range(3):
    with ringroad.init(timeout=60) as comm:
        total = comm.allreduce(np.ones(1)).item()
print(total, "torch" in sys.modules)
"""
    env = {"RINGROAD_STORE": f"tcp://localhost:{free_port()}", "RINGROAD_SECRET": "ours"}
    for process in launch(code, 2, env=env):
        assert process.status == 0 and process.out == "2.0 False\n", process


# ------------------------------------------------------------------------------------------------ derivation


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("node07", "node07"),
        ("node[07-09,12],login1", "node07"),
        ("a[3,5]", "a3"),
        ("rack[1-2]-node[004-006]", "rack1-node004"),
        ("one,two[1-2]", "one"),
        ("10.0.0.1,10.0.0.2", "10.0.0.1"),
    ],
)
def test_first_host_of_a_list(hosts, first):
    assert first_of(hosts) == first


def test_ranks_of_a_host():
    assert counts_of("4") == [4] and counts_of("4(x2),3") == [4, 4, 3] and counts_of("12,1(x10)") == [12, *[1] * 10]
    slurm = {"SLURM_PROCID": "9", "SLURM_NTASKS": "11", "SLURM_LOCALID": "1", "SLURM_NODEID": "2"}
    assert local_of(launcher_of(slurm), slurm) is None
    slurm["SLURM_STEP_TASKS_PER_NODE"] = "4(x2),3"
    assert local_of(launcher_of(slurm), slurm) == (1, 3)
    mpich = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert local_of(launcher_of(mpich), mpich) == (1, 2)
    pals = {"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "2"}
    assert local_of(launcher_of(pals), pals) == (1, 2)
    torchrun = {"RANK": "3", "WORLD_SIZE": "4"}
    assert local_of(launcher_of(torchrun), torchrun) is None


def test_other_jobs_have_other_ports():
    def place(step, ports=None):
        environ = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7"}
        environ["SLURM_STEP_ID"] = step
        return derived(launcher_of(environ), environ, ports)

    assert place("0") == place("0") and place("0").host == "n1"
    assert place("0").job != place("1").job and not set(place("0").ports) & set(place("1").ports)
    assert len(place("0").ports) > 4 and all(20_000 <= port < 32_768 for port in place("0").ports)
    assert set(place("0", (900, 901)).ports) == {900, 901}


def test_mpirun_within_slurm():
    """Slurm's variables count the daemons that mpirun has started."""
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
    mpich = launcher_of(slurm | {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"})
    assert mpich.name == "PMI" and (mpich.rank, mpich.size) == (3, 4)
    own = launcher_of(slurm | {"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert own.name == "Slurm" and (own.rank, own.size) == (0, 2)
    step = launcher_of(slurm | {"SLURM_STEP_NUM_TASKS": "8"})
    assert (step.rank, step.size) == (0, 8)


def test_names_of_jobs():
    ompi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-a-17@1"}
    environ = ompi | {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    place = master(launcher_of(environ), environ, None)
    assert (place.host, len(place.ports), place.job) == ("a", 8, "PMIX_NAMESPACE=prterun-a-17@1 MASTER_PORT=29500")
    nameless = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    place = master(launcher_of(nameless), nameless, (100, 200))
    assert all(100 <= port <= 200 for port in place.ports) and place.job == "MASTER_PORT=29500"
    place = master(None, nameless, (29500, 29501))
    assert place.ports == (29501,), "the port itself is torch's"
    het = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7", "SLURM_STEP_ID": "1"}
    assert job_of(launcher_of(het), het) == "SLURM_HET_JOB_ID=7 SLURM_STEP_ID=1"


OMPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


@pytest.mark.parametrize(
    ("launcher", "env", "names"),
    [
        (OMPI, {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, ["mpirun -x MASTER_ADDR=node1 -x MASTER_PORT=29500"]),
        (PMI, {"MPI_LOCALNRANKS": "1"}, ["mpirun -genv MASTER_ADDR node1 -genv MASTER_PORT 29500"]),
        (PMI, {}, ["export MASTER_ADDR=node1 MASTER_PORT=29500"]),
        (PMI, {"PMI_LOCAL_SIZE": "1"}, ["PMI_LOCAL_SIZE=1"]),
        (PMI, {"PALS_LOCAL_SIZE": "1"}, ["PALS_LOCAL_SIZE=1"]),
        (PMI, {"FLUX_JOB_NNODES": "2", "FLUX_TASK_RANK": "0"}, ["FLUX_JOB_NNODES=2"]),
        (("FLUX_TASK_RANK", "FLUX_JOB_SIZE"), {"FLUX_JOB_NNODES": "2"}, ["FLUX_TASK_RANK"]),
        (("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), {}, ["MV2_COMM_WORLD_RANK"]),
        (("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), {}, ["JSM_NAMESPACE_RANK"]),
        (("PMIX_RANK", "PALS_RANKID"), {}, ["PMIX_RANK, PALS_RANKID"]),
        (TORCHRUN, {}, ["RINGROAD_STORE=tcp://host:port"]),
        (TORCHRUN, {"MASTER_ADDR": "a"}, ["MASTER_ADDR", "MASTER_PORT"]),
        (TORCHRUN, {"MASTER_ADDR": "a", "MASTER_PORT": "x"}, ["MASTER_PORT='x'"]),
        (TORCHRUN, {"MASTER_ADDR": "a", "MASTER_PORT": "70000"}, ["MASTER_PORT=70000"]),
        *(
            (TORCHRUN, {"MASTER_ADDR": given, "MASTER_PORT": "29500"}, [f"set {written}"])
            for given, written in {
                "tcp://node1": "MASTER_ADDR=node1",
                "tcp://node1:29501/": "MASTER_ADDR=node1 and MASTER_PORT=29501",
                "node1:29501": "MASTER_ADDR=node1 and MASTER_PORT=29501",
                "[fd00::1]": "MASTER_ADDR=fd00::1",
                "[fd00::1]:29501": "MASTER_ADDR=fd00::1 and MASTER_PORT=29501",
                " node1 ": "MASTER_ADDR=node1",
            }.items()
        ),
        (SLURM, {"SLURM_JOB_ID": "7"}, ["srun"]),
        (SLURM, STEP | {"SLURM_STEP_ID": "4294967291"}, ["srun"]),
        (SLURM, STEP, ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]),
        (SLURM, STEP | {"SLURM_NODEID": "1", "SLURM_STEP_NODELIST": "a,b"}, ["rank 0", "number 1 of a,b"]),
    ],
)
def test_what_is_missing(bare, launcher, env, names, refused):
    for name, value in ({launcher[0]: "0", launcher[1]: "2"} | env).items():
        bare.setenv(name, value)
    with refused(ringroad.ConfigError, *names):
        ringroad.init(timeout=5)


@pytest.mark.parametrize("host", ["node1", "10.0.0.1", "::1", "fd00::1", "fe80::1%eth0", "node-1.example.org"])
def test_hosts_that_are_taken_as_they_are(host):
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": host, "MASTER_PORT": "29500"}
    assert master(launcher_of(environ), environ, None).host == host


def test_groups_of_ones_own_do_not_meet_at_the_launchers_place(bare, refused):
    for name, value in (STEP | {"SLURM_STEP_NODELIST": "a", "SLURM_PROCID": "2", "SLURM_NTASKS": "4"}).items():
        bare.setenv(name, value)
    with refused(ringroad.ConfigError, "2 ranks"):
        ringroad.init(rank=0, size=2, timeout=5)


# ------------------------------------------------------------------------------------------------ trouble


def fail(rank, env):
    """The error of one rank of two, by its name and its text. It must come soon."""
    ended = launch(FAILS, 1, launcher=("UNUSED", "UNUSED_TOO"), env={"RANK": str(rank), "WORLD_SIZE": "2"} | env)
    name, text, seconds = ended[0].json()
    assert seconds < LIMIT / 2, text
    return name, text


def test_a_port_that_is_taken():
    """Also by a server that greets. Rank 0 says what to set; the others do not take the server for rank 0."""
    with socket.create_server(("127.0.0.1", int(free_port()))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def greet():
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].sendall(b"220 mail.example.org ESMTP Postfix, ready to serve\r\n")

        threading.Thread(target=greet, daemon=True).start()
        env = {"RINGROAD_STORE": f"tcp://{address}"}
        (first, taken), (second, other) = fail(0, env), fail(1, env)
        server.shutdown(socket.SHUT_RDWR)
    assert first == second == "StoreError"
    assert f"rank 0 cannot serve the job's store at {address}: Address already in use" in taken
    assert "set another port in MASTER_PORT or RINGROAD_STORE=tcp://host:port" in taken
    assert f"what listens at {address} is not rank 0 of this job" in other


def test_rank_0_does_not_come():
    port = free_port()
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{port}", "SECONDS_TO_WAIT": "0.5"}
    name, text = fail(1, env)
    assert name == "TimeoutError"
    assert f"rank 1 did not find rank 0 at 127.0.0.1:{port} within 0.5 s: nothing listens there" in text
    name, text = fail(0, env)
    assert name == "TimeoutError" and "rank 1 did not come" in text


def test_an_unknown_host():
    name, text = fail(1, {"RINGROAD_STORE": "tcp://no-such-host.invalid:29500", "SECONDS_TO_WAIT": "0.5"})
    assert name == "TimeoutError" and 'the host "no-such-host.invalid" is unknown' in text
    name, text = fail(1, {"MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "29500", "SECONDS_TO_WAIT": "0.5"})
    assert name == "TimeoutError" and 'the host "no-such-host.invalid" is unknown' in text


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"RINGROAD_SECRET": "theirs"}, "set RINGROAD_SECRET to the same text"),
        ({"TORCHELASTIC_RUN_ID": "2"}, "this job"),
    ],
)
def test_ranks_of_another_job_do_not_come_in(other, words):
    """Of a job with another secret or another name, at the same port; this job's own rank comes later."""
    port = free_port()
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{port}", "TORCHELASTIC_RUN_ID": "1", "RINGROAD_SECRET": "ours"}
    ranks = [os.environ | env | {"RANK": str(rank), "WORLD_SIZE": "2"} for rank in (0, 1)]
    command = [sys.executable, "-c", TOTAL]
    first = subprocess.Popen(command, env=ranks[0], stdout=subprocess.PIPE, text=True)
    try:
        name, text = fail(1, env | other)
        assert name == "StoreError" and words in text
        second = subprocess.run(command, env=ranks[1], capture_output=True, text=True, timeout=LIMIT)
        assert second.returncode == 0, second.stderr
        assert json.loads(first.communicate(timeout=LIMIT)[0])[:2] == [0, 2]
    finally:
        first.kill()
        first.wait()


@pytest.mark.parametrize("store", ["file", "tcp"])
def test_all_are_told_of_a_rank_with_another_secret(store, tmp_path):
    """Those with the right one warn while they wait, and name it when the time is up."""
    place = f"file://{tmp_path}/store" if store == "file" else f"tcp://127.0.0.1:{free_port()}"
    env = {"RINGROAD_STORE": place, "SECONDS_TO_WAIT": "8"}
    ranks = launch(FAILS, 3, env=env, host=lambda rank: ([], {"RINGROAD_SECRET": "theirs" if rank == 1 else "ours"}))
    assert "RINGROAD_SECRET" in ranks[1].json()[1]
    for rank in (0, 2):
        name, text, _ = ranks[rank].json()
        why = "rank 1 (" if store == "file" else "a caller from 127.0.0.1 was refused"
        assert name == "TimeoutError" and "rank 1 did not come" in text and why in text, text
        assert f"ringroad: warning: rank {rank} (" in ranks[rank].err and why in ranks[rank].err, ranks[rank].err


def test_two_processes_are_rank_0(tmp_path):
    # On a busy machine one may begin long after the others have given up.
    code = f"""
import os, pathlib, time
import ringroad
ringroad.init(rank=0, size=1).close()
begun = pathlib.Path({str(tmp_path)!r})
(begun / os.environ["NUMBER"]).touch()
while len(list(begun.iterdir())) < 3:
    time.sleep(0.001)
{FAILS}"""
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{free_port()}", "WORLD_SIZE": "3"}
    ranks = launch(
        code, 3, launcher=("NUMBER", "UNUSED"), env=env, host=lambda number: ([], {"RANK": str(number // 2)})
    )
    for rank in ranks:
        name, text, seconds = rank.json()
        assert name in ("StoreError", "PeerError") and "start every rank once" in text and seconds < LIMIT / 2, text


def test_a_rank_beyond_the_size_in_torch():
    pytest.importorskip("torch")
    code = """
import torch.distributed as dist
from datetime import timedelta
try:
    dist.init_process_group("ringroad", timeout=timedelta(seconds=50))
except Exception as error:
    print(type(error).__name__, error)
"""
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    for rank in launch(code, 2, launcher=("NUMBER", "UNUSED"), env=env, host=lambda n: ([], {"RANK": str(2 * n)})):
        assert "rank 2 of 2 is out of range" in rank.out, rank


def test_strangers_at_the_port():
    """Idle connections and random data do not keep the ranks apart."""
    port = int(free_port())
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{port}"}
    command = [sys.executable, "-c", TOTAL]
    ranks = [os.environ | env | {"RANK": str(rank), "WORLD_SIZE": "2"} for rank in (0, 1)]
    first = subprocess.Popen(command, env=ranks[0], stdout=subprocess.PIPE, text=True)
    held, deadline = [], time.monotonic() + LIMIT / 2
    try:
        while len(held) < 300:
            assert time.monotonic() < deadline and first.poll() is None
            try:
                held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                if len(held) % 2:
                    held[-1].sendall(os.urandom(64) if len(held) % 3 else b"GET / HTTP/1.1\r\n\r\n")
            except OSError:
                time.sleep(0.01)
        second = subprocess.run(command, env=ranks[1], capture_output=True, text=True, timeout=LIMIT)
        assert second.returncode == 0, second.stderr
        assert json.loads(first.communicate(timeout=LIMIT)[0])[:2] == [0, 2]
    finally:
        first.kill()
        first.wait()
        for connection in held:
            connection.close()


@pytest.mark.parametrize("rank", [0, 1])
def test_interruption(rank):
    """While a rank looks for rank 0, and while rank 0 waits for the others. Afterwards the store is as before."""
    code = """
import os, signal, threading, time
import ringroad
ringroad.init(rank=0, size=1).close()  # Python may lose a signal that comes while it imports modules.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ in range(2):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        ringroad.init(timeout=60)
    except KeyboardInterrupt:
        print(time.monotonic() - start)
"""
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{free_port()}", "RANK": str(rank), "WORLD_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and done.stderr == "", done
    assert len(done.stdout.split()) == 2 and all(float(text) < LIMIT / 2 for text in done.stdout.split())


def test_a_killed_rank_0_is_noticed():
    """The others learn it from the store or from the kernel."""
    code = """
import os, signal, time
import ringroad
if os.environ["RANK"] == "0":
    import threading
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
try:
    ringroad.init(timeout=60)
except ringroad.RingroadError as error:
    print(type(error).__name__, error)
"""
    env = {"RINGROAD_STORE": f"tcp://127.0.0.1:{free_port()}", "WORLD_SIZE": "3"}
    start = time.monotonic()
    first, second = launch(code, 2, launcher=("RANK", "UNUSED"), env=env)
    assert first.status == -signal.SIGKILL and time.monotonic() - start < LIMIT / 2
    assert "rank 0" in second.out and second.out.startswith(("StoreError", "PeerError")), second
