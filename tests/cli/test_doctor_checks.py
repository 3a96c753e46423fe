"""`ringroad doctor`: each check on good and bad machines."""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import ringroad
from doctor_findings import check
from ringroad._network import Transport
from ringroad.doctor import Check, Finding, checks, machine, messages, network, perform, software, worst
from ringroad.measure import facts

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _bare(bare):
    """No launcher's variables disturb."""


# ------------------------------------------------------------------------------------------------ findings


def test_a_finding_that_is_not_ok_has_a_remedy(refused):
    with refused(ValueError):
        Finding("x", "note", "found")
    with refused(ValueError):
        Finding("x", "ok", "found", "needless")
    assert worst([]) == worst([Finding("x", "ok", "found")]) == "ok"
    assert worst([Finding("x", "failure", "f", "r"), Finding("x", "note", "f", "r")]) == "failure"


def test_a_check_that_hangs_or_raises():
    start = time.monotonic()
    (hung,) = perform(Check("slow", lambda: time.sleep(60), "wake it up", seconds=0.2))  # type: ignore[arg-type]
    check(hung, "failure", "did not end within 0.2 s", "wake it up")
    assert time.monotonic() - start < 30
    (raised,) = perform(Check("wrong", lambda: 1 // 0, "divide by 1"))  # type: ignore[arg-type]
    check(raised, "failure", "ZeroDivisionError", "divide by 1")
    assert raised.name == "wrong"


def test_every_check_of_a_machine_has_a_deadline_and_advice():
    all_checks = checks.machine_checks()
    assert all(one.stuck and 0 < one.seconds <= 60 for one in all_checks)


# ------------------------------------------------------------------------------------------------ machine


@pytest.mark.parametrize(
    ("sizes", "verdict", "words"),
    [
        ({"size": 2 * GIB, "free": GIB}, "ok", ["2 GiB, 1 GiB free"]),
        ({"size": 64 << 20, "free": 60 << 20}, "note", ["64 MiB", "--shm-size"]),
        ({"size": 64 << 20, "free": 1 << 20}, "warning", ["no room", "--shm-size"]),
        ({"size": 2 * GIB, "free": 1 << 20}, "warning", ["Remove files", "--shm-size"]),
        (None, "warning", ["none", "--shm-size"]),
    ],
)
def test_dev_shm(sizes, verdict, words):
    check(machine.dev_shm(sizes), verdict, *words)


@pytest.mark.parametrize(
    ("files", "verdict", "words"),
    [
        ({}, "ok", ["no limit"]),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "max\n"}, "ok", ["no limit"]),
        (
            {
                "proc/self/cgroup": "0::/job\n",
                "sys/fs/cgroup/job/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/job/memory.current": f"{GIB}\n",
            },
            "ok",
            ["allows 4 GiB, 3 GiB left"],
        ),
        (
            {
                "proc/self/cgroup": "0::/pod/job\n",
                "sys/fs/cgroup/pod/memory.max": f"{GIB}\n",
                "sys/fs/cgroup/pod/memory.current": f"{GIB - (8 << 20)}\n",
                "sys/fs/cgroup/pod/job/memory.max": "max\n",
            },
            "warning",
            ["8 MiB left", "--memory"],
        ),
        (
            {  # files in the page cache do not count
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            },
            "ok",
            ["1 GiB left"],
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/a\n2:memory:/a\n",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/a/memory.usage_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            "warning",
            ["0 B left"],
        ),
    ],
)
def test_memory(root, files, verdict, words):
    check(machine.memory(root({"proc/version": "", **files})), verdict, *words)


OPEN = {"memory": None, "memfd": None, "pidfd": None}
CLOSED = dict.fromkeys(OPEN, "Operation not permitted")


def probed(parent=OPEN, sibling=OPEN, clock=(1, 2, 3)):
    return machine.Probed(parent, sibling, clock)


@pytest.mark.parametrize(
    ("found", "files", "verdict", "words"),
    [
        (probed(), {"proc/sys/kernel/yama/ptrace_scope": "0\n"}, "ok", ["ptrace_scope is 0"]),
        (
            probed(sibling=CLOSED),
            {"proc/sys/kernel/yama/ptrace_scope": "1\n"},
            "note",
            ["ptrace_scope is 1", "comm.empty", "kernel.yama.ptrace_scope=0", "has a price", "keys and passwords"],
        ),
        (
            probed(CLOSED, CLOSED),
            {"proc/self/status": "Name:\tx\nSeccomp:\t2\n"},
            "warning",
            ["under seccomp", "--cap-add=SYS_PTRACE"],
        ),
        (probed(CLOSED, CLOSED), {"proc/self/status": "Seccomp:\t0\n"}, "warning", ["not permitted (Operation"]),
    ],
)
def test_cma(root, found, files, verdict, words):
    check(machine.cma(found, root(files)), verdict, *words)


