"""`ringroad discover`: finds out what the network between a job's hosts is."""

import json
from pathlib import Path
from typing import Annotated

import typer

import ringroad
from ringroad import _discovery
from ringroad._support.text import bandwidth_text, print_json, print_table, print_wrapped, progress, seconds_text
from ringroad.cli._options import file_option, picture_option, time_option
from ringroad.lab import viz

_MOST_LINKS = 64
"""More are summarised: a terminal is no place for thousands of rows."""


def discover(
    budget: Annotated[
        float, time_option(help="Approximate duration, once the ranks are connected; 0: routes only.")
    ] = _discovery.BUDGET,
    save: Annotated[
        Path | None, file_option("--save", help="Write the network as JSON, for RINGROAD_TOPOLOGY.")
    ] = None,
    plot: Annotated[Path | None, picture_option("--plot", help="Draw the network")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings as JSON; -: print them.")
    ] = None,
) -> None:
    """Discover the network between a job's hosts.

    Measures routes, links, rates and latencies. Start it like the job, on every rank: `srun -n 8 ringroad discover` or
    `torchrun --no-python ... ringroad discover`. Rank 0 prints and writes.
    """
    with ringroad.init(settings={"RINGROAD_TOPOLOGY": "off"}) as comm:
        if comm.rank == 0 and json_file != Path("-"):
            progress(f"looking at the network of {comm.size} ranks, for about {seconds_text(budget)}")
        found = _discovery.discover(comm, budget=budget)
        if comm.rank > 0:
            return
    if save is not None:
        found.save(save)
    if plot is not None:
        viz.link_rates(found.topology).savefig(plot)
    if json_file == Path("-"):
        print_json(found.to_dict())
        return
    if json_file is not None:
        json_file.write_text(json.dumps(found.to_dict()) + "\n")
    _print(found)


def _print(found: _discovery.Discovery) -> None:
    for line in found.lines():
        print_wrapped(line)
    shown = found.links[:_MOST_LINKS]
    if shown:
        print()
        rows = [
            [
                str(link.source),
                str(link.target),
                bandwidth_text(link.bandwidth),
                seconds_text(link.latency),
                link.how if link.spread is None else f"{link.how} ±{100 * link.spread:.0f} %",
            ]
            for link in shown
        ]
        print_table(["from", "to", "rate", "latency", "how"], rows, right=["rate", "latency"])
    if len(found.links) > len(shown):
        print(f"and {len(found.links) - len(shown)} more links; --json FILE has them all")
