"""Networks that hinder discovery: it ends, all ranks have the same answer, and that says what it does not know."""

import ctypes
import json
import os
import platform
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
import ringroad
from helpers import are_measured, long, needs_testbed

SOCKET = {"x86_64": 41, "aarch64": 198}  # the number of the system call
NO_ICMP = "echo 1000000 > /proc/sys/net/ipv4/icmp_ratelimit"  # 17 minutes between two complaints
LIE = 'test "$(hostname)" != host1 || for a in 10.78.2.1 203.0.113.9; do ip address add $a/32 dev host-end; done'
NO_DATAGRAMS = """
test -e /sys/class/net/host || exit 0
ip rule add priority 9 lookup local
ip rule delete priority 0
ip rule add priority 1 iif host ipproto udp blackhole
"""
IPV6_ONLY = """
test -e /sys/class/net/host || exit 0
for name in all default; do echo 0 > /proc/sys/net/ipv6/conf/$name/disable_ipv6; done
ip -6 address add fd77::$(hostname | tr -d a-z)/64 dev host nodad
ip -4 address flush dev host
"""


@pytest.fixture(autouse=True)
def permitted():
    needs_testbed()


def looked(comm):
    found = ringroad.discover(comm, budget=0.4)
    total = comm.allreduce(np.arange(1000.0) + comm.rank)
    ranks = comm.size
    assert np.array_equal(total, ranks * np.arange(1000.0) + ranks * (ranks - 1) / 2)
    return found


def same(everybody):
    """What all have found."""
    assert all(other == everybody[0] for other in everybody)
    return everybody[0]


def deny_datagrams():
    """From now on this thread may open no sockets for datagrams."""

    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)

    load, equals, masked, end = 0x20, 0x15, 0x54, 0x06
    steps = [
        step(load, 0, 0, 0),  # the system call
        step(equals, 0, 4, SOCKET[platform.machine()]),
        step(load, 0, 0, 24),  # its second argument
        step(masked, 0, 0, 0xF),
        step(equals, 0, 1, 2),  # SOCK_DGRAM
        step(end, 0, 0, 0x50001),  # fails with EPERM
        step(end, 0, 0, 0x7FFF0000),  # goes on
    ]
    program = ctypes.create_string_buffer(b"".join(steps))
    given = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
    library = ctypes.CDLL(None)
    assert library.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert library.prctl(22, 2, given) == 0  # PR_SET_SECCOMP


def denied(comm):
    if comm.rank == 1:
        deny_datagrams()
    return looked(comm)


def paused(comm):
    if comm.rank == 2:
        again = f"sleep 0.2; kill -STOP {os.getpid()}; sleep 1; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", again])
    comm.barrier()
    return looked(comm)


def stopped(comm):
    if comm.rank == 2:
        subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return ringroad.discover(comm, budget=0.4, timeout=1.0)


def test_routers_that_do_not_answer_and_a_host_that_lies():
    prepare = f"{NO_ICMP}\n{LIE}"
    with ringroad.testbed.emulate("mesh:3x2", rate="100Mbit", tell="nothing", prepare=prepare) as bed:
        found = same(bed.run(looked))
    truth = {(a, b) for a, b, *_ in ringroad.Topology("mesh:3x2").links}
    assert found.recognised == "mesh:3x2" and {(link.source, link.target) for link in found.links} == truth
    notes = "; ".join(found.notes)
    assert "addresses are those of several hosts" in notes and "have gaps" in notes, notes


def test_a_firewall_that_drops_datagrams():
    how = {"bridges": True, "prepare": NO_DATAGRAMS}
    with ringroad.testbed.emulate("switch:3", rate="100Mbit", tell="nothing", **how) as bed:
        found = same(bed.run(looked))
    assert found.recognised == "switch:3" and are_measured(found)
    assert "rates alone" in "; ".join(found.notes) and "not reached" in "; ".join(found.notes)


@long
@pytest.mark.skipif(platform.machine() not in SOCKET, reason="the number of the system call is not known")
def test_a_rank_without_permission_and_a_paused_one():
    with ringroad.testbed.emulate("ring:5", rate="100Mbit", tell="nothing", timeout=60) as bed:
        found = same(bed.run(paused))
        assert found.recognised == "ring:5"
        found = same(bed.run(denied))
        assert found.recognised == "ring:5" and "not reached" in "; ".join(found.notes)
        sent = {flow["from"] for round in found.evidence["rounds"] for flow in round["flows"]}
        assert 1 in sent, "it measures nevertheless"
        with pytest.raises(ringroad.WorkerError, match="timed out"):
            bed.run(stopped)


@long
def test_hosts_that_have_ipv6_only(tmp_path):
    file = tmp_path / "found.json"
    ringroad_ = f"{sys.executable} -m ringroad"
    options = ["switch:3", "--bridges", "--rate", "100Mbit", "--tell", "nothing", "--prepare", IPV6_ONLY]
    job = ["sh", "-c", f"MASTER_ADDR=fd77::0 exec {ringroad_} discover --budget 300ms --json {file}"]
    command = [sys.executable, "-m", "ringroad", "testbed", *options, "--", *job]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(file.read_text())
    assert found["topology"] == "switch:3"
    assert all(":" in address for host in found["how"]["evidence"]["hosts"] for address in host["addresses"])