def test_memfd_and_pidfd():
    check(machine.memfd(probed()), "ok")
    check(machine.memfd(probed(sibling=CLOSED)), "warning", "not permitted", "--pid=host")
    check(machine.pidfd(probed()), "ok")
    check(machine.pidfd(probed(sibling=CLOSED)), "note", "not permitted", "Linux 5.3")


def test_shared_clock():
    check(machine.shared_clock(probed()), "ok")
    check(machine.shared_clock(probed(clock=(5 * 10**9, 10**9, 6 * 10**9))), "warning", "-4.000 s", "time namespace")


def test_the_probe_reads_a_real_process():
    """The parent reads its own child; what it reads and the clock are right."""
    found = machine.probe()
    assert set(found.parent) == set(found.sibling) == set(OPEN)
    assert found.parent["memfd"] is None and found.parent["pidfd"] is None, found
    before, inside, after = found.clock
    assert before < inside < after


def test_the_probe_of_a_process_that_has_ended():
    """It says why each way is closed."""
    with machine._holder() as place:
        pass
    closed = machine.read(place)
    assert all(closed.values()), closed
    assert "No such process" in (closed["memory"] or "")


@pytest.mark.parametrize(
    ("current", "available", "verdict", "words"),
    [
        ("tsc\n", "tsc hpet\n", "ok", ["tsc"]),
        ("hpet\n", "tsc hpet acpi_pm\n", "warning", ["hpet", "echo tsc >"]),
        ("acpi_pm\n", "acpi_pm\n", "warning", ["dmesg"]),
        ("", "", "ok", ["does not say"]),
    ],
)
def test_clock_source(root, current, available, verdict, words):
    folder = "sys/devices/system/clocksource/clocksource0"
    files = {f"{folder}/current_clocksource": current, f"{folder}/available_clocksource": available}
    check(machine.clock_source(root(files)), verdict, *words)


@pytest.mark.parametrize(
    ("arguments", "verdict", "words"),
    [
        ((8, 8, None, 4), "ok", ["8 of 8 allowed"]),
        ((2, 8, None, 4), "warning", ["4 ranks share", "at most 2 ranks", "--cpus"]),
        ((8, 8, 3.5, 4), "warning", ["CPU time for 3.5", "at most 3 ranks"]),
        ((8, 8, 6.0, 4), "note", ["stopped together"]),
        ((4, 8, 4.0, 4), "ok", ["CPU time for 4"]),
    ],
)
def test_cores(arguments, verdict, words):
    check(machine.cores(*arguments), verdict, *words)


