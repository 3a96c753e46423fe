"""`ringroad testbed`: runs any command on an emulated network."""

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import Topology
from ringroad._support.processes import Processes
from ringroad.cli._options import bandwidth_option, whole_option
from ringroad.testbed.events import Script, parse, read
from ringroad.testbed.namespaces import reenter
from ringroad.testbed.network import LEAST_MTU, MOST_MTU, MTU, EmulatedNetwork, parse_delay
from ringroad.testbed.telling import Tell

_PORT = 29500  # always free on a new host
_GRACE_SECONDS = 5.0  # for the other ranks after one has failed
_LOOK_SECONDS = 0.05
_SHOWN = 30  # errors show this many characters of a wrong list


def testbed(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="Spec or file, with 2 to 256 ranks.")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="Command to run on each rank.")],
    rate: Annotated[
        float,
        bandwidth_option(help="Cable rate per direction, such as 100Mbit; of the fastest, if a file states several."),
    ],
    mtu: Annotated[int, whole_option(help="Maximum packet size in bytes.", least=LEAST_MTU, most=MOST_MTU)] = MTU,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Number of ranks on each host of TOPOLOGY, such as 1,2,3; default: 1."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Position of each rank in TOPOLOGY, such as 3,0,1,2."),
    ] = None,
    shuffle: Annotated[int | None, whole_option(help="Place ranks at random, with this seed.")] = None,
    bridges: Annotated[
        bool, typer.Option("--bridges", help="Make switches transparent bridges, without addresses.")
    ] = False,
    delay: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Delay of each cable: 5ms; stated: as TOPOLOGY's links state.",
        ),
    ] = "0s",
    prepare: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Shell command for every host and switch before the ranks start; `hostname` tells which.",
        ),
    ] = None,
    tell: Annotated[
        Tell,
        typer.Option(
            help="What to tell ranks of the network: all; graph, without rates; nothing beyond what torchrun tells."
        ),
    ] = "all",
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVENT",
            help="Event after the ranks start: '3s slow 0 1 4', '5s load 0 2 50Mbit', '6s cut 1 2', '6.5s reroute', "
            "'8s restore'; may be repeated.",
        ),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with an event per line, and comments after #.")
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Run the command once, on the first host: for mpirun, which finds the others itself."
        ),
    ] = False,
) -> None:
    """Run a command on every rank of an emulated network.

    Each host is a namespace, each link a cable. Ranks get torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR and so
    on) and those by which ringroad, gloo and Open MPI find the network. The latter are kept where already set, and
    not added with --tell nothing.
    """
    reenter()
    planned = [*(read(events) if events else ()), *map(parse, at or ())]
    graph, counts = Topology(topology), _numbers("--hosts", hosts)
    places = _numbers("--order", order)
    if shuffle is not None:
        ranks = sum(counts) if counts else graph.ranks
        places = random.Random(shuffle).sample(range(ranks), ranks)
    network = EmulatedNetwork(
        graph,
        rate,
        mtu=mtu,
        tell=tell,
        hosts=counts,
        order=places,
        bridges=bridges,
        delay=parse_delay(delay),
    )
    for sentence in network.overridden(os.environ):
        print(f"ringroad: {sentence}", file=sys.stderr, flush=True)
    with network, tempfile.TemporaryDirectory(prefix="ringroad-") as directory, Processes() as processes:
        if prepare is not None:
            network.prepare(prepare)
        script = Script(network, planned)
        job = {"WORLD_SIZE": str(network.size), "MASTER_ADDR": network.address(0), "MASTER_PORT": str(_PORT)}
        if "RINGROAD_STORE" not in os.environ and network.told:  # else they meet at MASTER_ADDR
            job["RINGROAD_STORE"] = f"file://{directory}/store"
            Path(directory, "store").mkdir()
        if once:
            job |= network.mpi(directory)
        for rank in range(1 if once else network.size):
            place = {} if once else _place(rank, network.wiring.ranks_of(network.wiring.host_of(rank)))
            environ = {**os.environ, **network.environment(os.environ), **job, **place}
            processes.start(
                ["setpriv", "--pdeathsig", "KILL", *network.command(rank, command)], environ, start_new_session=True
            )
        try:
            status = _wait(processes, script)
        finally:
            # Each rank has a process group of its own, so that its child processes end with it.
            for process in processes.all:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise typer.Exit(status)


def _numbers(option: str, text: str | None) -> list[int] | None:
    """The numbers of a list such as 1,2,3. Raises ValueError."""
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} {text[:_SHOWN]!r} is not a list of whole numbers such as 1,2,3") from None


def _place(rank: int, ranks_of_host: list[int]) -> dict[str, str]:
    """The rank's variables that torchrun would set."""
    local = ranks_of_host.index(rank)
    return {"RANK": str(rank), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(len(ranks_of_host))}


def _wait(processes: Processes, script: Script) -> int:
    """Waits until all have ended, or for a little time after the first failure. Returns that failure's status, or 0.
    Meanwhile the events of the script happen."""
    start, failed, deadline = time.monotonic(), 0, float("inf")
    while None in [process.poll() for process in processes.all] and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        for event in script.happen(time.monotonic() - start):
            print(f"ringroad: after {event.seconds:g} s: {event.text}", file=sys.stderr, flush=True)
        if not failed:
            failed = next((process.returncode for process in processes.all if process.returncode), 0)
            deadline = time.monotonic() + _GRACE_SECONDS if failed else deadline
    failed = failed or next((process.returncode for process in processes.all if process.returncode), 0)
    if failed < 0:
        print(f"ringroad: a rank was killed by {signal.Signals(-failed).name}", flush=True)
        return 128 - failed
    return failed
