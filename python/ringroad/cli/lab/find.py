"""`ringroad lab find`: the best networks to build."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad._support.text import (
    bandwidth_text,
    bytes_text,
    parse_bytes,
    print_json,
    print_table,
    print_wrapped,
    seconds_text,
)
from ringroad.cli._options import COLLECTIVE, Json, Size, bandwidth_option, picture_option, time_option, whole_option
from ringroad.lab._finding import Findings
from ringroad.lab._finding import find as search


def find(
    ranks: Annotated[int | None, whole_option(help="Number of ranks.", least=1)] = None,
    degree: Annotated[int | None, whole_option(help="Links out of each rank, and into it.", least=1)] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N:M",
            help="N ranks and at most M cables (a link each way, or two links one way); replaces --ranks and --degree. "
            "Searches all degrees that fit.",
        ),
    ] = None,
    alpha: Annotated[float, time_option(help="Start-up time of a step: 10us, 500ns.", show_default="10us")] = 10e-6,
    size: Size = "1MiB",
    bandwidth: Annotated[
        float,
        bandwidth_option(
            help="Bandwidth of a rank, shared equally by its links: 100Gbit/s, 50GB/s.",
            show_default="100Gbit/s",
        ),
    ] = 12.5e9,
    collective: Annotated[
        str, typer.Option(help="allreduce, allgather or reduce_scatter.", **COLLECTIVE)
    ] = "allreduce",
    bidirectional: Annotated[
        bool,
        typer.Option("--bidirectional", "--undirected", help="Find only networks with a link back for each link."),
    ] = False,
    plot: Annotated[Path | None, picture_option(help="Draw the frontier")] = None,
    as_json: Json = False,
) -> None:
    """Find the fastest networks for a collective.

    They have few steps, balanced links, or a compromise.

    Times are for the algorithm in the row: breadth-first broadcast (bfb), or the schedule of a smaller network
    (expanded). Pass a listed network to `ringroad topology`, `explain allreduce --algorithm bfb --topology` or `lab
    simulate bfb --topology`, with the bandwidth of a link.
    """
    findings = search(
        ranks,
        degree,
        collective=collective,  # type: ignore[arg-type]
        alpha=alpha,
        bytes=parse_bytes(size),
        bandwidth=bandwidth,
        bidirectional=bidirectional,
        budget=None if budget is None else _budget(budget),
    )
    if plot is not None:
        findings.plot().savefig(plot)
    if as_json:
        print_json(findings)
        return
    _print(findings)


def _budget(text: str) -> tuple[int, int]:
    parts = text.split(":")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise ValueError(f"--budget {text!r} is not RANKS:CABLES; write for example --budget 1024:2048")
    return int(parts[0]), int(parts[1])


def _print(findings: Findings) -> None:
    best = findings.best
    print_wrapped(
        f"{findings.collective} of {bytes_text(findings.bytes)} over {best.ranks} ranks, "
        f"{bandwidth_text(findings.bandwidth)} each, {seconds_text(findings.alpha)} a step"
    )
    rows = [
        [
            "*" if network == best else "",
            str(network.steps),
            f"{float(network.bandwidth_term):.4f}",
            seconds_text(network.seconds),
            str(network.degree),
            "both" if network.bidirectional else "one",
            network.algorithm,
            network.spec if network.regular else f"{network.spec} (-)",
        ]
        for network in findings.networks
    ]
    bound = f"{float(findings.least_bandwidth_term):.4f}"
    least = ["", str(findings.least_steps), bound, seconds_text(findings.least_seconds), "", "", "", "(bound)"]
    header = ["", "steps", "bandwidth", "time", "links", "direction", "algorithm", "network"]
    print_table(header, [*rows, least], right=["steps", "bandwidth", "time", "links"])
    print_wrapped(
        "\n*: the fastest; bandwidth: time in messages per bandwidth of a rank; bound: no network can do better"
    )
    if not all(network.regular for network in findings.networks):
        print_wrapped("(-): links from ranks to themselves are dropped, so that some ranks have one link less")