def limited(call: str, *limits: tuple[int, int, int]) -> Finding:
    """What a check finds in a process with these limits."""
    code = f"""
import json, resource
from pathlib import Path
from ringroad.doctor import machine
for which, soft, hard in {limits!r}:
    resource.setrlimit(which, (soft, hard))
print(json.dumps(machine.{call}.to_json()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return Finding(**json.loads(done.stdout))


def test_limits(root):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    check(limited("open_files(4)", (resource.RLIMIT_NOFILE, 512, hard)), "ok", "512")
    check(limited("open_files(100)", (resource.RLIMIT_NOFILE, 512, hard)), "warning", "512", "ulimit -n 1056")
    check(limited("open_files(100)", (resource.RLIMIT_NOFILE, 512, 512)), "warning", "as root")
    sixteen = 16 * GIB
    check(limited("address_space()", (resource.RLIMIT_AS, sixteen, sixteen)), "warning", "16 GiB", "-v unlimited")
    few = (resource.RLIMIT_MEMLOCK, 1 << 16, 1 << 16)
    with_rdma = root({"sys/class/infiniband/mlx5_0/node_type": "1"})
    check(limited(f"locked_memory(Path({str(with_rdma)!r}))", few), "warning", "64 KiB", "-l unlimited")
    check(limited(f"locked_memory(Path({str(with_rdma / 'proc')!r}))", few), "ok", "no InfiniBand")


def test_unlimited_address_space():
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("this process has a limit")
    check(machine.address_space(), "ok", "unlimited")


# ------------------------------------------------------------------------------------------------ network

LO = {"name": "lo", "state": "unknown", "addresses": ["127.0.0.1", "::1"]}
ETH = {"name": "eth0", "state": "up", "addresses": ["10.0.0.2"]}
DOWN = {"name": "eth1", "state": "down", "addresses": []}


def unknown(name: str) -> list[str]:
    raise socket.gaierror(-2, f"Name or service not known: {name}")


def no_route(address: str) -> str:
    raise OSError(101, f"Network is unreachable: {address}")


def test_interfaces():
    check(network.interfaces([LO, ETH, DOWN]), "ok", "eth0 10.0.0.2", "without address: eth1")
    check(network.interfaces([LO, DOWN]), "note", "cannot be reached", "--network=host")
    check(network.interfaces([]), "note", "none has an address")


def rendezvous(environ, several_hosts=False, address="10.0.0.9", own="10.0.0.2", **how):
    how = {"resolved": lambda name: [address], "sends_from": lambda to: own} | how
    return network.rendezvous(environ.get("MASTER_ADDR"), environ, [LO, ETH], several_hosts, **how)


def test_rendezvous():
    master = {"MASTER_ADDR": "head"}
    check(rendezvous({}), "ok", "MASTER_ADDR is not set")
    check(rendezvous(master, several_hosts=True), "ok", "head (10.0.0.9) by eth0")
    check(rendezvous(master, address="127.0.0.1", own="127.0.0.1"), "ok", "by lo")
    loopback = rendezvous(master, several_hosts=True, address="127.0.1.1", own="127.0.0.1")
    check(loopback, "failure", "loopback", "in MASTER_ADDR")
    with_store = {**master, "RINGROAD_STORE": "file:///shared/job"}
    check(rendezvous(with_store, several_hosts=True, address="127.0.1.1", own="127.0.0.1"), "warning", "loopback")
    server = {"RINGROAD_STORE": "tcp://head:29500"}
    check(rendezvous(server), "ok", "head (10.0.0.9) by eth0")
    check(rendezvous(server, resolved=unknown), "failure", "RINGROAD_STORE: head", "not known")
    check(rendezvous(master, resolved=unknown), "failure", "MASTER_ADDR: head", "not known", "/etc/hosts")
    check(rendezvous(master, sends_from=no_route), "failure", "unreachable", "ip route get 10.0.0.9")
    check(rendezvous({**master, "RINGROAD_NET_DEVICES": "ib0"}), "note", "by ib0", "RINGROAD_NET_DEVICES")


def test_hostname():
    check(network.hostname("a", lambda name: ["10.0.0.2"]), "ok", "a is 10.0.0.2")
    check(network.hostname("a", lambda name: ["127.0.1.1"]), "note", "127.0.1.1", "MASTER_ADDR")
    check(network.hostname("a", unknown), "warning", "not known", "/etc/hosts")


def test_addresses_of_this_machine():
    assert "127.0.0.1" in network.resolve("127.0.0.1")
    assert network.source("127.0.0.1") == "127.0.0.1"
    with pytest.raises(OSError):
        network.resolve("no-such-host.invalid")


# ------------------------------------------------------------------------------------------------ software


@pytest.mark.parametrize(
    ("name", "version", "verdict", "words"),
    [
        ("numpy", "2.4.1", "ok", []),
        ("numpy", "1.25.2", "failure", ["too old", "pip install"]),
        ("numpy", None, "failure", ["not installed"]),
        ("torch", None, "ok", ["not installed"]),
        ("torch", "2.8.0+cpu", "ok", []),
        ("torch", "2.7.1", "warning", ["too old", "torch>=2.8"]),
        ("torch", "2.99.0", "note", ["newer", "use torch 2.15"]),
        ("torch", "3.0", "note", ["newer"]),
    ],
)
def test_versions(name, version, verdict, words):
    found = {one.name: one for one in software.versions(facts.versions() | {name: version})}
    check(found[name], verdict, *words)
    assert ringroad.__version__ in found["ringroad"].found


def test_the_oldest_torch_is_that_of_the_backend():
    pytest.importorskip("torch")
    from ringroad.torch import versions

    assert versions._OLDEST == software.OLDEST_TORCH


def test_ucx():
    found = {"version": "1.22.0", "origin": "system", "path": "/usr/lib/libucp.so.0"}
    check(software.ucx(found, "tcp: no device"), "ok", "1.22.0", "/usr/lib")
    check(software.ucx({"error": "no UCX found"}, "tcp: no device"), "note", "only hosts with RDMA", "libucx0")
    check(software.ucx({"error": "no UCX found"}, "ucx: so it is"), "warning", "so it is", "libucx0")
    check(software.ucx({"error": "none"}, "tcp: no device", has_ucx=False), "note", "this build has none", "a wheel")
    check(software.ucx({"error": "none"}, "ucx: so it is", has_ucx=False), "warning", "this build has none", "a wheel")


def test_copies_of_ucx(tmp_path, root):
    one, two = tmp_path / "a" / "libucp.so.0", tmp_path / "b" / "libucp-3f.so.0.0.0"
    for path in (one, two):
        path.parent.mkdir()
        path.write_text("")
    alias = one.with_name("libucp.so")
    alias.symlink_to(one)
    maps = root({"maps": f"7f00-7f01 r-xp 00000000 08:01 12  {one}\n"}) / "maps"
    check(software.ucx_copies(str(one), [one, alias], maps), "ok", "only one")
    check(software.ucx_copies(str(one), [one, two], maps), "note", str(two), "RINGROAD_UCX_LIBRARY")
    maps.write_text(f"7f00-7f01 r-xp 00000000 08:01 12  {one}\n7f02-7f03 r-xp 00000000 08:01 13  {two}\n")
    check(software.ucx_copies(str(one), [one], maps), "failure", str(two), f"RINGROAD_UCX_LIBRARY={one}")


def test_candidates_of_ucx(tmp_path, root):
    there = root({"usr/lib/x86_64-linux-gnu/libucp.so.0": "", "own/libucp.so.0": "", "own/libother.so": ""})
    found = list(software.ucx_candidates({"LD_LIBRARY_PATH": f":{there / 'own'}"}, there))
    assert {there / "own/libucp.so.0", there / "usr/lib/x86_64-linux-gnu/libucp.so.0"} <= set(found)
    assert all(path.name.startswith("libucp") for path in found)


@pytest.fixture
def settings(root):
    """`settings()`: the findings on a machine with two interfaces and an InfiniBand device, for 4 ranks on it."""
    there = root({"sys/class/infiniband/mlx5_0/node_type": "1"})
    return lambda: list(software.settings(os.environ, ["lo", "eth0"], 4, 4, there))


def test_settings_that_make_sense(bare, settings, tmp_path):
    bare.delenv("RINGROAD_CACHE")
    assert settings() == [Finding("settings", "ok", "no RINGROAD_* variable is set")]
    bare.setenv("RINGROAD_STORE", f"file://{tmp_path}/new/folder")
    bare.setenv("RINGROAD_TOPOLOGY", "torus:2x2")
    bare.setenv("RINGROAD_NET_DEVICES", "eth0,mlx5_0:1")
    bare.setenv("RINGROAD_TCP_PORTS", "20000-20007")
    (found,) = settings()
    check(found, "ok", "RINGROAD_NET_DEVICES, RINGROAD_STORE, RINGROAD_TCP_PORTS, RINGROAD_TOPOLOGY")
    # A server is no directory, and the loader finds a library without a path.
    bare.setenv("RINGROAD_STORE", "tcp://node1:29500")
    bare.setenv("RINGROAD_UCX_LIBRARY", "libucp.so.0")
    bare.chdir("/proc/sys")
    check(settings()[0], "ok", "RINGROAD_STORE", "RINGROAD_UCX_LIBRARY")


@pytest.mark.parametrize(
    ("variable", "value", "verdict", "words"),
    [
        ("RINGROAD_TIMOUT", "5", "warning", ["RINGROAD_TIMOUT", "Correct or unset"]),
        ("RINGROAD_TIMEOUT", "soon", "failure", ["RINGROAD_TIMEOUT", "soon", "ringroad info"]),
        ("RINGROAD_TIMEOUT", "2", "note", ["2 s", "a minute"]),
        ("RINGROAD_TOPOLOGY", "ring:8", "failure", ["8 ranks, the job has 4", "Start 8 ranks"]),
        ("RINGROAD_NET_DEVICES", "eth7,eth0", "failure", ["eth7, which", "lo, eth0, mlx5_0"]),
        ("RINGROAD_NET_DEVICES", "per-port:mlx5_1:1,mlx5_0:1", "failure", ["mlx5_1:1"]),
        ("RINGROAD_TCP_PORTS", "20000-20006", "failure", ["fewer than two ports for each of the 4 ranks", "Widen"]),
        ("RINGROAD_UCX_LIBRARY", "/nonexistent/libucp.so.0", "failure", ["/nonexistent", "no such file"]),
        ("RINGROAD_TUNER_FILE", "/nonexistent/rules", "failure", ["no such file"]),
        ("RINGROAD_TUNER_FILE", "/dev/null", "failure", ["not a regular file"]),
        ("RINGROAD_SCHEDULES", "/nonexistent/schedules", "failure", ["no such directory"]),
        ("RINGROAD_STORE", "file:///proc/version/store", "failure", ["/proc/version cannot be written"]),
        ("RINGROAD_TRACE", "/proc/version/traces", "warning", ["/proc/version cannot be written"]),
        ("RINGROAD_TRANSPORT", "ucx", "note", ["faster", "Unset RINGROAD_TRANSPORT"]),
        ("RINGROAD_DEBUG", "TRACE", "note", ["RINGROAD_DEBUG=INFO"]),
    ],
)
def test_settings_that_make_no_sense(bare, settings, variable, value, verdict, words):
    bare.setenv(variable, value)
    (found,) = settings()
    check(found, verdict, *words)


@pytest.mark.parametrize("variable", ["RINGROAD_STORE", "RINGROAD_TUNER_FILE", "RINGROAD_UCX_LIBRARY"])
def test_a_folder_that_may_not_be_entered(tmp_path, variable):
    """The settings' check says so, and does not fail itself. Another user looks: root may enter all folders."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    scheme = "file://" if variable == "RINGROAD_STORE" else ""
    kept = os.geteuid(), os.getegid()
    try:
        os.setegid(65534)
        os.seteuid(65534)
        (found,) = software._files({variable: f"{scheme}{closed}/inside/it"})
    finally:
        os.seteuid(kept[0])
        os.setegid(kept[1])
    check(found, "failure", variable, "cannot be written" if scheme else "Permission denied")


