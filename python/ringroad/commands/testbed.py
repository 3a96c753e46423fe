"""`ringroad testbed`: runs any command on an emulated network."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import Topology
from ringroad._options import bandwidth_option, whole_option
from ringroad._processes import Processes
from ringroad.emulation.namespaces import reenter
from ringroad.emulation.network import LEAST_MTU, MOST_MTU, MTU, EmulatedNetwork, Tell

_PORT = 29500  # always free on a new host
_GRACE_SECONDS = 5.0  # for the other ranks after one has failed
_LOOK_SECONDS = 0.05


def testbed(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="A spec or a file, with 2 to 36 ranks.")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="The command that each rank runs.")],
    rate: Annotated[
        float,
        bandwidth_option(
            help="Bandwidth of a cable in each direction, such as 100Mbit; of the fastest, if a file states several."
        ),
    ],
    mtu: Annotated[int, whole_option(help="Bytes of the longest packet.", least=LEAST_MTU, most=MOST_MTU)] = MTU,
    tell: Annotated[
        Tell,
        typer.Option(
            help="What ranks are told of the network: all, also the rates of links; graph, without rates; nothing, but "
            "for what torchrun would tell them."
        ),
    ] = "all",
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Run the command once, on the first host: for mpirun, which finds the other hosts by itself."
        ),
    ] = False,
) -> None:
    """Run a command on every rank of an emulated network: a namespace for each host, a cable for each link.

    Ranks get the variables that torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR and so on) and those by which ringroad,
    gloo and Open MPI find the network. Of the latter, those that are already set stay, and with --tell nothing no
    others are set.
    """
    reenter()
    network = EmulatedNetwork(Topology(topology), rate, mtu=mtu, tell=tell)
    for sentence in network.overridden(os.environ):
        print(f"ringroad: {sentence}", file=sys.stderr, flush=True)
    with network, tempfile.TemporaryDirectory(prefix="ringroad-") as directory, Processes() as processes:
        job = {"WORLD_SIZE": str(network.size), "MASTER_ADDR": network.address(0), "MASTER_PORT": str(_PORT)}
        if "RINGROAD_STORE" not in os.environ and network.told:  # else they meet at MASTER_ADDR
            job["RINGROAD_STORE"] = f"file://{directory}/store"
            Path(directory, "store").mkdir()
        if once:
            job |= network.mpi(directory)
        for rank in range(1 if once else network.size):
            place = {} if once else _place(rank, network.topology.hosts)
            environ = {**os.environ, **network.environment(os.environ), **job, **place}
            processes.start(
                ["setpriv", "--pdeathsig", "KILL", *network.command(rank, command)], environ, start_new_session=True
            )
        try:
            status = _wait(processes)
        finally:
            # Each rank has a process group of its own, so that its child processes end with it.
            for process in processes.all:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise typer.Exit(status)


def _place(rank: int, hosts: list[int]) -> dict[str, str]:
    """The variables that torchrun would set for a rank, given the host of each."""
    here = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    return {"RANK": str(rank), "LOCAL_RANK": str(here.index(rank)), "LOCAL_WORLD_SIZE": str(len(here))}


def _wait(processes: Processes) -> int:
    """Waits until all have ended, or for a little time after the first failure. Returns that failure's status, or 0."""
    failed, deadline = 0, float("inf")
    while None in [process.poll() for process in processes.all] and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        if not failed:
            failed = next((process.returncode for process in processes.all if process.returncode), 0)
            deadline = time.monotonic() + _GRACE_SECONDS if failed else deadline
    failed = failed or next((process.returncode for process in processes.all if process.returncode), 0)
    if failed < 0:
        print(f"ringroad: a rank was killed by {signal.Signals(-failed).name}", flush=True)
        return 128 - failed
    return failed
