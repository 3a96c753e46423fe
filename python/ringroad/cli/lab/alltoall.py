"""`ringroad lab alltoall`: how much every pair of ranks can send each other at once."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from ringroad import Topology
from ringroad._support.text import (
    bytes_text,
    parse_bytes,
    print_json,
    print_table,
    print_wrapped,
    seconds_text,
    significant,
)
from ringroad.cli._options import SPEC, Json, fraction_option, picture_option, time_option
from ringroad.lab.synthesis import AlltoallFlow, alltoall_flow

_BUSIEST = 8


def alltoall(
    topology: Annotated[str, typer.Argument(**SPEC)],
    size: Annotated[
        str,
        typer.Option("--bytes", metavar="BYTES", help="Bytes of each rank for all ranks together: 64KiB, 1MiB, 2MB."),
    ] = "1MiB",
    demands: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file of bytes, a line per source, a column per target; replaces --bytes.",
        ),
    ] = None,
    gap: Annotated[
        float, fraction_option(help="Stop within this fraction of the bound: 0.005 is 0.5 percent.")
    ] = 0.005,
    budget: Annotated[float | None, time_option(help="Time limit of the search.")] = None,
    plot: Annotated[Path | None, picture_option(help="Draw link loads of direct sends and of the flow")] = None,
    as_json: Json = False,
) -> None:
    """Find and prove the fastest all-to-all on a network.

    Finds paths, and a bound that no all-to-all can beat. Ranks forward the messages of others over links between
    neighbours (maximum concurrent flow). Times exclude latencies.
    """
    network = Topology(topology)
    each = parse_bytes(size) / network.ranks if demands is None else _read(demands)
    flow = alltoall_flow(network, each, gap=gap, budget=budget)
    if plot is not None:
        from ringroad.lab.viz import alltoall_loads

        alltoall_loads(flow).savefig(plot, dpi=120)
    if as_json:
        print_json(flow)
    else:
        _print(flow, f"of {bytes_text(parse_bytes(size)) if demands is None else demands}")


def _read(file: Path) -> NDArray[np.float64]:
    try:
        if not (lines := file.read_text().splitlines()):
            raise ValueError("it is empty")
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _proof(flow: AlltoallFlow) -> str:
    """How close the bound is to the flow, and why the search went no further."""
    if flow.ended == "exact":
        return "exact" if flow.iterations else "exact, because all ranks look alike"
    proven = f"proven, {significant(100 * flow.gap)} % less"
    if flow.ended == "gap":
        return proven
    return f"{proven}; {'--budget was over' if flow.ended == 'budget' else 'the search went no further'}"


def _print(flow: AlltoallFlow, what: str) -> None:
    print_wrapped(f"all-to-all {what} on {flow.topology.spec}, {flow.topology.ranks} ranks, without latencies")
    rows = [["the busiest link", seconds_text(flow.seconds), "by the flow that was found"]]
    rows.append(["any flow", seconds_text(flow.least_seconds), f"at least: {_proof(flow)}"])
    reasons = {
        "distance": "all bytes take at least as many links as their ranks are apart",
        "rank": "all bytes that enter or leave one rank",
        "bisection": "all bytes that cross from one half of the ranks to the other",
        "degree": "no network with as many links for each rank has shorter distances",
    }
    rows += [[f"bound by {name}", seconds_text(1 / rate), reasons[name]] for name, rate in flow.bounds.items()]
    print_table(["", "time", ""], rows, right=["time"])
    links = sorted(flow.links, key=lambda link: -link.seconds)
    full = flow.seconds * 0.999
    print_wrapped(f"{sum(link.seconds >= full for link in links)} of {len(links)} links are as busy as the busiest")
    spare = [link for link in links if link.seconds < full][-_BUSIEST:]
    if spare:
        idle = ", ".join(f"{link.source}-{link.target} {100 * link.seconds / flow.seconds:.0f} %" for link in spare)
        print_wrapped(f"least busy: {idle}")