def test_two_settings_of_devices(bare, settings):
    bare.setenv("RINGROAD_NET_DEVICES", "eth0")
    bare.setenv("UCX_NET_DEVICES", "eth0")
    (found,) = settings()
    check(found, "note", "Unset UCX_NET_DEVICES")


# ------------------------------------------------------------------------------------------------ messages


def test_messages_between_two_processes():
    found = messages.shared_memory(60)
    check(found, "ok", "B/s, between two processes")


@pytest.mark.parametrize("carrier", ["UCX", "tcp"])
def test_messages_over_the_network(carrier):
    if carrier == "UCX" and "error" in facts.ucx():
        pytest.skip(facts.ucx()["error"])
    check(messages.over_network(carrier, 60), "ok", f"B/s, over {carrier.lower()} ")


def test_messages_that_do_not_arrive(bare):
    """A setting that cannot be used, and a library that is none."""
    bare.setenv("RINGROAD_TIMEOUT", "soon")
    check(messages.shared_memory(60), "failure", "RINGROAD_TIMEOUT", "RINGROAD_DEBUG=INFO")
    bare.setenv("RINGROAD_TIMEOUT", "60")
    bare.setenv("RINGROAD_UCX_LIBRARY", "/nonexistent/libucp.so.0")
    check(messages.over_network("UCX", 60), "failure", "/nonexistent/libucp.so.0", "UCX_LOG_LEVEL")


