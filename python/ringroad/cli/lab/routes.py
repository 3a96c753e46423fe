"""`ringroad lab routes`: one path for each pair of ranks, and the virtual channel of each hop."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad import Topology
from ringroad._support.text import print_json, print_table, print_wrapped, seconds_text, significant
from ringroad.cli._options import Json, file_option, fraction_option, time_option
from ringroad.lab import routes as tables


def routes(
    topology: Annotated[
        str,
        typer.Argument(metavar="SPEC", help="As `ringroad topology` lists them (torus:4x4x2), or a graph's file."),
    ],
    method: Annotated[str, typer.Option(help="balanced, shortest or up-down.")] = "balanced",
    channels: Annotated[str, typer.Option(help="How hops get virtual channels: turns or lash.")] = "turns",
    gap: Annotated[float, fraction_option(help="Stop at this distance from the bound: 0.004 is 0.4 percent.")] = 0.004,
    budget: Annotated[float | None, time_option(help="Stop the search after this time in any case.")] = None,
    save: Annotated[
        Path | None,
        file_option(
            help="Write the table: as .json, which Routes.from_json reads, or as .csv with a line for each hop."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a routing table that loads links evenly, without deadlock.

    It spreads an all-to-all over the links. Prints the load of the busiest link beside a lower bound of all routes.
    """
    made = _made(Topology(topology), method, channels, gap, budget)
    if save is not None:
        made.save(save)
    report = _report(made)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _made(topology: Topology, method: str, channels: str, gap: float, budget: float | None) -> tables.Routes:
    if channels not in ("turns", "lash"):
        raise ValueError(f"--channels is turns or lash, not {channels!r}")
    if method == "balanced":
        return tables.balanced(topology, gap=gap, budget=budget, channels=channels)  # type: ignore[arg-type]
    if method == "shortest":
        made = tables.shortest(topology, channels=channels)  # type: ignore[arg-type]
    elif method == "up-down":
        made = tables.up_down(topology)
    else:
        raise ValueError(f"--method is balanced, shortest or up-down, not {method!r}")
    return made.with_bound(gap=gap, budget=budget)


def _report(made: tables.Routes) -> dict[str, Any]:
    ranks, counts = made.topology.ranks, made.counts
    pairs = max(1, ranks * (ranks - 1))
    return {
        "topology": made.topology.with_routing("minimal").spec,
        "ranks": ranks,
        "method": made.method,
        "seconds_for_a_byte_of_each_pair": made.load,
        "least_seconds": made.bound,
        "ratio": made.ratio,
        "paths_over_the_busiest_link": max(counts, default=0),
        "paths_over_the_idlest_link": min(counts, default=0),
        "mean_hops": sum(counts) / pairs,
        "most_hops": made.longest,
        "channels": made.channels,
        "deadlock_free": made.is_deadlock_free,
    }


def _print(report: dict[str, Any]) -> None:
    print_wrapped(f"{report['method']} routes on {report['topology']}, {report['ranks']} ranks")
    busiest, idlest = report["paths_over_the_busiest_link"], report["paths_over_the_idlest_link"]
    load, bound, ratio = report["seconds_for_a_byte_of_each_pair"], report["least_seconds"], report["ratio"]
    above = f"; {significant(100 * (ratio - 1))} % above the bound"
    rows = [
        ["busiest link", seconds_text(load), f"for a byte of each pair: {busiest} paths, the idlest {idlest}{above}"],
        ["any routes", seconds_text(bound), "at least: proven"],
        ["hops", significant(report["mean_hops"]), f"on average, {report['most_hops']} at most"],
        ["channels", str(report["channels"]), "no deadlock" if report["deadlock_free"] else "may deadlock"],
    ]
    print_table(["", "", ""], rows)