def test_shared_memory_that_is_not_used(bare):
    if "error" in facts.ucx():
        pytest.skip(facts.ucx()["error"])
    plain = messages._between_two
    bare.setattr(messages, "_between_two", lambda environ, timeout: plain({"RINGROAD_TRANSPORT": "ucx"}, timeout))
    check(messages.shared_memory(60), "warning", "not used, but ucx")


def test_damaged_messages(refused):
    """What comes back is compared with what was sent."""

    class Mirror:
        rank, sent = 0, b""

        def send(self, array, peer, timeout):
            self.sent = array.copy()

        def recv(self, out, peer, timeout):
            out[:] = self.sent
            out[0] ^= 1
            return out

    with refused(messages.Damaged, "rank 1"):
        messages.measure(Mirror(), 1, 1.0)  # type: ignore[arg-type]


def test_what_carries_a_pair():
    near = Transport("shared memory, cma", 1, True, None, [], [])
    far = Transport("ucx 1.22.0 (cma, tcp; devices eth0)", 0, False, "1.22.0", ["cma", "tcp"], ["eth0"])
    tcp = Transport("tcp (encrypted; devices lo)", 0, False, None, ["tcp"], ["lo"])
    both = replace(far, sharing=1)
    assert messages.over(near, True) == messages.over(both, True) == "shared memory"
    assert messages.over(both, False) == messages.over(far, True) == "UCX (cma, tcp)"
    assert messages.over(tcp, False) == "tcp"
